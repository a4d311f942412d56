//! Eviction and paging-in of a subqueue's blocks, and the LSNs of their copies in a checkpoint.

use std::sync::Arc;

use super::{Cell, Subqueue};
use crate::base::{Lsn, invariant, uncount};
use crate::broker::queue::block::Block;
use crate::broker::queue::deferred_free::Garbage;
use crate::broker::queue::disk_refs::DiskRef;
use crate::broker::queue::slot::{MessageState, Slot};
use crate::message::{Message, Route};

/// The result of trying to evict a block.
#[derive(Debug)]
pub(in crate::broker::queue) enum BlockEviction {
    /// The block does not exist any more, or is on disk already.
    Gone,
    /// It cannot be evicted now: it is needed soon, or a message in it is held, or not on disk yet.
    NotNow,
    /// It was evicted; its memory is to be freed.
    Evicted(Garbage),
    /// Its transient messages must be spilled first.
    Spill,
}

impl Subqueue {
    /// Marks evicted blocks as being read back: of the next `count` blocks from the oldest ready
    /// message on, those that are not being read yet. Returns the first place of each.
    pub fn begin_loads(&mut self, count: usize) -> Vec<u64> {
        if self.evicted.messages == 0 {
            return Vec::new();
        }
        let Some(head) = self.first_ready() else {
            return Vec::new();
        };
        let (first, _) = self.split(head - self.first);
        (first..first + count)
            .filter_map(|cell| self.begin_load(self.first + ((cell as u64) << self.shift)))
            .collect()
    }

    /// Marks the block of a place as being read back; returns its first place, unless it was marked
    /// already or is in memory.
    pub fn begin_load(&mut self, place: u64) -> Option<u64> {
        let (entry, _) = self.cell_mut(place)?;
        let is_evicted = entry.block.as_ref().is_some_and(|block| block.is_evicted());
        (is_evicted && !std::mem::replace(&mut entry.is_loading, true))
            .then_some(self.block_of(place))
    }

    /// The disk refs of the messages of a block, by place.
    pub fn disk_refs(&self, place: u64) -> impl Iterator<Item = (u64, DiskRef)> {
        let first = self.block_of(place);
        let block = self.block(place).map(|(block, _)| block);
        let disk_refs = block.into_iter().flat_map(Block::disk_refs);
        disk_refs.map(move |(at, disk_ref)| (first + at as u64, disk_ref))
    }

    /// The messages of a block that is in memory, by place.
    pub fn slots(&self, place: u64) -> impl Iterator<Item = (u64, &Slot)> {
        let first = self.block_of(place);
        let block = self.block(place).map(|(block, _)| block);
        let slots = block.into_iter().flat_map(Block::slots);
        slots.map(move |(at, slot)| (first + at as u64, slot))
    }

    /// Takes the messages of a block back into memory: all that are still in it.
    pub fn page_in(&mut self, place: u64, messages: Vec<(u64, Arc<Message>, Arc<Route>)>) {
        let first = self.block_of(place);
        let Some((entry, _)) = self.cell_mut(place) else {
            return;
        };
        entry.is_loading = false;
        let Some(block) = entry.block.as_mut().filter(|block| block.is_evicted()) else {
            return;
        };
        let (messages_back, bytes) = (u64::from(block.live()), block.bytes());
        let at = |place: u64| {
            let Some(at) = place.checked_sub(first) else {
                invariant!(fatal, "a message that is paged in is of its block");
            };
            usize::try_from(at).unwrap_or(usize::MAX)
        };
        let messages = messages.into_iter();
        let messages = messages.map(|(place, message, route)| (at(place), message, route));
        block.page_in(messages.collect());
        let apart_bytes = block.apart_bytes();
        self.apart_bytes += apart_bytes;
        uncount!(
            self.evicted.messages,
            messages_back,
            "messages on disk were counted"
        );
        uncount!(self.evicted.bytes, bytes, "bytes on disk were counted");
    }

    /// Evicts a block, unless it is among the next `read_ahead_blocks` blocks from the oldest ready
    /// message on, or takes new messages, or refers to records above `written`. `spilled`: the LSN
    /// of the piece with its transient messages; 0: none yet.
    pub fn evict(
        &mut self,
        place: u64,
        read_ahead_blocks: usize,
        written: Lsn,
        spilled: Lsn,
    ) -> BlockEviction {
        let (head, next) = (self.first_ready(), self.next);
        let Some(offset) = place.checked_sub(self.first) else {
            return BlockEviction::Gone;
        };
        let (cell, _) = self.split(offset);
        let near = head.map_or(0, |head| self.split(head - self.first).0);
        let takes_more = self.split(next.saturating_sub(self.first)).0 == cell;
        let Some(entry) = self.blocks.get_mut(cell) else {
            return BlockEviction::Gone;
        };
        let Some(block) = entry.block.as_mut().filter(|block| !block.is_evicted()) else {
            return BlockEviction::Gone;
        };
        let is_needed = head.is_some() && (near..=near + read_ahead_blocks).contains(&cell);
        if is_needed || takes_more || block.count(MessageState::Held) > 0 || entry.is_spilling {
            return BlockEviction::NotNow;
        }
        let mut transient = false;
        for (_, slot) in block.slots() {
            let named = slot.envelope > Lsn(0) && slot.envelope.max(slot.body) <= written;
            if slot.durable && !named {
                return BlockEviction::NotNow;
            }
            transient |= !slot.durable;
        }
        if transient && spilled == Lsn(0) {
            (entry.is_spilling, entry.is_listed) = (true, false);
            return BlockEviction::Spill;
        }
        entry.is_listed = false;
        uncount!(
            self.apart_bytes,
            block.apart_bytes(),
            "bytes beside a block were counted"
        );
        let left = Box::new(block.evict(spilled));
        self.evicted.messages += u64::from(left.live());
        self.evicted.bytes += left.bytes();
        BlockEviction::Evicted(Garbage::from(std::mem::replace(block, left)))
    }

    /// Lists the block of a place as one that can be evicted; returns its first place, unless it
    /// was listed before, or is not in memory, or takes more messages.
    pub fn list(&mut self, place: u64) -> Option<u64> {
        let tail = self.block_of(self.next);
        let first = self.block_of(place);
        let (entry, _) = self.cell_mut(place)?;
        let is_here = entry
            .block
            .as_ref()
            .is_some_and(|block| !block.is_evicted());
        (is_here && first != tail && !std::mem::replace(&mut entry.is_listed, true))
            .then_some(first)
    }

    /// The first place of the first block with messages at or behind a place.
    pub fn next_block(&self, from: u64) -> Option<u64> {
        let (first, _) = self.split(from.max(self.first) - self.first);
        let mut cells = self.blocks.iter().enumerate().skip(first);
        let is_used = |entry: &Cell| entry.block.as_ref().is_some_and(|block| block.live() > 0);
        let (cell, _) = cells.find(|(_, entry)| is_used(entry))?;
        Some(self.first + ((cell as u64) << self.shift))
    }

    /// The first place behind the block of a place.
    pub const fn block_end(&self, place: u64) -> u64 {
        self.block_of(place) + (1 << self.shift)
    }
}
