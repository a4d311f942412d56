//! Runs: from the first step to the quiet end, and the tests that do them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::machine::Done;
use super::trial::{Fault, Trial};
use super::world::{InPart, World};
use crate::base::Name;
use crate::base::limits::HELD_UP_MS_MAX;
use crate::broker::names::SUBSCRIPTION_PREFIX;
use crate::broker::{Command, QueueCommand, Reply, TopologyCommand};
use crate::store::StoreState;
use crate::store::sim_disk::Faults;

/// Rounds until everything is drained, at most.
const ROUNDS: u64 = 3_000;
/// Rounds of the second half between two in which a quarter of a minute passes: some things are only given up
/// when time has passed.
const LONG_WAIT_ROUNDS: u64 = 100;

/// Rounds between two in which queues are declared anew that nobody had used for too long.
const EXPIRED_ROUNDS: u64 = 20;

/// Blocks read and left in one round, at most: each is there for somebody who then goes on.
const PAGED_IN_ROUND: usize = 100_000;

/// What a world that ended well did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Summary {
    pub(super) steps: u64,
    pub(super) sent: u64,
    pub(super) accepted: u64,
    pub(super) deliveries: u64,
    pub(super) redeliveries: u64,
    pub(super) crashes: u64,
    /// Requests about queues that the management node answered.
    pub(super) answered: u64,
    /// Messages that redrives moved.
    pub(super) redriven: u64,
    /// Deliveries of links that outlived their connections, sent once more.
    pub(super) resumed: u64,
    /// Those of which the other end had a part.
    pub(super) in_part: InPart,
    /// Copies that browsers got.
    pub(super) browsed: u64,
    /// What came to consumers with selectors.
    pub(super) selected: u64,
    /// Transactions that were committed.
    pub(super) committed: u64,
    /// Deliveries that were held for too long.
    pub(super) timed_out: u64,
    pub(super) done: Done,
}

/// What went wrong, and when.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) trial: Trial,
    pub(super) step: u64,
    pub(super) what: String,
    pub(super) trace: Vec<String>,
}

impl World {
    /// The faults are over, all clients accept what they get: nothing may stay behind.
    fn drain_all(&mut self) -> Result<(), String> {
        self.quiet = true;
        self.machine.disk.set_faults(Faults::default());
        let name = Name::from("p");
        self.machine
            .ask(Command::Topology(TopologyCommand::PolicyDelete {
                operator: false,
                name,
            }))?;
        self.topology.declare(&self.machine)?;
        self.let_redrives_end()?;
        for round in 0..ROUNDS {
            let expires = self.trial.has(Fault::Expires) && round % EXPIRED_ROUNDS == 0;
            if round == ROUNDS / 2 || expires {
                // A request to delete a queue may have been on its way when the faults ended.
                self.topology.declare(&self.machine)?;
            }
            if round > ROUNDS / 2 && round % LONG_WAIT_ROUNDS == 0 {
                self.clock.advance_us(HELD_UP_MS_MAX * 1_000 / 4);
            }
            let is_poisoned = self.machine.store.state() == StoreState::Poisoned;
            if is_poisoned || self.machine.disk.is_off() {
                self.crash()?;
                self.let_redrives_end()?;
            }
            self.round()?;
            if self.is_drained()? {
                return self.check();
            }
        }
        Err(format!("not drained: {}", self.rest()?))
    }

    /// Everybody does what he can.
    fn round(&mut self) -> Result<(), String> {
        self.step += 1;
        let now = self.machine.now().mono;
        for at in 0..self.sockets.len() {
            if self.sockets[at].is_ready(now) {
                self.turn(at);
            }
        }
        for at in (0..self.sockets.len()).rev() {
            self.read(at)?;
        }
        for client in 0..self.clients.len() {
            if !self.clients[client].is_ready() {
                self.act(client);
            }
            self.drain(client);
        }
        if self.trial.has(Fault::Subscriptions) {
            self.end_subscriptions()?;
        }
        self.page()?;
        self.machine.tick()?;
        self.commit();
        self.machine.checkpoint();
        self.machine.alarm();
        self.wait();
        Ok(())
    }

    /// An operator deletes the subscriptions that nobody comes back to.
    fn end_subscriptions(&mut self) -> Result<(), String> {
        let left: Vec<Name> = self.machine.look(|core| {
            let idle = core.queues().filter(|queue| queue.consumers.is_empty());
            let its = idle.filter(|queue| queue.name.as_str().starts_with(SUBSCRIPTION_PREFIX));
            its.map(|queue| queue.name.clone()).collect()
        })?;
        for name in left {
            self.machine.ask(Command::Queue(QueueCommand::Delete {
                connection: None,
                name,
                if_unused: false,
                if_empty: false,
            }))?;
        }
        Ok(())
    }

    /// Reads what is waited for, and lets leave what is too much.
    fn page(&mut self) -> Result<(), String> {
        for _ in 0..PAGED_IN_ROUND {
            if !self.machine.load() && !self.machine.evict() {
                return Ok(());
            }
        }
        Err(format!("reads and leaves without an end: {}", self.rest()?))
    }

    fn is_drained(&mut self) -> Result<bool, String> {
        let live: u64 = self
            .machine
            .look(|core| core.queues().map(|queue| queue.messages.live()).sum())?;
        let waits = self.clients.iter().any(|client| {
            let session = client.session.as_ref();
            session.is_none_or(|s| !s.begun || !s.sent.is_empty() || !s.held.is_empty())
                || !client.has_resumed_all()
                || !client.transactions.is_empty()
        });
        let moves = self
            .sockets
            .iter()
            .any(|socket| !socket.up.is_empty() || !socket.down.is_empty());
        Ok(live == 0 && !waits && !moves && self.are_redrives_over()?)
    }

    fn rest(&self) -> Result<String, String> {
        let store = &self.machine.store;
        let mut rest = vec![format!(
            "the journal is {:?}, durable {:?}; {} loads and {} leaves wait, full {}, stats {:?}",
            store.state(),
            store.durable(),
            self.machine.node.pager.loads.len(),
            self.machine.node.pager.evictions.len(),
            self.machine.node.pager.is_full(),
            self.machine.vhost().memory(),
        )];
        for socket in &self.sockets {
            rest.push(socket.describe());
        }
        for name in self.topology.names() {
            let reply = self.machine.ask(Command::Queue(QueueCommand::Get {
                name: Name::from(name),
            }))?;
            if let Reply::Queue(info) = reply {
                let (ready, held) = (info.messages_ready, info.messages_unacknowledged);
                let waiting = info.messages_dead_pending;
                if ready + held + waiting > 0 {
                    rest.push(format!(
                        "{name}: {ready} ready, {held} held, {waiting} wait, {:?}",
                        info.arguments
                    ));
                }
            }
        }
        rest.extend(self.machine.look(|core| {
            let jobs = core.redrives().filter(|job| !job.state.is_over());
            jobs.map(|job| format!("{job:?}")).collect::<Vec<_>>()
        })?);
        for (number, client) in self.clients.iter().enumerate() {
            let session = client.session.as_ref();
            rest.push(format!(
                "client {number} is {:?}, links {:?}, sent {:?}, holds {:?}",
                client.phase,
                session.map(|session| &session.links),
                session.map(|session| &session.sent),
                session.map(|session| &session.held),
            ));
            rest.push(format!("  kept: {:?}", client.kept));
        }
        Ok(rest.join("\n"))
    }
}

/// Runs a world to its end.
pub(super) fn run(trial: Trial) -> Result<Summary, Finding> {
    let mut world = World::new(trial).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..trial.steps {
            world.step()?;
        }
        world.drain_all()
    }));
    let what = match result {
        Ok(Ok(())) => {
            return Ok(Summary {
                steps: world.step,
                sent: world.ledger.sent(),
                accepted: world.ledger.told_accepted,
                deliveries: world.ledger.deliveries,
                redeliveries: world.ledger.redeliveries,
                crashes: world.crashes,
                answered: world.managed.answered(),
                redriven: world.redriven(),
                resumed: world.resumed,
                in_part: world.in_part,
                browsed: world.browsed,
                selected: world.selected,
                committed: world.committed,
                timed_out: world.timed_out(),
                done: world.done(),
            });
        }
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let word = panic.downcast_ref::<&str>().map(|word| (*word).to_owned());
            format!("panic: {}", text.or(word).unwrap_or_default())
        }
    };
    Err(Finding {
        trial,
        step: world.step,
        what,
        trace: world.trace.into(),
    })
}

/// The smallest world found that still fails.
fn shrink(finding: Finding) -> Finding {
    let mut least = finding;
    loop {
        let trial = least.trial;
        let fewer_steps = Trial {
            steps: least.step.min(trial.steps.saturating_sub(1)),
            ..trial
        };
        let fewer_clients = Trial {
            clients: trial.clients.saturating_sub(1).max(1),
            ..trial
        };
        let faults = Fault::ALL.map(|fault| trial.without(fault));
        let smaller = [fewer_clients, fewer_steps].into_iter().chain(faults);
        let found = smaller
            .filter(|smaller| *smaller != trial)
            .find_map(|smaller| run(smaller).err());
        match found {
            Some(found) => least = found,
            None => return least,
        }
    }
}

fn fail(finding: Finding) -> ! {
    let first = finding.what.clone();
    eprintln!("world {} at step {}: {first}", finding.trial, finding.step);
    let least = shrink(finding);
    panic!(
        "{first}\nshrunk: {} at step {}\n{}\nreplay: CORONER_SIM_WORLD={} cargo test --lib \
         sim::tests::brokers -- --nocapture",
        least.what,
        least.step,
        least.trace.join("\n"),
        least.trial
    );
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A world as a replay command names it.
fn parsed(text: &str) -> Trial {
    let numbers: Vec<u64> = text.split(',').map(|word| word.parse().unwrap()).collect();
    Trial {
        seed: numbers[0],
        steps: numbers[1],
        clients: usize::try_from(numbers[2]).unwrap(),
        faults: u32::try_from(numbers[3]).unwrap(),
    }
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the length of a test run is in real time"
)]
fn whole_brokers_keep_every_message_once_or_count_it_whatever_fails() {
    if let Some(text) = variable("CORONER_SIM_WORLD") {
        match run(parsed(&text)) {
            Ok(summary) => eprintln!("{summary:#?}"),
            Err(finding) => panic!("{finding:#?}"),
        }
        return;
    }
    let seconds = variable("CORONER_SIM_SECONDS").map_or(10, |text| text.parse().unwrap());
    let first = variable("CORONER_SIM_SEED").map_or(1, |text| text.parse().unwrap());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut all = Summary::default();
    let mut seeds = 0;
    while std::time::Instant::now() < end {
        if variable("CORONER_SIM_TALK").is_some() {
            eprintln!("seed {}", first + seeds);
        }
        match run(Trial::of(first + seeds)) {
            Ok(summary) => all.add(summary),
            Err(finding) => fail(finding),
        }
        seeds += 1;
    }
    eprintln!("{seeds} worlds: {all:#?}");
    if seeds >= 20 {
        assert!(
            all.accepted > 0 && all.redeliveries > 0 && all.crashes > 0,
            "{all:?}"
        );
        assert!(all.answered > 0 && all.redriven > 0, "{all:?}");
        assert!(
            all.resumed > 0 && all.browsed > 0 && all.selected > 0 && all.committed > 0,
            "{all:?}"
        );
        if seeds >= 600 {
            assert!(
                all.in_part.published > 0 && all.in_part.received > 0,
                "{all:?}"
            );
        }
        assert!(all.done.checkpoints > 0 && all.done.loads > 0, "{all:?}");
    }
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.deliveries += other.deliveries;
        self.redeliveries += other.redeliveries;
        self.crashes += other.crashes;
        self.answered += other.answered;
        self.redriven += other.redriven;
        self.resumed += other.resumed;
        self.in_part.published += other.in_part.published;
        self.in_part.received += other.in_part.received;
        self.browsed += other.browsed;
        self.selected += other.selected;
        self.committed += other.committed;
        self.timed_out += other.timed_out;
        self.done.commits += other.done.commits;
        self.done.checkpoints += other.done.checkpoints;
        self.done.loads += other.done.loads;
        self.done.spills += other.done.spills;
    }
}

/// Each comes back, and what its consumer says of it later changes nothing.
#[test]
fn what_is_held_for_too_long_in_whole_brokers_comes_back_and_is_counted() {
    let mut all = Summary::default();
    for seed in 1..=10 {
        let others = [Fault::Resume, Fault::Transactions, Fault::Groups];
        let trial = Trial::of(seed).with(Fault::Timeouts);
        let trial = others.into_iter().fold(trial, Trial::without);
        match run(trial) {
            Ok(summary) => all.add(summary),
            Err(finding) => fail(finding),
        }
    }
    assert!(all.timed_out > 20, "{all:?}");
}

#[test]
fn one_seed_gives_one_simulated_world() {
    let runs = [0; 2].map(|_| run(Trial::of(5)));
    let [Ok(a), Ok(b)] = runs else {
        panic!("{runs:?}");
    };
    assert_eq!(a, b);
}
