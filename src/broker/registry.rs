//! Vhosts, users and permissions of one broker. Plain data: the server keeps it under its own lock.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::access::{Permissions, Tag, User};
use crate::base::{Name, limits::NAME_BYTES_MAX};

/// The vhost that connections without a name enter.
pub const DEFAULT_VHOST: &str = "/";

/// Limits of one vhost; absent: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VhostLimits {
    /// Connections at a time.
    pub connections_max: Option<u64>,
    /// Queues at a time.
    pub queues_max: Option<u64>,
}

/// One vhost: a namespace with its own core.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vhost {
    /// For people.
    pub description: String,
    /// Limits.
    pub limits: VhostLimits,
    permissions: BTreeMap<Name, Permissions>,
}

/// What the registry refuses.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No vhost of that name.
    #[error("no vhost '{name}'")]
    NoVhost {
        /// The name.
        name: Name,
    },
    /// No user of that name.
    #[error("no user '{name}'")]
    NoUser {
        /// The name.
        name: Name,
    },
    /// Empty, or longer than [`NAME_BYTES_MAX`] bytes.
    #[error("a name needs 1 to {NAME_BYTES_MAX} bytes, '{name}' has {bytes}")]
    BadName {
        /// The name.
        name: Name,
        /// Its length in bytes.
        bytes: usize,
    },
}

/// All vhosts, users and permissions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Registry {
    vhosts: BTreeMap<Name, Vhost>,
    users: BTreeMap<Name, User>,
    default_vhost: Name,
}

impl Registry {
    /// A registry with the default vhost and nobody in it.
    pub fn new() -> Self {
        let default_vhost = Name::from(DEFAULT_VHOST);
        Self {
            vhosts: BTreeMap::from([(default_vhost.clone(), Vhost::default())]),
            users: BTreeMap::new(),
            default_vhost,
        }
    }

    /// Which vhost peers enter that name none.
    pub const fn default_vhost(&self) -> &Name {
        &self.default_vhost
    }

    /// Makes another vhost the default one; it must exist.
    pub fn set_default_vhost(&mut self, name: &Name) -> Result<(), RegistryError> {
        self.vhost_mut(name)?;
        self.default_vhost = name.clone();
        Ok(())
    }

    /// Adds a vhost; whether it is new.
    pub fn add_vhost(&mut self, name: Name) -> Result<bool, RegistryError> {
        check_name(&name)?;
        let before = self.vhosts.len();
        self.vhosts.entry(name).or_default();
        Ok(self.vhosts.len() > before)
    }

    /// Removes a vhost with its permissions.
    pub fn remove_vhost(&mut self, name: &Name) -> Result<Vhost, RegistryError> {
        let missing = || RegistryError::NoVhost { name: name.clone() };
        self.vhosts.remove(name).ok_or_else(missing)
    }

    /// A vhost by name.
    pub fn vhost(&self, name: &str) -> Option<&Vhost> {
        self.vhosts.get(name)
    }

    /// A vhost by name, to change it.
    pub fn vhost_mut(&mut self, name: &Name) -> Result<&mut Vhost, RegistryError> {
        let missing = || RegistryError::NoVhost { name: name.clone() };
        self.vhosts.get_mut(name).ok_or_else(missing)
    }

    /// All vhosts by name.
    pub fn vhosts(&self) -> impl Iterator<Item = (&Name, &Vhost)> {
        self.vhosts.iter()
    }

    /// Adds or replaces a user; whether it is new. Tags are sorted.
    pub fn set_user(&mut self, mut user: User) -> Result<bool, RegistryError> {
        check_name(&user.name)?;
        user.tags.sort();
        user.tags.dedup();
        Ok(self.users.insert(user.name.clone(), user).is_none())
    }

    /// Removes a user with its permissions everywhere.
    pub fn remove_user(&mut self, name: &Name) -> Result<User, RegistryError> {
        let missing = || RegistryError::NoUser { name: name.clone() };
        let user = self.users.remove(name).ok_or_else(missing)?;
        for vhost in self.vhosts.values_mut() {
            vhost.permissions.remove(name);
        }
        Ok(user)
    }

    /// A user by name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// All users by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values()
    }

    /// Gives a user permissions in a vhost; whether it had none there.
    pub fn set_permissions(
        &mut self,
        vhost: &Name,
        user: &Name,
        permissions: Permissions,
    ) -> Result<bool, RegistryError> {
        if !self.users.contains_key(user) {
            return Err(RegistryError::NoUser { name: user.clone() });
        }
        let vhost = self.vhost_mut(vhost)?;
        Ok(vhost
            .permissions
            .insert(user.clone(), permissions)
            .is_none())
    }

    /// Takes them away; whether there were any.
    pub fn clear_permissions(&mut self, vhost: &Name, user: &Name) -> Result<bool, RegistryError> {
        Ok(self.vhost_mut(vhost)?.permissions.remove(user).is_some())
    }

    /// A user's permissions in a vhost; `None`: it may not enter.
    pub fn permissions(&self, vhost: &str, user: &str) -> Option<&Permissions> {
        self.vhosts.get(vhost)?.permissions.get(user)
    }

    /// Whether anyone can administrate.
    pub fn has_administrator(&self) -> bool {
        self.users
            .values()
            .any(|user| user.has_tag(&Tag::Administrator))
    }
}

impl Vhost {
    /// Who may do what here, by user.
    pub fn permissions(&self) -> impl Iterator<Item = (&Name, &Permissions)> {
        self.permissions.iter()
    }
}

fn check_name(name: &Name) -> Result<(), RegistryError> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(RegistryError::BadName {
        name: name.clone(),
        bytes: name.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::UserLimits;

    fn user(name: &str) -> User {
        User {
            name: Name::from(name),
            password: None,
            tags: vec![Tag::Monitoring, Tag::Administrator, Tag::Monitoring],
            loopback_only: false,
            limits: UserLimits::default(),
        }
    }

    #[test]
    fn permissions_go_with_their_user_and_their_vhost() {
        let mut registry = Registry::new();
        let (vhost, ada) = (Name::from("v"), Name::from("ada"));
        assert_eq!(registry.add_vhost(vhost.clone()), Ok(true));
        assert_eq!(registry.add_vhost(vhost.clone()), Ok(false));
        let all = Permissions::all().unwrap();
        assert!(
            registry.set_permissions(&vhost, &ada, all.clone()).is_err(),
            "no such user"
        );
        assert_eq!(registry.set_user(user("ada")), Ok(true));
        assert_eq!(
            registry.set_permissions(&vhost, &ada, all.clone()),
            Ok(true)
        );
        assert!(registry.permissions("v", "ada").is_some());
        assert!(registry.permissions("/", "ada").is_none());
        registry.remove_user(&ada).unwrap();
        assert!(registry.permissions("v", "ada").is_none());
        assert!(
            registry
                .set_permissions(&Name::from("w"), &ada, all)
                .is_err()
        );
    }

    #[test]
    fn tags_are_kept_sorted_and_once() {
        let mut registry = Registry::new();
        registry.set_user(user("ada")).unwrap();
        let tags = &registry.user("ada").unwrap().tags;
        assert_eq!(tags, &[Tag::Administrator, Tag::Monitoring]);
        assert!(registry.has_administrator());
    }

    #[test]
    fn names_have_1_to_256_bytes() {
        let mut registry = Registry::new();
        assert!(registry.add_vhost(Name::from("")).is_err());
        assert!(registry.add_vhost(Name::from("v".repeat(256))).is_ok());
        assert!(registry.add_vhost(Name::from("v".repeat(257))).is_err());
        assert!(registry.set_user(user("")).is_err());
    }
}
