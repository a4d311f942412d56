//! What the core told as events, added up: the counters and the model count the same. [evidence part 10]

use std::collections::BTreeMap;

use crate::broker::death_counts::DeathOutcome;
use crate::broker::event::{EventKind, VhostEvent};
use crate::broker::{ByReason, Counters, DropCause};
use crate::deaths::Reason;

/// Messages by reason and cause.
type ByCause = BTreeMap<(Option<Reason>, DropCause), u64>;

/// Events, added up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ToldEvents {
    dead: ByReason,
    dead_lettered: u64,
    drops: ByCause,
    quarantined: ByCause,
    redriven: u64,
    timed_out: u64,
    /// The number of the last one.
    last: u64,
}

impl ToldEvents {
    /// Adds an event; an error: it has no number of its own.
    pub(super) fn add(&mut self, event: &VhostEvent) -> Result<(), String> {
        if event.number <= self.last {
            return Err(format!("event {} behind {}", event.number, self.last));
        }
        self.last = event.number;
        match &event.kind {
            EventKind::Death {
                reason, outcome, ..
            } => {
                self.dead.add_some(*reason, 1);
                match outcome {
                    Some(DeathOutcome::DeadLettered) => self.dead_lettered += 1,
                    Some(DeathOutcome::Dropped(cause)) => {
                        *self.drops.entry((Some(*reason), *cause)).or_default() += 1;
                    }
                    Some(DeathOutcome::Quarantined(cause)) => {
                        let key = (Some(*reason), *cause);
                        *self.quarantined.entry(key).or_default() += 1;
                    }
                    None => {}
                }
            }
            EventKind::DeadLettered { .. } => self.dead_lettered += 1,
            EventKind::Dropped {
                reason,
                cause,
                messages,
            } => *self.drops.entry((*reason, *cause)).or_default() += messages,
            EventKind::Quarantined { reason, cause } => {
                let key = (Some(*reason), *cause);
                *self.quarantined.entry(key).or_default() += 1;
            }
            EventKind::Redriven { .. } => self.redriven += 1,
            EventKind::ConsumerTimeout { .. } => self.timed_out += 1,
            EventKind::Redrive(_) => {}
        }
        Ok(())
    }

    /// What the events should add up to.
    pub(super) fn of_counters(&self, counters: &Counters) -> Self {
        let by_cause = |drops: &crate::broker::Drops| {
            let kinds = drops.kinds().iter();
            kinds
                .map(|kind| ((kind.reason, kind.cause), kind.count))
                .collect()
        };
        Self {
            dead: counters.dead,
            dead_lettered: counters.dead_lettered.total(),
            drops: by_cause(&counters.drops),
            quarantined: by_cause(&counters.quarantined),
            redriven: counters.redriven.moved,
            timed_out: counters.timed_out,
            last: self.last,
        }
    }
}
