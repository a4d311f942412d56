//! A link is attached again: what it holds is compared with what its consumer knows of, and sent again.

use super::{BLOCKS_MAX, Inherited, Recovering, Terms};
use crate::base::{ConsumerId, HolderId, Lsn, Position, QueueId, invariant};
use crate::broker::consumer_link::ConsumerLink;
use crate::broker::core::clients::holder;
use crate::broker::core::consumer_links::Journalled;
use crate::broker::core::failure::Failure;
use crate::broker::core::serve::describe;
use crate::broker::core::settle::Requeued;
use crate::broker::core::work::{SLICE, Work};
use crate::broker::core::{Core, Turn};
use crate::broker::queue::{MessageState, Slot};
use crate::broker::recovery::{Acquisition, LinkEnd, LinkKey, Recovered, Recovery};
use crate::broker::{ConsumerEnd, Effect, Outcome, Settle};

impl Core {
    /// Takes a link from the consumer that has it attached, if one has.
    pub(in crate::broker::core) fn steal_link(&mut self, turn: &mut Turn<'_>, key: &LinkKey) {
        let Some(id) = self.recoveries.links.get(key).copied() else {
            return;
        };
        let Some(consumer) = self.clients.end(id) else {
            return; // it is nowhere attached
        };
        let stolen = Effect::ConsumerEnded {
            consumer: id,
            cause: ConsumerEnd::Stolen,
        };
        turn.effects.outgoing.push((consumer.connection, stolen));
        // Its time begins only if it is not attached after all.
        self.take_leave(turn, (id, consumer), None, LinkEnd::ConnectionClosed);
    }

    /// What a new consumer takes over from the one that its link had before.
    pub(in crate::broker::core) fn inherit(
        &mut self,
        queue: QueueId,
        (id, consumer_timeout_ms): (ConsumerId, Option<u32>),
        recovery: Recovery,
    ) -> Inherited {
        let Recovery {
            key,
            expiry,
            timeout_ms,
            known,
            is_incomplete,
            is_durable,
        } = recovery;
        let before = self.recoveries.links.get(&key).copied();
        let before = before.and_then(|before| self.recoveries.take(before));
        if !self.recoveries.claim(&key, id) {
            return Inherited::nothing(id); // there are too many
        }
        // Another source makes another link of it.
        let (before, other) = match before {
            Some(before) if before.queue != queue => (None, Some(before)),
            before => (before, None),
        };
        if let Some(other) = other {
            self.forget_consumer_link(other.terms.journalled);
            self.requeue_held(other);
        }
        let link = ConsumerLink {
            number: 0,
            key: key.clone(),
            queue,
            expiry,
            timeout_ms,
            consumer_timeout_ms,
        };
        let known_as = before
            .as_ref()
            .map(|before| (before.holder, before.terms.journalled));
        let journalled = self.journal_link(is_durable, link, (id, known_as));
        let charge = self.options.kept.charge(0);
        let mut terms = Terms::new(key, (expiry, timeout_ms), journalled, charge);
        terms.only_resumes = is_incomplete;
        let mut inherited = (holder(id), 0);
        if let Some(before) = before {
            terms.recovering = Some(Recovering {
                known,
                is_incomplete,
                failed: before.failed,
                from: Position(0),
                held: Vec::new(),
                late: Vec::new(),
                lsn: Lsn(0),
            });
            terms.late = before.terms.late;
            inherited = (before.holder, before.held);
            self.recoveries.heirs.insert(before.holder, id);
            if let Some(queue) = self.queues.get_mut(&queue) {
                queue.timeouts.remove(before.timeout_ms);
                queue.selecting.pass_groups(before.consumer, id);
            }
            self.work.push_back(Work::Recover(id));
        }
        terms.count();
        let (holder, held) = inherited;
        Inherited {
            terms: Some(terms),
            holder,
            held,
        }
    }

    /// Has the journal keep a link that is to outlive the broker, or forget it if it is not to any more. What
    /// a link held before that was not kept so stays unknown to the journal: then it is not kept from now on.
    fn journal_link(
        &mut self,
        is_durable: bool,
        link: ConsumerLink,
        (id, before): (ConsumerId, Option<(HolderId, Option<Journalled>)>),
    ) -> Option<Journalled> {
        let queue = self.queues.get(&link.queue);
        let is_able = self.options.journal && queue.is_some_and(|queue| queue.durable);
        let known = before.and_then(|(_, journalled)| journalled);
        if !is_durable || !is_able || (before.is_some() && known.is_none()) {
            self.forget_consumer_link(known);
            return None;
        }
        let holder = before.map_or_else(|| holder(id), |(holder, _)| holder);
        Some(self.keep_consumer_link(link, holder, known))
    }

    /// Compares some of what a link held before with what its consumer knows of.
    pub(in crate::broker::core) fn recover_slice(&mut self, turn: &mut Turn<'_>, id: ConsumerId) {
        let Some(consumer) = self.clients.consumers.get_mut(&id) else {
            return; // it went meanwhile
        };
        let (queue_id, holder) = (consumer.queue, consumer.holder);
        if self.awaits_reserved(queue_id, id) {
            return;
        }
        let consumer = self.clients.consumers.get_mut(&id);
        let terms = consumer.and_then(|consumer| consumer.recovery.as_mut());
        let Some(mut recovering) = terms.and_then(|terms| terms.recovering.take()) else {
            return invariant!(broken, "a link that is attached again is compared once");
        };
        let (mut blocks, mut left) = (BLOCKS_MAX, SLICE);
        let is_over = loop {
            if left == 0 {
                break false;
            }
            let Some(queue) = self.queues.get(&queue_id) else {
                return; // deleted meanwhile, which its consumers are about to be told
            };
            let position = match queue.messages.find_held(recovering.from, &mut blocks) {
                Ok(position) => position,
                Err(None) => break true,
                Err(Some(next)) => {
                    recovering.from = next;
                    break false;
                }
            };
            (recovering.from, left) = (Position(position.0 + 1), left - 1);
            let slot = queue.messages.slot(position);
            if let Some(slot) = slot.filter(|slot| slot.holder == holder) {
                let acquisition = Acquisition {
                    position,
                    acquired: slot.acquired,
                };
                self.recover(turn, (id, &mut recovering), (queue_id, acquisition));
            }
        };
        turn.budget = turn.budget.saturating_sub(SLICE - left);
        if is_over {
            return self.end_recovery(turn, id, recovering);
        }
        let consumer = self.clients.consumers.get_mut(&id);
        if let Some(terms) = consumer.and_then(|consumer| consumer.recovery.as_mut()) {
            terms.recovering = Some(recovering);
            terms.count();
            self.work.push_back(Work::Recover(id));
        }
    }

    /// Decides what becomes of one delivery that a link held before.
    fn recover(
        &mut self,
        turn: &mut Turn<'_>,
        (id, recovering): (ConsumerId, &mut Recovering),
        (queue, acquisition): (QueueId, Acquisition),
    ) {
        let position = acquisition.position;
        let known = &mut recovering.known;
        let found = known.binary_search_by_key(&acquisition, |(known, _)| *known);
        let found = found.ok().and_then(|at| known.get_mut(at));
        match found.map(|(_, outcome)| outcome.take()) {
            Some(Some(outcome)) => {
                self.recorder.cut(turn.now, turn.effects);
                let settle = Settle {
                    consumer: id,
                    position,
                    outcome,
                    confirm: None,
                };
                self.settle(turn, settle);
                recovering.lsn = self.recorder.settlement().max(recovering.lsn);
            }
            Some(None) => recovering.held.push((acquisition, true)),
            None if recovering.is_incomplete => recovering.held.push((acquisition, false)),
            None => {
                let evidence = self.clients.consumers.get(&id);
                let evidence = evidence.and_then(|consumer| consumer.evidence.clone());
                let failure = recovering.failed.map(|how| Failure::new(how, evidence));
                let unknown = Requeued {
                    queue,
                    position,
                    failure: failure.as_ref(),
                    is_counted: failure.is_some(),
                    annotated: false,
                    not_before: None,
                };
                self.requeue(turn, &unknown);
                self.release(id);
            }
        }
    }

    /// Tells what a link holds still that was attached again.
    fn end_recovery(&mut self, turn: &mut Turn<'_>, id: ConsumerId, mut recovering: Recovering) {
        let Some(consumer) = self.clients.consumers.get_mut(&id) else {
            return;
        };
        let Some(terms) = consumer.recovery.as_mut() else {
            return invariant!(broken, "a link that is attached again has its terms");
        };
        // What it says of late ones has no effect; of others it forgets what is not told.
        for (known, outcome) in recovering.known {
            let is_late = terms.late.remove(&known);
            if is_late && outcome.is_some_and(|outcome| !matches!(outcome, Outcome::Released)) {
                recovering.late.push(known);
            }
        }
        if !recovering.is_incomplete {
            terms.late.clear();
        }
        let held = recovering.held.iter();
        let known = held.filter(|(_, is_known)| *is_known);
        terms.resend = known.map(|(acquisition, _)| *acquisition).collect();
        terms.restate.extend(&recovering.late);
        terms.count();
        let recovered = Box::new(Recovered {
            held: recovering
                .held
                .iter()
                .map(|(acquisition, _)| *acquisition)
                .collect(),
            late: recovering.late,
        });
        let effect = Effect::Recovered {
            consumer: id,
            recovered,
            lsn: recovering.lsn,
        };
        turn.effects.outgoing.push((consumer.connection, effect));
        self.wake(id);
    }

    /// Sends what a consumer knows of before it gets anything new, once it has credit.
    pub(in crate::broker::core) fn wake_behind(&mut self, id: ConsumerId) {
        let consumer = self.clients.consumers.get_mut(&id);
        if let Some(terms) = consumer.and_then(|consumer| consumer.recovery.as_mut())
            && terms.recovering.is_none()
            && !std::mem::replace(&mut terms.is_resending, true)
        {
            self.work.push_back(Work::Resend(id));
        }
    }

    /// Whether a consumer has a delivery from before its link was attached: it stays held, though it was sent
    /// again and did not leave. Then it is sent again once more.
    pub(in crate::broker::core) fn keep_resent(
        &mut self,
        id: ConsumerId,
        acquisition: Acquisition,
    ) -> bool {
        let consumer = self.clients.consumers.get_mut(&id);
        let Some(terms) = consumer.and_then(|consumer| consumer.recovery.as_mut()) else {
            return false;
        };
        let is_resent = terms.resent.remove(&acquisition);
        if is_resent {
            let at = terms.resend.partition_point(|other| *other < acquisition);
            terms.resend.insert(at, acquisition);
        }
        is_resent
    }

    /// Sends some deliveries again.
    pub(in crate::broker::core) fn resend_slice(&mut self, turn: &mut Turn<'_>, id: ConsumerId) {
        for _ in 0..SLICE {
            turn.budget = turn.budget.saturating_sub(1);
            if !self.resend(turn, id) {
                let consumer = self.clients.consumers.get_mut(&id);
                let Some(terms) = consumer.and_then(|consumer| consumer.recovery.as_mut()) else {
                    return; // it went meanwhile
                };
                terms.is_resending = false;
                if !terms.is_behind() {
                    self.end_resending(id);
                }
                return;
            }
        }
        self.work.push_back(Work::Resend(id));
    }

    /// A consumer gets what is new from now on, and is told if it drains.
    fn end_resending(&mut self, id: ConsumerId) {
        let queue_id = self.queue_of(id);
        if let Some(queue) = queue_id.and_then(|id| self.queues.get_mut(&id))
            && queue.consumers.check_drain(id)
        {
            let queue = queue.id;
            self.schedule(queue);
        }
        self.wake(id);
    }

    /// Sends one delivery again; false if there is none or no room for it.
    fn resend(&mut self, turn: &mut Turn<'_>, id: ConsumerId) -> bool {
        if !self.clients.consumers.contains_key(&id) {
            return false; // it went meanwhile
        }
        if let Err(why) = self.clients.room_again(id) {
            self.clients.block(id, why);
            return false;
        }
        let Some(consumer) = self.clients.consumers.get_mut(&id) else {
            return false;
        };
        let (queue, holder) = (consumer.queue, consumer.holder);
        let Some(terms) = consumer.recovery.as_mut() else {
            return false;
        };
        let (acquisition, is_late) = match (terms.restate.pop_front(), terms.resend.front()) {
            (Some(late), _) => (late, true),
            (None, Some(held)) => (*held, false),
            (None, None) => return false,
        };
        if is_late {
            terms.restated.insert(acquisition);
        } else {
            terms.resend.pop_front();
            terms.resent.insert(acquisition);
        }
        terms.count();
        let slot = self.queues.get(&queue);
        let position = acquisition.position;
        let slot = slot.and_then(|queue| queue.messages.slot_if(position, MessageState::Held));
        let is_it = |slot: &&Slot| slot.holder == holder && slot.acquired == acquisition.acquired;
        let slot = slot.filter(|slot| !is_late && is_it(slot));
        let delivery = slot.map(|slot| {
            let mut delivery = describe(id, position, slot);
            delivery.resumed = true;
            (delivery, slot.size_bytes)
        });
        let size_bytes = delivery.as_ref().map_or(0, |(_, size_bytes)| *size_bytes);
        let Ok(consumer) = self.clients.assign_again(id, size_bytes) else {
            invariant!(broken, "there was room for a delivery that is sent again");
            return false;
        };
        let effect = match delivery {
            Some((delivery, _)) => {
                self.counters.redelivered += 1;
                self.counters.delivered += 1;
                if let Some(queue) = self.queues.get_mut(&queue) {
                    queue.counters.redelivered += 1;
                    queue.counters.delivered += 1;
                }
                match &consumer.recovery {
                    Some(terms) => terms.send_again(delivery),
                    None => Effect::Deliver(delivery),
                }
            }
            None => Effect::Restate {
                consumer: id,
                acquisition,
            },
        };
        turn.effects.outgoing.push((consumer.connection, effect));
        let queue_of = self.queues.get_mut(&queue);
        if queue_of.is_some_and(|queue| queue.consumers.check_drain(id)) {
            self.schedule(queue);
        }
        true
    }
}
