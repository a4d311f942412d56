//! The vhosts that are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::vhost::Vhost;
use crate::base::Name;

/// All vhosts by name.
#[derive(Debug, Default)]
pub(super) struct Vhosts {
    held: RwLock<Held>,
}

#[derive(Debug, Default)]
struct Held {
    vhosts: BTreeMap<Name, Arc<Vhost>>,
    /// Publishers get no credit in any.
    alarm: bool,
}

impl Vhosts {
    pub(super) fn get(&self, name: &str) -> Option<Arc<Vhost>> {
        self.held.read().vhosts.get(name).map(Arc::clone)
    }

    /// All of them, by name.
    pub(super) fn all(&self) -> Vec<Arc<Vhost>> {
        self.held.read().vhosts.values().map(Arc::clone).collect()
    }

    pub(super) fn add(&self, vhost: &Arc<Vhost>) {
        let mut held = self.held.write();
        if held.alarm {
            let _ = vhost.set_alarm(true);
        }
        held.vhosts.insert(vhost.name().clone(), Arc::clone(vhost));
    }

    pub(super) fn remove(&self, name: &str) {
        self.held.write().vhosts.remove(name);
    }

    /// Raises or clears the alarm in all of them, and in those that are yet to come.
    pub(super) fn set_alarm(&self, raised: bool) {
        let mut held = self.held.write();
        held.alarm = raised;
        for vhost in held.vhosts.values() {
            // A vhost that failed says so itself.
            let _ = vhost.set_alarm(raised);
        }
    }
}
