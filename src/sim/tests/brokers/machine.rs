//! A machine: a node on a disk, and what a server does for it with threads and timers, done in steps.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use parking_lot::Mutex;

use super::trial::{Fault, Trial};
use crate::access::{Mechanism, Mechanisms, Permissions, SECRET_BYTES, Secret, User, UserLimits};
use crate::base::{Gauge, HoldBudget, Lsn, Millis, Name, Now, Position, Random, Seed, Timestamp};
use crate::broker::arguments::OnUndeliverable;
use crate::broker::registry::{DEFAULT_VHOST, Registry, RegistryFact, VhostSpec};
use crate::broker::{Command, Core, CoreOptions, PageIn, Reply, Undeliverable, Wanted};
use crate::deaths::EvidenceLevel;
use crate::gateway::{Environment, GatewayOptions};
use crate::link::{Identity, LinkOptions};
use crate::message::KeyRule;
use crate::node::alarm::{Limits, Watch};
use crate::node::checkpoint::{CheckpointStep, Checkpointer};
use crate::node::committer::{Committer, CommitterStep};
use crate::node::pager::{EvictionJob, SpillTarget};
use crate::node::paging::{Paging, Worked};
use crate::node::recover::{NotRecovered, RecoveryPlan};
use crate::node::{Clock, Node, NodeParts, Store, Vhost};
use crate::record;
use crate::sim::{Archive, DurableState, durable_state};
use crate::store::sim_disk::{Crash, SimDisk};
use crate::store::{self, GroupCommit, StoreState};

/// Messages of up to so many bytes are taken.
const MESSAGE_BYTES_MAX: u64 = 4 * 1024;
/// The same where messages are large.
const LARGE_MESSAGE_BYTES_MAX: u64 = 1024 * 1024;

/// What links may take that outlive their connections, in bytes.
const LINKS_BYTES: u64 = 512 * 1024;

/// How long memory is not looked at when nothing is to leave it, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// The clocks of the simulated world: it sets them.
#[derive(Debug)]
pub(super) struct SimClock(Mutex<Times>);

#[derive(Clone, Copy, Debug)]
struct Times {
    ns: u64,
    wall_ms: i64,
}

impl SimClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Times {
            ns: 1_000_000_000,
            wall_ms: 1_700_000_000_000,
        })))
    }

    pub(super) fn advance_us(&self, us: u64) {
        self.0.lock().ns += us * 1_000;
    }

    /// Only the wall clock jumps.
    pub(super) fn jump_ms(&self, ms: i64) {
        self.0.lock().wall_ms += ms;
    }
}

impl Clock for SimClock {
    fn now(&self) -> Now {
        let times = *self.0.lock();
        let ms = times.ns / 1_000_000;
        let wall = times.wall_ms + i64::try_from(ms).unwrap();
        Now::new(Millis(ms), Timestamp(wall))
    }

    fn elapsed_ns(&self) -> u64 {
        self.0.lock().ns
    }
}

/// How a machine is.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineShape {
    pub(super) memory_budget: u64,
    pub(super) checkpoint_bytes: u64,
    pub(super) block_shift: u32,
    /// Some messages are so large that they are written while they arrive.
    pub(super) large: bool,
    /// Links outlive their connections.
    pub(super) resumes: bool,
    /// What may be done under one hold of a lock.
    pub(super) hold: HoldBudget,
    /// What becomes of dead letters that get nowhere.
    pub(super) undeliverable: Undeliverable,
}

impl MachineShape {
    /// How large the machine of a world is, and what it may do at once.
    pub(super) fn of(trial: Trial, random: &mut Random) -> Self {
        Self {
            memory_budget: if trial.has(Fault::Memory) {
                1_500 + random.below(8_000)
            } else {
                1 << 30
            },
            checkpoint_bytes: 1_000 + random.below(20_000),
            block_shift: 1 + u32::try_from(random.below(5)).unwrap(),
            large: trial.has(Fault::Large),
            resumes: trial.has(Fault::Resume),
            undeliverable: undeliverable(trial.seed),
            hold: match random.below(3) {
                0 => HoldBudget::default(),
                1 => HoldBudget {
                    commands: 16,
                    ns: 20_000,
                },
                _ => HoldBudget {
                    commands: 2,
                    ns: 500,
                },
            },
        }
    }
}

/// Every other world has a quarantine, some of them a small one.
fn undeliverable(seed: u64) -> Undeliverable {
    let choice = if seed.is_multiple_of(2) {
        OnUndeliverable::Drop
    } else {
        OnUndeliverable::Quarantine
    };
    let length_max = if seed.is_multiple_of(3) { 5 } else { 100_000 };
    Undeliverable {
        choice,
        length_max,
        ..Undeliverable::default()
    }
}

impl MachineShape {
    const fn message_bytes_max(self) -> u64 {
        if self.large {
            LARGE_MESSAGE_BYTES_MAX
        } else {
            MESSAGE_BYTES_MAX
        }
    }
}

pub(super) type SimVhost = Vhost<SimDisk>;

pub(super) struct Machine {
    pub(super) clock: Arc<SimClock>,
    pub(super) node: Arc<Node<SimDisk>>,
    pub(super) store: Arc<Store<SimDisk>>,
    pub(super) disk: SimDisk,
    shape: MachineShape,
    committer: RefCell<Committer<SimDisk>>,
    more_to_commit: Cell<bool>,
    commits: Cell<u64>,
    checkpointer: Checkpointer<SimDisk>,
    checkpoint_after: Lsn,
    watch: Watch<SimDisk>,
    /// When the timer of each vhost fires.
    timers: BTreeMap<Name, Millis>,
    /// Messages cannot leave before this.
    leave_again: Millis,
    /// Memory is looked at then, if nothing is to leave before.
    look_at: Millis,
    done: Done,
}

/// What a machine did beside messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Done {
    pub(super) commits: u64,
    pub(super) checkpoints: u64,
    pub(super) loads: u64,
    pub(super) spills: u64,
}

fn store_options(shape: MachineShape) -> store::StoreOptions {
    store::StoreOptions {
        device_block_bytes: 512,
        segment_bytes: if shape.large { 640 } else { 16 } * 1024,
        rewrite_below_percent: 60,
        ..store::StoreOptions::default()
    }
}

fn core_options(shape: MachineShape) -> impl Fn(&Name) -> CoreOptions {
    move |vhost| CoreOptions {
        block_shift: shape.block_shift,
        unsettled_max: 60,
        hold: shape.hold,
        undeliverable: shape.undeliverable,
        ..CoreOptions::new(vhost.clone(), Seed(7))
    }
}

/// What is in a fresh registry: one user, who may do anything.
fn first_facts() -> Vec<RegistryFact> {
    let (vhost, user) = (Name::from(DEFAULT_VHOST), Name::from("guest"));
    vec![
        RegistryFact::VhostSet {
            name: vhost.clone(),
            spec: VhostSpec::default(),
        },
        RegistryFact::UserSet(Box::new(User {
            name: user.clone(),
            password: None,
            tags: Vec::new(),
            loopback_only: false,
            limits: UserLimits::default(),
        })),
        RegistryFact::PermissionsSet {
            vhost,
            user,
            permissions: Permissions::all().unwrap(),
        },
    ]
}

fn gateway_options(shape: MachineShape) -> GatewayOptions {
    GatewayOptions {
        link: LinkOptions {
            identity: Identity {
                container_id: "node".to_owned(),
                ..Identity::default()
            },
            incoming_window: 20,
            ..LinkOptions::default()
        },
        node: Name::from("node"),
        anonymous_user: Some(Name::from("guest")),
        mechanisms: Mechanisms {
            enabled: Mechanism::ALL.to_vec(),
            plain_without_tls: true,
            has_anonymous: true,
            takes_tokens: false,
        },
        secret: Secret([9; SECRET_BYTES]),
        message_bytes_max: shape.message_bytes_max(),
        death_evidence: EvidenceLevel::default(),
        key_rule: KeyRule::Specification,
        delivery_times: true,
        subscriptions: true,
        link_recovery: true,
        transaction_timeout_ms: 60_000,
        transaction_bytes_max: 1 << 20,
        auto_create: Vec::new(),
        temporary_prefix: "amq.gen-".to_owned(),
        counts_returns: false,
        outbox_bytes: 4096,
        seed: Seed(7),
    }
}

impl Machine {
    /// Starts a node on what a disk holds.
    pub(super) fn start(
        disk: SimDisk,
        shape: MachineShape,
        clock: Arc<SimClock>,
    ) -> Result<Self, String> {
        let entry = RecoveryPlan {
            registry: Registry::new(Name::from(DEFAULT_VHOST), []),
            core_options: core_options(shape),
            store_options: store_options(shape),
            group_commit: GroupCommit::new(GroupCommit::DELAY_US_DEFAULT),
            seed: 7,
            clock: clock.clone(),
            progress: Arc::default(),
        };
        let complete = |mut registry: Registry, is_fresh| {
            let facts = if is_fresh { first_facts() } else { Vec::new() };
            for fact in &facts {
                registry.apply(fact.clone());
            }
            Ok::<_, ()>((registry, facts))
        };
        let recovered = entry.recover(disk.clone(), complete);
        let recovered = recovered.map_err(|error| match error {
            NotRecovered::Data(why) => why,
            NotRecovered::Registry(()) => unreachable!(),
        })?;
        let store = recovered.store;
        let node = Arc::new(Node::new(NodeParts {
            clock: clock.clone(),
            environment: Environment::new(recovered.registry, gateway_options(shape)),
            store: Some(Arc::clone(&store)),
            spill_target: SpillTarget::Journal(Arc::clone(&store)),
            memory_budget_bytes: shape.memory_budget,
            message_bytes_max: shape.message_bytes_max(),
            kept: Gauge::default(),
            core_options: core_options(shape)(&Name::default()),
            default_queue_type: Name::from("classic"),
        }));
        let mut timers = BTreeMap::new();
        for core in recovered.cores {
            let vhost = node.start_vhost(core);
            timers.insert(vhost.name().clone(), Millis(0));
        }
        let watch = node.watch();
        Ok(Self {
            clock,
            node,
            checkpointer: Checkpointer::new(Arc::clone(&store), shape.checkpoint_bytes),
            store,
            disk,
            shape,
            committer: RefCell::new(recovered.committer),
            more_to_commit: Cell::new(true),
            commits: Cell::new(0),
            checkpoint_after: Lsn(0),
            watch,
            timers,
            leave_again: Millis(0),
            look_at: Millis(0),
            done: Done::default(),
        })
    }

    /// What it did so far.
    pub(super) fn done(&self) -> Done {
        Done {
            commits: self.commits.get(),
            ..self.done
        }
    }

    pub(super) const fn has_large(&self) -> bool {
        self.shape.large
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    pub(super) fn vhost(&self) -> Arc<SimVhost> {
        self.node.vhosts.get(DEFAULT_VHOST).unwrap()
    }

    /// Asks the core of the vhost, as an operator does.
    pub(super) fn ask(&self, command: Command) -> Result<Reply, String> {
        let asked = self
            .vhost()
            .work(|now, core, effects| core.apply(now, command, effects));
        asked.map_err(|_| "the vhost failed".to_owned())
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Core) -> T) -> Result<T, String> {
        let seen = self.vhost().look(look);
        seen.map_err(|_| "the vhost failed".to_owned())
    }

    /// Commits if it is time to; others have their turn `between` the write and the sync.
    pub(super) fn commit(&self, between: impl FnOnce()) {
        if self.store.state() == StoreState::Poisoned {
            return;
        }
        let mut committer = self.committer.borrow_mut();
        if !self.more_to_commit.get() && committer.poll() != CommitterStep::Commit {
            return;
        }
        let more = committer.commit_around(between).unwrap_or(false);
        self.more_to_commit.set(more);
        self.commits.set(self.commits.get() + 1);
    }

    /// Commits all that waits; false if the disk does not take it.
    pub(super) fn flush(&mut self) -> bool {
        for _ in 0..100 {
            if self.store.state() != StoreState::Open {
                return false;
            }
            if matches!(self.committer.get_mut().commit(), Ok(false)) {
                let last = self.store.reserve();
                let first = last.first();
                self.store.abandon(last);
                return self.store.durable().0 + 1 >= first.0;
            }
        }
        false
    }

    /// Another machine on what is left of this one's disk when the power fails now.
    pub(super) fn successor(&self, random: &mut store::Random) -> Result<Self, String> {
        let disk = self.disk.crash(Crash::Power, random);
        Self::start(disk, self.shape, Arc::clone(&self.clock))
    }

    /// The durable part of what it holds; what is not in memory is read from its journal.
    pub(super) fn durable(&self) -> Result<DurableState, String> {
        let names = self.look(|core| {
            let mut names = BTreeSet::new();
            for queue in core.queues() {
                for (position, disk_ref) in queue.messages.disk_refs(Position(0)) {
                    let wanted = vec![Wanted {
                        position,
                        envelope: disk_ref.envelope,
                        body: disk_ref.body,
                    }];
                    names.extend(record::records_of(&PageIn {
                        queue: queue.id,
                        block: position,
                        wanted,
                    }));
                }
            }
            names
        })?;
        let mut archive = Archive::default();
        for name in names {
            if let Ok(bytes) = self.store.journal().read(name) {
                archive.add_bytes(name, bytes);
            }
        }
        self.look(|core| durable_state(core, &archive))
    }

    fn paging(&self) -> Paging<SimDisk> {
        Paging {
            pager: Arc::clone(&self.node.pager),
            vhosts: Arc::clone(&self.node.vhosts),
        }
    }

    /// Reads a block back, if one is wanted and there is room.
    pub(super) fn load(&mut self) -> bool {
        if self.node.pager.is_full() {
            return false;
        }
        let Some(job) = self.node.pager.loads.try_next() else {
            return false;
        };
        self.paging().load(&job);
        self.done.loads += 1;
        true
    }

    /// Does one thing for messages that are to leave memory.
    pub(super) fn evict(&mut self) -> bool {
        let now = self.now().mono;
        if now < self.leave_again {
            return false;
        }
        let job = match self.node.pager.evictions.try_next() {
            Some(job) => job,
            // As the server's thread does when nobody says that there is too much.
            None if now >= self.look_at => EvictionJob::Look,
            None => return false,
        };
        self.look_at = now.plus(LOOK_MS);
        self.done.spills += u64::from(matches!(job, EvictionJob::Spill(..)));
        if self.paging().evict(self.clock.elapsed_ns(), job) == Worked::Stuck {
            self.leave_again = now.plus(2);
        }
        true
    }

    /// Takes the next step of a checkpoint.
    pub(super) fn checkpoint(&mut self) -> bool {
        if self.store.durable() < self.checkpoint_after {
            return false;
        }
        let (node, vhosts) = (&self.node, &self.node.vhosts);
        let was_running = self.store.journal().checkpoint_runs();
        let step = self.checkpointer.step(|store| {
            node.copy_registry(store);
            vhosts.all()
        });
        match step {
            CheckpointStep::After(lsn) => self.checkpoint_after = lsn,
            CheckpointStep::More => {}
            CheckpointStep::Idle => {
                self.done.checkpoints += u64::from(was_running);
                return was_running && !self.store.journal().checkpoint_runs();
            }
        }
        true
    }

    pub(super) fn alarm(&mut self) {
        // Large messages that arrive are more than this: they are let in one after the other.
        let mut kept_bytes = self.node.alarms.connections().bytes();
        if self.shape.resumes {
            self.node.expire_links();
            kept_bytes += LINKS_BYTES; // that outlived their connections
        }
        let _ = self.watch.look(Limits {
            memory_bytes: self.shape.memory_budget * 4 + kept_bytes,
            disk_free_bytes: 0,
        });
    }

    /// Fires what is due, where a timer fires or an earlier one is called for.
    pub(super) fn tick(&mut self) -> Result<bool, String> {
        let now = self.now().mono;
        let mut any = false;
        for (name, due) in &mut self.timers {
            let Some(vhost) = self.node.vhosts.get(name) else {
                continue;
            };
            let mut context = Context::from_waker(Waker::noop());
            let earlier = pin!(vhost.earlier()).poll(&mut context).is_ready();
            if earlier || *due <= now {
                *due = vhost.tick().map_err(|_| "the vhost failed".to_owned())?;
                any = true;
            }
        }
        Ok(any)
    }

    /// When something is due without anybody's doing.
    pub(super) fn next_deadline(&self) -> Millis {
        let timers = self.timers.values().copied().min();
        timers.unwrap_or(Millis::NEVER)
    }
}
