//! Dead letters that wait in their queue for a target. [dead-lettering part 6]

use std::collections::BTreeMap;

use crate::base::limits::{PENDING_OVERHEAD_BYTES, PENDING_TARGET_BYTES};
use crate::base::{Charge, Gauge, Position, QueueId, uncount};
use crate::deaths::Reason;

/// Why a dead letter waits, and for which targets. The message itself, with its history, is in the
/// slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The reason of its death.
    pub reason: Reason,
    /// The targets that refused it while others took it; none: it is routed anew at each attempt.
    pub targets: Option<Vec<QueueId>>,
    /// Without these, the targets that all refused it at the last attempt.
    pub refused: Box<[QueueId]>,
    /// Its number among all that wait: the first come is the first served.
    pub ticket: u64,
    /// Size of its bare message, in bytes.
    pub size_bytes: u32,
}

impl Pending {
    /// The queues that it waits for room in.
    pub fn waits_at(&self) -> &[QueueId] {
        self.targets.as_deref().unwrap_or(&self.refused)
    }

    /// Its memory, beside that of its message, in bytes, about.
    fn memory_bytes(&self) -> u64 {
        PENDING_OVERHEAD_BYTES + self.waits_at().len() as u64 * PENDING_TARGET_BYTES
    }

    /// Whether a start would find something else of it.
    pub fn is_news_after(&self, before: &Self) -> bool {
        self.reason != before.reason || self.targets != before.targets
    }
}

/// What is done with a dead message once its block is paged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterPageIn {
    /// It is sent to its targets; it died for this reason.
    Die(Reason),
    /// It is sent again; it waited for room in this queue, or for none in particular.
    Retry(Option<QueueId>),
}

/// A dead letter that waits for room in a queue, ordered by ticket; or a redrive that does, behind
/// them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Waiter {
    /// Its number among all that wait.
    pub ticket: u64,
    /// The queue it died in.
    pub source: QueueId,
    /// Its position in that queue.
    pub position: Position,
}

impl Waiter {
    /// The ticket of redrives, which no dead letter has.
    const REDRIVE: u64 = u64::MAX;

    /// A redrive that waits for room in this queue.
    pub const fn redrive(target: QueueId, number: u64) -> Self {
        Self {
            ticket: Self::REDRIVE,
            source: target,
            position: Position(number),
        }
    }

    /// The number of the redrive that waits, if it is one.
    pub const fn as_redrive(&self) -> Option<u64> {
        if self.ticket == Self::REDRIVE {
            Some(self.position.0)
        } else {
            None
        }
    }
}

/// All dead letters that wait in one queue.
#[derive(Debug, Default)]
pub struct PendingSet {
    entries: BTreeMap<Position, Pending>,
    bytes: u64,
    /// The memory of these entries, and of those at their targets.
    memory_bytes: u64,
    kept: Option<Charge>,
}

impl PendingSet {
    /// Charges its memory to the gauge from now on.
    pub(super) fn charge(&mut self, gauge: &Gauge) {
        self.kept = Some(gauge.charge(self.memory_bytes));
    }

    fn count(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.set(self.memory_bytes);
        }
    }

    fn uncount(&mut self, gone: &Pending) {
        uncount!(
            self.bytes,
            u64::from(gone.size_bytes),
            "a dead letter that waits was counted"
        );
        uncount!(
            self.memory_bytes,
            gone.memory_bytes(),
            "the memory of a dead letter that waits was counted"
        );
        self.count();
    }

    /// Number of waiting dead letters.
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

    /// Why the dead letter at this position waits; none if it does not.
    pub fn entry(&self, position: Position) -> Option<&Pending> {
        self.entries.get(&position)
    }

    /// The position of the first at or behind a position.
    pub fn next(&self, from: Position) -> Option<Position> {
        self.entries
            .range(from..)
            .next()
            .map(|(position, _)| *position)
    }

    /// All of them, by position.
    pub fn iter(&self) -> impl Iterator<Item = (Position, &Pending)> {
        self.entries
            .iter()
            .map(|(position, pending)| (*position, pending))
    }

    /// Adds or replaces the entry of a position.
    pub fn put(&mut self, position: Position, pending: Pending) {
        self.bytes += u64::from(pending.size_bytes);
        self.memory_bytes += pending.memory_bytes();
        match self.entries.insert(position, pending) {
            Some(old) => self.uncount(&old),
            None => self.count(),
        }
    }

    /// Removes the entry of a position.
    #[inline]
    pub fn remove(&mut self, position: Position) -> Option<Pending> {
        if self.entries.is_empty() {
            return None; // as a rule
        }
        let pending = self.entries.remove(&position)?;
        self.uncount(&pending);
        Some(pending)
    }

    /// Removes some of them, from the front on.
    pub fn take_some(&mut self, count: usize) -> Vec<(Position, Pending)> {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some((position, pending)) = self.entries.pop_first()
        {
            self.uncount(&pending);
            taken.push((position, pending));
        }
        taken
    }
}
