//! Admission of messages to queues, with the fact that records it: for all that is published or
//! dead-lettered.

use std::sync::Arc;

use super::work::Work;
use super::{Core, Turn};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{HolderId, Lsn, Millis, Now, Position, QueueId, Stamp};
use crate::broker::arguments::Overflow;
use crate::broker::queue::{Delay, Growth, MessageState, Queue, Slot};
use crate::broker::{Body, Entries, Entry, Fact};
use crate::message::{Message, Route};

/// The decision of a queue on one more message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// The message may enter (and may push another one out under `drop-head`).
    Enter,
    /// The queue is full and refuses it.
    Refuse,
    /// The queue is full, refuses it and dead-letters it.
    RefuseAndDie,
}

impl Admission {
    /// The decision of a queue that has neither room nor a consumer that waits.
    const fn when_full(queue: &Queue) -> Self {
        match queue.settings.overflow {
            Overflow::RejectPublishDlx => Self::RefuseAndDie,
            Overflow::RejectPublish | Overflow::DropHead => Self::Refuse,
        }
    }
}

/// A message about to enter a queue. It is copied for each queue but the last.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) message: Arc<Message>,
    pub(super) route: Arc<Route>,
    /// Its own time to live from now, in milliseconds; none: unlimited.
    pub(super) ttl_ms: Option<u64>,
    /// Size of its bare message, in bytes.
    pub(super) size_bytes: u32,
    /// Whether it is durable, so that the journal keeps it in durable queues.
    pub(super) durable: bool,
}

impl Arrival {
    /// A message that was published.
    #[inline]
    pub(super) fn new(now: Now, message: Arc<Message>, route: Arc<Route>) -> Self {
        Self {
            ttl_ms: own_ttl_ms(now, &message),
            ..Self::dead(message, route)
        }
    }

    /// A dead letter: it has no time to live of its own, or a message that expired would expire
    /// again in each queue it enters. [dead-lettering part 3]
    #[inline]
    pub(super) fn dead(message: Arc<Message>, route: Arc<Route>) -> Self {
        Self {
            ttl_ms: None,
            size_bytes: size_bytes(&message),
            durable: message.durable(),
            message,
            route,
        }
    }

    /// The slot of it in a queue, with the records that name its envelope and its bare bytes.
    #[inline]
    fn slot(self, now: Now, (envelope, body): (Lsn, Lsn), durable: bool, moved_by: u32) -> Slot {
        Slot {
            message: self.message,
            route: self.route,
            arrived: now.mono,
            deadline: self
                .ttl_ms
                .map_or(Millis::NEVER, |ttl_ms| now.mono.plus(ttl_ms)),
            envelope,
            body,
            holder: HolderId::default(),
            held_since: Stamp::default(),
            size_bytes: self.size_bytes,
            failures: 0,
            acquired: 0,
            durable,
            moved_by,
        }
    }
}

/// The fact that a message entered queues, built while the message is offered to one after the
/// other.
#[derive(Debug)]
pub(super) struct Insertion {
    /// Index at which the fact is inserted: in front of the facts that follow from it.
    at: usize,
    /// The LSN that names the bare bytes in the journal; 0: none.
    name: Lsn,
    /// How the fact names the bare bytes.
    body: Body,
    /// The positions entered so far, of queues that the journal keeps.
    entries: Entries,
    /// Message and route for the fact; none while no queue that the journal keeps has taken it.
    known: Option<(Arc<Message>, Arc<Route>)>,
    /// How long it waits in each queue that it enters; none: it is ready at once.
    pub(super) delay: Option<Delay>,
    /// Whether full queues are not served first.
    pub(super) is_unserved: bool,
}

/// What a queue did with a message that was offered to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Offered {
    /// The message entered the queue.
    Taken {
        /// Whether the journal keeps it.
        durable: bool,
    },
    /// The queue is full, and the message entered only to be dead-lettered.
    TakenToDie {
        /// Its position until then.
        position: Position,
        /// Whether the journal keeps it.
        durable: bool,
    },
    /// The queue is full and refused it.
    Refused,
    /// The queue does not exist any more.
    Gone,
}

/// Bytes of the bare message, as length limits count them.
#[inline]
pub(super) fn size_bytes(message: &Message) -> u32 {
    u32::try_from(message.bare_len()).unwrap_or(u32::MAX)
}

/// The time to live that a published message has of its own: header ttl, or the time left until its
/// absolute-expiry-time, which is 0 if that has passed. An absolute-expiry-time of 0 counts as not
/// set: some clients write it for none. [dead-lettering part 8]
#[inline]
fn own_ttl_ms(now: Now, message: &Message) -> Option<u64> {
    let header = message.ttl_ms().map(u64::from);
    let absolute = message
        .absolute_expiry_time()
        .filter(|expiry| expiry.0 != 0)
        .map(|expiry| u64::try_from(expiry.0.saturating_sub(now.wall.0)).unwrap_or(0));
    match (header, absolute) {
        (Some(header), Some(absolute)) => Some(header.min(absolute)),
        (header, absolute) => header.or(absolute),
    }
}

impl Core {
    /// Begins to offer a message to queues. `body` is the LSN that names its bare bytes already;
    /// without one the record being made will name them, unless it names others.
    #[inline]
    pub(super) fn insertion(&mut self, body: Lsn) -> Insertion {
        let (name, body) = match body {
            Lsn(0) => self.recorder.name_body(),
            body => (body, Body::At(body)),
        };
        Insertion {
            at: self.recorder.len(),
            name,
            body,
            entries: Entries::new(),
            known: None,
            delay: None,
            is_unserved: false,
        }
    }

    /// Offers a message to a queue, which takes it or refuses it.
    #[inline]
    pub(super) fn offer(
        &mut self,
        turn: &mut Turn<'_>,
        target: QueueId,
        arrival: Arrival,
        insertion: &mut Insertion,
    ) -> Offered {
        self.offer_marked(turn, target, arrival, (insertion, 0))
    }

    /// The same for a message that a redrive moved, and learns what becomes of; 0: none did.
    #[inline]
    pub(super) fn offer_marked(
        &mut self,
        turn: &mut Turn<'_>,
        target: QueueId,
        arrival: Arrival,
        (insertion, moved_by): (&mut Insertion, u32),
    ) -> Offered {
        self.serve_before(turn, target, &arrival.message);
        let entering = (arrival.size_bytes, insertion.delay.is_some());
        let admission = self.admit(turn, target, entering, insertion.is_unserved);
        let state = match admission {
            Admission::Enter => MessageState::Ready,
            Admission::RefuseAndDie => MessageState::Dying,
            Admission::Refuse => return Offered::Refused,
        };
        let Some((position, durable)) =
            self.enter(turn.now, target, arrival, (state, moved_by), insertion)
        else {
            return Offered::Gone;
        };
        if state == MessageState::Dying {
            Offered::TakenToDie { position, durable }
        } else {
            if let Some(delay) = insertion.delay {
                self.delay_arrived(turn.now, (target, position), (delay, durable));
            }
            Offered::Taken { durable }
        }
    }

    /// The decision of a full queue that is not served first, since another one may be right now: what
    /// is due in it, and what a consumer could take, keeps its place.
    fn refuse_unserved(&mut self, id: QueueId) -> Admission {
        let Some(queue) = self.queues.get_mut(&id) else {
            return Admission::Refuse;
        };
        queue.counters.refused += 1;
        let admission = Admission::when_full(queue);
        self.schedule(id);
        admission
    }

    /// Records the fact, after the message was offered to all its queues.
    #[inline]
    pub(super) fn record(&mut self, insertion: Insertion) {
        let Insertion {
            at,
            body,
            entries,
            known,
            ..
        } = insertion;
        if let Some((message, route)) = known {
            let fact = Fact::Inserted {
                message,
                route,
                body,
                entries,
            };
            self.recorder.push_insertion(at, fact);
        }
    }

    /// Asks a queue whether a message of this size may enter, and whether it waits there for its
    /// time.
    #[inline]
    fn admit(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        entering: (u32, bool),
        is_unserved: bool,
    ) -> Admission {
        let queue = self.queues.get(&id);
        if queue.is_none_or(|queue| !queue.refuses(entering.0)) {
            return Admission::Enter; // as a rule
        }
        self.admit_over_limit(turn, id, entering, is_unserved)
    }

    #[inline(never)]
    fn admit_over_limit(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        entering: (u32, bool),
        is_unserved: bool,
    ) -> Admission {
        if self.has_room(id, entering) {
            return Admission::Enter;
        }
        if is_unserved {
            return self.refuse_unserved(id);
        }
        self.serve(turn, id); // what is due goes first, and what a consumer can take
        if self.has_room(id, entering) {
            return Admission::Enter;
        }
        let Some(queue) = self.queues.get_mut(&id) else {
            return Admission::Refuse;
        };
        queue.counters.refused += 1;
        Admission::when_full(queue)
    }

    /// What [`Core::offer`] would decide now, for a message that is in another queue.
    pub(super) fn foresee_admission(&self, id: QueueId, size_bytes: u32) -> Admission {
        let queue = self.queues.get(&id);
        match queue.filter(|queue| queue.refuses(size_bytes)) {
            Some(queue) if !self.would_take(queue, queue.messages.ready()) => {
                Admission::when_full(queue)
            }
            _ => Admission::Enter,
        }
    }

    /// The same for a message of the same queue that is ready until then, or waits for its time.
    pub(super) fn foresee_readmission(
        &self,
        id: QueueId,
        (from, size_bytes): (MessageState, u32),
    ) -> Admission {
        let left = u64::from(from == MessageState::Ready);
        let queue = self.queues.get(&id);
        let queue = queue.filter(|queue| queue.refuses_in_place_of(size_bytes));
        match queue {
            Some(queue) if !self.would_take(queue, queue.messages.ready().saturating_sub(left)) => {
                Admission::when_full(queue)
            }
            _ => Admission::Enter,
        }
    }

    /// Whether a queue takes one more message of this size, also because a consumer waits for it:
    /// not for one that waits for its time.
    fn has_room(&mut self, id: QueueId, (size_bytes, is_delayed): (u32, bool)) -> bool {
        let queue = self.queues.get(&id);
        let refuses = queue.is_some_and(|queue| queue.refuses(size_bytes));
        !refuses || (!is_delayed && self.has_taker(id))
    }

    /// Puts a message into a queue; returns its position, and whether the journal keeps it. None if
    /// the queue does not exist.
    #[inline]
    fn enter(
        &mut self,
        now: Now,
        id: QueueId,
        arrival: Arrival,
        (state, moved_by): (MessageState, u32),
        insertion: &mut Insertion,
    ) -> Option<(Position, bool)> {
        let queue = self.queues.get_mut(&id)?;
        let durable = self.options.journal && queue.keeps(arrival.durable);
        let envelope = if durable {
            self.recorder.name_envelope()
        } else {
            Lsn(0)
        };
        // A streamed body is in the journal only, also for transient messages.
        let has_body = durable || arrival.message.blob().is_some();
        let body = if has_body { insertion.name } else { Lsn(0) };
        let is_shared = body != envelope;
        #[cfg(test)]
        let is_shared = is_shared && !is_planted(Plant::NamedBodyReleased);
        if is_shared {
            self.recorder.share(body, 1);
        }
        if durable && insertion.known.is_none() {
            insertion.known = Some((arrival.message.clone(), arrival.route.clone()));
        }
        let ttl_ms = arrival.ttl_ms;
        let slot = arrival.slot(now, (envelope, body), durable, moved_by);
        slot.message.charge(&self.memory.shared);
        // A message from a client has no history.
        queue.counters.dead_entered += u64::from(slot.message.history().is_some());
        let resident_bytes = slot.resident_bytes();
        queue.note_group(&slot.message, self.options.group_seed());
        self.unserved.note_taker(now, queue, &slot);
        let position = queue.messages.insert(slot, state, &mut self.deferred_free);
        self.memory.resident.add(resident_bytes);
        queue.counters.entered += 1;
        queue.growth = Growth::Grown;
        let full = queue.messages.block_before(position);
        if !std::mem::replace(&mut queue.scheduled, true) {
            self.work.push_back(Work::Serve(id));
        }
        if let Some(full) = full {
            self.mark_evictable(id, full);
        }
        if durable {
            insertion.entries.push(Entry {
                queue: id,
                position,
                arrived: now.wall,
                ttl_ms,
            });
        }
        Some((position, durable))
    }
}
