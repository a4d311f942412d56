//! The handle of the journal: append, amend, release, and what is durable.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::buffer::{
    Appending, Backlog, Buffer, Payload, Reservation, Running, SharedBacklog, Slot, Wake,
};
use super::contract::{Journal, StoreState};
use super::disk::Disk;
use super::error::{DiskError, ReadError};
use super::format::Checkpoint;
use super::segments::Segments;
use super::spill::SpillFiles;
use super::stats::{Counters, StoreStats};
use crate::base::Lsn;
use crate::base::locks::{RankedMutex, RankedRwLock, rank};
use bytes::Bytes;

/// A journal. Clones share it. Appends are cheap: the work is done by the one
/// [`super::writer::Writer`].
pub struct DiskJournal<P, D: Disk> {
    pub(super) shared: Arc<Shared<P, D>>,
}

pub(super) struct Shared<P, D: Disk> {
    pub disk: D,
    pub buffer: RankedMutex<rank::JournalBuffer, Buffer<P>>,
    /// The amount that waits in the buffer, readable without its lock.
    pub backlog: Arc<SharedBacklog>,
    pub segments: RankedRwLock<rank::JournalSegments, Segments<D::File>>,
    /// The LSN that confirmations wait for, under the sync policy.
    pub durable: AtomicU64,
    pub state: AtomicU8,
    pub poison: RankedMutex<rank::JournalPoison, Option<DiskError>>,
    pub counters: Counters,
    pub spill: SpillFiles<D::File>,
}

impl<P: Payload, D: Disk> DiskJournal<P, D> {
    /// Appends one record of facts under the next LSN.
    pub fn append(&self, payload: P) -> (Lsn, Wake) {
        self.shared.buffer.lock().push(Slot::Facts(payload))
    }

    /// Appends a piece of a large body, except the last, of at most
    /// [`super::options::PIECE_BYTES_MAX`] bytes. If the body is never finished, the piece must be
    /// released.
    pub fn append_piece(&self, bytes: Bytes) -> (Lsn, Wake) {
        Counters::add(&self.shared.counters.payload_bytes, bytes.len() as u64);
        self.shared.buffer.lock().push(Slot::Piece(bytes))
    }

    /// Appends a body before the facts that will refer to it by this LSN: the LSNs of its `pieces`,
    /// in order, and its last bytes. Releasing it releases the pieces.
    pub fn append_body(&self, pieces: Box<[Lsn]>, bytes: Bytes) -> (Lsn, Wake) {
        Counters::add(&self.shared.counters.payload_bytes, bytes.len() as u64);
        self.shared.buffer.lock().push(Slot::Body { pieces, bytes })
    }

    /// Keeps a body as long as the `Arc` of its LSN is held, even if it is released meanwhile: so a
    /// reader that reads it in pieces can read all of it.
    pub fn pin(&self, body: &Arc<Lsn>) {
        let mut buffer = self.shared.buffer.lock();
        let readers = buffer.pinned.entry(**body).or_default();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(body));
    }

    /// The error that poisoned the store, if it is poisoned.
    pub fn poison(&self) -> Option<DiskError> {
        self.shared.poison.lock().clone()
    }

    /// Bytes that wait to be written, and bytes of all records ever appended.
    pub fn waiting_bytes(&self) -> (usize, u64) {
        let buffer = self.shared.buffer.lock();
        (buffer.waiting_bytes, buffer.arrived_bytes)
    }

    /// The amount that waits to be written. Takes no lock.
    pub fn waiting(&self) -> Backlog {
        self.shared.backlog.load()
    }

    /// Bytes that are free on its disk.
    pub fn free_bytes(&self) -> Result<u64, DiskError> {
        self.shared.disk.free_bytes()
    }

    /// Begins a checkpoint: the caller then copies its state in slices. False if one is under way.
    pub fn begin_checkpoint(&self) -> bool {
        let mut buffer = self.shared.buffer.lock();
        if buffer.running.is_some() {
            return false;
        }
        let begin = buffer.first_open();
        buffer.running = Some(Running {
            checkpoint: Checkpoint {
                begin,
                seen: Lsn(begin.0.saturating_sub(1)),
                previous: Lsn(0),
                blocks: Vec::new(),
            },
            own: Vec::new(),
            copied: false,
            end: None,
        });
        true
    }

    /// Appends one slice of the state; to be called under the lock that keeps the slice from
    /// changing. The LSN names the block, so that the next checkpoint can keep it.
    pub fn append_block(&self, payload: P) -> (Lsn, Wake) {
        let mut buffer = self.shared.buffer.lock();
        let (lsn, wake) = buffer.push(Slot::Block(payload));
        buffer.saw();
        if let Some(running) = &mut buffer.running {
            running.checkpoint.blocks.push(lsn);
            running.own.push(lsn);
        }
        (lsn, wake)
    }

    /// Takes over a block of the last checkpoint that is still valid.
    pub fn keep_block(&self, block: Lsn) {
        let mut buffer = self.shared.buffer.lock();
        buffer.saw();
        if let Some(running) = &mut buffer.running {
            running.checkpoint.blocks.push(block);
        }
    }

    /// Notes that all is copied. The checkpoint is in force once it is durable.
    pub fn end_checkpoint(&self) -> Wake {
        let mut buffer = self.shared.buffer.lock();
        if let Some(running) = &mut buffer.running {
            running.copied = true;
        }
        Wake::First
    }

    /// Abandons the checkpoint under way; the last one stays in force. All its blocks have lower
    /// LSNs than the one returned.
    pub fn abandon_checkpoint(&self) -> Lsn {
        let mut buffer = self.shared.buffer.lock();
        let next = buffer.next_lsn();
        let Some(running) = buffer.running.take_if(|running| running.end.is_none()) else {
            return next;
        };
        for block in running.own {
            buffer.releases.push_back((block, block));
        }
        next
    }

    /// Whether a checkpoint is under way.
    pub fn checkpoint_runs(&self) -> bool {
        self.shared.buffer.lock().running.is_some()
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> StoreStats {
        let mut stats = self.shared.counters.snapshot();
        {
            let segments = self.shared.segments.read();
            (stats.live_bytes, stats.segment_bytes) = segments.bytes();
            stats.segments = segments.list.len() as u64;
        }
        {
            let buffer = self.shared.buffer.lock();
            stats.waiting_records = buffer.waiting_records;
            stats.waiting_bytes = buffer.waiting_bytes as u64;
        }
        stats.spilled_bytes = self.shared.spill.bytes();
        stats
    }
}

impl<P: Payload, D: Disk> Journal<P> for DiskJournal<P, D> {
    fn reserve(&self) -> Reservation {
        self.shared.buffer.lock().reserve()
    }

    fn fill_with<T>(
        &self,
        reservation: Reservation,
        append: impl FnOnce(&mut Appending<'_, P>) -> T,
    ) -> (T, Wake) {
        let (result, filled) = self.shared.buffer.lock().fill(&reservation, append);
        if filled.elided > 0 {
            Counters::add(&self.shared.counters.elided, filled.elided);
        }
        if filled.payload_bytes > 0 {
            let payload_bytes = &self.shared.counters.payload_bytes;
            Counters::add(payload_bytes, filled.payload_bytes);
        }
        (result, filled.wake)
    }

    fn release(&self, body: Lsn, after: Lsn) {
        let mut buffer = self.shared.buffer.lock();
        buffer.releases.push_back((after, body));
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(self.shared.durable.load(Ordering::Acquire))
    }

    fn state(&self) -> StoreState {
        self.shared.state()
    }

    fn read_batch(&self, lsns: &[Lsn]) -> Vec<Result<Bytes, ReadError>> {
        self.read_many(lsns)
    }
}

impl<P, D: Disk> Shared<P, D> {
    pub fn state(&self) -> StoreState {
        match self.state.load(Ordering::Acquire) {
            STATE_OPEN => StoreState::Open,
            STATE_FULL => StoreState::Full,
            _ => StoreState::Poisoned,
        }
    }

    pub fn set_state(&self, state: StoreState) {
        let code = match state {
            StoreState::Open => STATE_OPEN,
            StoreState::Full => STATE_FULL,
            StoreState::Poisoned => STATE_POISONED,
        };
        self.state.store(code, Ordering::Release);
    }
}

impl<P, D: Disk> Clone for DiskJournal<P, D> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<P, D: Disk> fmt::Debug for DiskJournal<P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskJournal").finish_non_exhaustive()
    }
}

const STATE_OPEN: u8 = 0;
const STATE_FULL: u8 = 1;
const STATE_POISONED: u8 = 2;
