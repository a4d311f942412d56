//! The world of one seed: a machine, its clients, the network between them, and what goes wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::client::{Client, Event, FRAME_BYTES, LARGE_FRAME_BYTES};
use super::ledger::{Counted, Ledger, MessagePlace, Present, story};
use super::machine::{Done, Machine, MachineShape, SimClock};
use super::managing::Managed;
use super::network::Socket;
use super::payload;
use super::redriving::{Redriving, extra_copies, moved_out_of};
use super::topology::Topology;
use super::trial::{Fault, Trial};
use crate::base::limits::BATCH_NS_MAX;
use crate::base::{Position, QueueId, Random};
use crate::broker::queue::{MessageState, Queue};
use crate::broker::{Core, DropCause};
use crate::message::Message;
use crate::store::sim_disk::{Crash, Faults, SimDisk};
use crate::store::{self, DiskErrorKind, ReadError, StoreState};

/// Steps whose descriptions are kept for the report of a failure.
const TRACED: usize = 30;
/// Steps between two looks at all messages.
const LOOK_STEPS: u64 = 25;
/// Steps between two looks at who has which message group: an order that is broken mends itself soon.
const GROUP_STEPS: u64 = 3;

pub(super) struct World {
    pub(super) trial: Trial,
    pub(super) random: Random,
    disk_random: store::Random,
    pub(super) clock: Arc<SimClock>,
    pub(super) machine: Machine,
    shape: MachineShape,
    pub(super) topology: Topology,
    pub(super) clients: Vec<Client>,
    pub(super) sockets: Vec<Socket>,
    connections: u64,
    pub(super) ledger: Ledger,
    pub(super) managed: Managed,
    pub(super) redriving: Redriving,
    pub(super) step: u64,
    pub(super) trace: VecDeque<String>,
    /// The faults are over: everything is to drain.
    pub(super) quiet: bool,
    pub(super) crashes: u64,
    /// Publishes sent once more on links that outlived their connections, and deliveries that came so.
    pub(super) resumed: u64,
    pub(super) in_part: InPart,
    /// Copies that browsers got, and what came to consumers with selectors.
    pub(super) browsed: u64,
    pub(super) selected: u64,
    /// Transactions that were committed.
    pub(super) committed: u64,
    /// What [`sums`] said of each queue when the node started that runs now.
    pub(super) sums: BTreeMap<QueueId, i64>,
    done: Done,
}

/// Messages that went on where they were cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct InPart {
    pub(super) published: u64,
    pub(super) received: u64,
}

/// What is done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Turn,
    Read,
    Act,
    Commit,
    Load,
    Evict,
    Tick,
    Checkpoint,
    Alarm,
    Wait,
    Fault,
}

/// What the discharge of a transaction of this world may take, by the estimates, in nanoseconds.
const DISCHARGE_NS_MAX: u64 = 1_000_000;

/// How often each is done, in parts.
const WEIGHTS: [(Next, u64); 11] = [
    (Next::Turn, 30),
    (Next::Read, 20),
    (Next::Act, 24),
    (Next::Commit, 10),
    (Next::Load, 4),
    (Next::Evict, 4),
    (Next::Tick, 6),
    (Next::Checkpoint, 8),
    (Next::Alarm, 1),
    (Next::Wait, 6),
    (Next::Fault, 2),
];

impl World {
    pub(super) fn new(trial: Trial) -> Result<Self, String> {
        let mut random = Random::new(trial.seed);
        let clock = SimClock::new();
        let shape = MachineShape::of(trial, &mut random);
        let topology = Topology::random(&mut random, trial);
        let machine = Machine::start(SimDisk::default(), shape, Arc::clone(&clock))?;
        topology.declare(&machine)?;
        let clients = (0..trial.clients).map(|number| {
            let frame_bytes = if shape.large {
                LARGE_FRAME_BYTES
            } else {
                FRAME_BYTES
            };
            let number = Some(number).filter(|_| trial.has(Fault::Resume));
            Client::new(container_of(number), random.one_in(2), frame_bytes)
        });
        let clients = clients.collect();
        Ok(Self {
            trial,
            disk_random: store::Random(trial.seed),
            clock,
            machine,
            shape,
            topology,
            clients,
            sockets: Vec::new(),
            connections: 0,
            ledger: Ledger {
                watched: std::env::var("CORONER_SIM_MESSAGE")
                    .ok()
                    .and_then(|text| text.parse().ok()),
                // What was held for too long has not failed, whatever its consumer says of it.
                isolates: trial.times_out(),
                ..Ledger::default()
            },
            managed: Managed::default(),
            redriving: Redriving::new(trial.seed),
            step: 0,
            trace: VecDeque::new(),
            quiet: false,
            crashes: 0,
            resumed: 0,
            in_part: InPart::default(),
            browsed: 0,
            selected: 0,
            committed: 0,
            sums: BTreeMap::new(),
            done: Done::default(),
            random,
        })
    }

    pub(super) fn note(&mut self, what: &str) {
        if self.ledger.watched.is_some() {
            eprintln!("{}: {what}", self.step);
        }
        if self.trace.len() == TRACED {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{}: {what}", self.step));
    }

    /// One thing happens.
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.step += 1;
        self.clock.advance_us(1 + self.random.below(120));
        let mut draw = self
            .random
            .below(WEIGHTS.iter().map(|(_, weight)| weight).sum());
        let next = WEIGHTS.iter().find(|(_, weight)| {
            let found = draw < *weight;
            draw = draw.saturating_sub(*weight);
            found
        });
        self.perform(next.unwrap().0)?;
        if self.trial.has(Fault::Redrives) && self.redriving.is_due() {
            self.redrive()?;
        }
        let is_ordered = !self.trial.has(Fault::Scheduled);
        // Who held something for too long loses its groups, and keeps what else it has of them.
        let has_owners = self.trial.has(Fault::Groups) && !self.trial.times_out();
        if has_owners && self.step.is_multiple_of(GROUP_STEPS) {
            self.machine
                .look(|core| core.check_groups(payload::ends, is_ordered))??;
        }
        if self.step.is_multiple_of(LOOK_STEPS) {
            self.check()?;
        }
        Ok(())
    }

    fn perform(&mut self, next: Next) -> Result<(), String> {
        match next {
            Next::Turn => self.turn_any(),
            Next::Read => self.read_any()?,
            Next::Act => {
                let client = self.random.below(self.clients.len() as u64);
                self.act(usize::try_from(client).unwrap());
            }
            Next::Commit => self.commit(),
            Next::Load => {
                self.machine.load();
            }
            Next::Evict => {
                self.machine.evict();
            }
            Next::Tick => {
                self.machine.tick()?;
            }
            Next::Checkpoint => {
                self.machine.checkpoint();
            }
            Next::Alarm => self.machine.alarm(),
            Next::Wait => self.wait(),
            Next::Fault => self.fault()?,
        }
        Ok(())
    }

    /// Time goes by, at most until the next thing is due.
    pub(super) fn wait(&mut self) {
        let now = self.machine.now().mono;
        let sockets = self.sockets.iter().map(Socket::next_deadline).min();
        let due = self.machine.next_deadline().min(sockets.unwrap_or(now));
        let most = due.since(now).clamp(1, 12);
        self.clock.advance_us(1_000 * (1 + self.random.below(most)));
    }

    /// One of the connections that have something to do has its turn.
    fn turn_any(&mut self) {
        let now = self.machine.now().mono;
        let ready: Vec<usize> = (0..self.sockets.len())
            .filter(|at| self.sockets[*at].is_ready(now))
            .collect();
        if let Some(at) = self.random.pick(&ready).copied() {
            self.turn(at);
        }
    }

    pub(super) fn turn(&mut self, at: usize) {
        self.sockets[at].turn(&self.machine, &mut self.random);
    }

    fn read_any(&mut self) -> Result<(), String> {
        let now = self.machine.now().mono;
        let ready: Vec<usize> = (0..self.sockets.len())
            .filter(|at| {
                let socket = &self.sockets[*at];
                socket.stalled <= now && socket.down.has_any(now) || socket.over
            })
            .collect();
        match self.random.pick(&ready).copied() {
            Some(at) => self.read(at),
            None => Ok(()),
        }
    }

    /// A client reads what has come, or sees that its connection is over.
    pub(super) fn read(&mut self, at: usize) -> Result<(), String> {
        let now = self.machine.now().mono;
        let socket = &mut self.sockets[at];
        if socket.over && socket.down.is_empty() || socket.cut.is_some() {
            if socket.cut.is_none() {
                let client = socket.client;
                self.lose_connection(client);
            }
            if self.sockets[at].over {
                self.sockets.remove(at);
            }
            return Ok(());
        }
        let client = socket.client;
        let most = 1 + usize::try_from(self.random.below(3_000)).unwrap();
        let bytes = socket.down.pull(now, most * socket.scale);
        self.clients[client].now = now;
        self.clients[client].handle(&bytes)?;
        self.take_events(client)?;
        self.flush_client(client);
        let cuts = self.trial.has(Fault::Cut) && !self.quiet;
        if cuts && self.clients[client].receives_in_part() && self.random.one_in(6) {
            self.cut(at);
        }
        Ok(())
    }

    /// Puts what a client wrote on the network.
    pub(super) fn flush_client(&mut self, client: usize) {
        let output = std::mem::take(&mut self.clients[client].output);
        let at = self.machine.now().mono.plus(self.random.below(4));
        if let Some(socket) = self.socket_of(client) {
            socket.up.push(at, &output);
        }
    }

    pub(super) fn socket_of(&mut self, client: usize) -> Option<&mut Socket> {
        let mut sockets = self.sockets.iter_mut();
        sockets.find(|socket| socket.client == client && socket.cut.is_none())
    }

    pub(super) fn connect(&mut self, client: usize) {
        self.connections += 1;
        let socket = Socket::new(&self.machine, self.connections, client);
        self.sockets.push(socket);
        self.clients[client].connect();
        self.flush_client(client);
    }

    /// A client's connection is gone for it: what it had fails.
    pub(super) fn lose_connection(&mut self, client: usize) {
        self.clients[client].now = self.machine.now().mono;
        self.abandon(client);
        for message in self.clients[client].drop_connection().unwrap_or_default() {
            self.ledger.fail(message);
        }
    }

    /// A commit; up to three connections have their turn between its write and its sync.
    pub(super) fn commit(&mut self) {
        let Self {
            machine,
            sockets,
            random,
            clock,
            ..
        } = self;
        let turns = random.below(4);
        machine.commit(|| {
            for _ in 0..turns {
                clock.advance_us(1 + random.below(200));
                // A task may be woken for nothing, too.
                let at = usize::try_from(random.below(sockets.len().max(1) as u64)).unwrap();
                if let Some(socket) = sockets.get_mut(at).filter(|socket| !socket.over) {
                    socket.turn(machine, random);
                }
            }
        });
    }

    fn take_events(&mut self, client: usize) -> Result<(), String> {
        while let Some(event) = self.clients[client].events.pop_front() {
            self.check_dropped(&event)?;
            match event {
                Event::Told { message, outcome } => self.ledger.tell(message, outcome)?,
                Event::Delivery {
                    settled,
                    stale,
                    resumed,
                    in_part,
                    browsed,
                    selected,
                    payload,
                    ..
                } => {
                    let seen = payload::read_message(&payload)?;
                    self.ledger.see(seen.id)?;
                    if selected {
                        self.selected += 1;
                        seen.check_selected()?;
                    }
                    if browsed {
                        self.browsed += 1;
                        continue;
                    }
                    self.resumed += u64::from(resumed);
                    self.in_part.received += u64::from(in_part);
                    if !stale {
                        self.check_awaited(seen.id)?;
                    }
                    self.ledger.deliver(&seen, settled, stale)?;
                }
                Event::Late { message } => self.check_late(message)?,
                Event::Confirmed { message } => {
                    self.ledger.confirm(message);
                }
                Event::Answered { request, status } => self.take_answer(request, &status)?,
                Event::Declared { id } => {
                    let transaction = self.ledger.declare();
                    self.clients[client].transactions.push((id, transaction));
                }
                Event::Discharged {
                    transaction,
                    commits,
                } => {
                    self.ledger.discharged(transaction, commits)?;
                    self.committed += u64::from(commits);
                }
                Event::Uncoordinated => self.abandon(client),
                Event::Detached { .. } | Event::Dropped { .. } => {}
            }
        }
        Ok(())
    }

    /// Something goes wrong.
    fn fault(&mut self) -> Result<(), String> {
        let kind = Fault::ALL[usize::try_from(self.random.below(Fault::HAPPENING as u64)).unwrap()];
        if !self.trial.has(kind) {
            return Ok(());
        }
        match kind {
            Fault::Cut => self.disturb_network(),
            Fault::Crash => {
                if self.random.one_in(2) {
                    return self.crash();
                }
            }
            Fault::Disk => {
                let at = 1 + self.random.below(30);
                let faults = match self.random.below(3) {
                    0 => Faults {
                        fail_operation: Some((at, DiskErrorKind::Failed)),
                        ..Faults::default()
                    },
                    1 => Faults {
                        off_at_operation: Some(at),
                        ..Faults::default()
                    },
                    _ => Faults {
                        off_after_bytes: Some(self.random.below(4_000)),
                        ..Faults::default()
                    },
                };
                self.note(&format!("the disk will fail: {faults:?}"));
                self.machine.disk.set_faults(faults);
            }
            Fault::Full => {
                let used: usize = self.machine.disk.files().iter().map(|f| f.1.len()).sum();
                let capacity = self.random.one_in(2).then_some(used as u64);
                self.note(&format!("the disk has {capacity:?} bytes"));
                self.machine.disk.set_faults(Faults {
                    capacity_bytes: capacity,
                    ..Faults::default()
                });
            }
            Fault::Clock => {
                let hours = i64::try_from(self.random.below(48)).unwrap() - 24;
                self.note(&format!("the wall clock jumps by {hours} hours"));
                self.clock.jump_ms(hours * 3_600_000);
            }
            Fault::Memory
            | Fault::Settled
            | Fault::Large
            | Fault::Redrives
            | Fault::Resume
            | Fault::Browse
            | Fault::Transactions
            | Fault::Groups
            | Fault::Selectors
            | Fault::Subscriptions
            | Fault::Arguments
            | Fault::Scheduled
            | Fault::Routes
            | Fault::Expires
            | Fault::Timeouts => {}
            Fault::Policy => self.change_policy()?,
            Fault::Queues => self.change_queue()?,
        }
        if self.machine.store.state() == StoreState::Poisoned && self.random.one_in(2) {
            return self.crash();
        }
        Ok(())
    }

    fn disturb_network(&mut self) {
        let now = self.machine.now().mono;
        let count = self.sockets.len() as u64;
        if count == 0 {
            return;
        }
        let at = usize::try_from(self.random.below(count)).unwrap();
        if self.random.one_in(3) {
            self.sockets[at].stalled = now.plus(self.random.below(200));
            return;
        }
        self.cut(at);
    }

    /// Cuts a line. The broker sees that soon or late.
    fn cut(&mut self, at: usize) {
        let now = self.machine.now().mono;
        if self.sockets[at].cut.is_some() {
            return;
        }
        let seen = if self.random.one_in(3) { 150 } else { 2 };
        self.sockets[at].cut = Some(now.plus(self.random.below(seen)));
        let client = self.sockets[at].client;
        self.note(&format!("client {client} is cut off"));
        if self.random.one_in(2) {
            // What was on its way to the broker is lost, too.
            let bytes = self.sockets[at].up.bytes() as u64;
            let arrive = usize::try_from(self.random.below(bytes + 1)).unwrap();
            self.sockets[at].up.lose_behind(arrive);
        }
        self.lose_connection(client);
    }

    /// Cuts a line on which a client has just begun to write a message.
    pub(super) fn cut_under_message(&mut self, client: usize) {
        self.flush_client(client);
        let mut sockets = self.sockets.iter();
        let is_its = |socket: &Socket| socket.client == client && socket.cut.is_none();
        if let Some(at) = sockets.position(is_its) {
            self.cut(at);
        }
    }

    /// The node dies, and another one starts on what its disk holds.
    pub(super) fn crash(&mut self) -> Result<(), String> {
        self.crashes += 1;
        if self.random.one_in(2) {
            self.break_off()?;
        }
        let before = lasting(&self.machine, present(&self.machine, false)?)?;
        let counted = self.counted()?;
        let kind = if self.random.one_in(2) {
            Crash::Process
        } else {
            Crash::Power
        };
        self.note(&format!("{kind:?} crash"));
        let durable = self.machine.store.durable();
        let disk = self.machine.disk.crash(kind, &mut self.disk_random);
        self.sockets.clear();
        for client in 0..self.clients.len() {
            self.abandon(client);
        }
        for client in &mut self.clients {
            client.drop_connection();
            client.kept.retain(|_, kept| kept.is_durable());
        }
        self.add_done();
        let started = Machine::start(disk, self.shape, Arc::clone(&self.clock));
        self.machine = started.map_err(|why| format!("no start: {why}"))?;
        self.sums = self.machine.look(sums)?;
        let after = present(&self.machine, true)?;
        let base = self.counted()?;
        let presettled = counted.presettled;
        self.ledger.restart(&before, &after, presettled, base)?;
        self.check_managed()?;
        self.check_redrives_at_start(durable)?;
        self.topology.declare(&self.machine)
    }

    /// The disk is gone in the middle of a commit, or of what else it is asked for; clients hear what
    /// they are told then.
    fn break_off(&mut self) -> Result<(), String> {
        for client in 0..self.clients.len() {
            if self.clients[client].is_ready() {
                self.publish(client);
                if !self.clients[client].transactions.is_empty() {
                    self.transact(client);
                }
                self.flush_client(client);
            }
        }
        self.clock.advance_us(5_000);
        for at in 0..self.sockets.len() {
            if self.sockets[at].is_ready(self.machine.now().mono) {
                self.turn(at);
            }
        }
        // A commit alone is a write and a sync.
        let in_commit = self.random.one_in(2);
        let at = 1 + self.random.below(if in_commit { 3 } else { 8 });
        self.note(&format!("it breaks off at operation {at} of the disk"));
        self.machine.disk.set_faults(Faults {
            off_at_operation: Some(at),
            ..Faults::default()
        });
        if !in_commit {
            self.machine.evict();
            self.machine.checkpoint();
        }
        self.commit();
        self.clock.advance_us(5_000);
        for at in (0..self.sockets.len()).rev() {
            if self.sockets[at].is_ready(self.machine.now().mono) {
                self.turn(at);
            }
            self.clock.advance_us(5_000);
            self.read(at)?;
        }
        Ok(())
    }

    fn add_done(&mut self) {
        let done = self.machine.done();
        self.done.commits += done.commits;
        self.done.checkpoints += done.checkpoints;
        self.done.loads += done.loads;
        self.done.spills += done.spills;
    }

    /// All that the machines did.
    pub(super) fn done(&mut self) -> Done {
        self.add_done();
        self.done
    }

    fn counted(&self) -> Result<Counted, String> {
        self.machine.look(|core| Counted {
            accepted: core.counters().settled.accepted,
            presettled: core.counters().settled.presettled,
            drops: core.counters().drops.total(),
            extra_copies: extra_copies(core),
        })
    }

    /// What starts on the disk of a node that has committed all is what the node is, as far as that is
    /// durable.
    fn check_start(&mut self) -> Result<(), String> {
        if !self.machine.flush() {
            return Ok(());
        }
        let live = self.machine.durable()?;
        let next = self.machine.successor(&mut self.disk_random)?;
        let started = next.durable()?;
        if live == started {
            return Ok(());
        }
        let differences = live.differences(&started).join("\n");
        Err(format!(
            "a start is not what was durable: {differences:.2000}"
        ))
    }

    /// Messages that redrives moved.
    /// Deliveries that were held for too long, since the node started that runs now.
    pub(super) fn timed_out(&self) -> u64 {
        let timed_out = self.machine.look(|core| core.counters().timed_out);
        timed_out.unwrap_or(0)
    }

    pub(super) fn redriven(&self) -> u64 {
        let moved = self.machine.look(|core| self.redriving.moved(core));
        moved.unwrap_or(0)
    }

    fn check_managed(&self) -> Result<(), String> {
        let queues = self.machine.look(|core| {
            let queues = core.queues();
            queues.map(|queue| queue.name.to_string()).collect()
        })?;
        self.managed.check(&queues)
    }

    /// Looks at everything.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let present = present(&self.machine, self.step.is_multiple_of(4 * LOOK_STEPS))?;
        let counted = self.counted()?;
        if self.ledger.watched.is_some() {
            let store = &self.machine.store;
            eprintln!(
                "{}: {:?}, durable {:?}",
                self.step,
                store.state(),
                store.durable()
            );
        }
        self.ledger.check(&present, counted)?;
        self.check_managed()?;
        self.check_redrives()?;
        let (estimate_ns, budget) = (self.machine.vhost().longest_estimate_ns(), self.shape.hold);
        // A discharge cannot be cut: all of it is one record.
        let step_ns = if self.trial.has(Fault::Transactions) {
            DISCHARGE_NS_MAX
        } else {
            BATCH_NS_MAX
        };
        if estimate_ns > budget.ns + step_ns {
            return Err(format!(
                "a hold took {estimate_ns} ns, and may take {budget:?}"
            ));
        }
        for (queue, sum) in self.machine.look(sums)? {
            let before = self.sums.get(&queue).copied().unwrap_or(0);
            if sum != before {
                return Err(format!(
                    "of {queue:?} {} more messages are counted as gone or are there than entered",
                    sum - before
                ));
            }
        }
        if self.random.one_in(5) {
            self.check_start()?;
        }
        let damaged = |core: &Core| core.counters().drops.of(DropCause::Damaged);
        match self.machine.look(damaged)? {
            0 => Ok(()),
            count => Err(format!("{count} messages could not be read back")),
        }
    }
}

/// What names the connections of a client: its links, too, where they outlive those.
fn container_of(number: Option<usize>) -> String {
    let number = number.map(|number| format!("-{number}"));
    format!("simulated{}", number.unwrap_or_default())
}

/// By queue: messages that are there, were accepted, died, were dropped or redriven, less those that entered. A node
/// counts from its start on.
fn sums(core: &Core) -> BTreeMap<QueueId, i64> {
    let sum = |queue: &Queue| {
        let counters = &queue.counters;
        let kinds = counters.drops.kinds().iter();
        let dropped = kinds.filter(|kind| kind.reason.is_none());
        let dropped: u64 = dropped.map(|kind| kind.count).sum();
        // Those that wait have died, and are there.
        let moved = moved_out_of(core, queue.id);
        let gone = counters.accepted + counters.dead.total() + dropped + moved;
        let gone = gone.cast_signed() - queue.pending.len().cast_signed();
        queue.messages.live().cast_signed() + gone - counters.entered.cast_signed()
    };
    core.queues().map(|queue| (queue.id, sum(queue))).collect()
}

/// The number of a message; `is_deep` reads its body, too, if that is on disk alone.
fn number_of(machine: &Machine, message: &Message, is_deep: bool) -> Result<u64, String> {
    let Some(body) = message.blob() else {
        return payload::id_of(&message.whole());
    };
    let id = payload::id_of(message.bare())?;
    if is_deep {
        match machine.store.journal().read(**body) {
            Ok(bare) => payload::id_of(&bare)?,
            // Nobody was told that it is there.
            Err(ReadError::NotWritten(_)) => id,
            Err(error) => return Err(format!("the body of message {id} is not there: {error}")),
        };
    }
    Ok(id)
}

/// Where redrives sent a message.
fn sent_to(message: &Message) -> Vec<String> {
    let redrives = message.redrives().into_iter();
    let all = redrives.flat_map(|redrives| redrives.list());
    all.map(|redrive| redrive.to.to_string()).collect()
}

/// Those in queues that outlive the broker, but for what came there from others.
fn lasting(machine: &Machine, mut present: Present) -> Result<Present, String> {
    let lasting: BTreeSet<String> = machine.look(|core| {
        let queues = core.queues().filter(|queue| queue.properties().durable);
        queues.map(|queue| queue.name.to_string()).collect()
    })?;
    for places in present.values_mut() {
        places.retain(|place| lasting.contains(&place.queue) && !place.was_volatile());
    }
    present.retain(|_, places| !places.is_empty());
    Ok(present)
}

/// Every message of every queue.
pub(super) fn present(machine: &Machine, is_deep: bool) -> Result<Present, String> {
    let mut present = Present::new();
    let queues: Vec<(String, u64)> = machine.look(|core| {
        let queues = core.queues();
        queues
            .map(|queue| (queue.name.to_string(), queue.messages.live()))
            .collect()
    })?;
    let vhost = machine.vhost();
    for (queue, live) in queues {
        let mut found = 0;
        for state in [
            MessageState::Ready,
            MessageState::Held,
            MessageState::Delayed,
            MessageState::Dying,
        ] {
            let piece = vhost.browse(&queue, state, Position(0), usize::MAX);
            let piece = piece.map_err(|_| "the vhost failed")?;
            found += piece.messages.len() as u64;
            for seen in piece.messages {
                let id = number_of(machine, &seen.message, is_deep)?;
                let history = seen.message.history().map(|history| story(history));
                present.entry(id).or_default().push(MessagePlace {
                    queue: queue.clone(),
                    state,
                    history: history.transpose()?,
                    sent_to: sent_to(&seen.message),
                });
            }
        }
        if found != live {
            return Err(format!("{found} of {live} messages of {queue} can be read"));
        }
    }
    Ok(present)
}
