//! The messages of one queue: their positions, states, order and deadlines.

mod paging;
mod purging;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::limits::MESSAGE_JOIN_BYTES_MAX;
use crate::base::{Gauge, HolderId, Meter, Millis, Position, Stamp, invariant};
use crate::broker::arguments::QueueType;
use crate::message::Message;

use super::block::{Block, EMPTY_OF_MANY_BYTES, SLOTS_KEPT, SLOTS_KEPT_OF_MANY};
use super::deferred_free::DeferredFree;
use super::delayed::{Delay, DelayedSet, Due};
use super::disk_refs::DiskRef;
use super::slot::{Gone, MessageState, Slot};
use super::subqueue::{Cell, Subqueue, Usage};

pub use paging::Eviction;

/// Subqueues that a queue without `x-max-priority` has at most.
const ORDINARY_SUBQUEUES: usize = 2;

/// Messages of one queue, with a subqueue for each priority.
///
/// The queue's own ttl needs no index: in a subqueue the oldest ready message is the first to go. Only
/// a deadline of the message's own is kept in `timers`; the index is exact: what leaves is removed.
/// One more entry there, `NEXT_DUE`, is when the next delay is over, so that a queue where nothing
/// is timed looks at one index only.
#[derive(Debug)]
pub struct Messages {
    subqueues: Vec<Subqueue>,
    order: Order,
    ready: u64,
    ready_bytes: u64,
    live_bytes: u64,
    /// The messages that the journal keeps, in whatever state.
    durable: Usage,
    held: u64,
    /// Messages that are dead, and those that wait for their time.
    others: u64,
    delayed: DelayedSet,
    timers: BTreeSet<(Millis, Position)>,
}

/// What stands for the position of the message whose delay is over next: behind all that expire in
/// the same millisecond.
const NEXT_DUE: Position = Position(u64::MAX);

/// How the next subqueue is chosen when several have ready messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// The subqueue of the highest priority.
    Highest,
    /// Two of the second subqueue for one of the first; the number is how many of the second were
    /// served in a row.
    TwoToOne(u8),
}

impl Messages {
    /// No messages yet. `max_priority` is that of a classic queue; blocks have `1 << block_shift`
    /// slots.
    pub fn new(queue_type: QueueType, max_priority: Option<u8>, block_shift: u32) -> Self {
        let (subqueues, order) = match queue_type {
            QueueType::Classic => (1 + usize::from(max_priority.unwrap_or(0)), Order::Highest),
            QueueType::Quorum => (2, Order::TwoToOne(0)),
        };
        let slots_kept = if subqueues > ORDINARY_SUBQUEUES {
            SLOTS_KEPT_OF_MANY
        } else {
            SLOTS_KEPT
        };
        Self {
            subqueues: (0..subqueues)
                .map(|_| Subqueue::new(block_shift, slots_kept))
                .collect(),
            order,
            ready: 0,
            ready_bytes: 0,
            live_bytes: 0,
            durable: Usage::default(),
            held: 0,
            others: 0,
            delayed: DelayedSet::default(),
            timers: BTreeSet::new(),
        }
    }

    /// Memory of its subqueues while they are empty, in bytes, beyond the two of an ordinary queue: each keeps
    /// a little room once it had messages.
    pub const fn subqueues_bytes(&self) -> u64 {
        let more = self.subqueues.len().saturating_sub(ORDINARY_SUBQUEUES);
        (more * (size_of::<Subqueue>() + EMPTY_OF_MANY_BYTES)) as u64
    }

    /// Memory of a position for each subqueue, in bytes: where one that looks through them goes on.
    pub const fn places_bytes(&self) -> u64 {
        (self.subqueues.len() * size_of::<Position>()) as u64
    }

    /// Number of ready messages.
    pub const fn ready(&self) -> u64 {
        self.ready
    }

    /// Number of ready messages of a quorum queue with a priority above 4.
    pub fn ready_high(&self) -> u64 {
        let high = self.subqueues.get(1);
        high.map_or(0, Subqueue::ready)
    }

    /// Bytes of the ready bare messages.
    pub const fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// Bytes of the bare messages in whatever state.
    pub const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The messages that the journal keeps, in whatever state, and the bytes of their bare
    /// messages.
    pub const fn durable(&self) -> Usage {
        self.durable
    }

    /// Number of messages held by consumers.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Number of messages in whatever state.
    pub const fn live(&self) -> u64 {
        self.ready + self.held + self.others
    }

    /// The messages that wait for their time.
    #[inline]
    pub const fn delayed(&self) -> &DelayedSet {
        &self.delayed
    }

    /// Charges the memory of its index of messages that wait, and what the subqueues of an ordinary queue keep
    /// while they are empty; to be called before there are messages.
    pub fn charge(&mut self, gauge: &Gauge) {
        self.delayed.charge(gauge);
        if self.subqueues.len() <= ORDINARY_SUBQUEUES {
            for subqueue in &mut self.subqueues {
                subqueue.charge(gauge);
            }
        }
    }

    /// Adds a message at the end of its priority.
    #[inline]
    pub fn insert(
        &mut self,
        slot: Slot,
        state: MessageState,
        deferred_free: &mut DeferredFree,
    ) -> Position {
        let (size_bytes, deadline) = (slot.size_bytes, slot.deadline);
        if slot.durable {
            self.durable.add(size_bytes);
        }
        let index = self.subqueue_of(&slot.message);
        let Some(subqueue) = self.subqueues.get_mut(index) else {
            unreachable!("a message is put into a lane that there is");
        };
        let position = pack(index, subqueue.push(slot, state, deferred_free.slot_pool()));
        self.count(position, (size_bytes, deadline), state);
        position
    }

    /// Puts an evicted message at the position that the journal has; false when that position was
    /// used already. Only for queues all of whose messages are evicted.
    pub fn place_disk_ref(&mut self, position: Position, disk_ref: DiskRef) -> bool {
        let (index, place) = unpack(position);
        let subqueue = self.subqueues.get(index);
        if subqueue.is_none_or(|subqueue| place < subqueue.next_place()) {
            return false;
        }
        let state = MessageState::Ready;
        self.count(position, (disk_ref.size_bytes, disk_ref.deadline), state);
        if disk_ref.durable {
            self.durable.add(disk_ref.size_bytes);
        }
        if let Some(subqueue) = self.subqueues.get_mut(index) {
            subqueue.place_disk_ref(place, disk_ref, state);
        }
        true
    }

    #[inline]
    fn count(
        &mut self,
        position: Position,
        (size_bytes, deadline): (u32, Millis),
        state: MessageState,
    ) {
        self.live_bytes += u64::from(size_bytes);
        match state {
            MessageState::Ready => {
                self.ready += 1;
                self.ready_bytes += u64::from(size_bytes);
                if deadline != Millis::NEVER {
                    self.timers.insert((deadline, position));
                }
            }
            MessageState::Held => self.held += 1,
            MessageState::Dying | MessageState::Delayed => self.others += 1,
        }
    }

    /// The block of a position, and the index in it. Reading one message reads its block.
    #[inline]
    fn block(&self, position: Position) -> Option<(&Block, usize)> {
        let (subqueue, place) = unpack(position);
        self.subqueues.get(subqueue)?.block(place)
    }

    #[inline]
    fn cell_mut(&mut self, position: Position) -> Option<(&mut Cell, usize)> {
        let (subqueue, place) = unpack(position);
        self.subqueues.get_mut(subqueue)?.cell_mut(place)
    }

    /// Returns the message at a place, if it is in memory.
    #[inline]
    pub fn slot(&self, position: Position) -> Option<&Slot> {
        let (block, at) = self.block(position)?;
        block.slot(at)
    }

    /// The message at a position, to change it, if it is in memory.
    #[inline]
    pub fn slot_mut(&mut self, position: Position) -> Option<&mut Slot> {
        let (cell, at) = self.cell_mut(position)?;
        cell.change()?.slot_mut(at)
    }

    /// The message at a position, to change it, if it is in that state and in memory.
    #[inline]
    pub fn slot_mut_if(&mut self, position: Position, state: MessageState) -> Option<&mut Slot> {
        let (cell, at) = self.cell_mut(position)?;
        if !cell.is(at, state) {
            return None;
        }
        cell.change()?.slot_mut(at)
    }

    /// The disk ref of the message at a position, also while it is in memory.
    pub fn disk_ref(&self, position: Position) -> Option<DiskRef> {
        let (block, at) = self.block(position)?;
        block.disk_ref(at)
    }

    /// Changes the disk ref of an evicted message; false if it is not evicted.
    pub fn change(&mut self, position: Position, change: impl FnOnce(&mut DiskRef)) -> bool {
        let Some((cell, at)) = self.cell_mut(position) else {
            return false;
        };
        cell.change().is_some_and(|block| block.change(at, change))
    }

    /// Whether there is a message at a position, in that state.
    #[inline]
    pub fn is(&self, position: Position, state: MessageState) -> bool {
        let block = self.block(position);
        block.is_some_and(|(block, at)| block.is(at, state))
    }

    /// The message at a position if it is in that state and in memory.
    #[inline]
    pub fn slot_if(&self, position: Position, state: MessageState) -> Option<&Slot> {
        let (block, at) = self.block(position)?;
        block.is(at, state).then(|| block.slot(at))?
    }

    /// Whether it has all its messages in the order they came in, whatever their priorities.
    #[inline]
    pub const fn has_one_priority(&self) -> bool {
        self.subqueues.len() == 1
    }

    /// The position of the message to deliver next.
    #[inline]
    pub fn head(&mut self) -> Option<Position> {
        if let [only] = self.subqueues.as_mut_slice() {
            return only.first_ready().map(|place| pack(0, place));
        }
        let index = self.next_subqueue()?;
        let place = self.subqueues.get_mut(index)?.first_ready()?;
        Some(pack(index, place))
    }

    /// The first position of each subqueue, from the lowest priority on.
    pub fn beginnings(&self) -> Vec<Position> {
        (0..self.subqueues.len())
            .map(|subqueue| pack(subqueue, 0))
            .collect()
    }

    /// The next ready message of the same subqueue at or behind a position.
    pub fn find_ready(&self, from: Position) -> Option<Position> {
        let (index, place) = unpack(from);
        let found = self
            .subqueues
            .get(index)?
            .find(MessageState::Ready, place)?;
        Some(pack(index, found))
    }

    /// When the oldest message came in that is there, in whatever state.
    pub fn oldest(&self) -> Option<Millis> {
        self.subqueues
            .iter()
            .filter_map(Subqueue::oldest_of_any)
            .min()
    }

    /// The message to drop next, and its state: the oldest of the lowest priority that has any
    /// ready one; without a ready one, of those that wait for their time.
    pub fn victim(&mut self) -> Option<(Position, MessageState)> {
        let mut subqueues = self.subqueues.iter();
        let Some(subqueue) = subqueues.position(|subqueue| subqueue.ready() > 0) else {
            let lowest = self.delayed.lowest();
            return lowest.map(|position| (position, MessageState::Delayed));
        };
        let place = self.subqueues.get_mut(subqueue)?.first_ready()?;
        Some((pack(subqueue, place), MessageState::Ready))
    }

    /// Assigns a ready message to a holder; false if it is not in memory, or not wanted once it is seen.
    #[inline]
    pub fn acquire(
        &mut self,
        position: Position,
        to: (HolderId, Stamp),
        is_wanted: impl FnOnce(&Slot) -> bool,
    ) -> bool {
        let order = self.order_after();
        let (subqueue, place) = unpack(position);
        let subqueue = self.subqueues.get_mut(subqueue);
        let Some(size_bytes) = subqueue.and_then(|it| it.acquire(place, to, is_wanted)) else {
            return false;
        };
        self.order = order;
        self.ready -= 1;
        self.ready_bytes -= u64::from(size_bytes);
        self.held += 1;
        true
    }

    /// Requeues a held message: it is ready again, at its position.
    pub fn requeue(&mut self, position: Position) {
        if !self.turn(position, MessageState::Held, MessageState::Ready) {
            invariant!(fatal, "a message that comes back was held");
        }
        self.time(position);
    }

    /// Has the own deadline of a message watched, if it has one.
    #[inline]
    fn time(&mut self, position: Position) {
        if let Some(deadline) = self.slot(position).map(|slot| slot.deadline)
            && deadline != Millis::NEVER
        {
            self.timers.insert((deadline, position));
        }
    }

    /// Lets a message in that state wait for its time, at its position; false if it was not in it.
    pub fn delay(&mut self, position: Position, from: MessageState, delay: Delay) -> bool {
        if !self.turn(position, from, MessageState::Delayed) {
            return false;
        }
        let size_bytes = self.block(position);
        let size_bytes = size_bytes.map_or(0, |(block, at)| block.size_bytes(at));
        self.change_delayed(|delayed| delayed.put(position, delay, size_bytes));
        self.time(position);
        true
    }

    /// Makes a message ready that waits for its time; false if it does not wait.
    pub fn end_delay(&mut self, position: Position) -> bool {
        self.turn(position, MessageState::Delayed, MessageState::Ready)
    }

    /// Changes the messages that wait, and the entry for the next of them.
    fn change_delayed(&mut self, change: impl FnOnce(&mut DelayedSet)) {
        let before = self.delayed.first_due().map(|(due, _)| due);
        change(&mut self.delayed);
        let after = self.delayed.first_due().map(|(due, _)| due);
        if before == after {
            return;
        }
        if let Some(due) = before {
            self.timers.remove(&(due, NEXT_DUE));
        }
        if let Some(due) = after {
            self.timers.insert((due, NEXT_DUE));
        }
    }

    /// Marks a message as dead; it keeps its position until its copy is durable. False if it was
    /// not in that state.
    pub fn kill(&mut self, position: Position, from: MessageState) -> bool {
        self.turn(position, from, MessageState::Dying)
    }

    /// Takes a message out that this holder holds; none if it does not. A large one is freed later.
    pub fn take_held(
        &mut self,
        position: Position,
        holder: HolderId,
        deferred_free: &mut DeferredFree,
    ) -> Option<Gone> {
        let mut large = None;
        let is_wanted = |slot: &Slot| {
            let is_held = slot.holder == holder;
            if is_held && slot.size_bytes as usize > MESSAGE_JOIN_BYTES_MAX {
                large = Some(Arc::clone(&slot.message));
            }
            is_held
        };
        let gone = self.take_wanted(position, MessageState::Held, deferred_free, is_wanted)?;
        if let Some(large) = large {
            deferred_free.message(large);
        }
        Some(gone)
    }

    /// Takes a message out; none if it was not in that state.
    pub fn take(
        &mut self,
        position: Position,
        from: MessageState,
        deferred_free: &mut DeferredFree,
    ) -> Option<Gone> {
        self.take_wanted(position, from, deferred_free, |_| true)
    }

    #[inline]
    fn take_wanted(
        &mut self,
        position: Position,
        from: MessageState,
        deferred_free: &mut DeferredFree,
        is_wanted: impl FnOnce(&Slot) -> bool,
    ) -> Option<Gone> {
        let (subqueue, place) = unpack(position);
        let subqueue = self.subqueues.get_mut(subqueue)?;
        let slot = subqueue.take(place, from, deferred_free.slot_pool(), is_wanted)?;
        self.live_bytes -= u64::from(slot.size_bytes);
        self.uncount(position, from, slot.size_bytes);
        if slot.durable {
            self.durable.subtract(slot.size_bytes);
        }
        if slot.deadline != Millis::NEVER {
            self.timers.remove(&(slot.deadline, position));
        }
        Some(slot)
    }

    /// A message that has expired, or whose delay is over.
    #[inline]
    pub fn due(&mut self, now: Millis, queue_ttl_ms: Option<u64>) -> Option<Due> {
        if queue_ttl_ms.is_none() && self.timers.is_empty() {
            return None;
        }
        self.find_due(now, queue_ttl_ms)
    }

    fn find_due(&mut self, now: Millis, queue_ttl_ms: Option<u64>) -> Option<Due> {
        if let Some(ttl_ms) = queue_ttl_ms {
            for index in 0..self.subqueues.len() {
                let [ready, delayed] = self.oldest_in(index);
                let expired = |oldest: Option<(Position, Millis)>| {
                    let oldest = oldest.filter(|(_, arrived)| arrived.plus(ttl_ms) <= now);
                    oldest.map(|(position, _)| position)
                };
                match (expired(ready), expired(delayed)) {
                    (Some(ready), delayed) if delayed.is_none_or(|other| ready < other) => {
                        return Some(Due::Expired(ready, MessageState::Ready));
                    }
                    (_, Some(delayed)) => {
                        return Some(Due::Expired(delayed, MessageState::Delayed));
                    }
                    _ => {}
                }
            }
        }
        while let Some(&(deadline, position)) = self.timers.first() {
            if deadline > now {
                return None;
            }
            if position == NEXT_DUE {
                return self.delayed.first_due().map(|(_, next)| Due::Ready(next));
            }
            for state in [MessageState::Ready, MessageState::Delayed] {
                if self.is(position, state) {
                    return Some(Due::Expired(position, state));
                }
            }
            self.timers.pop_first(); // held: looked at again when it comes back
        }
        None
    }

    /// The oldest ready message of a subqueue and the oldest that waits for its time, each with
    /// when it arrived.
    fn oldest_in(&mut self, index: usize) -> [Option<(Position, Millis)>; 2] {
        let subqueue = self.subqueues.get_mut(index);
        let ready = subqueue.and_then(Subqueue::oldest);
        let ready = ready.map(|(place, arrived)| (pack(index, place), arrived));
        let (from, end) = (pack(index, 0), pack(index + 1, 0));
        let delayed = self.delayed.first_between(from, end).and_then(|position| {
            let (block, at) = self.block(position)?;
            Some((position, block.arrived(at)?))
        });
        [ready, delayed]
    }

    /// When the next message expires; [`Millis::NEVER`] if none will.
    #[inline]
    pub fn deadline(&mut self, queue_ttl_ms: Option<u64>) -> Millis {
        if queue_ttl_ms.is_none() && self.timers.is_empty() {
            return Millis::NEVER;
        }
        self.find_deadline(queue_ttl_ms)
    }

    fn find_deadline(&mut self, queue_ttl_ms: Option<u64>) -> Millis {
        let mut next = self
            .timers
            .first()
            .map_or(Millis::NEVER, |(deadline, _)| *deadline);
        if let Some(ttl_ms) = queue_ttl_ms
            && self.live() > self.held
        {
            for index in 0..self.subqueues.len() {
                for (_, arrived) in self.oldest_in(index).into_iter().flatten() {
                    next = next.min(arrived.plus(ttl_ms));
                }
            }
        }
        next
    }

    /// The first held message at or behind a position, looked for in so many blocks; without one,
    /// where to go on, if there is more.
    pub fn find_held(
        &self,
        from: Position,
        blocks: &mut usize,
    ) -> Result<Position, Option<Position>> {
        let (first, start) = unpack(from);
        for (index, subqueue) in self.subqueues.iter().enumerate().skip(first) {
            let from = if index == first { start } else { 0 };
            match subqueue.find_held(from, blocks) {
                Ok(found) => return Ok(pack(index, found)),
                Err(Some(next)) => return Err(Some(pack(index, next))),
                Err(None) => {}
            }
        }
        Err(None)
    }

    /// The next message of a holder at or behind a position, for simulations: all that others hold is passed.
    #[cfg(any(test, feature = "internals"))]
    pub fn held_by(&self, holder: HolderId, from: Position) -> Option<Position> {
        self.search(MessageState::Held, from, |block, at| {
            block.slot(at).is_some_and(|slot| slot.holder == holder)
        })
    }

    /// The next message in a state at or behind a position.
    pub fn find(&self, state: MessageState, from: Position) -> Option<Position> {
        self.search(state, from, |_, _| true)
    }

    /// The next message at or behind a position, and its state.
    pub fn next_live(&self, from: Position) -> Option<(Position, MessageState)> {
        let (first, start) = unpack(from);
        let mut subqueues = self.subqueues.iter().enumerate().skip(first);
        subqueues.find_map(|(index, subqueue)| {
            let from = if index == first { start } else { 0 };
            let (place, state) = subqueue.next_live(from)?;
            Some((pack(index, place), state))
        })
    }

    /// The next ready message of the same subqueue at or behind a position, looking at as many
    /// blocks as are left at most.
    ///
    /// Errors: the position at which it goes on.
    pub fn find_ready_among(
        &self,
        from: Position,
        blocks_left: &mut usize,
    ) -> Result<Option<Position>, Position> {
        let (index, place) = unpack(from);
        let Some(subqueue) = self.subqueues.get(index) else {
            return Ok(None);
        };
        let found = subqueue.find_among(MessageState::Ready, place, blocks_left);
        let found = found.map_err(|place| pack(index, place))?;
        Ok(found.map(|place| pack(index, place)))
    }

    /// The first message in a state at or behind a position, looking at as many blocks as are left
    /// at most.
    ///
    /// Errors: the position at which it goes on.
    pub fn find_among(
        &self,
        state: MessageState,
        from: Position,
        blocks_left: &mut usize,
    ) -> Result<Option<Position>, Position> {
        let (first, start) = unpack(from);
        for (index, subqueue) in self.subqueues.iter().enumerate().skip(first) {
            let place = if index == first { start } else { 0 };
            let found = subqueue.find_among(state, place, blocks_left);
            let found = found.map_err(|place| pack(index, place))?;
            if let Some(place) = found {
                return Ok(Some(pack(index, place)));
            }
        }
        Ok(None)
    }

    /// The same, among messages that the journal keeps.
    pub fn find_durable(&self, state: MessageState, from: Position) -> Option<Position> {
        self.search(state, from, |block, at| match block.slot(at) {
            Some(slot) => slot.durable,
            None => block.disk_ref(at).is_some_and(|disk_ref| disk_ref.durable),
        })
    }

    fn search(
        &self,
        state: MessageState,
        from: Position,
        wanted: impl Fn(&Block, usize) -> bool,
    ) -> Option<Position> {
        let (first, start) = unpack(from);
        for (index, subqueue) in self.subqueues.iter().enumerate().skip(first) {
            let mut place = if index == first { start } else { 0 };
            while let Some(found) = subqueue.find(state, place) {
                let block = subqueue.block(found);
                if block.is_some_and(|(block, at)| wanted(block, at)) {
                    return Some(pack(index, found));
                }
                place = found + 1;
            }
        }
        None
    }

    /// The position that the next message of each subqueue will have.
    pub fn ends(&self) -> Vec<Position> {
        self.subqueues
            .iter()
            .enumerate()
            .map(|(i, subqueue)| pack(i, subqueue.next_place()))
            .collect()
    }

    /// Number of ready messages of higher priority, or of the same priority and an earlier
    /// position.
    pub fn ready_before(&self, position: Position, meter: &mut Meter) -> u64 {
        let (subqueue, place) = unpack(position);
        let higher = self.subqueues.iter().skip(subqueue + 1);
        let higher: u64 = higher.map(Subqueue::ready).sum();
        let same = self.subqueues.get(subqueue);
        higher + same.map_or(0, |same| same.ready_before(place, meter))
    }

    /// Hands everything over, to be freed later.
    pub fn scrap(mut self, deferred_free: &mut DeferredFree) {
        for subqueue in &mut self.subqueues {
            subqueue.scrap(deferred_free);
        }
        deferred_free.timers(self.timers);
        self.delayed.scrap(deferred_free);
    }

    fn turn(&mut self, position: Position, from: MessageState, to: MessageState) -> bool {
        let (index, place) = unpack(position);
        let Some(subqueue) = self.subqueues.get_mut(index) else {
            return false;
        };
        let Some(size_bytes) = subqueue.turn(place, from, to) else {
            return false;
        };
        self.uncount(position, from, size_bytes);
        match to {
            MessageState::Ready => {
                self.ready += 1;
                self.ready_bytes += u64::from(size_bytes);
            }
            MessageState::Held => self.held += 1,
            MessageState::Dying | MessageState::Delayed => self.others += 1,
        }
        true
    }

    #[inline]
    fn uncount(&mut self, position: Position, from: MessageState, size_bytes: u32) {
        match from {
            MessageState::Ready => {
                self.ready -= 1;
                self.ready_bytes -= u64::from(size_bytes);
            }
            MessageState::Held => self.held -= 1,
            MessageState::Dying => self.others -= 1,
            MessageState::Delayed => {
                self.others -= 1;
                self.change_delayed(|delayed| delayed.remove(position, size_bytes));
            }
        }
    }

    #[inline]
    fn subqueue_of(&self, message: &Message) -> usize {
        match self.order {
            Order::Highest if self.subqueues.len() == 1 => 0,
            Order::Highest => {
                usize::from(message.priority().unwrap_or(0)).min(self.subqueues.len() - 1)
            }
            Order::TwoToOne(_) => usize::from(message.priority().unwrap_or(4) > 4),
        }
    }

    fn next_subqueue(&self) -> Option<usize> {
        let highest = self
            .subqueues
            .iter()
            .rposition(|subqueue| subqueue.ready() > 0)?;
        if self.order == Order::TwoToOne(2) && self.both_wait() {
            Some(0)
        } else {
            Some(highest)
        }
    }

    fn both_wait(&self) -> bool {
        self.subqueues.iter().all(|subqueue| subqueue.ready() > 0)
    }

    /// The order once one more message is delivered: its class counts, to keep two to one.
    #[inline]
    fn order_after(&self) -> Order {
        match self.order {
            Order::TwoToOne(run) if self.both_wait() => Order::TwoToOne((run + 1) % 3),
            order => order,
        }
    }
}

const SUBQUEUE_SHIFT: u32 = 56;

fn pack(subqueue: usize, place: u64) -> Position {
    Position(((subqueue as u64) << SUBQUEUE_SHIFT) | place)
}

/// The first position of the subqueue behind that of a position.
pub fn next_subqueue(position: Position) -> Position {
    pack(subqueue(position) + 1, 0)
}

/// The subqueue of a position: its priority.
pub fn subqueue(position: Position) -> usize {
    unpack(position).0
}

fn unpack(position: Position) -> (usize, u64) {
    let subqueue = usize::try_from(position.0 >> SUBQUEUE_SHIFT).unwrap_or(usize::MAX);
    (subqueue, position.0 & ((1 << SUBQUEUE_SHIFT) - 1))
}
