//! The work of the pager: one reads messages back, the other lets them leave. Both may block on the
//! disk, so their owner carries it out on threads of its own.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use super::{JOURNAL_BYTES, JOURNAL_PART, Leave, Pager, Place};
use crate::base::{Lsn, Name, Position, QueueId};
use crate::broker::{Command, Load, Loaded, Spill, Wanted};
use crate::node::store::Store;
use crate::record::{self, Found};
use crate::store::{Disk, DiskError, Journal, ReadError};

/// How long nothing is spilled after that failed.
const SPILL_AGAIN_NS: u64 = 5_000_000_000;
/// What one command lets leave at most, in bytes: the core's lock is held for it.
const STEP_BYTES: u64 = 2 * 1024 * 1024;
/// While this part of that waits for the journal, as a divisor, what cannot leave will.
const JOURNAL_BUSY_PART: u64 = 4;

/// What a piece of work came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Worked {
    /// Go on with the next.
    On,
    /// Nothing may leave at this moment: go on a little later.
    Stuck,
}

impl<D: Disk> Pager<D> {
    /// Reads what a vhost asked for and gives it back. Blocks.
    pub(crate) fn load(&self, (name, load): &(Name, Load)) {
        let Some(vhost) = self.vhost(name) else {
            return;
        };
        let loaded = self.read(load, |record, error| {
            tracing::error!(
                vhost = %name, record = record.0, %error,
                "messages cannot be read back and are dropped"
            );
        });
        // A vhost that failed says so itself.
        let _ = vhost.command(Command::Loaded(loaded));
    }

    /// The messages of a queue that somebody only wants to look at. Those that left meanwhile are
    /// missing.
    pub(crate) fn glance(&self, queue: QueueId, wanted: Vec<Wanted>) -> Loaded {
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

    /// Does one thing for messages that are to leave. Blocks.
    pub(crate) fn leave(&self, now_ns: u64, job: Leave) -> Worked {
        match job {
            Leave::Spill(vhost, spill) => {
                if let Err(error) = self.spill(&vhost, &spill) {
                    tracing::warn!(%error, "messages stay in memory: they cannot be spilled");
                    let again_ns = now_ns.saturating_add(SPILL_AGAIN_NS);
                    self.spill_again_ns.store(again_ns, Ordering::Relaxed);
                }
                Worked::On
            }
            Leave::Unspill(lsn) => {
                match &self.place {
                    Place::Journal(store) => store.journal().unspill(lsn),
                    Place::Spilled(spill) => spill.unspill(lsn),
                    Place::Nowhere => {}
                }
                Worked::On
            }
            Leave::Look => self.look(now_ns >= self.spill_again_ns.load(Ordering::Relaxed)),
        }
    }

    /// Lets messages leave while there are too many, the newest first.
    pub(crate) fn look(&self, spill: bool) -> Worked {
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
        self.note_crowd().call();
        if is_over && !self.is_over.swap(true, Ordering::Relaxed) {
            self.leaves.push([Leave::Look]);
            if !left {
                return Worked::Stuck;
            }
        }
        Worked::On
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
fn read_records<D: Disk>(store: &Store<D>, names: &[Lsn]) -> Vec<Result<Found, ReadError>> {
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
