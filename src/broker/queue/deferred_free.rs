//! Storage that was detached under the lock, to be freed in slices later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{Lsn, Millis, Position};
use crate::message::Message;

use super::block::{BLOCK_SLOTS, Block};
use super::delayed::Delay;
use super::slot_pool::SlotPool;

/// Storage that nothing refers to any more. Detaching is one step whatever its size; freeing is
/// done in slices of about one block.
#[derive(Debug, Default)]
pub struct DeferredFree {
    #[allow(
        clippy::vec_box,
        reason = "blocks are moved here, not copied, while the lock is held"
    )]
    blocks: Vec<Box<Block>>,
    /// Large messages, one by one.
    messages: Vec<Arc<Message>>,
    /// LSNs that removed slots referred to.
    names: Vec<Lsn>,
    timers: Vec<BTreeSet<(Millis, Position)>>,
    delays: Vec<BTreeMap<Position, Delay>>,
    /// Freed slots that are kept for new blocks.
    slot_pool: SlotPool,
}

/// Detached messages. Dropping the value frees them, which takes a while.
#[derive(Debug)]
pub struct Garbage(#[allow(dead_code, reason = "only there to be dropped")] Dropped);

#[derive(Debug)]
#[allow(dead_code, reason = "only there to be dropped")]
enum Dropped {
    /// The messages of a block.
    Block(Box<Block>),
    /// A large message.
    Message(Arc<Message>),
}

impl From<Box<Block>> for Garbage {
    fn from(block: Box<Block>) -> Self {
        Self(Dropped::Block(block))
    }
}

impl DeferredFree {
    pub(super) const fn slot_pool(&mut self) -> &mut SlotPool {
        &mut self.slot_pool
    }

    pub(super) fn block(&mut self, block: Box<Block>) {
        self.blocks.push(block);
    }

    pub(super) fn message(&mut self, message: Arc<Message>) {
        self.messages.push(message);
    }

    pub(super) fn name(&mut self, name: Lsn) {
        self.names.push(name);
    }

    pub(super) fn timers(&mut self, timers: BTreeSet<(Millis, Position)>) {
        if !timers.is_empty() {
            self.timers.push(timers);
        }
    }

    pub(super) fn delays(&mut self, delays: BTreeMap<Position, Delay>) {
        if !delays.is_empty() {
            self.delays.push(delays);
        }
    }

    /// Whether there is nothing to free.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
            && self.messages.is_empty()
            && self.names.is_empty()
            && self.timers.is_empty()
            && self.delays.is_empty()
    }

    /// Takes about one block's worth, to be dropped where no lock is held, and reports the LSNs
    /// that its messages referred to.
    pub fn take_some(&mut self, mut unname: impl FnMut(Lsn)) -> Option<Garbage> {
        if let Some(block) = self.blocks.pop() {
            block.names().for_each(unname);
            return Some(block.into());
        }
        if let Some(message) = self.messages.pop() {
            return Some(Garbage(Dropped::Message(message)));
        }
        if !self.names.is_empty() {
            let keep = self.names.len().saturating_sub(BLOCK_SLOTS);
            self.names.drain(keep..).for_each(&mut unname);
            return None;
        }
        if let Some(timers) = self.timers.last_mut() {
            for _ in 0..BLOCK_SLOTS {
                timers.pop_first();
            }
            if timers.is_empty() {
                self.timers.pop();
            }
        } else if let Some(delays) = self.delays.last_mut() {
            for _ in 0..BLOCK_SLOTS {
                delays.pop_first();
            }
            if delays.is_empty() {
                self.delays.pop();
            }
        }
        None
    }
}
