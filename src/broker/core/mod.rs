//! The core of one vhost, a state machine: its queues, exchanges, policies and consumers.
//!
//! ```text
//!   Command --> handle --> work list --> run (bounded) --> Effects: deliveries, records, log
//!                             ^   |                  left over: Core::tick
//!                             +---+ a death that overflows its target, and so on
//! ```

mod admission;
mod batches;
mod browse;
mod browsers;
mod clients;
mod consume;
mod consumer_links;
mod cycles;
mod death;
mod delaying;
mod discard;
mod dispatch;
mod drops;
mod event_messages;
mod events;
mod explain;
mod failure;
mod foresee;
#[cfg(test)]
mod grouping;
mod import;
mod isolation;
mod ledger;
mod memos;
mod notes;
mod paging;
mod publish;
mod publisher_links;
mod publishers;
mod quarantine;
mod queues;
mod recorder;
mod recovery;
mod redrive;
mod restore;
mod routed;
mod serve;
mod settle;
mod snapshot;
#[cfg(any(test, feature = "internals"))]
mod stepping;
mod subscriptions;
#[cfg(test)]
pub(crate) mod tests;
mod timeouts;
mod topology;
mod transactions;
mod warnings;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use self::cycles::{CycleSearch, example_key};
pub use self::paging::Memory;
pub use self::quarantine::Undeliverable;
pub use self::restore::Restoring;
pub use self::snapshot::{Snapshot, SnapshotSlice};

use self::batches::Unserved;
use self::clients::Clients;
use self::consumer_links::ConsumerLinks;
use self::events::EventCounter;
use self::failure::Failures;
use self::ledger::DeathLedger;
use self::memos::Memos;
use self::paging::Paging;
use self::publisher_links::PublisherLinks;
use self::publishers::Publishers;
use self::recorder::Recorder;
use self::recovery::Recoveries;
use self::redrive::Redrives;
use self::routed::Routed;
use self::topology::PolicyPass;
use self::work::Work;
use super::arguments::OnUndeliverable;
use super::counters::Counters;
use super::event::{EventNumbers, EventWriter};
use super::policy::Policies;
use super::queue::{BLOCK_SHIFT_MAX, DeferredFree, Queue};
use super::reply::QueueInfo;
use super::router::Router;
use super::{Command, DropCause, Effects, Matching, Renamed, Renames, Reply};
use crate::base::{
    Charge, Gauge, HoldBudget, Lsn, Millis, Name, Now, QueueId, Seed, Step, Table, limits,
};
use crate::deaths::RecentlyQuarantined;
use crate::message::Merging;

/// Options of a new core.
#[derive(Clone, Debug)]
pub struct CoreOptions {
    /// The vhost's name.
    pub vhost: Name,
    /// Seed of its hash tables.
    pub seed: Seed,
    /// Unsettled deliveries that a session may have; default [`limits::UNSETTLED_MAX`].
    pub unsettled_max: u32,
    /// Queues that one message is routed to at most; default [`limits::ROUTED_QUEUES_MAX`].
    pub queues_per_message_max: u32,
    /// Whether a journal keeps the facts; without one no message is durable. Default true.
    pub journal: bool,
    /// Slots of the blocks of a queue, as a power of 2; default and at most [`BLOCK_SHIFT_MAX`].
    pub block_shift: u32,
    /// What happens to dead letters without a target; default: as in `RabbitMQ`.
    pub undeliverable: Undeliverable,
    /// How long consumers of quorum queues may hold a delivery, in milliseconds, where neither
    /// argument nor policy says; 0 (default): any time.
    pub consumer_timeout_ms: u64,
    /// Whether the instants count that clients name for deliveries; default true.
    pub delivery_times: bool,
    /// Whether the messages of a group are for one consumer; default true.
    pub message_groups: bool,
    /// The gauge that the memory of queues, exchanges, bindings and policies is charged to. The
    /// core wakes no task by it: see [`Core::kept`].
    pub kept: Gauge,
    /// The work that may be done under one hold of the core's lock.
    pub hold: HoldBudget,
    /// The numbers of events: one for all vhosts of a broker.
    pub events: EventNumbers,
    /// Writes events as messages to the exchange of events; none (default): there is no such exchange.
    pub event_writer: Option<EventWriter>,
}

impl CoreOptions {
    /// The defaults for a vhost of this name.
    pub fn new(vhost: Name, seed: Seed) -> Self {
        Self {
            vhost,
            seed,
            unsettled_max: limits::UNSETTLED_MAX,
            queues_per_message_max: limits::ROUTED_QUEUES_MAX,
            journal: true,
            block_shift: BLOCK_SHIFT_MAX,
            undeliverable: Undeliverable::default(),
            consumer_timeout_ms: 0,
            delivery_times: true,
            message_groups: true,
            kept: Gauge::default(),
            hold: HoldBudget::default(),
            events: EventNumbers::default(),
            event_writer: None,
        }
    }

    /// The seed of message groups; none: there are none.
    #[inline]
    fn group_seed(&self) -> Option<Seed> {
        self.message_groups.then_some(self.seed)
    }
}

/// Whether a tick left work undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum More {
    /// Work is left: call again soon.
    Yes,
    /// Nothing is to be done until the next command or deadline.
    No,
}

/// The core of one vhost, see the documentation of the module.
#[derive(Debug)]
pub struct Core {
    options: CoreOptions,
    router: Router,
    policies: Policies,
    queues: Table<QueueId, Box<Queue>>,
    names: BTreeMap<Name, QueueId>,
    clients: Clients,
    publishers: Publishers,
    publisher_links: PublisherLinks,
    consumer_links: ConsumerLinks,
    /// Links of consumers that outlive their connections.
    recoveries: Recoveries,
    work: VecDeque<Work>,
    /// The queue that is served later than the commands before.
    unserved: Unserved,
    /// The pass that applies changed policies to exchanges and queues; none: all are up to date.
    policy_pass: Option<PolicyPass>,
    /// The policies found for a queue or exchange that is about to be declared.
    matched: Option<Box<Matching>>,
    deferred_free: DeferredFree,
    /// When each queue has something due; at most one entry for each queue.
    deadlines: BTreeSet<(Millis, QueueId)>,
    /// When the held deliveries of each queue are looked at next; at most one entry for each queue.
    looks: BTreeSet<(Millis, QueueId)>,
    /// When drops since the last log line of a queue are to be logged.
    untold_drops: BTreeSet<(Millis, QueueId)>,
    /// Queues with waiting dead letters.
    pending_queues: BTreeSet<QueueId>,
    /// During a pass that retries all waiting dead letters: the last queue done.
    retried_to: Option<QueueId>,
    /// Names of the exchanges that the journal keeps.
    durable_exchanges: BTreeSet<Name>,
    recorder: Recorder,
    /// The cached annotations of the last `modified` outcome.
    merging: Merging,
    /// The last failure of a delivery, shared by messages that fail alike.
    failures: Failures,
    memory: Paging,
    counters: Counters,
    /// Numbers of deaths, as the journal keeps them.
    deaths: DeathLedger,
    /// Jobs that move dead letters back.
    redrives: Redrives,
    memos: Memos,
    /// The numbers of what it tells.
    events: EventCounter,
    /// Queues that may be declared at a time.
    queues_max: Option<u64>,
    default_queue_type: Option<Name>,
    next_queue: u64,
    next_ticket: u64,
    alarm: bool,
    /// Dead-letter cycles that were logged already.
    cycles_logged: BTreeSet<Vec<Name>>,
    /// The last message that was put into the quarantine, whose history similar ones share.
    quarantined: RecentlyQuarantined,
    /// Cached route and targets of the last publish.
    routed: Routed,
    /// Cached route and targets of the last dead letter; none while one is sent.
    routed_dead: Option<Box<Routed>>,
    /// The charge for its memory when it is empty.
    _kept: Charge,
}

/// The context of one command or tick.
struct Turn<'a> {
    now: Now,
    /// Messages that may still be touched in it.
    budget: usize,
    /// As many as that were before the command of which the work is to be charged.
    given: usize,
    effects: &'a mut Effects,
}

/// Cost of removing one queue of a deleted vhost, counted in messages.
const DISSOLVE_COST: usize = 16;
/// Messages that one command may touch beyond its own; the rest is left to [`Core::tick`].
const COMMAND_BUDGET: usize = 128;
/// Messages beyond its own that a command may touch without charge: most commands touch fewer, and
/// batches are sized for that.
const COMMAND_SHARE: usize = 8;

impl<'a> Turn<'a> {
    const fn new(now: Now, budget: usize, effects: &'a mut Effects) -> Self {
        Self {
            now,
            budget,
            given: budget,
            effects,
        }
    }

    /// Charges the meter for messages that a command touched beyond its share.
    #[inline]
    fn charge_touched(&mut self) {
        self.charge_touched_beyond(COMMAND_SHARE);
    }

    /// Charges the meter for messages that were touched beyond so many.
    #[inline]
    fn charge_touched_beyond(&mut self, share: usize) {
        let touched = self.given - self.budget;
        if touched > share {
            self.effects.meter.charge(Step::Message, touched - share);
        }
    }

    /// Begins the next of several settlements in one command: it has what the others have left, and its
    /// share in any case.
    fn begin_next(&mut self) {
        self.charge_touched();
        self.budget = self.budget.max(COMMAND_SHARE);
        self.given = self.budget;
    }
}

impl Core {
    /// An empty vhost with its predeclared exchanges.
    pub fn new(options: CoreOptions) -> Self {
        let options = CoreOptions {
            kept: options.kept.under_lock(),
            ..options
        };
        let mut router = Router::counted(options.seed, options.kept.clone())
            .leading_to(options.queues_per_message_max);
        if options.event_writer.is_some() {
            router.declare_event_exchange();
        }
        Self {
            router,
            _kept: options.kept.charge(limits::VHOST_OVERHEAD_BYTES),
            policies: Policies::default(),
            queues: Table::new(options.seed),
            names: BTreeMap::new(),
            clients: Clients::new(options.seed, options.unsettled_max),
            publishers: Publishers::default(),
            publisher_links: PublisherLinks::default(),
            consumer_links: ConsumerLinks::default(),
            recoveries: Recoveries::default(),
            work: VecDeque::new(),
            unserved: Unserved::default(),
            policy_pass: None,
            matched: None,
            deferred_free: DeferredFree::default(),
            deadlines: BTreeSet::new(),
            looks: BTreeSet::new(),
            untold_drops: BTreeSet::new(),
            pending_queues: BTreeSet::new(),
            retried_to: None,
            durable_exchanges: BTreeSet::new(),
            recorder: Recorder::new(),
            memory: Paging::default(),
            merging: Merging::default(),
            failures: Failures::default(),
            counters: Counters::default(),
            deaths: DeathLedger::new(options.journal),
            redrives: Redrives::default(),
            memos: Memos::default(),
            events: EventCounter::new(&options),
            queues_max: None,
            default_queue_type: None,
            next_queue: 1,
            next_ticket: 1,
            alarm: false,
            cycles_logged: BTreeSet::new(),
            quarantined: RecentlyQuarantined::default(),
            routed: Routed::new(options.seed),
            routed_dead: Some(Box::new(Routed::new(options.seed))),
            options,
        }
    }

    /// Whether dead letters without a target are kept in the quarantine, unless their queue says
    /// otherwise.
    pub fn quarantines(&self) -> bool {
        self.options.undeliverable.choice == OnUndeliverable::Quarantine
    }

    /// The vhost's name.
    pub fn vhost(&self) -> &Name {
        &self.options.vhost
    }

    /// The work that may be done under one hold of the core's lock.
    pub const fn hold_budget(&self) -> HoldBudget {
        self.options.hold
    }

    /// The gauge of the memory of declared objects. The holder of the core's lock wakes tasks that
    /// wait for its growth, after releasing the lock.
    pub const fn kept(&self) -> &Gauge {
        &self.options.kept
    }

    /// The counters of the vhost since the core was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counters, as if the queues that exist were deleted now.
    pub fn counters_at_end(&self) -> Counters {
        let mut counters = self.counters.clone();
        counters.queues.deleted += self.names.len() as u64;
        counters
    }

    /// Whether an alarm is in effect, so that publishers get no credit.
    pub const fn is_alarmed(&self) -> bool {
        self.alarm
    }

    /// The exchanges and bindings, read-only.
    pub const fn router(&self) -> &Router {
        &self.router
    }

    /// The policies, read-only.
    pub const fn policies(&self) -> &Policies {
        &self.policies
    }

    /// A queue by its name, read-only.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.get(self.names.get(name)?).map(|queue| &**queue)
    }

    /// A queue by its id, read-only.
    pub fn queue_by_id(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(&id).map(|queue| &**queue)
    }

    /// All queues by name, read-only. Not for use under a lock: see [`Core::queues_after`].
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.names
            .values()
            .filter_map(|id| self.queues.get(id))
            .map(|queue| &**queue)
    }

    /// Up to `count` queues by name, behind `after`. Listings are read in such pages, so that none
    /// holds the lock long.
    pub fn queues_after(&self, after: Option<&Name>, count: usize) -> Vec<QueueInfo> {
        self.names_after(after)
            .take(count)
            .filter_map(|(_, id)| self.queues.get(id))
            .map(|queue| queue.info())
            .collect()
    }

    /// Visits up to `count` queues behind `after`, by name; returns the last of them if there may
    /// be more.
    pub fn visit_after(
        &self,
        after: Option<&Name>,
        count: usize,
        mut visit: impl FnMut(&Queue),
    ) -> Option<Name> {
        let mut last = None;
        for (index, (name, id)) in self.names_after(after).take(count).enumerate() {
            if let Some(queue) = self.queues.get(id) {
                visit(queue);
            }
            last = (index + 1 == count).then(|| name.clone());
        }
        last
    }

    /// Number of sessions that are open.
    pub fn session_count(&self) -> usize {
        self.clients.sessions.len()
    }

    /// The names of up to `count` queues behind `after`.
    pub fn queue_names_after(&self, after: Option<&Name>, count: usize) -> Vec<Name> {
        let names = self.names_after(after).take(count);
        names.map(|(name, _)| name.clone()).collect()
    }

    /// Handles one command. Never fails, never waits: a refusal is in the reply. Call
    /// [`Core::tick`] when [`Core::has_work`] afterwards: long work is done in slices.
    pub fn apply(&mut self, now: Now, command: Command, effects: &mut Effects) -> Reply {
        self.end_batch(now, effects);
        self.wake_due(now);
        let mut turn = Turn::new(now, COMMAND_BUDGET, effects);
        let reply = self.handle(&mut turn, command);
        self.run(&mut turn);
        turn.charge_touched();
        self.recorder.finish(now, effects);
        reply
    }

    /// Does what is due and continues sliced work, touching about `budget` messages.
    pub fn tick(&mut self, now: Now, budget: usize, effects: &mut Effects) -> More {
        self.end_batch(now, effects);
        self.wake_due(now);
        let mut turn = Turn::new(now, budget, effects);
        self.tell_due_drops(&mut turn);
        self.write_due_deaths(&mut turn);
        self.wake_due_redrives(now);
        self.begin_due_looks(now);
        self.end_due_links(now.mono);
        self.run(&mut turn);
        self.free(&mut turn);
        self.forget_bindings(&mut turn);
        self.recorder.finish(now, effects);
        if self.has_work() { More::Yes } else { More::No }
    }

    /// Removes all queues with their messages, about `budget` messages at a time: the vhost is
    /// deleted, so no client is told and no record is needed. Afterwards no message of it refers to
    /// a body.
    pub fn dissolve(&mut self, now: Now, budget: usize, effects: &mut Effects) -> More {
        let mut turn = Turn::new(now, budget, effects);
        while turn.budget > 0
            && let Some((name, id)) = self.names.iter().next()
        {
            let (name, id) = (name.clone(), *id);
            self.remove_queue(&mut turn, id, DropCause::QueueDeleted);
            self.names.remove(&name); // also if the core failed in the middle of such a step
            turn.budget = turn.budget.saturating_sub(DISSOLVE_COST);
        }
        self.work.clear();
        self.free(&mut turn);
        self.recorder.finish(now, effects);
        if self.names.is_empty() && self.deferred_free.is_empty() {
            More::No
        } else {
            More::Yes
        }
    }

    /// The last record about topology, policies or purges: an answer about the state of this vhost
    /// is held back until it is durable. 0: none since the start.
    pub const fn topology_lsn(&self) -> Lsn {
        self.recorder.topology()
    }

    /// Sets the LSN of the next record; later ones follow it. The journal sets it before each
    /// batch.
    pub fn resume_at(&mut self, first: Lsn) {
        self.recorder.resume_at(first);
    }

    /// The LSN of the last record.
    pub const fn last_lsn(&self) -> Lsn {
        self.recorder.last()
    }

    /// Notes that the journal names the bodies of messages by other records now; nothing changes for
    /// a message that is gone or names another body.
    pub fn rename_bodies(&mut self, renames: Renames) {
        let Renames { renamed, kept } = renames;
        if renamed.is_empty() {
            return;
        }
        let mut references = self.recorder.move_references(kept);
        for Renamed {
            queue,
            position,
            from,
            to,
        } in renamed
        {
            let queue = self.queues.get_mut(&queue);
            if let Some(slot) = queue.and_then(|queue| queue.messages.slot_mut(position))
                && slot.body == from
            {
                slot.body = to;
                references.rename(slot.envelope, (from, to));
            }
        }
        references.finish();
    }

    /// Whether sliced work waits for a tick.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty() || !self.deferred_free.is_empty() || self.router.is_forgetting()
    }

    /// When the next message or queue is due, the next line of the log, or numbers for the journal.
    pub fn next_deadline(&self) -> Option<Millis> {
        let mut next = self.deaths.due().min(self.redrives.due());
        next = next.min(self.recoveries.due());
        if let Some((deadline, _)) = self.deadlines.first() {
            next = next.min(*deadline);
        }
        if let Some((look, _)) = self.looks.first() {
            next = next.min(*look);
        }
        if let Some((untold, _)) = self.untold_drops.first() {
            next = next.min(*untold);
        }
        (next != Millis::NEVER).then_some(next)
    }

    /// Handles a command and leaves the work that follows from it on the worklist.
    #[cfg(test)]
    pub(crate) fn handle_without_running(
        &mut self,
        now: Now,
        command: Command,
        effects: &mut Effects,
    ) -> Reply {
        let mut turn = Turn::new(now, 0, effects);
        self.handle(&mut turn, command)
    }
}
