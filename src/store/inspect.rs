//! Inspection of a stopped data directory without changing it: for `coroner store check` and
//! `info`.

use bytes::Bytes;

use super::disk::Disk;
use super::error::StoreError;
use super::examine::{Cut, Damage, Verdict, examine};
use super::format::{Cursor, RecordKind};
use super::format_file;
use super::load::{Directory, load};
use super::prepare::segment_name;
use super::recovery::{Recovery, Restored, replay, segments_of};
use super::segments::Segments;
use crate::base::{Lsn, Timestamp};

/// How much is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// What a start reads: indices, and the log from the checkpoint on.
    Start,
    /// Every byte of every segment.
    Everything,
}

/// One segment as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentReport {
    /// The file's name.
    pub file: String,
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Bytes of header and records.
    pub data_bytes: u64,
    /// Estimated bytes of the records that the restored state refers to.
    pub live_bytes: u64,
    /// Number of records that the restored state refers to.
    pub live_records: u64,
    /// LSN of its first record.
    pub first: Lsn,
    /// LSN of its last record.
    pub last: Lsn,
    /// Whether it is sealed.
    pub sealed: bool,
    /// Number of times it was rewritten.
    pub generation: u32,
}

/// The content of a data directory, and what a start would do with it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreReport {
    /// The version in the file `FORMAT`; none if it is missing or cannot be read.
    pub version: Option<u32>,
    /// The segments, in LSN order.
    pub segments: Vec<SegmentReport>,
    /// Files with a damaged header: a start renames them.
    pub unreadable: Vec<String>,
    /// Prepared and temporary files: a start removes them.
    pub leftovers: Vec<String>,
    /// LSN of the end record of the valid checkpoint, 0 if there is none.
    pub checkpoint: Lsn,
    /// LSN from which facts are replayed.
    pub replay_from: Lsn,
    /// Number of blocks of the checkpoint.
    pub checkpoint_blocks: usize,
    /// Number of facts replayed by [`Inspection::replay`].
    pub facts: u64,
    /// Wall-clock time of the last commit.
    pub stamp: Option<Timestamp>,
    /// Whether the last run stopped in order.
    pub closed: bool,
    /// Records that were durable and cannot be read.
    pub damage: Vec<Damage>,
    /// The tail that a start would cut off because it was never confirmed.
    pub cut: Option<Cut>,
}

/// A directory under inspection.
#[derive(Debug)]
pub struct Inspection<D: Disk> {
    version: Option<u32>,
    directory: Directory<D::File>,
    verdict: Verdict,
    recovery: Recovery,
    segments: Segments<D::File>,
}

impl<D: Disk> Inspection<D> {
    /// Reads a directory. A directory of a newer version is an error.
    pub fn new(disk: &D, depth: Depth) -> Result<Self, StoreError> {
        let version = format_file::version(disk)?;
        format_file::refuse_newer(version.unwrap_or_default())?;
        let mut directory = load(disk)?;
        if depth == Depth::Everything {
            directory.scan_from(Lsn(0))?;
        }
        let verdict = examine(&mut directory)?;
        directory.refuse_cluster()?;
        Ok(Self {
            version,
            segments: segments_of(&directory, &verdict),
            recovery: Recovery::default(),
            directory,
            verdict,
        })
    }

    /// Passes blocks and facts to `restore`, as a start would.
    pub fn replay(&mut self, mut restore: impl FnMut(Restored<'_>)) -> Result<(), StoreError> {
        replay(
            &mut self.directory,
            &self.verdict,
            &mut self.recovery,
            &mut restore,
        )
    }

    /// Notes that the restored state refers to a body; false if it does not exist.
    pub fn retain(&mut self, body: Lsn) -> bool {
        self.segments.retain(body)
    }

    /// Reads one record: the payload of facts or a block, or a whole body. None if it cannot be
    /// read.
    pub fn read(&self, lsn: Lsn) -> Result<Option<Bytes>, StoreError> {
        let Some((kind, payload)) = self.directory.read(lsn)? else {
            return Ok(None);
        };
        if kind != RecordKind::Body {
            return Ok(Some(payload.into()));
        }
        let mut reader = Cursor(&payload);
        let Some(pieces) = reader.list() else {
            return Ok(None);
        };
        let mut whole = Vec::new();
        for piece in pieces {
            match self.directory.read(piece)? {
                Some((RecordKind::Piece, bytes)) => whole.extend_from_slice(&bytes),
                _ => return Ok(None),
            }
        }
        whole.extend_from_slice(reader.0);
        Ok(Some(whole.into()))
    }

    /// The report on the directory.
    pub fn report(&self) -> StoreReport {
        let found = self.directory.segments.iter().zip(&self.segments.list);
        let segments = found.map(|(loaded, segment)| SegmentReport {
            file: segment_name(loaded.header.id),
            file_bytes: loaded.size,
            data_bytes: loaded.data_end.into(),
            live_bytes: segment.index.live_bytes(),
            live_records: segment.index.live_records().into(),
            first: loaded.header.base,
            last: loaded.last,
            sealed: !loaded.is_open(),
            generation: loaded.header.generation,
        });
        let mut damage = self.verdict.damage.clone();
        damage.extend(self.recovery.damage.iter().cloned());
        StoreReport {
            version: self.version,
            segments: segments.collect(),
            unreadable: self.directory.unreadable.clone(),
            leftovers: self.directory.leftovers.clone(),
            checkpoint: self.verdict.end,
            replay_from: self.verdict.checkpoint.begin,
            checkpoint_blocks: self.verdict.checkpoint.blocks.len(),
            facts: self.recovery.facts,
            stamp: self.verdict.stamp,
            closed: self.verdict.closed,
            damage,
            cut: self.verdict.cut.clone(),
        }
    }
}
