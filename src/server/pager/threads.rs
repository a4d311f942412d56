//! What the two threads do: one reads messages back, the other lets them leave.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::jobs::Next;
use super::{JOURNAL_BYTES, JOURNAL_PART, Leave, Pager, Place};
use crate::base::{Lsn, Name, Position, QueueId};
use crate::broker::{Command, Load, Loaded, Spill, Wanted};
use crate::record::{self, Found};
use crate::server::clock::Stopwatch;
use crate::server::store::Store;
use crate::store::{DiskError, Journal, ReadError};

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
/// While this part of that waits for the journal, as a divisor, what cannot leave will.
const JOURNAL_BUSY_PART: u64 = 4;
/// How often memory that nobody uses any more is given back while little goes on, in rounds of
/// [`IDLE`].
const GIVE_BACK_ROUNDS: u32 = 10;

impl Pager {
    pub(super) fn run_loads(&self) {
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
    pub(in crate::server) fn glance(&self, queue: QueueId, wanted: Vec<Wanted>) -> Loaded {
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

    pub(super) fn run_leaves(&self) {
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
    pub(super) fn look(&self, spill: bool) {
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
