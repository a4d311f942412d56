//! What happened to the registry, for the journal. Facts are absolute, so that applying one twice
//! equals applying it once.

use crate::access::{Permissions, TopicPermissions, User};
use crate::base::Name;

use super::VhostSpec;

/// One change of the registry. A closed set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistryFact {
    /// A vhost is there, and is this.
    VhostSet {
        /// Its name.
        name: Name,
        /// What is said of it.
        spec: VhostSpec,
    },
    /// A vhost is gone with its permissions, and with all records of its core before this one.
    VhostDeleted {
        /// Its name.
        name: Name,
    },
    /// A user is there, and is this. (`loopback_only` is a setting, not part of the fact.)
    UserSet(Box<User>),
    /// A user is gone with its permissions everywhere.
    UserDeleted {
        /// Its name.
        name: Name,
    },
    /// A user has these permissions in a vhost.
    PermissionsSet {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// The permissions that the user has there.
        permissions: Permissions,
    },
    /// A user may not enter a vhost any more.
    PermissionsCleared {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
    },
    /// A user has these permissions on the keys of a topic exchange.
    TopicPermissionsSet {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// Which exchange.
        exchange: Name,
        /// The permissions that the user has there.
        permissions: TopicPermissions,
    },
    /// A topic exchange is like any other for this user again.
    TopicPermissionsCleared {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// Which exchange.
        exchange: Name,
    },
    /// A global parameter stands.
    GlobalParameterSet {
        /// Its name.
        name: Name,
        /// Its value, as JSON.
        value: String,
    },
    /// A global parameter is gone.
    GlobalParameterCleared {
        /// Its name.
        name: Name,
    },
    /// A part of the definitions that an import is about to declare.
    ImportPart {
        /// Where it begins, in bytes from the first part's first.
        at: u64,
        /// JSON, cut anywhere.
        bytes: Box<[u8]>,
    },
    /// An import began: a start carries it out unless it has ended.
    ImportBegun {
        /// Into which vhost; none: the broker.
        vhost: Option<Name>,
        /// Bytes of all parts, which come before this.
        bytes: u64,
    },
    /// It was carried out, or refused and its client told.
    ImportEnded,
}
