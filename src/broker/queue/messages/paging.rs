//! Eviction and paging-in of a queue's blocks, and the LSNs of their copies in a checkpoint.

use std::sync::Arc;

use super::{Messages, pack, unpack};
use crate::base::{Lsn, Position, invariant};
use crate::broker::queue::deferred_free::Garbage;
use crate::broker::queue::disk_refs::DiskRef;
use crate::broker::queue::slot::Slot;
use crate::broker::queue::subqueue::{BlockEviction, Usage};
use crate::message::{Message, Route};

/// The result of trying to evict a block.
#[derive(Debug)]
pub enum Eviction<'a> {
    /// The block does not exist any more, or is on disk already.
    Gone,
    /// It cannot be evicted now.
    NotNow,
    /// It was evicted; its memory is to be freed.
    Evicted(Garbage),
    /// Its transient messages must be spilled first: these.
    Spill(Vec<(Position, &'a Slot)>),
}

impl Messages {
    /// Whether the block of a position is evicted.
    pub fn is_evicted(&self, position: Position) -> bool {
        let block = self.block(position);
        block.is_some_and(|(block, _)| block.is_evicted())
    }

    /// Whether any block is evicted.
    #[inline]
    pub fn has_evicted(&self) -> bool {
        self.subqueues
            .iter()
            .any(|subqueue| subqueue.evicted().messages > 0)
    }

    /// Whether there is a block at this position, and it is in memory.
    pub fn is_block_resident(&self, block: Position) -> bool {
        let block = self.block(block);
        block.is_some_and(|(block, _)| !block.is_evicted())
    }

    /// Messages in memory, and messages on disk.
    pub fn usage(&self) -> (Usage, Usage) {
        let mut evicted = Usage::default();
        let mut apart_bytes = 0;
        for subqueue in &self.subqueues {
            evicted.messages += subqueue.evicted().messages;
            evicted.bytes += subqueue.evicted().bytes;
            apart_bytes += subqueue.apart_bytes();
        }
        let bare_bytes = self.live_bytes - evicted.bytes;
        let resident_bytes = bare_bytes.checked_add_signed(-apart_bytes);
        let is_sound = resident_bytes.is_some();
        invariant!(is_sound, "bytes that are on disk only are of messages");
        let resident = Usage {
            messages: self.live() - evicted.messages,
            bytes: resident_bytes.unwrap_or(0),
        };
        (resident, evicted)
    }

    /// Marks evicted blocks as being read back, and returns them: the next `count` of each
    /// subqueue, from its oldest ready message on. Each is returned once.
    pub fn begin_loads(&mut self, count: usize) -> Vec<Position> {
        let mut blocks = Vec::new();
        for (index, subqueue) in self.subqueues.iter_mut().enumerate() {
            let loads = subqueue.begin_loads(count).into_iter();
            blocks.extend(loads.map(|place| pack(index, place)));
        }
        blocks
    }

    /// The same for the block of this position, wherever it is.
    pub fn begin_load(&mut self, position: Position) -> Option<Position> {
        let (index, place) = unpack(position);
        let first = self.subqueues.get_mut(index)?.begin_load(place)?;
        Some(pack(index, first))
    }

    /// The disk refs of the messages of a block, by position.
    pub fn disk_refs(&self, block: Position) -> impl Iterator<Item = (Position, DiskRef)> {
        let (index, place) = unpack(block);
        let subqueue = self.subqueues.get(index).into_iter();
        let disk_refs = subqueue.flat_map(move |subqueue| subqueue.disk_refs(place));
        disk_refs.map(move |(place, disk_ref)| (pack(index, place), disk_ref))
    }

    /// Takes the messages of a block back into memory: all that are still in it.
    pub fn page_in(
        &mut self,
        block: Position,
        messages: Vec<(Position, Arc<Message>, Arc<Route>)>,
    ) {
        let (index, place) = unpack(block);
        let messages = messages.into_iter();
        let messages =
            messages.map(|(position, message, route)| (unpack(position).1, message, route));
        if let Some(subqueue) = self.subqueues.get_mut(index) {
            subqueue.page_in(place, messages.collect());
        }
    }

    /// Evicts the block of a position, unless it is one of the next `read_ahead_blocks` or refers
    /// to records above `written`. `spilled`: the LSN of the piece with its transient messages; 0:
    /// none yet.
    pub fn evict(
        &mut self,
        block: Position,
        read_ahead_blocks: usize,
        written: Lsn,
        spilled: Lsn,
    ) -> Eviction<'_> {
        let (index, place) = unpack(block);
        let Some(subqueue) = self.subqueues.get_mut(index) else {
            return Eviction::Gone;
        };
        match subqueue.evict(place, read_ahead_blocks, written, spilled) {
            BlockEviction::Gone => Eviction::Gone,
            BlockEviction::NotNow => Eviction::NotNow,
            BlockEviction::Evicted(garbage) => Eviction::Evicted(garbage),
            BlockEviction::Spill => {
                let slots = subqueue.slots(place).filter(|(_, slot)| !slot.durable);
                let slots = slots.map(|(place, slot)| (pack(index, place), slot));
                Eviction::Spill(slots.collect())
            }
        }
    }

    /// If this position is the first of its block, one in the block before, which is full then.
    pub fn block_before(&self, position: Position) -> Option<Position> {
        let (index, place) = unpack(position);
        let before = self.subqueues.get(index)?.block_before(place)?;
        Some(pack(index, before))
    }

    /// Lists the block of a position as one that can be evicted; returns its first position, unless
    /// it was listed before, or is not in memory, or takes more messages.
    pub fn list(&mut self, position: Position) -> Option<Position> {
        let (index, place) = unpack(position);
        let first = self.subqueues.get_mut(index)?.list(place)?;
        Some(pack(index, first))
    }

    /// The first position of the first block with messages at or behind a position.
    pub fn next_block(&self, from: Position) -> Option<Position> {
        let (first, start) = unpack(from);
        let mut subqueues = self.subqueues.iter().enumerate().skip(first);
        subqueues.find_map(|(index, subqueue)| {
            let from = if index == first { start } else { 0 };
            subqueue.next_block(from).map(|place| pack(index, place))
        })
    }

    /// Number of messages in the block of a position, in whatever state.
    pub fn live_in(&self, block: Position) -> usize {
        let block = self.block(block);
        block.map_or(0, |(block, _)| block.live().into())
    }

    /// The first position behind the block of a position.
    pub fn block_end(&self, block: Position) -> Position {
        let (index, place) = unpack(block);
        let subqueue = self.subqueues.get(index);
        pack(
            index,
            subqueue.map_or(place + 1, |subqueue| subqueue.block_end(place)),
        )
    }

    /// The first position in or behind the block that was not used yet.
    pub fn end_in(&self, block: Position) -> Position {
        let (index, place) = unpack(block);
        let subqueue = self.subqueues.get(index);
        let end = subqueue.map_or(place + 1, |subqueue| {
            subqueue.block_end(place).min(subqueue.next_place())
        });
        pack(index, end)
    }

    /// The LSN of the copy of a block in a checkpoint; 0: it was changed since, or there is none.
    pub fn copied(&self, block: Position) -> Lsn {
        let (index, place) = unpack(block);
        let cell = self.subqueues.get(index).and_then(|it| it.cell(place));
        cell.map_or(Lsn(0), |(cell, _)| cell.copied)
    }

    /// Sets the LSN of the copy of a block in a checkpoint; 0: the copy is not valid any more.
    pub fn note_copied(&mut self, block: Position, copy: Lsn) {
        if let Some((cell, _)) = self.cell_mut(block) {
            cell.copied = copy;
        }
    }

    /// Ends the spilling of a block; whether none of its messages was changed since it began.
    pub fn end_spill(&mut self, block: Position) -> bool {
        let cell = self.cell_mut(block);
        cell.is_some_and(|(cell, _)| std::mem::take(&mut cell.is_spilling))
    }
}
