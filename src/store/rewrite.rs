//! Rewriting of one sparse segment under the same LSNs.
//!
//! ```text
//!  choose -> copy live frames block by block into ID.tmp -> index, trailer, sync -> rename ID.seg
//!    ^           | bad bytes, disk error, segment died             directory sync, table swapped
//!    +-----------+-> abandoned: ID.tmp removed, the old segment goes on
//! ```

use std::sync::Arc;

use super::append::seal_bytes;
use super::buffer::Payload;
use super::disk::{Disk, DiskFile, read_range};
use super::error::{DiskError, DiskErrorKind};
use super::format::{
    Cursor, FLAG_NAMED, HEADER_BYTES, Header, RecordKind, Trailer, begin_frame, end_frame,
};
use super::index::Index;
use super::prepare::{segment_name, temporary_name};
use super::scan::{Ending, Scanned, Scanner};
use super::segments::Segment;
use super::stats::Counters;
use super::writer::Writer;
use crate::base::{Lsn, invariant};

/// A rewriting under way.
#[derive(Debug)]
pub(super) struct Rewrite<F> {
    id: u64,
    last: Lsn,
    ends: (Lsn, Lsn),
    generation: u32,
    source: Arc<F>,
    source_crc: u32,
    /// Number of the next block of the source to copy.
    block: usize,
    target: F,
    target_crc: u32,
    offset: usize,
    index: Index,
}

/// Why a rewriting was abandoned.
enum Trouble {
    /// The source cannot be read: it is never tried again.
    Damaged,
    /// The target cannot be written.
    Disk(DiskError),
}

impl From<DiskError> for Trouble {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl<F> Rewrite<F> {
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl<P: Payload, D: Disk> Writer<P, D> {
    /// Continues a rewriting, or begins one. True if there is more to do.
    pub(super) fn rewrite_step(&mut self, io_bytes: usize) -> bool {
        let mut rewrite = match self.rewrite.take() {
            Some(rewrite) => rewrite,
            None => match self.begin_rewrite() {
                Some(Ok(rewrite)) => rewrite,
                Some(Err(error)) => {
                    tracing::debug!(%error, "a sparse journal segment waits for room");
                    return false;
                }
                None => return false,
            },
        };
        let id = rewrite.id;
        let result = match self.copy_blocks(&mut rewrite, io_bytes) {
            Ok(false) => {
                self.rewrite = Some(rewrite);
                return true;
            }
            Ok(true) => self.finish_rewrite(rewrite),
            Err(trouble) => Err(trouble),
        };
        if let Err(trouble) = result {
            let mut segments = self.shared.segments.write();
            if let Some(segment) = segments.list.iter_mut().find(|segment| segment.id == id) {
                segment.damaged = true;
            }
            drop(segments);
            match trouble {
                Trouble::Damaged => tracing::warn!(segment = id, "a journal segment is damaged"),
                Trouble::Disk(error) => {
                    tracing::warn!(%error, "a sparse journal segment was not rewritten");
                }
            }
            self.remove_temporary(id);
        }
        true
    }

    /// Abandons a rewriting that has become pointless.
    pub(super) fn abandon_rewrite(&mut self) {
        if let Some(rewrite) = self.rewrite.take() {
            self.remove_temporary(rewrite.id);
        }
    }

    fn remove_temporary(&self, id: u64) {
        // If it stays, the next start removes it.
        let _ = self.shared.disk.remove(&temporary_name(id));
    }

    /// Chooses the sparsest segment below the checkpoint, if one is sparse enough.
    fn begin_rewrite(&mut self) -> Option<Result<Rewrite<D::File>, DiskError>> {
        let percent = u64::from(self.options.rewrite_below_percent);
        let covered = self.covered();
        let segments = self.shared.segments.read();
        // Without the header, which would make a segment of one small record sparse for ever.
        let share = |segment: &Segment<D::File>| {
            let records = u64::from(segment.data_end).saturating_sub(HEADER_BYTES as u64);
            segment.index.live_bytes() * 100 / records.max(1)
        };
        let sparse = segments.list.iter().filter(|segment| {
            segment.sealed
                && !segment.damaged
                && segment.last < covered
                && segment.index.live_records() > 0
                && share(segment) < percent
        });
        let chosen = sparse.min_by_key(|segment| share(segment))?;
        let [a, b, c, d, ..] = self.random.draw().to_le_bytes();
        let header = Header {
            id: chosen.id,
            base: chosen.base,
            continues: chosen.continues,
            wall: self.wall,
            seed: u32::from_le_bytes([a, b, c, d]),
            generation: chosen.generation.saturating_add(1),
        };
        let (bytes, target_crc) = header.encode();
        let room = chosen.index.live_bytes() + u64::from(chosen.data_end) / 64;
        let name = temporary_name(chosen.id);
        let target = self.shared.disk.create(&name).and_then(|target| {
            target.preallocate(room)?;
            target.write_at(0, &bytes)?;
            Ok(target)
        });
        let target = match target {
            Ok(target) => target,
            // On a full disk the reserved segments serve here too: rewriting is what makes room.
            Err(error) if error.kind == DiskErrorKind::Full && self.prepared.len() > 1 => {
                let prepared = self.prepared.pop_front()?;
                let renamed = self.shared.disk.rename(&segment_name(prepared.id), &name);
                let written = renamed.and_then(|()| prepared.file.write_at(0, &bytes));
                match written {
                    Ok(()) => prepared.file,
                    Err(error) => return Some(Err(error)),
                }
            }
            Err(error) => {
                let id = chosen.id;
                drop(segments);
                self.remove_temporary(id);
                return Some(Err(error));
            }
        };
        Some(Ok(Rewrite {
            id: chosen.id,
            last: chosen.last,
            ends: chosen.ends,
            generation: header.generation,
            source: Arc::clone(&chosen.file),
            source_crc: chosen.crc,
            block: 0,
            target,
            target_crc,
            offset: HEADER_BYTES,
            index: Index::default(),
        }))
    }

    /// Copies live frames until about `io_bytes` were read or written. True at the end.
    fn copy_blocks(
        &mut self,
        rewrite: &mut Rewrite<D::File>,
        io_bytes: usize,
    ) -> Result<bool, Trouble> {
        let mut out = Vec::new();
        let mut spent = 0;
        let mut done = false;
        while spent < io_bytes.max(1) {
            let block = {
                let segments = self.shared.segments.read();
                let segment = segments.find(rewrite.last).ok_or(Trouble::Damaged)?;
                segment.index.block(rewrite.block, segment.data_end)
            };
            let Some(block) = block else {
                done = true;
                break;
            };
            rewrite.block += 1;
            if block.live_records == 0 {
                continue;
            }
            let length = block.to.saturating_sub(block.from) as usize;
            let bytes = read_range(&*rewrite.source, u64::from(block.from), length)
                .map_err(|_| Trouble::Damaged)?;
            spent += bytes.len();
            rewrite.copy_live(&bytes, &mut out, |delta| block.is_live(delta))?;
        }
        rewrite.target.write_at(rewrite.offset as u64, &out)?;
        rewrite.offset += out.len();
        Counters::add(&self.shared.counters.rewritten_bytes, out.len() as u64);
        Ok(done)
    }

    /// Makes the copy durable and replaces the old segment by it.
    fn finish_rewrite(&mut self, rewrite: Rewrite<D::File>) -> Result<(), Trouble> {
        let data_end = u32::try_from(rewrite.offset).unwrap_or(u32::MAX);
        let trailer = Trailer {
            last: rewrite.last,
            newest_end: rewrite.ends.0,
            end_in_force: rewrite.ends.1,
            durable: rewrite.last,
            data_end,
            index_crc: 0,
        };
        let tail = seal_bytes(&rewrite.index, rewrite.target_crc, &trailer);
        rewrite.target.write_at(rewrite.offset as u64, &tail)?;
        rewrite
            .target
            .truncate((rewrite.offset + tail.len()) as u64)?;
        rewrite.target.sync()?;
        let name = segment_name(rewrite.id);
        let disk = &self.shared.disk;
        disk.rename(&temporary_name(rewrite.id), &name)?;
        // From here on the name is that of the copy, also if the directory cannot be synced: a segment
        // whose file is not the one of its name would be recycled as the other one. After a power cut
        // either may be found, and both are right.
        let synced = self.shared.disk.sync_directory();
        let mut segments = self.shared.segments.write();
        let Some(segment) = segments.find_mut(rewrite.last) else {
            drop(segments);
            invariant!(broken, "a segment that was rewritten is there");
            return Ok(());
        };
        let mut index = rewrite.index;
        index.retain_from(&segment.index, data_end);
        segment.index = index;
        segment.crc = rewrite.target_crc;
        segment.file = Arc::new(rewrite.target);
        segment.data_end = data_end;
        segment.generation = rewrite.generation;
        drop(segments);
        Counters::add(&self.shared.counters.segments_rewritten, 1);
        self.no_room = false;
        synced.map_err(Trouble::Disk)
    }
}

impl<F: DiskFile> Rewrite<F> {
    /// Copies the live frames of one block, with new CRCs for the target.
    fn copy_live(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        is_live: impl Fn(u32) -> bool,
    ) -> Result<(), Trouble> {
        for found in Scanner::new(bytes, self.source_crc, 0, Ending::Exact) {
            let Scanned::Frame { frame, payload, .. } = found else {
                return Err(Trouble::Damaged);
            };
            // A frame that is referred to is kept, whatever its flags.
            if !is_live(frame.delta) {
                continue;
            }
            let offset = u32::try_from(self.offset + out.len()).map_err(|_| Trouble::Damaged)?;
            let start = begin_frame(out);
            out.extend_from_slice(payload);
            end_frame(
                out,
                start,
                self.target_crc,
                frame.delta,
                frame.kind,
                FLAG_NAMED,
            );
            self.index.push(frame.delta, offset);
            if frame.kind == RecordKind::Body {
                let pieces = Cursor(payload).list().ok_or(Trouble::Damaged)?;
                self.index.push_pieces(frame.delta, pieces.into());
            }
        }
        Ok(())
    }
}
