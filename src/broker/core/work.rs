//! Work that follows from a command, done in bounded pieces in the order it arose.

use std::vec::IntoIter;

use super::failure::Failure;
use super::{Core, Turn};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{ConnectionId, ConsumerId, HolderId, Lsn, Millis, Now, Position, QueueId};
use crate::broker::queue::Waiter;
use crate::deaths::Reason;

/// One piece of work. What is longer than a piece puts the rest back at the end of the list.
#[derive(Debug)]
pub(super) enum Work {
    /// Give out messages, expire what is due, enforce limits, wake waiters.
    Serve(QueueId),
    /// Bring a message that is marked as dead to its targets.
    Die {
        /// Where it died.
        queue: QueueId,
        /// Its place.
        position: Position,
        /// The reason of the death.
        reason: Reason,
    },
    /// Bring dead messages of a queue that were paged in to where they go.
    AfterPageIn(QueueId),
    /// Try the dead letters of a queue again, from [`crate::broker::queue::Queue::retry_from`] on.
    Retry(QueueId),
    /// Drop the dead letters of a queue that were purged.
    DropPending {
        /// Where they wait.
        queue: QueueId,
        /// The first that may be meant.
        from: Position,
        /// Only those that began to wait before this ticket was given out.
        before_ticket: u64,
    },
    /// Try one that waited for room in a queue.
    RetryWaiter {
        /// The queue that has room now.
        target: QueueId,
        /// Who waits.
        waiter: Waiter,
    },
    /// Return what a consumer held that is gone.
    Requeue {
        /// The queue that it concerns.
        queue: QueueId,
        /// The holder whose deliveries return.
        holder: HolderId,
        /// The first that may be.
        from: Position,
        /// How many are left.
        left: u32,
        /// How they failed, if they count as failed.
        failure: Option<Box<Failure>>,
    },
    /// Go on with [`Core::policy_pass`].
    ApplyPolicies,
    /// Try the dead letters of all queues behind [`Core::retried_to`] again.
    RetryAll,
    /// Let consumers go on that found no room.
    Wake(IntoIter<ConsumerId>),
    /// Forget a connection that is gone.
    Close(ConnectionId),
    /// Tell consumers that their queue is gone.
    EndConsumers(IntoIter<ConsumerId>),
    /// Tell publishers that their queue is gone, once this is durable.
    EndPublishers(QueueId, Lsn),
}

/// Messages that one piece may touch, whatever is left of the budget: so the order of the work does
/// not depend on where budgets end.
pub(super) const SLICE: usize = 64;
/// Queues whose time has come that one command or tick puts on the list; the next one goes on.
const WAKE_MAX: usize = 256;
/// What freeing one block of messages counts.
const FREE_COST: usize = 64;

impl Core {
    /// Works until the budget is used up or nothing is left.
    pub(super) fn run(&mut self, turn: &mut Turn<'_>) {
        while turn.budget > 0
            && let Some(work) = self.work.pop_front()
        {
            turn.budget -= 1;
            match work {
                Work::Serve(queue) => self.serve(turn, queue),
                Work::Die {
                    queue,
                    position,
                    reason,
                } => {
                    self.die_in_turn(turn, queue, position, reason);
                }
                Work::AfterPageIn(queue) => self.after_page_in_slice(turn, queue),
                Work::Retry(queue) => self.retry_slice(turn, queue),
                Work::DropPending {
                    queue,
                    from,
                    before_ticket,
                } => self.drop_pending_slice(turn, queue, from, before_ticket),
                Work::RetryWaiter { target, waiter } => {
                    let place = (waiter.source, waiter.position);
                    self.retry(turn, place, Some(target));
                    if !self.is_awaiting_page_in(place) {
                        self.schedule(target);
                    }
                }
                Work::Requeue {
                    queue,
                    holder,
                    from,
                    left,
                    failure,
                } => {
                    self.requeue_slice(turn, (queue, holder), from, left, failure);
                }
                Work::ApplyPolicies => self.apply_policies_slice(turn),
                Work::RetryAll => self.retry_all_slice(turn),
                Work::Wake(consumers) => self.wake_slice(turn, consumers),
                Work::Close(connection) => self.close_slice(turn, connection),
                Work::EndConsumers(consumers) => self.end_consumers(turn, consumers),
                Work::EndPublishers(queue, lsn) => self.end_publishers(turn, queue, lsn),
            }
        }
        #[cfg(test)]
        if is_planted(Plant::RestForgotten) {
            self.work.pop_front();
        }
    }

    /// Takes detached storage out, to be freed without the lock.
    pub(super) fn free(&mut self, turn: &mut Turn<'_>) {
        while turn.budget > 0 && !self.deferred_free.is_empty() {
            let recorder = &mut self.recorder;
            let garbage = self.deferred_free.take_some(|body| recorder.unname(body));
            turn.effects.garbage.extend(garbage);
            turn.budget = turn.budget.saturating_sub(FREE_COST);
        }
    }

    /// Puts a queue on the work list, once.
    pub(super) fn schedule(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id)
            && !queue.scheduled
        {
            queue.scheduled = true;
            self.work.push_back(Work::Serve(id));
        }
    }

    /// Puts the queues whose time has come on the work list.
    #[inline]
    pub(super) fn wake_due(&mut self, now: Now) {
        let next = self.deadlines.first();
        if next.is_some_and(|(deadline, _)| *deadline <= now.mono) {
            self.wake_all_due(now);
        }
    }

    fn wake_all_due(&mut self, now: Now) {
        for _ in 0..WAKE_MAX {
            let due = self.deadlines.first().copied();
            let Some((_, id)) = due.filter(|(deadline, _)| *deadline <= now.mono) else {
                return;
            };
            self.deadlines.pop_first();
            if let Some(queue) = self.queues.get_mut(&id) {
                queue.registered = Millis::NEVER;
            }
            self.schedule(id);
        }
    }
}
