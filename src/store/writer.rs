//! The one writer: takes what waits, encodes it, writes it, syncs it, says how far it is durable.
//!
//! ```text
//!            write(wall)                    sync()
//!  waiting -------------> written, a mark ---------> durable LSN moves; maintain() does the rest
//!               |
//!               +- segment full: seal it (index, trailer, cut), open a prepared one
//! ```
//!
//! It reads no clock and starts no thread: whoever drives it does, and measures.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::buffer::{Batch, Body, Payload, Slot};
use super::contract::StoreState;
use super::disk::{Disk, DiskFile};
use super::error::{DiskError, DiskErrorKind, DiskOperation, StoreError};
use super::format::{
    Checkpoint, FLAG_CLOSED, FLAG_NAMED, FRAME_BYTES, HEADER_BYTES, Header, Kind, MARK_BYTES, Mark,
    TRAILER_BYTES, Trailer, begin_frame, encode_list, end_frame, frame_span,
};
use super::index::Index;
use super::journal::Shared;
use super::options::{Options, SyncPolicy, WRITE_BYTES_MAX};
use super::prepare::Prepared;
use super::random::Random;
use super::rewrite::Rewrite;
use super::segments::Segment;
use super::stats::Counters;
use crate::base::{Lsn, Timestamp};

/// Writes one journal. Exactly one exists per journal; it belongs to one thread.
pub struct Writer<P, D: Disk> {
    pub(super) shared: Arc<Shared<P, D>>,
    pub(super) options: Options,
    pub(super) random: Random,
    pub(super) prepared: VecDeque<Prepared<D::File>>,
    pub(super) next_id: u64,
    /// Whether preparing failed and nothing was freed since.
    pub(super) no_room: bool,
    pub(super) current: Current,
    pub(super) rewrite: Option<Rewrite<D::File>>,
    pub(super) progress: Progress,
    /// As the driver told it last.
    pub(super) wall: Timestamp,
    active: Option<Active<D::File>>,
    taken: Option<Batch<P>>,
    spare: VecDeque<(Lsn, Slot<P>)>,
    out: Vec<u8>,
    fresh: Vec<Fresh>,
    unsynced: Vec<Arc<D::File>>,
}

/// The checkpoint that counts.
#[derive(Debug, Default)]
pub(super) struct Current {
    pub end: Lsn,
    pub checkpoint: Checkpoint,
    /// The newest end record written, durable or not.
    pub newest_end: Lsn,
}

/// How far the log is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Every LSN up to here is written or a gap.
    pub written: Lsn,
    /// The last record written.
    pub written_record: Lsn,
    /// Every LSN up to here is on the device or a gap.
    pub synced: Lsn,
    /// The last record on the device: what marks tell.
    pub synced_record: Lsn,
}

struct Active<F> {
    id: u64,
    base: Lsn,
    crc: u32,
    file: Arc<F>,
    /// Where the bytes in `out` go.
    offset: usize,
    /// Holds what is in `out` too, unlike the one readers use.
    index: Index,
    records: u64,
    dirty: bool,
}

/// A record in `out`, for the readers' index once it is written.
struct Fresh {
    delta: u32,
    offset: u32,
    named: bool,
    pieces: Box<[Lsn]>,
}

/// What one [`Writer::write`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrote {
    /// Records written.
    pub records: u64,
    /// Whether some wait for a segment because the disk is full.
    pub stalled: bool,
    /// Whether a [`Writer::sync`] has something to do.
    pub unsynced: bool,
}

enum Put {
    Done,
    NoRoom,
}

impl<P: Payload, D: Disk> Writer<P, D> {
    pub(super) fn new(
        shared: Arc<Shared<P, D>>,
        options: Options,
        random: Random,
        next_id: u64,
        progress: Progress,
        current: Current,
    ) -> Self {
        Self {
            shared,
            options,
            random,
            prepared: VecDeque::new(),
            next_id,
            no_room: false,
            current,
            rewrite: None,
            progress,
            wall: Timestamp::default(),
            active: None,
            taken: None,
            spare: VecDeque::new(),
            out: Vec::new(),
            fresh: Vec::new(),
            unsynced: Vec::new(),
        }
    }

    /// Whether anything waits to be written.
    pub fn has_work(&self) -> bool {
        self.taken.is_some() || self.shared.buffer.lock().waiting_records > 0
    }

    /// Writes what waits, with a mark that bears `wall`. Under the policies without a sync per
    /// commit this also publishes it.
    pub fn write(&mut self, wall: Timestamp) -> Result<Wrote, StoreError> {
        self.check()?;
        self.wall = wall;
        let mut batch = self.taken.take().unwrap_or_else(|| {
            let spare = std::mem::take(&mut self.spare);
            self.shared.buffer.lock().take(spare)
        });
        let mut records = 0;
        let mut stalled_at = None;
        while let Some((lsn, slot)) = batch.slots.pop_front() {
            if !matches!(slot, Slot::Gone) {
                if let Put::NoRoom = self.put_slot(lsn, &slot)? {
                    batch.slots.push_front((lsn, slot));
                    stalled_at = Some(lsn);
                    break;
                }
                records += 1;
            }
            if self.out.len() >= WRITE_BYTES_MAX {
                self.flush()?;
            }
        }
        let upto = if let Some(lsn) = stalled_at {
            self.taken = Some(batch);
            Lsn(lsn.0 - 1)
        } else {
            if records > 0 {
                // Without room for it the mark is left out: the log is read without it too.
                self.put_mark(batch.mark, wall, 0)?;
            }
            self.spare = batch.slots;
            batch.mark
        };
        self.flush()?;
        self.progress.written = self.progress.written.max(upto);
        Counters::add(&self.shared.counters.records, records);
        Counters::add(&self.shared.counters.commits, u64::from(records > 0));
        self.publish();
        Ok(Wrote {
            records,
            stalled: stalled_at.is_some(),
            unsynced: self.is_unsynced(),
        })
    }

    /// Waits until all that is written is on the device, and publishes it.
    pub fn sync(&mut self) -> Result<Lsn, StoreError> {
        self.check()?;
        for file in std::mem::take(&mut self.unsynced) {
            file.sync().map_err(|error| self.poison(error))?;
            Counters::add(&self.shared.counters.syncs, 1);
        }
        if let Some(active) = &mut self.active {
            active.dirty = false;
        }
        self.progress.synced = self.progress.written;
        self.progress.synced_record = self.progress.written_record;
        self.publish();
        Ok(self.progress.synced)
    }

    /// Notes how long a [`Writer::sync`] took.
    pub fn observe_sync(&self, duration_us: u64) {
        self.shared.counters.observe_sync(duration_us);
    }

    /// An orderly stop: everything written, synced, and a last mark that says so.
    pub fn close(&mut self, wall: Timestamp) -> Result<(), StoreError> {
        self.write(wall)?;
        self.sync()?;
        if self.taken.is_some() || self.active.is_none() {
            return Ok(());
        }
        let mark = self.shared.buffer.lock().take_lsn();
        self.put_mark(mark, wall, FLAG_CLOSED)?;
        self.flush()?;
        self.progress.written = mark;
        self.sync()?;
        Ok(())
    }

    /// Fails if the store is poisoned.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match &*self.shared.poison.lock() {
            Some(error) => Err(StoreError::Poisoned(error.clone())),
            None => Ok(()),
        }
    }

    pub(super) fn is_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// After a failed write or sync nothing is known about the device: nothing is confirmed any
    /// more, and nothing is tried again.
    fn poison(&self, error: DiskError) -> StoreError {
        self.shared
            .poison
            .lock()
            .get_or_insert_with(|| error.clone());
        self.shared.set_state(StoreState::Poisoned);
        tracing::error!(%error, "the journal cannot be written: nothing is confirmed any more");
        StoreError::Poisoned(error)
    }

    fn publish(&mut self) {
        if !self.is_unsynced() {
            self.progress.synced = self.progress.written;
            self.progress.synced_record = self.progress.written_record;
        }
        let durable = match self.options.sync {
            SyncPolicy::Always => self.progress.synced,
            SyncPolicy::Interval { .. } | SyncPolicy::Never => self.progress.written,
        };
        self.shared.durable.fetch_max(durable.0, Ordering::AcqRel);
    }

    fn put_slot(&mut self, lsn: Lsn, slot: &Slot<P>) -> Result<Put, StoreError> {
        let before = self.out.len();
        let put = match slot {
            Slot::Gone => Put::Done,
            Slot::Facts(payload) => {
                let named = match payload.body() {
                    Body::Carried => FLAG_NAMED,
                    Body::None => 0,
                };
                self.put(lsn, Kind::Facts, named, &[], |out| payload.encode(out))?
            }
            Slot::Block(payload) => {
                self.put(lsn, Kind::Block, FLAG_NAMED, &[], |out| payload.encode(out))?
            }
            Slot::Piece(bytes) => self.put(lsn, Kind::Piece, FLAG_NAMED, &[], |out| {
                out.extend_from_slice(bytes);
            })?,
            Slot::Body { pieces, bytes } => {
                self.put(lsn, Kind::Body, FLAG_NAMED, pieces, |out| {
                    encode_list(pieces, out);
                    out.extend_from_slice(bytes);
                })?
            }
            Slot::End(checkpoint) => {
                let put = self.put(lsn, Kind::End, FLAG_NAMED, &[], |out| {
                    checkpoint.encode(out);
                })?;
                if matches!(put, Put::Done) {
                    self.current.newest_end = lsn;
                }
                put
            }
        };
        if matches!(slot, Slot::Facts(_) | Slot::Piece(_) | Slot::Body { .. }) {
            let grown = self.out.len().saturating_sub(before);
            Counters::add(&self.shared.counters.payload_bytes, grown as u64);
        }
        Ok(put)
    }

    fn put_mark(&mut self, lsn: Lsn, wall: Timestamp, flags: u8) -> Result<(), StoreError> {
        if self.active.is_none() || !self.fits(lsn, MARK_BYTES, 0) {
            return Ok(());
        }
        let mark = Mark {
            wall,
            durable: self.progress.synced_record,
        };
        self.put(lsn, Kind::Mark, flags, &[], |out| mark.encode(out))?;
        Ok(())
    }

    /// Encodes one record behind the others, in the next segment if this one is full.
    fn put(
        &mut self,
        lsn: Lsn,
        kind: Kind,
        flags: u8,
        pieces: &[Lsn],
        encode: impl Fn(&mut Vec<u8>),
    ) -> Result<Put, StoreError> {
        for _attempt in 0..2 {
            if self.active.is_none() && !self.open_segment(lsn)? {
                return Ok(Put::NoRoom);
            }
            let start = begin_frame(&mut self.out);
            encode(&mut self.out);
            let payload_bytes = self.out.len() - start - FRAME_BYTES;
            if self.fits_at(lsn, start, payload_bytes, pieces.len()) {
                self.finish_record(lsn, start, kind, flags, pieces);
                return Ok(Put::Done);
            }
            self.out.truncate(start);
            if self
                .active
                .as_ref()
                .is_some_and(|active| active.records == 0)
            {
                let error = StoreError::RecordTooLarge {
                    bytes: payload_bytes,
                    max: self.options.segment_bytes as usize,
                };
                return Err(self.poison(DiskError {
                    operation: DiskOperation::Write,
                    name: "journal".to_owned(),
                    kind: DiskErrorKind::Failed,
                    message: error.to_string(),
                }));
            }
            self.seal()?;
        }
        Ok(Put::NoRoom)
    }

    fn finish_record(&mut self, lsn: Lsn, start: usize, kind: Kind, flags: u8, pieces: &[Lsn]) {
        let Some(active) = &mut self.active else {
            return;
        };
        let delta = lsn.0.wrapping_sub(active.base.0);
        let offset = active.offset + start;
        let (Ok(delta), Ok(offset)) = (u32::try_from(delta), u32::try_from(offset)) else {
            return;
        };
        end_frame(&mut self.out, start, active.crc, delta, kind, flags);
        active.records += 1;
        active.index.push(delta, offset);
        active.index.push_pieces(delta, pieces.into());
        self.progress.written_record = lsn;
        self.fresh.push(Fresh {
            delta,
            offset,
            named: flags & FLAG_NAMED != 0,
            pieces: pieces.into(),
        });
    }

    fn fits(&self, lsn: Lsn, payload_bytes: usize, pieces: usize) -> bool {
        self.fits_at(lsn, self.out.len(), payload_bytes, pieces)
    }

    /// Whether a record at `start` of `out` leaves room for the index in this segment.
    fn fits_at(&self, lsn: Lsn, start: usize, payload_bytes: usize, pieces: usize) -> bool {
        let Some(active) = &self.active else {
            return false;
        };
        let index = active.index.encoded_bytes_max() + 12 + pieces * 8;
        let end = active.offset + start + frame_span(payload_bytes) + index + TRAILER_BYTES;
        let near = lsn.0.saturating_sub(active.base.0) < u64::from(u32::MAX / 2);
        near && end <= self.options.segment_bytes as usize
    }

    /// Opens a prepared segment for `first`; false if there is none and no room for one.
    fn open_segment(&mut self, first: Lsn) -> Result<bool, StoreError> {
        self.flush()?;
        if self.prepared.is_empty() {
            self.prepare_one();
        }
        let Some(prepared) = self.prepared.pop_front() else {
            return Ok(false);
        };
        let [a, b, c, d, ..] = self.random.draw().to_le_bytes();
        let header = Header {
            id: prepared.id,
            base: first,
            continues: self.progress.written_record,
            wall: self.wall,
            seed: u32::from_le_bytes([a, b, c, d]),
            generation: 0,
        };
        let (bytes, crc) = header.encode();
        let file = Arc::new(prepared.file);
        self.out.extend_from_slice(&bytes);
        self.shared.segments.write().list.push(Segment {
            id: header.id,
            base: first,
            continues: header.continues,
            last: header.continues,
            crc,
            generation: 0,
            file: Arc::clone(&file),
            data_end: HEADER_LENGTH,
            sealed: false,
            damaged: false,
            checkpoint: self.current.newest_end,
            index: Index::default(),
        });
        self.active = Some(Active {
            id: header.id,
            base: first,
            crc,
            file,
            offset: 0,
            index: Index::default(),
            records: 0,
            dirty: false,
        });
        Ok(true)
    }

    /// Writes what is encoded and shows it to readers.
    fn flush(&mut self) -> Result<(), StoreError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        if self.out.is_empty() {
            return Ok(());
        }
        let written = active.file.write_at(active.offset as u64, &self.out);
        active.offset += self.out.len();
        if !active.dirty {
            active.dirty = true;
            self.unsynced.push(Arc::clone(&active.file));
        }
        let data_end = u32::try_from(active.offset).unwrap_or(u32::MAX);
        let id = active.id;
        written.map_err(|error| self.poison(error))?;
        Counters::add(&self.shared.counters.written_bytes, self.out.len() as u64);
        self.out.clear();
        let mut segments = self.shared.segments.write();
        let Some(segment) = segments.list.last_mut().filter(|last| last.id == id) else {
            return Ok(());
        };
        segment.data_end = data_end;
        segment.last = self.progress.written_record.max(segment.last);
        segment.checkpoint = self.current.newest_end;
        for record in self.fresh.drain(..) {
            segment.index.push(record.delta, record.offset);
            segment.index.push_pieces(record.delta, record.pieces);
            if record.named {
                segment.index.retain(record.delta, data_end);
            }
        }
        Ok(())
    }

    /// Ends the open segment: index, trailer, cut.
    fn seal(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        let Some(active) = self.active.take() else {
            return Ok(());
        };
        let tail = seal_bytes(
            &active.index,
            active.crc,
            &Trailer {
                last: self.progress.written_record,
                checkpoint: self.current.newest_end,
                durable: self.progress.synced_record,
                data_end: u32::try_from(active.offset).unwrap_or(u32::MAX),
                index_crc: 0,
            },
        );
        let end = active.offset as u64 + tail.len() as u64;
        active
            .file
            .write_at(active.offset as u64, &tail)
            .and_then(|()| active.file.truncate(end))
            .map_err(|error| self.poison(error))?;
        if !active.dirty {
            self.unsynced.push(active.file);
        }
        Counters::add(&self.shared.counters.written_bytes, tail.len() as u64);
        let mut segments = self.shared.segments.write();
        if let Some(segment) = segments.list.last_mut().filter(|last| last.id == active.id) {
            segment.sealed = true;
            segment.index.recount(segment.data_end);
        }
        Ok(())
    }
}

/// Index and trailer of a segment that ends here.
pub(super) fn seal_bytes(index: &Index, crc: u32, trailer: &Trailer) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(index.encoded_bytes_max() + TRAILER_BYTES);
    index.encode(&mut bytes);
    let trailer = Trailer {
        index_crc: crc32c::crc32c_append(crc, &bytes),
        ..trailer.clone()
    };
    bytes.extend_from_slice(&trailer.encode(crc));
    bytes
}

impl<P, D: Disk> fmt::Debug for Writer<P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

const HEADER_LENGTH: u32 = 64;
const _: () = assert!(HEADER_BYTES == HEADER_LENGTH as usize);
