//! The journal of a broker: appends of the vhosts, and waiting until they are durable.
//!
//! ```text
//!   vhost (under its core's lock)            journal thread               connections
//!   reserve, apply, fill  --- wake --->  write, sync, durable LSN  --- wake --->  outboxes
//! ```
//!
//! A record that nobody waits for starts no commit by itself: it is written with the next one, or a
//! little later.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::journal_waker::JournalWaker;
use super::outbox::Outbox;
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Lsn, Millis, Name, Now};
use crate::broker::registry::{OWNER, RegistryFact};
use crate::broker::{Core, Effects, Fact, Record};
use crate::gateway::Bodies;
use crate::record::{self, Stored};
use crate::store::{
    Appending, Disk, DiskJournal, Journal, Reservation, StoreState, StoreStats, Wake,
};
use bytes::Bytes;

/// Bytes of live records below which a checkpoint is written on a full disk: less than one of the
/// two reserved segments holds.
const FULL_LIVE_BYTES_MAX: u64 = 24 * 1024 * 1024;
/// Divisor: the part of the live bytes that is written before the next checkpoint is due. A start
/// reads that much twice, and a checkpoint may have to write an entry for each live record.
const LIVE_PART: u64 = 8;
/// Facts of the registry in one record, at most.
const REGISTRY_FACTS: usize = 1024;
/// Estimated memory of a waiting record without its bytes.
const RECORD_BYTES: u64 = 128;

/// The journal that all vhosts of a broker share.
#[derive(Debug)]
pub(crate) struct Store<D: Disk> {
    journal: DiskJournal<Stored, D>,
    journal_waker: JournalWaker,
    /// Connections to wake once an LSN is durable.
    waiters: RankedMutex<rank::DurableWaiters, Vec<(Lsn, Arc<Outbox>)>>,
    /// Bytes that were read at the start because no checkpoint covered them.
    replayed_bytes: u64,
    /// `replayed_bytes` plus all bytes written when the last checkpoint was begun.
    checkpoint_at: AtomicU64,
    /// When its thread ran last, in [`Millis`].
    last_round: AtomicU64,
    /// Live bytes when a checkpoint was last begun on a full disk.
    live_when_full: AtomicU64,
    /// Bytes free on the disk while they are too few; [`u64::MAX`] while enough are.
    disk_low_bytes: AtomicU64,
    /// The last record that changed a declaration: topology, policies or the registry.
    declared: AtomicU64,
}

impl<D: Disk> Store<D> {
    /// Takes over a journal, of which this many bytes were replayed.
    pub(crate) fn new(
        journal: DiskJournal<Stored, D>,
        replayed_bytes: u64,
        now: Millis,
    ) -> Arc<Self> {
        Arc::new(Self {
            journal,
            journal_waker: JournalWaker::default(),
            waiters: RankedMutex::default(),
            replayed_bytes,
            checkpoint_at: AtomicU64::new(0),
            last_round: AtomicU64::new(now.0),
            live_when_full: AtomicU64::new(u64::MAX),
            disk_low_bytes: AtomicU64::new(u64::MAX),
            declared: AtomicU64::new(0),
        })
    }

    /// Reserves LSNs for a batch; to be called under the core's lock.
    pub(crate) fn reserve(&self) -> Reservation {
        Journal::reserve(&self.journal)
    }

    /// Appends the records of a batch, without those that need not be written any more, and
    /// releases records that no message refers to any more. Tells the core which bodies have
    /// another LSN now. A poisoned store takes nothing: it will never confirm it.
    pub(crate) fn fill(
        &self,
        reservation: Reservation,
        core: &mut Core,
        effects: &mut Effects,
    ) -> Wake {
        let last = core.last_lsn();
        self.note_declared(core.topology_lsn());
        if self.journal.state() == StoreState::Poisoned {
            effects.released.clear();
            if !effects.records.is_empty() {
                effects.records.clear();
                // Messages refer to these LSNs, so the next batch must get others.
                let skip = |appending: &mut Appending<'_, Stored>| appending.skip(last);
                self.journal.fill_with(reservation, skip);
                return Wake::No;
            }
        }
        let records = effects.records.drain(..);
        let released = effects.released.drain(..);
        let append = |appending: &mut Appending<'_, Stored>| {
            record::append(appending, core.vhost(), records, released, last)
        };
        let (renames, wake) = self.journal.fill_with(reservation, append);
        core.rename_bodies(renames);
        wake
    }

    /// Appends facts of the registry; returns the LSN of the last record, 0 if there are none. A
    /// poisoned store takes nothing: nothing of it ever becomes durable.
    pub(crate) fn append_registry(&self, now: Now, facts: Vec<RegistryFact>) -> Lsn {
        if self.journal.state() == StoreState::Poisoned {
            self.note_declared(Lsn(u64::MAX));
            return Lsn(u64::MAX);
        }
        let mut facts = facts.into_iter();
        let reservation = self.reserve();
        let mut lsn = reservation.first();
        let mut records = Vec::new();
        loop {
            let facts = of_one_record(&mut facts);
            if facts.is_empty() {
                break;
            }
            let record = Record {
                lsn,
                wall: now.wall,
                facts: facts.into(),
                named: false,
            };
            records.push((lsn, Stored::new(Name::from(OWNER), record)));
            lsn = Lsn(lsn.0 + 1);
        }
        let last = records.last().map_or(Lsn(0), |(lsn, _)| *lsn);
        self.note_declared(last);
        let wake = self.journal.fill(reservation, records);
        self.wake(wake, last);
        last
    }

    /// To be called under the lock that readers of declarations take, too.
    fn note_declared(&self, lsn: Lsn) {
        if lsn.0 > self.declared.load(Ordering::Relaxed) {
            self.declared.fetch_max(lsn.0, Ordering::Relaxed);
        }
    }

    /// The last record that changed a declaration in any vhost or in the registry: an answer about
    /// declarations is held back until it is durable.
    pub(crate) fn declared(&self) -> Lsn {
        Lsn(self.declared.load(Ordering::Relaxed))
    }

    /// Copies the registry into the running checkpoint. To be called while it cannot change.
    pub(crate) fn append_registry_block(&self, now: Now, facts: Vec<RegistryFact>) {
        let mut facts = facts.into_iter();
        loop {
            let facts = of_one_record(&mut facts);
            if facts.is_empty() {
                return;
            }
            let record = Record {
                lsn: Lsn(0),
                wall: now.wall,
                facts: facts.into(),
                named: false,
            };
            self.journal
                .append_block(Stored::new(Name::from(OWNER), record));
        }
    }

    /// Returns a reservation unused.
    pub(crate) fn abandon(&self, reservation: Reservation) {
        self.journal.fill(reservation, std::iter::empty());
    }

    /// Tells the journal's thread what waits, and up to which LSN somebody waits for durability; to
    /// be called without the core's lock.
    pub(crate) fn wake(&self, wake: Wake, awaited: Lsn) {
        self.journal_waker.wake(wake, awaited);
    }

    /// Whether the disk has no room, or less than it should have.
    pub(crate) fn is_short(&self) -> bool {
        self.journal.state() != StoreState::Open
            || self.disk_low_bytes.load(Ordering::Relaxed) != u64::MAX
    }

    /// Estimated memory of what waits for the disk, in bytes: of the records alone, and with the
    /// messages they carry. Zero on a full disk, where nothing proceeds before something is
    /// settled.
    pub(crate) fn waiting_bytes(&self) -> (u64, u64) {
        if self.state() != StoreState::Open {
            return (0, 0);
        }
        let waiting = self.journal.waiting();
        let own_bytes = waiting.bytes.saturating_sub(waiting.carried_bytes) as u64;
        let records_bytes = waiting.records * RECORD_BYTES + own_bytes;
        (records_bytes, records_bytes + waiting.carried_bytes as u64)
    }

    /// Wakes a connection once anything more is durable than now. Returns the LSN waited for; if it
    /// is `before`, the connection is registered already.
    pub(crate) fn wake_after_commit(&self, before: Lsn, outbox: &Arc<Outbox>) -> Lsn {
        let next = Lsn(self.durable().0.saturating_add(1));
        if next != before {
            self.wake_when_durable(next, outbox);
        }
        next
    }

    /// Records up to this LSN are as safe as the sync policy promises.
    pub(crate) fn durable(&self) -> Lsn {
        self.journal.durable_lsn()
    }

    /// Wakes a connection once an LSN is durable.
    pub(crate) fn wake_when_durable(&self, lsn: Lsn, outbox: &Arc<Outbox>) {
        self.waiters.lock().push((lsn, Arc::clone(outbox)));
        self.journal_waker.wake(Wake::No, lsn);
        // It may have become durable before it was registered.
        if lsn <= self.durable() {
            self.wake_waiters();
        }
    }

    /// Waits until an LSN is durable, or never will be.
    pub(crate) async fn until_durable(&self, lsn: Lsn) {
        if lsn <= self.durable() {
            return;
        }
        let outbox = Arc::new(Outbox::default());
        self.wake_when_durable(lsn, &outbox);
        while self.durable() < lsn && self.state() != StoreState::Poisoned {
            poll_fn(|context| outbox.poll_ready(context)).await;
        }
    }

    pub(super) fn wake_waiters(&self) {
        let durable = self.durable();
        let due: Vec<_> = {
            let mut waiters = self.waiters.lock();
            waiters.extract_if(.., |(lsn, _)| *lsn <= durable).collect()
        };
        for (_, outbox) in due {
            outbox.wake();
        }
    }

    /// Waits until anything more is durable than now, or the store fails. It starts no commit.
    pub(crate) async fn until_commit(&self) {
        let outbox = Arc::new(Outbox::default());
        let next = Lsn(self.durable().0.saturating_add(1));
        self.waiters.lock().push((next, Arc::clone(&outbox)));
        if next <= self.durable() {
            return;
        }
        poll_fn(|context| outbox.poll_ready(context)).await;
    }

    /// Wakes all waiters: nothing more will be durable.
    pub(super) fn wake_all_waiters(&self) {
        let waiters = std::mem::take(&mut *self.waiters.lock());
        for (_, outbox) in waiters {
            outbox.wake();
        }
    }

    /// The journal itself, for checkpoints.
    pub(crate) const fn journal(&self) -> &DiskJournal<Stored, D> {
        &self.journal
    }

    /// Whether so much was written since the last checkpoint that the next one is due; on a full
    /// disk, whether so few bytes are live that it fits into what is reserved and frees the rest.
    pub(crate) fn is_checkpoint_due(&self, after_bytes: u64) -> bool {
        let stats = self.journal.stats();
        let written = self.replayed_bytes + stats.written_bytes;
        let since = written - self.checkpoint_at.load(Ordering::Relaxed);
        let live = stats.live_bytes;
        // A checkpoint may have to write an entry for each live record: rarer when those are many.
        let is_due = since >= after_bytes.max(live / LIVE_PART);
        let free_bytes = self.disk_low_bytes.load(Ordering::Relaxed);
        let due = match self.journal.state() {
            StoreState::Open if free_bytes == u64::MAX => {
                self.live_when_full.store(u64::MAX, Ordering::Relaxed);
                is_due
            }
            StoreState::Open => {
                is_due || self.makes_room(live, FULL_LIVE_BYTES_MAX + free_bytes / 2)
            }
            StoreState::Full => self.makes_room(live, FULL_LIVE_BYTES_MAX),
            StoreState::Poisoned => false,
        };
        if due {
            self.checkpoint_at.store(written, Ordering::Relaxed);
        }
        due
    }

    /// Whether a checkpoint fits into this many bytes and frees some: a tenth less is live than at
    /// the last one that did.
    fn makes_room(&self, live_bytes: u64, room_bytes: u64) -> bool {
        let before = self.live_when_full.load(Ordering::Relaxed);
        let due = live_bytes <= room_bytes && live_bytes < before - before / 10;
        if due {
            self.live_when_full.store(live_bytes, Ordering::Relaxed);
        }
        due
    }

    /// Bytes that are free on its disk; none if they cannot be read.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.journal.free_bytes().ok()
    }

    /// Reads a piece of a streamed body; none, and a line in the log, if it cannot be read. Blocks.
    pub(crate) fn read_piece(&self, body: Lsn, piece: usize) -> Option<Bytes> {
        match self.journal.read_piece(body, piece) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(body = body.0, piece, %error, "a message cannot be read back");
                None
            }
        }
    }

    /// Reads a whole body. Blocks.
    pub(crate) fn read_body(&self, body: Lsn) -> Option<Bytes> {
        match self.journal.read(body) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                tracing::error!(body = body.0, %error, "a message cannot be read back");
                None
            }
        }
    }

    /// Reads the beginning of a body that was streamed, in whole pieces: at least `bytes` of it if
    /// it has as many. Blocks.
    pub(crate) fn read_beginning(&self, body: Lsn, bytes: usize) -> Option<Vec<u8>> {
        let mut begin = Vec::new();
        for index in 0.. {
            match self.journal.read_piece(body, index) {
                Ok(Some(piece)) => begin.extend_from_slice(&piece),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(body = body.0, %error, "a message cannot be read back");
                    return None;
                }
            }
            if begin.len() >= bytes {
                break;
            }
        }
        Some(begin)
    }

    /// Sets how many bytes are free while those are too few; none while they are enough.
    pub(crate) fn set_disk_low(&self, free_bytes: Option<u64>) {
        let bytes = free_bytes.unwrap_or(u64::MAX);
        self.disk_low_bytes.store(bytes, Ordering::Relaxed);
    }

    /// When its thread ran last.
    pub(crate) fn last_round(&self) -> Millis {
        Millis(self.last_round.load(Ordering::Relaxed))
    }

    /// The state of the store.
    pub(crate) fn state(&self) -> StoreState {
        self.journal.state()
    }

    pub(crate) fn stats(&self) -> StoreStats {
        self.journal.stats()
    }

    /// The waker of the committer.
    pub(crate) const fn journal_waker(&self) -> &JournalWaker {
        &self.journal_waker
    }

    /// Notes that the committer ran.
    pub(super) fn note_round(&self, now: Millis) {
        self.last_round.store(now.0, Ordering::Relaxed);
    }
}

/// The facts of the next record: not too many, and only one part of definitions, which are large.
fn of_one_record(facts: &mut impl Iterator<Item = RegistryFact>) -> Vec<Fact> {
    let mut record = Vec::new();
    for fact in facts {
        let is_large = matches!(fact, RegistryFact::ImportPart { .. });
        record.push(Fact::Registry(Box::new(fact)));
        if is_large || record.len() == REGISTRY_FACTS {
            break;
        }
    }
    record
}

impl<D: Disk> Bodies for Store<D> {
    fn append_piece(&self, bytes: Bytes) -> Lsn {
        let (lsn, wake) = self.journal.append_piece(bytes);
        self.wake(wake, Lsn(0));
        lsn
    }

    fn append_body(&self, pieces: Box<[Lsn]>, last: Bytes) -> Arc<Lsn> {
        let (lsn, wake) = self.journal.append_body(pieces, last);
        self.wake(wake, Lsn(0));
        let body = Arc::new(lsn);
        self.journal.pin(&body);
        body
    }

    fn release(&self, name: Lsn) {
        self.journal.release(name, name);
    }

    fn is_short(&self) -> bool {
        Self::is_short(self)
    }
}
