//! Recovery of a data directory: examine, replay, cut, seal, begin anew.
//!
//! ```text
//!  read -> blocks and facts to `restore` -> open -> Restoring -> retain(lsn)... -> start -> Journal, Writer
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};

use super::append::seal_bytes;
use super::buffer::{Buffer, Payload};
use super::disk::{Disk, DiskFile};
use super::error::StoreError;
use super::examine::{Cut, Damage, Lost, Verdict, examine};
use super::format::{HEADER_BYTES, RecordKind, Trailer};
use super::format_file;
use super::journal::{DiskJournal, Shared};
use super::load::{DAMAGED_SUFFIX, Directory, Loaded, load};
use super::options::StoreOptions;
use super::prepare::segment_name;
use super::random::Random;
use super::scan::{Ending, Scanned};
use super::segments::{Segment, Segments};
use super::spill::SpillFiles;
use super::stats::Counters;
use super::writer::{Current, Progress, Writer};
use crate::base::locks::{RankedMutex, RankedRwLock};
use crate::base::{Lsn, Timestamp};

/// One item to restore, in this order: all blocks, then all facts by LSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restored<'a> {
    /// The wall-clock time of the last commit; comes first, if there was one.
    Stamp(Timestamp),
    /// A slice of the checkpoint.
    Block {
        /// The block's LSN: the next checkpoint may keep the block.
        lsn: Lsn,
        /// The payload as it was appended.
        payload: &'a [u8],
    },
    /// Facts appended after the checkpoint began; some may be in its blocks already.
    Facts {
        /// Their LSN, which also names the body they carry.
        lsn: Lsn,
        /// The payload as it was appended.
        payload: &'a [u8],
    },
}

/// What recovery found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Number of segments kept.
    pub segments: usize,
    /// Number of blocks of the checkpoint that were restored.
    pub blocks: u64,
    /// Number of facts replayed.
    pub facts: u64,
    /// Bytes read from the device.
    pub bytes_read: u64,
    /// Wall-clock time of the last commit, which tells how long the broker was down.
    pub stamp: Option<Timestamp>,
    /// Whether the last run stopped in order.
    pub closed: bool,
    /// Records that were durable and cannot be read.
    pub damage: Vec<Damage>,
    /// The tail that was cut off because it had never been confirmed.
    pub cut: Option<Cut>,
    /// Segments with a damaged header, by their names before they were renamed.
    pub set_aside: Vec<String>,
}

/// A store whose facts are restored: the caller says which bodies they refer to, then starts it.
pub struct Restoring<P: Payload, D: Disk> {
    journal: DiskJournal<P, D>,
    writer: Writer<P, D>,
    recovery: Recovery,
}

/// A data directory that was read and passed on. Nothing in it was changed so far: a caller that
/// refuses its content drops this.
pub struct Unopened<D: Disk> {
    disk: D,
    directory: Directory<D::File>,
    verdict: Verdict,
    recovery: Recovery,
}

/// Opens the store in a data directory and passes everything in it to `restore`. Bodies are not
/// read. `seed`: random.
pub fn open<P: Payload, D: Disk>(
    disk: D,
    options: StoreOptions,
    seed: u64,
    restore: impl FnMut(Restored<'_>),
) -> Result<Restoring<P, D>, StoreError> {
    read(disk, restore)?.open(options, seed)
}

/// Reads a data directory and passes everything in it to `restore`. Bodies are not read.
pub fn read<D: Disk>(
    disk: D,
    mut restore: impl FnMut(Restored<'_>),
) -> Result<Unopened<D>, StoreError> {
    format_file::refuse_newer(format_file::version(&disk)?.unwrap_or_default())?;
    let mut directory = load(&disk)?;
    let verdict = examine(&mut directory)?;
    directory.refuse_cluster()?;
    let mut recovery = Recovery {
        stamp: verdict.stamp,
        closed: verdict.closed,
        damage: verdict.damage.clone(),
        cut: verdict.cut.clone(),
        set_aside: directory.unreadable.clone(),
        ..Recovery::default()
    };
    if let Some(stamp) = verdict.stamp {
        restore(Restored::Stamp(stamp));
    }
    replay(&mut directory, &verdict, &mut recovery, &mut restore)?;
    Ok(Unopened {
        disk,
        directory,
        verdict,
        recovery,
    })
}

impl<D: Disk> Unopened<D> {
    /// Makes the directory agree with what was read. `seed`: random.
    pub fn open<P: Payload>(
        self,
        options: StoreOptions,
        seed: u64,
    ) -> Result<Restoring<P, D>, StoreError> {
        let Self {
            disk,
            mut directory,
            verdict,
            mut recovery,
        } = self;
        format_file::write_if_missing(&disk)?;
        settle(&disk, &mut directory, &verdict)?;
        recovery.segments = directory.segments.len();
        recovery.bytes_read = directory.bytes_read;
        recovery.log();
        Ok(assemble(disk, options, seed, &directory, verdict, recovery))
    }
}

impl<D: Disk> fmt::Debug for Unopened<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unopened")
            .field("recovery", &self.recovery)
            .finish_non_exhaustive()
    }
}

impl<P: Payload, D: Disk> Restoring<P, D> {
    /// What recovery found and did.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Notes that the restored state refers to a body. All others are released. False if it does
    /// not exist: its message is a damaged one. Fastest in LSN order.
    pub fn retain(&mut self, body: Lsn) -> bool {
        self.journal.shared.segments.write().retain(body)
    }

    /// Ends recovery: returns the handle to share, and the writer for its one thread.
    pub fn start(self) -> (DiskJournal<P, D>, Writer<P, D>) {
        (self.journal, self.writer)
    }
}

/// Makes the directory agree with the verdict: removes what was cut, seals all segments.
fn settle<D: Disk>(
    disk: &D,
    directory: &mut Directory<D::File>,
    verdict: &Verdict,
) -> Result<(), StoreError> {
    for name in directory.leftovers.drain(..) {
        disk.remove(&name)?;
    }
    for name in directory.unreadable.drain(..) {
        disk.rename(&name, &format!("{name}{DAMAGED_SUFFIX}"))?;
    }
    let removed = verdict.cut.as_ref().map(|cut| apply_cut(directory, cut));
    // The last process may have left writes that are with the operating system only.
    for segment in &directory.segments {
        if segment.scan.is_some() {
            segment.file.sync()?;
        }
    }
    let count = directory.segments.len();
    for (number, segment) in (1..).zip(&mut directory.segments) {
        // The last segment must tell how far the disk was durable: the part that is cut off behind
        // it may have been the only place that did, and without it damage would pass for a tail
        // next time.
        let witness = segment.trailer.as_ref().map(|trailer| trailer.durable);
        let mute = number == count && witness < Some(verdict.durable.min(segment.last));
        if segment.is_open() || mute {
            segment.seal(verdict)?;
        }
    }
    for segment in removed.into_iter().flatten().rev() {
        disk.remove(&segment_name(segment.header.id))?;
        disk.sync_directory()?;
    }
    disk.sync_directory()?;
    Ok(())
}

/// Removes what comes after the cut; returns the segments that are removed as a whole.
fn apply_cut<F>(directory: &mut Directory<F>, cut: &Cut) -> Vec<Loaded<F>> {
    let head = directory
        .segments
        .get_mut(cut.segment)
        .filter(|segment| cut.offset > HEADER_BYTES as u64 && cut.after >= segment.header.base);
    let kept = cut.segment + usize::from(head.is_some());
    if let Some(segment) = head {
        segment.trailer = None;
        segment.last = cut.after;
        segment.data_end = u32::try_from(cut.offset).unwrap_or(u32::MAX);
        let delta = cut.after.0.saturating_sub(segment.header.base.0);
        segment.index.cut(u32::try_from(delta).unwrap_or(u32::MAX));
    }
    let kept = kept.min(directory.segments.len());
    directory.segments.split_off(kept)
}

impl<F: DiskFile> Loaded<F> {
    /// Seals a segment whose records are on the device.
    fn seal(&mut self, verdict: &Verdict) -> Result<(), StoreError> {
        let end = if verdict.end <= self.last {
            verdict.end
        } else {
            Lsn(0)
        };
        let trailer = Trailer {
            last: self.last,
            newest_end: end,
            end_in_force: end,
            durable: self.last,
            data_end: self.data_end,
            index_crc: 0,
        };
        let tail = seal_bytes(&self.index, self.crc, &trailer);
        let end = u64::from(self.data_end) + tail.len() as u64;
        self.file.write_at(self.data_end.into(), &tail)?;
        self.file.truncate(end)?;
        self.file.sync()?;
        self.trailer = Some(trailer);
        Ok(())
    }
}

/// Passes blocks and facts on.
pub(super) fn replay<F: DiskFile>(
    directory: &mut Directory<F>,
    verdict: &Verdict,
    recovery: &mut Recovery,
    restore: &mut impl FnMut(Restored<'_>),
) -> Result<(), StoreError> {
    for lsn in &verdict.checkpoint.blocks {
        let record = directory.read(*lsn)?;
        let Some((_, payload)) = record.filter(|(kind, _)| *kind == RecordKind::Block) else {
            let lost = Damage::record(&directory.segments, Lost::Block, *lsn);
            recovery.damage.push(lost);
            continue;
        };
        recovery.blocks += 1;
        directory.bytes_read += payload.len() as u64;
        restore(Restored::Block {
            lsn: *lsn,
            payload: &payload,
        });
    }
    let begin = verdict.checkpoint.begin;
    for segment in &directory.segments {
        if segment.last < begin {
            continue;
        }
        segment.each_found(Ending::Blank, |found| {
            let Scanned::Frame { frame, payload, .. } = found else {
                return;
            };
            let lsn = segment.lsn(frame.delta);
            if frame.kind == RecordKind::Facts && lsn >= begin && lsn <= verdict.last {
                recovery.facts += 1;
                restore(Restored::Facts { lsn, payload });
            }
        })?;
    }
    Ok(())
}

/// The table of segments, with the valid checkpoint.
pub(super) fn segments_of<F>(directory: &Directory<F>, verdict: &Verdict) -> Segments<F> {
    let mut segments = Segments::default();
    for loaded in &directory.segments {
        let trailer = loaded.trailer.as_ref();
        segments.list.push(Segment {
            id: loaded.header.id,
            base: loaded.header.base,
            continues: loaded.header.continues,
            last: loaded.last,
            crc: loaded.crc,
            generation: loaded.header.generation,
            file: Arc::clone(&loaded.file),
            data_end: loaded.data_end,
            sealed: true,
            damaged: false,
            ends: trailer.map_or((Lsn(0), Lsn(0)), |trailer| {
                (trailer.newest_end, trailer.end_in_force)
            }),
            index: loaded.index.clone(),
        });
    }
    segments.retain(verdict.end);
    for block in &verdict.checkpoint.blocks {
        segments.retain(*block);
    }
    segments
}

fn assemble<P: Payload, D: Disk>(
    disk: D,
    options: StoreOptions,
    seed: u64,
    directory: &Directory<D::File>,
    verdict: Verdict,
    recovery: Recovery,
) -> Restoring<P, D> {
    let segments = segments_of(directory, &verdict);
    let newest_end = verdict.end;
    let upto = verdict.seen;
    let next = Lsn(upto.0.saturating_add(1));
    let buffer = Buffer::new(next);
    let shared = Arc::new(Shared {
        disk,
        backlog: buffer.backlog(),
        buffer: RankedMutex::new(buffer),
        segments: RankedRwLock::new(segments),
        durable: AtomicU64::new(upto.0),
        state: AtomicU8::new(0),
        poison: RankedMutex::new(None),
        counters: Counters::default(),
        spill: SpillFiles::new(0),
    });
    let progress = Progress {
        written: upto,
        written_record: verdict.last,
        synced: upto,
        synced_record: verdict.last,
    };
    let current = Current {
        end: verdict.end,
        checkpoint: verdict.checkpoint,
        newest_end,
    };
    let writer = Writer::new(
        Arc::clone(&shared),
        options,
        Random(seed),
        directory.next_id,
        progress,
        current,
    );
    Restoring {
        journal: DiskJournal { shared },
        writer,
        recovery,
    }
}

impl Recovery {
    fn log(&self) {
        for file in &self.set_aside {
            tracing::error!(
                file,
                "damage in the journal: the header of a segment cannot be read; it is set aside"
            );
        }
        for damage in &self.damage {
            tracing::error!("damage in the journal: {damage}");
        }
        if let Some(cut) = &self.cut {
            tracing::info!(
                file = cut.file,
                offset = cut.offset,
                after = cut.after.0,
                "the journal ends here: what follows was never confirmed"
            );
        }
    }
}

impl<P: Payload, D: Disk> fmt::Debug for Restoring<P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restoring")
            .field("recovery", &self.recovery)
            .finish_non_exhaustive()
    }
}
