//! The writer: takes the waiting records, encodes, writes and syncs them, and publishes the durable
//! LSN.
//!
//! ```text
//!            write(wall)                    sync()
//!  waiting -------------> written, commit rec ------> durable LSN moves; maintain() does the rest
//!               |
//!               +- segment full: seal it (index, trailer, cut), open a prepared one
//! ```
//!
//! It reads no clock and starts no thread: its driver does, and measures.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::append::{Active, Fresh, Put};
use super::buffer::{Batch, Payload, Slot};
use super::contract::StoreState;
use super::disk::{Disk, DiskFile};
use super::durable_lsn_file::DurableLsnFile;
use super::error::{DiskError, StoreError};
use super::format::{Checkpoint, FLAG_CLOSED};
use super::journal::Shared;
use super::options::{StoreOptions, SyncPolicy, WRITE_BYTES_MAX};
use super::outgoing::Outgoing;
use super::prepare::{Prepared, Recycled};
use super::random::Random;
use super::rewrite::Rewrite;
use super::stats::Counters;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Lsn, Timestamp, invariant};

/// Capacity for waiting records that is kept after a burst, in records.
const SPARE_RECORDS: usize = 8_192;

/// Writes one journal. Exactly one exists per journal; it belongs to one thread.
pub struct Writer<P: Payload, D: Disk> {
    pub(super) shared: Arc<Shared<P, D>>,
    pub(super) options: StoreOptions,
    pub(super) random: Random,
    pub(super) prepared: VecDeque<Prepared<D::File>>,
    /// Dead segments that are kept to be prepared again.
    pub(super) recycled: Vec<Recycled<D::File>>,
    pub(super) next_id: u64,
    /// Whether preparing a segment failed and nothing was freed since.
    pub(super) no_room: bool,
    /// Times in a row that no room could be had, though the disk was not full.
    pub(super) room_failures: u32,
    pub(super) current: Current,
    pub(super) rewrite: Option<Rewrite<D::File>>,
    pub(super) progress: Progress,
    /// Wall-clock time of the last commit, as the driver gave it.
    pub(super) wall: Timestamp,
    pub(super) active: Option<Active<D::File>>,
    pub(super) taken: Option<Batch<P>>,
    pub(super) spare: VecDeque<(Lsn, Slot<P>)>,
    pub(super) out: Outgoing,
    pub(super) fresh: Vec<Fresh>,
    /// What the last record of facts leaves for encoding the next.
    pub(super) before: P::Before,
    pub(super) unsynced: Vec<Arc<D::File>>,
    /// Writes the durable LSN beside the log.
    durable_lsn_file: DurableLsnFile<D::File>,
}

/// The checkpoint in force.
#[derive(Debug, Default)]
pub(super) struct Current {
    pub end: Lsn,
    pub checkpoint: Checkpoint,
    /// The newest end record written, durable or not.
    pub newest_end: Lsn,
}

/// How far the log is written and synced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Every LSN up to here is written or a gap.
    pub written: Lsn,
    /// The LSN of the last record written.
    pub written_record: Lsn,
    /// Every LSN up to here is on the device or a gap.
    pub synced: Lsn,
    /// The LSN of the last record on the device, which commit records carry.
    pub synced_record: Lsn,
}

/// The result of one [`Writer::write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrote {
    /// Number of records written.
    pub records: u64,
    /// Number of records that were elided while they waited.
    pub elided: u64,
    /// Whether records wait for a segment because the disk is full.
    pub stalled: bool,
    /// Whether a [`Writer::sync`] has something to do.
    pub unsynced: bool,
}

impl<P: Payload, D: Disk> Writer<P, D> {
    pub(super) fn new(
        shared: Arc<Shared<P, D>>,
        options: StoreOptions,
        random: Random,
        next_id: u64,
        progress: Progress,
        current: Current,
    ) -> Self {
        Self {
            out: Outgoing::new(options.device_block_bytes),
            shared,
            options,
            random,
            prepared: VecDeque::new(),
            recycled: Vec::new(),
            next_id,
            no_room: false,
            room_failures: 0,
            current,
            rewrite: None,
            progress,
            wall: Timestamp::default(),
            active: None,
            taken: None,
            spare: VecDeque::new(),
            fresh: Vec::new(),
            before: P::Before::default(),
            unsynced: Vec::new(),
            durable_lsn_file: DurableLsnFile::default(),
        }
    }

    /// Whether anything waits to be written.
    pub fn has_work(&self) -> bool {
        self.taken.is_some() || self.shared.buffer.lock().waiting_records > 0
    }

    /// Writes what waits, with a commit record with the time `wall`. Under the policies without a
    /// sync per commit this also publishes it.
    pub fn write(&mut self, wall: Timestamp) -> Result<Wrote, StoreError> {
        self.check()?;
        self.wall = wall;
        let durable = self.progress.synced_record;
        if self.durable_lsn_file.is_due(durable, wall) {
            self.write_durable_lsn(durable, wall);
        }
        let mut batch = self.taken.take().unwrap_or_else(|| {
            let spare = std::mem::take(&mut self.spare);
            self.shared.buffer.lock().take(spare)
        });
        let begin = self.place();
        let (mut records, mut elided, mut told) = (0, 0, 0);
        let mut stalled_at = None;
        // Records are freed in place after encoding, some at a time: moving them out first would
        // take longer.
        let mut put = 0;
        while let Some((first, _)) = batch.slots.get(put) {
            let (last, told_here) = last_told(&batch.slots, put);
            if let Some((lsn, slot)) = batch.slots.get(last)
                && slot.is_left()
            {
                if let Put::NoRoom = self.put_slot(*lsn, slot)? {
                    // What it tells for others waits with it.
                    stalled_at = Some(*first);
                    break;
                }
                records += 1;
            } else {
                elided += 1;
            }
            told += told_here;
            elided += (last - put) as u64;
            put = last + 1;
            if self.out.fresh_bytes() >= WRITE_BYTES_MAX {
                batch.slots.drain(..put);
                put = 0;
                self.flush()?;
            }
        }
        batch.slots.drain(..put);
        let upto = if let Some(lsn) = stalled_at {
            self.taken = Some(batch);
            Lsn(lsn.0 - 1)
        } else {
            if records > 0 {
                // Without room for it the commit record is left out: the log can be read without
                // it.
                self.put_commit_record(batch.commit_record, wall, 0, begin)?;
            }
            self.spare = batch.slots;
            self.spare.shrink_to(SPARE_RECORDS);
            batch.commit_record
        };
        self.flush()?;
        let upto = self.shared.buffer.lock().confirmable(upto);
        self.progress.written = self.progress.written.max(upto);
        Counters::add(&self.shared.counters.records, records);
        Counters::add(&self.shared.counters.elided, told);
        Counters::add(&self.shared.counters.commits, u64::from(records > 0));
        self.publish();
        Ok(Wrote {
            records,
            elided,
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
            active.is_dirty = false;
        }
        self.progress.synced = self.progress.written;
        self.progress.synced_record = self.progress.written_record;
        self.publish();
        Ok(self.progress.synced)
    }

    /// Records how long a [`Writer::sync`] took.
    pub fn observe_sync(&self, duration_us: u64) {
        self.shared.counters.observe_sync(duration_us);
    }

    /// Stops in order: everything written and synced, a last commit record that says so, and no
    /// segment open.
    pub fn close(&mut self, wall: Timestamp) -> Result<(), StoreError> {
        self.write(wall)?;
        self.sync()?;
        if self.taken.is_some() || self.active.is_none() {
            return Ok(());
        }
        let commit_record = self.shared.buffer.lock().take_lsn();
        self.put_commit_record(commit_record, wall, FLAG_CLOSED, None)?;
        self.flush()?;
        self.progress.written = commit_record;
        self.sync()?;
        self.seal()?;
        self.sync()?;
        self.write_durable_lsn(self.progress.synced_record, wall);
        Ok(())
    }

    fn write_durable_lsn(&mut self, durable: Lsn, wall: Timestamp) {
        // Nothing that was confirmed depends on this.
        if let Err(error) = self
            .durable_lsn_file
            .write(&self.shared.disk, durable, wall)
        {
            tracing::warn!(%error, "how far the journal is durable is not told beside it");
        }
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

    /// Poisons the store: after a failed write or sync nothing is known about the device, so
    /// nothing is confirmed any more, and nothing is tried again.
    pub(super) fn poison(&self, error: DiskError) -> StoreError {
        self.shared
            .poison
            .lock()
            .get_or_insert_with(|| error.clone());
        self.shared.set_state(StoreState::Poisoned);
        tracing::error!(
            %error,
            "the journal cannot be written: nothing is confirmed any more, publishers are stopped. \
             Stop the broker, repair the disk, start it again: what was confirmed is there"
        );
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
        #[cfg(test)]
        let durable = if is_planted(Plant::DurableBeforeSync) {
            self.progress.written
        } else {
            durable
        };
        self.shared.durable.fetch_max(durable.0, Ordering::AcqRel);
    }
}

/// The record to write for the one at `at`: that one, or the last of those behind it of which each tells
/// all that the one before it does, with no other record between; and the number of those in front of it
/// that were left until now.
fn last_told<P: Payload>(slots: &VecDeque<(Lsn, Slot<P>)>, at: usize) -> (usize, u64) {
    let (mut last, mut told) = (at, 0);
    while let Some((_, slot)) = slots.get(last)
        && slot.may_be_told()
    {
        let mut behind = slots.range(last + 1..);
        let Some(gone) = behind.position(|(_, slot)| slot.is_left()) else {
            invariant!(slot.is_left(), "what tells a record is taken with it");
            break;
        };
        let next = last + 1 + gone;
        match (slot, slots.get(next)) {
            (Slot::Told, _) => {}
            (Slot::Facts(payload), Some((_, Slot::Facts(behind))))
                if payload.is_told_by(behind) =>
            {
                told += 1;
            }
            _ => break,
        }
        last = next;
    }
    (last, told)
}

impl<P: Payload, D: Disk> fmt::Debug for Writer<P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
