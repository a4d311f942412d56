//! One vhost: its core behind one lock, and the distribution of its effects to connections.

mod state;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use self::state::{AttachedConnection, VhostState, log};
use super::clock::SharedClock;
use super::events::VhostEvents;
use super::outbox::Outbox;
use super::pager::{MemoryWakes, Pager, PagingWants, VhostRef};
use super::sampled::Sampled;
use super::stats::{LockHolds, VhostStats};
use super::store::Store;
use crate::base::locks::{RankedGuard, RankedMutex, rank};
use crate::base::{
    ConnectionId, Gauge, HoldBudget, Lsn, Meter, Millis, Name, Now, Seed, Signal, Table,
};
use crate::broker::{
    Command, Core, Counters, Effects, Fact, Memory, More, QueueChurn, Record, Snapshot,
    UpkeepCommand,
};
use crate::gateway::Batch;
use crate::management::samples::VhostSample;
use crate::record::Stored;
use crate::store::{Disk, Journal, Wake};

/// The vhost's core panicked, or the vhost was deleted: nothing more is done in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failed;

/// The core's lock, held.
type Guard<'a> = RankedGuard<'a, rank::Core, VhostState>;

/// The result of the work on a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunOutcome {
    /// All is done.
    Finished,
    /// A hold used up its time, and there may be more work.
    OutOfTime,
}

/// What a vhost works with: the journal, if there is one, the pager, and the ring of its events.
type Surroundings<D> = (Option<Arc<Store<D>>>, Arc<Pager<D>>, Arc<VhostEvents>);

/// One vhost. Its lock is held for a batch, never across an await; tasks are woken after it is
/// released, once per batch.
#[derive(Debug)]
pub(crate) struct Vhost<D: Disk> {
    /// Its name, and what the pager's jobs for it are known by.
    reference: VhostRef,
    clock: SharedClock,
    /// The work that one hold of the lock may do.
    budget: HoldBudget,
    state: RankedMutex<rank::Core, VhostState>,
    /// The journal; none: messages live in memory only.
    store: Option<Arc<Store<D>>>,
    pager: Arc<Pager<D>>,
    /// What happened in it lately.
    events: Arc<VhostEvents>,
    /// Memory of its messages when the lock was last held, in bytes, without the parts that they
    /// share.
    memory_bytes: AtomicU64,
    /// The gauge of the parts that messages share.
    shared_memory: Gauge,
    /// The gauge of the memory of declared objects. Its growth wakes waiting tasks once the lock is
    /// released.
    kept: Gauge,
    failed: AtomicBool,
    /// Whether it was deleted: then nothing more is done in it.
    deleted: AtomicBool,
    /// Signalled when a core fails.
    failure: Arc<Signal>,
    /// When the timer task will run, in [`Millis`].
    timer_due: AtomicU64,
    timer: Signal,
    /// The last sample of its counters, for rates.
    pub(crate) rates: Sampled<VhostSample>,
}

impl<D: Disk> Vhost<D> {
    pub(crate) fn new(
        core: Core,
        (store, pager, events): Surroundings<D>,
        (seed, clock, failure): (Seed, SharedClock, Arc<Signal>),
    ) -> Self {
        let (reference, shared_memory) = (pager.reference(core.vhost()), core.shared_memory());
        let budget = core.hold_budget();
        let kept = core.kept().clone();
        let state = VhostState {
            core,
            effects: Effects::new(),
            peers: Table::new(seed),
            touched: Vec::new(),
            wakers: Vec::new(),
            holds: LockHolds::new(),
            memory: Memory::default(),
            #[cfg(test)]
            longest_estimate_ns: 0,
        };
        Self {
            reference,
            clock,
            budget,
            state: RankedMutex::new(state),
            store,
            pager,
            events,
            memory_bytes: AtomicU64::new(0),
            shared_memory,
            kept,
            failed: AtomicBool::new(false),
            deleted: AtomicBool::new(false),
            failure,
            timer_due: AtomicU64::new(0),
            timer: Signal::default(),
            rates: Sampled::default(),
        }
    }

    /// Adds a connection: from now on its effects go to this outbox.
    pub(crate) fn enter(&self, connection: ConnectionId, outbox: Arc<Outbox>) {
        let peer = AttachedConnection {
            outbox,
            staged: VecDeque::new(),
        };
        self.state.lock().peers.insert(connection, peer);
    }

    /// Removes a connection whose close the core has handled.
    pub(crate) fn disconnect(&self, connection: ConnectionId) {
        self.state.lock().peers.remove(&connection);
    }

    /// The last durable LSN. Without a journal every LSN counts as durable.
    pub(crate) fn durable(&self) -> Lsn {
        let store = self.store.as_ref();
        store.map_or(Lsn(u64::MAX), |store| store.durable())
    }

    /// Wakes a connection once an LSN is durable.
    pub(crate) fn wake_when_durable(&self, lsn: Lsn, outbox: &Arc<Outbox>) {
        match &self.store {
            Some(store) => store.wake_when_durable(lsn, outbox),
            None => outbox.wake(),
        }
    }

    /// Begins to copy all durable state, topology first, into the running checkpoint. Copies with
    /// LSNs below `trusted` are not kept.
    pub(crate) fn begin_snapshot(&self, trusted: Lsn) -> Result<Snapshot, Failed> {
        Ok(self.lock()?.core.begin_snapshot(trusted))
    }

    /// Copies one slice. Returns the LSN of the copy, 0 if there was nothing to copy; none when all is
    /// copied.
    pub(crate) fn copy_slice(
        &self,
        store: &Store<D>,
        snapshot: &mut Snapshot,
    ) -> Result<Option<Lsn>, Failed> {
        let state = self.lock()?;
        let begun_ns = self.clock.elapsed_ns();
        let now = self.clock.now();
        let copied = self.caught(state, |state| state.core.snapshot_slice(now, snapshot))?;
        let (mut state, Some(slice)) = copied else {
            return Ok(None);
        };
        for copy in slice.kept {
            store.journal().keep_block(copy);
        }
        let (mut copy, mut wake) = (Lsn(0), Wake::No);
        if !slice.facts.is_empty() {
            (copy, wake) = self.append_block(store, now, slice.facts);
            if let Some(block) = slice.block {
                state.core.note_copied(block, copy);
            }
        }
        state.holds.record(self.clock.elapsed_ns() - begun_ns);
        RankedGuard::unlock_fair(state);
        store.wake(wake, Lsn(0));
        Ok(Some(copy))
    }

    /// Appends a block to the checkpoint; to be called under the lock that keeps the state from
    /// changing.
    fn append_block(&self, store: &Store<D>, now: Now, facts: Vec<Fact>) -> (Lsn, Wake) {
        let record = Record {
            lsn: Lsn(0),
            wall: now.wall,
            facts: facts.into(),
            named: true,
        };
        let block = Stored::new(self.name().clone(), record);
        store.journal().append_block(block)
    }

    /// Does the work of a gateway's batch, in holds within [`HoldBudget`], until all is done or a
    /// hold has used up its time: then other connections come first.
    pub(crate) fn run(&self, batch: &mut Batch, outbox: &Outbox) -> Result<RunOutcome, Failed> {
        while !batch.is_empty() {
            let is_used_up = self.hold(Some(batch), |now, core, effects, batch| {
                if let Some(batch) = batch {
                    // Effects caused by others so far precede those of this batch.
                    outbox.drain(|effects| batch.push_effects(effects));
                    batch.apply(now, core, effects, self.budget);
                }
                effects.meter.is_used_up()
            })?;
            if is_used_up {
                return Ok(RunOutcome::OutOfTime);
            }
        }
        Ok(RunOutcome::Finished)
    }

    /// Does what is due. Returns when to call it again.
    pub(crate) fn tick(&self) -> Result<Millis, Failed> {
        self.hold(None, |now, core, effects, _| {
            let due = match core.tick(now, self.budget.commands, effects) {
                More::Yes => now.mono,
                More::No => core.next_deadline().unwrap_or(Millis::NEVER),
            };
            self.timer_due.store(due.0, Ordering::Relaxed);
            due
        })
    }

    /// Works on the core for no connection.
    pub(crate) fn work<T>(
        &self,
        work: impl FnOnce(Now, &mut Core, &mut Effects) -> T,
    ) -> Result<T, Failed> {
        self.hold(None, |now, core, effects, _| work(now, core, effects))
    }

    /// Raises or clears the alarm that stops publishers.
    pub(crate) fn set_alarm(&self, raised: bool) -> Result<(), Failed> {
        self.command(Command::Upkeep(UpkeepCommand::Alarm { raised }))
    }

    /// Tells the journal how many messages died, as far as it does not know: the broker is about to stop.
    pub(crate) fn write_deaths(&self) -> Result<(), Failed> {
        self.command(Command::Upkeep(UpkeepCommand::WriteDeaths))
    }

    /// Applies a command that is answered by nothing.
    pub(crate) fn command(&self, command: Command) -> Result<(), Failed> {
        self.hold(None, |now, core, effects, _| {
            core.apply(now, command, effects);
        })
    }

    /// One hold of the lock: runs `work` on the core, then distributes the effects. The batch that
    /// the work is for gets its own at once.
    fn hold<T>(
        &self,
        mut own: Option<&mut Batch>,
        work: impl FnOnce(Now, &mut Core, &mut Effects, Option<&mut Batch>) -> T,
    ) -> Result<T, Failed> {
        let mut state = self.lock()?;
        let begun_ns = self.clock.elapsed_ns();
        let now = self.clock.now();
        let reservation = self.store.as_ref().map(|store| store.reserve());
        let VhostState { core, effects, .. } = &mut *state;
        effects.meter = Meter::new(self.budget);
        if let Some(reservation) = &reservation {
            core.resume_at(reservation.first());
        }
        let result = catch_unwind(AssertUnwindSafe(|| {
            work(now, core, effects, own.as_deref_mut())
        }));
        let Ok(result) = result else {
            // Nothing of this batch was told to anybody.
            if let (Some(store), Some(reservation)) = (&self.store, reservation) {
                store.abandon(reservation);
            }
            return Err(self.fail(state));
        };
        let has_events = !state.effects.events.is_empty();
        if has_events {
            let lsn = state.effects.last_lsn();
            self.events.stage(&mut state.effects.events, lsn);
        }
        let unspills = self.pager.take_spilled(&mut state.effects.released);
        // Before any connection can wait for these records.
        let wake = if let (Some(store), Some(reservation)) = (&self.store, reservation) {
            let VhostState { core, effects, .. } = &mut *state;
            store.fill(reservation, core, effects)
        } else {
            state.effects.records.clear();
            state.effects.released.clear();
            Wake::No
        };
        let awaited = state.distribute(own);
        self.finish(now, state, begun_ns, unspills);
        if let Some(store) = &self.store {
            store.wake(wake, awaited);
        }
        if has_events {
            self.events.settle();
        }
        Ok(result)
    }

    /// Reads the core, for listings: a slice of objects at a time.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Core) -> T) -> Result<T, Failed> {
        let mut state = self.lock()?;
        let begun_ns = self.clock.elapsed_ns();
        let seen = look(&state.core);
        let wakes = self.note_memory(&mut state);
        state.holds.record(self.clock.elapsed_ns() - begun_ns);
        RankedGuard::unlock_fair(state);
        wakes.wake();
        Ok(seen)
    }

    /// The time of the node's clock.
    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// What happened in it lately.
    pub(crate) const fn events(&self) -> &Arc<VhostEvents> {
        &self.events
    }

    /// The pager of the node.
    pub(crate) fn pager(&self) -> &Pager<D> {
        &self.pager
    }

    /// Tells the pager the memory of the messages. Waiters are woken once the lock is released.
    fn note_memory(&self, state: &mut VhostState) -> MemoryWakes {
        let memory = state.core.memory();
        let before = std::mem::replace(&mut state.memory, memory);
        if before == memory {
            return MemoryWakes::default();
        }
        let own_bytes = memory.bytes() - memory.shared_bytes;
        self.memory_bytes.store(own_bytes, Ordering::Relaxed);
        self.pager.used(before, memory)
    }

    /// The longest hold so far by the estimated cost of its work, in nanoseconds.
    #[cfg(test)]
    pub(crate) fn longest_estimate_ns(&self) -> u64 {
        self.state.lock().longest_estimate_ns
    }

    /// Number and bytes of all messages, in memory and on disk.
    pub(crate) fn memory(&self) -> Memory {
        self.state.lock().core.memory()
    }

    /// Estimated memory of all messages, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // Shared parts are freed outside the lock, too.
        self.memory_bytes.load(Ordering::Relaxed) + self.shared_memory.bytes()
    }

    /// Ready when there is a deadline before the one that the timer task sleeps for.
    pub(crate) async fn earlier(&self) {
        self.timer.woken().await;
    }

    fn lock(&self) -> Result<Guard<'_>, Failed> {
        let state = self.state.lock();
        if self.failed() || self.is_deleted() {
            return Err(Failed);
        }
        Ok(state)
    }

    /// Ends a hold: releases the lock, then wakes the tasks that the batch had effects for.
    fn finish(&self, now: Now, mut state: Guard<'_>, begun_ns: u64, unspills: Vec<Lsn>) {
        let events = std::mem::take(&mut state.effects.log);
        let due = if state.core.has_work() {
            now.mono
        } else {
            state.core.next_deadline().unwrap_or(Millis::NEVER)
        };
        let wakes = self.note_memory(&mut state);
        state.holds.record(self.clock.elapsed_ns() - begun_ns);
        #[cfg(test)]
        state.note_estimate();
        let wakers = std::mem::take(&mut state.wakers);
        let wants = PagingWants {
            unspills,
            loads: std::mem::take(&mut state.effects.loads),
            looks: std::mem::take(&mut state.effects.looks),
            spills: std::mem::take(&mut state.effects.spills),
        };
        let garbage = std::mem::take(&mut state.effects.garbage);
        RankedGuard::unlock_fair(state);
        for waker in wakers {
            waker.wake();
        }
        self.pager.take(&self.reference, wants);
        wakes.wake();
        self.kept.wake_if_due();
        if self.timer_due.fetch_min(due.0, Ordering::Relaxed) > due.0 {
            self.timer.wake();
        }
        drop(garbage);
        for event in events {
            log(self.name(), &event);
        }
    }

    /// Runs work under the lock for a caller that does not catch panics; a panic fails the core.
    fn caught<'a, T>(
        &self,
        mut state: Guard<'a>,
        work: impl FnOnce(&mut VhostState) -> T,
    ) -> Result<(Guard<'a>, T), Failed> {
        match catch_unwind(AssertUnwindSafe(|| work(&mut state))) {
            Ok(done) => Ok((state, done)),
            Err(_) => Err(self.fail(state)),
        }
    }

    /// Marks the core as failed after a panic: its state is unusable, and it is not used again.
    fn fail(&self, state: Guard<'_>) -> Failed {
        self.failed.store(true, Ordering::Release);
        tracing::error!(vhost = %self.name(), "the core failed; its links are closed");
        let outboxes = state.outboxes();
        drop(state);
        for outbox in outboxes {
            outbox.wake();
        }
        self.failure.wake();
        Failed
    }

    pub(crate) const fn name(&self) -> &Name {
        &self.reference.name
    }

    /// What the pager's jobs for it are known by.
    pub(crate) const fn reference(&self) -> &VhostRef {
        &self.reference
    }

    /// Deletes the vhost: no record of it follows. Its connections are woken.
    pub(crate) fn delete(&self) {
        let state = self.state.lock();
        self.deleted.store(true, Ordering::Release);
        let outboxes = state.outboxes();
        drop(state);
        for outbox in outboxes {
            outbox.wake();
        }
        self.timer.wake();
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Frees a part of the content of a deleted vhost, and gives back its share of the memory budget
    /// and what was spilled of it; bodies in the journal are released once the record of the deletion
    /// is durable. False when nothing is left.
    ///
    /// So are those of a core that failed, as far as it can be walked: each body is this vhost's, and to
    /// release one twice does nothing.
    pub(crate) fn dissolve(&self, deleted_by: Lsn) -> bool {
        let begun_ns = self.clock.elapsed_ns();
        let dissolved = self.caught(self.state.lock(), |state| {
            let now = self.clock.now();
            let VhostState { core, effects, .. } = state;
            core.dissolve(now, self.budget.commands, effects)
        });
        let Ok((mut state, more)) = dissolved else {
            self.write_off();
            return false;
        };
        let effects = &mut state.effects;
        let unspills = self.pager.take_spilled(&mut effects.released);
        if let Some(store) = &self.store {
            for body in effects.released.drain(..) {
                store.journal().release(body, deleted_by);
            }
        }
        let garbage = std::mem::take(&mut effects.garbage);
        effects.clear();
        let wakes = self.note_memory(&mut state);
        state.holds.record(self.clock.elapsed_ns() - begun_ns);
        RankedGuard::unlock_fair(state);
        let wants = PagingWants {
            unspills,
            ..PagingWants::default()
        };
        self.pager.take(&self.reference, wants);
        wakes.wake();
        drop(garbage);
        if more == More::No && self.failed() {
            self.write_off(); // what it had counted when it failed may be there no more
        }
        more == More::Yes
    }

    /// Gives back the share of the memory budget of a vhost whose core cannot be freed in order, since
    /// it failed while that was done: it is freed as a whole.
    fn write_off(&self) {
        let mut state = self.state.lock();
        let before = std::mem::take(&mut state.memory);
        let wakes = self.pager.used(before, Memory::default());
        RankedGuard::unlock_fair(state);
        wakes.wake();
    }

    /// Whether its lock can be taken within this time. Blocks.
    pub(crate) fn answers_within(&self, time: Duration) -> bool {
        self.state.try_lock_for(time).is_some()
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Declarations and deletions of queues.
    pub(crate) fn queue_churn(&self) -> QueueChurn {
        self.state.lock().core.counters().queues
    }

    /// What was counted, as if the queues that exist were deleted now.
    pub(crate) fn counters_at_end(&self) -> Counters {
        self.state.lock().core.counters_at_end()
    }

    pub(crate) fn stats(&self) -> VhostStats {
        let state = self.state.lock();
        VhostStats {
            name: self.name().to_string(),
            connections: state.peers.len(),
            published: state.core.counters().published,
            delivered: state.core.counters().delivered,
            dead_lettered: state.core.counters().dead_lettered.total(),
            lock_holds: state.holds,
            failed: self.failed(),
        }
    }
}
