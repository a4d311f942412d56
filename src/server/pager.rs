//! Messages leave memory beyond the budget, and come back when it is their turn. Two threads, which
//! may block on the disk; neither touches it under a core's lock.
//!
//! ```text
//!   vhost --- loads ---> loader: read, decode ---> Command::Loaded ---> vhost
//!         -- over it --> leaver: Command::PageOut ---> vhost --- spills ---> write --+
//!                          ^-------------------- Command::Spilled <------------------+
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::clock::Stopwatch;
use super::outbox::Outbox;
use super::store::Store;
use super::vhost::Vhost;
use crate::base::{Lsn, Name, Position, QueueId};
use crate::broker::{Command, Load, Loaded, Memory, Spill, Wanted};
use crate::record::{self, Found};
use crate::store::{self, DiskError, FileDisk, Journal, ReadError, is_spilled};

/// How often memory is looked at when nobody says that there is too much.
const IDLE: Duration = Duration::from_millis(100);
/// How long to wait when nothing may leave at this moment.
const PAUSE: Duration = Duration::from_millis(2);
/// How long to wait for something to leave before more is read back.
const MOMENT: Duration = Duration::from_millis(1);
/// How long nothing is spilled after that failed.
const SPILL_AGAIN_NS: u64 = 5_000_000_000;
/// What one command lets leave at most, in bytes: the core's lock is held for it.
const STEP_BYTES: u64 = 2 * 1024 * 1024;
/// The part of the budget that messages in memory may take however many are on disk, as a divisor.
const LEAST_PART: u64 = 2;
/// Above the budget by this part, as a divisor, nothing is read back before something left.
const MARGIN_PART: u64 = 16;
/// Messages begin to leave when there is so much too much, as a divisor of the budget: many at a time, so
/// that the thread is not woken for each batch that comes.
const LUMP_PART: u64 = 128;
/// The part of the budget that messages may take which wait for the journal, as a divisor, but at
/// least and at most so many bytes.
const JOURNAL_PART: u64 = 8;
const JOURNAL_BYTES: (u64, u64) = (4 * 1024 * 1024, 32 * 1024 * 1024);
/// The same of records without what they carry: settlements, above all.
const RECORDS_PART: u64 = 4;
const RECORDS_BYTES: (u64, u64) = (2 * 1024 * 1024, 32 * 1024 * 1024);
/// While this part of that waits for the journal, as a divisor, what cannot leave will.
const JOURNAL_BUSY_PART: u64 = 4;
/// How often memory that nobody uses any more is given back while little goes on, in rounds of
/// [`IDLE`].
const GIVE_BACK_ROUNDS: u32 = 10;

/// Where messages go.
#[derive(Debug)]
pub(super) enum Place {
    /// Durable ones are in the journal, others are spilled beside it.
    Journal(Arc<Store>),
    /// All are spilled.
    Spilled(store::Spill<FileDisk>),
    /// Nowhere: they stay.
    Nowhere,
}

/// Keeps the messages of all vhosts within the memory budget.
#[derive(Debug)]
pub(super) struct Pager {
    place: Place,
    budget_bytes: AtomicU64,
    /// What the messages of all vhosts take that are in memory, about.
    used_bytes: AtomicU64,
    /// What is kept in memory of those that are not, about.
    card_bytes: AtomicU64,
    /// Somebody has said that it is too much.
    is_over: AtomicBool,
    /// Nothing could leave when it was tried last.
    is_stuck: AtomicBool,
    /// More arrives than leaves: publishers wait.
    is_crowded: AtomicBool,
    /// Connections to call when that is over.
    waiters: Mutex<Vec<Arc<Outbox>>>,
    /// Something was spilled: what is let go may be a piece of it.
    has_spilled: AtomicBool,
    loads: Jobs<(Name, Load)>,
    leaves: Jobs<Leave>,
    vhosts: Mutex<BTreeMap<Name, Weak<Vhost>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Something for the thread that lets messages leave.
#[derive(Debug)]
enum Leave {
    /// Look: there is too much.
    Look,
    /// Write a block of this vhost.
    Spill(Name, Spill),
    /// Let a piece go.
    Unspill(Lsn),
}

impl Pager {
    /// A pager that does nothing until [`Pager::start`].
    pub(super) fn new(place: Place, budget_bytes: u64) -> Self {
        Self {
            place,
            budget_bytes: AtomicU64::new(budget_bytes),
            used_bytes: AtomicU64::new(0),
            card_bytes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            waiters: Mutex::default(),
            has_spilled: AtomicBool::new(false),
            loads: Jobs::default(),
            leaves: Jobs::default(),
            vhosts: Mutex::default(),
            threads: Mutex::default(),
        }
    }

    /// Another budget, from now on. One that is smaller takes hold at once.
    pub(super) fn set_budget(&self, budget_bytes: u64) {
        self.budget_bytes.store(budget_bytes, Ordering::Relaxed);
        self.used(Memory::default(), Memory::default());
    }

    /// Takes a vhost in.
    pub(super) fn add(&self, vhost: &Arc<Vhost>) {
        let mut vhosts = self.vhosts.lock();
        vhosts.retain(|_, vhost| vhost.strong_count() > 0);
        vhosts.insert(vhost.name().clone(), Arc::downgrade(vhost));
    }

    /// Starts its threads.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        if matches!(self.place, Place::Nowhere) {
            return Ok(());
        }
        let begin = |name: &str, run: fn(&Self)| {
            let pager = Arc::clone(self);
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(move || run(&pager))
        };
        let mut threads = self.threads.lock();
        threads.push(begin("page-in", Self::run_loads)?);
        threads.push(begin("page-out", Self::run_leaves)?);
        Ok(())
    }

    /// Ends its threads, without waiting for them.
    pub(super) fn let_go(&self) {
        self.loads.stop();
        self.leaves.stop();
    }

    /// Ends its threads. Blocks.
    pub(super) fn stop(&self) {
        self.let_go();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!("a paging thread failed");
            }
        }
    }

    /// The memory of a vhost's messages changed: of those that are here and of those that are not.
    pub(super) fn used(&self, before: Memory, after: Memory) {
        let cards = after.card_bytes().wrapping_sub(before.card_bytes());
        self.card_bytes.fetch_add(cards, Ordering::Relaxed);
        let change = after.here_bytes().wrapping_sub(before.here_bytes());
        self.used_bytes.fetch_add(change, Ordering::Relaxed);
        if self.over_bytes() > self.budget_bytes.load(Ordering::Relaxed) / LUMP_PART
            && !matches!(self.place, Place::Nowhere)
            && !self.is_over.swap(true, Ordering::Relaxed)
        {
            self.leaves.push([Leave::Look]);
        }
        self.note_crowd();
    }

    /// Notes whether publishers should wait, and calls those that did when it is over.
    fn note_crowd(&self) {
        let is_crowded = !matches!(self.place, Place::Nowhere) && self.is_full();
        if self.is_crowded.load(Ordering::Relaxed) == is_crowded {
            return;
        }
        self.is_crowded.store(is_crowded, Ordering::Relaxed);
        if !is_crowded {
            let waiters = std::mem::take(&mut *self.waiters.lock());
            for outbox in waiters {
                outbox.waits_for_room.store(false, Ordering::Relaxed);
                outbox.call();
            }
        }
    }

    /// Whether publishers should wait; this connection is called when they need not any more.
    pub(super) fn is_crowded(&self, outbox: &Arc<Outbox>) -> bool {
        if !self.is_crowded.load(Ordering::Relaxed) {
            return false;
        }
        let mut waiters = self.waiters.lock();
        // It may be over by now, and all waiters called.
        let is_crowded = self.is_crowded.load(Ordering::Relaxed);
        if is_crowded && !outbox.waits_for_room.swap(true, Ordering::Relaxed) {
            waiters.push(Arc::clone(outbox));
        }
        is_crowded
    }

    /// Whether so much waits for the journal that a connection, or long work, should wait for it.
    /// Who settles brings little, and may spare a record: only for that many records.
    pub(super) fn is_journal_behind(&self, settles: impl FnOnce() -> bool) -> bool {
        let (records, all) = self.waiting_bytes();
        records > self.part_of_budget(RECORDS_PART, RECORDS_BYTES)
            || all > self.part_of_budget(JOURNAL_PART, JOURNAL_BYTES) && !settles()
    }

    fn waiting_bytes(&self) -> (u64, u64) {
        match &self.place {
            Place::Journal(store) => store.waiting_bytes(),
            Place::Spilled(_) | Place::Nowhere => (0, 0),
        }
    }

    fn part_of_budget(&self, divisor: u64, (least, most): (u64, u64)) -> u64 {
        let part = self.budget_bytes.load(Ordering::Relaxed) / divisor;
        part.clamp(least, most)
    }

    /// What the messages in memory may take: the budget without what is kept of the others, but not
    /// less than a part of it.
    fn limit_bytes(&self) -> u64 {
        let cards = self.card_bytes.load(Ordering::Relaxed);
        let budget_bytes = self.budget_bytes.load(Ordering::Relaxed);
        let rest = budget_bytes.saturating_sub(cards);
        rest.max(budget_bytes / LEAST_PART)
    }

    /// How much too much there is in memory.
    fn over_bytes(&self) -> u64 {
        let used = self.used_bytes.load(Ordering::Relaxed);
        used.saturating_sub(self.limit_bytes())
    }

    /// Whether what is to be read back should wait until something left.
    fn is_full(&self) -> bool {
        self.over_bytes() > self.budget_bytes.load(Ordering::Relaxed) / MARGIN_PART
            && !self.is_stuck.load(Ordering::Relaxed)
    }

    /// Reads and writes what a vhost asks for.
    pub(super) fn take(&self, vhost: &Name, loads: &mut Vec<Load>, spills: &mut Vec<Spill>) {
        self.loads
            .push(loads.drain(..).map(|load| (vhost.clone(), load)));
        let spills = spills.drain(..);
        self.leaves
            .push(spills.map(|spill| Leave::Spill(vhost.clone(), spill)));
    }

    /// Takes out what is a spilled piece, to let it go elsewhere.
    pub(super) fn release(&self, released: &mut Vec<Lsn>) {
        if self.has_spilled.load(Ordering::Relaxed) {
            let pieces = released.extract_if(.., |name| is_spilled(*name));
            self.leaves.push(pieces.map(Leave::Unspill));
        }
    }

    /// Bytes spilled and not let go.
    pub(super) fn spilled_bytes(&self) -> u64 {
        match &self.place {
            Place::Journal(store) => store.stats().spilled_bytes,
            Place::Spilled(spill) => spill.bytes(),
            Place::Nowhere => 0,
        }
    }

    fn vhost(&self, name: &Name) -> Option<Arc<Vhost>> {
        self.vhosts.lock().get(name)?.upgrade()
    }

    /// Records up to this one can be read back.
    fn written(&self) -> Lsn {
        match &self.place {
            Place::Journal(store) => store.durable(),
            Place::Spilled(_) | Place::Nowhere => Lsn(0),
        }
    }

    fn run_loads(&self) {
        loop {
            let (name, load) = match self.loads.next(None) {
                Next::Job(job) => job,
                Next::Nothing => continue,
                Next::End => return,
            };
            let Some(vhost) = self.vhost(&name) else {
                continue;
            };
            while self.is_full() && !self.loads.is_stopped() {
                self.loads.pause(MOMENT);
            }
            let loaded = self.read(&load, |record, error| {
                tracing::error!(
                    vhost = %name, record = record.0, %error,
                    "messages cannot be read back and are dropped"
                );
            });
            // A vhost that failed says so itself.
            let _ = vhost.command(Command::Loaded(loaded));
        }
    }

    /// The messages of a queue that somebody only wants to look at. Those that left meanwhile are
    /// missing.
    pub(super) fn glance(&self, queue: QueueId, wanted: Vec<Wanted>) -> Loaded {
        let block = Position(0); // of many blocks
        let load = Load {
            queue,
            block,
            wanted,
        };
        self.read(&load, |_, _| ())
    }

    fn read(&self, load: &Load, failed: impl Fn(Lsn, &ReadError)) -> Loaded {
        let names = record::records_of(load);
        let read = match &self.place {
            Place::Journal(store) => read_records(store, &names),
            Place::Spilled(spill) => {
                let read = names.iter().map(|name| spill.read(*name));
                read.map(|read| read.map(Found::Whole)).collect()
            }
            Place::Nowhere => Vec::new(),
        };
        let whole = |(name, read): (Lsn, Result<Found, ReadError>)| {
            let read = read.inspect_err(|error| failed(name, error)).ok();
            read.map(|found| (name, found))
        };
        let loaded = record::loaded(load, names.into_iter().zip(read).filter_map(whole));
        if let Place::Journal(store) = &self.place {
            for body in loaded
                .messages
                .iter()
                .filter_map(|(_, message, _)| message.ahead())
            {
                store.journal().lend(body);
            }
        }
        loaded
    }

    fn run_leaves(&self) {
        let watch = Stopwatch::start();
        let mut failed_ns = None;
        let mut idle_rounds = 0;
        loop {
            let job = match self.leaves.next(Some(IDLE)) {
                Next::Job(job) => job,
                Next::Nothing => {
                    idle_rounds += 1;
                    if idle_rounds % GIVE_BACK_ROUNDS == 0 {
                        give_back();
                    }
                    Leave::Look
                }
                Next::End => return,
            };
            let may_spill = |failed: &Option<u64>| {
                failed.is_none_or(|at| watch.elapsed_ns() - at > SPILL_AGAIN_NS)
            };
            match job {
                Leave::Spill(vhost, spill) => {
                    if let Err(error) = self.spill(&vhost, &spill) {
                        tracing::warn!(%error, "messages stay in memory: they cannot be spilled");
                        failed_ns = Some(watch.elapsed_ns());
                    }
                }
                Leave::Unspill(lsn) => match &self.place {
                    Place::Journal(store) => store.journal().unspill(lsn),
                    Place::Spilled(spill) => spill.unspill(lsn),
                    Place::Nowhere => {}
                },
                Leave::Look => self.look(may_spill(&failed_ns)),
            }
        }
    }

    /// Lets messages leave while there are too many, the newest first.
    fn look(&self, spill: bool) {
        self.is_over.store(false, Ordering::Relaxed);
        let vhosts: Vec<_> = self
            .vhosts
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        let mut left = false;
        for vhost in vhosts {
            let bytes = self.over_bytes();
            if bytes == 0 {
                break;
            }
            let before = vhost.memory().here.bytes;
            let page_out = Command::PageOut {
                bytes: bytes.min(STEP_BYTES),
                written: self.written(),
                spill,
            };
            let spills = self.leaves.len();
            if vhost.command(page_out).is_ok() {
                left |= vhost.memory().here.bytes < before || self.leaves.len() > spills;
            }
        }
        let is_over = self.over_bytes() > 0;
        let most = self.part_of_budget(JOURNAL_PART, JOURNAL_BYTES);
        let is_busy = self.waiting_bytes().1 > most / JOURNAL_BUSY_PART;
        self.is_stuck
            .store(is_over && !left && !is_busy, Ordering::Relaxed);
        self.note_crowd();
        if is_over && !self.is_over.swap(true, Ordering::Relaxed) {
            if !left {
                self.leaves.pause(PAUSE);
            }
            self.leaves.push([Leave::Look]);
        }
    }

    fn spill(&self, name: &Name, spill: &Spill) -> Result<(), DiskError> {
        let bytes = record::encode_spill(spill);
        let written = match &self.place {
            Place::Journal(store) => store.journal().spill(&bytes),
            Place::Spilled(files) => files.spill(&bytes),
            Place::Nowhere => Ok(Lsn(0)),
        };
        self.has_spilled.store(true, Ordering::Relaxed);
        if let Some(vhost) = self.vhost(name) {
            let lsn = *written.as_ref().unwrap_or(&Lsn(0));
            let _ = vhost.command(Command::Spilled {
                queue: spill.queue,
                block: spill.block,
                lsn,
                written: self.written(),
            });
        }
        written.map(drop)
    }
}

/// Reads records, but of bodies in pieces only the first.
fn read_records(store: &Store, names: &[Lsn]) -> Vec<Result<Found, ReadError>> {
    let journal = store.journal();
    let (ahead, whole): (Vec<Lsn>, Vec<Lsn>) =
        names.iter().partition(|name| journal.is_in_pieces(**name));
    let mut whole = journal.read_batch(&whole).into_iter();
    let mut ahead = ahead.into_iter().peekable();
    let read = names.iter().map(|name| {
        if ahead.next_if_eq(name).is_none() {
            let read = whole.next().unwrap_or(Err(ReadError::Unknown(*name)));
            return read.map(Found::Whole);
        }
        let beginning = journal.read_piece(*name, 0)?;
        beginning
            .map(Found::Beginning)
            .ok_or(ReadError::Damaged(*name))
    });
    read.collect()
}

/// Has the allocator give memory back to the system that was freed a while ago. It does so when it
/// is asked for a large piece or gets one back, and when little goes on there is none. This one
/// comes from the system: a piece of what was freed would be what is not given back.
fn give_back() {
    /// Aligned so coarsely that the allocator asks the system for it.
    #[repr(align(131_072))]
    #[expect(dead_code, reason = "only its alignment counts")]
    struct Far(u8);
    drop(std::hint::black_box(Vec::<Far>::with_capacity(1)));
}

/// What a thread is to do next.
enum Next<T> {
    Job(T),
    /// None came in time.
    Nothing,
    /// The broker stops.
    End,
}

/// What waits for a thread. Bounded by what the cores ask for at the same time.
#[derive(Debug)]
struct Jobs<T> {
    state: Mutex<(VecDeque<T>, bool)>,
    condition: Condvar,
}

impl<T> Default for Jobs<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new((VecDeque::new(), false)),
            condition: Condvar::new(),
        }
    }
}

impl<T> Jobs<T> {
    fn push(&self, jobs: impl IntoIterator<Item = T>) {
        let mut jobs = jobs.into_iter().peekable();
        if jobs.peek().is_some() {
            self.state.lock().0.extend(jobs);
            self.condition.notify_one();
        }
    }

    fn len(&self) -> usize {
        self.state.lock().0.len()
    }

    fn stop(&self) {
        self.state.lock().1 = true;
        self.condition.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().1
    }

    /// Waits a moment, unless it ends.
    fn pause(&self, at_most: Duration) {
        let mut state = self.state.lock();
        if !state.1 {
            self.condition.wait_for(&mut state, at_most);
        }
    }

    /// The next one; waits for it, at most so long.
    fn next(&self, at_most: Option<Duration>) -> Next<T> {
        let mut state = self.state.lock();
        if state.0.is_empty() && !state.1 {
            match at_most {
                Some(at_most) => {
                    self.condition.wait_for(&mut state, at_most);
                }
                None => self.condition.wait(&mut state),
            }
        }
        if state.1 {
            return Next::End;
        }
        state.0.pop_front().map_or(Next::Nothing, Next::Job)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::broker::queue::Usage;

    /// What so many messages of 1,000 bytes take in memory, and so many on disk.
    fn memory(here: u64, out: u64) -> Memory {
        let usage = |messages| Usage {
            messages,
            bytes: messages * 1_000,
        };
        Memory {
            here: usage(here),
            out: usage(out),
            loads: 0,
        }
    }

    fn pager(budget_bytes: u64) -> Pager {
        let disk = FileDisk::visit(&std::env::temp_dir()).unwrap();
        Pager::new(Place::Spilled(store::Spill::new(disk, 1)), budget_bytes)
    }

    #[test]
    fn publishers_wait_while_more_arrives_than_leaves_and_are_called_when_it_has_left() {
        let pager = pager(memory(100, 0).bytes());
        let outbox = Arc::new(Outbox::default());
        let mut context = Context::from_waker(Waker::noop());
        pager.used(Memory::default(), memory(105, 0));
        assert!(!pager.is_crowded(&outbox), "a little too much may be");
        pager.used(memory(105, 0), memory(130, 0));
        assert!(pager.is_crowded(&outbox) && pager.is_crowded(&outbox));
        assert!(outbox.poll_ready(&mut context).is_pending());
        pager.used(memory(130, 0), memory(90, 40));
        assert!(!pager.is_crowded(&outbox));
        assert!(outbox.poll_ready(&mut context).is_ready());
    }

    #[test]
    fn publishers_go_on_when_nothing_can_leave() {
        let pager = pager(memory(100, 0).bytes());
        let outbox = Arc::new(Outbox::default());
        pager.used(Memory::default(), memory(200, 0));
        assert!(pager.is_crowded(&outbox));
        pager.look(true);
        assert!(!pager.is_crowded(&outbox));
    }

    #[test]
    fn what_is_kept_of_messages_on_disk_counts_up_to_a_part_of_the_budget() {
        let budget = memory(100, 0).bytes();
        let pager = pager(budget);
        pager.used(Memory::default(), memory(0, 10));
        assert_eq!(pager.limit_bytes(), budget - memory(0, 10).bytes());
        pager.used(memory(0, 10), memory(0, 1_000_000));
        assert_eq!(pager.limit_bytes(), budget / LEAST_PART);
    }
}
