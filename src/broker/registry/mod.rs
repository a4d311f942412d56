//! Vhosts, users, permissions and global parameters of one broker. Plain data: the server keeps it
//! under its own lock, and every change of it is a [`RegistryFact`].

mod error;
mod fact;
mod import;
mod memory;
mod restoring;
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

/// The vhost that connections without a name enter.
pub const DEFAULT_VHOST: &str = "/";

/// The owner of the registry's records in the journal: no vhost has this name.
pub const OWNER: &str = "";

/// Limits of one vhost; absent: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VhostLimits {
    /// Connections at a time.
    pub connections_max: Option<u64>,
    /// Queues at a time.
    pub queues_max: Option<u64>,
}

/// What an operator says of a vhost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VhostSpec {
    /// For people.
    pub description: String,
    /// Words for people and programs.
    pub tags: Vec<Name>,
    /// Type of queues that are declared without one; none: the broker's.
    pub default_queue_type: Option<Name>,
    /// The limits of the vhost.
    pub limits: VhostLimits,
}

/// What a user may do with the routing keys of topic exchanges, by exchange.
pub type TopicMap = BTreeMap<Name, Arc<TopicPermissions>>;

/// One vhost: a namespace with its own core.
#[derive(Clone, Debug, Default)]
pub struct Vhost {
    /// What an operator says of it.
    pub spec: VhostSpec,
    permissions: BTreeMap<Name, Arc<Permissions>>,
    topic_permissions: BTreeMap<Name, Arc<TopicMap>>,
    serial: u64,
}

impl Vhost {
    /// Who may do what here, by user.
    pub fn permissions(&self) -> impl Iterator<Item = (&Name, &Arc<Permissions>)> {
        self.permissions.iter()
    }

    /// Who may do what on topic exchanges here, by user.
    pub fn topic_permissions(&self) -> impl Iterator<Item = (&Name, &Arc<TopicMap>)> {
        self.topic_permissions.iter()
    }

    /// Tells it from others that had its name before it, since the broker started.
    pub const fn serial(&self) -> u64 {
        self.serial
    }
}

#[derive(Clone, Debug)]
struct HeldVhost {
    user: User,
    serial: u64,
}

/// All vhosts, users and permissions.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    vhosts: BTreeMap<Name, Vhost>,
    users: BTreeMap<Name, HeldVhost>,
    global_parameters: BTreeMap<Name, String>,
    default_vhost: Name,
    loopback_users: BTreeSet<Name>,
    serial: u64,
    importing: import::Importing,
    /// What all of it takes, about, in bytes, but for an import.
    kept_bytes: u64,
}

impl Registry {
    /// A registry without anything in it. `default_vhost` is entered by peers that name none;
    /// `loopback_users` may come from this machine only.
    pub fn new(default_vhost: Name, loopback_users: impl IntoIterator<Item = Name>) -> Self {
        Self {
            default_vhost,
            loopback_users: loopback_users.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Which vhost peers enter that name none. It may be missing.
    pub const fn default_vhost(&self) -> &Name {
        &self.default_vhost
    }

    /// A vhost by name.
    pub fn vhost(&self, name: &str) -> Option<&Vhost> {
        self.vhosts.get(name)
    }

    /// All vhosts by name.
    pub fn vhosts(&self) -> impl Iterator<Item = (&Name, &Vhost)> {
        self.vhosts.iter()
    }

    /// A user by name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(|held| &held.user)
    }

    /// Tells a user from others that had its name before it, since the broker started.
    pub fn user_serial(&self, name: &str) -> Option<u64> {
        self.users.get(name).map(|held| held.serial)
    }

    /// All users by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values().map(|held| &held.user)
    }

    /// A user's permissions in a vhost; `None`: it may not enter.
    pub fn permissions(&self, vhost: &str, user: &str) -> Option<&Arc<Permissions>> {
        self.vhosts.get(vhost)?.permissions.get(user)
    }

    /// What a user may do with topic exchanges of a vhost; `None`: they are like any other.
    pub fn topic_permissions(&self, vhost: &str, user: &str) -> Option<&Arc<TopicMap>> {
        self.vhosts.get(vhost)?.topic_permissions.get(user)
    }

    /// All global parameters by name, their values as JSON.
    pub fn global_parameters(&self) -> impl Iterator<Item = (&Name, &str)> {
        let parameters = self.global_parameters.iter();
        parameters.map(|(name, value)| (name, value.as_str()))
    }

    /// A global parameter by name, as JSON.
    pub fn global_parameter(&self, name: &str) -> Option<&str> {
        self.global_parameters.get(name).map(String::as_str)
    }

    /// The import that has begun and not ended.
    pub const fn import(&self) -> Option<&Import> {
        self.importing.begun()
    }

    /// Whether anyone can administrate.
    pub fn has_administrator(&self) -> bool {
        self.users().any(|user| user.has_tag(&Tag::Administrator))
    }

    /// Whether nobody and nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.vhosts.is_empty() && self.users.is_empty() && self.global_parameters.is_empty()
    }

    /// Makes a fact true. What it needs and what is missing (the user of a permission) makes it
    /// nothing: so facts can be applied again over later ones.
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

    /// Everything as facts, in an order in which they can be applied.
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
            .insert(user.name.clone(), HeldVhost { user, serial });
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

    /// The vhost, if it and the user are there.
    fn entered<'a>(
        (vhosts, users): (&'a mut BTreeMap<Name, Vhost>, &BTreeMap<Name, HeldVhost>),
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

/// What takes so many bytes is gone.
fn forget_bytes(kept_bytes: &mut u64, bytes: u64) {
    uncount!(*kept_bytes, bytes, "what is forgotten was counted");
}
