//! Facts of the registry, for the journal. They are absolute, so that applying one twice equals
//! applying it once.

use crate::access::{Permissions, TopicPermissions, User};
use crate::base::Name;

use super::VhostSpec;

/// One change of the registry. A closed enum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistryFact {
    /// A vhost was added or changed.
    VhostSet {
        /// The vhost's name.
        name: Name,
        /// Its settings and limits.
        spec: VhostSpec,
    },
    /// A vhost was deleted with its permissions, and with all earlier records of its core.
    VhostDeleted {
        /// The vhost's name.
        name: Name,
    },
    /// A user was added or changed. (`loopback_only` is a setting, not part of the fact.)
    UserSet(Box<User>),
    /// A user was deleted with all its permissions.
    UserDeleted {
        /// The user's name.
        name: Name,
    },
    /// A user was given permissions in a vhost.
    PermissionsSet {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// The permissions, which replace earlier ones.
        permissions: Permissions,
    },
    /// A user lost its permissions in a vhost.
    PermissionsCleared {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
    },
    /// A user was given permissions on the routing keys of a topic exchange.
    TopicPermissionsSet {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// The topic exchange.
        exchange: Name,
        /// The permissions, which replace earlier ones.
        permissions: TopicPermissions,
    },
    /// A user lost its restrictions on the routing keys of a topic exchange.
    TopicPermissionsCleared {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// The topic exchange.
        exchange: Name,
    },
    /// A global parameter was set.
    GlobalParameterSet {
        /// The parameter's name.
        name: Name,
        /// The parameter's value, as JSON.
        value: String,
    },
    /// A global parameter was deleted.
    GlobalParameterCleared {
        /// The parameter's name.
        name: Name,
    },
    /// A part of the definitions that an import is about to declare.
    ImportPart {
        /// Its offset from the first part's beginning, in bytes.
        at: u64,
        /// A part of a JSON text, cut at any byte.
        bytes: Box<[u8]>,
    },
    /// An import began: a start of the broker completes it unless it has ended.
    ImportBegun {
        /// The vhost to import into; none: the whole broker.
        vhost: Option<Name>,
        /// Bytes of all parts, which come before this fact.
        bytes: u64,
    },
    /// The import was completed, or refused and its client told.
    ImportEnded,
}
