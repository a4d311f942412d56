//! Settlement: outcomes that consumers give, and requeuing of deliveries. [surface, outcomes by
//! consumers]

use std::sync::Arc;

use bytes::Bytes;

use super::death::Dying;
use super::delaying::{delayed, requeue_or_delay};
use super::failure::Failure;
use super::work::{SLICE, Work};
use super::{Core, Turn};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{ConsumerId, HolderId, Lsn, Position, QueueId, Timestamp, invariant};
use crate::broker::queue::{Growth, MessageState};
use crate::broker::recovery::Acquisition;
use crate::broker::redrive::Learned;
use crate::broker::{Body, DropCause, Effect, Fact, Outcome, Settle, SettleRun};
use crate::deaths::{Evidence, How, Reason};

/// A delivery that is requeued.
#[derive(Debug)]
pub(super) struct Requeued<'a> {
    pub(super) queue: QueueId,
    pub(super) position: Position,
    /// How it failed; none: it did not.
    pub(super) failure: Option<&'a Failure>,
    /// Whether the failure counts as a failed delivery.
    pub(super) is_counted: bool,
    /// Whether its annotations were changed.
    pub(super) annotated: bool,
    /// When it is to be delivered again, if the consumer named an instant.
    pub(super) not_before: Option<Timestamp>,
}

impl Core {
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>, settle: Settle) {
        let Settle {
            consumer,
            position,
            outcome,
            confirm,
        } = settle;
        let Some(state) = self.clients.consumers.get(&consumer) else {
            return; // its queue was deleted meanwhile
        };
        let (connection, queue) = (state.connection, state.queue);
        let holder = state.holder;
        let of = (holder, state.settled);
        let is_settled = match outcome {
            // Of a copy it is true that it was accepted. Any other outcome has no effect on what it
            // is a copy of, and is answered with released.
            Outcome::Accepted => self.accept(queue, position, of) || self.browses(consumer),
            Outcome::Rejected { evidence } => {
                self.reject_held(turn, holder, (queue, position), evidence)
            }
            other => {
                let holds = self.holds(queue, position, consumer);
                if holds {
                    self.settle_held(turn, consumer, (queue, position), other);
                }
                holds
            }
        };
        if is_settled {
            self.release(consumer);
        } else {
            self.release_timed_out(consumer, position);
        }
        if let Some(token) = confirm {
            let lsn = self.recorder.settlement();
            let effect = Effect::Settled {
                consumer,
                token,
                took: is_settled,
                lsn,
            };
            turn.effects.outgoing.push((connection, effect));
        }
    }

    /// Drops a delivery that can be neither sent nor requeued.
    pub(super) fn discard(
        &mut self,
        turn: &mut Turn<'_>,
        (consumer, position): (ConsumerId, Position),
        cause: DropCause,
    ) {
        let state = self.clients.consumers.get(&consumer);
        let Some(queue) = state.map(|state| state.queue) else {
            return; // its queue was deleted meanwhile
        };
        if self.holds(queue, position, consumer) {
            self.remove_dropped(turn, queue, position, MessageState::Held, (None, cause));
            self.release(consumer);
        } else {
            self.release_timed_out(consumer, position);
        }
    }

    /// Settles several deliveries: each with its consequences and a record of its own, as if it
    /// came alone.
    pub(super) fn settle_run(&mut self, turn: &mut Turn<'_>, run: &SettleRun) {
        let consumer = run.consumer;
        if matches!(run.outcome, Outcome::Accepted) {
            return self.accept_run(turn, consumer, &run.positions);
        }
        for &position in &run.positions {
            let settle = Settle {
                consumer,
                position,
                outcome: run.outcome.clone(),
                confirm: None,
            };
            self.settle(turn, settle);
            self.run(turn);
            self.recorder.finish(turn.now, turn.effects);
            turn.begin_next();
        }
    }

    fn accept_run(&mut self, turn: &mut Turn<'_>, consumer: ConsumerId, positions: &[Position]) {
        let Some(state) = self.clients.consumers.get(&consumer) else {
            return; // its queue was deleted meanwhile
        };
        let (queue, of) = (state.queue, (state.holder, state.settled));
        // Those that were settled and are not counted yet: they are counted together where nobody waits for
        // one of them.
        let mut settled = 0;
        let mut is_awaited = self.clients.is_release_awaited(consumer);
        for &position in positions {
            if self.accept(queue, position, of) {
                settled += 1;
                if is_awaited {
                    self.release_some(consumer, std::mem::take(&mut settled));
                }
            } else {
                self.release_some(consumer, std::mem::take(&mut settled));
                self.release_timed_out(consumer, position);
                is_awaited = self.clients.is_release_awaited(consumer);
            }
            if !self.work.is_empty() {
                self.release_some(consumer, std::mem::take(&mut settled));
                self.run(turn);
                is_awaited = self.clients.is_release_awaited(consumer);
                turn.begin_next();
            }
            self.recorder.finish(turn.now, turn.effects);
        }
        self.release_some(consumer, settled);
    }

    /// Counts a delivery as settled, and wakes consumers that waited for that.
    pub(super) fn release(&mut self, consumer: ConsumerId) {
        self.release_some(consumer, 1);
    }

    /// The same for several deliveries, if any.
    #[inline]
    fn release_some(&mut self, consumer: ConsumerId, deliveries: u32) {
        if deliveries > 0
            && let Some(session) = self.clients.release(consumer, deliveries)
        {
            for blocked in self.clients.take_blocked_by_session(session) {
                self.wake(blocked);
            }
        }
    }

    /// Whether a consumer holds this message. After a settlement it does not: the gateway's tokens
    /// make sure that each delivery is settled once. Nor does it if the delivery timed out.
    pub(super) fn holds(&self, queue: QueueId, position: Position, consumer: ConsumerId) -> bool {
        let holder = self.clients.consumers.get(&consumer);
        let holder = holder.map(|consumer| consumer.holder);
        self.queues
            .get(&queue)
            .and_then(|queue| queue.messages.slot_if(position, MessageState::Held))
            .is_some_and(|slot| holder == Some(slot.holder))
    }

    /// Applies an outcome other than accepted or rejected.
    fn settle_held(
        &mut self,
        turn: &mut Turn<'_>,
        consumer: ConsumerId,
        (queue, position): (QueueId, Position),
        outcome: Outcome,
    ) {
        self.clear_suspect(queue, position);
        let settled = &mut self.counters.settled;
        match &outcome {
            Outcome::Accepted | Outcome::Rejected { .. } => {} // the caller's
            Outcome::Released => settled.released += 1,
            Outcome::Modified { .. } => settled.modified += 1,
        }
        match outcome {
            Outcome::Accepted | Outcome::Rejected { .. } => {}
            Outcome::Released => {
                let released = Requeued {
                    queue,
                    position,
                    failure: None,
                    is_counted: false,
                    annotated: false,
                    not_before: None,
                };
                self.requeue(turn, &released);
            }
            Outcome::Modified {
                delivery_failed,
                undeliverable_here,
                annotations,
            } => {
                self.annotate(queue, position, annotations.as_ref());
                let annotated = annotations.is_some();
                let not_before = self.instant_in(annotations.as_ref());
                let how = if undeliverable_here {
                    How::UndeliverableHere
                } else {
                    How::Failed
                };
                let by = self.clients.consumers.get(&consumer);
                let by = by.and_then(|consumer| consumer.evidence.clone());
                let failure = Failure::new(how, by).with_annotations(annotations);
                if undeliverable_here {
                    let evidence = self.failures.evidence(turn.now.wall, &failure);
                    self.reject(turn, (queue, position), delivery_failed, evidence);
                } else {
                    let modified = Requeued {
                        queue,
                        position,
                        failure: delivery_failed.then_some(&failure),
                        is_counted: delivery_failed,
                        annotated,
                        not_before,
                    };
                    self.requeue(turn, &modified);
                }
            }
        }
    }

    /// Removes an accepted message; whether the consumer held it.
    #[inline]
    fn accept(
        &mut self,
        id: QueueId,
        position: Position,
        (holder, settled): (HolderId, bool),
    ) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else {
            return false; // it was deleted, which its consumers are about to be told
        };
        let Some(gone) = queue
            .messages
            .take_held(position, holder, &mut self.deferred_free)
        else {
            return false;
        };
        queue.counters.accepted += 1;
        if settled {
            self.counters.settled.presettled += 1;
        } else {
            self.counters.settled.accepted += 1;
        }
        self.memory.resident.subtract(gone.resident_bytes);
        self.recorder.push_gone(id, position, &gone);
        if gone.moved_by > 0 {
            self.learn(id, gone.moved_by, Learned::Accepted);
        }
        true
    }

    fn annotate(&mut self, id: QueueId, position: Position, annotations: Option<&Bytes>) {
        let queue = self.queues.get_mut(&id);
        if let Some(annotations) = annotations
            && let Some(slot) = queue.and_then(|queue| queue.messages.slot_mut(position))
        {
            match slot
                .message
                .with_annotations(annotations, &mut self.merging)
            {
                Some(message) => {
                    message.charge(&self.memory.shared);
                    slot.message = Arc::new(message);
                }
                None => self.counters.annotations_ignored += 1,
            }
        }
    }

    /// Handles the outcome rejected; whether the consumer held the message.
    fn reject_held(
        &mut self,
        turn: &mut Turn<'_>,
        holder: HolderId,
        (id, position): (QueueId, Position),
        evidence: Option<Arc<Evidence>>,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else {
            return false; // it was deleted, which its consumers are about to be told
        };
        let slot = queue.messages.slot_mut_if(position, MessageState::Held);
        let Some(slot) = slot.filter(|slot| slot.holder == holder) else {
            return false;
        };
        slot.failures = slot.failures.saturating_add(1);
        self.counters.settled.rejected += 1;
        let dying = Dying {
            queue: id,
            position,
            from: MessageState::Held,
            reason: Reason::Rejected,
            evidence,
        };
        self.die(turn, dying);
        true
    }

    /// Lets a message die that its consumer could not use.
    fn reject(
        &mut self,
        turn: &mut Turn<'_>,
        (queue, position): (QueueId, Position),
        failed: bool,
        evidence: Option<Arc<Evidence>>,
    ) {
        let slot = self
            .queues
            .get_mut(&queue)
            .and_then(|q| q.messages.slot_mut(position));
        let Some(slot) = slot else {
            invariant!(fatal, "a message that is rejected is in memory");
        };
        if failed {
            slot.failures = slot.failures.saturating_add(1);
        }
        let (from, reason) = (MessageState::Held, Reason::Rejected);
        self.die(
            turn,
            Dying {
                queue,
                position,
                from,
                reason,
                evidence,
            },
        );
    }

    /// Requeues a held message to its position; or it dies, if it failed too often or expired
    /// meanwhile.
    pub(super) fn requeue(&mut self, turn: &mut Turn<'_>, requeued: &Requeued<'_>) {
        let Requeued {
            queue: id,
            position,
            failure,
            is_counted: failed,
            annotated,
            not_before,
        } = *requeued;
        self.recorder.cut(turn.now, turn.effects);
        let Some(queue) = self.queues.get_mut(&id) else {
            return invariant!(broken, "a message comes back to a queue that is there");
        };
        let Some(slot) = queue.messages.slot_mut(position) else {
            invariant!(fatal, "a message that comes back is in memory");
        };
        #[cfg(test)]
        let failed = failed && !is_planted(Plant::FailureNotCounted);
        slot.failures = slot.failures.saturating_add(u32::from(failed));
        slot.acquired = slot.acquired.saturating_add(1);
        let (failures, acquired, durable) = (slot.failures, slot.acquired, slot.durable);
        let slot = queue.messages.slot(position);
        let deadline = slot.map(|slot| queue.deadline_of(slot));
        if let Some(reason) = queue.dies_on_return(turn.now, (failed, failures), deadline) {
            // Expiry is not attributed to a consumer.
            let failure = failure.filter(|_| reason == Reason::DeliveryLimit);
            let evidence = failure.and_then(|it| self.failures.evidence(turn.now.wall, it));
            self.die(
                turn,
                Dying {
                    queue: id,
                    position,
                    from: MessageState::Held,
                    reason,
                    evidence,
                },
            );
            return;
        }
        let failure = failure.and_then(|it| self.failures.of(turn.now.wall, it));
        if let (Some(failure), Some(slot)) = (failure, queue.messages.slot_mut(position)) {
            failure.charge(&self.memory.shared);
            Arc::make_mut(&mut slot.message).fail(Arc::clone(failure));
        }
        let annotated = annotated || failure.is_some();
        let seed = self.options.seed;
        let delay = requeue_or_delay((turn.now, seed), queue, position, (failed, not_before));
        if annotated {
            self.change(id, position);
        }
        if durable {
            self.recorder.push(Fact::Returned {
                queue: id,
                position,
                failures,
                acquired,
            });
            if let Some(delay) = delay {
                self.recorder.push(delayed(turn.now, (id, position), delay));
            }
        }
        self.mark_evictable(id, position);
        self.schedule(id);
    }

    /// Records that a message in memory changed: its new envelope goes into this record.
    pub(super) fn change(&mut self, id: QueueId, position: Position) {
        let queue = self.queues.get_mut(&id);
        let slot = queue.and_then(|queue| queue.messages.slot_mut(position));
        let Some(slot) = slot else {
            invariant!(fatal, "a message that is changed is in memory");
        };
        if !slot.durable {
            return;
        }
        let before = std::mem::replace(&mut slot.envelope, self.recorder.name_envelope());
        let (message, route) = (slot.message.clone(), slot.route.clone());
        // One record cannot name the same message twice.
        let same = slot.body == slot.envelope;
        let body = match slot.body {
            Lsn(0) => Body::Carried,
            body => Body::At(body),
        };
        if before != slot.body || same {
            self.recorder.unname(before);
        }
        let queue = id;
        self.recorder.push_change(Fact::Changed {
            queue,
            position,
            message,
            route,
            body,
        });
    }

    /// Requeues a delivery that was assigned but never sent, as if nothing had happened.
    pub(super) fn return_unsent(
        &mut self,
        turn: &mut Turn<'_>,
        consumer: ConsumerId,
        position: Position,
    ) {
        let session = self.clients.unassign(consumer);
        let holding = self.queue_of(consumer);
        let holding = holding.filter(|id| self.holds(*id, position, consumer));
        let Some(id) = holding else {
            // The queue was deleted or the delivery timed out meanwhile; other consumers of the
            // session can continue.
            self.return_copy(consumer, position);
            self.release_timed_out(consumer, position);
            if let Some(session) = session {
                self.wake_released(session);
            }
            return;
        };
        let Some(queue) = self.queues.get(&id) else {
            return invariant!(broken, "the queue of a delivery that never left is there");
        };
        let Some(slot) = queue.messages.slot(position) else {
            invariant!(fatal, "a message whose delivery never left is in memory");
        };
        let late = queue.deadline_of(slot) <= turn.now.mono;
        let acquisition = Acquisition {
            position,
            acquired: slot.acquired,
        };
        let holder = slot.holder;
        if self.keep_resent(consumer, acquisition) {
            if let Some(session) = session {
                self.wake_released(session);
            }
            return self.wake(consumer);
        }
        let released = self.clients.release(consumer, 1);
        let blocked = released.map(|session| self.clients.take_blocked_by_session(session));
        if late {
            let (from, reason) = (MessageState::Held, Reason::Expired);
            self.die(
                turn,
                Dying {
                    queue: id,
                    position,
                    from,
                    reason,
                    evidence: None,
                },
            );
        } else if let Some(queue) = self.queues.get_mut(&id) {
            queue.messages.requeue(position);
            queue.selecting.requeued(position);
            queue.growth = Growth::Grown;
            self.note_unsent(id, position, holder);
            self.mark_evictable(id, position);
            self.schedule(id);
        }
        for consumer in blocked.into_iter().flatten().chain([consumer]) {
            self.wake(consumer);
        }
    }

    /// Requeues some of the deliveries of a detached consumer.
    pub(super) fn requeue_slice(
        &mut self,
        turn: &mut Turn<'_>,
        (id, consumer, holder): (QueueId, ConsumerId, HolderId),
        mut from: Position,
        mut left: u32,
        (failure, suspected): (Option<Box<Failure>>, bool),
    ) {
        // What others hold is passed step by step, too: it may be a million of messages.
        let mut blocks = SLICE;
        for _ in 0..SLICE {
            let Some(queue) = self.queues.get_mut(&id) else {
                return; // deleted meanwhile, with all in it
            };
            let position = match queue.messages.find_held(from, &mut blocks) {
                Ok(position) => position,
                Err(Some(next)) => {
                    turn.budget = turn.budget.saturating_sub(1);
                    from = next;
                    break;
                }
                Err(None) => {
                    return invariant!(
                        broken,
                        "a consumer that is gone held as much as it counted"
                    );
                }
            };
            let slot = queue.messages.slot(position);
            if slot.is_none_or(|slot| slot.holder != holder) {
                turn.budget = turn.budget.saturating_sub(1);
                from = Position(position.0 + 1);
                continue;
            }
            // With too many suspects the rest counts as failed, as without isolation.
            let suspected = suspected && queue.selecting.suspect(position);
            let returned = Requeued {
                queue: id,
                position,
                failure: failure.as_deref(),
                is_counted: failure.is_some() && !suspected,
                annotated: false,
                not_before: None,
            };
            self.requeue(turn, &returned);
            turn.budget = turn.budget.saturating_sub(1);
            from = Position(position.0 + 1);
            left -= 1;
            if left == 0 {
                // Its message groups are free only now: their messages go on in their order.
                if let Some(queue) = self.queues.get_mut(&id) {
                    queue.selecting.free_groups(consumer);
                }
                self.schedule(id);
                return;
            }
        }
        self.work.push_back(Work::Requeue {
            queue: id,
            consumer,
            holder,
            from,
            left,
            failure,
            suspected,
        });
    }
}
