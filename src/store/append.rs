//! Writing records into segments: encode, roll to the next segment, write, publish to readers,
//! seal.
//!
//! ```text
//!  put -> out (encoded) --flush--> file and the readers' index
//!           | does not fit
//!           +-> seal: index, trailer, cut -> open_segment: a prepared one gets its header
//! ```

use std::sync::Arc;

use super::buffer::{Body, Payload, Slot};
use super::disk::{Disk, DiskFile};
use super::error::{DiskError, DiskErrorKind, DiskOperation, StoreError};
use super::format::{
    Agreed, COMMIT_RECORD_BYTES, CommitRecord, FLAG_NAMED, HEADER_BYTES, Header, RecordKind,
    TRAILER_BYTES, Trailer, encode_list, frame_span,
};
use super::index::Index;
use super::options::SyncPolicy;
use super::prepare::segment_name;
use super::segments::Segment;
use super::stats::Counters;
use super::writer::Writer;
use crate::base::{Lsn, Timestamp, invariant};

/// The segment that is being written.
#[derive(Debug)]
pub(super) struct Active<F> {
    id: u64,
    base: Lsn,
    crc: u32,
    file: Arc<F>,
    /// A second handle, for direct writes of whole blocks; none: they are not supported or not
    /// wanted.
    direct: Option<F>,
    /// The index of all records, those in `out` included, unlike the one that readers use.
    index: Index,
    records: u64,
    /// Whether it has bytes that were not synced.
    pub is_dirty: bool,
}

/// A record in `out`, for the readers' index once it is written.
#[derive(Debug)]
pub(super) struct Fresh {
    delta: u32,
    offset: u32,
    named: bool,
}

/// Whether a record was encoded into `out`.
pub(super) enum Put {
    Done,
    NoRoom,
}

impl<P: Payload, D: Disk> Writer<P, D> {
    pub(super) fn put_slot(&mut self, lsn: Lsn, slot: &Slot<P>) -> Result<Put, StoreError> {
        let put = match slot {
            Slot::Gone | Slot::Told => Put::Done,
            Slot::Facts(payload) => {
                let named = match payload.body() {
                    Body::Carried => FLAG_NAMED,
                    Body::None => 0,
                };
                let mut before = std::mem::take(&mut self.before);
                let put = self.put(lsn, RecordKind::Facts, named, &[], |out| {
                    payload.encode_after(&mut before, out);
                });
                self.before = before;
                put?
            }
            Slot::Block(payload) => self.put(lsn, RecordKind::Block, FLAG_NAMED, &[], |out| {
                payload.encode(out);
            })?,
            Slot::Piece(bytes) => self.put(lsn, RecordKind::Piece, FLAG_NAMED, &[], |out| {
                out.extend_from_slice(bytes);
            })?,
            Slot::Body { pieces, bytes } => {
                self.put(lsn, RecordKind::Body, FLAG_NAMED, pieces, |out| {
                    encode_list(pieces, out);
                    out.extend_from_slice(bytes);
                })?
            }
            Slot::End(checkpoint) => {
                let put = self.put(lsn, RecordKind::End, FLAG_NAMED, &[], |out| {
                    checkpoint.encode(out);
                })?;
                if matches!(put, Put::Done) {
                    self.current.newest_end = lsn;
                }
                put
            }
        };
        Ok(put)
    }

    /// Where the next record goes: the id of the segment and the offset in it.
    pub(super) fn place(&self) -> Option<(u64, usize)> {
        let active = self.active.as_ref()?;
        Some((active.id, self.out.end()))
    }

    /// Closes the commit that began at `begin`.
    pub(super) fn put_commit_record(
        &mut self,
        lsn: Lsn,
        wall: Timestamp,
        flags: u8,
        begin: Option<(u64, usize)>,
    ) -> Result<(), StoreError> {
        let Some((id, offset)) = self.place() else {
            return Ok(());
        };
        if !self.fits(lsn, COMMIT_RECORD_BYTES, 0) {
            return Ok(());
        }
        let block = self.options.device_block_bytes as usize;
        let begin = begin.filter(|(begun, _)| *begun == id);
        let padding = begin.map_or(0, |(_, begin)| {
            padding(begin, offset + frame_span(COMMIT_RECORD_BYTES), block)
        });
        let padding = if self.fits(lsn, COMMIT_RECORD_BYTES + padding, 0) {
            padding
        } else {
            0
        };
        let commit_record = CommitRecord {
            wall,
            durable: self.progress.synced_record,
            agreed: Agreed::default(),
        };
        let encode = |out: &mut Vec<u8>| commit_record.encode(padding, out);
        self.put(lsn, RecordKind::CommitRecord, flags, &[], encode)?;
        Ok(())
    }

    /// Encodes one record behind the others, in the next segment if this one is full.
    fn put(
        &mut self,
        lsn: Lsn,
        kind: RecordKind,
        flags: u8,
        pieces: &[Lsn],
        mut encode: impl FnMut(&mut Vec<u8>),
    ) -> Result<Put, StoreError> {
        for _attempt in 0..2 {
            if self.active.is_none() && !self.open_segment(lsn)? {
                return Ok(Put::NoRoom);
            }
            let (begin, payload_bytes) = self.out.begin_frame(&mut encode);
            if self.fits_at(lsn, begin, payload_bytes, pieces.len()) {
                self.finish_record(lsn, begin, kind, flags, pieces)?;
                return Ok(Put::Done);
            }
            if self.is_blank() {
                return self.put_alone(lsn, (begin, payload_bytes), kind, flags, pieces);
            }
            self.out.cut(begin);
            self.seal()?;
        }
        Ok(Put::NoRoom)
    }

    /// Whether the open segment has no record yet.
    fn is_blank(&self) -> bool {
        let active = self.active.as_ref();
        active.is_some_and(|active| active.records == 0)
    }

    /// Puts a record that is larger than a segment into one of its own, as large as needed. The
    /// room is reserved first: without it the record waits, as on every full disk.
    fn put_alone(
        &mut self,
        lsn: Lsn,
        (begin, payload_bytes): (usize, usize),
        kind: RecordKind,
        flags: u8,
        pieces: &[Lsn],
    ) -> Result<Put, StoreError> {
        let needed = self.end_at(begin, payload_bytes, pieces.len());
        let Ok(needed) = u32::try_from(needed) else {
            // No setting allows a message of that size, and a record ends after each message.
            let bytes = payload_bytes;
            let error = StoreError::RecordTooLarge { bytes };
            return Err(self.poison(DiskError {
                operation: DiskOperation::Write,
                name: "journal".to_owned(),
                kind: DiskErrorKind::Failed,
                message: error.to_string(),
            }));
        };
        let file = self.active.as_ref().map(|active| Arc::clone(&active.file));
        let reserved = file.map_or(Ok(()), |file| file.preallocate(u64::from(needed)));
        if let Err(error) = reserved {
            self.out.cut(begin);
            self.lack_room(&error);
            return Ok(Put::NoRoom);
        }
        self.finish_record(lsn, begin, kind, flags, pieces)?;
        self.have_room();
        Ok(Put::Done)
    }

    fn finish_record(
        &mut self,
        lsn: Lsn,
        begin: usize,
        kind: RecordKind,
        flags: u8,
        pieces: &[Lsn],
    ) -> Result<(), StoreError> {
        let Some(active) = &mut self.active else {
            invariant!(broken, "a record is put into an open segment");
            return Err(self.lost(lsn));
        };
        let delta = lsn.0.wrapping_sub(active.base.0);
        let (Ok(delta), Ok(offset)) = (u32::try_from(delta), u32::try_from(begin)) else {
            invariant!(broken, "a record is put where its segment can name it");
            return Err(self.lost(lsn));
        };
        self.out.end_frame(begin, active.crc, delta, kind, flags);
        active.records += 1;
        active.index.push(delta, offset);
        if !pieces.is_empty() {
            active.index.push_pieces(delta, pieces.into());
        }
        self.progress.written_record = lsn;
        self.fresh.push(Fresh {
            delta,
            offset,
            named: flags & FLAG_NAMED != 0,
        });
        Ok(())
    }

    /// Poisons the store: a record would count as written and is nowhere, so nothing may be
    /// confirmed any more.
    #[cold]
    fn lost(&self, lsn: Lsn) -> StoreError {
        self.poison(DiskError {
            operation: DiskOperation::Write,
            name: "journal".to_owned(),
            kind: DiskErrorKind::Failed,
            message: format!("record {} has no place in a segment", lsn.0),
        })
    }

    fn fits(&self, lsn: Lsn, payload_bytes: usize, pieces: usize) -> bool {
        self.fits_at(lsn, self.out.end(), payload_bytes, pieces)
    }

    /// Whether a record at `begin` leaves room for the index in this segment.
    fn fits_at(&self, lsn: Lsn, begin: usize, payload_bytes: usize, pieces: usize) -> bool {
        let Some(active) = &self.active else {
            return false;
        };
        let near = lsn.0.saturating_sub(active.base.0) < u64::from(u32::MAX / 2);
        let end = self.end_at(begin, payload_bytes, pieces);
        near && end <= self.options.segment_bytes as usize
    }

    /// The offset at which the segment would end with a record at `begin` as its last.
    fn end_at(&self, begin: usize, payload_bytes: usize, pieces: usize) -> usize {
        let active = self.active.as_ref();
        let index = active.map_or(0, |active| active.index.encoded_bytes_max());
        begin + frame_span(payload_bytes) + index + 12 + pieces * 8 + TRAILER_BYTES
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
        self.out.begin();
        self.out.extend(&bytes);
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
            ends: (self.current.newest_end, self.current.end),
            index: Index::default(),
        });
        self.active = Some(Active {
            id: header.id,
            base: first,
            crc,
            direct: self.open_direct(prepared.id),
            file,
            index: Index::default(),
            records: 0,
            is_dirty: false,
        });
        Ok(true)
    }

    /// A handle for direct writes, which go to the device at once; that pays only if they are
    /// synced at once.
    fn open_direct(&self, id: u64) -> Option<D::File> {
        match self.options.sync {
            SyncPolicy::Always => self.shared.disk.open_direct(&segment_name(id)).ok(),
            SyncPolicy::Interval { .. } | SyncPolicy::Never => None,
        }
    }

    /// Writes the encoded records and publishes them to readers.
    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        if !self.write_out()? {
            return Ok(());
        }
        let Some(active) = &self.active else {
            invariant!(broken, "what was written is in an open segment");
            return Err(self.lost(self.progress.written_record));
        };
        let data_end = u32::try_from(self.out.end()).unwrap_or(u32::MAX);
        let mut segments = self.shared.segments.write();
        let last = segments.list.last_mut();
        let Some(segment) = last.filter(|last| last.id == active.id) else {
            drop(segments);
            invariant!(broken, "the open segment is the last one");
            return Err(self.lost(self.progress.written_record));
        };
        segment.data_end = data_end;
        segment.last = self.progress.written_record.max(segment.last);
        segment.ends = (self.current.newest_end, self.current.end);
        let mut near = segment.index.last_block();
        for record in &self.fresh {
            segment.index.push(record.delta, record.offset);
        }
        // Only now the end of each record's block is known.
        for record in self.fresh.drain(..).filter(|record| record.named) {
            segment.index.retain(record.delta, data_end, &mut near);
            let pieces = active.index.pieces(record.delta);
            if !pieces.is_empty() {
                segment.index.push_pieces(record.delta, pieces.into());
            }
        }
        Ok(())
    }

    /// Writes the encoded records; false if there are none.
    fn write_out(&mut self) -> Result<bool, StoreError> {
        let Some(active) = &mut self.active else {
            return Ok(false);
        };
        if self.out.fresh_bytes() == 0 {
            return Ok(false);
        }
        if !std::mem::replace(&mut active.is_dirty, true) {
            self.unsynced.push(Arc::clone(&active.file));
        }
        let end = self.out.end();
        let (offset, bytes) = self.out.blocks(self.options.segment_bytes as usize);
        let written_bytes = bytes.len() as u64;
        let file = active.direct.as_ref().unwrap_or(&active.file);
        let written = file.write_at(offset as u64, bytes);
        written.map_err(|error| self.poison(error))?;
        self.out.wrote(end);
        Counters::add(&self.shared.counters.written_bytes, written_bytes);
        Ok(true)
    }

    /// Seals the open segment: index, trailer, cut.
    pub(super) fn seal(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        let Some(active) = &self.active else {
            return Ok(());
        };
        let data_end = self.out.end();
        let tail = seal_bytes(
            &active.index,
            active.crc,
            &Trailer {
                last: self.progress.written_record,
                newest_end: self.current.newest_end,
                end_in_force: self.current.end,
                durable: self.progress.synced_record,
                data_end: u32::try_from(data_end).unwrap_or(u32::MAX),
                index_crc: 0,
            },
        );
        self.out.extend(&tail);
        self.write_out()?;
        let Some(active) = self.active.take() else {
            return Ok(());
        };
        let end = self.out.end() as u64;
        let cut = active.file.truncate(end);
        cut.map_err(|error| self.poison(error))?;
        let mut segments = self.shared.segments.write();
        if let Some(segment) = segments.list.last_mut().filter(|last| last.id == active.id) {
            segment.sealed = true;
            segment.index.recount(segment.data_end);
        }
        Ok(())
    }
}

/// How many zeros are appended to a commit record that ends, without them, at `end`, in a commit
/// from `begin` on: they fill a block that is written anyway, when the next commit of this size
/// would touch two. Never more than half a block, so that small records do not take twice their
/// space.
fn padding(begin: usize, end: usize, block: usize) -> usize {
    let (size, rest) = (end - begin, end.next_multiple_of(block) - end);
    if size <= block && rest < size && rest <= block / 2 {
        rest
    } else {
        0
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

const HEADER_LENGTH: u32 = 64;
const _: () = assert!(HEADER_BYTES == HEADER_LENGTH as usize);

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::padding;

    #[rstest]
    #[case::the_next_fits(0, 1_300, 0)]
    #[case::the_next_would_touch_two_blocks(2_600, 3_900, 196)]
    #[case::nothing_is_left(2_800, 4_096, 0)]
    #[case::too_much_would_be_lost(4_096, 4_096 + 2_040, 0)]
    #[case::half_a_block_is_not_too_much(4_096, 4_096 + 2_056, 2_040)]
    #[case::a_large_commit_touches_many_anyway(64, 64 + 4_104, 0)]
    fn a_commit_is_padded_when_the_next_would_touch_two_blocks(
        #[case] begin: usize,
        #[case] end: usize,
        #[case] expect: usize,
    ) {
        assert_eq!(padding(begin, end, 4_096), expect);
    }
}
