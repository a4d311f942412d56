//! A node that its owner moves by hand, in one thread and in a fixed order: for benches, which count
//! what a message takes beside sockets, threads and clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;

use super::clock::Clock;
use super::committer::Committer;
use super::connection::{Connection, Output};
use super::node::{Node, NodeParts};
use super::pager::SpillTarget;
use super::recover::{NotRecovered, RecoveryPlan};
use super::store::Store;
use super::vhost::Vhost;
use crate::access::Peer;
use crate::base::{ConnectionId, Gauge, Millis, Name, Now, Seed, Timestamp};
use crate::broker::registry::{DEFAULT_VHOST, Registry, RegistryFact};
use crate::broker::{Command, Core, CoreOptions, Reply};
use crate::gateway::{Environment, GatewayOptions};
use crate::store::{self, Disk, GroupCommit, StoreError};

/// Memory for messages, in bytes: none leaves it.
const MEMORY_BUDGET_BYTES: u64 = 1 << 40;
/// The type of queues that are declared without one.
const DEFAULT_QUEUE_TYPE: &str = "classic";

/// A node with one vhost. Nothing in it goes on by itself: time, connections and commits are moved by
/// the methods.
#[derive(Debug)]
pub struct SteppedNode<D: Disk> {
    clock: Arc<SteppedClock>,
    node: Arc<Node<D>>,
    vhost: Arc<Vhost<D>>,
    /// Commits to the journal; none: messages live in memory only.
    committer: Option<Committer<D>>,
    connections: Vec<(Connection<D>, Output)>,
}

/// A clock that is set forward.
#[derive(Debug)]
struct SteppedClock {
    ms: AtomicU64,
}

impl Clock for SteppedClock {
    fn now(&self) -> Now {
        let ms = self.ms.load(Ordering::Relaxed);
        let wall = i64::try_from(ms).unwrap_or(i64::MAX);
        Now::new(Millis(ms), Timestamp(wall))
    }

    fn elapsed_ns(&self) -> u64 {
        self.ms.load(Ordering::Relaxed).saturating_mul(1_000_000)
    }
}

/// What is in a node that starts.
struct Contents<D: Disk> {
    registry: Registry,
    cores: Vec<Core>,
    journal: Option<(Arc<Store<D>>, Committer<D>)>,
}

impl<D: Disk> SteppedNode<D> {
    /// Starts a node on an empty disk, or in memory only. The facts are to declare the default vhost
    /// and who may do what in it.
    ///
    /// # Errors
    /// What cannot be started, in words.
    pub fn start(
        disk: Option<D>,
        gateways: GatewayOptions,
        facts: &[RegistryFact],
    ) -> Result<Self, String> {
        let ms = AtomicU64::new(1);
        let clock = Arc::new(SteppedClock { ms });
        let contents = Contents::make(disk, gateways.seed, facts, &clock)?;
        let (store, committer) = contents.journal.unzip();
        let core_options = core_options(&Name::default(), gateways.seed, store.is_some());
        let node = Arc::new(Node::new(NodeParts {
            clock: Arc::<SteppedClock>::clone(&clock),
            message_bytes_max: gateways.message_bytes_max,
            environment: Environment::new(contents.registry, gateways),
            spill_target: store
                .clone()
                .map_or(SpillTarget::Nowhere, SpillTarget::Journal),
            store,
            memory_budget_bytes: MEMORY_BUDGET_BYTES,
            kept: Gauge::default(),
            core_options,
            default_queue_type: Name::from(DEFAULT_QUEUE_TYPE),
        }));
        for core in contents.cores {
            node.start_vhost(core);
        }
        let vhost = node.vhosts.get(DEFAULT_VHOST);
        let vhost = vhost.ok_or_else(|| format!("there is no vhost '{DEFAULT_VHOST}'"))?;
        Ok(Self {
            clock,
            node,
            vhost,
            committer,
            connections: Vec::new(),
        })
    }

    /// The time in it.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Sets its time forward.
    pub fn advance_ms(&self, ms: u64) {
        self.clock.ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Lets the core carry out a command, as an operator does; none: the core failed.
    pub fn apply(&self, command: Command) -> Option<Reply> {
        let work = |now, core: &mut Core, effects: &mut _| core.apply(now, command, effects);
        self.vhost.work(work).ok()
    }

    /// A new connection; its index.
    pub fn accept(&mut self, peer: Peer) -> usize {
        let id = ConnectionId(self.node.environment.next_id());
        let connection = Connection::new(&self.node, id, peer, Arc::default());
        self.connections.push((connection, Output::default()));
        self.connections.len() - 1
    }

    /// A connection's turn: takes what has come, and appends all that goes to the peer.
    pub fn turn(&mut self, connection: usize, input: &mut BytesMut, output: &mut Vec<u8>) {
        let Some((connection, written)) = self.connections.get_mut(connection) else {
            return;
        };
        loop {
            connection.turn(input, written);
            let bytes = written.rest();
            output.extend_from_slice(bytes);
            written.advance(bytes.len());
            if !connection.is_heavy() {
                return;
            }
        }
    }

    /// What its connections keep, as it is counted against the memory limit, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        self.node.alarms.connections().bytes()
    }

    /// A commit of all that waits for the journal, and a piece of its housekeeping. Whether there is
    /// more to do.
    ///
    /// # Errors
    /// The journal failed.
    pub fn commit(&mut self) -> Result<bool, StoreError> {
        let committer = self.committer.as_mut();
        committer.map_or(Ok(false), Committer::commit)
    }
}

impl<D: Disk> Contents<D> {
    fn make(
        disk: Option<D>,
        seed: Seed,
        facts: &[RegistryFact],
        clock: &Arc<SteppedClock>,
    ) -> Result<Self, String> {
        let empty = Registry::new(Name::from(DEFAULT_VHOST), []);
        let complete = |mut registry: Registry, _| {
            for fact in facts {
                registry.apply(fact.clone());
            }
            Ok((registry, facts.to_vec()))
        };
        let Some(disk) = disk else {
            let (registry, _) = complete(empty, true)?;
            let names = registry.vhosts().map(|(name, _)| name);
            let cores = names.map(|name| Core::new(core_options(name, seed, false)));
            return Ok(Self {
                cores: cores.collect(),
                registry,
                journal: None,
            });
        };
        let plan = RecoveryPlan {
            registry: empty,
            core_options: |name: &Name| core_options(name, seed, true),
            store_options: store::StoreOptions::default(),
            group_commit: GroupCommit::new(GroupCommit::DELAY_US_DEFAULT),
            seed: seed.0,
            clock: Arc::<SteppedClock>::clone(clock),
            progress: Arc::default(),
        };
        let recovered = plan.recover(disk, complete);
        let recovered = recovered.map_err(|error| match error {
            NotRecovered::Data(why) | NotRecovered::Registry(why) => why,
        })?;
        Ok(Self {
            registry: recovered.registry,
            cores: recovered.cores,
            journal: Some((recovered.store, recovered.committer)),
        })
    }
}

fn core_options(vhost: &Name, seed: Seed, journal: bool) -> CoreOptions {
    CoreOptions {
        journal,
        ..CoreOptions::new(vhost.clone(), seed)
    }
}

#[cfg(test)]
mod tests;
