//! The index of a segment: where its records are, and which of them are still referred to.
//!
//! One block for every 8 KiB or 64 LSNs: 24 bytes of memory; a record is found by reading its
//! block.

use std::collections::BTreeMap;

use super::format::{Cursor, encode_list};
use crate::base::{Lsn, uncount};

/// Bytes after which a block ends: what one lookup reads at least.
const BLOCK_BYTES: u32 = 8 * 1024;
/// LSNs after which a block ends: one bit each.
const BLOCK_LSNS: u32 = 64;

/// The index of one segment.
#[derive(Clone, Debug, Default)]
pub struct Index {
    blocks: Vec<Block>,
    /// Bodies in pieces: the LSNs of the pieces before the last, by the body.
    pieces: BTreeMap<u32, Box<[Lsn]>>,
    /// Bytes that `pieces` takes when it is encoded.
    pieces_bytes: usize,
    live_records: u32,
    live_bytes: u64,
}

/// One block of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockView {
    /// Offset at which it begins in the file, in bytes.
    pub from: u32,
    /// Offset at which it ends, in bytes.
    pub to: u32,
    /// Records in it that are referred to and not released.
    pub live_records: u32,
    first: u32,
    live: u64,
}

impl BlockView {
    /// Whether record `delta` is in it and live.
    pub fn is_live(&self, delta: u32) -> bool {
        delta
            .checked_sub(self.first)
            .and_then(|shift| 1u64.checked_shl(shift))
            .is_some_and(|bit| self.live & bit != 0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    first: u32,
    offset: u32,
    records: u16,
    live: u64,
}

impl Index {
    /// Adds a record behind all others. `delta` is its LSN minus the segment's base.
    pub fn push(&mut self, delta: u32, offset: u32) {
        if let Some(block) = self.blocks.last_mut()
            && delta - block.first < BLOCK_LSNS
            && offset - block.offset < BLOCK_BYTES
        {
            block.records += 1;
            return;
        }
        self.blocks.push(Block {
            first: delta,
            offset,
            records: 1,
            live: 0,
        });
    }

    /// The number of the last block; 0 if there is none.
    pub const fn last_block(&self) -> usize {
        self.blocks.len().saturating_sub(1)
    }

    /// Removes everything behind `delta`.
    pub fn cut(&mut self, delta: u32) {
        self.blocks.retain(|block| block.first <= delta);
        self.pieces.retain(|body, _| *body <= delta);
        self.pieces_bytes = self.pieces.values().map(|list| encoded_bytes(list)).sum();
    }

    /// Notes the pieces of body `delta` in front of its own bytes.
    pub fn push_pieces(&mut self, delta: u32, pieces: Box<[Lsn]>) {
        if !pieces.is_empty() {
            self.pieces_bytes += encoded_bytes(&pieces);
            if let Some(before) = self.pieces.insert(delta, pieces) {
                uncount!(
                    self.pieces_bytes,
                    encoded_bytes(&before),
                    "pieces of a body were counted"
                );
            }
        }
    }

    /// The pieces of body `delta` in front of its own bytes.
    pub fn pieces(&self, delta: u32) -> &[Lsn] {
        self.pieces.get(&delta).map_or(&[], |pieces| pieces)
    }

    /// Offsets in the file between which record `delta` is.
    pub fn place(&self, delta: u32, data_end: u32) -> Option<(u32, u32)> {
        let number = self.block_of(delta)?;
        let block = self.blocks.get(number)?;
        Some((block.offset, self.block_end(number, data_end)))
    }

    /// The block of this number, in file order.
    pub fn block(&self, number: usize, data_end: u32) -> Option<BlockView> {
        let block = self.blocks.get(number)?;
        Some(BlockView {
            from: block.offset,
            to: self.block_end(number, data_end),
            live_records: block.live.count_ones(),
            first: block.first,
            live: block.live,
        })
    }

    /// Marks every record as live that is live in `other`, which has all of them.
    pub fn retain_from(&mut self, other: &Self, data_end: u32) {
        let mut near = 0;
        for block in &other.blocks {
            let mut live = block.live;
            while live != 0 {
                let delta = block.first + live.trailing_zeros();
                self.retain(delta, data_end, &mut near);
                live &= live - 1;
            }
        }
    }

    /// Marks `delta` as live; false if it was, or is not in the index. `near` is the number of a
    /// block where it may be, and is set to that of its block: neighbours are found at once.
    pub fn retain(&mut self, delta: u32, data_end: u32, near: &mut usize) -> bool {
        self.set(delta, data_end, true, near)
    }

    /// Marks `delta` as released; false if it was, or is not in the index. `near` is as in
    /// [`Index::retain`].
    pub fn release(&mut self, delta: u32, data_end: u32, near: &mut usize) -> bool {
        self.set(delta, data_end, false, near)
    }

    fn set(&mut self, delta: u32, data_end: u32, live: bool, near: &mut usize) -> bool {
        let Some(number) = self.block_near(delta, *near) else {
            return false;
        };
        *near = number;
        let span = self.block_end(number, data_end);
        let Some(block) = self.blocks.get_mut(number) else {
            return false;
        };
        let bit = bit(block, delta);
        if (block.live & bit != 0) == live {
            return false;
        }
        block.live ^= bit;
        // Sizes of single records are not kept: each counts as the mean of its block.
        let mean = u64::from(span.saturating_sub(block.offset)) / u64::from(block.records.max(1));
        if live {
            self.live_records += 1;
            self.live_bytes += mean;
        } else {
            uncount!(self.live_records, 1, "a record that is let go was counted");
            self.live_bytes = self.live_bytes.saturating_sub(mean);
        }
        true
    }

    /// Counts live bytes anew once the end of the last block is known.
    pub fn recount(&mut self, data_end: u32) {
        let mut bytes = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            let span = self
                .block_end(number, data_end)
                .saturating_sub(block.offset);
            bytes += u64::from(span) * u64::from(block.live.count_ones())
                / u64::from(block.records.max(1));
        }
        self.live_bytes = bytes;
    }

    /// Number of records that are referred to and not released.
    pub const fn live_records(&self) -> u32 {
        self.live_records
    }

    /// Estimated bytes of these records.
    pub const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Bytes that [`Index::encode`] will write, with one block more for the next record.
    pub fn encoded_bytes_max(&self) -> usize {
        8 + (self.blocks.len() + 1) * 12 + self.pieces_bytes
    }

    /// Appends the index in its form in a sealed segment.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&count.to_le_bytes());
        for block in &self.blocks {
            out.extend_from_slice(&block.first.to_le_bytes());
            out.extend_from_slice(&block.offset.to_le_bytes());
            out.extend_from_slice(&block.records.to_le_bytes());
            out.extend_from_slice(&[0; 2]);
        }
        let count = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&count.to_le_bytes());
        for (delta, pieces) in &self.pieces {
            out.extend_from_slice(&delta.to_le_bytes());
            encode_list(pieces, out);
        }
    }

    /// Reads an index; nothing in it is live.
    pub fn decode(input: &[u8]) -> Option<Self> {
        let mut reader = Cursor(input);
        let mut index = Self::default();
        for _ in 0..reader.u32()? {
            let (first, offset) = (reader.u32()?, reader.u32()?);
            let (records, _reserved) = (reader.u16()?, reader.u16()?);
            if let Some(last) = index.blocks.last()
                && (first <= last.first || offset <= last.offset)
            {
                return None;
            }
            index.blocks.push(Block {
                first,
                offset,
                records,
                live: 0,
            });
        }
        for _ in 0..reader.u32()? {
            let delta = reader.u32()?;
            index.push_pieces(delta, reader.list()?.into());
        }
        Some(index)
    }

    fn block_of(&self, delta: u32) -> Option<usize> {
        self.block_near(delta, 0)
    }

    /// The block of a record; looked for at block `near` and behind it first.
    fn block_near(&self, delta: u32, near: usize) -> Option<usize> {
        let begins = |number: usize| self.blocks.get(number).map(|block| block.first);
        let is_in = |number: &usize| {
            begins(*number).is_some_and(|first| first <= delta)
                && begins(number + 1).is_none_or(|next| delta < next)
        };
        let number = [near, near + 1].into_iter().find(is_in).or_else(|| {
            let behind = self.blocks.partition_point(|block| block.first <= delta);
            behind.checked_sub(1)
        })?;
        let block = self.blocks.get(number)?;
        (delta - block.first < BLOCK_LSNS).then_some(number)
    }

    fn block_end(&self, number: usize, data_end: u32) -> u32 {
        self.blocks
            .get(number + 1)
            .map_or(data_end, |next| next.offset)
    }
}

/// Bytes of a body's pieces in an index.
const fn encoded_bytes(pieces: &[Lsn]) -> usize {
    8 + pieces.len() * 8
}

fn bit(block: &Block, delta: u32) -> u64 {
    1u64.checked_shl(delta - block.first).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_in_its_block_whatever_the_gaps() {
        let mut index = Index::default();
        let deltas = [0, 1, 63, 64, 200, 201, 5_000_000];
        let mut offset = 64;
        for delta in deltas {
            index.push(delta, offset);
            offset += 3000;
        }
        let mut bytes = Vec::new();
        index.encode(&mut bytes);
        assert!(bytes.len() <= index.encoded_bytes_max());
        let mut index = Index::decode(&bytes).unwrap();
        let mut near = 0;
        for (number, delta) in deltas.iter().enumerate() {
            let (from, to) = index.place(*delta, offset).unwrap();
            let at = 64 + 3000 * u32::try_from(number).unwrap();
            assert!(from <= at && at < to, "{delta}");
            assert!(index.retain(*delta, offset, &mut near));
            assert!(!index.retain(*delta, offset, &mut near));
        }
        assert_eq!(index.live_bytes(), u64::from(offset - 64));
        assert!(index.place(400, offset).is_none());
        assert!(index.release(64, offset, &mut near));
        assert!(!index.release(64, offset, &mut near));
        assert_eq!(index.live_records(), 6);
    }
}
