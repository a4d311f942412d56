//! Messages of a queue that wait until it is their time. [evidence part 5]

use std::collections::{BTreeMap, BTreeSet};

use super::deferred_free::DeferredFree;
use super::slot::MessageState;
use super::subqueue::Usage;
use crate::base::limits::DELAYED_OVERHEAD_BYTES;
use crate::base::{Charge, Gauge, Millis, Position, Timestamp, uncount};

/// How long a message waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delay {
    /// When it is over, on the clock that deadlines use.
    pub due: Millis,
    /// When it is over by the wall clock, as it was when the delay began: for operators, and for
    /// the next start.
    pub until: Timestamp,
    /// Whether a client named the instant; else it was a duration.
    pub is_named: bool,
}

/// When the next and the last delay of a queue are over, by the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedSpan {
    /// The end of the delay that is over first.
    pub next: Timestamp,
    /// The end of the delay that is over last.
    pub last: Timestamp,
}

/// The messages of one queue that wait for their time.
#[derive(Debug, Default)]
pub struct DelayedSet {
    delays: BTreeMap<Position, Delay>,
    order: BTreeSet<(Millis, Position)>,
    bytes: u64,
    /// The memory of the two indexes, which stay when messages are evicted.
    kept: Option<Charge>,
}

impl DelayedSet {
    /// Charges its memory to the gauge from now on; to be called while it is empty.
    pub(super) fn charge(&mut self, gauge: &Gauge) {
        self.kept = Some(gauge.charge(0));
    }

    /// Takes all messages out.
    pub(super) fn take(&mut self) -> Self {
        let kept = self.kept.as_ref().map(|kept| kept.gauge().charge(0));
        let empty = Self {
            kept,
            ..Self::default()
        };
        std::mem::replace(self, empty)
    }

    /// Number and bytes of the messages that wait.
    #[inline]
    pub fn usage(&self) -> Usage {
        Usage {
            messages: self.delays.len() as u64,
            bytes: self.bytes,
        }
    }

    /// Whether no message waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.delays.is_empty()
    }

    /// The delay of the message at this position; none if it does not wait.
    pub fn delay(&self, position: Position) -> Option<Delay> {
        self.delays.get(&position).copied()
    }

    /// The message whose delay is over first, and when.
    pub fn first_due(&self) -> Option<(Millis, Position)> {
        self.order.first().copied()
    }

    /// The first message between two positions.
    pub fn first_between(&self, from: Position, end: Position) -> Option<Position> {
        let mut found = self.delays.range(from..end);
        found.next().map(|(position, _)| *position)
    }

    /// The message with the lowest position: the oldest of the lowest priority.
    pub fn lowest(&self) -> Option<Position> {
        self.delays.keys().next().copied()
    }

    /// When the delays are over; none if no message waits.
    pub fn span(&self) -> Option<DelayedSpan> {
        let until = |entry: Option<&(Millis, Position)>| {
            let (_, position) = entry?;
            self.delay(*position).map(|delay| delay.until)
        };
        Some(DelayedSpan {
            next: until(self.order.first())?,
            last: until(self.order.last())?,
        })
    }

    /// Adds a message that did not wait.
    pub(super) fn put(&mut self, position: Position, delay: Delay, size_bytes: u32) {
        self.bytes += u64::from(size_bytes);
        self.delays.insert(position, delay);
        self.order.insert((delay.due, position));
        if let Some(kept) = &mut self.kept {
            kept.grow(DELAYED_OVERHEAD_BYTES);
        }
    }

    /// Removes a message.
    pub(super) fn remove(&mut self, position: Position, size_bytes: u32) {
        if let Some(delay) = self.delays.remove(&position) {
            self.order.remove(&(delay.due, position));
            if let Some(kept) = &mut self.kept {
                kept.shrink(DELAYED_OVERHEAD_BYTES);
            }
            uncount!(
                self.bytes,
                u64::from(size_bytes),
                "the bytes of a message that waits were counted"
            );
        }
    }

    /// Hands everything over, to be freed later.
    pub(super) fn scrap(self, deferred_free: &mut DeferredFree) {
        deferred_free.delays(self.delays);
        deferred_free.timers(self.order);
    }
}

/// A message whose time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// It expired, in this state.
    Expired(Position, MessageState),
    /// Its delay is over.
    Ready(Position),
}
