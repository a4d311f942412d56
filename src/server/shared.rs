//! What all tasks of a broker share: its vhosts, connections and counts; how they start and end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::BrokerDisk;
use super::Store;
use super::Vhost;
use super::Vhosts;
use super::clock::SystemClock;
use super::connection::Driver;
use super::desk::Desk;
use super::errors::StartError;
use super::listener::{Addresses, Listeners};
use super::login::Logins;
use super::recover::{self, Recovered};
use super::stats::{JournalStats, MemoryStats, Stats};
use super::tls::Tls;
use super::yielding::Turns;
use super::{alarm, checkpoint, journal, paging, rates, setup};
use crate::access::Peer;
use crate::base::{ConnectionId, Millis};
use crate::config::Settings;
use crate::gateway::Environment;
use crate::management::http::json::overview::Listener;
use crate::node::Node;
use crate::node::alarm::{Board, Limits, Watch};
use crate::node::checkpoint::Checkpointer;
use crate::store::{StoreState, StoreStats};

/// How long the work of a vhost waits each time for the journal to catch up.
const JOURNAL_MOMENT: Duration = Duration::from_millis(1);

/// What all tasks of a broker share.
pub(super) struct Shared {
    /// The broker itself.
    pub(super) node: Arc<Node<BrokerDisk>>,
    pub(super) clock: SystemClock,
    pub(super) environment: Arc<Environment>,
    /// As the broker began.
    pub(super) settings: Settings,
    /// As they were loaded last: for the settings that hold from then on, [`KEYS`](super::live::KEYS).
    pub(super) live: RwLock<Settings>,
    pub(super) vhosts: Arc<Vhosts>,
    /// Held while definitions are imported: one after the other.
    pub(super) imports: tokio::sync::Mutex<()>,
    /// What stops publishers.
    pub(super) alarms: Arc<Board>,
    /// The journal; none: messages live in memory only.
    pub(super) store: Option<Arc<Store>>,
    /// The one door for passwords.
    pub(super) logins: Logins,
    /// Certificates of the listeners that have some.
    pub(super) tls: Option<Arc<Tls>>,
    threads: Mutex<Threads>,
    /// When the broker started.
    started: Millis,
    desks: Mutex<BTreeMap<ConnectionId, Arc<Desk>>>,
    tasks: Mutex<JoinSet<()>>,
    stopping: AtomicBool,
    /// Where it can be reached.
    pub(super) addresses: Addresses,
    connections: AtomicU32,
    connections_total: AtomicU64,
    connections_refused: AtomicU64,
    /// How fast the octets of connections and their number rise.
    pub(super) rates: rates::ConnectionRates,
}

impl Shared {
    /// Binds the listeners, takes up what the journal holds, and starts the core of each vhost and
    /// what watches over them. Nothing is accepted yet.
    pub(super) async fn start(settings: Settings) -> Result<(Arc<Self>, Listeners), StartError> {
        let seed = setup::seed();
        let clock = SystemClock::start();
        let listeners = Listeners::bind(&settings).await?;
        let Recovered {
            cores,
            registry,
            store,
            committer,
        } = recover::recover(&settings, seed, clock)?;
        let node = Arc::new(setup::node(&settings, registry, store, (seed, clock)));
        let fail = |error: std::io::Error| StartError::Runtime {
            why: error.to_string(),
        };
        let paging = paging::start(&node.pager, &node.clock).map_err(fail)?;
        let journal = committer.map(journal::start).transpose().map_err(fail)?;
        let shared = Arc::new(Self {
            clock,
            logins: Logins::new(Arc::clone(&node.environment), clock),
            environment: Arc::clone(&node.environment),
            tls: listeners.tls(),
            live: RwLock::new(settings.clone()),
            settings,
            vhosts: Arc::clone(&node.vhosts),
            imports: tokio::sync::Mutex::default(),
            store: node.store.clone(),
            alarms: Arc::clone(&node.alarms),
            node,
            threads: Mutex::new(Threads { paging, journal }),
            addresses: listeners.addresses(),
            desks: Mutex::default(),
            started: clock.now().mono,
            tasks: Mutex::default(),
            stopping: AtomicBool::new(false),
            connections: AtomicU32::new(0),
            connections_total: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            rates: rates::ConnectionRates::default(),
        });
        for core in cores {
            shared.run_vhost(shared.node.start_vhost(core));
        }
        shared.watch();
        Ok((shared, listeners))
    }

    /// Fires what is due in a vhost from now on.
    pub(super) fn run_vhost(&self, vhost: Arc<Vhost>) {
        self.spawn(run_timer(vhost, self.clock));
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Starts a task that ends with the broker.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        // Those that are done need not be kept.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Serves one peer in a task of its own, once `opening` has made its stream; drops it when there
    /// are too many. `local` is where it came in.
    pub(super) fn serve<R, W>(
        self: &Arc<Self>,
        local: Option<SocketAddr>,
        opening: impl Future<Output = Option<(Peer, (R, W))>> + Send + 'static,
    ) where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let open = self.connections.fetch_add(1, Ordering::AcqRel);
        if open >= self.live.read().connections_max || self.is_stopping() {
            self.connections.fetch_sub(1, Ordering::AcqRel);
            self.connections_refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(open, "connection dropped: there are too many");
            return;
        }
        self.connections_total.fetch_add(1, Ordering::Relaxed);
        let id = ConnectionId(self.environment.next_id());
        let shared = Arc::clone(self);
        let serving = async move {
            let open = Open {
                shared: Arc::clone(&shared),
                id,
            };
            if let Some((peer, stream)) = opening.await {
                let connected_at = shared.clock.now().wall;
                let desk = Arc::new(Desk::new(id, (peer, local), connected_at));
                shared.desks.lock().insert(id, Arc::clone(&desk));
                Driver::new(shared, desk, stream).run().await;
            }
            drop(open);
        };
        self.spawn(serving.instrument(tracing::info_span!("connection", id = id.0)));
    }

    /// Starts what looks after memory and disk, and at what is counted.
    fn watch(self: &Arc<Self>) {
        let vhosts = Arc::clone(&self.vhosts);
        let shared = Arc::clone(self);
        let limits = move || {
            let settings = shared.live.read();
            Limits {
                memory_bytes: settings.memory_limit.0,
                disk_free_bytes: settings.disk_free_limit.0,
            }
        };
        let node = &self.node;
        let (board, partials) = (Arc::clone(&node.alarms), Arc::clone(&node.partials));
        let store = self.store.clone();
        let watch = Watch {
            board,
            vhosts,
            partials,
            store,
        };
        self.spawn(alarm::watch(watch, Arc::clone(&node.pager), limits));
        self.spawn(rates::sample(Arc::clone(self)));
        if let Some(store) = &self.store {
            let after_bytes = self.settings.checkpoint_after.0;
            let checkpointer = Checkpointer::new(Arc::clone(store), after_bytes);
            self.spawn(checkpoint::write(Arc::clone(self), checkpointer));
        }
    }

    /// Makes every connection look again.
    pub(super) fn call_all(&self) {
        for desk in self.desks() {
            desk.outbox.call();
        }
    }

    /// The desks of all connections.
    pub(super) fn desks(&self) -> Vec<Arc<Desk>> {
        self.desks.lock().values().map(Arc::clone).collect()
    }

    /// The desk of a connection.
    pub(super) fn desk(&self, id: ConnectionId) -> Option<Arc<Desk>> {
        self.desks.lock().get(&id).map(Arc::clone)
    }

    /// Time since the start, in milliseconds.
    pub(super) fn uptime_ms(&self) -> u64 {
        self.clock.now().mono.since(self.started)
    }

    /// Where one can connect.
    pub(super) fn listeners(&self) -> Vec<Listener> {
        let of = |protocol, addresses: &[SocketAddr]| -> Vec<_> {
            addresses
                .iter()
                .map(|address| (protocol, *address))
                .collect()
        };
        let all = [
            of("amqp", &self.addresses.amqp),
            of("amqp/ssl", &self.addresses.amqps),
            of("http", self.addresses.http.as_slice()),
            of("https", &self.addresses.https),
        ];
        let all = all.into_iter().flatten();
        let listeners = all.map(|(protocol, address)| Listener {
            protocol,
            address: address.ip(),
            port: address.port(),
        });
        listeners.collect()
    }

    pub(super) fn connection_counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.connections.load(Ordering::Relaxed).into(),
            taken: self.connections_total.load(Ordering::Relaxed),
            refused: self.connections_refused.load(Ordering::Relaxed),
        }
    }

    /// Connections and queues that came and went, in the order in which the HTTP API names them.
    pub(super) fn churn(&self) -> [u64; 5] {
        let connections = self.connection_counts();
        let queues = self.vhosts.queue_churn();
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
        self.vhosts.all()
    }

    /// How the journal is and what it did; none: messages live in memory only.
    pub(super) fn journal(&self) -> Option<(StoreState, StoreStats)> {
        let store = self.store.as_ref()?;
        Some((store.state(), store.stats()))
    }

    fn memory(&self) -> MemoryStats {
        let mut stats = MemoryStats {
            budget_bytes: self.live.read().memory_budget.0,
            spilled_bytes: self.node.pager.spilled_bytes(),
            ..MemoryStats::default()
        };
        for vhost in self.vhosts.all() {
            let memory = vhost.memory();
            stats.used_bytes += memory.bytes();
            stats.messages += memory.here.messages;
            stats.paged_out_messages += memory.out.messages;
            stats.paged_out_bytes += memory.out.bytes;
            stats.loads += memory.loads;
        }
        stats
    }

    /// Ready when the core of a vhost failed.
    pub(super) async fn failed(&self) {
        self.node.failure.called().await;
    }

    /// Closes all connections, waits for their peers as long as the settings allow, then ends what
    /// runs beside them.
    pub(super) async fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.call_all();
        let timeout = self.live.read().shutdown_timeout.duration();
        let closed = async {
            while self.connections.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(timeout, closed).await.is_err() {
            tracing::warn!("some peers did not answer the close in time");
        }
        let Threads { paging, journal } = std::mem::take(&mut *self.threads.lock());
        self.node.pager.let_go();
        drop(tokio::task::spawn_blocking(move || join(paging)).await);
        // Not before: what leaves memory may still be written.
        if let Some(store) = &self.store {
            store.bell().stop();
        }
        drop(tokio::task::spawn_blocking(move || join(journal)).await);
        // What the tasks hold goes with them: the data directory is free when this returns.
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }

    /// Ends everything at once.
    pub(super) fn let_go(&self) {
        self.stopping.store(true, Ordering::Release);
        self.tasks.lock().abort_all();
        self.node.pager.let_go();
        if let Some(store) = &self.store {
            store.bell().stop();
        }
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            connections: self.connections.load(Ordering::Relaxed),
            connections_total: self.connections_total.load(Ordering::Relaxed),
            connections_refused: self.connections_refused.load(Ordering::Relaxed),
            vhosts: self
                .vhosts
                .all()
                .iter()
                .map(|vhost| vhost.stats())
                .collect(),
            alarms: self.alarms.alarms(),
            memory: self.memory(),
            store: self.store.as_ref().map(|store| JournalStats {
                state: store.state(),
                figures: store.stats(),
            }),
        }
    }
}

/// The threads that may block on the disk.
#[derive(Default)]
struct Threads {
    paging: Vec<JoinHandle<()>>,
    journal: Option<JoinHandle<()>>,
}

/// Waits until threads have ended. Blocks.
fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        let name = thread.thread().name().unwrap_or_default().to_owned();
        if thread.join().is_err() {
            tracing::error!(name, "a thread failed");
        }
    }
}

/// How many connections there were and are.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionCounts {
    pub(super) open: u64,
    /// Since the start.
    pub(super) taken: u64,
    /// Dropped because there were too many.
    pub(super) refused: u64,
}

impl ConnectionCounts {
    /// Connections that were taken and have ended.
    pub(super) const fn ended(&self) -> u64 {
        self.taken.saturating_sub(self.open)
    }
}

/// Counts an open connection; on drop, also when its task panics, no longer.
struct Open {
    shared: Arc<Shared>,
    id: ConnectionId,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::AcqRel);
        self.shared.desks.lock().remove(&self.id);
        self.shared.node.partials.forget(self.id);
    }
}

/// Fires what is due in a vhost, and does its long work in slices.
async fn run_timer(vhost: Arc<Vhost>, clock: SystemClock) {
    let mut turns = Turns::default();
    while let Ok(due) = vhost.tick() {
        if due <= clock.now().mono {
            turns.pass();
            tokio::task::yield_now().await;
            while vhost.pager().is_journal_behind(|| true) && !vhost.is_deleted() {
                tokio::time::sleep(JOURNAL_MOMENT).await;
            }
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep_until(clock.instant(due)) => {}
            () = vhost.earlier() => {}
        }
    }
}
