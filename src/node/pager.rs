//! The pager: evicts messages beyond the memory budget, and pages them in before they are
//! delivered. Two threads, which may block on the disk; neither reads or writes it under a core's
//! lock.
//!
//! ```text
//!   vhost --- loads ---> loader: read, decode ---> UpkeepCommand::Loaded ---> vhost
//!         -- over it --> leaver: UpkeepCommand::PageOut ---> vhost --- spills ---> write --+
//!                          ^-------------------- UpkeepCommand::Spilled <------------------+
//! ```

mod jobs;
mod reading;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use self::jobs::{Jobs, NextJob};
use super::outbox::Outbox;
use super::store::Store;
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Lsn, Name, Signal};
use crate::broker::{BodyLook, Memory, PageIn, Spill};
use crate::record;
use crate::store::{self, Disk, is_spilled};

/// Divisor: the part of the budget that messages in memory may take however many are on disk.
const LEAST_PART: u64 = 2;
/// Divisor: the part of the budget by which it must be exceeded before paging in waits for
/// eviction.
const MARGIN_PART: u64 = 16;
/// Divisor: the part of the budget by which it is exceeded before eviction begins: many messages at
/// a time, so that the thread is not woken for each batch.
const LUMP_PART: u64 = 128;
/// Divisor: the part of the budget that messages waiting for the journal may take, but at least and
/// at most the bytes below.
const JOURNAL_PART: u64 = 8;
const JOURNAL_BYTES: (u64, u64) = (4 * 1024 * 1024, 32 * 1024 * 1024);
/// Divisor: the same for records without the messages they carry: settlements, above all.
const RECORDS_PART: u64 = 4;
const RECORDS_BYTES: (u64, u64) = (2 * 1024 * 1024, 32 * 1024 * 1024);
/// The place of evicted messages.
#[derive(Debug)]
pub(crate) enum SpillTarget<D: Disk> {
    /// Durable ones are in the journal, others are spilled to files beside it.
    Journal(Arc<Store<D>>),
    /// All are spilled to files.
    Spilled(store::Spill<D>),
    /// There is none: messages stay in memory.
    Nowhere,
}

/// Keeps the messages of all vhosts within the memory budget.
#[derive(Debug)]
pub(crate) struct Pager<D: Disk> {
    place: SpillTarget<D>,
    budget_bytes: AtomicU64,
    /// Estimated memory of the messages in memory of all vhosts, in bytes.
    used_bytes: AtomicU64,
    /// Estimated memory of the disk refs of all vhosts, in bytes.
    disk_ref_bytes: AtomicU64,
    /// Memory of messages, in bytes, above which the sleeping task is woken.
    wake_above_bytes: AtomicU64,
    grown: Arc<Signal>,
    /// Whether the thread was told that the budget is exceeded.
    is_over: AtomicBool,
    /// Whether nothing could be evicted at the last try.
    is_stuck: AtomicBool,
    /// Whether messages arrive faster than they are evicted, so that publishers wait.
    is_crowded: AtomicBool,
    /// Connections to wake when publishers need not wait any more.
    waiters: RankedMutex<rank::PagerWaiters, Vec<Arc<Outbox>>>,
    /// Whether anything was spilled: then released bodies may be spilled pieces.
    has_spilled: AtomicBool,
    /// What is to be read back.
    pub(crate) loads: Jobs<(VhostRef, ReadBack)>,
    /// Jobs of the evicting thread.
    pub(crate) evictions: Arc<Jobs<EvictionJob>>,
    /// The time before which nothing is spilled, after a failure.
    spill_again_ns: AtomicU64,
    /// Vhosts that were given a number so far.
    vhosts: AtomicU64,
}

/// The vhost that a job is of. One of the same name that is made after this one was deleted is
/// another one: it did not ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VhostRef {
    pub(crate) name: Name,
    /// Never used again while the node runs.
    number: u64,
}

/// Time without spilling after a failure, in nanoseconds.
const SPILL_AGAIN_NS: u64 = 5_000_000_000;
/// Divisor: while more than this part of the bytes of `JOURNAL_PART` waits for the journal,
/// messages that cannot be evicted now soon can.
const JOURNAL_BUSY_PART: u64 = 4;

/// Waiters for memory that need not wait any more.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct MemoryWakes {
    /// Connections that waited for room, which there is now.
    publishers: Vec<Arc<Outbox>>,
    /// The task that sleeps until messages take more memory.
    grown: Option<Arc<Signal>>,
    /// The jobs of the evicting thread, which is to check the budget.
    look: Option<Arc<Jobs<EvictionJob>>>,
}

impl MemoryWakes {
    /// Wakes them. Not to be called under the lock of a core.
    pub(crate) fn wake(self) {
        for outbox in self.publishers {
            outbox.waits_for_room.store(false, Ordering::Relaxed);
            outbox.wake();
        }
        if let Some(grown) = self.grown {
            grown.wake();
        }
        if let Some(evictions) = self.look {
            evictions.push([EvictionJob::Look]);
        }
    }
}

/// The wishes of a batch for the pager's threads.
#[derive(Debug, Default)]
pub(crate) struct PagingWants {
    /// Blocks to page in.
    pub(crate) loads: Vec<PageIn>,
    /// Bodies to look into.
    pub(crate) looks: Vec<BodyLook>,
    /// Blocks to spill.
    pub(crate) spills: Vec<Spill>,
    /// Spilled pieces to release.
    pub(crate) unspills: Vec<Lsn>,
}

/// A budget as it is configured, in bytes: 0 keeps all messages in memory.
const fn unlimited_if_0(budget_bytes: u64) -> u64 {
    if budget_bytes == 0 {
        u64::MAX
    } else {
        budget_bytes
    }
}

/// A job of the thread that reads.
#[derive(Debug)]
pub(crate) enum ReadBack {
    /// Page a block in.
    Block(PageIn),
    /// Look into a body.
    Body(BodyLook),
}

/// A job of the evicting thread.
#[derive(Debug)]
pub(crate) enum EvictionJob {
    /// Evict messages until the budget is kept.
    Look,
    /// Spill a block of this vhost.
    Spill(VhostRef, Spill),
    /// Release a spilled piece.
    Unspill(Lsn),
}

impl<D: Disk> Pager<D> {
    /// A pager; the caller has to run its jobs. A budget of 0 has no limit.
    pub(crate) fn new(place: SpillTarget<D>, budget_bytes: u64) -> Self {
        Self {
            place,
            budget_bytes: AtomicU64::new(unlimited_if_0(budget_bytes)),
            used_bytes: AtomicU64::new(0),
            disk_ref_bytes: AtomicU64::new(0),
            wake_above_bytes: AtomicU64::new(u64::MAX),
            grown: Arc::default(),
            is_over: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            waiters: RankedMutex::default(),
            has_spilled: AtomicBool::new(false),
            loads: Jobs::default(),
            spill_again_ns: AtomicU64::new(0),
            evictions: Arc::default(),
            vhosts: AtomicU64::new(0),
        }
    }

    /// What jobs of a new vhost are known by.
    pub(crate) fn reference(&self, name: &Name) -> VhostRef {
        VhostRef {
            name: name.clone(),
            number: self.vhosts.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Sets the budget. A smaller one takes effect at once; 0 is none.
    pub(crate) fn set_budget(&self, budget_bytes: u64) {
        let budget_bytes = unlimited_if_0(budget_bytes);
        self.budget_bytes.store(budget_bytes, Ordering::Relaxed);
        self.used(Memory::default(), Memory::default()).wake();
    }

    /// Ends the threads that run its jobs.
    pub(crate) fn let_go(&self) {
        self.loads.stop();
        self.evictions.stop();
    }

    /// Whether messages can be evicted at all.
    pub(crate) const fn has_place(&self) -> bool {
        !matches!(self.place, SpillTarget::Nowhere)
    }

    /// Notes that the memory of a vhost's messages changed, in memory and on disk. Returns waiters
    /// that need not wait any more, to be woken without a lock.
    pub(crate) fn used(&self, before: Memory, after: Memory) -> MemoryWakes {
        let disk_refs = after.disk_ref_bytes().wrapping_sub(before.disk_ref_bytes());
        self.disk_ref_bytes.fetch_add(disk_refs, Ordering::Relaxed);
        let change = after.resident_bytes().wrapping_sub(before.resident_bytes());
        let used = self.used_bytes.fetch_add(change, Ordering::Relaxed);
        let mut grown = None;
        if used.wrapping_add(change) > self.wake_above_bytes.load(Ordering::Relaxed) {
            self.wake_above_bytes.store(u64::MAX, Ordering::Relaxed);
            grown = Some(Arc::clone(&self.grown));
        }
        let is_over = self.over_bytes() > self.budget_bytes.load(Ordering::Relaxed) / LUMP_PART
            && !matches!(self.place, SpillTarget::Nowhere)
            && !self.is_over.swap(true, Ordering::Relaxed);
        MemoryWakes {
            publishers: self.note_crowd(),
            grown,
            look: is_over.then(|| Arc::clone(&self.evictions)),
        }
    }

    /// Ready once messages take this many bytes of memory more than now. One task may wait.
    pub(crate) async fn grown_by(&self, bytes: u64) {
        let used = self.used_bytes.load(Ordering::Relaxed);
        let above = used.saturating_add(bytes);
        self.wake_above_bytes.store(above, Ordering::Relaxed);
        // It may have grown in between.
        if self.used_bytes.load(Ordering::Relaxed) <= above {
            self.grown.woken().await;
        }
    }

    /// Notes whether publishers should wait; returns those that waited when they need not any more.
    fn note_crowd(&self) -> Vec<Arc<Outbox>> {
        let is_crowded = !matches!(self.place, SpillTarget::Nowhere) && self.is_full();
        if self.is_crowded.load(Ordering::Relaxed) == is_crowded {
            return Vec::new();
        }
        self.is_crowded.store(is_crowded, Ordering::Relaxed);
        if is_crowded {
            return Vec::new();
        }
        std::mem::take(&mut *self.waiters.lock())
    }

    /// Whether publishers should wait; this connection is woken when they need not any more.
    pub(crate) fn is_crowded(&self, outbox: &Arc<Outbox>) -> bool {
        if !self.is_crowded.load(Ordering::Relaxed) {
            return false;
        }
        let mut waiters = self.waiters.lock();
        // They may not need to any more, and all waiters may have been woken.
        let is_crowded = self.is_crowded.load(Ordering::Relaxed);
        if is_crowded && !outbox.waits_for_room.swap(true, Ordering::Relaxed) {
            waiters.push(Arc::clone(outbox));
        }
        is_crowded
    }

    /// Whether so much waits for the journal that a connection, or long work, should wait for it. A
    /// connection that only settles adds little, and may save a record: it waits only for that many
    /// records.
    pub(crate) fn is_journal_behind(&self, settles: impl FnOnce() -> bool) -> bool {
        let (records, all) = self.waiting_bytes();
        records > self.part_of_budget(RECORDS_PART, RECORDS_BYTES)
            || all > self.part_of_budget(JOURNAL_PART, JOURNAL_BYTES) && !settles()
    }

    fn waiting_bytes(&self) -> (u64, u64) {
        match &self.place {
            SpillTarget::Journal(store) => store.waiting_bytes(),
            SpillTarget::Spilled(_) | SpillTarget::Nowhere => (0, 0),
        }
    }

    fn part_of_budget(&self, divisor: u64, (least, most): (u64, u64)) -> u64 {
        let part = self.budget_bytes.load(Ordering::Relaxed) / divisor;
        part.clamp(least, most)
    }

    /// The memory that messages may take: the budget without the disk refs, but not less than a
    /// part of it.
    fn limit_bytes(&self) -> u64 {
        let disk_refs = self.disk_ref_bytes.load(Ordering::Relaxed);
        let budget_bytes = self.budget_bytes.load(Ordering::Relaxed);
        let rest = budget_bytes.saturating_sub(disk_refs);
        rest.max(budget_bytes / LEAST_PART)
    }

    /// The bytes by which the budget is exceeded.
    pub(super) fn over_bytes(&self) -> u64 {
        let used = self.used_bytes.load(Ordering::Relaxed);
        used.saturating_sub(self.limit_bytes())
    }

    /// Whether paging in should wait for eviction.
    pub(crate) fn is_full(&self) -> bool {
        self.over_bytes() > self.budget_bytes.load(Ordering::Relaxed) / MARGIN_PART
            && !self.is_stuck.load(Ordering::Relaxed)
    }

    /// Queues the jobs that a vhost asks for. Not to be called under the lock of its core.
    pub(crate) fn take(&self, vhost: &VhostRef, wants: PagingWants) {
        let PagingWants {
            loads,
            looks,
            spills,
            unspills,
        } = wants;
        let looks = looks.into_iter().map(ReadBack::Body);
        let loads = loads.into_iter().map(ReadBack::Block).chain(looks);
        self.loads.push(loads.map(|load| (vhost.clone(), load)));
        let spills = spills.into_iter();
        let spills = spills.map(|spill| EvictionJob::Spill(vhost.clone(), spill));
        let unspills = unspills.into_iter().map(EvictionJob::Unspill);
        self.evictions.push(unspills.chain(spills));
    }

    /// Takes the spilled pieces out of released bodies; they are not in the journal.
    pub(crate) fn take_spilled(&self, released: &mut Vec<Lsn>) -> Vec<Lsn> {
        if self.has_spilled.load(Ordering::Relaxed) {
            released.extract_if(.., |name| is_spilled(*name)).collect()
        } else {
            Vec::new()
        }
    }

    /// Bytes spilled and not released.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        match &self.place {
            SpillTarget::Journal(store) => store.stats().spilled_bytes,
            SpillTarget::Spilled(spill) => spill.bytes(),
            SpillTarget::Nowhere => 0,
        }
    }

    /// Estimated memory of messages, and of disk refs, in bytes.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> (u64, u64) {
        let bytes = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (bytes(&self.used_bytes), bytes(&self.disk_ref_bytes))
    }

    /// Begins a check of the budget.
    pub(super) fn begin_look(&self) {
        self.is_over.store(false, Ordering::Relaxed);
    }

    /// Ends the check, and starts another if the budget is still exceeded; `left`: something was
    /// evicted. Returns whether nothing can be evicted at this moment, and waiters to be woken.
    pub(super) fn end_look(&self, left: bool) -> (bool, MemoryWakes) {
        let is_over = self.over_bytes() > 0;
        let most = self.part_of_budget(JOURNAL_PART, JOURNAL_BYTES);
        let is_busy = self.waiting_bytes().1 > most / JOURNAL_BUSY_PART;
        self.is_stuck
            .store(is_over && !left && !is_busy, Ordering::Relaxed);
        let mut wakes = MemoryWakes {
            publishers: self.note_crowd(),
            ..MemoryWakes::default()
        };
        let again = is_over && !self.is_over.swap(true, Ordering::Relaxed);
        wakes.look = again.then(|| Arc::clone(&self.evictions));
        (again && !left, wakes)
    }

    /// Whether transient messages may be spilled; not for a while after a failure.
    pub(super) fn may_spill(&self, now_ns: u64) -> bool {
        now_ns >= self.spill_again_ns.load(Ordering::Relaxed)
    }

    /// Spills a block of transient messages. Returns its LSN, 0 if it could not be written. Blocks.
    pub(super) fn spill(&self, now_ns: u64, spill: &Spill) -> Lsn {
        let bytes = record::encode_spill(spill);
        let written = match &self.place {
            SpillTarget::Journal(store) => store.journal().spill(&bytes),
            SpillTarget::Spilled(files) => files.spill(&bytes),
            SpillTarget::Nowhere => Ok(Lsn(0)),
        };
        self.has_spilled.store(true, Ordering::Relaxed);
        written.unwrap_or_else(|error| {
            tracing::warn!(%error, "messages stay in memory: they cannot be spilled");
            let again_ns = now_ns.saturating_add(SPILL_AGAIN_NS);
            self.spill_again_ns.store(again_ns, Ordering::Relaxed);
            Lsn(0)
        })
    }

    /// Releases a spilled piece. Blocks.
    pub(super) fn unspill(&self, name: Lsn) {
        match &self.place {
            SpillTarget::Journal(store) => store.journal().unspill(name),
            SpillTarget::Spilled(spill) => spill.unspill(name),
            SpillTarget::Nowhere => {}
        }
    }

    /// Records up to this LSN can be read back.
    pub(super) fn written(&self) -> Lsn {
        match &self.place {
            SpillTarget::Journal(store) => store.durable(),
            SpillTarget::Spilled(_) | SpillTarget::Nowhere => Lsn(0),
        }
    }
}
