//! Routes to connections, their sessions and links, and consumers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::api::Call;
use super::aside::aside;
use super::listings::{Objects, listed};
use super::reply::Reply;
use super::work::{failed, unless_deleted};
use crate::base::limits::LISTING_SLICE;
use crate::base::{ConnectionId, Name};
use crate::broker::{ConsumerInfo, ConsumerPlace};
use crate::gateway::{LinkInfo, LinkPurpose, SessionInfo};
use crate::management::http::json::connection::{self, ChannelPlace};
use crate::management::http::json::stats::{self, Octets};
use crate::management::http::json::value::to_json;
use crate::management::http::{Failure, Identity, Listing};
use crate::server::Vhost;
use crate::server::handle::ConnectionHandle;
use crate::server::shared::Shared;
use crate::server::yielding::give_way;

/// Time that a connection has to describe its sessions.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a reason that a peer is told, at most.
const REASON_BYTES_MAX: usize = 256;

/// The JSON of a connection. Those that are not open yet have no user and vhost.
fn describe(shared: &Shared, handle: &ConnectionHandle) -> Value {
    let (peer, local) = (handle.peer.address, handle.local());
    let tls = handle.peer.tls.as_ref();
    let info = handle.info();
    let mut described = json!({
        "name": handle.name(),
        "node": shared.settings.node_name,
        "type": "network",
        "protocol": "AMQP 1-0",
        "state": handle.state(),
        "user": info.map(|info| info.user.as_str()),
        "vhost": info.map(|info| info.vhost.as_str()),
        "container_id": info.map(|info| info.container.as_str()),
        "client_properties": info.map_or_else(|| json!({}), |info| to_json(&info.properties)),
        "auth_mechanism": info.map_or("", |info| &info.mechanism),
        "frame_max": info.map_or(0, |info| info.frame_max),
        "channel_max": info.map_or(0, |info| info.channel_max),
        "timeout": info.map_or(0, |info| info.idle_time_out_ms / 1000),
        "channels": handle.sessions.load(Ordering::Relaxed),
        "connected_at": handle.connected_at.0,
        "host": local.ip().to_string(),
        "port": local.port(),
        "peer_host": peer.ip().to_string(),
        "peer_port": peer.port(),
        "peer_cert_issuer": null,
        "peer_cert_subject": tls.and_then(|tls| tls.certificate_user.as_deref()),
        "peer_cert_validity": null,
        "ssl": tls.is_some(),
        "ssl_protocol": tls.map(|tls| tls.version),
        "ssl_cipher": tls.map(|tls| tls.cipher),
        "ssl_hash": null,
        "ssl_key_exchange": null,
    });
    if let Value::Object(fields) = &mut described {
        fields.extend(stats::octets(Octets {
            counts: [&handle.received, &handle.sent].map(|count| count.load(Ordering::Relaxed)),
            rates: shared.rates.octets.last().of(&handle.id),
        }));
    }
    described
}

impl Call<'_> {
    /// Connections that the user sees: monitors see all, others their own.
    pub(super) fn visible_connections(&self) -> Vec<Arc<ConnectionHandle>> {
        let mut handles = self.shared.handles();
        handles.retain(|handle| is_seen(handle, &self.identity));
        handles
    }

    /// Whether the user sees a consumer, with its connection's name and address: monitors see all,
    /// others their own (as RabbitMQ).
    pub(super) fn consumer_sight(&self) -> ConsumerSight {
        ConsumerSight {
            shared: Arc::clone(self.shared),
            identity: self.identity.clone(),
        }
    }

    /// The connection in the path.
    fn handle(&self) -> Result<Arc<ConnectionHandle>, Failure> {
        let name = self.params.get("name");
        let mut handles = self.shared.handles().into_iter();
        let handle = handles.find(|handle| handle.name() == *name);
        let handle = handle.ok_or_else(Failure::not_found)?;
        if is_seen(&handle, &self.identity) {
            return Ok(handle);
        }
        Err(Failure::not_authorised(
            "User not authorised to access object",
        ))
    }
}

/// `GET /api/connections`, those in a vhost, those of a user.
pub(super) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let (vhost, user) = (call.params.get("vhost"), call.params.get("user"));
    let (handles, shared) = (call.visible_connections(), Arc::clone(call.shared));
    let kept = call.kept();
    aside(move || {
        let handles = handles.iter().filter(|handle| {
            let info = handle.info();
            let in_vhost = info.is_some_and(|info| info.vhost == vhost);
            let of_user = info.is_some_and(|info| info.user == user);
            (vhost.is_empty() || in_vhost) && (user.is_empty() || of_user)
        });
        let described = handles.map(|handle| describe(&shared, handle));
        listed(&listing, &kept, described)
    })
    .await
}

/// `GET /api/connections/NAME`.
pub(super) fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let handle = call.handle()?;
    let listing = Listing::parse(&call.query)?;
    Ok(Reply::Json(listing.project(describe(call.shared, &handle))))
}

/// `DELETE /api/connections/NAME`; the peer is told the reason that the header X-Reason gives.
pub(super) fn close(call: &Call<'_>) -> Result<Reply, Failure> {
    let handle = call.handle()?;
    let reason = call
        .reason
        .as_deref()
        .unwrap_or("Closed via management plugin");
    let cut = (0..=reason.len().min(REASON_BYTES_MAX)).rev();
    let end = cut.into_iter().find(|end| reason.is_char_boundary(*end));
    let reason = reason.get(..end.unwrap_or(0)).unwrap_or_default();
    tracing::info!(connection = handle.name(), reason, "closed over HTTP");
    handle.ask_to_close(reason.to_owned());
    Ok(Reply::Done)
}

/// `DELETE /api/connections/username/USER`.
pub(super) fn close_all_of(call: &Call<'_>) -> Reply {
    let user = call.params.get("user");
    for handle in call.visible_connections() {
        if handle.info().is_some_and(|info| info.user == user) {
            handle.ask_to_close("Closed via management plugin".to_owned());
        }
    }
    Reply::Done
}

/// `GET /api/connections/NAME/sessions`.
pub(super) async fn sessions(call: &Call<'_>) -> Result<Reply, Failure> {
    let handle = call.handle()?;
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, handle.ask_sessions());
    let Ok(Ok(sessions)) = asked.await else {
        return Err(Failure::not_found());
    };
    let vhost = handle.info().map(|info| info.vhost.clone());
    let vhost = vhost.and_then(|vhost| call.shared.node.vhosts.get(&vhost));
    let sessions = sessions
        .iter()
        .map(|session| describe_session(session, vhost.as_deref()));
    Ok(Reply::Json(sessions.collect()))
}

fn describe_session(session: &SessionInfo, vhost: Option<&Vhost>) -> Value {
    let incoming = session.links.iter().filter_map(describe_incoming);
    let outgoing = session
        .links
        .iter()
        .filter_map(|link| describe_outgoing(link, vhost));
    json!({
        "channel_number": session.channel,
        "incoming_links": incoming.collect::<Vec<_>>(),
        "outgoing_links": outgoing.collect::<Vec<_>>(),
    })
}

fn describe_incoming(link: &LinkInfo) -> Option<Value> {
    let target = match &link.purpose {
        LinkPurpose::Publish(Some((exchange, key))) if exchange.is_empty() => {
            Some(format!("/queues/{}", key.percent_encoded()))
        }
        LinkPurpose::Publish(Some((exchange, key))) if key.is_empty() => {
            Some(format!("/exchanges/{}", exchange.percent_encoded()))
        }
        LinkPurpose::Publish(Some((exchange, key))) => Some(format!(
            "/exchanges/{}/{}",
            exchange.percent_encoded(),
            key.percent_encoded()
        )),
        LinkPurpose::Publish(None) | LinkPurpose::Transactions => None,
        LinkPurpose::Requests => Some("/management".to_owned()),
        LinkPurpose::Consume { .. } | LinkPurpose::Responses => return None,
    };
    Some(json!({
        "handle": link.handle,
        "link_name": &*link.name,
        "target_address": target,
        "credit": link.credit,
    }))
}

fn describe_outgoing(link: &LinkInfo, vhost: Option<&Vhost>) -> Option<Value> {
    let (queue, settled, source) = match &link.purpose {
        LinkPurpose::Consume { consumer, settled } => {
            let found = vhost.and_then(|vhost| {
                let seen = vhost.look(|core| core.consumer_info(*consumer));
                seen.ok().flatten()
            });
            let queue = found.map(|found| found.queue);
            let source = queue
                .as_ref()
                .map(|queue| format!("/queues/{}", queue.percent_encoded()));
            (queue, *settled, source)
        }
        LinkPurpose::Responses => (None, true, Some("/management".to_owned())),
        LinkPurpose::Publish(_) | LinkPurpose::Requests | LinkPurpose::Transactions => return None,
    };
    Some(json!({
        "handle": link.handle,
        "link_name": &*link.name,
        "source_address": source,
        "queue_name": queue.as_deref(),
        "send_settled": settled,
        "credit": link.credit,
    }))
}

/// `GET /api/consumers` and `GET /api/consumers/VHOST`.
pub(super) async fn consumers(call: &Call<'_>, vhosts: Vec<Arc<Vhost>>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let (sight, kept) = (call.consumer_sight(), call.kept());
    aside(move || {
        let mut all = Objects::new(&listing, &kept);
        for vhost in vhosts {
            let mut after: Option<ConsumerPlace> = None;
            loop {
                let seen = vhost.look(|core| core.consumers_after(after.as_ref(), LISTING_SLICE));
                let Some((slice, last)) = unless_deleted(&vhost, seen).map_err(failed)? else {
                    break;
                };
                all.extend(sight.seen(vhost.name(), &slice));
                after = last;
                if after.is_none() {
                    break;
                }
                give_way();
            }
        }
        all.reply()
    })
    .await
}

/// The filter for the consumers that a caller sees: monitors all, others their own.
pub(super) struct ConsumerSight {
    shared: Arc<Shared>,
    identity: Identity,
}

impl ConsumerSight {
    /// Those of a vhost's consumers that the caller sees, as JSON.
    pub(super) fn seen<'a>(
        &'a self,
        vhost: &'a Name,
        consumers: &'a [ConsumerInfo],
    ) -> impl Iterator<Item = Value> + 'a {
        let seen = consumers.iter().filter(move |consumer| {
            let handle = self.shared.handle(consumer.connection);
            match handle {
                Some(handle) => is_seen(&handle, &self.identity),
                None => self.identity.is_monitor(), // it has just ended
            }
        });
        seen.map(move |consumer| {
            let place = place(&self.shared, consumer.connection);
            let here = (&*self.shared.settings.node_name, &**vhost);
            connection::consumer(here, consumer, &place)
        })
    }
}

/// Whether somebody sees a connection; one that is not open yet is nobody's.
fn is_seen(handle: &ConnectionHandle, identity: &Identity) -> bool {
    match handle.info() {
        Some(info) => identity.sees_of(&info.user, info.by_token),
        None => identity.is_monitor(),
    }
}

/// Name, user and address of a consumer's connection.
fn place(shared: &Shared, connection: ConnectionId) -> ChannelPlace {
    let handle = shared.handle(connection);
    ChannelPlace {
        connection: handle
            .as_ref()
            .map(|handle| handle.name())
            .unwrap_or_default(),
        user: handle
            .as_ref()
            .and_then(|handle| handle.info())
            .map(|info| info.user.to_string())
            .unwrap_or_default(),
        peer: handle.map(|handle| handle.peer.address),
    }
}
