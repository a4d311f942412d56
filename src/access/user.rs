//! A user and what it is called.

use crate::base::Name;

use super::Password;

/// What a user may do beyond its permissions. (RabbitMQ's tags)
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tag {
    /// Everything: users, vhosts, permissions, operator policies.
    Administrator,
    /// Sees all connections and nodes.
    Monitoring,
    /// Sets policies in the vhosts it may enter.
    Policymaker,
    /// Uses the management API in the vhosts it may enter.
    Management,
    /// May publish with another user's `user-id`.
    Impersonator,
    /// A word without a meaning here.
    Other(Name),
}

impl Tag {
    /// The tag of this word.
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

    /// Its word.
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

/// Limits of one user; absent: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserLimits {
    /// Connections at a time.
    pub connections_max: Option<u32>,
    /// RabbitMQ's `max-channels`, kept and given back. It counts channels of AMQP 0-9-1 only: RabbitMQ
    /// 4.0.5 lets sessions of AMQP 1.0 beyond it, and so does this broker.
    pub sessions_max: Option<u32>,
}

/// A user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Its name.
    pub name: Name,
    /// Its password; none: cannot log in with one.
    pub password: Option<Password>,
    /// Sorted, each once.
    pub tags: Vec<Tag>,
    /// May come from this machine only (the default of `guest`).
    pub loopback_only: bool,
    /// Limits.
    pub limits: UserLimits,
}

impl User {
    /// Whether it has this tag.
    pub fn has_tag(&self, tag: &Tag) -> bool {
        self.tags.contains(tag)
    }

    /// Whether it may put `user_id` into a message: its own name, or any name as impersonator.
    /// [AMQP 3.2.4]
    pub fn may_send_as(&self, user_id: &[u8]) -> bool {
        user_id == self.name.as_bytes() || self.has_tag(&Tag::Impersonator)
    }
}
