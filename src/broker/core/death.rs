//! Death of messages: their history, the route to their targets, and waiting when no target takes
//! them.

use std::ops::Bound;
use std::sync::Arc;

use super::admission::{Arrival, Offered, size_bytes};
use super::ledger::Counted;
use super::routed::Routed;
use super::work::{SLICE, Work};
use super::{Core, Turn};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Lsn, Meter, Millis, Name, Position, QueueId, Step, invariant};
use crate::broker::arguments::DeadLetterStrategy;
use crate::broker::dead_letter::{SendResult, Verdict, plan, verdict};
use crate::broker::death_counts::DeathOutcome;
use crate::broker::event::{EventKind, EventTargets};
use crate::broker::names::QUARANTINE;
use crate::broker::queue::{AfterPageIn, MessageState, Pending, PendingSet, Queue, Slot, Waiter};
use crate::broker::redrive::Learned;
use crate::broker::{DropCause, Fact, LogEvent};
use crate::deaths::{self, Evidence, History, HistoryFull, Reason};
use crate::message::{Message, Route};

/// A message that dies now, and how.
#[derive(Debug)]
pub(super) struct Dying {
    pub(super) queue: QueueId,
    pub(super) position: Position,
    /// Its state until now.
    pub(super) from: MessageState,
    pub(super) reason: Reason,
    /// Error and identity of the consumer it died by; none if no consumer took part.
    pub(super) evidence: Option<Arc<Evidence>>,
}

/// A dead letter to be sent: its history is written, its ttl removed.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) source: QueueId,
    pub(super) position: Position,
    pub(super) from: MessageState,
    pub(super) reason: Reason,
    /// When it came into its source queue.
    pub(super) arrived: Millis,
    pub(super) message: Arc<Message>,
    pub(super) route: Arc<Route>,
    pub(super) strategy: DeadLetterStrategy,
    /// Whether the journal keeps it in its source queue.
    pub(super) durable: bool,
    /// The LSN that names its bytes in the journal; 0: none.
    pub(super) body: Lsn,
    /// The targets it waited for and its ticket, if it waited before.
    pub(super) waited: Option<Pending>,
}

impl Letter {
    /// The dead letter of a message in its queue; without a route, on that by which it was
    /// published.
    #[inline]
    fn new(
        (source, position): (QueueId, Position),
        (from, reason): (MessageState, Reason),
        slot: &Slot,
        way: Option<Arc<Route>>,
        strategy: DeadLetterStrategy,
    ) -> Self {
        Self {
            source,
            position,
            from,
            reason,
            arrived: slot.arrived,
            message: Arc::clone(&slot.message),
            route: way.unwrap_or_else(|| Arc::clone(&slot.route)),
            strategy,
            durable: slot.durable,
            body: slot.body,
            waited: None,
        }
    }
}

impl Core {
    /// Handles one death: the message leaves its queue and enters its targets in one record.
    pub(super) fn die(&mut self, turn: &mut Turn<'_>, dying: Dying) {
        let Dying {
            queue: id,
            position,
            from,
            reason,
            evidence,
        } = dying;
        self.recorder.cut(turn.now, turn.effects);
        let Some(queue) = self.queues.get_mut(&id) else {
            return; // deleted since
        };
        let queue = &mut **queue;
        if !queue.settings.keeps_dead() {
            return self.die_unkept(turn, (id, position), from, (reason, evidence));
        }
        let Some(slot) = queue.messages.slot_mut_if(position, from) else {
            if !queue.messages.is(position, from) {
                return; // dropped since, as above
            }
            if from == MessageState::Held {
                invariant!(fatal, "a held message is in memory");
            }
            return self.await_page_in(turn, id, position, AfterPageIn::Die(reason));
        };
        let way = plan(&queue.settings, &slot.route, &mut queue.last_way);
        let rule = queue.settings.dead_letter_rule.as_ref();
        let kept = match rule {
            Some(rule) => Some(queue.last_evidence.with_rule(evidence.as_ref(), rule)),
            None => evidence.as_ref(),
        };
        let death = deaths::Dying {
            queue: &queue.name,
            reason,
            time: turn.now.wall,
            exchange: &slot.route.exchange,
            routing_keys: &slot.route.keys,
            ttl: slot.message.ttl_ms(),
            evidence: kept,
        };
        let before = slot.message.history();
        let recorded = queue.last_death.record(before, &death);
        let Some((history, stuck)) = after_death(recorded, before, way.is_some()) else {
            return;
        };
        history.charge(&self.memory.shared);
        let carried = slot.message.carried_delivery_count();
        let count = carried.saturating_add(slot.failures);
        // The message is changed in place if nothing else shares it: it is the dead letter from now
        // on.
        Arc::make_mut(&mut slot.message).die(history, count);
        let moved_by = std::mem::take(&mut slot.moved_by);
        let strategy = queue.settings.dead_letter_strategy;
        let given = (reason, evidence.as_deref());
        let counted = Counted::new(slot.arrived, slot.durable, given);
        let letter = Letter::new((id, position), (from, reason), slot, way, strategy);
        self.deaths
            .count(turn.now, &mut self.counters, queue, counted);
        self.learn_of_death(id, moved_by);
        match stuck {
            None => self.send(turn, letter),
            Some(cause) => self.give_up(turn, &letter, cause, None),
        }
    }

    /// Tells the redrive that moved a message of its death; 0: none did.
    #[inline]
    fn learn_of_death(&mut self, id: QueueId, moved_by: u32) {
        if moved_by > 0 {
            self.learn(id, moved_by, Learned::DiedAgain);
        }
    }

    /// Handles a death in a queue without a dead-letter exchange.
    fn drop_dead(
        &mut self,
        turn: &mut Turn<'_>,
        (id, position): (QueueId, Position),
        from: MessageState,
        (reason, evidence): (Reason, Option<Arc<Evidence>>),
    ) {
        let Some(queue) = self.queues.get(&id) else {
            return; // deleted since the death was put on the work list
        };
        let cause = cause_without_exchange(queue, reason);
        let seen = self.seen(turn.now, (id, position), from);
        self.drop_one(turn, (id, position), from, (Some(reason), cause));
        let Some((queue, mut about)) = seen else {
            return invariant!(broken, "a message that dies is in its queue");
        };
        if let Some(unwritten) = &mut about.unwritten {
            unwritten.evidence = evidence;
        }
        let death = EventKind::Death {
            reason,
            outcome: Some(DeathOutcome::Dropped(cause)),
            targets: EventTargets::default(),
        };
        self.tell(turn, queue, death, Some(about));
    }

    /// Handles the death of a message that is not sent anywhere.
    fn die_unkept(
        &mut self,
        turn: &mut Turn<'_>,
        (id, position): (QueueId, Position),
        from: MessageState,
        (reason, evidence): (Reason, Option<Arc<Evidence>>),
    ) {
        let queue = self.queues.get(&id);
        if !queue.is_some_and(|queue| queue.messages.is(position, from)) {
            return; // dropped since, as its block could not be read back
        }
        if self.events.messages.is_some() && self.is_read_for_event(id, position) {
            return self.await_page_in(turn, id, position, AfterPageIn::Die(reason));
        }
        self.count_on_disk(turn.now, (id, position), (reason, evidence.as_deref()));
        self.drop_dead(turn, (id, position), from, (reason, evidence));
    }

    /// Sends a waiting dead letter again; `room_in`: the queue that it waited for, which has room
    /// now.
    pub(super) fn retry(
        &mut self,
        turn: &mut Turn<'_>,
        (id, position): (QueueId, Position),
        room_in: Option<QueueId>,
    ) {
        self.recorder.cut(turn.now, turn.effects);
        let Some(queue) = self.queues.get_mut(&id) else {
            return; // deleted meanwhile, with all in it
        };
        let Some(pending) = queue.pending.entry(position).cloned() else {
            return; // another try took it, or a purge
        };
        let Some(slot) = queue.messages.slot_if(position, MessageState::Dying) else {
            self.await_page_in(turn, id, position, AfterPageIn::Retry(room_in));
            return;
        };
        let way = plan(&queue.settings, &slot.route, &mut queue.last_way);
        let is_abandoned = way.is_none();
        let strategy = queue.settings.dead_letter_strategy;
        let was = (MessageState::Dying, pending.reason);
        let letter = Letter {
            waited: Some(pending),
            ..Letter::new((id, position), was, slot, way, strategy)
        };
        if is_abandoned {
            self.give_up(turn, &letter, DropCause::PendingAbandoned, None);
        } else {
            self.send(turn, letter);
        }
    }

    /// Sends some of a queue's waiting dead letters again.
    pub(super) fn retry_slice(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let taken = self
            .queues
            .get_mut(&id)
            .and_then(|queue| queue.retry_from.take());
        let Some(mut from) = taken else {
            return;
        };
        for _ in 0..SLICE {
            let Some(queue) = self.queues.get_mut(&id) else {
                return;
            };
            let Some(position) = queue.pending.next(from) else {
                return;
            };
            if queue.awaits_enough_page_ins() {
                queue.retry_from = Some(position); // goes on when some were paged in
                return;
            }
            self.retry(turn, (id, position), None);
            turn.budget = turn.budget.saturating_sub(1);
            from = Position(position.0 + 1);
        }
        self.retry_from(id, from);
    }

    /// Schedules all waiting dead letters to be sent again, since topology or policies changed. (A
    /// pass under way starts again.)
    pub(super) fn retry_all(&mut self) {
        if self.pending_queues.is_empty() {
            return; // as a rule
        }
        let is_under_way = self.retried_to.is_some();
        self.retry_some(Bound::Unbounded);
        if self.retried_to.is_some() && !is_under_way {
            self.work.push_back(Work::RetryAll);
        }
    }

    /// Continues that pass with some of the queues, since there may be any number of them.
    pub(super) fn retry_all_slice(&mut self, turn: &mut Turn<'_>) {
        let Some(last) = self.retried_to else {
            return;
        };
        self.retry_some(Bound::Excluded(last));
        turn.budget = turn.budget.saturating_sub(SLICE / 4);
        if self.retried_to.is_some() {
            self.work.push_back(Work::RetryAll);
        }
    }

    fn retry_some(&mut self, start: Bound<QueueId>) {
        let behind = self.pending_queues.range((start, Bound::Unbounded));
        let some: Vec<QueueId> = behind.take(SLICE).copied().collect();
        let is_last = some.len() < SLICE;
        self.retried_to = some.last().copied().filter(|_| !is_last);
        for id in some {
            self.retry_from(id, Position(0));
        }
    }

    fn retry_from(&mut self, id: QueueId, from: Position) {
        if let Some(queue) = self.queues.get_mut(&id)
            && queue.retry_from.replace(from).is_none()
        {
            self.work.push_back(Work::Retry(id));
        }
    }

    fn send(&mut self, turn: &mut Turn<'_>, letter: Letter) {
        let mut sent = SendResult::default();
        self.forward(turn, &letter, &mut sent);
        let reached = sent.accepted + sent.refused.len();
        if reached > 1 {
            // Other messages that die in this turn may go to as many queues.
            turn.charge_ns(Step::Entry.ns() * (reached as u64 - 1));
        }
        let (source, reason, durable) = (letter.source, letter.reason, letter.durable);
        let is_first = letter.waited.as_ref().is_none_or(|p| p.targets.is_none());
        let outcome = (sent.accepted > 0 && is_first).then_some(DeathOutcome::DeadLettered);
        if outcome.is_some() {
            self.count_dead_lettered(turn.now, source, (reason, durable));
        }
        let is_news = outcome.is_some() || letter.waited.is_none();
        let narrowed = letter
            .waited
            .as_ref()
            .is_some_and(|pending| pending.targets.is_some());
        match verdict(&sent, letter.strategy, narrowed) {
            Verdict::Moved { copies_refused } => {
                self.counters.copies_refused += copies_refused as u64;
                #[cfg(test)]
                if is_planted(Plant::DeadLetterStays) {
                    return;
                }
                self.remove(letter.source, letter.position, letter.from);
                if durable && is_news {
                    self.write_death(source, reason, outcome);
                }
                if is_news {
                    self.tell_sent(turn, letter, outcome, sent.taken);
                }
            }
            Verdict::Wait { targets } => {
                let taken = sent.taken;
                let news = is_news.then(|| self.draft_of_sent(turn, &letter, outcome, taken));
                self.keep_waiting(letter, targets, &sent.refused);
                if durable && is_news {
                    self.write_death(source, reason, outcome);
                }
                if let Some(news) = news.flatten() {
                    self.tell_draft(turn, news);
                }
            }
            Verdict::Drop(cause) => {
                let closes_at = sent.closes_at.filter(|_| cause == DropCause::Cycle);
                self.give_up(turn, &letter, cause, closes_at);
            }
        }
    }

    /// Offers the dead letter to each target. [dead-lettering parts 2 and 4]
    fn forward(&mut self, turn: &mut Turn<'_>, letter: &Letter, sent: &mut SendResult) {
        let waited = letter.waited.as_ref();
        let waited = waited.and_then(|pending| pending.targets.as_deref());
        let mut routed = self.routed_dead.take().unwrap_or_default();
        let targets = match waited {
            Some(waited) => waited,
            None => self.find_targets(&mut turn.effects.meter, letter, &mut routed, sent),
        };
        let mut insertion = self.insertion(letter.body);
        let arrival = Arrival::dead(letter.message.clone(), letter.route.clone());
        let copies = std::iter::repeat_n(arrival, targets.len());
        for (&target, arrival) in targets.iter().zip(copies) {
            if waited.is_some() && !self.queues.contains_key(&target) {
                sent.gone += 1;
                continue;
            }
            if self.is_cycle(turn, letter, target) {
                sent.cycled += 1;
                sent.closes_at.get_or_insert(target);
                continue;
            }
            let durable = match self.offer(turn, target, arrival, &mut insertion) {
                Offered::Taken { durable } => durable,
                Offered::TakenToDie { position, durable } => {
                    self.work.push_back(Work::Die {
                        queue: target,
                        position,
                        reason: Reason::Maxlen,
                    });
                    durable
                }
                Offered::Refused => {
                    sent.refused.push(target);
                    continue;
                }
                Offered::Gone => continue, // it expired when it was asked for room
            };
            sent.accepted += 1;
            sent.taken.add(target);
            if letter.durable && !durable {
                self.recorder.note_unkept();
            }
        }
        self.routed_dead = Some(routed);
        self.record(insertion);
    }

    /// Routes the dead letter by the current topology.
    pub(super) fn find_targets<'a>(
        &self,
        meter: &mut Meter,
        letter: &Letter,
        routed: &'a mut Routed,
        sent: &mut SendResult,
    ) -> &'a [QueueId] {
        let Some(exchange) = self.router.id_of(&letter.route.exchange) else {
            sent.exchange_missing = true;
            return &[];
        };
        let letter = (&letter.route, &*letter.message);
        routed.find(&self.router, exchange, letter, meter)
    }

    /// Whether sending it to this target would close a cycle without a rejection; logged once for
    /// each distinct cycle.
    fn is_cycle(&mut self, turn: &mut Turn<'_>, letter: &Letter, target: QueueId) -> bool {
        let Some((history, queue)) = self.closed_cycle(letter, target) else {
            return false;
        };
        if self.cycles_logged.len() < CYCLES_LOGGED_MAX {
            let path = history.cycle_path(queue);
            if self.cycles_logged.insert(path.clone()) {
                turn.effects.log.push(LogEvent::Cycle { path });
            }
        }
        true
    }

    /// The dead letter's history and the target's name, if sending it there would close a cycle
    /// without a rejection.
    #[inline]
    pub(super) fn closed_cycle<'a>(
        &'a self,
        letter: &'a Letter,
        target: QueueId,
    ) -> Option<(&'a History, &'a Name)> {
        if letter.reason == Reason::Rejected {
            return None;
        }
        let queue = self.queues.get(&target)?; // nothing enters one that is gone either
        let Some(history) = letter.message.history() else {
            invariant!(broken, "a dead letter has a history");
            return None;
        };
        history
            .is_cycle(&queue.name)
            .then_some((&**history, &queue.name))
    }

    /// Keeps a dead letter in its queue, marked as waiting, until a target exists or has room.
    fn keep_waiting(&mut self, letter: Letter, targets: Option<Vec<QueueId>>, refused: &[QueueId]) {
        let Letter {
            source: id,
            position,
            from,
            reason,
            message,
            durable,
            waited,
            ..
        } = letter;
        let ticket = waited
            .as_ref()
            .map_or(self.next_ticket, |pending| pending.ticket);
        if waited.is_none() {
            self.next_ticket += 1;
        }
        let Some(queue) = self.queues.get_mut(&id) else {
            return; // it was its own target, and expired when it was asked for room
        };
        if from != MessageState::Dying && !queue.messages.kill(position, from) {
            invariant!(fatal, "a dead letter that waits is in its queue");
        }
        queue.selecting.clear(position);
        let size_bytes = size_bytes(&message);
        let pending = Pending {
            reason,
            refused: if targets.is_some() {
                Box::default()
            } else {
                refused.into()
            },
            targets: targets.clone(),
            ticket,
            size_bytes,
        };
        let before = waited.as_ref();
        let is_news = before.is_none_or(|before| pending.is_news_after(before));
        queue.pending.put(position, pending);
        queue.messages.note_copied(position, Lsn(0));
        if waited.is_none()
            && let Some(slot) = queue.messages.slot_mut(position)
        {
            slot.message = message; // its header carries the counts from now on
            (slot.failures, slot.acquired) = (0, 0);
        }
        self.pending_queues.insert(id);
        let is_new = waited.is_none();
        if let Some(before) = &waited {
            self.forget_waiter((id, position), before);
        }
        self.note_waiter((id, position, ticket), refused);
        if is_new {
            self.change(id, position);
        }
        if durable && is_news {
            let queue = id;
            self.recorder.push(Fact::DeadPending {
                queue,
                position,
                reason,
                targets,
            });
        }
    }

    /// Takes a message out of its queue, and out of those that wait there.
    /// Whether the journal knew it.
    pub(super) fn remove(&mut self, id: QueueId, position: Position, from: MessageState) -> bool {
        self.remove_as(id, position, from, Learned::Gone)
    }

    /// The same; the redrive that moved it there learns this of it, if it has not died before.
    fn remove_as(
        &mut self,
        id: QueueId,
        position: Position,
        from: MessageState,
        learned: Learned,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else {
            return false; // it was its own target, and expired when it was asked for room
        };
        let Some(gone) = queue.messages.take(position, from, &mut self.deferred_free) else {
            invariant!(fatal, "a message that leaves its queue is in it");
        };
        self.memory.removed(&gone);
        queue.selecting.clear(position);
        self.recorder.push_gone(id, position, &gone);
        let may_have_waited = !queue.pending.is_empty();
        if !queue.waiters.is_empty() {
            self.schedule(id);
        }
        if may_have_waited {
            self.end_waiting(id, position);
        }
        if gone.moved_by > 0 {
            self.learn(id, gone.moved_by, learned);
        }
        gone.durable
    }

    /// Notes that a dead letter waits no more, if it did.
    #[cold]
    #[inline(never)]
    fn end_waiting(&mut self, source: QueueId, position: Position) {
        let Some(queue) = self.queues.get_mut(&source) else {
            return invariant!(broken, "a queue that a message leaves is there");
        };
        let Some(pending) = queue.pending.remove(position) else {
            return;
        };
        if queue.pending.is_empty() {
            self.pending_queues.remove(&source);
        }
        self.forget_waiter((source, position), &pending);
    }

    /// Puts a dead letter among those that wait for room in the queues that refused it.
    fn note_waiter(
        &mut self,
        (source, position, ticket): (QueueId, Position, u64),
        refused: &[QueueId],
    ) {
        let waiter = Waiter {
            ticket,
            source,
            position,
        };
        for target in refused {
            if let Some(target) = self.queues.get_mut(target) {
                target.waiters.insert(waiter);
            }
        }
    }

    /// Takes a dead letter out of those that wait for room where it waited.
    fn forget_waiter(&mut self, (source, position): (QueueId, Position), pending: &Pending) {
        let waiter = Waiter {
            ticket: pending.ticket,
            source,
            position,
        };
        for target in pending.waits_at() {
            if let Some(target) = self.queues.get_mut(target) {
                target.waiters.remove(&waiter);
            }
        }
    }

    /// Does so for some of the dead letters that waited in a queue that is gone.
    pub(super) fn forget_waiters(
        &mut self,
        turn: &mut Turn<'_>,
        source: QueueId,
        mut pending: Box<PendingSet>,
    ) {
        for (position, pending) in pending.take_some(SLICE) {
            turn.budget = turn.budget.saturating_sub(1);
            self.forget_waiter((source, position), &pending);
        }
        if !pending.is_empty() {
            self.work.push_back(Work::ForgetWaiters(source, pending));
        }
    }

    /// Drops a message that does not die now: its death, if it had one, was told before.
    pub(super) fn remove_dropped(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        position: Position,
        from: MessageState,
        (reason, cause): (Option<Reason>, DropCause),
    ) {
        let seen = self.seen(turn.now, (id, position), from);
        self.drop_one(turn, (id, position), from, (reason, cause));
        if let Some((queue, about)) = seen {
            let messages = 1;
            let dropped = EventKind::Dropped {
                reason,
                cause,
                messages,
            };
            self.tell(turn, queue, dropped, Some(about));
        }
    }

    /// Takes a dropped message out of its queue and counts it.
    pub(super) fn drop_one(
        &mut self,
        turn: &mut Turn<'_>,
        (id, position): (QueueId, Position),
        from: MessageState,
        (reason, cause): (Option<Reason>, DropCause),
    ) {
        let learned = match reason {
            Some(_) => Learned::DiedAgain,
            None => Learned::Gone,
        };
        let durable = self.remove_as(id, position, from, learned);
        self.note_drops(turn, id, (reason, cause), 1);
        let Some(reason) = reason else {
            return; // it did not die
        };
        let outcome = DeathOutcome::Dropped(cause);
        self.write_outcome(turn.now, id, (reason, durable), outcome);
    }
}

/// Why a death in a queue without a dead-letter exchange is a drop.
pub(super) fn cause_without_exchange(queue: &Queue, reason: Reason) -> DropCause {
    if reason == Reason::Maxlen && queue.name == QUARANTINE {
        DropCause::QuarantineFull // it was pushed out
    } else {
        DropCause::NoDeadLetterExchange
    }
}

/// The history of a message after its death, and why it cannot be sent anywhere, if so.
#[inline]
pub(super) fn after_death(
    recorded: Result<Arc<History>, HistoryFull>,
    before: Option<&Arc<History>>,
    has_way: bool,
) -> Option<(Arc<History>, Option<DropCause>)> {
    match (recorded, before) {
        (Ok(history), _) if has_way => Some((history, None)),
        (Ok(history), _) => Some((history, Some(DropCause::NoDeadLetterExchange))),
        (Err(HistoryFull), Some(before)) => {
            Some((Arc::clone(before), Some(DropCause::HistoryFull)))
        }
        (Err(HistoryFull), None) => {
            invariant!(broken, "a first death has room in a history");
            None
        }
    }
}

/// Distinct cycles that are logged; further ones are only counted.
const CYCLES_LOGGED_MAX: usize = 1_024;
