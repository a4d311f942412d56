//! Serving one queue: assigning messages to consumers, expiring them, and enforcing limits.

use std::collections::BTreeSet;

use super::clients::{Clients, NoRoom};
use super::recorder::Recorder;
use super::recovery::Terms;
use super::work::{SLICE, Work};
use super::{Core, Turn};
use crate::base::{
    ConnectionId, ConsumerId, HolderId, Millis, Now, Position, QueueId, Stamp, Step, invariant,
};
use crate::broker::arguments::Overflow;
use crate::broker::counters::Counters;
use crate::broker::queue::{Choice, Due, Growth, MessageState, Queue, Slot};
use crate::broker::{Delivery, DropCause, Effect};
use crate::deaths::Reason;

impl Core {
    /// Serves a queue once: assigns first, what is due now too, so that a message for a waiting
    /// consumer neither expires nor is dropped; then handles expiry, limits, waiting dead letters, drains and the next
    /// deadline.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let now = turn.now;
        let Some(queue) = self.queues.get_mut(&id) else {
            return; // deleted since it was scheduled
        };
        queue.scheduled = false;
        if queue.expiry() <= now.mono {
            return self.remove_queue(turn, id, DropCause::QueueExpired);
        }
        if queue.selecting.has_reserved() {
            return self.acquire_reserved(turn, id);
        }
        let mut left = SLICE;
        let before = left;
        let mut dead = Vec::new();
        if !queue.messages.delayed().is_empty() {
            end_delays(now, queue, &mut left);
        }
        let mut assigning = Assigning {
            clients: &mut self.clients,
            counters: &mut self.counters,
            wanted: None,
            selecting_ns: 0,
            has_freed: false,
            recorder: &mut self.recorder,
        };
        if !queue.selecting.is_empty() {
            self.work.extend(assigning.clients.rouse(queue, &mut left));
        }
        assigning.assign(turn, queue, &mut left, &mut dead);
        let (wanted, selecting_ns) = (assigning.wanted, assigning.selecting_ns);
        let has_freed = assigning.has_freed;
        if selecting_ns > 0 {
            turn.charge_ns(selecting_ns);
        }
        let has_news = meet_deadlines(now, queue, &mut left, &mut dead)
            | has_freed
            | queue.selecting.is_waking();
        enforce_limit(queue, &mut left, &mut dead);
        turn.budget = turn.budget.saturating_sub(before - left);
        self.work.extend(deaths(id, dead));
        if has_news && !std::mem::replace(&mut queue.scheduled, true) {
            self.work.push_back(Work::Serve(id));
        }
        // Most queues have no evicted blocks.
        let has_evicted = queue.messages.has_evicted();
        let has_waiters = !queue.waiters.is_empty();
        let is_drained = queue.consumers.has_drains(queue.messages.ready());
        if left > 0 && wanted.is_none() && !(has_evicted || has_waiters || is_drained) {
            return register(&mut self.deadlines, id, queue);
        }
        if let Some(block) = wanted.and_then(|position| queue.messages.begin_load(position)) {
            self.load(turn, (id, block));
        }
        if has_evicted {
            self.read_ahead(turn, id);
        }
        if is_drained {
            self.answer_drains(turn, id); // also while there is more to do: that may take long
        }
        if left == 0 {
            self.schedule(id);
            return;
        }
        if has_waiters {
            self.wake_waiter(id);
        }
        self.register_deadline(id);
    }

    /// Sends the first dead letter that waits for room here; the next one follows it. Room means
    /// below the limit: a consumer alone wakes no dead letter, as no message came or left (as
    /// RabbitMQ).
    fn wake_waiter(&mut self, target: QueueId) {
        // Whose source was deleted are about to be taken out.
        for _ in 0..SLICE {
            let queue = self.queues.get(&target);
            let Some(&waiter) = queue.and_then(|queue| queue.waiters.first()) else {
                return;
            };
            if let Some(number) = waiter.as_redrive() {
                self.wake_redrive_for_room(target, number);
                return;
            }
            let waiting = self
                .queues
                .get(&waiter.source)
                .and_then(|source| source.pending.entry(waiter.position))
                .filter(|pending| pending.ticket == waiter.ticket)
                .map(|pending| pending.size_bytes);
            let full = |size_bytes| queue.is_some_and(|queue| queue.refuses(size_bytes));
            if waiting.is_some_and(full) {
                return;
            }
            if let Some(queue) = self.queues.get_mut(&target) {
                queue.waiters.pop_first();
            }
            if waiting.is_some() {
                self.work.push_back(Work::RetryWaiter { target, waiter });
                return;
            }
        }
        self.schedule(target);
    }

    /// Reports to some of the draining consumers that nothing more is ready for them, if that is so.
    fn answer_drains(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return invariant!(broken, "a queue that is served is there");
        };
        let ready = queue.messages.ready();
        for consumer in queue.consumers.take_drains(ready, SLICE) {
            turn.budget = turn.budget.saturating_sub(1);
            let is_fed = queue.consumers.is_fed(consumer) && !queue.selecting.is_idle(consumer);
            let is_full = self.clients.is_full(consumer);
            let Some(state) = self.clients.consumers.get_mut(&consumer) else {
                invariant!(broken, "a consumer of a queue is known");
                queue.consumers.end_drain(consumer);
                continue;
            };
            let terms = state.recovery.as_deref();
            if state.has_credit() && terms.is_some_and(Terms::owes) {
                queue.consumers.postpone_drain(consumer);
                continue;
            }
            let may_take = is_fed && state.timed_out == 0 && !state.is_apart && !is_full;
            let may_take = may_take && !terms.is_some_and(Terms::only_resumes);
            if state.has_credit() && may_take && ready > 0 {
                continue;
            }
            state.assigned = state.assigned.max(state.limit);
            if std::mem::take(&mut state.waiting) {
                queue.consumers.park(consumer);
            }
            queue.consumers.end_drain(consumer);
            let limit = state.limit;
            let drained = Effect::Drained {
                consumer,
                limit,
                available: u32::try_from(ready).unwrap_or(u32::MAX),
            };
            turn.effects.outgoing.push((state.connection, drained));
        }
        if queue.consumers.has_drains(ready) {
            self.schedule(id);
        }
    }

    /// Keeps the queue's next deadline in the index. If the registered one is earlier it stays: it
    /// is corrected when that time comes.
    pub(super) fn register_deadline(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id) {
            register(&mut self.deadlines, id, queue);
        }
    }

    /// Whether a message that arrived now would be assigned to a consumer at once.
    pub(super) fn has_taker(&mut self, id: QueueId) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else {
            return false;
        };
        if queue.messages.ready() > 0 {
            return false;
        }
        while let Some(front) = queue.consumers.front() {
            match self.clients.takes(queue, front) {
                Ok(takes) => return takes,
                Err(why) => self.clients.park(queue, front, why),
            }
        }
        false
    }

    /// What [`Core::has_taker`] would find if this number of messages were ready.
    pub(super) fn would_take(&self, queue: &Queue, ready: u64) -> bool {
        let mut waiting = queue.consumers.waiting();
        let mut first = || waiting.find_map(|consumer| self.clients.takes(queue, consumer).ok());
        ready == 0 && first().unwrap_or(false)
    }
}

impl Turn<'_> {
    /// Charges estimated time for evaluating selectors or matching policies.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_ns(&mut self, ns: u64) {
        self.effects.meter.charge_ns(ns);
        let touched = usize::try_from(ns / Step::Message.ns()).unwrap_or(usize::MAX);
        self.budget = self.budget.saturating_sub(touched);
    }
}

impl Clients {
    /// Whether a consumer would be assigned a message that arrived now.
    fn takes(&self, queue: &Queue, consumer: ConsumerId) -> Result<bool, NoRoom> {
        // A consumer with a selector may not want the message, one that holds a suspect may not have
        // it, its group may be another's, and after a start others come first: the limit is kept rather than exceeded.
        let selecting = &queue.selecting;
        let is_apart = selecting.has(consumer) || selecting.has_reserved();
        if is_apart || selecting.suspected() > 0 || selecting.has_groups() {
            return Ok(false);
        }
        self.room(consumer).map(|()| true)
    }

    /// Wakes those that had found nothing more, if something changed since: some of the consumers at once,
    /// browsers by the item of work that is returned.
    #[cold]
    #[inline(never)]
    fn rouse(&mut self, queue: &mut Queue, left: &mut usize) -> Option<Work> {
        for consumer in queue.selecting.take_idle(queue.counters.entered, SLICE) {
            self.unpark(queue, consumer);
        }
        if queue.selecting.has_groups() {
            for consumer in queue.selecting.end_groups(&queue.messages, *left) {
                *left = left.saturating_sub(1);
                self.unpark(queue, consumer);
            }
        }
        let browses = queue.selecting.wakes_browsers(queue.counters.entered);
        browses.then_some(Work::Browse(queue.id))
    }

    /// Puts a consumer that had found nothing it wanted into its queue's ring again.
    fn unpark(&mut self, queue: &mut Queue, consumer: ConsumerId) {
        if let Some(state) = self.consumers.get_mut(&consumer)
            && !state.waiting
            && state.has_credit()
            && state.timed_out == 0
            && queue.consumers.is_fed(consumer)
        {
            (state.waiting, state.is_apart) = (true, false);
            queue.consumers.wait(consumer);
        }
    }

    /// Takes a consumer that found nothing it wanted out of its queue's ring.
    fn rest(&mut self, queue: &mut Queue, consumer: ConsumerId) {
        queue.consumers.park(consumer);
        if let Some(state) = self.consumers.get_mut(&consumer) {
            state.waiting = false;
        }
    }

    /// Takes a consumer out of its queue's ring until session and connection have room.
    fn park(&mut self, queue: &mut Queue, consumer: ConsumerId, why: NoRoom) {
        self.rest(queue, consumer);
        self.block(consumer, why);
    }
}

/// The state that assigning needs besides the queue.
struct Assigning<'a> {
    clients: &'a mut Clients,
    counters: &'a mut Counters,
    /// The position of an evicted message that a consumer with a selector has to see.
    wanted: Option<Position>,
    /// Estimated time spent on selectors, in nanoseconds.
    selecting_ns: u64,
    /// Whether a message group ended, so that others may have what they had passed of it.
    has_freed: bool,
    /// Told what is acquired for links that outlive the broker.
    recorder: &'a mut Recorder,
}

/// The next step for the consumer whose turn it is.
enum Next {
    Take(Position),
    /// The message is of a group that another consumer has, which waits too.
    Give(ConsumerId, Position),
    /// It was taken out of the ring: ask for the next consumer.
    Rested,
    /// Nothing can be assigned to anyone now.
    Stop,
}

impl Assigning<'_> {
    /// What is next in such a queue.
    fn select(
        &mut self,
        now: &Now,
        queue: &mut Queue,
        consumer: ConsumerId,
        left: &mut usize,
    ) -> Next {
        queue.selecting.prune_suspects(&queue.messages);
        let next = self.find(now, queue, consumer, left);
        let (consumer, position) = match next {
            Next::Take(position) => (consumer, position),
            Next::Give(owner, position) => (owner, position),
            Next::Rested | Next::Stop => return next,
        };
        if let Some(session) = self.clients.awaited(queue, consumer, position) {
            // Asking has a cost: it looks at other links of the connection.
            *left = left.saturating_sub(1);
            self.clients.rest(queue, consumer);
            self.clients.block_by(consumer, session);
            return Next::Rested;
        }
        next
    }

    fn find(
        &mut self,
        now: &Now,
        queue: &mut Queue,
        consumer: ConsumerId,
        left: &mut usize,
    ) -> Next {
        if queue.selecting.has_groups()
            && let Some(head) = queue.messages.head()
            && let Some(owner) = queue.selecting.owner_of(&queue.messages, head)
            && owner != consumer
        {
            let is_ready = queue.consumers.is_waiting(owner) && !queue.selecting.selects(owner);
            if is_ready && self.clients.room(owner).is_ok() {
                return Next::Give(owner, head);
            }
            queue.selecting.look_behind(consumer);
        } else if !queue.selecting.selects(consumer) {
            return queue.messages.head().map_or(Next::Stop, Next::Take);
        }
        if let Err(why) = self.clients.room(consumer) {
            self.clients.park(queue, consumer, why);
            return Next::Rested;
        }
        // Asking has a cost even if there is nothing to look at: thousands of consumers may be
        // asked.
        *left = left.saturating_sub(1);
        let messages = &mut queue.messages;
        let (choice, spent_ns) = queue.selecting.choose(now.wall, messages, consumer, left);
        self.selecting_ns += spent_ns;
        match choice {
            Choice::Take(position) => return Next::Take(position),
            Choice::Later => return Next::Stop,
            Choice::OnDisk(position) => self.wanted = Some(position),
            Choice::Nothing => {}
        }
        self.clients.rest(queue, consumer);
        Next::Rested
    }

    /// Assigns what is ready to those whose turn it is.
    #[inline]
    fn assign(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &mut Queue,
        left: &mut usize,
        dead: &mut Vec<(Position, Reason)>,
    ) {
        while *left > 0
            && let Some(consumer) = queue.consumers.front()
        {
            let goes_on = if queue.selecting.is_empty() {
                self.assign_turn(turn, queue, consumer, left, dead)
            } else {
                self.assign_selected(turn, queue, consumer, left, dead)
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Assigns the first messages to the consumer whose turn it is, for as long as it is: it is looked up once
    /// for all of them. False: nothing more can be assigned to anyone now.
    #[inline]
    fn assign_turn(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &mut Queue,
        id: ConsumerId,
        left: &mut usize,
        dead: &mut Vec<(Position, Reason)>,
    ) -> bool {
        if queue.messages.ready() == 0 {
            return false;
        }
        let Some(mut taker) = self.clients.taker(id) else {
            self.clients.park(queue, id, NoRoom::Credit);
            return true;
        };
        let (connection, queue_id) = (taker.consumer.connection, queue.id);
        let to = (taker.consumer.holder, Stamp::of(turn.now.mono));
        while *left > 0 && queue.consumers.front() == Some(id) {
            let Some(position) = queue.messages.head() else {
                return false; // as a rule after the last message
            };
            let (mut refusal, mut redelivered) = (None, false);
            let is_wanted = |slot: &Slot| {
                let expires_at = slot.expires_at(queue.settings.message_ttl_ms);
                if is_late(turn.now, slot, expires_at) {
                    refusal = Some(Refusal::Late);
                    return false;
                }
                if let Err(why) = taker.take(slot.size_bytes) {
                    refusal = Some(Refusal::NoRoom(why));
                    return false;
                }
                let delivery = describe(id, position, slot);
                redelivered = delivery.acquired > 0;
                let effect = match &mut taker.consumer.recovery {
                    None => Effect::Deliver(delivery),
                    Some(terms) => terms.send(delivery, (queue_id, slot.durable), self.recorder),
                };
                turn.effects.outgoing.push((connection, effect));
                true
            };
            let ready = queue.messages.ready();
            if queue.messages.acquire(position, to, is_wanted) {
                queue.consumers.served(ready);
                queue.counters.delivered += 1;
                self.counters.delivered += 1;
                queue.counters.redelivered += u64::from(redelivered);
                self.counters.redelivered += u64::from(redelivered);
            } else {
                match refusal {
                    None => {
                        expect_on_disk(queue, position);
                        return false; // served again once it is paged in
                    }
                    Some(Refusal::NoRoom(why)) => {
                        self.clients.park(queue, id, why);
                        return true;
                    }
                    Some(Refusal::Late) => {
                        kill(queue, position, MessageState::Ready);
                        dead.push((position, Reason::Expired));
                    }
                }
            }
            *left -= 1;
        }
        queue.consumers.end_turn(id, taker.consumer.has_credit());
        true
    }

    /// The same for one message, where some consumers have selectors, or some messages are delivered alone or
    /// have a group.
    #[cold]
    #[inline(never)]
    fn assign_selected(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &mut Queue,
        consumer: ConsumerId,
        left: &mut usize,
        dead: &mut Vec<(Position, Reason)>,
    ) -> bool {
        let (consumer, position) = match self.select(&turn.now, queue, consumer, left) {
            Next::Take(position) => (consumer, position),
            Next::Give(owner, position) => (owner, position),
            Next::Rested => return true,
            Next::Stop => return false,
        };
        let Some(slot) = queue.messages.slot(position) else {
            expect_on_disk(queue, position);
            return false; // served again once it is paged in
        };
        if is_late(turn.now, slot, queue.deadline_of(slot)) {
            kill(queue, position, MessageState::Ready);
            dead.push((position, Reason::Expired));
            *left = left.saturating_sub(1);
            return true;
        }
        let taker = match self.clients.assign(consumer, slot.size_bytes) {
            Ok(taker) => taker,
            Err(why) => {
                self.clients.park(queue, consumer, why);
                return true;
            }
        };
        // Looking for it may have taken all of the slice.
        *left = left.saturating_sub(1);
        let mut delivery = describe(consumer, position, slot);
        let of = (queue.id, slot.durable);
        let (connection, holder) = (taker.connection, taker.holder);
        if !taker.has_credit() {
            queue.consumers.check_drain(consumer); // its turn may be long in coming again
        }
        if queue.selecting.is_empty() {
            queue.consumers.served(queue.messages.ready()); // the last suspect was settled
        } else {
            delivery.suspect = note_selected(queue, position, (connection, consumer, holder));
            self.has_freed |= queue.selecting.has_news();
        }
        let redelivered = u64::from(delivery.acquired > 0);
        let effect = match &mut taker.recovery {
            None => Effect::Deliver(delivery),
            Some(terms) => terms.send(delivery, of, self.recorder),
        };
        turn.effects.outgoing.push((connection, effect));
        queue.counters.delivered += 1;
        self.counters.delivered += 1;
        queue.counters.redelivered += redelivered;
        self.counters.redelivered += redelivered;
        let to = (holder, Stamp::of(turn.now.mono));
        if !queue.messages.acquire(position, to, |_| true) {
            invariant!(fatal, "a message that is delivered was ready");
        }
        // Those who passed messages of a group that was freed look at them again first.
        !self.has_freed
    }
}

/// Why a ready message that is in memory is not assigned.
enum Refusal {
    /// It has expired.
    Late,
    /// The consumer has no room for it.
    NoRoom(NoRoom),
}

/// A ready message that is not in memory is on disk.
fn expect_on_disk(queue: &Queue, position: Position) {
    if !queue.messages.is_evicted(position) {
        invariant!(fatal, "a ready message is in memory or on disk");
    }
}

/// What is left to be done about messages that were marked as dead.
#[inline]
fn deaths(queue: QueueId, dead: Vec<(Position, Reason)>) -> impl Iterator<Item = Work> {
    let dead = dead.into_iter();
    dead.map(move |(position, reason)| Work::Die {
        queue,
        position,
        reason,
    })
}

/// See [`Core::register_deadline`].
#[inline]
fn register(deadlines: &mut BTreeSet<(Millis, QueueId)>, id: QueueId, queue: &mut Queue) {
    if queue.awaits_enough_page_ins() {
        return; // goes on when some were paged in
    }
    let next = queue.next_deadline();
    if next < queue.registered {
        deadlines.remove(&(queue.registered, id));
        queue.registered = next;
        deadlines.insert((next, id));
    }
}

/// Whether a message has expired. Its moment of arrival is excepted: with a ttl of 0 it still goes
/// to a waiting consumer.
fn is_late(now: Now, slot: &Slot, deadline: Millis) -> bool {
    deadline <= now.mono && slot.arrived != now.mono
}

pub(super) fn describe(consumer: ConsumerId, position: Position, slot: &Slot) -> Delivery {
    let carried = slot.message.carried_delivery_count();
    Delivery {
        consumer,
        position,
        message: slot.message.clone(),
        route: slot.route.clone(),
        first_acquirer: slot.acquired == 0 && slot.message.history().is_none(),
        delivery_count: carried.saturating_add(slot.failures),
        failures: slot.failures,
        acquired: slot.acquired,
        suspect: false,
        resumed: false,
    }
}

/// Notes what the other consumers have to know of a message that is delivered, and that the
/// consumer was served; whether the message is suspected.
#[cold]
#[inline(never)]
fn note_selected(
    queue: &mut Queue,
    position: Position,
    to: (ConnectionId, ConsumerId, HolderId),
) -> bool {
    let is_suspect = note_suspect(queue, position, to);
    let is_new_group = queue.selecting.assigned(&queue.messages, position, to.1);
    let ready = queue.messages.ready();
    if queue.consumers.front() != Some(to.1) {
        // It got a message of its group while it was another's turn.
    } else if is_new_group {
        queue.consumers.served_last(ready);
    } else {
        queue.consumers.served(ready);
    }
    is_suspect
}

/// Whether a message is delivered that is suspected: the connection gets nothing else of the queue
/// until it is settled.
fn note_suspect(
    queue: &mut Queue,
    position: Position,
    to: (ConnectionId, ConsumerId, HolderId),
) -> bool {
    let suspects = queue.selecting.suspects();
    let Some(suspects) = suspects.filter(|suspects| suspects.has(position)) else {
        return false;
    };
    suspects.deliver(position, to);
    true
}

/// Marks a message as dead that is ready or waits for its time.
fn kill(queue: &mut Queue, position: Position, from: MessageState) {
    if !queue.messages.kill(position, from) {
        invariant!(
            fatal,
            "a message that dies of age or length was ready or waited"
        );
    }
}

/// Makes some messages ready whose delay is over. The other half of a slice is for assigning them.
fn end_delays(now: Now, queue: &mut Queue, left: &mut usize) {
    let end = *left / 2;
    while *left > end
        && let Some((due, position)) = queue.messages.delayed().first_due()
        && due <= now.mono
    {
        end_delay(queue, position);
        *left -= 1;
    }
}

/// Makes a message ready that waited for its time.
fn end_delay(queue: &mut Queue, position: Position) {
    queue.messages.end_delay(position);
    queue.selecting.requeued(position);
}

/// Marks messages as dead that have expired, and makes more of those ready whose delay is over;
/// whether it did.
#[inline]
fn meet_deadlines(
    now: Now,
    queue: &mut Queue,
    left: &mut usize,
    dead: &mut Vec<(Position, Reason)>,
) -> bool {
    let mut has_news = false;
    while *left > 0
        && !queue.awaits_enough_page_ins()
        && let Some(due) = queue.messages.due(now.mono, queue.settings.message_ttl_ms)
    {
        match due {
            Due::Expired(position, from) => {
                kill(queue, position, from);
                dead.push((position, Reason::Expired));
            }
            Due::Ready(position) => {
                end_delay(queue, position);
                has_news = true;
            }
        }
        *left -= 1;
    }
    has_news
}

/// Drops messages from the head while the queue is over a limit. Waiting dead letters count, but
/// those that begin to wait only now do not: each message in excess pushes out one other, not all.
fn enforce_limit(queue: &mut Queue, left: &mut usize, dead: &mut Vec<(Position, Reason)>) {
    if queue.settings.overflow == Overflow::DropHead {
        while queue.overflows() {
            if *left == 0 || queue.awaits_enough_page_ins() {
                return;
            }
            let Some((position, from)) = queue.messages.victim() else {
                break;
            };
            kill(queue, position, from);
            dead.push((position, Reason::Maxlen));
            *left -= 1;
        }
    }
    queue.growth = Growth::None;
}
