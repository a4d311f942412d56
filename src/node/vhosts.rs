//! The running vhosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pager::VhostRef;
use super::vhost::Vhost;
use crate::base::Name;
use crate::base::locks::{RankedRwLock, rank};
use crate::broker::{Command, Counters, QueueChurn, Undeliverable, UpkeepCommand};
use crate::store::Disk;

/// All vhosts by name.
#[derive(Debug)]
pub(crate) struct Vhosts<D: Disk> {
    held: RankedRwLock<rank::Vhosts, VhostSlot<D>>,
}

#[derive(Debug)]
struct VhostSlot<D: Disk> {
    vhosts: BTreeMap<Name, Arc<Vhost<D>>>,
    /// Whether an alarm is in effect: publishers get no credit in any vhost.
    alarm: bool,
    /// What happens to dead letters without a target, if it was changed since the start.
    undeliverable: Option<Undeliverable>,
    /// How long consumers of quorum queues may hold a delivery, in milliseconds, if it was changed
    /// since the start.
    consumer_timeout_ms: Option<u64>,
    /// What was counted in deleted vhosts since the start.
    gone: Counters,
}

impl<D: Disk> Default for Vhosts<D> {
    fn default() -> Self {
        Self {
            held: RankedRwLock::new(VhostSlot {
                vhosts: BTreeMap::new(),
                alarm: false,
                undeliverable: None,
                consumer_timeout_ms: None,
                gone: Counters::default(),
            }),
        }
    }
}

impl<D: Disk> Vhosts<D> {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Vhost<D>>> {
        self.held.read().vhosts.get(name).map(Arc::clone)
    }

    /// The vhost that a job is of; none: it was deleted, whatever has its name now.
    pub(crate) fn that(&self, asked: &VhostRef) -> Option<Arc<Vhost<D>>> {
        let vhost = self.get(&asked.name)?;
        (vhost.reference() == asked).then_some(vhost)
    }

    /// All vhosts, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Vhost<D>>> {
        self.held.read().vhosts.values().map(Arc::clone).collect()
    }

    /// The same, and what was counted in vhosts that were deleted by then.
    pub(crate) fn all_and_gone(&self) -> (Vec<Arc<Vhost<D>>>, Counters) {
        let held = self.held.read();
        let here = held.vhosts.values().map(Arc::clone).collect();
        (here, held.gone.clone())
    }

    /// Adds a vhost, and gives its core a first command. Lookups find the vhost only after that and
    /// wait meanwhile, as the pager does for blocks that a restored core asks for.
    pub(crate) fn add(&self, vhost: &Arc<Vhost<D>>, first: Option<Command>) {
        let mut held = self.held.write();
        // A failed vhost reports that itself.
        if let Some(command) = first {
            let _ = vhost.command(command);
        }
        if held.alarm {
            let _ = vhost.set_alarm(true);
        }
        if let Some(undeliverable) = held.undeliverable {
            let _ = vhost.command(settings(undeliverable));
        }
        if let Some(timeout_ms) = held.consumer_timeout_ms {
            let _ = vhost.command(timeout(timeout_ms));
        }
        held.vhosts.insert(vhost.name().clone(), Arc::clone(vhost));
    }

    /// Removes a deleted vhost.
    pub(crate) fn remove(&self, name: &str) {
        let mut held = self.held.write();
        if let Some(vhost) = held.vhosts.remove(name) {
            held.gone.absorb(&vhost.counters_at_end());
        }
    }

    /// Declarations and deletions of queues since the start, those in deleted vhosts included.
    pub(crate) fn queue_churn(&self) -> QueueChurn {
        let held = self.held.read();
        let here = held.vhosts.values().map(|vhost| vhost.queue_churn());
        here.fold(held.gone.queues, QueueChurn::plus)
    }

    /// Sets what happens to dead letters without a target in all vhosts, and in those created
    /// later.
    pub(crate) fn set_undeliverable(&self, undeliverable: Undeliverable) {
        let mut held = self.held.write();
        if held.undeliverable.replace(undeliverable) == Some(undeliverable) {
            return;
        }
        for vhost in held.vhosts.values() {
            // A failed vhost reports that itself.
            let _ = vhost.command(settings(undeliverable));
        }
    }

    /// Sets how long consumers of quorum queues may hold a delivery in all vhosts, and in those created
    /// later.
    pub(crate) fn set_consumer_timeout(&self, timeout_ms: u64) {
        let mut held = self.held.write();
        if held.consumer_timeout_ms.replace(timeout_ms) == Some(timeout_ms) {
            return;
        }
        for vhost in held.vhosts.values() {
            // A failed vhost reports that itself.
            let _ = vhost.command(timeout(timeout_ms));
        }
    }

    /// Raises or clears the alarm in all vhosts, and for those created later.
    pub(crate) fn set_alarm(&self, raised: bool) {
        let mut held = self.held.write();
        held.alarm = raised;
        for vhost in held.vhosts.values() {
            // A failed vhost reports that itself.
            let _ = vhost.set_alarm(raised);
        }
    }
}

/// The command that sets it in a vhost.
const fn settings(undeliverable: Undeliverable) -> Command {
    Command::Upkeep(UpkeepCommand::Undeliverable(undeliverable))
}

/// The command that sets the timeout of consumers in a vhost.
const fn timeout(timeout_ms: u64) -> Command {
    Command::Upkeep(UpkeepCommand::ConsumerTimeout(timeout_ms))
}
