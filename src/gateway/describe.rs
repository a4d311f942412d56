//! What a connection is, for people.

use super::Gateway;
use super::links::LinkKind;
use super::publisher::Destination;
use crate::base::{ConsumerId, Name, shared_text_bytes};
use crate::broker::value_bytes;
use crate::wire::Value;
use crate::wire::performative::Open;

/// A connection that is open.
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectionInfo {
    /// Its user.
    pub user: Name,
    /// The vhost it entered.
    pub vhost: Name,
    /// The peer's container-id.
    pub container: Name,
    /// The peer's properties.
    pub properties: Value,
    /// How it logged in.
    pub mechanism: Name,
    /// The largest frame we may send, in bytes.
    pub frame_max: u32,
    /// The highest channel number of the peer.
    pub channel_max: u16,
    /// How long it may be silent, in milliseconds; 0: for ever.
    pub idle_time_out_ms: u32,
}

impl ConnectionInfo {
    /// Memory that it takes, about, in bytes: it is here, and where connections are listed.
    pub(super) fn kept_bytes(&self) -> u64 {
        let container = 2 * shared_text_bytes(self.container.len());
        container + 2 * (size_of::<Self>() as u64 + value_bytes(&self.properties))
    }

    /// What the peer says of itself, and who it is to us.
    pub(super) fn new(open: &Open, (user, vhost): (&Name, &Name), mechanism: &Name) -> Self {
        let properties = open.properties.clone().unwrap_or_default().to_value();
        Self {
            user: user.clone(),
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

/// A session with its links.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionInfo {
    /// Our channel.
    pub channel: u16,
    /// Its links.
    pub links: Vec<LinkInfo>,
}

/// A link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkInfo {
    /// Our handle.
    pub handle: u32,
    /// Its name.
    pub name: Name,
    /// Which way messages go, and where.
    pub purpose: LinkPurpose,
    /// Credit that its sender has left, in messages.
    pub credit: u32,
}

/// What a link is for.
#[derive(Clone, PartialEq, Debug)]
pub enum LinkPurpose {
    /// The peer publishes, to this exchange with this key; none: wherever each message says.
    Publish(Option<(Name, Name)>),
    /// The peer consumes.
    Consume {
        /// Known to the core by this.
        consumer: ConsumerId,
        /// Deliveries are settled when sent.
        settled: bool,
    },
    /// The peer sends management requests.
    Requests,
    /// The peer receives management answers.
    Responses,
}

impl Gateway {
    /// What it is, once it is open.
    pub fn info(&self) -> Option<&ConnectionInfo> {
        self.info.as_deref()
    }

    /// Its sessions by channel, each with its links.
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
                    LinkKind::Request(_) => LinkPurpose::Requests,
                    LinkKind::Response(_) => LinkPurpose::Responses,
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
