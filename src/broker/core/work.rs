//! The worklist: work that follows from a command, done in bounded slices in the order it arose.

use std::vec::IntoIter;

use super::failure::Failure;
use super::timeouts::Look;
use super::{Core, Turn};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{ConnectionId, ConsumerId, HolderId, Lsn, Millis, Now, Position, QueueId};
use crate::broker::queue::{PendingSet, Waiter};
use crate::deaths::Reason;

/// One item of work. Work that is longer than a slice puts the rest back at the end of the list.
#[derive(Debug)]
pub(super) enum Work {
    /// Serve a queue: assign messages, expire them, enforce limits, send waiting dead letters.
    Serve(QueueId),
    /// Send a message that is marked as dead to its targets.
    Die {
        /// The queue it died in.
        queue: QueueId,
        /// The position of the message in that queue.
        position: Position,
        /// The reason of its death.
        reason: Reason,
    },
    /// Send copies to browsers of a queue.
    Browse(QueueId),
    /// Handle dead messages of a queue whose blocks were paged in.
    AfterPageIn(QueueId),
    /// Send the waiting dead letters of a queue again, from
    /// [`crate::broker::queue::Queue::retry_from`] on.
    Retry(QueueId),
    /// Drop the waiting dead letters of a queue that was purged.
    DropPending {
        /// The queue they wait in.
        queue: QueueId,
        /// The position of the first that may be affected.
        from: Position,
        /// Drop only those that began to wait before this ticket was issued.
        before_ticket: u64,
    },
    /// Forget that the dead letters of a queue that is gone wait for room in others.
    ForgetWaiters(QueueId, Box<PendingSet>),
    /// Send a dead letter that waited for room in a queue.
    RetryWaiter {
        /// The queue that has room now.
        target: QueueId,
        /// The dead letter that waits.
        waiter: Waiter,
    },
    /// Requeue the deliveries of a consumer that is detached.
    Requeue {
        /// The queue that it concerns.
        queue: QueueId,
        /// The consumer, whose message groups are freed.
        consumer: ConsumerId,
        /// The holder whose deliveries are requeued.
        holder: HolderId,
        /// The position of the first that may be affected.
        from: Position,
        /// Number of deliveries left.
        left: u32,
        /// How they failed; none: they do not count as failed.
        failure: Option<Box<Failure>>,
        /// Whether they are suspected instead of counted as failed.
        suspected: bool,
    },
    /// Compare what a consumer's link held before with what its consumer knows of.
    Recover(ConsumerId),
    /// Send deliveries again to a consumer whose link held them before.
    Resend(ConsumerId),
    /// Look at deliveries of a queue that may have been held for too long.
    TimeOut(Look),
    /// Move some messages of a redrive, by its number.
    Redrive(u64),
    /// Continue with [`Core::policy_pass`].
    ApplyPolicies,
    /// Send the waiting dead letters of all queues behind [`Core::retried_to`] again.
    RetryAll,
    /// Wake consumers that were blocked by their session or connection.
    Wake(IntoIter<ConsumerId>),
    /// Remove a closed connection.
    Close(ConnectionId),
    /// Tell consumers that their queue was deleted.
    EndConsumers(IntoIter<ConsumerId>),
    /// Tell publishers that their queue was deleted, once this record is durable.
    EndPublishers(QueueId, Lsn),
}

/// Messages that one slice may touch, whatever is left of the budget: so the order of the work does
/// not depend on where budgets end.
pub(super) const SLICE: usize = 64;
/// Queues with a passed deadline that one command or tick puts on the list; the next one goes on.
const WAKE_MAX: usize = 256;
/// Cost of freeing one block of messages, counted in messages.
const FREE_COST: usize = 64;

impl Core {
    /// Works until the budget is used up or the list is empty.
    pub(super) fn run(&mut self, turn: &mut Turn<'_>) {
        while turn.budget > 0
            && let Some(work) = self.work.pop_front()
        {
            turn.budget -= 1;
            match work {
                Work::Serve(queue) => self.serve(turn, queue),
                Work::Browse(queue) => self.browse_slice(turn, queue),
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
                Work::ForgetWaiters(queue, pending) => self.forget_waiters(turn, queue, pending),
                Work::Requeue {
                    queue,
                    consumer,
                    holder,
                    from,
                    left,
                    failure,
                    suspected,
                } => {
                    let failure = (failure, suspected);
                    self.requeue_slice(turn, (queue, consumer, holder), from, left, failure);
                }
                Work::Recover(consumer) => self.recover_slice(turn, consumer),
                Work::Resend(consumer) => self.resend_slice(turn, consumer),
                Work::TimeOut(look) => self.look_slice(turn, look),
                Work::Redrive(number) => self.redrive_slice(turn, number),
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

    /// Hands detached storage to the effects, to be freed without the lock.
    pub(super) fn free(&mut self, turn: &mut Turn<'_>) {
        while turn.budget > 0 && !self.deferred_free.is_empty() {
            let recorder = &mut self.recorder;
            let garbage = self.deferred_free.take_some(|body| recorder.unname(body));
            turn.effects.garbage.extend(garbage);
            turn.budget = turn.budget.saturating_sub(FREE_COST);
        }
    }

    /// Puts a queue on the worklist, once.
    pub(super) fn schedule(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id)
            && !queue.scheduled
        {
            queue.scheduled = true;
            self.work.push_back(Work::Serve(id));
        }
    }

    /// Puts the queues whose deadline has passed on the worklist.
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
