//! The journal of a broker: appends of the vhosts, and who waits until they are durable.
//!
//! ```text
//!   vhost (under its core's lock)            journal thread               connections
//!   reserve, apply, fill  --- bell --->  write, sync, durable LSN  --- call --->  outboxes
//! ```
//!
//! A record that nobody waits for starts no commit by itself: it rides with the next, or goes a
//! little later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::BrokerDisk;
use super::bell::Bell;
use super::clock::{Clock, Stopwatch};
use super::outbox::Outbox;
use crate::base::{Lsn, Millis, Name, Now};
use crate::broker::registry::{OWNER, RegistryFact};
use crate::broker::{Core, Effects, Fact, Record};
use crate::gateway::Bodies;
use crate::record::{self, Stored};
use crate::store::{
    Appending, CommitPace, DiskJournal, Due, Journal, Maintained, Reservation, StoreError,
    StoreState, StoreStats, SyncPolicy, Waiting, Wake, Writer,
};

/// How often the journal is looked after when nothing is written.
const IDLE: Duration = Duration::from_millis(100);
/// How often a checkpoint looks whether it may go on.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// On a full disk a checkpoint is written once so little lives, in bytes: less than one of the two
/// reserved segments holds.
const FULL_LIVE_BYTES_MAX: u64 = 24 * 1024 * 1024;
/// The part of what lives that is written before the next checkpoint, as a divisor: a start reads
/// that much twice, and a checkpoint may have to write an entry of all that lives.
const LIVE_PART: u64 = 8;
/// Facts about the registry in one record at most.
const REGISTRY_FACTS: usize = 1024;
/// Memory of a record that waits, beside its bytes, about.
const RECORD_BYTES: u64 = 128;
/// Bytes that rewriting may read and write between two commits.
const MAINTAIN_BYTES: usize = 1024 * 1024;

/// The journal that all vhosts of a broker share.
#[derive(Debug)]
pub(super) struct Store {
    journal: DiskJournal<Stored, BrokerDisk>,
    bell: Bell,
    /// Connections to call once an LSN is durable.
    waiters: Mutex<Vec<(Lsn, Arc<Outbox>)>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Bytes that were read at the start because no checkpoint covered them.
    replayed_bytes: u64,
    /// Those and all bytes written when the last checkpoint was begun.
    checkpoint_at: AtomicU64,
    /// When its thread came round last, in [`Millis`].
    last_round: AtomicU64,
    /// Bytes that lived when a checkpoint was begun last while the disk was full.
    live_when_full: AtomicU64,
    /// Bytes free on a disk where too few are; [`u64::MAX`] where enough are.
    disk_low_bytes: AtomicU64,
    /// The last record that changed what is declared: topology, policies, the registry.
    declared: AtomicU64,
}

impl Store {
    /// Takes a journal over, of which so many bytes were replayed, and starts its thread.
    pub(super) fn start(
        journal: DiskJournal<Stored, BrokerDisk>,
        writer: Writer<Stored, BrokerDisk>,
        (sync, pace): (SyncPolicy, CommitPace),
        replayed_bytes: u64,
        clock: Clock,
    ) -> std::io::Result<Arc<Self>> {
        let store = Arc::new(Self {
            journal,
            bell: Bell::default(),
            waiters: Mutex::default(),
            thread: Mutex::default(),
            replayed_bytes,
            checkpoint_at: AtomicU64::new(0),
            last_round: AtomicU64::new(clock.now().mono.0),
            live_when_full: AtomicU64::new(u64::MAX),
            disk_low_bytes: AtomicU64::new(u64::MAX),
            declared: AtomicU64::new(0),
        });
        let driver = Driver {
            store: Arc::clone(&store),
            writer,
            sync,
            clock,
            pace,
            watch: Stopwatch::start(),
            unsynced_since: None,
            called: Lsn(0),
        };
        let thread = std::thread::Builder::new().name("journal".to_owned());
        *store.thread.lock() = Some(thread.spawn(move || driver.run())?);
        Ok(store)
    }

    /// LSNs for a batch; call it under the core's lock.
    pub(super) fn reserve(&self) -> Reservation {
        Journal::reserve(&self.journal)
    }

    /// Appends the records of a batch, without what need not be written any more, and lets go what
    /// no message names any more. Tells the core which bodies have other names now. A poisoned
    /// store takes nothing: it will never confirm it.
    pub(super) fn fill(
        &self,
        reservation: Reservation,
        core: &mut Core,
        effects: &mut Effects,
    ) -> Wake {
        if self.journal.state() == StoreState::Poisoned {
            effects.records.clear();
            effects.released.clear();
        }
        self.note_declared(core.topology_lsn());
        let last = core.last_lsn();
        let records = effects.records.drain(..);
        let released = effects.released.drain(..);
        let append = |appending: &mut Appending<'_, Stored>| {
            record::append(appending, core.vhost(), records, released, last)
        };
        let (renamed, wake) = self.journal.fill_with(reservation, append);
        for name in renamed {
            core.rename_body(name.queue, name.position, name.from, name.to);
        }
        wake
    }

    /// Appends facts about the registry; returns the LSN of the last record, 0 if there are none. A
    /// poisoned store takes nothing: nothing of it is ever durable.
    pub(super) fn append_registry(&self, now: Now, facts: Vec<RegistryFact>) -> Lsn {
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
        self.ring(wake, last);
        last
    }

    /// Call it under the lock that who looks at what was declared takes, too.
    fn note_declared(&self, lsn: Lsn) {
        if lsn.0 > self.declared.load(Ordering::Relaxed) {
            self.declared.fetch_max(lsn.0, Ordering::Relaxed);
        }
    }

    /// The last record that changed what is declared in any vhost or in the registry: whoever tells
    /// what he has seen there waits until it is durable.
    pub(super) fn declared(&self) -> Lsn {
        Lsn(self.declared.load(Ordering::Relaxed))
    }

    /// Copies the registry into the running checkpoint. Call it while it cannot be changed.
    pub(super) fn append_registry_block(&self, now: Now, facts: Vec<RegistryFact>) {
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

    /// Gives a reservation back unused.
    pub(super) fn abandon(&self, reservation: Reservation) {
        self.journal.fill(reservation, std::iter::empty());
    }

    /// Tells the journal's thread what waits, and up to which LSN somebody wants to know that it is
    /// durable; call it without the core's lock.
    pub(super) fn ring(&self, wake: Wake, awaited: Lsn) {
        self.bell.ring(wake, awaited);
    }

    /// Whether the disk has no room, or less than it should have.
    pub(super) fn is_short(&self) -> bool {
        self.journal.state() != StoreState::Open
            || self.disk_low_bytes.load(Ordering::Relaxed) != u64::MAX
    }

    /// Memory that waits for the disk, about, in bytes: of the records alone, and with what they
    /// carry. None on a full disk, where nothing gets on before somebody has settled something.
    pub(super) fn waiting_bytes(&self) -> (u64, u64) {
        if self.state() != StoreState::Open {
            return (0, 0);
        }
        let waiting = self.journal.waiting();
        let own_bytes = waiting.bytes.saturating_sub(waiting.carried_bytes) as u64;
        let records_bytes = waiting.records * RECORD_BYTES + own_bytes;
        (records_bytes, records_bytes + waiting.carried_bytes as u64)
    }

    /// Calls a connection once anything more is durable than now. Returns what is waited for; what
    /// was waited for before is not waited for twice.
    pub(super) fn call_after_commit(&self, before: Lsn, outbox: &Arc<Outbox>) -> Lsn {
        let next = Lsn(self.durable().0.saturating_add(1));
        if next != before {
            self.call_when_durable(next, outbox);
        }
        next
    }

    /// Up to here everything is as safe as the sync policy promises.
    pub(super) fn durable(&self) -> Lsn {
        self.journal.durable_lsn()
    }

    /// Calls a connection once an LSN is durable.
    pub(super) fn call_when_durable(&self, lsn: Lsn, outbox: &Arc<Outbox>) {
        self.waiters.lock().push((lsn, Arc::clone(outbox)));
        self.bell.ring(Wake::No, lsn);
        // It may have become so before it was noted.
        if lsn <= self.durable() {
            self.call_waiters();
        }
    }

    /// Ready once an LSN is durable, or never will be.
    pub(super) async fn until_durable(&self, lsn: Lsn) {
        self.bell.ring(Wake::No, lsn);
        while self.durable() < lsn && self.state() != StoreState::Poisoned {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn call_waiters(&self) {
        let durable = self.durable();
        let due: Vec<_> = {
            let mut waiters = self.waiters.lock();
            waiters.extract_if(.., |(lsn, _)| *lsn <= durable).collect()
        };
        for (_, outbox) in due {
            outbox.call();
        }
    }

    /// The journal itself, for checkpoints.
    pub(super) const fn journal(&self) -> &DiskJournal<Stored, BrokerDisk> {
        &self.journal
    }

    /// Whether so much was written since the last checkpoint that the next one is due; on a full
    /// disk, whether so little lives that it fits into what is reserved and frees the rest.
    pub(super) fn is_checkpoint_due(&self, after_bytes: u64) -> bool {
        let stats = self.journal.stats();
        let written = self.replayed_bytes + stats.written_bytes;
        let since = written - self.checkpoint_at.load(Ordering::Relaxed);
        let live = stats.live_bytes;
        // A checkpoint may have to write an entry of all that lives: rather seldom when that is much.
        let usual = since >= after_bytes.max(live / LIVE_PART);
        let free_bytes = self.disk_low_bytes.load(Ordering::Relaxed);
        let due = match self.journal.state() {
            StoreState::Open if free_bytes == u64::MAX => {
                self.live_when_full.store(u64::MAX, Ordering::Relaxed);
                usual
            }
            StoreState::Open => {
                usual || self.makes_room(live, FULL_LIVE_BYTES_MAX + free_bytes / 2)
            }
            StoreState::Full => self.makes_room(live, FULL_LIVE_BYTES_MAX),
            StoreState::Poisoned => false,
        };
        if due {
            self.checkpoint_at.store(written, Ordering::Relaxed);
        }
        due
    }

    /// Whether a checkpoint fits into so many bytes and frees some: a tenth less lives than at the
    /// last one that did.
    fn makes_room(&self, live_bytes: u64, room_bytes: u64) -> bool {
        let before = self.live_when_full.load(Ordering::Relaxed);
        let due = live_bytes <= room_bytes && live_bytes < before - before / 10;
        if due {
            self.live_when_full.store(live_bytes, Ordering::Relaxed);
        }
        due
    }

    /// Bytes that are free on its disk, if that can be told.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        self.journal.free_bytes().ok()
    }

    /// Reads a piece of a body that was written ahead; none, and a line in the log, if it cannot be
    /// read. Blocks.
    pub(super) fn read_piece(&self, body: Lsn, piece: usize) -> Option<Bytes> {
        match self.journal.read_piece(body, piece) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(body = body.0, piece, %error, "a message cannot be read back");
                None
            }
        }
    }

    /// Reads a body whole. Blocks.
    pub(super) fn read_body(&self, body: Lsn) -> Option<Bytes> {
        match self.journal.read(body) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                tracing::error!(body = body.0, %error, "a message cannot be read back");
                None
            }
        }
    }

    /// How much is free where that is too little; none where it is enough.
    pub(super) fn set_disk_low(&self, free_bytes: Option<u64>) {
        let bytes = free_bytes.unwrap_or(u64::MAX);
        self.disk_low_bytes.store(bytes, Ordering::Relaxed);
    }

    /// When its thread came round last.
    pub(super) fn last_round(&self) -> Millis {
        Millis(self.last_round.load(Ordering::Relaxed))
    }

    /// How the store is.
    pub(super) fn state(&self) -> StoreState {
        self.journal.state()
    }

    pub(super) fn stats(&self) -> StoreStats {
        self.journal.stats()
    }

    /// Ends the thread once what waits is written, without waiting for it.
    pub(super) fn let_go(&self) {
        self.bell.stop();
    }

    /// Writes and syncs what waits and ends the thread. Blocks.
    pub(super) fn stop(&self) {
        self.bell.stop();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the journal's thread failed");
        }
    }
}

/// The facts of the next record: not too many, and one part of definitions, which are large.
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

impl Bodies for Store {
    fn append_piece(&self, bytes: Bytes) -> Lsn {
        let (lsn, wake) = self.journal.append_piece(bytes);
        self.ring(wake, Lsn(0));
        lsn
    }

    fn append_body(&self, pieces: Box<[Lsn]>, last: Bytes) -> Arc<Lsn> {
        let (lsn, wake) = self.journal.append_body(pieces, last);
        self.ring(wake, Lsn(0));
        let body = Arc::new(lsn);
        self.journal.lend(&body);
        body
    }

    fn release(&self, name: Lsn) {
        self.journal.release(name, name);
    }

    fn is_short(&self) -> bool {
        Self::is_short(self)
    }
}

/// The journal's thread.
struct Driver {
    store: Arc<Store>,
    writer: Writer<Stored, BrokerDisk>,
    sync: SyncPolicy,
    clock: Clock,
    pace: CommitPace,
    /// Runs since the thread began, for the pace.
    watch: Stopwatch,
    /// When the oldest bytes were written that are not synced, under [`SyncPolicy::Interval`].
    unsynced_since: Option<Stopwatch>,
    /// Who waited for what is durable up to here was called.
    called: Lsn,
}

impl Driver {
    fn run(mut self) {
        let mut more = false;
        let mut upkeep = Maintained::Idle;
        loop {
            let stop = if more {
                self.store.bell.wait(Duration::ZERO)
            } else {
                self.store.bell.wait(IDLE)
            };
            let now = self.clock.now().mono;
            self.store.last_round.store(now.0, Ordering::Relaxed);
            match self.step(upkeep) {
                Ok(next) => (more, upkeep) = next,
                // The store has said so in the log; nothing is confirmed any more.
                Err(_) => return,
            }
            if stop && !more {
                if self.writer.close(self.clock.now().wall).is_ok() {
                    self.store.call_waiters();
                }
                return;
            }
        }
    }

    /// One commit and one piece of housekeeping, as the last one left it; whether to come again at
    /// once.
    fn step(&mut self, upkeep: Maintained) -> Result<(bool, Maintained), StoreError> {
        self.let_others_join(upkeep);
        let wrote = self.writer.write(self.clock.now().wall)?;
        let (_, arrived_bytes) = self.store.journal.waiting_bytes();
        let records = wrote.records + wrote.elided;
        self.pace.committed(self.now_us(), records, arrived_bytes);
        self.sync_if_due(wrote.unsynced)?;
        // Also without a write: what was elided is confirmed with the rest.
        let durable = self.store.durable();
        if durable > self.called {
            self.called = durable;
            self.store.call_waiters();
        }
        if self.store.state() == StoreState::Full {
            self.writer.retry_room();
        }
        let upkeep = self.writer.maintain(MAINTAIN_BYTES)?;
        let more = self.writer.has_work() || upkeep == Maintained::More;
        Ok((more && !wrote.stalled, upkeep))
    }

    /// A commit waits for more to join it: under load a moment, and longer while nobody waits for
    /// it, be it a client or the journal's own upkeep.
    fn let_others_join(&mut self, upkeep: Maintained) {
        loop {
            let now_us = self.now_us();
            let durable = self.store.durable();
            let awaited = upkeep == Maintained::More || self.store.bell.awaited() > durable;
            let (bytes, arrived_bytes) = self.store.journal.waiting_bytes();
            let waiting = Waiting {
                any: self.writer.has_work(),
                awaited,
                bytes,
                arrived_bytes,
            };
            let Due::At(due_us) = self.pace.poll(now_us, waiting) else {
                return;
            };
            let at_most = Duration::from_micros(due_us.saturating_sub(now_us));
            let until = if awaited { Lsn(u64::MAX) } else { durable };
            if self.store.bell.wait_for_more(at_most, until) {
                return;
            }
        }
    }

    /// For the pace: microseconds since the thread began.
    fn now_us(&self) -> u64 {
        self.watch.elapsed_ns() / 1_000
    }

    fn sync_if_due(&mut self, unsynced: bool) -> Result<(), StoreError> {
        let due = match self.sync {
            SyncPolicy::Always => unsynced,
            SyncPolicy::Never => false,
            SyncPolicy::Interval { every_ms } => {
                let since =
                    unsynced.then(|| *self.unsynced_since.get_or_insert_with(Stopwatch::start));
                since.is_some_and(|watch| watch.elapsed_ns() / 1_000_000 >= every_ms)
            }
        };
        if due {
            let watch = Stopwatch::start();
            self.writer.sync()?;
            self.writer.observe_sync(watch.elapsed_ns() / 1_000);
            self.unsynced_since = None;
        }
        Ok(())
    }
}
