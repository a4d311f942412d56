//! What all tasks of a broker share: its vhosts, connections and counters, and starting and ending
//! tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use tokio::task::JoinSet;

use super::BrokerDisk;
use super::Vhost;
use super::clock::SystemClock;
use super::handle::ConnectionHandle;
use super::login::Logins;
use super::sockets::Addresses;
use super::stats::{JournalStats, MemoryStats, Stats};
use super::timer;
use super::tls::Tls;
use crate::base::locks::{RankedMutex, RankedRwLock, rank};
use crate::base::{ConnectionId, Millis};
use crate::config::Settings;
use crate::management::samples::{ChurnSample, ConnectionSample};
use crate::node::{Node, Sampled};
use crate::store::{StoreState, StoreStats};

/// Samples of connections, for rates.
#[derive(Debug, Default)]
pub(super) struct ConnectionRates {
    pub(super) octets: Sampled<ConnectionSample>,
    pub(super) churn: Sampled<ChurnSample>,
}

/// What all tasks of a broker share.
pub(super) struct Shared {
    /// The node: vhosts, journal, alarms, environment of the gateways.
    pub(super) node: Arc<Node<BrokerDisk>>,
    pub(super) clock: SystemClock,
    /// The settings at the start.
    pub(super) settings: Settings,
    /// The settings as last loaded: for those that can change, [`KEYS`](super::live::KEYS).
    pub(super) live: RankedRwLock<rank::LiveSettings, Settings>,
    /// Held while definitions are imported: one import at a time.
    pub(super) imports: tokio::sync::Mutex<()>,
    /// The checking of passwords.
    pub(super) logins: Logins,
    /// Certificates of the TLS listeners; none: there are no such listeners.
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) threads: RankedMutex<rank::Threads, Threads>,
    /// When the broker started.
    pub(super) started: Millis,
    pub(super) handles:
        RankedMutex<rank::Connections, BTreeMap<ConnectionId, Arc<ConnectionHandle>>>,
    pub(super) tasks: RankedMutex<rank::Tasks, JoinSet<()>>,
    pub(super) stopping: AtomicBool,
    /// The addresses that it listens on.
    pub(super) addresses: Addresses,
    pub(super) connections: AtomicU32,
    pub(super) connections_total: AtomicU64,
    pub(super) connections_refused: AtomicU64,
    /// Samples of connections' octets and of churn, for rates.
    pub(super) rates: ConnectionRates,
    /// Counts of messages taken over HTTP.
    #[cfg(feature = "http")]
    pub(super) gets: super::gets::Gets,
    /// Streams of events that are open.
    #[cfg(feature = "http")]
    pub(super) event_streams: super::streams::UserStreams,
    /// Exports and imports of messages that are open.
    #[cfg(feature = "http")]
    pub(super) message_streams: super::streams::UserStreams,
    /// Answers about groups of dead letters.
    #[cfg(feature = "http")]
    pub(super) groups: super::kept_groups::KeptGroups,
    /// Numbers of findings of the linter.
    #[cfg(feature = "http")]
    pub(super) lint_counts: super::lint_counts::LintCounts,
    /// Who is logged in to the page.
    #[cfg(feature = "http")]
    pub(super) page_sessions: super::page_sessions::PageSessions,
    /// The log, if it is the broker's and not that of a program that embeds it.
    #[cfg(feature = "cli")]
    pub(super) log: std::sync::OnceLock<super::log::LogControl>,
}

impl Shared {
    /// Starts the task that drives the timers of a vhost.
    pub(super) fn run_vhost(&self, vhost: Arc<Vhost>) {
        self.spawn(timer::run(vhost, self.clock));
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Starts a task that ends with the broker.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        // Finished tasks are not kept.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Wakes the tasks of all connections.
    pub(super) fn wake_all(&self) {
        for handle in self.handles() {
            handle.outbox.wake();
        }
    }

    /// The handles of all connections.
    pub(super) fn handles(&self) -> Vec<Arc<ConnectionHandle>> {
        self.handles.lock().values().map(Arc::clone).collect()
    }

    /// The handle of a connection.
    pub(super) fn handle(&self, id: ConnectionId) -> Option<Arc<ConnectionHandle>> {
        self.handles.lock().get(&id).map(Arc::clone)
    }

    /// Time since the start, in milliseconds.
    pub(super) fn uptime_ms(&self) -> u64 {
        self.clock.now().mono.since(self.started)
    }

    pub(super) fn connection_counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.connections.load(Ordering::Relaxed).into(),
            taken: self.connections_total.load(Ordering::Relaxed),
            refused: self.connections_refused.load(Ordering::Relaxed),
        }
    }

    /// Connections and queues opened, closed, declared, created and deleted, in the order of the
    /// HTTP API.
    pub(super) fn churn(&self) -> [u64; 5] {
        let connections = self.connection_counts();
        let queues = self.node.vhosts.queue_churn();
        [
            connections.taken,
            connections.ended(),
            queues.declared,
            queues.created,
            queues.deleted,
        ]
    }

    /// All vhosts, by name.
    pub(super) fn all_vhosts(&self) -> Vec<Arc<Vhost>> {
        self.node.vhosts.all()
    }

    /// State and counters of the journal; none: messages live in memory only.
    pub(super) fn journal(&self) -> Option<(StoreState, StoreStats)> {
        let store = self.node.store.as_ref()?;
        Some((store.state(), store.stats()))
    }

    fn memory(&self) -> MemoryStats {
        let budget_bytes = self.live.read().budget_in_force();
        let mut stats = MemoryStats {
            budget_bytes,
            spilled_bytes: self.node.pager.spilled_bytes(),
            ..MemoryStats::default()
        };
        for vhost in self.node.vhosts.all() {
            let memory = vhost.memory();
            stats.used_bytes += memory.bytes();
            stats.messages += memory.resident.messages;
            stats.paged_out_messages += memory.evicted.messages;
            stats.paged_out_bytes += memory.evicted.bytes;
            stats.loads += memory.loads;
        }
        stats
    }

    /// Ready when the core of a vhost failed.
    pub(super) async fn failed(&self) {
        self.node.failure.woken().await;
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            connections: self.connections.load(Ordering::Relaxed),
            connections_total: self.connections_total.load(Ordering::Relaxed),
            connections_refused: self.connections_refused.load(Ordering::Relaxed),
            vhosts: self
                .node
                .vhosts
                .all()
                .iter()
                .map(|vhost| vhost.stats())
                .collect(),
            alarms: self.node.alarms.alarms(),
            memory: self.memory(),
            store: self.node.store.as_ref().map(|store| JournalStats {
                state: store.state(),
                figures: store.stats(),
            }),
        }
    }
}

/// The threads that may block on the disk.
#[derive(Default)]
pub(super) struct Threads {
    pub(super) paging: Vec<JoinHandle<()>>,
    pub(super) journal: Option<JoinHandle<()>>,
}

/// Numbers of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionCounts {
    pub(super) open: u64,
    /// Connections accepted since the start.
    pub(super) taken: u64,
    /// Connections dropped because there were too many.
    pub(super) refused: u64,
}

impl ConnectionCounts {
    /// Accepted connections that have ended.
    pub(super) const fn ended(&self) -> u64 {
        self.taken.saturating_sub(self.open)
    }
}
