//! Dead letters that wait in their queue for a target. [dead-lettering part 6]

use std::collections::BTreeMap;

use crate::base::{Position, QueueId, uncount};
use crate::deaths::Reason;

use super::deferred_free::DeferredFree;

/// Why a dead letter waits and for whom. The message itself, with its history, is in the slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Why it died.
    pub reason: Reason,
    /// Exactly the targets that refused it while others took it; none: wherever it is routed to.
    pub targets: Option<Vec<QueueId>>,
    /// Its turn among those that wait for a queue: first come, first served.
    pub ticket: u64,
    /// Bytes of its bare message.
    pub size_bytes: u32,
}

/// What is to be done with a dead message once its bytes are in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterPageIn {
    /// Bring it to its targets: it died of this.
    Die(Reason),
    /// Try it once more; it waited for room in this queue, or for nothing in particular.
    Retry(Option<QueueId>),
}

/// A dead letter that waits for room in a queue, in the order of the tickets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Waiter {
    /// Its turn.
    pub ticket: u64,
    /// Where it waits.
    pub source: QueueId,
    /// Its place there.
    pub position: Position,
}

/// All dead letters that wait in one queue.
#[derive(Debug, Default)]
pub struct PendingSet {
    entries: BTreeMap<Position, Pending>,
    bytes: u64,
}

impl PendingSet {
    /// How many wait.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of their bare messages.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One of them.
    pub fn entry(&self, position: Position) -> Option<&Pending> {
        self.entries.get(&position)
    }

    /// The first at or behind a place.
    pub fn next(&self, from: Position) -> Option<Position> {
        self.entries
            .range(from..)
            .next()
            .map(|(position, _)| *position)
    }

    /// All of them, by place.
    pub fn iter(&self) -> impl Iterator<Item = (Position, &Pending)> {
        self.entries
            .iter()
            .map(|(position, pending)| (*position, pending))
    }

    /// Adds or replaces one.
    pub fn put(&mut self, position: Position, pending: Pending) {
        self.bytes += u64::from(pending.size_bytes);
        if let Some(old) = self.entries.insert(position, pending) {
            uncount!(
                self.bytes,
                u64::from(old.size_bytes),
                "a dead letter that waits was counted"
            );
        }
    }

    /// Removes one.
    #[inline]
    pub fn remove(&mut self, position: Position) -> Option<Pending> {
        if self.entries.is_empty() {
            return None; // as a rule
        }
        let pending = self.entries.remove(&position)?;
        uncount!(
            self.bytes,
            u64::from(pending.size_bytes),
            "a dead letter that waits was counted"
        );
        Some(pending)
    }

    /// Hands everything over to be freed.
    pub fn scrap(self, deferred_free: &mut DeferredFree) {
        deferred_free.pending(self.entries);
    }
}
