//! The committer: commits the journal's waiting records, and does its housekeeping.
//!
//! ```text
//!   records ---> waker ---> poll: join or commit ---> commit: write, sync, durable LSN ---> waiters
//! ```
//!
//! The server runs it on a thread of its own that sleeps until the
//! [`JournalWaker`](super::journal_waker::JournalWaker) wakes it; the simulator steps it.

use std::sync::Arc;

use super::clock::SharedClock;
use super::store::Store;
use crate::base::Lsn;
use crate::record::Stored;
use crate::store::{
    CommitBacklog, Disk, Due, GroupCommit, Maintained, StoreError, StoreState, SyncPolicy, Writer,
};

/// Bytes that rewriting may read and write between two commits.
const MAINTAIN_BYTES: usize = 1024 * 1024;

/// Interval of housekeeping while there was some to do not long ago, in milliseconds.
const BUSY_MS: u64 = 100;
/// Rounds with nothing to do after which the journal counts as idle.
const STILL_ROUNDS: u32 = 30;
/// Interval of housekeeping then, in milliseconds: `/health` expects a sign of life every ten
/// seconds.
const IDLE_MS: u64 = 4_000;

/// Commits the waiting records of the journal, and does its housekeeping. Its owner calls it when
/// it is due.
#[derive(Debug)]
pub(crate) struct Committer<D: Disk> {
    store: Arc<Store<D>>,
    writer: Writer<Stored, D>,
    sync: SyncPolicy,
    clock: SharedClock,
    group_commit: GroupCommit,
    /// When the oldest unsynced bytes were written, under [`SyncPolicy::Interval`].
    unsynced_since_ns: Option<u64>,
    /// Waiters for LSNs up to this one were woken.
    woken: Lsn,
    /// The result of the last step of housekeeping.
    upkeep: Maintained,
    /// Rounds since there was anything to do.
    still_rounds: u32,
}

/// The next step of the committer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommitterStep {
    /// Write and sync the waiting records.
    Commit,
    /// Wait for more records: at most this long, until enough for a commit wait, or until a client
    /// waits for a record above `awaited`.
    Join {
        /// The longest wait, in microseconds.
        at_most_us: u64,
        /// A client that waits for this LSN or a lower one does not end the wait.
        awaited: Lsn,
    },
}

impl<D: Disk> Committer<D> {
    pub(crate) fn new(
        store: Arc<Store<D>>,
        writer: Writer<Stored, D>,
        (sync, group_commit): (SyncPolicy, GroupCommit),
        clock: SharedClock,
    ) -> Self {
        Self {
            store,
            writer,
            sync,
            clock,
            group_commit,
            unsynced_since_ns: None,
            woken: Lsn(0),
            upkeep: Maintained::Idle,
            still_rounds: 0,
        }
    }

    /// The journal that is committed.
    pub(crate) const fn store(&self) -> &Arc<Store<D>> {
        &self.store
    }

    /// The longest time to wait for a wake-up, in milliseconds. For a while after there was
    /// something to do, while a sync is due at some time, or while there is no room, it is short:
    /// then work comes with time alone.
    pub(crate) fn patience_ms(&self) -> u64 {
        let is_open = self.store.state() == StoreState::Open;
        let is_idle = self.unsynced_since_ns.is_none() && self.still_rounds >= STILL_ROUNDS;
        if is_open && is_idle { IDLE_MS } else { BUSY_MS }
    }

    /// Whether to commit, or to wait for more records first: briefly under load, and longer while
    /// neither a client nor the journal's own housekeeping waits for it.
    pub(crate) fn poll(&mut self) -> CommitterStep {
        let now_us = self.now_us();
        let durable = self.store.durable();
        let is_awaited =
            self.upkeep == Maintained::More || self.store.journal_waker().awaited() > durable;
        let (bytes, arrived_bytes) = self.store.journal().waiting_bytes();
        let waiting = CommitBacklog {
            any: self.writer.has_work(),
            awaited: is_awaited,
            bytes,
            arrived_bytes,
        };
        let Due::At(due_us) = self.group_commit.poll(now_us, waiting) else {
            return CommitterStep::Commit;
        };
        CommitterStep::Join {
            at_most_us: due_us.saturating_sub(now_us),
            awaited: if is_awaited { Lsn(u64::MAX) } else { durable },
        }
    }

    /// Makes one commit and does one step of housekeeping; returns whether to call again at once.
    /// After an error the store is poisoned: its waiters are woken, and see that.
    pub(crate) fn commit(&mut self) -> Result<bool, StoreError> {
        self.commit_around(|| ())
    }

    /// The same; the simulator runs `between` after the write and before the sync.
    pub(crate) fn commit_around(&mut self, between: impl FnOnce()) -> Result<bool, StoreError> {
        let committed = self.try_commit(between);
        if committed.is_err() {
            self.store.wake_all_waiters();
        }
        committed
    }

    fn try_commit(&mut self, between: impl FnOnce()) -> Result<bool, StoreError> {
        let now = self.clock.now();
        self.store.note_round(now.mono);
        let wrote = self.writer.write(now.wall)?;
        between();
        let (_, arrived_bytes) = self.store.journal().waiting_bytes();
        let records = wrote.records + wrote.elided;
        self.group_commit
            .committed(self.now_us(), records, arrived_bytes);
        self.sync_if_due(wrote.unsynced)?;
        // Also without a write: elided records are confirmed with the others.
        let durable = self.store.durable();
        if durable > self.woken {
            self.woken = durable;
            self.store.wake_waiters();
        }
        if self.store.state() == StoreState::Full {
            self.writer.retry_room();
        }
        self.upkeep = self.writer.maintain(MAINTAIN_BYTES)?;
        let more = self.writer.has_work() || self.upkeep == Maintained::More;
        self.still_rounds = if more || records > 0 {
            0
        } else {
            self.still_rounds.saturating_add(1)
        };
        Ok(more && !wrote.stalled)
    }

    /// Writes and syncs the waiting records, and closes the journal.
    pub(crate) fn close(&mut self) -> Result<(), StoreError> {
        self.writer.close(self.clock.now().wall)?;
        self.store.wake_waiters();
        Ok(())
    }

    fn now_us(&self) -> u64 {
        self.clock.elapsed_ns() / 1_000
    }

    fn sync_if_due(&mut self, unsynced: bool) -> Result<(), StoreError> {
        let now_ns = self.clock.elapsed_ns();
        let due = match self.sync {
            SyncPolicy::Always => unsynced,
            SyncPolicy::Never => false,
            SyncPolicy::Interval { every_ms } => {
                let since_ns = unsynced.then(|| *self.unsynced_since_ns.get_or_insert(now_ns));
                since_ns.is_some_and(|since_ns| (now_ns - since_ns) / 1_000_000 >= every_ms)
            }
        };
        if due {
            self.writer.sync()?;
            let took_ns = self.clock.elapsed_ns() - now_ns;
            self.writer.observe_sync(took_ns / 1_000);
            self.unsynced_since_ns = None;
        }
        Ok(())
    }
}
