//! Messages that are dropped, or quarantined: counted at once, and logged at most once a second for
//! each queue, reason and cause; those within that second are logged when it is over.

use super::{Core, Turn};
use crate::base::{Millis, QueueId};
use crate::broker::counters::{DropLine, Drops, QueueCounters};
use crate::broker::death_counts::DeathOutcome;
use crate::broker::queue::Queue;
use crate::broker::{DropCause, LogEvent};
use crate::deaths::Reason;

/// Queues whose drops one tick logs; the next tick goes on.
const TELL_MAX: usize = 256;

/// What happened to messages without a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Dropped,
    Quarantined,
}

impl Fate {
    const ALL: [Self; 2] = [Self::Dropped, Self::Quarantined];

    fn of(self, counters: &mut QueueCounters) -> &mut Drops {
        match self {
            Self::Dropped => &mut counters.drops,
            Self::Quarantined => &mut counters.quarantined,
        }
    }
}

impl Core {
    /// Counts messages that a queue dropped, and logs them now or later.
    pub(super) fn note_drops(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        why: (Option<Reason>, DropCause),
        count: u64,
    ) {
        self.note(turn, id, Fate::Dropped, why, count);
    }

    /// Counts messages that were dropped or quarantined, and logs them now or later.
    pub(super) fn note(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        fate: Fate,
        (reason, cause): (Option<Reason>, DropCause),
        count: u64,
    ) {
        if let Some(queue) = self.queues.get_mut(&id) {
            let counts = fate.of(&mut queue.counters);
            match counts.add(turn.now.mono, reason, cause, count) {
                DropLine::Now(count) => turn.tell(queue, fate, (reason, cause), count),
                DropLine::At(due) => {
                    self.untold_drops.insert((due, id));
                }
            }
            if let Some(reason) = reason
                && !queue.durable
            {
                let outcome = match fate {
                    Fate::Dropped => DeathOutcome::Dropped(cause),
                    Fate::Quarantined => DeathOutcome::Quarantined(cause),
                };
                self.deaths.vhost.give_up(reason, outcome, count);
            }
        }
        let total = match fate {
            Fate::Dropped => &mut self.counters.drops,
            Fate::Quarantined => &mut self.counters.quarantined,
        };
        total.add(Millis::default(), reason, cause, count);
    }

    /// Logs the drops and quarantined messages whose second is over.
    pub(super) fn tell_due_drops(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..TELL_MAX {
            let first = self.untold_drops.first().copied();
            let Some((due, id)) = first.filter(|(due, _)| *due <= turn.now.mono) else {
                return;
            };
            self.untold_drops.remove(&(due, id));
            self.tell_untold(turn, id, turn.now.mono);
        }
    }

    /// Logs the remaining drops of a queue that is being deleted.
    pub(super) fn tell_last_drops(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        self.tell_untold(turn, id, Millis::NEVER);
    }

    fn tell_untold(&mut self, turn: &mut Turn<'_>, id: QueueId, until: Millis) {
        if let Some(queue) = self.queues.get_mut(&id) {
            for fate in Fate::ALL {
                for (reason, cause, count) in fate.of(&mut queue.counters).take_untold(until) {
                    turn.tell(queue, fate, (reason, cause), count);
                }
            }
        }
    }
}

impl Turn<'_> {
    fn tell(
        &mut self,
        queue: &Queue,
        fate: Fate,
        (reason, cause): (Option<Reason>, DropCause),
        count: u64,
    ) {
        let queue = queue.name.clone();
        self.effects.log.push(match fate {
            Fate::Dropped => LogEvent::Dropped {
                queue,
                reason,
                cause,
                count,
            },
            Fate::Quarantined => LogEvent::Quarantined {
                queue,
                reason,
                cause,
                count,
            },
        });
    }
}
