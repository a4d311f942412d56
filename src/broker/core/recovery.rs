//! Links of consumers that outlive their connection: what one holds stays its own while it is nowhere
//! attached, for as long as was agreed. [AMQP 2.6.13, 3.5.6]
//!
//! ```text
//!              attach (known: what the consumer has)
//!   attached <--------------------------------------- suspended --time over--> its queue
//!      |   |                                             ^
//!      |   '--detached, session or connection gone-------'
//!      '--closed--> its queue
//!
//!   held before --outcome known--> settled
//!               --known----------> sent again, once there is credit
//!               --not known------> its queue
//! ```
//!
//! The holder id of the deliveries stays that of the first consumer of the link, so that neither end nor
//! attach touches them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::clients::{Consumer, holder};
use super::failure::Failure;
use super::serve::describe;
use super::settle::Requeued;
use super::work::{SLICE, Work};
use super::{Core, Turn};
use crate::base::limits::{
    RESUMABLE_DELIVERY_BYTES, RESUMABLE_LINKS_MAX, RESUMABLE_LINKS_USER_MAX,
};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{
    Charge, ConnectionId, ConsumerId, HolderId, Lsn, Millis, Name, Position, QueueId, SessionId,
    invariant, uncount,
};
use crate::broker::queue::{MessageState, Queue, Slot};
use crate::broker::recovery::{
    Acquisition, ExpiryPolicy, Kept, LinkEnd, LinkKey, Recovered, Recovery,
};
use crate::broker::{ConsumerEnd, Effect, Outcome, Settle};
use crate::deaths::{Evidence, How};

/// Links whose time is over that one tick ends; the next one goes on.
const END_MAX: usize = 64;
/// Blocks of messages that one slice passes in search of held ones.
const BLOCKS_MAX: usize = 512;
/// Memory of an acquisition that is kept, about, in bytes.
const ACQUISITION_BYTES: u64 = 32;

/// How a consumer's link outlives its connection, and what is left to be done for it.
#[derive(Debug)]
pub(super) struct Terms {
    key: LinkKey,
    expiry: ExpiryPolicy,
    timeout_ms: u64,
    /// Deliveries that it held for too long and has not settled, in order.
    late: BTreeSet<Acquisition>,
    /// The comparison with what its consumer knows of; none: it is done.
    recovering: Option<Recovering>,
    /// Deliveries that its consumer knows of and that are to be sent again, in order.
    resend: VecDeque<Acquisition>,
    /// Deliveries that were sent again since the link was attached: its consumer has each of them, also if
    /// this one does not reach it.
    resent: BTreeSet<Acquisition>,
    /// Deliveries of which others may have the message by now, whatever its consumer says.
    restate: VecDeque<Acquisition>,
    /// Those whose state was sent: it may not reach its consumer, which says so when it comes back.
    restated: BTreeSet<Acquisition>,
    /// Whether its consumer gets nothing new until it attaches again, since it did not tell all that it
    /// knows of. [AMQP 2.7.3]
    only_resumes: bool,
    /// Whether [`Work::Resend`] is on the list.
    is_resending: bool,
    charge: Charge,
}

/// What the consumer of a link knows of, compared with what the link held.
#[derive(Debug)]
struct Recovering {
    known: Vec<(Acquisition, Option<Outcome>)>,
    /// Whether these are not all of them: then the others stay held.
    is_incomplete: bool,
    /// How those failed that the consumer knows nothing of.
    failed: Option<How>,
    /// The next position to look at.
    from: Position,
    /// What is held still, and whether its consumer said that it knows of it.
    held: Vec<(Acquisition, bool)>,
    late: Vec<Acquisition>,
    /// The record with the last outcome.
    lsn: Lsn,
}

/// A link that is nowhere attached, and holds deliveries.
#[derive(Debug)]
struct Suspended {
    terms: Box<Terms>,
    queue: QueueId,
    consumer: ConsumerId,
    holder: HolderId,
    held: u32,
    /// The timeout that its consumer asked for.
    timeout_ms: Option<u32>,
    evidence: Option<Arc<Evidence>>,
    /// How its deliveries failed; none: they did not.
    failed: Option<How>,
    session: SessionId,
    connection: ConnectionId,
    /// When its time is over; none: it has not begun.
    due: Option<Millis>,
}

/// What a consumer takes over from the one that its link had before.
pub(super) struct Inherited {
    /// None: its link ends with its connection.
    pub(super) terms: Option<Box<Terms>>,
    pub(super) holder: HolderId,
    pub(super) held: u32,
}

/// Who settles a delivery that was held for too long.
pub(super) enum LateSettler {
    /// Its consumer, which has been sent it.
    Consumer,
    /// Nobody; the identity of its consumer.
    Nobody(Option<Arc<Evidence>>),
}

/// All links of consumers that outlive their connections.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    /// Attached or not: the consumer that it has, or had last.
    links: BTreeMap<LinkKey, ConsumerId>,
    /// Number of them by user.
    users: BTreeMap<Name, usize>,
    suspended: BTreeMap<ConsumerId, Suspended>,
    /// Those whose time has begun, by its end.
    due: BTreeSet<(Millis, ConsumerId)>,
    /// Those whose time begins with the end of a session or connection.
    later: BTreeSet<(ConnectionId, ConsumerId)>,
    /// Consumers that have the deliveries of another.
    heirs: BTreeMap<HolderId, ConsumerId>,
}

impl Terms {
    /// Whether its consumer gets nothing new yet.
    pub(super) fn is_behind(&self) -> bool {
        let is_sent = self.resend.is_empty() && self.restate.is_empty();
        self.recovering.is_some() || self.only_resumes || !is_sent
    }

    /// Forgets a late delivery that its consumer has settled.
    pub(super) fn settle_late(&mut self, position: Position) {
        let first = Acquisition {
            position,
            acquired: 0,
        };
        let late = self.late.range(first..).next().copied();
        if let Some(late) = late.filter(|late| late.position == position) {
            self.late.remove(&late);
        }
        self.count();
    }

    /// Notes that a delivery was held for too long.
    fn time_out(&mut self, late: Acquisition) {
        self.late.insert(late);
        self.count();
    }

    /// Whether a delivery was not sent since the link was attached.
    fn is_unsent(&self, acquisition: &Acquisition) -> bool {
        self.recovering.is_some() || self.resend.binary_search(acquisition).is_ok()
    }

    /// Charges what it keeps.
    fn count(&mut self) {
        let texts = [&self.key.user, &self.key.container, &self.key.link];
        let texts_bytes: usize = texts.iter().map(|text| text.len()).sum();
        let recovering = self.recovering.as_ref();
        let known = recovering.map_or(0, |it| it.known.capacity());
        let held = recovering.map_or(0, |it| it.held.len());
        let sent = self.resend.len() + self.resent.len();
        let sent = sent + self.restate.len() + self.restated.len();
        let kept = self.late.len() + sent + held;
        let known_bytes = known * size_of::<(Acquisition, Option<Outcome>)>();
        let bytes = RESUMABLE_DELIVERY_BYTES + (2 * texts_bytes + known_bytes) as u64;
        self.charge.set(bytes + ACQUISITION_BYTES * kept as u64);
    }
}

impl Recoveries {
    /// The consumer that has deliveries with this holder id.
    pub(super) fn consumer_of(&self, holder: HolderId) -> ConsumerId {
        let heir = self.heirs.get(&holder).copied();
        heir.unwrap_or(ConsumerId(holder.0))
    }

    /// How long a link that is nowhere attached may hold a delivery, in milliseconds.
    pub(super) fn timeout_of(&self, consumer: ConsumerId, queue: &Queue) -> Option<u32> {
        let suspended = self.suspended.get(&consumer)?;
        let own_ms = suspended.timeout_ms.or_else(|| queue.settings.timeout_ms());
        own_ms.filter(|timeout_ms| *timeout_ms > 0)
    }

    /// When the time of the next link is over.
    pub(super) fn due(&self) -> Millis {
        self.due.first().map_or(Millis::NEVER, |(due, _)| *due)
    }

    /// Has the link with this name be one of this consumer; false if there are too many.
    fn claim(&mut self, key: &LinkKey, consumer: ConsumerId) -> bool {
        if let Some(known) = self.links.get_mut(key) {
            *known = consumer;
            return true;
        }
        let of_user = self.users.get(&key.user).copied().unwrap_or(0);
        if self.links.len() >= RESUMABLE_LINKS_MAX || of_user >= RESUMABLE_LINKS_USER_MAX {
            return false;
        }
        self.users.insert(key.user.clone(), of_user + 1);
        self.links.insert(key.clone(), consumer);
        true
    }

    /// Forgets a link, unless another consumer has it by now.
    fn forget(&mut self, key: &LinkKey, consumer: ConsumerId) {
        if self.links.get(key) != Some(&consumer) {
            return;
        }
        self.links.remove(key);
        if let Some(of_user) = self.users.get_mut(&key.user) {
            uncount!(*of_user, 1, "a link that is forgotten was its user's");
            if *of_user == 0 {
                self.users.remove(&key.user);
            }
        }
    }

    fn suspend(&mut self, suspended: Suspended) {
        let id = suspended.consumer;
        match suspended.due {
            Some(due) => self.due.insert((due, id)),
            None => self.later.insert((suspended.connection, id)),
        };
        self.suspended.insert(id, suspended);
    }

    fn take(&mut self, id: ConsumerId) -> Option<Suspended> {
        let suspended = self.suspended.remove(&id)?;
        match suspended.due {
            Some(due) => self.due.remove(&(due, id)),
            None => self.later.remove(&(suspended.connection, id)),
        };
        Some(suspended)
    }

    /// Begins the time of links that ended before their connection: all, or those of one session.
    pub(super) fn begin(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        session: Option<SessionId>,
    ) {
        let first = (connection, ConsumerId(0));
        let last = (connection, ConsumerId(u64::MAX));
        let begins = |id: &ConsumerId| {
            let suspended = self.suspended.get(id)?;
            let end = session.map_or(LinkEnd::ConnectionClosed, |_| LinkEnd::SessionEnded);
            let is_its = session.is_none_or(|session| suspended.session == session);
            (is_its && suspended.terms.expiry.begins(end)).then_some(*id)
        };
        let later = self.later.range(first..=last);
        let begun: Vec<_> = later.filter_map(|(_, id)| begins(id)).collect();
        for id in begun {
            self.later.remove(&(connection, id));
            if let Some(suspended) = self.suspended.get_mut(&id) {
                let due = now.plus(suspended.terms.timeout_ms);
                suspended.due = Some(due);
                self.due.insert((due, id));
            }
        }
    }
}

/// Ends.
impl Core {
    /// Keeps what a consumer holds whose link may be attached again; returns it if it is not to be kept.
    pub(super) fn suspend_link(
        &mut self,
        now: Millis,
        (id, mut consumer): (ConsumerId, Consumer),
        failed: Option<How>,
        end: LinkEnd,
    ) -> Option<Consumer> {
        let Some(mut terms) = consumer.recovery.take() else {
            return Some(consumer);
        };
        let unsaid = std::mem::take(&mut terms.restate);
        terms.late.extend(unsaid);
        terms.late.append(&mut terms.restated);
        if end == LinkEnd::Closed || (consumer.held == 0 && terms.late.is_empty()) {
            self.recoveries.heirs.remove(&consumer.holder);
            self.recoveries.forget(&terms.key, id);
            return Some(consumer);
        }
        terms.recovering = None;
        terms.resend.clear();
        terms.resent.clear();
        terms.count();
        let begins = terms.expiry.begins(end);
        let due = begins.then(|| now.plus(terms.timeout_ms));
        #[cfg(test)]
        let due = due.map(|due| {
            if is_planted(Plant::HeldNotKept) {
                now
            } else {
                due
            }
        });
        self.recoveries.suspend(Suspended {
            terms,
            queue: consumer.queue,
            consumer: id,
            holder: consumer.holder,
            held: consumer.held,
            timeout_ms: consumer.timeout_ms,
            evidence: consumer.evidence,
            failed,
            session: consumer.session,
            connection: consumer.connection,
            due,
        });
        None
    }

    /// Forgets the link of a consumer whose queue is gone.
    pub(super) fn forget_link(&mut self, id: ConsumerId, consumer: &Consumer) {
        if let Some(terms) = &consumer.recovery {
            self.recoveries.heirs.remove(&consumer.holder);
            self.recoveries.forget(&terms.key, id);
        }
    }

    /// Ends links whose time is over.
    pub(super) fn end_due_links(&mut self, now: Millis) {
        for _ in 0..END_MAX {
            let first = self.recoveries.due.first().copied();
            let Some((_, id)) = first.filter(|(due, _)| *due <= now) else {
                return;
            };
            let Some(suspended) = self.recoveries.take(id) else {
                return invariant!(broken, "a link whose time is over is there");
            };
            self.end_suspended(suspended);
        }
    }

    /// Ends the links of a user that was deleted, as far as they are nowhere attached.
    pub(super) fn end_links_of(&mut self, user: &Name) {
        let suspended = self.recoveries.suspended.iter();
        let its = suspended.filter(|(_, it)| it.terms.key.user == *user);
        let its: Vec<_> = its.map(|(id, _)| *id).collect();
        for id in its {
            if let Some(suspended) = self.recoveries.take(id) {
                self.end_suspended(suspended);
            }
        }
    }

    fn end_suspended(&mut self, suspended: Suspended) {
        self.recoveries
            .forget(&suspended.terms.key, suspended.consumer);
        self.requeue_held(suspended);
    }

    /// Gives what a link held to its queue.
    fn requeue_held(&mut self, suspended: Suspended) {
        let Suspended {
            queue: id,
            consumer,
            holder,
            held,
            timeout_ms,
            evidence,
            failed,
            ..
        } = suspended;
        self.recoveries.heirs.remove(&holder);
        let Some(queue) = self.queues.get_mut(&id) else {
            return; // deleted meanwhile, with all in it
        };
        queue.timeouts.remove(timeout_ms);
        if held == 0 {
            queue.selecting.free_groups(consumer);
            return self.schedule(id);
        }
        self.work.push_back(Work::Requeue {
            queue: id,
            consumer,
            holder,
            from: Position(0),
            left: held,
            failure: failed.map(|how| Box::new(Failure::new(how, evidence))),
            suspected: false,
        });
    }

    /// Takes back a delivery that a link held for too long if its consumer cannot settle it now.
    pub(super) fn time_out_unsent(
        &mut self,
        id: ConsumerId,
        acquisition: Acquisition,
    ) -> LateSettler {
        if let Some(suspended) = self.recoveries.suspended.get_mut(&id) {
            uncount!(suspended.held, 1, "what a link held for too long it held");
            suspended.terms.time_out(acquisition);
            return LateSettler::Nobody(suspended.evidence.clone());
        }
        let consumer = self.clients.consumers.get_mut(&id);
        let Some((terms, evidence)) =
            consumer.and_then(|it| Some((it.recovery.as_mut()?, it.evidence.clone())))
        else {
            return LateSettler::Consumer;
        };
        if !terms.is_unsent(&acquisition) {
            terms.time_out(acquisition);
            return LateSettler::Consumer;
        }
        terms.restate.push_back(acquisition);
        terms.resend.retain(|other| *other != acquisition);
        self.release(id);
        LateSettler::Nobody(evidence)
    }
}

/// Attaching again.
impl Core {
    /// Takes a link from the consumer that has it attached, if one has.
    pub(super) fn steal_link(&mut self, turn: &mut Turn<'_>, key: &LinkKey) {
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
    pub(super) fn inherit(
        &mut self,
        queue: QueueId,
        id: ConsumerId,
        recovery: Recovery,
    ) -> Inherited {
        let Recovery {
            key,
            expiry,
            timeout_ms,
            known,
            is_incomplete,
        } = recovery;
        let before = self.recoveries.links.get(&key).copied();
        let before = before.and_then(|before| self.recoveries.take(before));
        if !self.recoveries.claim(&key, id) {
            return Inherited::nothing(id); // there are too many
        }
        let mut terms = Box::new(Terms {
            key,
            expiry,
            timeout_ms,
            late: BTreeSet::new(),
            recovering: None,
            resend: VecDeque::new(),
            resent: BTreeSet::new(),
            restate: VecDeque::new(),
            restated: BTreeSet::new(),
            only_resumes: is_incomplete,
            is_resending: false,
            charge: self.options.kept.charge(0),
        });
        let mut inherited = (holder(id), 0);
        match before {
            // Another source makes another link of it.
            Some(before) if before.queue != queue => self.requeue_held(before),
            Some(before) => {
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
            None => {}
        }
        terms.count();
        let (holder, held) = inherited;
        Inherited {
            terms: Some(terms),
            holder,
            held,
        }
    }

    /// Compares some of what a link held before with what its consumer knows of.
    pub(super) fn recover_slice(&mut self, turn: &mut Turn<'_>, id: ConsumerId) {
        let Some(consumer) = self.clients.consumers.get_mut(&id) else {
            return; // it went meanwhile
        };
        let (queue_id, holder) = (consumer.queue, consumer.holder);
        let terms = consumer.recovery.as_mut();
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
    pub(super) fn wake_behind(&mut self, id: ConsumerId) {
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
    pub(super) fn keep_resent(&mut self, id: ConsumerId, acquisition: Acquisition) -> bool {
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
    pub(super) fn resend_slice(&mut self, turn: &mut Turn<'_>, id: ConsumerId) {
        for _ in 0..SLICE {
            turn.budget = turn.budget.saturating_sub(1);
            if !self.resend(turn, id) {
                let consumer = self.clients.consumers.get_mut(&id);
                let Some(terms) = consumer.and_then(|consumer| consumer.recovery.as_mut()) else {
                    return; // it went meanwhile
                };
                terms.is_resending = false;
                if !terms.is_behind() {
                    self.wake(id);
                }
                return;
            }
        }
        self.work.push_back(Work::Resend(id));
    }

    /// Sends one delivery again; false if there is none or no room for it.
    fn resend(&mut self, turn: &mut Turn<'_>, id: ConsumerId) -> bool {
        if let Err(why) = self.clients.room(id) {
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
                Effect::Deliver(delivery)
            }
            None => Effect::Restate {
                consumer: id,
                acquisition,
            },
        };
        turn.effects.outgoing.push((consumer.connection, effect));
        true
    }
}

impl Inherited {
    /// Nothing: the link is new, and ends with its connection.
    pub(super) const fn nothing(id: ConsumerId) -> Self {
        Self {
            terms: None,
            holder: holder(id),
            held: 0,
        }
    }

    /// What the consumer is told of its link.
    pub(super) fn kept(&self) -> Kept {
        match &self.terms {
            None => Kept::No,
            Some(terms) if terms.recovering.is_some() => Kept::Recovering,
            Some(_) => Kept::Yes,
        }
    }
}

#[cfg(test)]
impl Core {
    /// Numbers of links of consumers that outlive their connections: all, and those nowhere attached.
    pub(crate) fn recoverable_links(&self) -> (usize, usize) {
        (self.recoveries.links.len(), self.recoveries.suspended.len())
    }
}
