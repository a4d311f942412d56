//! Working off the list item by item, for simulations that look at the core before each.

use super::work::Work;
use super::{COMMAND_BUDGET, Core, Turn};
use crate::base::{Now, Position, QueueId};
use crate::broker::{Command, Effects, Event, Reply};

impl Core {
    /// [`Core::apply`] without the work that follows, which stays on the list.
    pub fn apply_alone(&mut self, now: Now, command: Command, effects: &mut Effects) -> Reply {
        self.wake_due(now);
        let mut turn = Turn::new(now, COMMAND_BUDGET, effects);
        let reply = self.handle(&mut turn, command);
        self.recorder.finish(now, effects);
        reply
    }

    /// Does the first item of the list; false if there is none.
    pub fn work_one(&mut self, now: Now, effects: &mut Effects) -> bool {
        let mut turn = Turn::new(now, 1, effects);
        let is_any = !self.work.is_empty();
        self.run(&mut turn);
        self.recorder.finish(now, effects);
        is_any
    }

    /// The message that the first item of the list is about, and what happens to it; none if the
    /// item is about none or several, or waits for bytes on disk.
    pub fn next_event(&self) -> Option<((QueueId, Position), Event)> {
        let pending = |(id, position): (QueueId, Position)| {
            let is_pending = self.queues.get(&id)?.pending.entry(position).is_some();
            is_pending.then_some(((id, position), Event::Retried))
        };
        match *self.work.front()? {
            Work::Die {
                queue: id,
                position,
                reason,
            } => {
                let queue = self.queues.get(&id)?;
                let is_next = queue.awaiting_page_in.is_empty();
                is_next.then_some(((id, position), Event::Dies(reason)))
            }
            Work::RetryWaiter { waiter, .. } => pending((waiter.source, waiter.position)),
            Work::Retry(id) => {
                let queue = self.queues.get(&id)?;
                let first = queue.pending.next(queue.retry_from?)?;
                let further = queue.pending.next(Position(first.0 + 1));
                pending((id, first)).filter(|_| further.is_none())
            }
            Work::Requeue {
                queue,
                holder,
                from,
                left: 1,
                ref failure,
                suspected,
                ..
            } => {
                let position = self.queues.get(&queue)?.messages.held_by(holder, from)?;
                let returned = Event::Returned {
                    failed: failure.is_some() && !suspected,
                    evidence: None,
                };
                Some(((queue, position), returned))
            }
            _ => None,
        }
    }
}
