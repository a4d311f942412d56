//! A block of 512 slots, with one bitset for each state.

use std::sync::Arc;

#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{HolderId, Lsn, Millis, Stamp, invariant};
use crate::message::{Message, Route};

use super::disk_refs::{DiskRef, DiskRefs};
use super::slot::{Gone, MessageState, Slot, names};
use super::slot_pool::SlotPool;

/// Slots of one block, as a power of 2.
pub const BLOCK_SHIFT_MAX: u32 = 9;
/// Slots of one block at most.
pub const BLOCK_SLOTS: usize = 1 << BLOCK_SHIFT_MAX;
const WORDS: usize = BLOCK_SLOTS / 64;
const STATES: usize = 4;
/// Capacity, in slots, that an empty block keeps.
pub(super) const SLOTS_KEPT: usize = 64;
/// The same of each of many priorities: together they would keep more than a megabyte.
pub(super) const SLOTS_KEPT_OF_MANY: usize = 4;
/// Memory of such an empty block, in bytes.
pub(super) const EMPTY_OF_MANY_BYTES: usize = Block::empty_bytes(SLOTS_KEPT_OF_MANY);

/// Where the messages of a block are.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "most blocks are on disk; one in memory has kilobytes of slots besides"
)]
enum Slots {
    /// In memory, with a slot for each index; none: the message is gone.
    Resident(Vec<Option<Slot>>),
    /// On disk. None of them is held by a consumer.
    Evicted(DiskRefs),
}

/// A block of 512 slots. A message keeps its slot for life, so every change of state flips two
/// bits.
#[derive(Debug)]
pub(super) struct Block {
    /// Index of the first slot: an emptied block begins again behind the slots that are gone, so
    /// that a queue whose messages pass straight through stays small.
    base: usize,
    slots: Slots,
    /// Bytes of the bare messages in it.
    bytes: u64,
    /// Of `bytes`, those on disk only (streamed bodies) while the block is in memory, minus the
    /// bytes that its messages have in memory besides their bare messages.
    apart_bytes: i64,
    bits: [[u64; WORDS]; STATES],
    counts: [u16; STATES],
}

impl Block {
    pub(super) fn new() -> Self {
        Self::with(Slots::Resident(Vec::new()))
    }

    /// A block whose messages are on disk.
    pub(super) fn new_evicted() -> Self {
        Self::with(Slots::Evicted(DiskRefs::new(Lsn(0), 0)))
    }

    fn with(slots: Slots) -> Self {
        Self {
            base: 0,
            slots,
            bytes: 0,
            apart_bytes: 0,
            bits: [[0; WORDS]; STATES],
            counts: [0; STATES],
        }
    }

    #[inline]
    pub(super) fn count(&self, state: MessageState) -> u16 {
        self.counts.get(state as usize).copied().unwrap_or(0)
    }

    /// The slots with a message in one of two states, in order.
    pub(super) fn places_in(&self, states: [MessageState; 2]) -> impl Iterator<Item = usize> {
        let has_any = states.iter().any(|state| self.count(*state) > 0);
        let words = 0..if has_any { WORDS } else { 0 };
        words.flat_map(move |word| {
            let bits = states
                .iter()
                .filter_map(|state| self.bits.get(*state as usize));
            let mut set = bits
                .filter_map(|bits| bits.get(word))
                .fold(0, |all, bits| all | bits);
            std::iter::from_fn(move || {
                let next = (set != 0).then(|| word * 64 + set.trailing_zeros() as usize)?;
                set &= set - 1;
                Some(next)
            })
        })
    }

    /// Number of slots with a message.
    #[inline]
    pub(super) fn live(&self) -> u16 {
        self.counts.iter().sum()
    }

    /// Bytes of the bare messages in it.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of bare messages that are on disk only while the block is in memory, minus the bytes
    /// that its messages have in memory besides their bare messages.
    pub(super) const fn apart_bytes(&self) -> i64 {
        self.apart_bytes
    }

    /// Bytes to read or write when the block is moved: its messages with their annotations.
    pub(super) const fn weight_bytes(&self) -> u64 {
        let beside_bytes = if self.apart_bytes < 0 {
            self.apart_bytes.unsigned_abs()
        } else {
            0
        };
        self.bytes.saturating_add(beside_bytes)
    }

    /// Whether its messages are on disk.
    pub(super) const fn is_evicted(&self) -> bool {
        matches!(self.slots, Slots::Evicted(_))
    }

    #[inline]
    pub(super) fn slot(&self, at: usize) -> Option<&Slot> {
        let Slots::Resident(slots) = &self.slots else {
            return None;
        };
        slots.get(at.checked_sub(self.base)?)?.as_ref()
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, at: usize) -> Option<&mut Slot> {
        let Slots::Resident(slots) = &mut self.slots else {
            return None;
        };
        slots.get_mut(at.checked_sub(self.base)?)?.as_mut()
    }

    /// The disk ref of a message, also while it is in memory.
    pub(super) fn disk_ref(&self, at: usize) -> Option<DiskRef> {
        match &self.slots {
            Slots::Resident(_) => self.slot(at).map(|slot| slot.disk_ref(slot.envelope)),
            Slots::Evicted(disk_refs) => disk_refs.get(at.checked_sub(self.base)?),
        }
    }

    /// Changes the disk ref of an evicted message; false if it is not evicted.
    pub(super) fn change(&mut self, at: usize, change: impl FnOnce(&mut DiskRef)) -> bool {
        let Slots::Evicted(disk_refs) = &mut self.slots else {
            return false;
        };
        let index = at.checked_sub(self.base);
        let Some((index, mut disk_ref)) =
            index.and_then(|index| Some((index, disk_refs.get(index)?)))
        else {
            return false;
        };
        change(&mut disk_ref);
        disk_refs.put(index, disk_ref);
        true
    }

    /// Bytes of the bare message in a slot; 0 if the slot is empty.
    pub(super) fn size_bytes(&self, at: usize) -> u32 {
        match &self.slots {
            Slots::Resident(_) => self.slot(at).map_or(0, |slot| slot.size_bytes),
            Slots::Evicted(_) => self.disk_ref(at).map_or(0, |disk_ref| disk_ref.size_bytes),
        }
    }

    /// When the message in a slot arrived.
    pub(super) fn arrived(&self, at: usize) -> Option<Millis> {
        match &self.slots {
            Slots::Resident(_) => self.slot(at).map(|slot| slot.arrived),
            Slots::Evicted(_) => self.disk_ref(at).map(|disk_ref| disk_ref.arrived),
        }
    }

    /// Puts a message into a slot at or behind all others of this block; returns the bytes of its
    /// bare message that are on disk only, minus those it has in memory besides it.
    #[inline]
    pub(super) fn put(
        &mut self,
        at: usize,
        slot: Slot,
        state: MessageState,
        slot_pool: &mut SlotPool,
    ) -> i64 {
        let Slots::Resident(slots) = &mut self.slots else {
            unreachable!("a block that takes new messages is in memory");
        };
        if slots.is_empty() {
            self.base = at;
        }
        let end = self.base + slots.len();
        assert!(
            at < BLOCK_SLOTS && at >= end,
            "places are given out once, in order"
        );
        for _ in end..at {
            slots.push(None);
        }
        self.bytes += u64::from(slot.size_bytes);
        let apart_bytes = slot.apart_bytes();
        self.apart_bytes += apart_bytes;
        if slots.len() == slots.capacity() && slots.len() >= SLOTS_KEPT {
            slot_pool.enlarge(slots);
        }
        slots.push(Some(slot));
        self.raise(at, state);
        apart_bytes
    }

    /// Puts the disk ref of an evicted message into a slot behind all others of this block.
    pub(super) fn put_disk_ref(&mut self, at: usize, disk_ref: DiskRef, state: MessageState) {
        if !self.is_evicted() && self.live() == 0 {
            self.slots = Slots::Evicted(DiskRefs::default());
        }
        let Slots::Evicted(disk_refs) = &mut self.slots else {
            unreachable!("a block that is restored is on disk");
        };
        if disk_refs.len() == 0 {
            self.base = at;
        }
        self.bytes += u64::from(disk_ref.size_bytes);
        let Some(index) = at.checked_sub(self.base) else {
            invariant!(fatal, "a message that is restored is behind the others");
        };
        disk_refs.put(index, disk_ref);
        self.raise(at, state);
    }

    #[inline]
    pub(super) fn is(&self, at: usize, state: MessageState) -> bool {
        self.word(state, at / 64) & bit(at) != 0
    }

    /// Changes the state of a slot; false if it was not in the first state.
    #[inline]
    pub(super) fn turn(&mut self, at: usize, from: MessageState, to: MessageState) -> bool {
        let was = self.lower(at, from);
        if was {
            self.raise(at, to);
        }
        was
    }

    /// Assigns a ready message to a holder; returns its size in bytes, none if it is not ready or
    /// not in memory, or not wanted.
    #[inline]
    pub(super) fn acquire(
        &mut self,
        at: usize,
        (holder, since): (HolderId, Stamp),
        is_wanted: impl FnOnce(&Slot) -> bool,
    ) -> Option<u32> {
        if !self.is(at, MessageState::Ready) {
            return None;
        }
        let slot = self.slot_mut(at).filter(|slot| is_wanted(slot))?;
        (slot.holder, slot.held_since) = (holder, since);
        let size_bytes = slot.size_bytes;
        self.turn(at, MessageState::Ready, MessageState::Held);
        Some(size_bytes)
    }

    /// Takes a message out; none if it was not in that state, or is in memory and not wanted.
    #[inline]
    pub(super) fn take(
        &mut self,
        at: usize,
        from: MessageState,
        is_wanted: impl FnOnce(&Slot) -> bool,
    ) -> Option<Gone> {
        if !self.is(at, from) {
            return None;
        }
        let index = at.checked_sub(self.base)?;
        let gone = match &mut self.slots {
            Slots::Resident(slots) => {
                let place = slots.get_mut(index);
                let Some(place) = place.filter(|place| place.is_some()) else {
                    invariant!(fatal, "a message that has a state is in its block");
                };
                let slot = place.as_ref().filter(|slot| is_wanted(slot))?;
                let gone = Gone {
                    envelope: slot.envelope,
                    body: slot.body,
                    durable: slot.durable,
                    size_bytes: slot.size_bytes,
                    resident_bytes: slot.resident_bytes(),
                    was_resident: true,
                    moved_by: slot.moved_by,
                    deadline: slot.deadline,
                };
                self.apart_bytes -= gone.apart_bytes();
                *place = None;
                gone
            }
            Slots::Evicted(disk_refs) => {
                let Some(disk_ref) = disk_refs.take(index) else {
                    invariant!(fatal, "a message on disk that has a state has a disk ref");
                };
                Gone {
                    envelope: disk_ref.envelope,
                    body: disk_ref.body,
                    durable: disk_ref.durable,
                    size_bytes: disk_ref.size_bytes,
                    resident_bytes: 0,
                    was_resident: false,
                    moved_by: learner(&disk_ref),
                    deadline: disk_ref.deadline,
                }
            }
        };
        self.lower(at, from);
        self.bytes -= u64::from(gone.size_bytes);
        Some(gone)
    }

    /// Empties the block for reuse, once all its messages are gone; it keeps room for `slots_kept` at most.
    /// Returns for how many.
    #[inline]
    pub(super) fn reset(&mut self, slot_pool: &mut SlotPool, slots_kept: usize) -> usize {
        match &mut self.slots {
            Slots::Resident(slots) if slots.capacity() <= slots_kept => {
                slots.clear();
                return slots.capacity(); // as a rule
            }
            Slots::Resident(slots) => slot_pool.keep(std::mem::take(slots)),
            // The evicted messages are gone, so nothing refers to the disk any more.
            Slots::Evicted(_) => self.slots = Slots::Resident(Vec::new()),
        }
        0
    }

    /// Memory of an empty block with room for so many messages, in bytes.
    pub(super) const fn empty_bytes(slots: usize) -> usize {
        size_of::<Self>() + slots * size_of::<Option<Slot>>()
    }

    /// Releases the slots of a block whose messages are all gone.
    pub(super) fn end(mut self, slot_pool: &mut SlotPool) {
        self.reset(slot_pool, 0);
    }

    /// The indexes of all slots with a message.
    fn places(&self) -> impl Iterator<Item = usize> {
        let end = match &self.slots {
            Slots::Resident(slots) => slots.len(),
            Slots::Evicted(disk_refs) => disk_refs.len(),
        };
        self.base..self.base + end
    }

    /// Its messages with their slots' indexes.
    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.places()
            .filter_map(|at| self.slot(at).map(|slot| (at, slot)))
    }

    /// The disk refs of its messages, with their slots' indexes.
    pub(super) fn disk_refs(&self) -> impl Iterator<Item = (usize, DiskRef)> {
        self.places()
            .filter_map(|at| self.disk_ref(at).map(|disk_ref| (at, disk_ref)))
    }

    /// The evicted form of the block: durable messages refer to their records, the others to the
    /// piece `spilled`.
    pub(super) fn evict(&self, spilled: Lsn) -> Self {
        let mut disk_refs = DiskRefs::new(spilled, self.places().count());
        let mut count = 0;
        for (at, slot) in self.slots() {
            let envelope = if slot.durable { slot.envelope } else { spilled };
            disk_refs.put(at - self.base, slot.disk_ref(envelope));
            count += 1;
        }
        if count != self.live() {
            invariant!(fatal, "a block is evicted with all of its messages");
        }
        Self {
            base: self.base,
            slots: Slots::Evicted(disk_refs),
            bytes: self.bytes,
            apart_bytes: 0,
            bits: self.bits,
            counts: self.counts,
        }
    }

    /// Takes its messages back into memory. Each that is still in the block must be among them.
    pub(super) fn page_in(&mut self, messages: Vec<(usize, Arc<Message>, Arc<Route>)>) {
        let Slots::Evicted(disk_refs) = &self.slots else {
            return invariant!(broken, "a block that is paged in is on disk");
        };
        let mut slots = Vec::new();
        slots.resize_with(disk_refs.len(), || None);
        let (mut apart_bytes, mut count) = (0, 0);
        for (at, message, route) in messages {
            let Some(index) = at.checked_sub(self.base) else {
                invariant!(fatal, "a message that is paged in was in its block");
            };
            let (Some(disk_ref), Some(place)) = (disk_refs.get(index), slots.get_mut(index)) else {
                continue; // gone meanwhile
            };
            let slot = Slot {
                message,
                route,
                arrived: disk_ref.arrived,
                deadline: disk_ref.deadline,
                envelope: if disk_ref.durable {
                    disk_ref.envelope
                } else {
                    Lsn(0)
                },
                body: disk_ref.body,
                holder: HolderId::default(),
                held_since: Stamp::default(),
                size_bytes: disk_ref.size_bytes,
                failures: disk_ref.failures,
                acquired: disk_ref.acquired,
                durable: disk_ref.durable,
                moved_by: disk_ref.moved_by,
            };
            apart_bytes += slot.apart_bytes();
            *place = Some(slot);
            count += 1;
        }
        if count != self.live() {
            invariant!(fatal, "a block is paged in with all of its messages");
        }
        self.apart_bytes = apart_bytes;
        self.slots = Slots::Resident(slots);
    }

    /// Removes all messages in a state at once; their memory is freed with the block.
    pub(super) fn forget(&mut self, state: MessageState) {
        if let Some(words) = self.bits.get_mut(state as usize) {
            *words = [0; WORDS];
        }
        if let Some(count) = self.counts.get_mut(state as usize) {
            *count = 0;
        }
    }

    /// The LSNs that its messages refer to, removed ones included.
    pub(super) fn names(&self) -> impl Iterator<Item = Lsn> {
        self.disk_refs()
            .flat_map(|(_, disk_ref)| names(disk_ref.envelope, disk_ref.body))
    }

    /// Takes one message in a state out, to free it here.
    pub(super) fn take_any(&mut self, state: MessageState) -> Option<Gone> {
        let at = self.next(state, 0)?;
        self.take(at, state, |_| true)
    }

    /// The first slot in a state at or behind an index.
    pub(super) fn next(&self, state: MessageState, from: usize) -> Option<usize> {
        let mut index = from / 64;
        let mut word = self.word(state, index) & (u64::MAX << (from % 64));
        while index < WORDS {
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
            index += 1;
            word = self.word(state, index);
        }
        None
    }

    /// Number of slots in a state before an index.
    pub(super) fn count_before(&self, state: MessageState, at: usize) -> u64 {
        let words = (0..at.div_ceil(64)).map(|index| {
            let left = at - index * 64;
            let mask = if left < 64 { bit(left) - 1 } else { u64::MAX };
            (self.word(state, index) & mask).count_ones()
        });
        words.map(u64::from).sum()
    }

    /// The first slot with a message at or behind an index, and its state.
    pub(super) fn next_live(&self, from: usize) -> Option<(usize, MessageState)> {
        let next = |state| Some((self.next(state, from)?, state));
        let found = MessageState::ALL.into_iter().filter_map(next);
        found.min_by_key(|(at, _)| *at)
    }

    #[inline]
    fn word(&self, state: MessageState, index: usize) -> u64 {
        self.bits
            .get(state as usize)
            .and_then(|words| words.get(index))
            .copied()
            .unwrap_or(0)
    }

    #[inline]
    fn raise(&mut self, at: usize, state: MessageState) {
        if let Some(word) = self
            .bits
            .get_mut(state as usize)
            .and_then(|w| w.get_mut(at / 64))
        {
            *word |= bit(at);
        }
        if let Some(count) = self.counts.get_mut(state as usize) {
            *count += 1;
        }
    }

    #[inline]
    fn lower(&mut self, at: usize, state: MessageState) -> bool {
        let Some(word) = self
            .bits
            .get_mut(state as usize)
            .and_then(|w| w.get_mut(at / 64))
        else {
            return false;
        };
        if *word & bit(at) == 0 {
            return false;
        }
        *word &= !bit(at);
        if let Some(count) = self.counts.get_mut(state as usize) {
            *count -= 1;
        }
        true
    }
}

/// The redrive that learns of a message on disk; 0: none.
fn learner(disk_ref: &DiskRef) -> u32 {
    #[cfg(test)]
    if is_planted(Plant::OnDiskNotLearned) {
        return 0;
    }
    disk_ref.moved_by
}

fn bit(at: usize) -> u64 {
    1 << (at % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of 255 priorities kept room for 64 messages.
    #[test]
    fn an_empty_block_of_many_keeps_room_for_few_messages() {
        let mut pool = SlotPool::default();
        for (kept, expect) in [(SLOTS_KEPT, SLOTS_KEPT), (SLOTS_KEPT_OF_MANY, 0)] {
            let mut block = Block::with(Slots::Resident(Vec::with_capacity(SLOTS_KEPT)));
            assert_eq!(block.reset(&mut pool, kept), expect);
            let Slots::Resident(slots) = &block.slots else {
                panic!("it is in memory")
            };
            assert_eq!(slots.capacity(), expect);
        }
    }
}
