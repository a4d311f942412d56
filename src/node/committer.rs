//! What its owner does for the journal: commits, and keeps house in it.
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

/// How often the journal is looked after while there was something to do not long ago, in milliseconds.
const BUSY_MS: u64 = 100;
/// Rounds with nothing to do until the journal counts as idle.
const STILL_ROUNDS: u32 = 30;
/// How often it is looked after then, in milliseconds: `/health` counts on a sign of life every ten
/// seconds.
const IDLE_MS: u64 = 4_000;

/// Commits what waits for the journal, and keeps house in it. Its owner says when to go on.
#[derive(Debug)]
pub(crate) struct Committer<D: Disk> {
    store: Arc<Store<D>>,
    writer: Writer<Stored, D>,
    sync: SyncPolicy,
    clock: SharedClock,
    group_commit: GroupCommit,
    /// When the oldest bytes were written that are not synced, under [`SyncPolicy::Interval`].
    unsynced_since_ns: Option<u64>,
    /// Who waited for what is durable up to here was called.
    woken: Lsn,
    /// How the last piece of housekeeping left it.
    upkeep: Maintained,
    /// Rounds since there was anything to do.
    still_rounds: u32,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommitterStep {
    /// Write and sync what waits.
    Commit,
    /// Let more join the commit: at most so long, until it is full or until somebody waits for a
    /// record above `awaited`.
    Join {
        /// In microseconds.
        at_most_us: u64,
        /// Nobody who waits for this or less shortens it.
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

    /// The journal it commits for.
    pub(crate) const fn store(&self) -> &Arc<Store<D>> {
        &self.store
    }

    /// How long to wait to be woken at most. For a while after there was something to do, while
    /// something is to be synced at its time, or while there is no room, that is short: then time
    /// alone makes work.
    pub(crate) fn patience_ms(&self) -> u64 {
        let is_open = self.store.state() == StoreState::Open;
        let is_idle = self.unsynced_since_ns.is_none() && self.still_rounds >= STILL_ROUNDS;
        if is_open && is_idle { IDLE_MS } else { BUSY_MS }
    }

    /// Whether to commit, or to let more join first: under load a moment, and longer while nobody
    /// waits for it, be it a client or the journal's own upkeep.
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

    /// One commit and one piece of housekeeping; whether to come again at once. After an error the
    /// store is poisoned: who waits for it is called, and finds it so.
    pub(crate) fn commit(&mut self) -> Result<bool, StoreError> {
        self.commit_around(|| ())
    }

    /// The same; the simulator says what others do `between` the write and the sync.
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
        // Also without a write: what was elided is confirmed with the rest.
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

    /// Writes and syncs what waits, for good.
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
