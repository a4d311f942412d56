//! All messages of one priority, in order of arrival.

mod paging;

use std::collections::VecDeque;

use crate::base::limits::{ALLOCATOR_WASTE_PARTS, MESSAGE_OVERHEAD_BYTES};
use crate::base::{Charge, Gauge, HolderId, Lsn, Meter, Millis, Stamp, Step, uncount};

use super::block::Block;
use super::deferred_free::DeferredFree;
use super::disk_refs::DiskRef;
use super::slot::{Gone, MessageState, Slot};
use super::slot_pool::SlotPool;

pub(super) use paging::BlockEviction;

/// Bytes of messages at which a block takes no more, so that it can be evicted and paged in as one
/// piece.
const BLOCK_BYTES: u64 = 512 * 1024;

/// A deque of blocks. Places count from 0 and are never reused.
///
/// ```text
///   first                cursor                    next
///     |                    |                         |
///   [ h.h.....h ] [ ] [ ...rrrrr ] [ rrrrrrr ] [ rrrr      ]
///                  ^ a block in which all are gone keeps no slots
/// ```
#[derive(Debug)]
pub struct Subqueue {
    /// Slots of its blocks, as a power of 2.
    shift: u32,
    /// Place of the first slot of the first block; a multiple of the block size.
    first: u64,
    /// Place of the next message.
    next: u64,
    /// No ready message has a lower place.
    cursor: u64,
    ready: u64,
    evicted: Usage,
    /// Bytes of bare messages that are on disk only though their blocks are in memory, minus the
    /// bytes that messages have in memory besides their bare messages.
    apart_bytes: i64,
    /// Capacity, in slots, that its last block keeps when it is empty.
    slots_kept: usize,
    /// The capacity that it kept when it was emptied last; none if there was no such block since.
    slots_empty: Option<usize>,
    /// The memory of that block; none: it is not charged.
    kept: Option<Charge>,
    blocks: VecDeque<Cell>,
}

/// A number of messages, and the bytes of their bare messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// The number of messages.
    pub messages: u64,
    /// Bytes of their bare messages.
    pub bytes: u64,
}

impl Usage {
    /// Estimated memory of that many messages while they are in memory, in bytes.
    pub const fn memory_bytes(self) -> u64 {
        self.bytes + self.bytes / ALLOCATOR_WASTE_PARTS + self.messages * MESSAGE_OVERHEAD_BYTES
    }

    /// Counts one message more.
    pub fn add(&mut self, size_bytes: u32) {
        self.messages += 1;
        self.bytes += u64::from(size_bytes);
    }

    /// Counts one message less.
    pub fn subtract(&mut self, size_bytes: u32) {
        uncount!(self.messages, 1, "a message that goes was counted");
        uncount!(
            self.bytes,
            u64::from(size_bytes),
            "the bytes of a message that goes were counted"
        );
    }
}

/// A block with the number of its ready messages next to it, so that looking for the next one reads
/// this array only. (Other states are counted in the block.)
#[derive(Debug)]
pub(super) struct Cell {
    block: Option<Box<Block>>,
    ready: u16,
    /// Whether its messages are being read back.
    is_loading: bool,
    /// Whether its messages are being spilled, and none was changed since.
    pub(super) is_spilling: bool,
    /// Whether it is listed as one that can be evicted.
    is_listed: bool,
    /// The LSN of the copy of its messages in a checkpoint; 0: there is none, or a message was
    /// changed since.
    pub(super) copied: Lsn,
}

impl Cell {
    /// Its block, whose messages are about to change: what was spilled or copied of them does not hold
    /// any more.
    #[inline]
    pub(super) fn change(&mut self) -> Option<&mut Block> {
        (self.is_spilling, self.copied) = (false, Lsn(0));
        self.block.as_deref_mut()
    }

    /// Whether there is a message at an index of its block, in that state.
    #[inline]
    pub(super) fn is(&self, at: usize, state: MessageState) -> bool {
        let block = self.block.as_deref();
        block.is_some_and(|block| block.is(at, state))
    }

    const fn empty() -> Self {
        Self {
            block: None,
            ready: 0,
            is_loading: false,
            is_spilling: false,
            is_listed: false,
            copied: Lsn(0),
        }
    }
}

/// The first place of the block behind that of a place. New messages go there while the last block
/// is being read back and its messages are gone: the messages read for it must not meet others in
/// it.
const fn next_block(place: u64, shift: u32) -> u64 {
    ((place >> shift) + 1) << shift
}

/// Whether a block takes no more messages, unless it would be its first.
#[inline]
fn is_closed(block: &Block) -> bool {
    block.is_evicted() || block.weight_bytes() >= BLOCK_BYTES
}

impl Subqueue {
    /// A subqueue without messages, with blocks of `1 << shift` slots, of which the last keeps room for
    /// `slots_kept` when it is empty.
    pub fn new(shift: u32, slots_kept: usize) -> Self {
        Self {
            shift,
            first: 0,
            next: 0,
            cursor: 0,
            ready: 0,
            evicted: Usage::default(),
            apart_bytes: 0,
            slots_kept,
            slots_empty: None,
            kept: None,
            blocks: VecDeque::new(),
        }
    }

    /// Charges what its last block keeps when it is empty; to be called while there is none.
    pub fn charge(&mut self, gauge: &Gauge) {
        self.kept = Some(gauge.charge(0));
    }

    /// Notes what its last block keeps, which is empty now, or that there is none.
    #[cold]
    #[inline(never)]
    fn note_empty(&mut self, slots: Option<usize>) {
        self.slots_empty = slots;
        if let Some(kept) = &mut self.kept {
            kept.set(slots.map_or(0, |slots| Block::empty_bytes(slots) as u64));
        }
    }

    /// The block at an offset from the first place, and the index in it.
    #[inline]
    fn split(&self, offset: u64) -> (usize, usize) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        (offset >> self.shift, offset & ((1 << self.shift) - 1))
    }

    /// The first place of the block of a place.
    #[inline]
    const fn block_of(&self, place: u64) -> u64 {
        place >> self.shift << self.shift
    }

    /// If a place is the first of its block, a place in the block before.
    #[inline]
    pub fn block_before(&self, place: u64) -> Option<u64> {
        (self.block_of(place) == place && place > 0).then(|| self.block_of(place - 1))
    }

    /// Number of ready messages.
    pub fn ready(&self) -> u64 {
        self.ready
    }

    /// The place that the next message will have.
    pub fn next_place(&self) -> u64 {
        self.next
    }

    /// The place of a new message: behind all others, in a block that takes more.
    fn new_place(&self) -> u64 {
        let Some(offset) = self.next.checked_sub(self.first) else {
            return self.next;
        };
        let (cell, at) = self.split(offset);
        let block = self.blocks.get(cell).and_then(|entry| entry.block.as_ref());
        if block.is_some_and(|block| is_closed(block)) && at > 0 {
            next_block(self.next, self.shift)
        } else {
            self.next
        }
    }

    /// Adds a message at the end; returns its place.
    #[inline]
    pub fn push(&mut self, slot: Slot, state: MessageState, slot_pool: &mut SlotPool) -> u64 {
        let place = self.next;
        let (cell, at) = self.split(place.wrapping_sub(self.first));
        if let Some(entry) = self.blocks.get_mut(cell)
            && let Some(block) = entry.block.as_deref_mut()
            && !is_closed(block)
        {
            self.next = place + 1;
            self.apart_bytes += block.put(at, slot, state, slot_pool);
            entry.copied = Lsn(0);
            if state == MessageState::Ready {
                entry.ready += 1;
                self.count_ready(place);
            }
            return place; // as a rule
        }
        self.push_into_next(slot, state, slot_pool)
    }

    /// The same where the last block takes no more, or there is none.
    #[cold]
    #[inline(never)]
    fn push_into_next(&mut self, slot: Slot, state: MessageState, slot_pool: &mut SlotPool) -> u64 {
        let place = self.new_place();
        let (cell, at) = self.make_place(place, state);
        let Some(entry) = self.blocks.get_mut(cell) else {
            unreachable!("the place was just made");
        };
        let block = entry.block.get_or_insert_with(|| Box::new(Block::new()));
        self.apart_bytes += block.put(at, slot, state, slot_pool);
        place
    }

    /// Counts a ready message at the end.
    #[inline]
    fn count_ready(&mut self, place: u64) {
        self.ready += 1;
        if self.ready == 1 {
            self.cursor = place;
        }
    }

    /// Puts an evicted message at or behind the end, in a block of such messages.
    pub fn place_disk_ref(&mut self, place: u64, disk_ref: DiskRef, state: MessageState) {
        self.evicted.messages += 1;
        self.evicted.bytes += u64::from(disk_ref.size_bytes);
        let (cell, at) = self.make_place(place, state);
        if let Some(cell) = self.blocks.get_mut(cell) {
            let block = cell
                .block
                .get_or_insert_with(|| Box::new(Block::new_evicted()));
            block.put_disk_ref(at, disk_ref, state);
        }
    }

    /// Makes a cell for a place and counts the message for it; returns the index of the cell, and that in the
    /// block.
    fn make_place(&mut self, place: u64, state: MessageState) -> (usize, usize) {
        assert!(place >= self.next, "a place is given out once");
        if self.blocks.is_empty() {
            self.first = self.block_of(place);
        }
        let (cell, at) = self.split(place - self.first);
        while self.blocks.len() <= cell {
            self.blocks.push_back(Cell::empty());
        }
        if let Some(entry) = self.blocks.get_mut(cell) {
            entry.copied = Lsn(0);
            if state == MessageState::Ready {
                entry.ready += 1;
                self.count_ready(place);
            }
        }
        self.next = place + 1;
        (cell, at)
    }

    /// The cell of a place, and the index in its block.
    #[inline]
    pub(super) fn cell(&self, place: u64) -> Option<(&Cell, usize)> {
        let (cell, at) = self.split(place.checked_sub(self.first)?);
        Some((self.blocks.get(cell)?, at))
    }

    /// The same, to change the block.
    #[inline]
    pub(super) fn cell_mut(&mut self, place: u64) -> Option<(&mut Cell, usize)> {
        let (cell, at) = self.split(place.checked_sub(self.first)?);
        Some((self.blocks.get_mut(cell)?, at))
    }

    /// The block of a place, and the index in it.
    #[inline]
    pub(super) fn block(&self, place: u64) -> Option<(&Block, usize)> {
        let (cell, at) = self.cell(place)?;
        Some((cell.block.as_deref()?, at))
    }

    /// Number and bytes of the evicted messages.
    pub const fn evicted(&self) -> Usage {
        self.evicted
    }

    /// Bytes of bare messages that are on disk only though their blocks are in memory; see the
    /// field.
    pub const fn apart_bytes(&self) -> i64 {
        self.apart_bytes
    }

    /// Changes the state of a message; returns its size in bytes, none if it was not in the first
    /// state.
    pub fn turn(&mut self, place: u64, from: MessageState, to: MessageState) -> Option<u32> {
        let (cell, at) = self.cell_mut(place)?;
        let block = cell.block.as_mut()?;
        if !block.turn(at, from, to) {
            return None;
        }
        cell.ready = block.count(MessageState::Ready);
        let size_bytes = block.size_bytes(at);
        if from == MessageState::Ready {
            self.ready -= 1;
        }
        if to == MessageState::Ready {
            self.ready += 1;
            self.cursor = self.cursor.min(place);
        }
        Some(size_bytes)
    }

    /// Assigns a ready message to a holder; returns its size in bytes, none if it is not ready or
    /// not in memory, or not wanted.
    #[inline]
    pub fn acquire(
        &mut self,
        place: u64,
        (holder, since): (HolderId, Stamp),
        is_wanted: impl FnOnce(&Slot) -> bool,
    ) -> Option<u32> {
        let (cell, at) = self.cell_mut(place)?;
        let block = cell.block.as_deref_mut()?;
        let size_bytes = block.acquire(at, (holder, since), is_wanted)?;
        cell.change();
        cell.ready -= 1;
        self.ready -= 1;
        if place == self.cursor {
            self.cursor += 1;
        }
        Some(size_bytes)
    }

    /// Takes a message out; none if it was not in that state, or is in memory and not wanted. Empty
    /// blocks are freed.
    #[inline]
    pub fn take(
        &mut self,
        place: u64,
        from: MessageState,
        slot_pool: &mut SlotPool,
        is_wanted: impl FnOnce(&Slot) -> bool,
    ) -> Option<Gone> {
        let (cell, at) = self.split(place.checked_sub(self.first)?);
        // Whether the next message goes into this block.
        let mut is_last = cell == self.split(self.next.saturating_sub(self.first)).0;
        let entry = self.blocks.get_mut(cell)?;
        let block = entry.block.as_mut()?;
        let gone = block.take(at, from, is_wanted)?;
        entry.copied = Lsn(0);
        entry.ready = block.count(MessageState::Ready);
        if from == MessageState::Ready {
            self.ready -= 1;
        }
        if block.is_evicted() {
            uncount!(self.evicted.messages, 1, "a message on disk was counted");
            uncount!(
                self.evicted.bytes,
                u64::from(gone.size_bytes),
                "bytes on disk were counted"
            );
            if is_last && entry.is_loading && block.live() == 0 {
                self.next = next_block(self.next, self.shift);
                is_last = false;
            }
        } else {
            self.apart_bytes -= gone.apart_bytes();
        }
        if block.live() == 0 {
            if is_last {
                let slots = Some(block.reset(slot_pool, self.slots_kept));
                if slots != self.slots_empty {
                    self.note_empty(slots);
                }
            } else if let Some(block) = entry.block.take() {
                block.end(slot_pool);
                self.trim();
                if self.blocks.is_empty() && self.slots_empty.is_some() {
                    self.note_empty(None);
                }
            }
        }
        Some(gone)
    }

    /// The oldest ready message.
    #[inline]
    pub fn first_ready(&mut self) -> Option<u64> {
        if self.ready == 0 {
            return None;
        }
        let first = self.cell(self.cursor);
        if first.is_some_and(|(cell, at)| cell.is(at, MessageState::Ready)) {
            return Some(self.cursor); // as a rule
        }
        self.find_first_ready()
    }

    /// Looks for it behind the place where it was before.
    #[inline(never)]
    fn find_first_ready(&mut self) -> Option<u64> {
        let place = self.find(MessageState::Ready, self.cursor)?;
        self.cursor = place;
        Some(place)
    }

    /// The oldest ready message, and when it arrived.
    pub fn oldest(&mut self) -> Option<(u64, Millis)> {
        let place = self.first_ready()?;
        let (block, at) = self.block(place)?;
        Some((place, block.arrived(at)?))
    }

    /// When the first message arrived, whatever its state. Only blocks in front of it are passed: a
    /// search for one state would pass all blocks where no message has that state.
    pub fn oldest_of_any(&self) -> Option<Millis> {
        let states = [
            MessageState::Ready,
            MessageState::Held,
            MessageState::Dying,
            MessageState::Delayed,
        ];
        self.blocks.iter().find_map(|entry| {
            let block = entry.block.as_ref()?;
            let has = |state: &MessageState| *state != MessageState::Ready || entry.ready > 0;
            let places = states.into_iter().filter(has);
            let first = places.filter_map(|state| block.next(state, 0)).min()?;
            block.arrived(first)
        })
    }

    /// The messages in one of two states, in order: places, with their blocks.
    pub(super) fn places_in(
        &self,
        states: [MessageState; 2],
    ) -> impl Iterator<Item = (u64, &Block, usize)> {
        let blocks = self.blocks.iter().enumerate();
        let blocks = blocks.filter_map(|(cell, entry)| Some((cell, entry.block.as_ref()?)));
        blocks.flat_map(move |(cell, block)| {
            let first = self.first + (cell << self.shift) as u64;
            let places = block.places_in(states);
            places.map(move |at| (first + at as u64, &**block, at))
        })
    }

    /// The first message in a state at or behind a place.
    pub fn find(&self, state: MessageState, from: u64) -> Option<u64> {
        self.find_while(state, from, || true).ok().flatten()
    }

    /// The same, looking at as many blocks as are left at most.
    ///
    /// Errors: the place at which it goes on.
    pub fn find_among(
        &self,
        state: MessageState,
        from: u64,
        blocks_left: &mut usize,
    ) -> Result<Option<u64>, u64> {
        self.find_while(state, from, || {
            let left = blocks_left.checked_sub(1);
            *blocks_left = left.unwrap_or_default();
            left.is_some()
        })
    }

    #[inline]
    fn find_while(
        &self,
        state: MessageState,
        from: u64,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Option<u64>, u64> {
        let from = from.max(self.first);
        let (mut cell, mut at) = self.split(from - self.first);
        while let Some(entry) = self.blocks.get(cell) {
            if !goes_on() {
                return Err(self.first + ((cell << self.shift) + at) as u64);
            }
            if (state != MessageState::Ready || entry.ready > 0)
                && let Some(block) = &entry.block
                && block.count(state) > 0
                && let Some(found) = block.next(state, at)
            {
                return Ok(Some(self.first + ((cell << self.shift) + found) as u64));
            }
            cell += 1;
            at = 0;
        }
        Ok(None)
    }

    /// The first held message at or behind a place, looked for in so many blocks; without one,
    /// where to go on, if there is more.
    pub fn find_held(&self, from: u64, blocks: &mut usize) -> Result<u64, Option<u64>> {
        let from = from.max(self.first);
        let (mut cell, mut at) = self.split(from - self.first);
        while let Some(entry) = self.blocks.get(cell) {
            let first = self.first + (cell << self.shift) as u64;
            if *blocks == 0 {
                return Err(Some(first + at as u64));
            }
            *blocks -= 1;
            if let Some(block) = &entry.block
                && block.count(MessageState::Held) > 0
                && let Some(found) = block.next(MessageState::Held, at)
            {
                return Ok(first + found as u64);
            }
            (cell, at) = (cell + 1, 0);
        }
        Err(None)
    }

    /// Number of ready messages before a place.
    pub fn ready_before(&self, place: u64, meter: &mut Meter) -> u64 {
        let (last, at) = self.split(place.saturating_sub(self.first));
        let cells = self.blocks.iter().take(last);
        meter.charge(Step::Pair, last);
        let before: u64 = cells.map(|cell| u64::from(cell.ready)).sum();
        let block = self.blocks.get(last).and_then(|cell| cell.block.as_ref());
        before + block.map_or(0, |block| block.count_before(MessageState::Ready, at))
    }

    /// The first message at or behind a place, and its state.
    pub fn next_live(&self, from: u64) -> Option<(u64, MessageState)> {
        let from = from.max(self.first);
        let (mut cell, mut at) = self.split(from - self.first);
        while let Some(entry) = self.blocks.get(cell) {
            if let Some(block) = &entry.block
                && let Some((found, state)) = block.next_live(at)
            {
                let place = self.first + ((cell << self.shift) + found) as u64;
                return Some((place, state));
            }
            cell += 1;
            at = 0;
        }
        None
    }

    /// Removes all ready messages at once. Blocks without other messages are handed over, to be
    /// freed later. Those that wait for their time are removed with them.
    pub fn purge(&mut self, deferred_free: &mut DeferredFree) {
        const PURGED: [MessageState; 2] = [MessageState::Ready, MessageState::Delayed];
        for entry in &mut self.blocks {
            let Some(block) = entry.block.as_mut() else {
                continue;
            };
            let purged = PURGED.iter().map(|state| block.count(*state)).sum::<u16>();
            if purged == 0 {
                continue;
            }
            (entry.ready, entry.copied) = (0, Lsn(0));
            let before = (u64::from(block.live()), block.bytes());
            let apart_before = block.apart_bytes();
            let (mut after, mut apart_after) = ((0, 0), 0);
            let is_evicted = block.is_evicted();
            if block.live() > purged {
                for state in PURGED {
                    while let Some(gone) = block.take_any(state) {
                        gone.names().for_each(|name| deferred_free.name(name));
                    }
                }
                after = (u64::from(block.live()), block.bytes());
                apart_after = block.apart_bytes();
            } else {
                for state in PURGED {
                    block.forget(state);
                }
                if let Some(block) = entry.block.take() {
                    deferred_free.block(block);
                }
            }
            uncount!(
                self.apart_bytes,
                apart_before - apart_after,
                "bytes beside a block were counted"
            );
            if is_evicted {
                uncount!(
                    self.evicted.messages,
                    before.0 - after.0,
                    "messages on disk were counted"
                );
                uncount!(
                    self.evicted.bytes,
                    before.1 - after.1,
                    "bytes on disk were counted"
                );
            }
        }
        if self
            .cell(self.next)
            .is_some_and(|(tail, _)| tail.is_loading)
        {
            self.next = next_block(self.next, self.shift);
        }
        self.ready = 0;
        self.cursor = self.next;
        self.trim();
        if self.blocks.is_empty() {
            self.note_empty(None);
        }
    }

    /// Hands all blocks over, to be freed later.
    pub fn scrap(&mut self, deferred_free: &mut DeferredFree) {
        for entry in self.blocks.drain(..) {
            if let Some(block) = entry.block {
                deferred_free.block(block);
            }
        }
        self.ready = 0;
        self.evicted = Usage::default();
        self.apart_bytes = 0;
        self.cursor = self.next;
    }

    fn trim(&mut self) {
        while self
            .blocks
            .front()
            .is_some_and(|entry| entry.block.is_none())
        {
            self.blocks.pop_front();
            self.first += 1 << self.shift;
        }
    }
}
