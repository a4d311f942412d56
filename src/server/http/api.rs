//! The API: dispatch of requests to their endpoints.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Method as HttpMethod, Response, StatusCode};
use axum::routing::any;
use axum::{Extension, Router};
use serde_json::{Value, json};

use super::aside::aside;
use super::audit::Audited;
use super::body::{Bodies, HeldBody};
use super::reply::{self, Reply};
use super::users::{self, Of};
use super::{
    attempts, checks, connections, definitions, door, events, explain, export, graph, groups,
    import, lint, listings, login, messages, objects, parameters, policies, process, redrives,
    rights,
};
use crate::access::Peer;
use crate::base::Name;
use crate::base::limits::HTTP_READ_AT_ONCE_BYTES_MAX;
use crate::base::locks::{RankedMutex, rank};
use crate::broker::redrive::Steering;
use crate::management::http::json::whoami;
use crate::management::http::{
    Endpoint, Failure, Fields, Identity, Method, Params, Query, Route, RouteMatch,
    check_content_type, description, find, read_body,
};
use crate::server::Vhost;
use crate::server::shared::Shared;

/// The header with the reason for closing a connection.
const REASON: &str = "x-reason";

/// The state that every request is handled with, of the page too.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) shared: Arc<Shared>,
    pub(super) bodies: Arc<Bodies>,
}

/// One request with its authenticated user.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) identity: Identity,
    /// The address of the client.
    pub(super) peer: Peer,
    pub(super) params: Params,
    pub(super) query: Query,
    /// The parsed body, until it is taken; none: it was empty.
    body: RankedMutex<rank::HttpBody, Option<Value>>,
    /// The header X-Reason, if present.
    pub(super) reason: Option<String>,
}

/// The routes below `/api`.
pub(super) fn router(shared: &Arc<Shared>, bodies: &Arc<Bodies>) -> Router {
    let api = Api {
        shared: Arc::clone(shared),
        bodies: Arc::clone(bodies),
    };
    Router::new()
        .route("/api/{*path}", any(handle))
        .with_state(api)
}

async fn handle(
    State(api): State<Api>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let method = Method::from_name(head.method.as_str());
    let (route, params) = match find(method, head.uri.path()) {
        RouteMatch::Route(route, params) => (route, params),
        RouteMatch::WrongMethod(methods) => {
            let asked = head.method == HttpMethod::OPTIONS;
            let status = if asked {
                StatusCode::OK
            } else {
                StatusCode::METHOD_NOT_ALLOWED
            };
            return reply::allowed(status, &methods);
        }
        RouteMatch::Nothing => return reply::failure(&Failure::not_found()),
    };
    let identity = match login::identify(&api.shared, &peer, &head.headers).await {
        Ok(identity) => identity,
        Err(refused) => return reply::refused(&refused),
    };
    let audited = Audited::new(route, &peer, &identity, &params);
    let answered = async {
        admit(&api.shared, route, &identity, &params)?;
        let call = Call {
            shared: &api.shared,
            identity,
            peer,
            params,
            query: Query::parse(head.uri.query().unwrap_or_default())?,
            body: RankedMutex::default(),
            reason: head
                .headers
                .get(REASON)
                .map(|reason| String::from_utf8_lossy(reason.as_bytes()).into_owned()),
        };
        rights::check(route.endpoint, &call)?;
        if route.endpoint == Endpoint::ImportMessages {
            // Its body may be longer than memory.
            return import::import(&call, &head, body).await;
        }
        if route.endpoint == Endpoint::Events {
            return events::events(&call, &head.headers);
        }
        let room = api.read(route.endpoint, (&head, body), &call).await?;
        let answered = answer(route.endpoint, call).await;
        drop(room);
        answered
    };
    let answered = answered.await;
    audited.tell(&api.shared.node.environment.audit, &answered);
    let mut response = match answered {
        Ok(reply) => reply.response(api.shared.node.alarms.connections()),
        Err(failure) => {
            let mut refused = reply::failure(&failure);
            // The rest of the body is not waited for.
            if matches!(failure.status, 408 | 413) {
                door::close(&mut refused);
            }
            refused
        }
    };
    if route.endpoint.tells_declared() && !api.shared.declared_is_durable().await {
        reply::warn_of_undurable(&mut response);
    }
    response
}

/// What the page asks for, as one of the routes.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) body: Option<Value>,
}

/// Asks as a user who is authenticated already: with the rights, the audit log and the answer of the
/// route. Endpoints that read their body by themselves have none here.
pub(super) async fn ask(
    shared: &Arc<Shared>,
    (identity, peer): (&Identity, &Peer),
    asked: Asked<'_>,
) -> Result<Reply, Failure> {
    let RouteMatch::Route(route, params) = find(Some(asked.method), asked.path) else {
        return Err(Failure::not_found());
    };
    let audited = Audited::new(route, peer, identity, &params);
    let answered = async {
        admit(shared, route, identity, &params)?;
        let call = Call {
            shared,
            identity: identity.clone(),
            peer: peer.clone(),
            params,
            query: Query::parse(asked.query)?,
            body: RankedMutex::new(asked.body),
            reason: None,
        };
        rights::check(route.endpoint, &call)?;
        answer(route.endpoint, call).await
    };
    let answered = answered.await;
    audited.tell(&shared.node.environment.audit, &answered);
    if route.endpoint.tells_declared() {
        shared.declared_is_durable().await;
    }
    answered
}

/// Asks for events as a user who is authenticated already; of the headers count those that say where and in
/// what form they go on.
pub(super) fn ask_events(
    shared: &Arc<Shared>,
    (identity, peer): (&Identity, &Peer),
    (query, headers): (&str, &HeaderMap),
) -> Result<Reply, Failure> {
    let RouteMatch::Route(route, params) = find(Some(Method::Get), "/api/events") else {
        return Err(Failure::not_found());
    };
    admit(shared, route, identity, &params)?;
    let call = Call {
        shared,
        identity: identity.clone(),
        peer: peer.clone(),
        params,
        query: Query::parse(query)?,
        body: RankedMutex::new(None),
        reason: None,
    };
    rights::check(route.endpoint, &call)?;
    events::events(&call, headers)
}

impl Api {
    /// Reads and parses a body; its share of the bound is held until it is dropped.
    async fn read(
        &self,
        endpoint: Endpoint,
        (head, body): (&Parts, Body),
        call: &Call<'_>,
    ) -> Result<HeldBody<'_>, Failure> {
        if !hyper::body::Body::is_end_stream(&body) {
            let given = head.headers.get(CONTENT_TYPE);
            let given = given.map(|kind| kind.to_str().unwrap_or("?"));
            check_content_type(given, &door::source(head))?;
        }
        let bytes_max = endpoint.body_bytes_max();
        let mut held = self.bodies.read(&head.headers, body, bytes_max).await?;
        // The body of these is ignored.
        if matches!(
            head.method,
            HttpMethod::GET | HttpMethod::HEAD | HttpMethod::DELETE
        ) {
            return Ok(held);
        }
        let bytes = std::mem::take(&mut held.bytes);
        let values_max = endpoint.body_values_max();
        let mut kept = held.charge();
        let (said, kept) = if bytes.len() <= HTTP_READ_AT_ONCE_BYTES_MAX {
            (read_body(&bytes, values_max, &mut kept)?, kept)
        } else {
            // The memory of a refused body counts until it is freed, which takes its time.
            let read = move || Ok((read_body(&bytes, values_max, &mut kept)?, kept));
            aside(read).await?
        };
        held.says(kept);
        *call.body.lock() = said;
        Ok(held)
    }
}

/// Checks that the user may use the route, and that the vhost of its path exists.
fn admit(
    shared: &Shared,
    route: &Route,
    identity: &Identity,
    params: &Params,
) -> Result<(), Failure> {
    identity.check(route.access)?;
    if !route.access.names_vhost() {
        return Ok(());
    }
    let vhost = params.get("vhost");
    let registry = shared.node.environment.registry();
    if registry.vhost(&vhost).is_none() {
        return Err(Failure::not_found());
    }
    identity.may_enter(identity.enters(&registry, &vhost))
}

#[allow(clippy::too_many_lines, reason = "a table: one arm for each endpoint")]
async fn answer(endpoint: Endpoint, call: Call<'_>) -> Result<Reply, Failure> {
    match endpoint {
        Endpoint::Overview => listings::overview(&call).await,
        Endpoint::WhoAmI => Ok(Reply::Json(whoami(&call.identity))),
        Endpoint::OpenApi => Ok(Reply::Json(description())),
        Endpoint::Definitions => definitions::export(&call, None).await,
        Endpoint::ImportDefinitions => definitions::import(&call, None).await,
        Endpoint::VhostDefinitions => {
            let vhost = call.params.get("vhost");
            definitions::export(&call, Some(vhost)).await
        }
        Endpoint::ImportVhostDefinitions => {
            let vhost = call.params.get("vhost");
            definitions::import(&call, Some(vhost)).await
        }
        Endpoint::Lint
        | Endpoint::LintVhost
        | Endpoint::LintDefinitions
        | Endpoint::LintAllDefinitions => lint::lint(&call, endpoint).await,
        Endpoint::Graph => graph::graph(&call).await,
        Endpoint::Queues | Endpoint::QueuesDetailed => {
            listings::queues(&call, call.visible_vhosts()).await
        }
        Endpoint::VhostQueues => listings::queues(&call, vec![call.vhost()?]).await,
        Endpoint::Queue => listings::queue(&call).await,
        Endpoint::PutQueue => objects::put_queue(&call).await,
        Endpoint::DeleteQueue => objects::delete_queue(&call).await,
        Endpoint::PurgeQueue => objects::purge_queue(&call).await,
        Endpoint::Exchanges => listings::exchanges(&call, call.visible_vhosts()).await,
        Endpoint::VhostExchanges => listings::exchanges(&call, vec![call.vhost()?]).await,
        Endpoint::Exchange => objects::exchange(&call),
        Endpoint::PutExchange => objects::put_exchange(&call).await,
        Endpoint::DeleteExchange => objects::delete_exchange(&call).await,
        Endpoint::Bindings => listings::bindings(&call, call.visible_vhosts()).await,
        Endpoint::VhostBindings => listings::bindings(&call, vec![call.vhost()?]).await,
        Endpoint::GetMessages => messages::get(&call).await,
        Endpoint::BrowseMessages => messages::browse(&call).await,
        Endpoint::ExportMessages => export::export(&call),
        Endpoint::Events | Endpoint::ImportMessages => {
            Err(Failure::bad_request("the body was not read"))
        }
        Endpoint::DiscardMessage => messages::discard(&call).await,
        Endpoint::RetryDelayed => messages::retry(&call).await,
        Endpoint::Groups => groups::groups(&call).await,
        Endpoint::PutGroupNote => groups::put_note(&call).await,
        Endpoint::DeleteGroupNote => groups::delete_note(&call).await,
        Endpoint::ExplainMessage => explain::explain(&call).await,
        Endpoint::Publish => messages::publish(&call).await,
        Endpoint::QueueBindings => objects::bindings_to_queue(&call).await,
        Endpoint::BindingsFrom => objects::bindings_from(&call).await,
        Endpoint::BindingsTo => objects::bindings_to(&call).await,
        Endpoint::BindingsBetween => objects::bindings_between(&call).await,
        Endpoint::Bind => objects::bind(&call).await,
        Endpoint::Binding => objects::binding(&call).await,
        Endpoint::Unbind => objects::unbind(&call).await,
        Endpoint::Policies => policies::list(&call, false, call.visible_vhosts()).await,
        Endpoint::VhostPolicies => policies::list(&call, false, vec![call.vhost()?]).await,
        Endpoint::Policy => policies::get(&call, false),
        Endpoint::PutPolicy => policies::put(&call, false).await,
        Endpoint::DeletePolicy => policies::delete(&call, false).await,
        Endpoint::OperatorPolicies => policies::list(&call, true, call.visible_vhosts()).await,
        Endpoint::VhostOperatorPolicies => policies::list(&call, true, vec![call.vhost()?]).await,
        Endpoint::OperatorPolicy => policies::get(&call, true),
        Endpoint::PutOperatorPolicy => policies::put(&call, true).await,
        Endpoint::DeleteOperatorPolicy => policies::delete(&call, true).await,
        Endpoint::ClusterName => Ok(checks::cluster_name(&call)),
        Endpoint::Nodes => checks::nodes(&call),
        Endpoint::Node => checks::node(&call),
        Endpoint::NodeMemory => checks::node_memory(&call),
        Endpoint::Environment => process::environment(&call),
        Endpoint::LogLevel => process::log_level(&call),
        Endpoint::PutLogLevel => process::put_log_level(&call),
        // All leaders are on this node.
        Endpoint::Rebalance => Ok(Reply::Done),
        Endpoint::Version => Ok(checks::version()),
        Endpoint::HealthAlarms | Endpoint::HealthLocalAlarms => Ok(checks::alarms(&call)),
        Endpoint::HealthVhosts => Ok(checks::virtual_hosts(&call)),
        Endpoint::HealthPort => checks::port_listener(&call),
        Endpoint::HealthProtocol => Ok(checks::protocol_listener(&call)),
        Endpoint::HealthQuorum => Ok(checks::quorum_critical()),
        Endpoint::HealthCertificates => checks::certificate_expiration(&call),
        Endpoint::HealthInService | Endpoint::HealthReady => Ok(checks::in_service(&call)),
        Endpoint::Aliveness => messages::aliveness(&call).await,
        Endpoint::LoginAttempts => attempts::by_protocol(&call),
        Endpoint::ResetLoginAttempts => attempts::reset_protocols(&call),
        Endpoint::LoginSources => attempts::by_source(&call),
        Endpoint::ResetLoginSources => attempts::reset_sources(&call),
        Endpoint::Auth => Ok(Reply::Json(json!({ "oauth_enabled": false }))),
        Endpoint::FeatureFlags
        | Endpoint::DeprecatedFeatures
        | Endpoint::Extensions
        | Endpoint::Channels
        | Endpoint::VhostChannels
        | Endpoint::ConnectionChannels => listings::none(&call),
        Endpoint::Connections | Endpoint::UserConnections | Endpoint::VhostConnections => {
            connections::list(&call).await
        }
        Endpoint::CloseUserConnections => Ok(connections::close_all_of(&call)),
        Endpoint::Connection => connections::get(&call),
        Endpoint::CloseConnection => connections::close(&call),
        Endpoint::Sessions => connections::sessions(&call).await,
        Endpoint::Consumers => connections::consumers(&call, call.visible_vhosts()).await,
        Endpoint::VhostConsumers => connections::consumers(&call, vec![call.vhost()?]).await,
        Endpoint::Vhosts => users::vhosts(&call).await,
        Endpoint::Vhost => users::vhost(&call).await,
        Endpoint::PutVhost => users::put_vhost(&call).await,
        Endpoint::DeleteVhost => users::delete_vhost(&call).await,
        Endpoint::Users => users::users(&call, false).await,
        Endpoint::UsersWithoutPermissions => users::users(&call, true).await,
        Endpoint::User => users::user(&call),
        Endpoint::PutUser => users::put_user(&call).await,
        Endpoint::DeleteUser => users::delete_user(&call).await,
        Endpoint::DeleteUsers => users::delete_users(&call).await,
        Endpoint::Permissions => users::permissions(&call, Of::All).await,
        Endpoint::VhostPermissions => users::permissions(&call, Of::Vhost).await,
        Endpoint::UserPermissions => users::permissions(&call, Of::User).await,
        Endpoint::Permission => users::permissions(&call, Of::UserInVhost).await,
        Endpoint::PutPermissions => users::put_permissions(&call).await,
        Endpoint::DeletePermissions => users::delete_permissions(&call).await,
        Endpoint::TopicPermissions => users::topic_permissions(&call, Of::All).await,
        Endpoint::VhostTopicPermissions => users::topic_permissions(&call, Of::Vhost).await,
        Endpoint::UserTopicPermissions => users::topic_permissions(&call, Of::User).await,
        Endpoint::TopicPermission => users::topic_permissions(&call, Of::UserInVhost).await,
        Endpoint::PutTopicPermissions => users::put_topic_permissions(&call).await,
        Endpoint::DeleteTopicPermissions | Endpoint::DeleteTopicPermission => {
            users::delete_topic_permissions(&call).await
        }
        Endpoint::VhostLimits => users::vhost_limits(&call, Of::All),
        Endpoint::VhostLimit => users::vhost_limits(&call, Of::Vhost),
        Endpoint::PutVhostLimit => users::put_vhost_limit(&call).await,
        Endpoint::DeleteVhostLimit => users::delete_vhost_limit(&call).await,
        Endpoint::UserLimits => users::user_limits(&call, Of::All),
        Endpoint::UserLimit => users::user_limits(&call, Of::User),
        Endpoint::PutUserLimit => users::put_user_limit(&call).await,
        Endpoint::DeleteUserLimit => users::delete_user_limit(&call).await,
        Endpoint::Redrives => redrives::list(&call, call.visible_vhosts()).await,
        Endpoint::VhostRedrives => redrives::list(&call, vec![call.vhost()?]).await,
        Endpoint::Redrive => redrives::get(&call),
        Endpoint::PutRedrive => redrives::put(&call).await,
        Endpoint::DryRunRedrive => redrives::dry_run(&call).await,
        Endpoint::PauseRedrive => redrives::steer(&call, Steering::Pause).await,
        Endpoint::ResumeRedrive => redrives::steer(&call, Steering::Resume).await,
        Endpoint::CancelRedrive => redrives::steer(&call, Steering::Cancel).await,
        Endpoint::DeleteRedrive => redrives::forget(&call).await,
        Endpoint::Parameters | Endpoint::ComponentParameters | Endpoint::VhostParameters => {
            parameters::list(&call).await
        }
        Endpoint::Parameter => parameters::get(&call),
        Endpoint::PutParameter => parameters::put(&call).await,
        Endpoint::DeleteParameter => parameters::delete(&call).await,
        Endpoint::GlobalParameters => parameters::global_list(&call).await,
        Endpoint::GlobalParameter => parameters::global_get(&call),
        Endpoint::PutGlobalParameter => parameters::global_put(&call).await,
        Endpoint::DeleteGlobalParameter => parameters::global_delete(&call).await,
    }
}

impl Call<'_> {
    /// Takes the parsed body; none: it is empty, or was taken.
    pub(super) fn take_body(&self) -> Option<Value> {
        self.body.lock().take()
    }

    /// Takes the fields of the body.
    pub(super) fn fields(&self) -> Result<Fields, Failure> {
        Fields::of_body(self.take_body())
    }

    /// Takes the fields of the body of a route that RabbitMQ has: it ignores strange ones, which its
    /// clients send, but none of these is mistyped.
    pub(super) fn fields_such_as(&self, known: &[&str]) -> Result<Fields, Failure> {
        let fields = self.fields()?;
        fields.refuse_mistyped(known)?;
        Ok(fields)
    }

    /// The vhosts whose objects the user sees in listings, by name.
    pub(super) fn visible_vhosts(&self) -> Vec<Arc<Vhost>> {
        let sees_all = self.identity.is_monitor();
        let names: Vec<Name> = {
            let registry = self.shared.node.environment.registry();
            let vhosts = registry.vhosts().map(|(name, _)| name);
            let seen = |name: &&Name| sees_all || self.identity.enters(&registry, name);
            vhosts.filter(seen).cloned().collect()
        };
        let vhosts = names
            .iter()
            .filter_map(|name| self.shared.node.vhosts.get(name));
        vhosts.collect()
    }
}
