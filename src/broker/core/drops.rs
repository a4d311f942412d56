//! Messages that are dropped: counted at once, told to the log at most once a second for each queue,
//! reason and cause; what came within that second is told when it is over.

use super::{Core, Turn};
use crate::base::{Millis, QueueId};
use crate::broker::counters::DropLine;
use crate::broker::queue::Queue;
use crate::broker::{DropCause, LogEvent};
use crate::deaths::Reason;

/// Queues whose rest is told in one tick; the next one goes on.
const TELL_MAX: usize = 256;

impl Core {
    /// Counts messages that a queue dropped, and tells the log of them, now or later.
    pub(super) fn note_drops(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        (reason, cause): (Option<Reason>, DropCause),
        count: u64,
    ) {
        if let Some(queue) = self.queues.get_mut(&id) {
            let drops = &mut queue.counters.drops;
            match drops.add(turn.now.mono, reason, cause, count) {
                DropLine::Now(count) => turn.tell_drops(queue, (reason, cause), count),
                DropLine::At(due) => {
                    self.untold_drops.insert((due, id));
                }
            }
        }
        let total = &mut self.counters.drops;
        total.add(Millis::default(), reason, cause, count);
    }

    /// Tells the log of what was dropped within a second that is over.
    pub(super) fn tell_due_drops(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..TELL_MAX {
            let first = self.untold_drops.first().copied();
            let Some((due, id)) = first.filter(|(due, _)| *due <= turn.now.mono) else {
                return;
            };
            self.untold_drops.remove(&(due, id));
            if let Some(queue) = self.queues.get_mut(&id) {
                let untold = queue.counters.drops.take_untold(turn.now.mono);
                for (reason, cause, count) in untold {
                    turn.tell_drops(queue, (reason, cause), count);
                }
            }
        }
    }

    /// Tells the log of what was not told yet of a queue that goes.
    pub(super) fn tell_last_drops(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id) {
            for (reason, cause, count) in queue.counters.drops.take_untold(Millis::NEVER) {
                turn.tell_drops(queue, (reason, cause), count);
            }
        }
    }
}

impl Turn<'_> {
    fn tell_drops(
        &mut self,
        queue: &Queue,
        (reason, cause): (Option<Reason>, DropCause),
        count: u64,
    ) {
        self.effects.log.push(LogEvent::Dropped {
            queue: queue.name.clone(),
            reason,
            cause,
            count,
        });
    }
}
