//! Users, their tags and limits.

use crate::base::Name;

use super::Password;

/// A tag of a user, which permits more than its permissions do. (RabbitMQ's tags)
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tag {
    /// Permits everything over HTTP: users, vhosts, permissions, operator policies.
    Administrator,
    /// Permits listing all connections and nodes.
    Monitoring,
    /// Permits setting policies in the vhosts that the user may access.
    Policymaker,
    /// Permits the management API in the vhosts that the user may access.
    Management,
    /// Permits publishing with another user's `user-id`.
    Impersonator,
    /// A word without a meaning here.
    Other(Name),
}

impl Tag {
    /// The tag that a word names.
    pub fn from_word(word: &str) -> Self {
        match word {
            "administrator" => Self::Administrator,
            "monitoring" => Self::Monitoring,
            "policymaker" => Self::Policymaker,
            "management" => Self::Management,
            "impersonator" => Self::Impersonator,
            other => Self::Other(Name::from(other)),
        }
    }

    /// The word in the API, `administrator` for example.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Administrator => "administrator",
            Self::Monitoring => "monitoring",
            Self::Policymaker => "policymaker",
            Self::Management => "management",
            Self::Impersonator => "impersonator",
            Self::Other(word) => word,
        }
    }
}

/// Limits of one user; an absent one: unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserLimits {
    /// Connections open at a time.
    pub connections_max: Option<u32>,
    /// RabbitMQ's `max-channels`, kept and listed. It counts channels of AMQP 0-9-1 only: RabbitMQ
    /// 4.0.5 permits sessions of AMQP 1.0 beyond it, and so does this broker.
    /// 4.0.5 lets sessions of AMQP 1.0 beyond it, and so does this broker.
    pub sessions_max: Option<u32>,
}

/// A user of the broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The user's name.
    pub name: Name,
    /// The user's password; none: it cannot log in with one.
    pub password: Option<Password>,
    /// The user's tags, sorted, each once.
    pub tags: Vec<Tag>,
    /// Whether it may log in from this machine only (the default of `guest`).
    pub loopback_only: bool,
    /// The user's limits.
    pub limits: UserLimits,
}

impl User {
    /// Whether it has this tag.
    pub fn has_tag(&self, tag: &Tag) -> bool {
        self.tags.contains(tag)
    }

    /// Whether it may publish with this `user_id`: its own name, or any name as impersonator. [AMQP
    /// 3.2.4]
    pub fn may_send_as(&self, user_id: &[u8]) -> bool {
        user_id == self.name.as_bytes() || self.has_tag(&Tag::Impersonator)
    }
}
