//! A core, the model beside it, and two cores rebuilt from its facts.

mod acts;

use std::collections::{BTreeMap, VecDeque};

use super::Random;
use super::durable::Archive;
use super::foresight::Foreseen;
use super::model::{Model, ModelWork, Scene};
use super::paging::{BLOCK_SHIFT, Paging};
use super::plan::Plan;
use super::told::ToldEvents;
use crate::base::{
    ConnectionId, ConsumerId, Lsn, Millis, Name, Now, Position, QueueId, Seed, SessionId, Timestamp,
};
use crate::broker::arguments::OnUndeliverable;
use crate::broker::{
    Command, Core, CoreOptions, Effect, Effects, Record, Reply, Restoring, Undeliverable,
};

/// A failure, and how to reproduce it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// Number of the step.
    pub step: u64,
    /// The last commands, oldest first.
    pub commands: Vec<String>,
    /// The contradiction that was found.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {} step {}:", self.seed, self.step)?;
        for command in &self.commands {
            writeln!(f, "  {command}")?;
        }
        f.write_str(&self.what)
    }
}

/// One run of the simulator.
#[derive(Debug)]
pub struct World {
    pub(super) seed: u64,
    steps: u64,
    pub(super) now: Now,
    pub(super) core: Core,
    pub(super) model: Model,
    plan: Plan,
    pub(super) effects: Effects,
    /// What was told as events.
    pub(super) told: ToldEvents,
    /// Cores rebuilt with every fact once, and with every fact twice.
    pub(super) once: Restoring,
    pub(super) twice: Restoring,
    connection: ConnectionId,
    session: SessionId,
    next_id: u64,
    history: VecDeque<String>,
    /// Every record so far, with the bodies released with it.
    pub(super) records: Vec<(Record, Vec<Lsn>)>,
    /// The same records to page messages in from, and spilled pieces.
    pub(super) archive: Archive,
    /// Random eviction and paging-in.
    paging: Paging,
    is_paged: bool,
    /// Whether all requests are answered at once.
    is_ending: bool,
    /// Number of records of this batch that are in the archive.
    archived: usize,
    /// Deliveries that timed out, which the model is not told of yet.
    timed_out: Vec<((QueueId, Position), ConsumerId)>,
    /// The queue of each consumer.
    pub(super) reads: BTreeMap<ConsumerId, QueueId>,
    /// Comparisons of what was foreseen with what happened.
    pub(super) foreseen: Foreseen,
    /// Decides which messages have streamed bodies; none: no message has.
    blob_random: Option<Random>,
    /// Number of streamed bodies.
    blob_count: u64,
}

/// What happens to dead letters without a target in the world of this seed: of three worlds two
/// have a quarantine, one of them a small one.
const fn undeliverable(seed: u64) -> Undeliverable {
    let (choice, length_max, bytes_max) = match seed % 3 {
        0 => (OnUndeliverable::Drop, 4, 200),
        1 => (OnUndeliverable::Quarantine, 4, 200),
        _ => (OnUndeliverable::Quarantine, 1_000, 100_000),
    };
    Undeliverable {
        choice,
        length_max,
        bytes_max,
    }
}

/// How long consumers of quorum queues may hold a delivery in the world of this seed, in
/// milliseconds: in every second world for ever.
const fn consumer_timeout(seed: u64) -> u64 {
    match seed % 4 {
        1 => 20,
        3 => 200,
        _ => 0,
    }
}

/// Commands shown on failure.
const HISTORY_MAX: usize = 30;

impl World {
    /// An empty vhost, before the first step. All messages stay in memory.
    pub fn new(seed: u64) -> Self {
        Self::with_paging(seed, false)
    }

    /// The same where messages are evicted at any time, and paged in late, in any order, or
    /// damaged. The model does not predict when things happen then.
    pub fn paged(seed: u64) -> Self {
        Self::with_paging(seed, true)
    }

    fn with_paging(seed: u64, is_paged: bool) -> Self {
        let undeliverable = undeliverable(seed);
        let options = || CoreOptions {
            block_shift: BLOCK_SHIFT,
            undeliverable,
            consumer_timeout_ms: consumer_timeout(seed),
            ..CoreOptions::new(Name::from("sim"), Seed(seed))
        };
        let now = Now::new(Millis(10_000_000), Timestamp(1_700_000_000_000));
        let restoring = || Restoring::new(options(), now, now.wall, u64::MAX);
        let mut world = Self {
            seed,
            steps: 0,
            now,
            core: Core::new(options()),
            model: Model {
                seed,
                undeliverable,
                consumer_timeout_ms: consumer_timeout(seed),
                ..Model::default()
            },
            plan: Plan::new(seed),
            effects: Effects::new(),
            told: ToldEvents::default(),
            once: restoring(),
            twice: restoring(),
            connection: ConnectionId(0),
            session: SessionId(0),
            next_id: 1,
            history: VecDeque::new(),
            records: Vec::new(),
            archive: Archive::default(),
            paging: Paging::new(seed, is_paged),
            is_paged,
            is_ending: false,
            archived: 0,
            timed_out: Vec::new(),
            reads: BTreeMap::new(),
            foreseen: Foreseen::default(),
            blob_random: Some(Random::new(seed ^ 0xa4ead)),
            blob_count: 0,
        };
        world.connect();
        world
    }

    /// The same with every body in a record.
    pub fn without_blobs(seed: u64) -> Self {
        Self {
            blob_random: None,
            ..Self::new(seed)
        }
    }

    /// Does one random step and compares everything.
    pub fn step(&mut self) -> Result<(), Failure> {
        self.steps += 1;
        let step = self.plan.next(self.now.wall.0, self.connection);
        self.history
            .push_back(format!("at {}: {}", self.now.mono.0, step.told()));
        if self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
        self.act(step);
        self.page();
        self.check()
    }

    /// Answers all requests, and compares once more: nothing waits for ever.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.is_ending = true;
        self.pass(0);
        let stuck = self
            .core
            .queues()
            .find(|queue| !queue.awaiting_page_in.is_empty());
        if let Some(queue) = stuck {
            let what = format!(
                "{} buries for ever: {:?}",
                queue.name, queue.awaiting_page_in
            );
            return Err(self.failure(what));
        }
        self.check()
    }

    fn check(&self) -> Result<(), Failure> {
        let compared = if self.is_paged {
            self.check_sums()
        } else {
            self.check_model()
        };
        let checked = compared.and_then(|()| self.check_rebuilt());
        checked.map_err(|what| self.failure(what))
    }

    fn failure(&self, what: String) -> Failure {
        Failure {
            seed: self.seed,
            step: self.steps,
            commands: self.history.iter().cloned().collect(),
            what,
        }
    }

    /// Numbers of messages that entered a queue, were dropped, died: to see that a run did
    /// something.
    pub fn summary(&self) -> String {
        let counters = self.core.counters();
        let (dead, drops) = (counters.dead.total(), counters.drops.total());
        let kept = counters.quarantined.total();
        let loads = self.core.memory().loads;
        let Self { steps, .. } = self;
        let (published, lettered) = (counters.published, counters.dead_lettered.total());
        format!(
            "{steps} steps: {published} published, {dead} died, {lettered} moved, {kept} quarantined, \
             {drops} dropped, {loads} loads"
        )
    }

    fn run_model(&mut self) {
        for (place, consumer) in self.timed_out.drain(..) {
            let (queue, position) = place;
            let late = ModelWork::TimeOut(queue, position, consumer);
            self.model.work.push_back(late);
        }
        self.model.run(Scene {
            now: self.now,
            core: &self.core,
        });
    }

    pub(super) fn apply(&mut self, command: Command) -> Reply {
        let reply = self.carry_out(command);
        self.settle_down();
        self.collect();
        reply
    }

    /// Works until nothing is left; requested blocks are paged in when nothing else is to be done.
    fn settle_down(&mut self) {
        loop {
            self.work_off();
            while self.core.has_work() {
                self.core.tick(self.now, 1, &mut self.effects);
                self.work_off();
            }
            // They may be in records that were just made.
            self.archive_records();
            let (archive, effects) = (&self.archive, &mut self.effects);
            let Some(command) = self.paging.answer(archive, effects, self.is_ending) else {
                return;
            };
            self.carry_out(command);
        }
    }

    fn archive_records(&mut self) {
        for record in self.effects.records.iter().skip(self.archived) {
            self.archive.add(record);
        }
        self.archived = self.effects.records.len();
    }

    /// Evicts messages, some of the time.
    fn page(&mut self) {
        if let Some(command) = self.paging.page_out(&self.core) {
            self.apply(command);
            while let Some(command) = self
                .paging
                .spill(&mut self.archive, (&self.core, &mut self.effects))
            {
                self.apply(command);
            }
        }
    }

    fn collect(&mut self) {
        self.archive_records();
        self.archived = 0;
        for (_, effect) in self.effects.outgoing.drain(..) {
            if let Effect::TimedOut { consumer, position } = effect
                && let Some(&queue) = self.reads.get(&consumer)
            {
                self.timed_out.push(((queue, position), consumer));
            }
            if let Effect::Deliver(delivery) = effect
                && let Some(&queue) = self.reads.get(&delivery.consumer)
            {
                let place = (queue, delivery.position);
                self.model.observed.insert(place, delivery.consumer);
                self.plan
                    .deliveries
                    .push((delivery.consumer, delivery.position));
            }
        }
        for event in self.effects.events.take() {
            if let Err(why) = self.told.add(&event) {
                self.model.complaints.push(why);
            }
        }
        let mut released = std::mem::take(&mut self.effects.released);
        for record in self.effects.records.drain(..) {
            self.once.record(&record);
            for fact in &record.facts {
                let mut single = record.clone();
                single.facts = vec![fact.clone(), fact.clone()].into();
                self.twice.record(&single);
            }
            self.records.push((record, Vec::new()));
        }
        if let Some((_, bodies)) = self.records.last_mut() {
            bodies.append(&mut released);
        }
        let (loads, spills) = (
            self.effects.loads.split_off(0),
            self.effects.spills.split_off(0),
        );
        self.effects.clear();
        (self.effects.loads, self.effects.spills) = (loads, spills);
    }

    /// Stops at every deadline on the way.
    fn pass(&mut self, ms: u64) {
        let end = self.now.mono.plus(ms);
        loop {
            let due = self.core.next_deadline().filter(|due| *due <= end);
            let passed = due.unwrap_or(end).since(self.now.mono);
            let wall = self.now.wall.0 + i64::try_from(passed).unwrap_or(0);
            self.now = Now::new(self.now.mono.plus(passed), Timestamp(wall));
            self.core.tick(self.now, 0, &mut self.effects);
            self.settle_down();
            self.collect();
            self.model.wake_due(self.now.mono.0);
            self.run_model();
            if due.is_none() {
                self.model.complain_of_overdue(end.0);
                return;
            }
        }
    }
}
