//! A block of 512 slots with one bitset for each state.

use std::sync::Arc;

use crate::base::{HolderId, Lsn, Millis};
use crate::message::{Message, Route};

/// Slots of one block.
pub const BLOCK_SLOTS: usize = 512;
const WORDS: usize = BLOCK_SLOTS / 64;
const STATES: usize = 4;
/// Room for this many slots is kept when a block runs empty.
const SLOTS_KEPT: usize = 64;

/// What a slot is. No state at all means gone.
///
/// ```text
///              assign            settle
///   +--> Ready ------> Held -----------------> gone
///   |      |            | |                     ^
///   |      | expire,    | | reject,             |
///   |      | overflow   | | expire, limit       |
///   |      +-----> Dying <+                     |
///   |                |  moved or dropped        |
///   |                +--------------------------+
///   +------------------- return
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Waits for a consumer.
    Ready = 0,
    /// With a consumer.
    Held = 1,
    /// Dead; its copy is not yet in a target.
    Dying = 2,
    /// Reserved: waits for its delivery time.
    Delayed = 3,
}

/// One message in one queue. Kept small: a queue of a million holds a million of these.
#[derive(Debug)]
pub struct Slot {
    /// The message.
    pub message: Arc<Message>,
    /// Exchange and keys it came by.
    pub route: Arc<Route>,
    /// When it arrived in this queue.
    pub arrived: Millis,
    /// Its own end of life, whatever the queue's ttl.
    pub deadline: Millis,
    /// The record that carries its bare bytes; 0 if it is not in the journal.
    pub body: Lsn,
    /// Who holds it, when held.
    pub holder: HolderId,
    /// Bytes of its bare message.
    pub size_bytes: u32,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Returns in this queue.
    pub acquired: u32,
    /// The journal knows it.
    pub durable: bool,
}

/// 512 places. A message keeps its place for life, so that every change of state flips two bits.
#[derive(Debug)]
pub(super) struct Block {
    /// Place of `slots[0]`: an empty block begins anew behind what is gone, so that a queue whose
    /// messages pass straight through stays small.
    base: usize,
    slots: Vec<Option<Slot>>,
    bits: [[u64; WORDS]; STATES],
    counts: [u16; STATES],
}

impl Block {
    pub(super) fn new() -> Self {
        Self {
            base: 0,
            slots: Vec::new(),
            bits: [[0; WORDS]; STATES],
            counts: [0; STATES],
        }
    }

    pub(super) fn count(&self, state: State) -> u16 {
        self.counts.get(state as usize).copied().unwrap_or(0)
    }

    /// Slots that are not gone.
    pub(super) fn live(&self) -> u16 {
        self.counts.iter().sum()
    }

    pub(super) fn slot(&self, at: usize) -> Option<&Slot> {
        self.slots.get(at.checked_sub(self.base)?)?.as_ref()
    }

    pub(super) fn slot_mut(&mut self, at: usize) -> Option<&mut Slot> {
        self.slots.get_mut(at.checked_sub(self.base)?)?.as_mut()
    }

    /// Puts a slot at a place at or behind all others of this block.
    pub(super) fn put(&mut self, at: usize, slot: Slot, state: State) {
        if self.slots.is_empty() {
            self.base = at;
        }
        let end = self.base + self.slots.len();
        assert!(
            at < BLOCK_SLOTS && at >= end,
            "places are given out once, in order"
        );
        for _ in end..at {
            self.slots.push(None);
        }
        self.slots.push(Some(slot));
        self.raise(at, state);
    }

    pub(super) fn is(&self, at: usize, state: State) -> bool {
        self.word(state, at / 64) & bit(at) != 0
    }

    /// Moves a slot from one state to another; false if it was not in the first.
    pub(super) fn turn(&mut self, at: usize, from: State, to: State) -> bool {
        let was = self.lower(at, from);
        if was {
            self.raise(at, to);
        }
        was
    }

    /// Takes a slot out; none if it was not in that state.
    pub(super) fn take(&mut self, at: usize, from: State) -> Option<Slot> {
        if !self.lower(at, from) {
            return None;
        }
        self.slots.get_mut(at.checked_sub(self.base)?)?.take()
    }

    /// Begins anew, once all are gone.
    pub(super) fn reset(&mut self) {
        if self.slots.capacity() > SLOTS_KEPT {
            self.slots = Vec::new();
        }
        self.slots.clear();
    }

    /// Forgets all slots in a state at once; what they hold is freed with the block.
    pub(super) fn forget(&mut self, state: State) {
        if let Some(words) = self.bits.get_mut(state as usize) {
            *words = [0; WORDS];
        }
        if let Some(count) = self.counts.get_mut(state as usize) {
            *count = 0;
        }
    }

    /// What names the bodies of its messages, of forgotten ones too.
    pub(super) fn bodies(&self) -> impl Iterator<Item = Lsn> {
        let slots = self.slots.iter().flatten();
        slots.map(|slot| slot.body).filter(|body| *body > Lsn(0))
    }

    /// Takes one slot in a state out, to free it here.
    pub(super) fn take_any(&mut self, state: State) -> Option<Slot> {
        let at = self.next(state, 0)?;
        self.take(at, state)
    }

    /// The first slot in a state at or behind a place.
    pub(super) fn next(&self, state: State, from: usize) -> Option<usize> {
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

    fn word(&self, state: State, index: usize) -> u64 {
        self.bits
            .get(state as usize)
            .and_then(|words| words.get(index))
            .copied()
            .unwrap_or(0)
    }

    fn raise(&mut self, at: usize, state: State) {
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

    fn lower(&mut self, at: usize, state: State) -> bool {
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

fn bit(at: usize) -> u64 {
    1 << (at % 64)
}
