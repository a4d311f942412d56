//! Links of consumers that outlive their connection: what an attach asks for, and what it is answered.
//! [AMQP 2.6.13, 3.5.6]

use std::fmt;

use super::Outcome;
use crate::base::{Name, Position};

/// What names a link in a vhost, apart from its direction: the container of the other end, and the name
/// that it gave. [AMQP 2.6.1]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkKey {
    /// The user: who logs in as another has other links.
    pub user: Name,
    /// Whether it logged in with a token: then it is not the user of the registry with that name.
    pub by_token: bool,
    /// The container-id of the peer.
    pub container: Name,
    /// The link's name.
    pub link: Name,
}

/// Shows a login by token only where there was one: records from before it was told apart show as they did.
impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LinkKey");
        shown.field("user", &self.user);
        if self.by_token {
            shown.field("by_token", &true);
        }
        shown.field("container", &self.container);
        shown.field("link", &self.link).finish()
    }
}

impl LinkKey {
    /// Whether the link is that of a user of the registry.
    pub fn is_of_user(&self, name: &str) -> bool {
        self.user == *name && !self.by_token
    }
}

/// When the time of a link begins that is kept after its connection. [AMQP 3.5.6]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpiryPolicy {
    /// When it is detached.
    LinkDetach,
    /// When its session ends.
    SessionEnd,
    /// When its connection is gone.
    ConnectionClose,
}

/// How an attached link ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkEnd {
    /// The peer or the broker closed it: it is not attached again.
    Closed,
    /// It may be attached again.
    Detached,
    /// With its session.
    SessionEnded,
    /// With its connection.
    ConnectionClosed,
}

/// One acquisition of a message by a consumer: a message that comes back to its queue keeps its position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Acquisition {
    /// The position of the message in its queue.
    pub position: Position,
    /// How often it was requeued there before.
    pub acquired: u32,
}

/// What the attach of a consumer asks for beyond its connection.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The name of the link.
    pub key: LinkKey,
    /// When its time begins.
    pub expiry: ExpiryPolicy,
    /// How long it is kept from then on, in milliseconds.
    pub timeout_ms: u64,
    /// The deliveries that the consumer has not settled, in order, each with the outcome that it has for it.
    pub known: Vec<(Acquisition, Option<Outcome>)>,
    /// Whether these are not all of them.
    pub is_incomplete: bool,
    /// Whether it is to outlive the broker, too.
    pub is_durable: bool,
}

/// Whether a consumer's link outlives its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It ends with its connection: that was not asked for, there are too many such links, or its queue
    /// goes with a consumer or connection.
    No,
    /// It does; there is nothing to recover.
    Yes {
        /// Whether it outlives the broker, too.
        is_durable: bool,
    },
    /// It does. What it held before is compared with what the consumer knows of, and told by
    /// [`Effect::Recovered`](super::Effect::Recovered).
    Recovering {
        /// Whether it outlives the broker, too.
        is_durable: bool,
    },
}

/// What a link held before it was attached again, and holds still.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recovered {
    /// The deliveries that are sent again, in order, as far as the consumer knows of them.
    pub held: Vec<Acquisition>,
    /// Those that it held for too long, so that others may have them: whatever it says of them, they are
    /// released.
    pub late: Vec<Acquisition>,
}

impl ExpiryPolicy {
    /// Its name in a source or target.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LinkDetach => "link-detach",
            Self::SessionEnd => "session-end",
            Self::ConnectionClose => "connection-close",
        }
    }

    /// The policy with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::LinkDetach, Self::SessionEnd, Self::ConnectionClose];
        all.into_iter().find(|policy| policy.as_str() == word)
    }

    /// Whether the time begins with this end of a link.
    pub const fn begins(self, end: LinkEnd) -> bool {
        match end {
            LinkEnd::Detached => matches!(self, Self::LinkDetach),
            LinkEnd::SessionEnded => !matches!(self, Self::ConnectionClose),
            LinkEnd::Closed | LinkEnd::ConnectionClosed => true,
        }
    }
}
