//! Links of consumers that outlive the broker: the journal keeps what each of them holds.
//! [AMQP 2.6.13, 3.5.5]
//!
//! ```text
//!   attach --kept--> assigned --acquired: its record is durable--> sent --> settled, returned or dead
//!                        '------------------unsent--------------------> its queue
//!
//!   start: what a link held is reserved --its block is in memory--> held
//! ```
//!
//! Nobody is served from a queue that has reserved messages: so they are nobody else's, and who has a message
//! group goes on with it.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::recorder::Recorder;
use super::recovery::{Restored, Terms};
use super::work::{SLICE, Work};
use super::{Core, Turn};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Charge, ConsumerId, HolderId, Lsn, Now, Position, QueueId, Stamp, invariant};
use crate::broker::consumer_link::{ConsumerLink, ConsumerLinkFact};
use crate::broker::queue::{MessageState, Queue, Reserved};
use crate::broker::recovery::Acquisition;
use crate::broker::{Delivery, Effect, Fact};

/// Memory of a link beside its texts, about, in bytes.
const LINK_BYTES: usize = 320;
/// Links in one slice of a snapshot.
const SLICE_LINKS: usize = 64;
/// What tells the consumers of links that a start has found from all others, whose ids are smaller.
const RESTORED: u64 = 1 << 63;

/// All such links, by their numbers.
#[derive(Debug, Default)]
pub(super) struct ConsumerLinks {
    links: BTreeMap<u64, KeptLink>,
    /// The numbers of the links that have a holder id.
    numbers: BTreeMap<HolderId, u64>,
}

#[derive(Debug)]
struct KeptLink {
    link: ConsumerLink,
    holder: HolderId,
    _charge: Charge,
}

/// What the journal has of one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Journalled {
    pub(super) number: u64,
    /// The record with what was acquired last: nothing is sent before it is durable.
    pub(super) acquired: Lsn,
}

/// What a journal that is read says of such links.
#[derive(Debug, Default)]
pub(super) struct LinksRead {
    links: BTreeMap<u64, ConsumerLink>,
    /// Which link holds a message, and how often that was requeued before.
    held: BTreeMap<(QueueId, Position), (u64, u32)>,
}

impl Terms {
    /// The effect that sends a message of a queue: at once, or once the journal has that the link holds it.
    #[cold]
    #[inline(never)]
    pub(super) fn send(
        &mut self,
        delivery: Delivery,
        (queue, is_durable): (QueueId, bool),
        recorder: &mut Recorder,
    ) -> Effect {
        if let (Some(journalled), true) = (&mut self.journalled, is_durable) {
            let acquired = (journalled.number, delivery.acquisition());
            journalled.acquired = recorder.push_acquired(queue, acquired);
        }
        self.send_again(delivery)
    }

    /// The effect that sends a message which the journal knows to be held, or does not keep.
    pub(super) fn send_again(&self, delivery: Delivery) -> Effect {
        match &self.journalled {
            Some(journalled) if journalled.acquired > Lsn(0) => Effect::DeliverDurably {
                delivery: Box::new(delivery),
                lsn: journalled.acquired,
            },
            _ => Effect::Deliver(delivery),
        }
    }
}

impl ConsumerLinks {
    /// The number of the link that has a holder id, if it is to outlive the broker.
    pub(super) fn number_of(&self, holder: HolderId) -> Option<u64> {
        self.numbers.get(&holder).copied()
    }

    fn insert(&mut self, link: ConsumerLink, holder: HolderId, mut charge: Charge) {
        let key = &link.key;
        let texts = [&key.user, &key.container, &key.link];
        let texts_bytes = texts.iter().map(|text| text.len()).sum::<usize>();
        charge.set((LINK_BYTES + texts_bytes) as u64);
        let number = link.number;
        self.numbers.insert(holder, number);
        let kept = KeptLink {
            link,
            holder,
            _charge: charge,
        };
        self.links.insert(number, kept);
    }

    fn remove(&mut self, number: u64) -> bool {
        let gone = self.links.remove(&number);
        if let Some(kept) = &gone {
            self.numbers.remove(&kept.holder);
        }
        gone.is_some()
    }

    /// The link for which the journal has that it holds a message of a queue.
    pub(super) fn holder_of(
        &self,
        queue: &Queue,
        position: Position,
    ) -> Option<(u64, Acquisition)> {
        if self.numbers.is_empty() {
            return None;
        }
        let slot = queue.messages.slot_if(position, MessageState::Held);
        let reserved = queue.selecting.reserved();
        let holder = match slot {
            Some(slot) => slot.holder,
            None => reserved?.holder(position)?,
        };
        let acquired = queue.messages.disk_ref(position)?.acquired;
        let acquisition = Acquisition { position, acquired };
        Some((self.number_of(holder)?, acquisition))
    }
}

/// Adds an acquisition to the last fact, if that is about the same link; else returns a fact of its own.
pub(super) fn acquired(
    facts: &mut [Fact],
    queue: QueueId,
    (link, acquisition): (u64, Acquisition),
) -> Option<Fact> {
    if let Some(Fact::ConsumerLink(ConsumerLinkFact::Acquired {
        link: known,
        queue: of,
        acquisitions,
    })) = facts.last_mut()
        && (*known, *of) == (link, queue)
    {
        acquisitions.push(acquisition);
        return None;
    }
    Some(Fact::ConsumerLink(ConsumerLinkFact::Acquired {
        link,
        queue,
        acquisitions: vec![acquisition],
    }))
}

/// While the broker runs.
impl Core {
    /// The links of consumers that the journal keeps, with what each holds, by their numbers.
    pub fn consumer_links(&self) -> impl Iterator<Item = (&ConsumerLink, Vec<Acquisition>)> {
        self.consumer_links.links.iter().map(|(number, kept)| {
            let mut held = Vec::new();
            if let Some(queue) = self.queues.get(&kept.link.queue) {
                let mut from = Position(0);
                while let Some((position, _)) = queue.messages.next_live(from) {
                    from = Position(position.0 + 1);
                    let is_durable = queue.messages.disk_ref(position);
                    let is_durable = is_durable.is_some_and(|disk_ref| disk_ref.durable);
                    let holder = self.consumer_links.holder_of(queue, position);
                    let acquisition = holder.filter(|(link, _)| is_durable && link == number);
                    held.extend(acquisition.map(|(_, acquisition)| acquisition));
                }
            }
            (&kept.link, held)
        })
    }

    /// Has the journal keep a link from now on, with what it has now; returns what it has of it.
    pub(super) fn keep_consumer_link(
        &mut self,
        mut link: ConsumerLink,
        holder: HolderId,
        before: Option<Journalled>,
    ) -> Journalled {
        let number = self.recorder.making().0;
        let new = Journalled {
            number,
            acquired: Lsn(0),
        };
        let journalled = before.unwrap_or(new);
        link.number = journalled.number;
        let known = self.consumer_links.links.get(&link.number);
        if known.is_none_or(|known| known.link != link) {
            let fact = ConsumerLinkFact::Kept(Box::new(link.clone()));
            self.recorder.push(Fact::ConsumerLink(fact));
            let charge = self.options.kept.charge(0);
            self.consumer_links.insert(link, holder, charge);
        }
        journalled
    }

    /// Forgets a link: after a start it holds nothing.
    pub(super) fn forget_consumer_link(&mut self, journalled: Option<Journalled>) {
        if let Some(Journalled { number, .. }) = journalled
            && self.consumer_links.remove(number)
        {
            let fact = ConsumerLinkFact::Forgotten { link: number };
            self.recorder.push(Fact::ConsumerLink(fact));
        }
    }

    /// Has the journal keep that a message was not sent that was acquired for this holder, and is ready.
    pub(super) fn note_unsent(&mut self, id: QueueId, position: Position, holder: HolderId) {
        if self.consumer_links.number_of(holder).is_none() {
            return;
        }
        let queue = self.queues.get_mut(&id);
        // Looking at it to change it has the next checkpoint copy it anew, which does not say that it is held.
        let slot = queue.and_then(|queue| queue.messages.slot_mut(position));
        if slot.is_some_and(|slot| slot.durable) {
            let fact = ConsumerLinkFact::Unsent {
                queue: id,
                position,
            };
            self.recorder.push(Fact::ConsumerLink(fact));
        }
    }

    /// Copies links behind a number into a snapshot; returns the last if there may be more. What they hold
    /// is copied with the messages.
    pub(super) fn copy_consumer_links(&self, after: u64, facts: &mut Vec<Fact>) -> Option<u64> {
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        let links = self.consumer_links.links.range(behind);
        let mut last = None;
        for (count, (number, kept)) in (1..).zip(links.take(SLICE_LINKS)) {
            let fact = ConsumerLinkFact::Kept(Box::new(kept.link.clone()));
            facts.push(Fact::ConsumerLink(fact));
            last = (count == SLICE_LINKS).then_some(*number);
        }
        last
    }
}

/// After a start.
impl Core {
    /// Acquires messages for the links that held them when the broker ended, as far as they are in memory,
    /// and asks for the next. To be called instead of serving the queue.
    #[cold]
    #[inline(never)]
    pub(super) fn acquire_reserved(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let since = Stamp::of(turn.now.mono);
        for _ in 0..SLICE {
            let Some(queue) = self.queues.get_mut(&id) else {
                return;
            };
            let reserved = queue.selecting.reserved();
            let Some((position, holder)) = reserved.and_then(Reserved::first) else {
                return;
            };
            turn.budget = turn.budget.saturating_sub(1);
            let messages = &mut queue.messages;
            let is_ready = messages.is(position, MessageState::Ready);
            if holder.is_some() && is_ready && messages.slot(position).is_none() {
                if let Some(block) = messages.begin_load(position) {
                    self.load(turn, (id, block));
                }
                return; // served again once it is paged in
            }
            if let Some(holder) = holder {
                let consumer = self.recoveries.consumer_of(holder);
                if is_ready {
                    if !messages.acquire(position, (holder, since), |_| true) {
                        invariant!(
                            fatal,
                            "a message that is ready and in memory can be acquired"
                        );
                    }
                    (queue.selecting).inherited(&queue.messages, position, consumer);
                } else {
                    self.lose_reserved(consumer); // expired, discarded or damaged on disk
                }
            }
            self.change_reserved(id, |reserved| reserved.remove(position));
        }
        self.schedule(id);
    }

    /// Counts a message as settled that a link held when the broker ended, and that is gone.
    fn lose_reserved(&mut self, consumer: ConsumerId) {
        if !self.recoveries.lose_reserved(consumer) {
            self.release(consumer);
        }
    }

    /// Leaves what was reserved for a holder, and is not acquired yet, to everybody; returns its number.
    pub(super) fn forget_reserved(&mut self, id: QueueId, holder: HolderId) -> u32 {
        let queue = self.queues.get(&id);
        if queue.is_some_and(|queue| queue.selecting.has_reserved()) {
            self.change_reserved(id, |reserved| reserved.remove_of(holder))
        } else {
            0
        }
    }

    /// Changes what is reserved in a queue, and goes on with what waited for the last of it.
    fn change_reserved<T: Default>(
        &mut self,
        id: QueueId,
        change: impl FnOnce(&mut Reserved) -> T,
    ) -> T {
        let Some(queue) = self.queues.get_mut(&id) else {
            return T::default();
        };
        let (changed, waiting) = queue.selecting.change_reserved(change);
        if let Some(waiting) = waiting {
            self.work.extend(waiting.into_iter().map(Work::Recover));
            self.schedule(id);
            self.wake_redrives_behind_load(id);
        }
        changed
    }

    /// Whether a consumer that is attached again has to wait until all is acquired that links held when the
    /// broker ended.
    pub(super) fn awaits_reserved(&mut self, id: QueueId, consumer: ConsumerId) -> bool {
        let queue = self.queues.get_mut(&id);
        let Some(queue) = queue.filter(|queue| queue.selecting.has_reserved()) else {
            return false;
        };
        queue
            .selecting
            .change_reserved(|reserved| reserved.wait(consumer));
        true
    }

    /// Reserves for each link what the journal says that it holds. A link that holds nothing is forgotten.
    pub(super) fn restore_consumer_links(&mut self, now: Now, read: LinksRead) {
        let LinksRead { links, held } = read;
        let mut of_links: BTreeMap<u64, Vec<(QueueId, Position)>> = BTreeMap::new();
        for ((queue, position), (link, acquired)) in held {
            let found = self.queues.get_mut(&queue);
            let is_it = found.is_some_and(|queue| {
                let disk_ref = queue.messages.disk_ref(position);
                let is_same = disk_ref.is_some_and(|disk_ref| disk_ref.acquired == acquired);
                if is_same {
                    // Its time had come, whatever the clock says now.
                    queue.messages.end_delay(position);
                }
                is_same && queue.messages.is(position, MessageState::Ready)
            });
            if is_it {
                of_links.entry(link).or_default().push((queue, position));
            }
        }
        // Of two links with one name the later one counts.
        for (number, link) in links.into_iter().rev() {
            if let Some(held) = of_links.remove(&number) {
                let held = held.into_iter().filter(|(queue, _)| *queue == link.queue);
                let held = held.map(|(_, position)| position).collect();
                self.restore_consumer_link(now, link, held);
            }
        }
    }

    fn restore_consumer_link(&mut self, now: Now, link: ConsumerLink, held: Vec<Position>) {
        let id = ConsumerId(RESTORED | link.number);
        let holder = super::clients::holder(id);
        let count = u32::try_from(held.len()).unwrap_or(u32::MAX);
        let charge = self.options.kept.charge(0);
        let restored = Restored {
            link: &link,
            consumer: id,
            held: count,
        };
        if count == 0 || !self.recoveries.restore(now.mono, &restored, charge) {
            return;
        }
        let queue = link.queue;
        for position in held {
            #[cfg(test)]
            if is_planted(Plant::StartForgetsHeld) {
                continue;
            }
            self.change_reserved(queue, |reserved| reserved.add(position, holder));
            if let Some(queue) = self.queues.get_mut(&queue) {
                queue.messages.note_copied(position, Lsn(0)); // it may not say that it is held
            }
        }
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.timeouts.add(link.consumer_timeout_ms);
        }
        self.look_in_time(now, queue);
        let charge = self.options.kept.charge(0);
        self.consumer_links.insert(link, holder, charge);
    }
}

impl LinksRead {
    /// Applies a fact.
    pub(super) fn fact(&mut self, fact: &ConsumerLinkFact) {
        match fact {
            ConsumerLinkFact::Kept(link) => {
                self.links.insert(link.number, ConsumerLink::clone(link));
            }
            ConsumerLinkFact::Acquired {
                link,
                queue,
                acquisitions,
            } => {
                let held = acquisitions.iter();
                let held = held.map(|it| ((*queue, it.position), (*link, it.acquired)));
                self.held.extend(held);
            }
            ConsumerLinkFact::Unsent { queue, position } => {
                self.held.remove(&(*queue, *position));
            }
            ConsumerLinkFact::Forgotten { link } => {
                self.links.remove(link);
            }
        }
    }

    /// Notes that a queue was deleted.
    pub(super) fn forget_queue(&mut self, id: QueueId) {
        let its = (id, Position(0))..=(id, Position(u64::MAX));
        let its: Vec<_> = self.held.range(its).map(|(place, _)| *place).collect();
        for place in its {
            self.held.remove(&place);
        }
    }

    /// Notes that a message came back so often, or is gone.
    pub(super) fn let_go(&mut self, place: (QueueId, Position), acquired: u32) {
        let held = self.held.get(&place);
        if held.is_some_and(|(_, before)| *before < acquired) {
            self.held.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long journal says of many messages that they were held.
    #[test]
    fn of_what_is_gone_nothing_is_kept_while_a_journal_is_read() {
        let mut read = LinksRead::default();
        let acquisition = |position| Acquisition {
            position: Position(position),
            acquired: 0,
        };
        for queue in [1, 2, 3] {
            read.fact(&ConsumerLinkFact::Acquired {
                link: 1,
                queue: QueueId(queue),
                acquisitions: vec![acquisition(0), acquisition(u64::MAX)],
            });
        }
        read.forget_queue(QueueId(2));
        read.let_go((QueueId(1), Position(0)), u32::MAX);
        read.let_go((QueueId(3), Position(0)), 0);
        let left: Vec<_> = read
            .held
            .keys()
            .map(|(queue, at)| (queue.0, at.0))
            .collect();
        assert_eq!(left, [(1, u64::MAX), (3, 0), (3, u64::MAX)]);
    }
}
