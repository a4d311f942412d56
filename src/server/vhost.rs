//! One vhost of the server: its core behind one lock, and the ways from it to the connections.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::clock::{Clock, Stopwatch};
use super::outbox::Outbox;
use super::stats::{LockHolds, VhostStats};
use crate::base::limits::{BATCH_COMMANDS_MAX, LISTING_SLICE};
use crate::base::{ConnectionId, Lsn, Map, Millis, Name, Now, Seed};
use crate::broker::{Command, Core, Effect, Effects, Fact, LogEvent, More, Options};
use crate::gateway::Gateway;
use crate::store::{Forgetful, Journal};

/// Messages that one tick may handle under one hold of the lock.
const TICK_BUDGET: usize = BATCH_COMMANDS_MAX;

/// The vhost's core panicked: nothing more is done in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Failed;

/// One vhost. Its lock is held for a batch, never across an await; who is to be woken is woken
/// afterwards, once per batch. Order of locks: registry, core, outbox.
#[derive(Debug)]
pub(super) struct Vhost {
    name: Name,
    clock: Clock,
    state: Mutex<State>,
    /// Keeps the records; messages live in memory, so it forgets them.
    journal: Forgetful,
    failed: AtomicBool,
    /// Told when a core fails.
    failure: Arc<Notify>,
    /// When the timer task will look, in [`Millis`].
    timer_due: AtomicU64,
    timer: Notify,
}

#[derive(Debug)]
struct State {
    core: Core,
    effects: Effects,
    peers: Map<ConnectionId, Peer>,
    /// Peers with staged effects.
    touched: Vec<ConnectionId>,
    /// Who is to be woken once the lock is free.
    wakers: Vec<Waker>,
    holds: LockHolds,
}

#[derive(Debug)]
struct Peer {
    outbox: Arc<Outbox>,
    staged: Vec<Effect>,
}

impl Vhost {
    pub(super) fn new(
        name: Name,
        seed: Seed,
        unsettled_max: u32,
        clock: Clock,
        failure: Arc<Notify>,
    ) -> Self {
        let options = Options {
            unsettled_max,
            ..Options::new(name.clone(), seed)
        };
        let state = State {
            core: Core::new(options),
            effects: Effects::new(),
            peers: Map::with_hasher(seed.hasher()),
            touched: Vec::new(),
            wakers: Vec::new(),
            holds: LockHolds::new(),
        };
        Self {
            name,
            clock,
            state: Mutex::new(state),
            journal: Forgetful::default(),
            failed: AtomicBool::new(false),
            failure,
            timer_due: AtomicU64::new(0),
            timer: Notify::new(),
        }
    }

    /// Takes a connection in: from now on its effects go to this outbox.
    pub(super) fn enter(&self, connection: ConnectionId, outbox: Arc<Outbox>) {
        let peer = Peer {
            outbox,
            staged: Vec::new(),
        };
        self.state.lock().peers.insert(connection, peer);
    }

    /// Forgets a connection that has said goodbye to the core.
    pub(super) fn leave(&self, connection: ConnectionId) {
        self.state.lock().peers.remove(&connection);
    }

    /// The last LSN that is durable.
    pub(super) fn durable(&self) -> Lsn {
        Journal::<Vec<Fact>>::durable_lsn(&self.journal)
    }

    /// Does a gateway's work, at most [`BATCH_COMMANDS_MAX`] commands under one hold.
    pub(super) fn run(&self, gateway: &mut Gateway, outbox: &Outbox) -> Result<(), Failed> {
        while gateway.has_work() {
            self.hold(Some(gateway), |now, core, effects, gateway| {
                if let Some(gateway) = gateway {
                    // What others caused so far comes before what this batch causes.
                    outbox.drain(|effects| gateway.push_effects(effects));
                    gateway.run(now, core, effects, BATCH_COMMANDS_MAX);
                }
            })?;
        }
        Ok(())
    }

    /// Fires what is due. Returns when to come again.
    pub(super) fn tick(&self) -> Result<Millis, Failed> {
        self.hold(None, |now, core, effects, _| {
            let due = match core.tick(now, TICK_BUDGET, effects) {
                More::Yes => now.mono,
                More::No => core.next_deadline().unwrap_or(Millis::NEVER),
            };
            self.timer_due.store(due.0, Ordering::Relaxed);
            due
        })
    }

    /// Raises or clears the alarm that stops publishers.
    pub(super) fn set_alarm(&self, raised: bool) -> Result<(), Failed> {
        self.hold(None, |now, core, effects, _| {
            core.apply(now, Command::Alarm { raised }, effects);
        })
    }

    /// One hold of the lock: `work` on the core, then its effects to where they belong. The gateway
    /// whose work it is gets its own at once.
    fn hold<T>(
        &self,
        mut own: Option<&mut Gateway>,
        work: impl FnOnce(Now, &mut Core, &mut Effects, Option<&mut Gateway>) -> T,
    ) -> Result<T, Failed> {
        let mut state = self.lock()?;
        let watch = Stopwatch::start();
        let now = self.clock.now();
        let reservation = Journal::<Vec<Fact>>::reserve(&self.journal);
        let State { core, effects, .. } = &mut *state;
        let result = catch_unwind(AssertUnwindSafe(|| {
            work(now, core, effects, own.as_deref_mut())
        }));
        let Ok(result) = result else {
            return Err(self.fail(state));
        };
        // Before anyone can wait for these records.
        let records = state
            .effects
            .records
            .drain(..)
            .map(|record| (record.lsn, record.facts));
        self.journal.fill(reservation, records);
        state.distribute(own);
        self.finish(now, state, watch);
        Ok(result)
    }

    /// Memory that all messages take, about, in bytes. Looks at some queues at a time.
    pub(super) fn memory_bytes(&self) -> u64 {
        let mut bytes = 0;
        let mut after: Option<Name> = None;
        while let Ok(state) = self.lock() {
            let (some, last) = state.core.memory_after(after.as_ref(), LISTING_SLICE);
            MutexGuard::unlock_fair(state);
            bytes += some;
            if last.is_none() {
                break;
            }
            after = last;
        }
        bytes
    }

    /// Ready when an earlier deadline came up than the timer task sleeps for.
    pub(super) async fn earlier(&self) {
        self.timer.notified().await;
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, Failed> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Failed);
        }
        Ok(self.state.lock())
    }

    /// Ends a hold: lets others in first, then wakes whom the batch had something for.
    fn finish(&self, now: Now, mut state: MutexGuard<'_, State>, watch: Stopwatch) {
        for event in state.effects.log.drain(..) {
            log(&self.name, &event);
        }
        let due = if state.core.has_work() {
            now.mono
        } else {
            state.core.next_deadline().unwrap_or(Millis::NEVER)
        };
        state.holds.record(watch.elapsed_ns());
        let wakers = std::mem::take(&mut state.wakers);
        let garbage = std::mem::take(&mut state.effects.garbage);
        MutexGuard::unlock_fair(state);
        for waker in wakers {
            waker.wake();
        }
        if self.timer_due.fetch_min(due.0, Ordering::Relaxed) > due.0 {
            self.timer.notify_one();
        }
        drop(garbage);
    }

    /// The core panicked, its state is worth nothing: nobody gets at it again. [architecture D3]
    fn fail(&self, state: MutexGuard<'_, State>) -> Failed {
        self.failed.store(true, Ordering::Release);
        tracing::error!(vhost = %self.name, "the core failed; its links are closed");
        let mut outboxes: Vec<(ConnectionId, Arc<Outbox>)> = Vec::new();
        #[allow(clippy::iter_over_hash_type, reason = "sorted below")]
        for (id, peer) in &state.peers {
            outboxes.push((*id, Arc::clone(&peer.outbox)));
        }
        drop(state);
        outboxes.sort_by_key(|(id, _)| *id);
        for (_, outbox) in outboxes {
            outbox.call();
        }
        self.failure.notify_one();
        Failed
    }

    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(super) fn stats(&self) -> VhostStats {
        let state = self.state.lock();
        VhostStats {
            name: self.name.to_string(),
            connections: state.peers.len(),
            published: state.core.counters().published,
            delivered: state.core.counters().delivered,
            dead_lettered: state.core.counters().dead_lettered,
            lock_holds: state.holds,
            failed: self.failed(),
        }
    }
}

impl State {
    /// Gives each connection its effects: the one whose batch this is directly, the others through
    /// their outboxes, all in the core's order.
    fn distribute(&mut self, mut own: Option<&mut Gateway>) {
        let Self {
            effects,
            peers,
            touched,
            wakers,
            ..
        } = self;
        for (connection, effect) in effects.outgoing.drain(..) {
            match &mut own {
                Some(gateway) if gateway.id() == connection => gateway.push_effects([effect]),
                _ => {
                    let Some(peer) = peers.get_mut(&connection) else {
                        continue;
                    };
                    if peer.staged.is_empty() {
                        touched.push(connection);
                    }
                    peer.staged.push(effect);
                }
            }
        }
        for connection in touched.drain(..) {
            if let Some(peer) = peers.get_mut(&connection) {
                wakers.extend(peer.outbox.push(&mut peer.staged));
            }
        }
    }
}

fn log(vhost: &Name, event: &LogEvent) {
    match event {
        LogEvent::Dropped {
            queue,
            reason,
            cause,
            count,
        } => {
            tracing::warn!(%vhost, %queue, ?reason, ?cause, count, "messages dropped");
        }
        LogEvent::Cycle { path } => {
            let path: Vec<&str> = path.iter().map(|name| &**name).collect();
            tracing::warn!(%vhost, path = path.join(" -> "), "a dead letter went in a circle");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;
    use crate::base::{ConsumerId, Timestamp};

    fn vhost() -> (Vhost, Arc<Notify>) {
        let failure = Arc::new(Notify::new());
        let notify = Arc::clone(&failure);
        (
            Vhost::new(Name::from("v"), Seed(1), 10, Clock::start(), notify),
            failure,
        )
    }

    #[test]
    fn panic_in_the_core_fails_the_vhost_and_calls_everyone() {
        let (vhost, failure) = vhost();
        let outbox = Arc::new(Outbox::default());
        vhost.enter(ConnectionId(7), Arc::clone(&outbox));
        let result = vhost.hold(None, |_, _, _, _| assert_eq!(Timestamp(0), Timestamp(1)));
        assert_eq!(result, Err(Failed));
        assert!(vhost.failed());
        assert_eq!(vhost.tick(), Err(Failed), "nobody gets at the core again");
        let mut context = Context::from_waker(Waker::noop());
        assert!(outbox.poll_ready(&mut context).is_ready());
        assert!(pin!(failure.notified()).poll(&mut context).is_ready());
    }

    #[test]
    fn effects_reach_each_connection_in_order_and_wake_it_once() {
        let (vhost, _) = vhost();
        let outbox = Arc::new(Outbox::default());
        vhost.enter(ConnectionId(7), Arc::clone(&outbox));
        let mut context = Context::from_waker(Waker::noop());
        assert!(outbox.poll_ready(&mut context).is_pending());
        let drained = |consumer| Effect::Drained {
            consumer: ConsumerId(consumer),
        };
        for batch in [[1, 2], [3, 4]] {
            let result = vhost.hold(None, |_, _, effects, _| {
                for consumer in batch {
                    effects.outgoing.push((ConnectionId(7), drained(consumer)));
                    effects.outgoing.push((ConnectionId(8), drained(consumer)));
                }
            });
            assert_eq!(result, Ok(()));
        }
        let mut seen = Vec::new();
        outbox.drain(|effects| {
            seen.extend(effects.map(|effect| match effect {
                Effect::Drained { consumer } => consumer.0,
                other => panic!("{other:?}"),
            }));
        });
        assert_eq!(seen, [1, 2, 3, 4]);
    }
}
