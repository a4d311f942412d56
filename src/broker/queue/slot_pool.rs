//! A pool of slot vectors, passed from blocks that were emptied to blocks that fill up.

use super::block::BLOCK_SLOTS;
use super::slot::Slot;

/// Vectors kept, at most: some 150 kB of memory in all.
const PIECES_MAX: usize = 4;

/// Vectors for the slots of whole blocks. Messages of a busy queue use the same few vectors again
/// and again, which stay in the processor's caches.
#[derive(Debug, Default)]
pub struct SlotPool {
    pieces: Vec<Vec<Option<Slot>>>,
}

impl SlotPool {
    /// Gives a block the capacity for all its slots; the slots it has are kept.
    pub(super) fn enlarge(&mut self, slots: &mut Vec<Option<Slot>>) {
        match self.pieces.pop() {
            Some(mut piece) => {
                piece.append(slots);
                *slots = piece;
            }
            None => slots.reserve_exact(BLOCK_SLOTS - slots.len()),
        }
    }

    /// Takes a vector that is not needed any more, with whatever is left in it.
    pub(super) fn keep(&mut self, mut slots: Vec<Option<Slot>>) {
        if slots.capacity() >= BLOCK_SLOTS && self.pieces.len() < PIECES_MAX {
            slots.clear();
            self.pieces.push(slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_of_whole_blocks_is_used_again_and_only_so_much_of_it_is_kept() {
        let mut slot_pool = SlotPool::default();
        slot_pool.keep(Vec::with_capacity(BLOCK_SLOTS / 2));
        assert_eq!(slot_pool.pieces.len(), 0, "too small to be of use");
        for _ in 0..=PIECES_MAX {
            slot_pool.keep(Vec::with_capacity(BLOCK_SLOTS));
        }
        assert_eq!(slot_pool.pieces.len(), PIECES_MAX);
        for left in (0..PIECES_MAX).rev().chain([0]) {
            let mut slots = vec![None, None];
            slot_pool.enlarge(&mut slots);
            assert_eq!((slots.len(), slot_pool.pieces.len()), (2, left));
            assert!(slots.capacity() >= BLOCK_SLOTS);
        }
    }
}
