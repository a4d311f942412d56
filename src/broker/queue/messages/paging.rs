//! How blocks of a queue are evicted and paged in, and what names their copies in a checkpoint.

use std::sync::Arc;

use super::{Messages, pack, unpack};
use crate::base::{Lsn, Position};
use crate::broker::queue::deferred_free::Garbage;
use crate::broker::queue::disk_refs::DiskRef;
use crate::broker::queue::slot::Slot;
use crate::broker::queue::subqueue::{BlockEviction, Usage};
use crate::message::{Message, Route};

/// Whether a block can be evicted.
#[derive(Debug)]
pub enum Eviction<'a> {
    /// There is nothing to leave.
    Gone,
    /// Not now.
    NotNow,
    /// It left; this is to be freed.
    Evicted(Garbage),
    /// These are to be spilled first.
    Spill(Vec<(Position, &'a Slot)>),
}

impl Messages {
    /// Whether the block of a place is on disk.
    pub fn is_evicted(&self, position: Position) -> bool {
        let block = self.block(position);
        block.is_some_and(|(block, _)| block.is_evicted())
    }

    /// Whether some of it is on disk.
    pub fn has_evicted(&self) -> bool {
        self.subqueues
            .iter()
            .any(|subqueue| subqueue.evicted().messages > 0)
    }

    /// Whether there is a block at this place, in memory.
    pub fn is_block_resident(&self, block: Position) -> bool {
        let block = self.block(block);
        block.is_some_and(|(block, _)| !block.is_evicted())
    }

    /// What is in memory, and what is on disk.
    pub fn usage(&self) -> (Usage, Usage) {
        let mut evicted = Usage::default();
        let mut apart_bytes = 0;
        for subqueue in &self.subqueues {
            evicted.messages += subqueue.evicted().messages;
            evicted.bytes += subqueue.evicted().bytes;
            apart_bytes += subqueue.apart_bytes();
        }
        let resident = Usage {
            messages: self.live() - evicted.messages,
            bytes: (self.live_bytes - evicted.bytes).saturating_add_signed(-apart_bytes),
        };
        (resident, evicted)
    }

    /// Blocks on disk that are to be read back: the next `count` of each subqueue, from its oldest
    /// ready message on. Each is named once.
    pub fn begin_loads(&mut self, count: usize) -> Vec<Position> {
        let mut blocks = Vec::new();
        for (index, subqueue) in self.subqueues.iter_mut().enumerate() {
            let loads = subqueue.begin_loads(count).into_iter();
            blocks.extend(loads.map(|place| pack(index, place)));
        }
        blocks
    }

    /// The same for the block of this place, wherever it is.
    pub fn begin_load(&mut self, position: Position) -> Option<Position> {
        let (index, place) = unpack(position);
        let first = self.subqueues.get_mut(index)?.begin_load(place)?;
        Some(pack(index, first))
    }

    /// All that is known of the messages of a block, by place.
    pub fn disk_refs(&self, block: Position) -> impl Iterator<Item = (Position, DiskRef)> {
        let (index, place) = unpack(block);
        let subqueue = self.subqueues.get(index).into_iter();
        let disk_refs = subqueue.flat_map(move |subqueue| subqueue.disk_refs(place));
        disk_refs.map(move |(place, disk_ref)| (pack(index, place), disk_ref))
    }

    /// Takes the messages of a block back into memory: all that are not gone by now.
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

    /// Evicts the block of a place, unless it is one of the next `read_ahead_blocks` or names
    /// records above `written`. `spilled`: its transient messages are in this piece; 0: not yet.
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

    /// If this place is the first of its block, one in the block before, which is full then.
    pub fn block_before(&self, position: Position) -> Option<Position> {
        let (index, place) = unpack(position);
        let before = self.subqueues.get(index)?.block_before(place)?;
        Some(pack(index, before))
    }

    /// Notes that the block of a place can be evicted from now on: its first place, unless that
    /// was noted before, or it is not in memory, or takes more messages.
    pub fn list(&mut self, position: Position) -> Option<Position> {
        let (index, place) = unpack(position);
        let first = self.subqueues.get_mut(index)?.list(place)?;
        Some(pack(index, first))
    }

    /// The beginning of the first block with messages at or behind a place.
    pub fn next_block(&self, from: Position) -> Option<Position> {
        let (first, start) = unpack(from);
        let mut subqueues = self.subqueues.iter().enumerate().skip(first);
        subqueues.find_map(|(index, subqueue)| {
            let from = if index == first { start } else { 0 };
            subqueue.next_block(from).map(|place| pack(index, place))
        })
    }

    /// Messages in the block of a place, in whatever state.
    pub fn live_in(&self, block: Position) -> usize {
        let block = self.block(block);
        block.map_or(0, |(block, _)| block.live().into())
    }

    /// The first place behind the block of a place.
    pub fn block_end(&self, block: Position) -> Position {
        let (index, place) = unpack(block);
        let subqueue = self.subqueues.get(index);
        pack(
            index,
            subqueue.map_or(place + 1, |subqueue| subqueue.block_end(place)),
        )
    }

    /// The first place of the block of a place that was not given out yet, or behind it.
    pub fn end_in(&self, block: Position) -> Position {
        let (index, place) = unpack(block);
        let subqueue = self.subqueues.get(index);
        let end = subqueue.map_or(place + 1, |subqueue| {
            subqueue.block_end(place).min(subqueue.next_place())
        });
        pack(index, end)
    }

    /// What names the copy of a block in a checkpoint; 0: it was changed since, or there is none.
    pub fn copied(&self, block: Position) -> Lsn {
        let (index, place) = unpack(block);
        let cell = self.subqueues.get(index).and_then(|it| it.cell(place));
        cell.map_or(Lsn(0), |(cell, _)| cell.copied)
    }

    /// Notes what names the copy of the block of a place in a checkpoint; 0: it says something else
    /// from now on.
    pub fn note_copied(&mut self, block: Position, copy: Lsn) {
        if let Some((cell, _)) = self.cell_mut(block) {
            cell.copied = copy;
        }
    }

    /// Ends the spilling of a block; whether none of its messages was touched since it began.
    pub fn end_spill(&mut self, block: Position) -> bool {
        let cell = self.cell_mut(block);
        cell.is_some_and(|(cell, _)| std::mem::take(&mut cell.is_spilling))
    }
}
