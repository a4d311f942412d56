//! The estimated memory of the registry, counted with each change of it.

use std::sync::Arc;

use super::{Registry, TopicMap, Vhost, VhostSpec};
use crate::access::{Pattern, Permissions, TopicPermissions, User};
use crate::base::limits::REGISTRY_OVERHEAD_BYTES;
use crate::base::{Name, shared_text_bytes};

impl Registry {
    /// Estimated memory of users, permissions, parameters, vhost settings and an import that is
    /// under way, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes + self.importing.bytes()
    }
}

/// Memory of a user without its permissions.
pub(super) fn user(user: &User) -> u64 {
    // It is kept in the nodes of a tree, which are about half full.
    let own = 2 * size_of::<User>() + size_of_val(user.tags.as_slice());
    named(&user.name) + own as u64
}

/// Memory of the settings of a vhost.
pub(super) fn spec(name: &Name, spec: &VhostSpec) -> u64 {
    let tags: u64 = spec
        .tags
        .iter()
        .map(|tag| shared_text_bytes(tag.len()))
        .sum();
    named(name) + spec.description.len() as u64 + tags
}

/// Memory of a vhost with everything that is deleted with it.
pub(super) fn vhost(name: &Name, vhost: &Vhost) -> u64 {
    let permissions = vhost
        .permissions()
        .map(|(user, set)| permissions(user, set));
    let topics = vhost.topic_permissions();
    let topics = topics.map(|(_, of_user)| topics_of(of_user));
    spec(name, &vhost.spec) + permissions.sum::<u64>() + topics.sum::<u64>()
}

/// Memory of the permissions of a user in a vhost.
pub(super) fn permissions(user: &Name, set: &Permissions) -> u64 {
    let patterns = [&set.configure, &set.write, &set.read];
    let own = size_of::<Permissions>() as u64;
    named(user) + own + patterns.map(Pattern::kept_bytes).iter().sum::<u64>()
}

/// Memory of all topic permissions of a user in a vhost.
pub(super) fn topics_of(of_user: &Arc<TopicMap>) -> u64 {
    of_user
        .iter()
        .map(|(exchange, set)| topic(exchange, set))
        .sum()
}

/// Memory of the topic permissions for one exchange.
pub(super) fn topic(exchange: &Name, set: &TopicPermissions) -> u64 {
    let own = size_of::<TopicPermissions>() as u64;
    named(exchange) + own + set.write.kept_bytes() + set.read.kept_bytes()
}

/// Memory of a global parameter.
pub(super) fn parameter(name: &Name, value: &str) -> u64 {
    named(name) + value.len() as u64
}

fn named(name: &Name) -> u64 {
    REGISTRY_OVERHEAD_BYTES + shared_text_bytes(name.len())
}
