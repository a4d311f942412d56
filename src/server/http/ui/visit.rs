//! One request of the page: who asks, and asking the routes for it.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE, HOST};
use axum::http::request::Parts;
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::is_fragment;
use crate::access::{Peer, Right, check_place};
use crate::gateway::Asked as AuditedRequest;
use crate::management::http::{Access, Failure, Identity, Method, Query};
use crate::page::frame::{Frame, Place, Theme};
use crate::page::show::Text;
use crate::server::http::api::{Asked, ask, ask_events};
use crate::server::http::login::{self, Refused};
use crate::server::http::reply::Reply;
use crate::server::page_sessions::Holder;
use crate::server::shared::Shared;

/// The cookie with the theme.
pub(super) const THEME_COOKIE: &str = "coroner-theme";
/// The header with the token of a session.
const TOKEN: &str = "x-coroner-token";

/// An authenticated user of the page.
pub(super) struct Visitor {
    pub(super) identity: Identity,
    /// The token of the session; none: Basic authentication, which wins over a cookie.
    pub(super) token: Option<String>,
}

impl Visitor {
    /// Authenticates a request.
    pub(super) async fn of(
        shared: &Arc<Shared>,
        peer: &Peer,
        head: &Parts,
    ) -> Result<Self, Failure> {
        if head.headers.contains_key(AUTHORIZATION) {
            let identity = login::identify(shared, peer, &head.headers).await;
            let identity = identity.map_err(|refused| match refused {
                Refused::Wrong(why) => why,
                Refused::Nobody => Failure::unauthenticated(),
            })?;
            return Ok(Self {
                identity,
                token: None,
            });
        }
        let name = cookie_name(peer, &head.headers);
        let cookie = cookie(&head.headers, &name).filter(|_| may_log_in(shared, peer));
        let registry = shared.node.environment.registry();
        let now = shared.clock.now();
        let found = cookie.and_then(|cookie| shared.page_sessions.find(now, cookie, &registry));
        let (holder, token) = found.ok_or_else(Failure::unauthenticated)?;
        let identity = match holder {
            Holder::User(user) => {
                check_place(&user, peer).map_err(|_| Failure::unauthenticated())?;
                Identity::new(&user)
            }
            Holder::Bearer(grant) => Identity::bearer(&grant),
        };
        Ok(Self {
            identity,
            token: Some(token),
        })
    }
}

/// Whether a password, or a cookie in its place, may come from there: nobody on the way reads it.
pub(super) fn may_log_in(shared: &Shared, peer: &Peer) -> bool {
    shared.settings.plain_without_tls || !peer.is_readable_by_others()
}

/// The name of the cookie: browsers do not tell the ports of one host apart.
pub(super) fn cookie_name(peer: &Peer, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .map(|(_, port)| port);
    let port = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let prefix = if peer.tls.is_some() { "__Host-" } else { "" };
    match port {
        Some(port) => format!("{prefix}coroner-{port}"),
        None => format!("{prefix}coroner"),
    }
}

/// The value of a cookie. [RFC 6265 5.4]
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let fields = headers.get_all(COOKIE).iter();
    let pairs = fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// The theme that somebody chose.
pub(super) fn theme(headers: &HeaderMap) -> Theme {
    cookie(headers, THEME_COOKIE).map_or(Theme::System, Theme::from_word)
}

/// An answer that is waited for. Boxed: pages ask several times each, and every wait of another type would
/// be code of its own.
pub(super) type Answering<'a> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'a>>;

/// One request of an authenticated user.
pub(super) struct Visit<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) peer: &'a Peer,
    pub(super) visitor: Visitor,
    pub(super) query: Query,
    pub(super) path: &'a str,
    here: String,
    theme: Theme,
    is_fragment: bool,
}

impl<'a> Visit<'a> {
    /// A visit with the query of its request.
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        (peer, visitor): (&'a Peer, Visitor),
        head: &'a Parts,
        query: Query,
    ) -> Self {
        let here = head
            .uri
            .path_and_query()
            .map_or("/ui/", |here| here.as_str());
        Self {
            shared,
            peer,
            visitor,
            query,
            path: head.uri.path(),
            here: here.to_owned(),
            theme: theme(&head.headers),
            is_fragment: is_fragment(&head.headers),
        }
    }

    /// The user that asks.
    pub(super) const fn identity(&self) -> &Identity {
        &self.visitor.identity
    }

    /// Checks that a request with a session has its token.
    pub(super) fn check_token(&self, head: &Parts, fields: &Query) -> Result<(), Failure> {
        let Some(token) = &self.visitor.token else {
            return Ok(());
        };
        let header = head
            .headers
            .get(TOKEN)
            .and_then(|value| value.to_str().ok());
        let given = header.or_else(|| fields.get("token")).unwrap_or_default();
        if bool::from(given.as_bytes().ct_eq(token.as_bytes())) {
            return Ok(());
        }
        let reason = "the token of the session is missing or wrong: load the page again";
        let asked = AuditedRequest {
            user: &self.identity().name,
            peer: self.peer,
            protocol: "http",
            vhost: "",
            action: head.method.as_str(),
            object: self.path,
        };
        self.shared.node.environment.audit.refused(&asked, &reason);
        Err(Failure::forbidden(reason))
    }

    /// A parameter of the query; empty: not given. Not inlined: pages read dozens of them.
    #[inline(never)]
    pub(super) fn text(&self, name: &str) -> Text {
        Text::new(self.query.get(name).unwrap_or_default())
    }

    /// Asks a route. A path that ends without a name would lead to the list of all.
    pub(super) async fn ask(&self, asked: Asked<'_>) -> Result<Reply, Failure> {
        if asked.path.ends_with('/') {
            return Err(match asked.method {
                Method::Get => Failure::not_found(),
                Method::Put | Method::Post | Method::Delete => {
                    Failure::bad_request("a name is missing")
                }
            });
        }
        // The tags are looked at by the route.
        ask(self.shared, (self.identity(), self.peer), asked).await
    }

    /// Asks for events; of the headers count those that say where and in what form they go on.
    pub(super) fn ask_events(&self, query: &str, headers: &HeaderMap) -> Result<Reply, Failure> {
        ask_events(self.shared, (self.identity(), self.peer), (query, headers))
    }

    /// The answer of a route that is read.
    pub(super) fn get<'b>(&'b self, path: &'b str, query: &'b str) -> Answering<'b> {
        self.answer(Asked {
            method: Method::Get,
            path,
            query,
            body: None,
        })
    }

    /// Asks a route that changes something; its answer.
    pub(super) fn send<'b>(
        &'b self,
        method: Method,
        path: &'b str,
        body: Option<Value>,
    ) -> Answering<'b> {
        self.answer(Asked {
            method,
            path,
            query: "",
            body,
        })
    }

    fn answer<'b>(&'b self, asked: Asked<'b>) -> Answering<'b> {
        Box::pin(async move { self.ask(asked).await?.into_value().await })
    }

    /// Whether the user has a right on an object: what it may not do is not offered.
    pub(super) fn may(&self, vhost: &str, right: Right, name: &str) -> bool {
        let registry = self.shared.node.environment.registry();
        let permissions = self.identity().permissions(&registry, vhost);
        permissions.is_some_and(|permissions| permissions.allow(right, name))
    }

    /// The vhosts in which the user has each of these rights on some name.
    pub(super) fn vhosts_with(&self, rights: &[Right]) -> Vec<Text> {
        let registry = self.shared.node.environment.registry();
        let identity = self.identity();
        let has = |vhost: &Text| {
            let permissions = identity.permissions(&registry, vhost.raw());
            permissions.is_some_and(|permissions| {
                rights.iter().all(|right| permissions.allow_some(*right))
            })
        };
        let mut vhosts = self.vhosts();
        vhosts.retain(has);
        vhosts
    }

    /// The vhosts that the user may enter.
    pub(super) fn vhosts(&self) -> Vec<Text> {
        let registry = self.shared.node.environment.registry();
        let identity = self.identity();
        let vhosts = registry
            .vhosts()
            .filter(|(name, _)| identity.is_monitor() || identity.enters(&registry, name));
        vhosts
            .map(|(name, _)| Text::new(name.to_string()))
            .collect()
    }

    /// What is around the page.
    pub(super) fn frame(&self, title: &str, place: Place) -> Frame {
        let identity = self.identity();
        Frame {
            title: title.to_owned(),
            place,
            user: Text::new(identity.name.to_string()),
            is_administrator: identity.is_administrator(),
            is_policymaker: identity.is_policymaker(),
            is_monitor: identity.is_monitor(),
            token: self.visitor.token.clone().unwrap_or_default(),
            theme: self.theme,
            node: Text::new(self.shared.settings.node_name.clone()),
            now: self.shared.clock.now().wall.0,
            here: self.here.clone(),
            is_fragment: self.is_fragment,
            done: self.query.get("done").and_then(done),
            every_ms: None,
        }
    }
}

/// Checks that a user may use the page at all.
pub(super) fn check_tags(identity: &Identity) -> Result<(), Failure> {
    identity.check(Access::Management)
}

/// What a page says that somebody is led to after an action. Words of links are not shown.
fn done(word: &str) -> Option<&'static str> {
    Some(match word {
        "discarded" => "The message is discarded.",
        "redriven" => "The redrive has begun.",
        "paused" => "The redrive is paused.",
        "resumed" => "The redrive goes on.",
        "cancelled" => "The redrive is cancelled.",
        "declared" => "It is declared.",
        "deleted" => "It is deleted.",
        "purged" => "The queue is purged.",
        "published" => "The message is published, and routed.",
        "set" => "It is set.",
        "closed" => "The connection is being closed.",
        "noted" => "The note is as you left it.",
        "retried" => "Delayed messages are ready now.",
        _ => return None,
    })
}
