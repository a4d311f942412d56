//! All messages of one priority, in order of arrival.

use std::collections::VecDeque;

use super::block::{BLOCK_SLOTS, Block, Slot, State};
use super::trash::Trash;

/// A deque of blocks. Places count from 0 and are never reused.
///
/// ```text
///   first                cursor                    next
///     |                    |                         |
///   [ h.h.....h ] [ ] [ ...rrrrr ] [ rrrrrrr ] [ rrrr      ]
///                  ^ a block in which all are gone keeps no slots
/// ```
#[derive(Debug, Default)]
pub struct Lane {
    /// Place of the first slot of the first block; a multiple of the block size.
    first: u64,
    /// Place of the next message.
    next: u64,
    /// No ready message lies in front of it.
    cursor: u64,
    ready: u64,
    blocks: VecDeque<Cell>,
}

/// A block, with its counts beside it so that looking for a state walks this array only.
#[derive(Debug)]
struct Cell {
    block: Option<Box<Block>>,
    ready: u16,
    held: u16,
}

impl Lane {
    /// Messages that wait for a consumer.
    pub fn ready(&self) -> u64 {
        self.ready
    }

    /// The place the next message will have.
    pub fn next_place(&self) -> u64 {
        self.next
    }

    /// Puts a message at a place that the journal names, at or behind the end.
    pub fn place(&mut self, place: u64, slot: Slot, state: State) {
        assert!(place >= self.next, "a place is given out once");
        if self.blocks.is_empty() {
            self.first = place - place % BLOCK_SLOTS as u64;
        }
        let (cell, at) = split(place - self.first);
        while self.blocks.len() <= cell {
            self.blocks.push_back(Cell {
                block: None,
                ready: 0,
                held: 0,
            });
        }
        if let Some(entry) = self.blocks.get_mut(cell) {
            let block = entry.block.get_or_insert_with(|| Box::new(Block::new()));
            block.put(at, slot, state);
            match state {
                State::Ready => {
                    entry.ready += 1;
                    self.ready += 1;
                    if self.ready == 1 {
                        self.cursor = place;
                    }
                }
                State::Held => entry.held += 1,
                State::Dying | State::Delayed => {}
            }
        }
        self.next = place + 1;
    }

    /// The message at a place.
    pub fn slot(&self, place: u64) -> Option<&Slot> {
        let (cell, at) = split(place.checked_sub(self.first)?);
        self.blocks.get(cell)?.block.as_ref()?.slot(at)
    }

    /// The message at a place, to change.
    pub fn slot_mut(&mut self, place: u64) -> Option<&mut Slot> {
        let (cell, at) = split(place.checked_sub(self.first)?);
        self.blocks.get_mut(cell)?.block.as_mut()?.slot_mut(at)
    }

    /// Whether a message is there, in that state.
    pub fn is(&self, place: u64, state: State) -> bool {
        let Some(offset) = place.checked_sub(self.first) else {
            return false;
        };
        let (cell, at) = split(offset);
        self.blocks
            .get(cell)
            .and_then(|entry| entry.block.as_ref())
            .is_some_and(|block| block.is(at, state))
    }

    /// Moves a message from one state to another; false if it was not in the first.
    pub fn turn(&mut self, place: u64, from: State, to: State) -> bool {
        let Some(offset) = place.checked_sub(self.first) else {
            return false;
        };
        let (cell, at) = split(offset);
        let Some(entry) = self.blocks.get_mut(cell) else {
            return false;
        };
        let Some(block) = entry.block.as_mut() else {
            return false;
        };
        if !block.turn(at, from, to) {
            return false;
        }
        entry.ready = block.count(State::Ready);
        entry.held = block.count(State::Held);
        if from == State::Ready {
            self.ready -= 1;
        }
        if to == State::Ready {
            self.ready += 1;
            self.cursor = self.cursor.min(place);
        }
        true
    }

    /// Takes a message out; none if it was not in that state. Empty blocks are freed.
    pub fn take(&mut self, place: u64, from: State) -> Option<Slot> {
        let (cell, at) = split(place.checked_sub(self.first)?);
        let is_last = cell + 1 == self.blocks.len();
        let entry = self.blocks.get_mut(cell)?;
        let block = entry.block.as_mut()?;
        let slot = block.take(at, from)?;
        entry.ready = block.count(State::Ready);
        entry.held = block.count(State::Held);
        if from == State::Ready {
            self.ready -= 1;
        }
        if block.live() == 0 {
            if is_last {
                block.reset();
            } else {
                entry.block = None;
                self.trim();
            }
        }
        Some(slot)
    }

    /// The oldest ready message.
    pub fn first_ready(&mut self) -> Option<u64> {
        if self.ready == 0 {
            return None;
        }
        let place = self.find(State::Ready, self.cursor)?;
        self.cursor = place;
        Some(place)
    }

    /// The first message in a state at or behind a place.
    pub fn find(&self, state: State, from: u64) -> Option<u64> {
        let from = from.max(self.first);
        let (mut cell, mut at) = split(from - self.first);
        while let Some(entry) = self.blocks.get(cell) {
            let worth = match state {
                State::Ready => entry.ready > 0,
                State::Held => entry.held > 0,
                State::Dying | State::Delayed => true,
            };
            if worth
                && let Some(block) = &entry.block
                && let Some(found) = block.next(state, at)
            {
                return Some(self.first + (cell * BLOCK_SLOTS + found) as u64);
            }
            cell += 1;
            at = 0;
        }
        None
    }

    /// Removes all ready messages at once. Blocks in which nothing else lives are handed over, to
    /// be freed elsewhere.
    pub fn purge(&mut self, trash: &mut Trash) {
        for entry in &mut self.blocks {
            if entry.ready == 0 {
                continue;
            }
            let Some(block) = entry.block.as_mut() else {
                continue;
            };
            entry.ready = 0;
            if block.live() > block.count(State::Ready) {
                while let Some(slot) = block.take_any(State::Ready) {
                    trash.body(slot.body);
                }
                continue;
            }
            block.forget(State::Ready);
            if let Some(block) = entry.block.take() {
                trash.block(block);
            }
        }
        self.ready = 0;
        self.cursor = self.next;
        self.trim();
    }

    /// Hands all blocks over, to be freed elsewhere.
    pub fn scrap(&mut self, trash: &mut Trash) {
        for entry in self.blocks.drain(..) {
            if let Some(block) = entry.block {
                trash.block(block);
            }
        }
        self.ready = 0;
        self.cursor = self.next;
    }

    fn trim(&mut self) {
        while self
            .blocks
            .front()
            .is_some_and(|entry| entry.block.is_none())
        {
            self.blocks.pop_front();
            self.first += BLOCK_SLOTS as u64;
        }
    }
}

fn split(offset: u64) -> (usize, usize) {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    (offset / BLOCK_SLOTS, offset % BLOCK_SLOTS)
}
