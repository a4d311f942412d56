//! Vhosts, users, permissions and global parameters of one broker. Plain data: the server keeps it
//! under its own lock, and every change of it is a [`RegistryFact`].

mod error;
mod fact;
mod import;
mod memory;
mod restoring;
mod rights;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::access::{Permissions, Tag, TopicPermissions, User};
use crate::base::{Name, uncount};

pub use error::{RegistryError, check_name};
pub use fact::RegistryFact;
pub use import::Import;
pub use restoring::{Piece, RestoringAll};
pub use rights::{Rights, Topics};

/// The vhost of connections that name none.
pub const DEFAULT_VHOST: &str = "/";

/// The owner of the registry's records in the journal: no vhost has this name.
pub const OWNER: &str = "";

/// Limits of one vhost; an absent one: unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VhostLimits {
    /// Connections open at a time.
    pub connections_max: Option<u64>,
    /// Queues that may exist at a time.
    pub queues_max: Option<u64>,
}

/// The settings of a vhost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VhostSpec {
    /// A description for people.
    pub description: String,
    /// Tags, free words for people and programs.
    pub tags: Vec<Name>,
    /// Type of queues that are declared without one; none: that of the broker.
    pub default_queue_type: Option<Name>,
    /// The limits of the vhost.
    pub limits: VhostLimits,
}

/// A user's permissions on the routing keys of topic exchanges, by exchange.
pub type TopicMap = BTreeMap<Name, Arc<TopicPermissions>>;

/// One vhost: a namespace with its own core.
#[derive(Clone, Debug, Default)]
pub struct Vhost {
    /// The settings that operators gave it.
    pub spec: VhostSpec,
    permissions: BTreeMap<Name, Arc<Permissions>>,
    topic_permissions: BTreeMap<Name, Arc<TopicMap>>,
    serial: u64,
}

impl Vhost {
    /// The permissions in the vhost, by user.
    pub fn permissions(&self) -> impl Iterator<Item = (&Name, &Arc<Permissions>)> {
        self.permissions.iter()
    }

    /// The topic permissions in the vhost, by user.
    pub fn topic_permissions(&self) -> impl Iterator<Item = (&Name, &Arc<TopicMap>)> {
        self.topic_permissions.iter()
    }

    /// A number that distinguishes it from earlier vhosts of the same name, since the broker
    /// started.
    pub const fn serial(&self) -> u64 {
        self.serial
    }
}

#[derive(Clone, Debug)]
struct HeldUser {
    user: User,
    serial: u64,
}

/// All vhosts, users and permissions.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    vhosts: BTreeMap<Name, Vhost>,
    users: BTreeMap<Name, HeldUser>,
    global_parameters: BTreeMap<Name, String>,
    default_vhost: Name,
    loopback_users: BTreeSet<Name>,
    serial: u64,
    importing: import::Importing,
    /// Estimated memory of its content, in bytes, without an import.
    kept_bytes: u64,
}

impl Registry {
    /// An empty registry. `default_vhost` is the vhost of connections that name none;
    /// `loopback_users` may log in from this machine only.
    pub fn new(default_vhost: Name, loopback_users: impl IntoIterator<Item = Name>) -> Self {
        Self {
            default_vhost,
            loopback_users: loopback_users.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The vhost of connections that name none. It may not exist.
    pub const fn default_vhost(&self) -> &Name {
        &self.default_vhost
    }

    /// The vhost of this name.
    pub fn vhost(&self, name: &str) -> Option<&Vhost> {
        self.vhosts.get(name)
    }

    /// All vhosts, by name.
    pub fn vhosts(&self) -> impl Iterator<Item = (&Name, &Vhost)> {
        self.vhosts.iter()
    }

    /// The user of this name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(|held| &held.user)
    }

    /// A number that distinguishes a user from earlier ones of the same name, since the broker
    /// started.
    pub fn user_serial(&self, name: &str) -> Option<u64> {
        self.users.get(name).map(|held| held.serial)
    }

    /// All users, by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values().map(|held| &held.user)
    }

    /// A user's permissions in a vhost; none: it may not access it.
    pub fn permissions(&self, vhost: &str, user: &str) -> Option<&Arc<Permissions>> {
        self.vhosts.get(vhost)?.permissions.get(user)
    }

    /// A user's topic permissions in a vhost; none: all keys are permitted.
    pub fn topic_permissions(&self, vhost: &str, user: &str) -> Option<&Arc<TopicMap>> {
        self.vhosts.get(vhost)?.topic_permissions.get(user)
    }

    /// All global parameters by name, with their values as JSON.
    pub fn global_parameters(&self) -> impl Iterator<Item = (&Name, &str)> {
        let parameters = self.global_parameters.iter();
        parameters.map(|(name, value)| (name, value.as_str()))
    }

    /// The global parameter of this name, as JSON.
    pub fn global_parameter(&self, name: &str) -> Option<&str> {
        self.global_parameters.get(name).map(String::as_str)
    }

    /// The import that has begun and not ended, if any.
    pub const fn import(&self) -> Option<&Import> {
        self.importing.begun()
    }

    /// Whether any user has the tag administrator.
    pub fn has_administrator(&self) -> bool {
        self.users().any(|user| user.has_tag(&Tag::Administrator))
    }

    /// Whether there are no vhosts, users and parameters.
    pub fn is_empty(&self) -> bool {
        self.vhosts.is_empty() && self.users.is_empty() && self.global_parameters.is_empty()
    }

    /// Applies a fact. If an object that it needs does not exist (the user of a permission), it has
    /// no effect: so facts can be applied again over later ones.
    pub fn apply(&mut self, fact: RegistryFact) {
        match fact {
            RegistryFact::VhostSet { name, spec } => self.set_vhost(name, spec),
            RegistryFact::VhostDeleted { name } => {
                if let Some(vhost) = self.vhosts.remove(&name) {
                    forget_bytes(&mut self.kept_bytes, memory::vhost(&name, &vhost));
                }
            }
            RegistryFact::UserSet(user) => self.set_user(*user),
            RegistryFact::UserDeleted { name } => self.delete_user(&name),
            RegistryFact::PermissionsSet {
                vhost,
                user,
                permissions,
            } => {
                if let Some(vhost) = Self::entered((&mut self.vhosts, &self.users), &vhost, &user) {
                    let bytes = memory::permissions(&user, &permissions);
                    let before = vhost
                        .permissions
                        .insert(user.clone(), Arc::new(permissions));
                    let before = before.map_or(0, |set| memory::permissions(&user, &set));
                    self.kept_bytes = self.kept_bytes + bytes - before;
                }
            }
            RegistryFact::PermissionsCleared { vhost, user } => {
                if let Some(vhost) = self.vhosts.get_mut(&vhost)
                    && let Some(set) = vhost.permissions.remove(&user)
                {
                    forget_bytes(&mut self.kept_bytes, memory::permissions(&user, &set));
                }
            }
            RegistryFact::TopicPermissionsSet {
                vhost,
                user,
                exchange,
                permissions,
            } => {
                if let Some(vhost) = Self::entered((&mut self.vhosts, &self.users), &vhost, &user) {
                    let of_user = vhost.topic_permissions.entry(user).or_default();
                    let bytes = memory::topic(&exchange, &permissions);
                    let of_user = Arc::make_mut(of_user);
                    let before = of_user.insert(exchange.clone(), Arc::new(permissions));
                    let before = before.map_or(0, |set| memory::topic(&exchange, &set));
                    self.kept_bytes = self.kept_bytes + bytes - before;
                }
            }
            RegistryFact::TopicPermissionsCleared {
                vhost,
                user,
                exchange,
            } => self.clear_topic(&vhost, &user, &exchange),
            RegistryFact::GlobalParameterSet { name, value } => {
                self.kept_bytes += memory::parameter(&name, &value);
                if let Some(before) = self.global_parameters.insert(name.clone(), value) {
                    forget_bytes(&mut self.kept_bytes, memory::parameter(&name, &before));
                }
            }
            RegistryFact::GlobalParameterCleared { name } => {
                if let Some(value) = self.global_parameters.remove(&name) {
                    forget_bytes(&mut self.kept_bytes, memory::parameter(&name, &value));
                }
            }
            RegistryFact::ImportPart { at, bytes } => self.importing.part(at, &bytes),
            RegistryFact::ImportBegun { vhost, bytes } => self.importing.begin(vhost, bytes),
            RegistryFact::ImportEnded => self.importing.end(),
        }
    }

    /// The whole registry as facts, in an order in which they can be applied.
    pub fn facts(&self) -> Vec<RegistryFact> {
        let mut facts: Vec<RegistryFact> = (self.users())
            .map(|user| RegistryFact::UserSet(Box::new(user.clone())))
            .collect();
        for (name, vhost) in &self.vhosts {
            facts.push(RegistryFact::VhostSet {
                name: name.clone(),
                spec: vhost.spec.clone(),
            });
            facts.extend(vhost.permissions.iter().map(|(user, permissions)| {
                RegistryFact::PermissionsSet {
                    vhost: name.clone(),
                    user: user.clone(),
                    permissions: Permissions::clone(permissions),
                }
            }));
            for (user, topics) in &vhost.topic_permissions {
                facts.extend(topics.iter().map(|(exchange, permissions)| {
                    RegistryFact::TopicPermissionsSet {
                        vhost: name.clone(),
                        user: user.clone(),
                        exchange: exchange.clone(),
                        permissions: TopicPermissions::clone(permissions),
                    }
                }));
            }
        }
        facts.extend(self.global_parameters.iter().map(|(name, value)| {
            RegistryFact::GlobalParameterSet {
                name: name.clone(),
                value: value.clone(),
            }
        }));
        facts.extend(self.import().into_iter().flat_map(Import::facts));
        facts
    }

    fn set_vhost(&mut self, name: Name, spec: VhostSpec) {
        self.kept_bytes += memory::spec(&name, &spec);
        if let Some(vhost) = self.vhosts.get_mut(&name) {
            forget_bytes(&mut self.kept_bytes, memory::spec(&name, &vhost.spec));
            vhost.spec = spec;
            return;
        }
        self.serial += 1;
        let vhost = Vhost {
            spec,
            serial: self.serial,
            ..Vhost::default()
        };
        self.vhosts.insert(name, vhost);
    }

    fn set_user(&mut self, mut user: User) {
        user.tags.sort();
        user.tags.dedup();
        user.loopback_only = self.loopback_users.contains(&user.name);
        self.kept_bytes += memory::user(&user);
        if let Some(held) = self.users.get_mut(&user.name) {
            forget_bytes(&mut self.kept_bytes, memory::user(&held.user));
            held.user = user;
            return;
        }
        self.serial += 1;
        let serial = self.serial;
        self.users
            .insert(user.name.clone(), HeldUser { user, serial });
    }

    fn delete_user(&mut self, name: &Name) {
        if let Some(held) = self.users.remove(name) {
            forget_bytes(&mut self.kept_bytes, memory::user(&held.user));
        }
        for vhost in self.vhosts.values_mut() {
            if let Some(set) = vhost.permissions.remove(name) {
                forget_bytes(&mut self.kept_bytes, memory::permissions(name, &set));
            }
            if let Some(of_user) = vhost.topic_permissions.remove(name) {
                forget_bytes(&mut self.kept_bytes, memory::topics_of(&of_user));
            }
        }
    }

    /// The vhost, if it and the user exist.
    fn entered<'a>(
        (vhosts, users): (&'a mut BTreeMap<Name, Vhost>, &BTreeMap<Name, HeldUser>),
        vhost: &Name,
        user: &Name,
    ) -> Option<&'a mut Vhost> {
        let known = users.contains_key(user);
        vhosts.get_mut(vhost).filter(|_| known)
    }

    fn clear_topic(&mut self, vhost: &Name, user: &Name, exchange: &Name) {
        let Some(vhost) = self.vhosts.get_mut(vhost) else {
            return;
        };
        if let Some(of_user) = vhost.topic_permissions.get_mut(user) {
            if let Some(set) = Arc::make_mut(of_user).remove(exchange) {
                forget_bytes(&mut self.kept_bytes, memory::topic(exchange, &set));
            }
            if of_user.is_empty() {
                vhost.topic_permissions.remove(user);
            }
        }
    }
}

/// Subtracts the memory of a removed object.
fn forget_bytes(kept_bytes: &mut u64, bytes: u64) {
    uncount!(*kept_bytes, bytes, "what is forgotten was counted");
}
