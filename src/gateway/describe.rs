//! Descriptions of connections, sessions and links, for management.

use super::Gateway;
use super::handshake::Login;
use super::links::LinkKind;
use super::publisher::Destination;
use crate::base::{ConsumerId, Name, shared_text_bytes};
use crate::broker::value_bytes;
use crate::wire::Value;
use crate::wire::performative::Open;

/// The description of an open connection.
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectionInfo {
    /// The authenticated user.
    pub user: Name,
    /// Whether it logged in with a token: then it is not the user of the registry with that name.
    pub by_token: bool,
    /// The vhost that the connection is in.
    pub vhost: Name,
    /// The peer's container-id.
    pub container: Name,
    /// The peer's connection properties, a map: product, version and the like.
    pub properties: Value,
    /// The SASL mechanism of the login.
    pub mechanism: Name,
    /// The largest frame that the peer accepts, in bytes.
    pub frame_max: u32,
    /// The peer's highest channel number.
    pub channel_max: u16,
    /// The idle timeout that the peer announced, in milliseconds; 0: none.
    pub idle_time_out_ms: u32,
}

impl ConnectionInfo {
    /// Estimated memory, in bytes, counted twice: it is kept here and in the list of connections.
    pub(super) fn kept_bytes(&self) -> u64 {
        let container = 2 * shared_text_bytes(self.container.len());
        container + 2 * (size_of::<Self>() as u64 + value_bytes(&self.properties))
    }

    /// Built from the peer's `open` and its login.
    pub(super) fn new(open: &Open, (login, vhost): (&Login, &Name), mechanism: &Name) -> Self {
        let properties = open.properties.clone().unwrap_or_default().to_value();
        Self {
            user: login.user.clone(),
            by_token: login.has_token(),
            vhost: vhost.clone(),
            container: Name::from(open.container_id.as_str()),
            properties,
            mechanism: mechanism.clone(),
            frame_max: open.max_frame_size.0,
            channel_max: open.channel_max.0,
            idle_time_out_ms: open.idle_time_out.unwrap_or(0),
        }
    }
}

/// The description of a session and its links.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionInfo {
    /// The broker's channel number.
    pub channel: u16,
    /// The links of the session.
    pub links: Vec<LinkInfo>,
}

/// The description of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkInfo {
    /// The broker's handle.
    pub handle: u32,
    /// The name of the link.
    pub name: Name,
    /// The direction of messages, and the node they come from or go to.
    pub purpose: LinkPurpose,
    /// Credit left to the sending side, in messages.
    pub credit: u32,
}

/// The purpose of a link.
#[derive(Clone, PartialEq, Debug)]
pub enum LinkPurpose {
    /// The peer publishes, to this exchange with this key; none: each message has its own address
    /// (anonymous terminus).
    Publish(Option<(Name, Name)>),
    /// The peer consumes from a queue.
    Consume {
        /// The consumer's id in the core.
        consumer: ConsumerId,
        /// Whether deliveries are settled when sent.
        settled: bool,
    },
    /// The peer declares and discharges transactions.
    Transactions,
    /// The peer sends management requests, or tokens.
    Requests,
    /// The peer receives answers to these.
    Responses,
}

impl Gateway {
    /// The description of the connection, once it is open.
    pub fn info(&self) -> Option<&ConnectionInfo> {
        self.info.as_deref()
    }

    /// The descriptions of its sessions by channel, each with its links.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let mut handles: Vec<_> = self.sessions.keys().copied().collect();
        handles.sort_by_key(|session| session.channel());
        let of = |session| {
            let links = self
                .links
                .iter()
                .filter(move |link| link.session == session);
            links.map(|link| {
                let purpose = match &link.kind {
                    LinkKind::Publisher(publisher) => LinkPurpose::Publish(match &publisher.to {
                        Destination::Fixed { route, .. } => {
                            Some((route.exchange.clone(), Name::from(route.first_key())))
                        }
                        Destination::Anonymous { .. } => None,
                    }),
                    LinkKind::Consumer(consumer) => LinkPurpose::Consume {
                        consumer: link.id.consumer(),
                        settled: consumer.settled,
                    },
                    LinkKind::Controller(_) => LinkPurpose::Transactions,
                    LinkKind::Request(_) | LinkKind::PutToken(_) => LinkPurpose::Requests,
                    LinkKind::Response(_) | LinkKind::TokenStatus(_) => LinkPurpose::Responses,
                };
                LinkInfo {
                    handle: link.handle.handle(),
                    name: link.name.clone(),
                    purpose,
                    credit: self.link.credit(link.handle),
                }
            })
        };
        let sessions = handles.into_iter();
        sessions
            .map(|session| SessionInfo {
                channel: session.channel(),
                links: of(session).collect(),
            })
            .collect()
    }
}
