//! The table of segments with records, in which readers look locations up.

use std::sync::Arc;

use super::index::Index;
use crate::base::Lsn;

/// One segment with records.
#[derive(Debug)]
pub struct Segment<F> {
    /// The segment's id.
    pub id: u64,
    /// The LSN from which its frames count theirs; that of its first record or lower.
    pub base: Lsn,
    /// The LSN of the last record before it.
    pub continues: Lsn,
    /// The LSN of its last record.
    pub last: Lsn,
    /// The CRC of its header, from which all others in it continue.
    pub crc: u32,
    /// Number of times it was rewritten.
    pub generation: u32,
    /// Open for reading; stays readable after it was replaced or removed.
    pub file: Arc<F>,
    /// Bytes of header and frames.
    pub data_end: u32,
    /// Whether nothing more is written to it.
    pub sealed: bool,
    /// Whether rewriting it failed because its bytes are bad: it stays as it is.
    pub damaged: bool,
    /// From its trailer: the newest checkpoint end in it or before it, and the one in force.
    pub ends: (Lsn, Lsn),
    /// The index of its records.
    pub index: Index,
}

impl<F> Segment<F> {
    /// LSN minus base, if the LSN is in the range of this segment.
    pub fn delta(&self, lsn: Lsn) -> Option<u32> {
        if lsn > self.last {
            return None;
        }
        u32::try_from(lsn.0.checked_sub(self.base.0)?).ok()
    }

    /// Whether nothing in it is needed any more: facts below `covered` are in a checkpoint.
    pub fn is_dead(&self, covered: Lsn) -> bool {
        self.sealed && self.last < covered && self.index.live_records() == 0
    }
}

/// All segments with records, in LSN order.
#[derive(Debug)]
pub struct Segments<F> {
    /// Sorted by base; LSN ranges do not overlap.
    pub list: Vec<Segment<F>>,
}

impl<F> Default for Segments<F> {
    fn default() -> Self {
        Self { list: Vec::new() }
    }
}

/// The location of the last record that was found, near which its neighbours are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Near {
    segment: usize,
    block: usize,
}

/// Retains or releases a record of a segment.
type Change = fn(&mut Index, u32, u32, &mut usize) -> bool;

/// Where to read one record.
#[derive(Debug)]
pub struct RecordLocation<F> {
    /// The segment's file.
    pub file: Arc<F>,
    /// The segment's id.
    pub segment: u64,
    /// The CRC of the segment's header.
    pub crc: u32,
    /// Offset at which its block begins, in bytes.
    pub from: u32,
    /// Offset at which its block ends, in bytes.
    pub to: u32,
    /// LSN minus the segment's base.
    pub delta: u32,
}

impl<F> Segments<F> {
    /// The segment that may hold `lsn`.
    pub fn find(&self, lsn: Lsn) -> Option<&Segment<F>> {
        self.list.get(self.number(lsn)?)
    }

    /// The same, mutable.
    pub fn find_mut(&mut self, lsn: Lsn) -> Option<&mut Segment<F>> {
        let number = self.number(lsn)?;
        self.list.get_mut(number)
    }

    fn number(&self, lsn: Lsn) -> Option<usize> {
        self.list
            .partition_point(|segment| segment.base <= lsn)
            .checked_sub(1)
    }

    /// The location of `lsn`, if it was written.
    pub fn place(&self, lsn: Lsn) -> Option<RecordLocation<F>> {
        let segment = self.find(lsn)?;
        let delta = segment.delta(lsn)?;
        let (from, to) = segment.index.place(delta, segment.data_end)?;
        Some(RecordLocation {
            file: Arc::clone(&segment.file),
            segment: segment.id,
            crc: segment.crc,
            from,
            to,
            delta,
        })
    }

    /// Retains a record and its pieces. False if it is not in the table.
    pub fn retain(&mut self, lsn: Lsn) -> bool {
        self.change(lsn, &mut Near::default(), Index::retain)
    }

    /// Releases a record and its pieces. False if it is not in the table, or was released before.
    pub fn release(&mut self, lsn: Lsn) -> bool {
        self.release_near(lsn, &mut Near::default())
    }

    /// The same, fast for a record near the last one or behind it.
    pub fn release_near(&mut self, lsn: Lsn, near: &mut Near) -> bool {
        self.change(lsn, near, Index::release)
    }

    fn change(&mut self, lsn: Lsn, near: &mut Near, change: Change) -> bool {
        let found = self.list.get(near.segment);
        if !found.is_some_and(|segment| segment.base <= lsn && lsn <= segment.last) {
            let Some(number) = self.number(lsn) else {
                return false;
            };
            *near = Near {
                segment: number,
                block: 0,
            };
        }
        let Some(segment) = self.list.get_mut(near.segment) else {
            return false;
        };
        let Some(delta) = segment.delta(lsn) else {
            return false;
        };
        if !change(&mut segment.index, delta, segment.data_end, &mut near.block) {
            return false;
        }
        let pieces = segment.index.pieces(delta).to_vec();
        for piece in pieces {
            if let Some(segment) = self.find_mut(piece)
                && let Some(delta) = segment.delta(piece)
            {
                change(&mut segment.index, delta, segment.data_end, &mut 0);
            }
        }
        true
    }

    /// Bytes of live records (estimated) and of all records.
    pub fn bytes(&self) -> (u64, u64) {
        let mut live = 0;
        let mut all = 0;
        for segment in &self.list {
            live += segment.index.live_bytes();
            all += u64::from(segment.data_end);
        }
        (live, all)
    }
}
