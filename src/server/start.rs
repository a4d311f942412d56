//! Start and stop of a broker: journal, vhosts, threads, and tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::clock::SystemClock;
use super::errors::{Cause, StartError};
use super::login::Logins;
#[cfg(feature = "http")]
use super::rates;
use super::recover::{self, Recovered};
use super::shared::{ConnectionRates, Shared, Threads};
use super::sockets::Listeners;
use super::tokens::Tokens;
use super::{alarm, checkpoint, journal, notes, paging, setup, told};
use crate::base::Gauge;
use crate::base::locks::{RankedMutex, RankedRwLock};
use crate::config::Settings;
use crate::node::alarm::Limits;
use crate::node::checkpoint::Checkpointer;

/// Binds the listeners, recovers the journal, and starts the core of each vhost and the tasks that
/// watch over them. Nothing is accepted yet.
pub(super) async fn start(
    settings: Settings,
    brings_users: bool,
) -> Result<(Arc<Shared>, Listeners), StartError> {
    let seed = setup::seed();
    let (clock, kept) = (SystemClock::start(), Gauge::default());
    let tokens = Tokens::new(&settings)?;
    let listeners = Listeners::bind(&settings).await?;
    let Recovered {
        cores,
        registry,
        store,
        committer,
    } = recover::recover(&settings, brings_users, seed, (clock, &kept))?;
    let node = Arc::new(setup::node(&settings, registry, store, (seed, clock, kept)));
    let fail = |error: std::io::Error| StartError::Runtime {
        why: Cause::new(error),
    };
    let paging = paging::start(&node).map_err(fail)?;
    let journal = committer.map(journal::start).transpose().map_err(fail)?;
    let shared = Arc::new(Shared {
        clock,
        logins: Logins::new(Arc::clone(&node.environment), tokens, clock),
        tls: listeners.tls(),
        live: RankedRwLock::new(settings.clone()),
        settings,
        imports: tokio::sync::Mutex::default(),
        node,
        threads: RankedMutex::new(Threads { paging, journal }),
        addresses: listeners.addresses(),
        handles: RankedMutex::default(),
        started: clock.now().mono,
        tasks: RankedMutex::default(),
        stopping: AtomicBool::new(false),
        connections: AtomicU32::new(0),
        connections_total: AtomicU64::new(0),
        connections_refused: AtomicU64::new(0),
        rates: ConnectionRates::default(),
        #[cfg(feature = "http")]
        gets: super::gets::Gets::default(),
        #[cfg(feature = "http")]
        event_streams: super::streams::UserStreams::of_events(),
        #[cfg(feature = "http")]
        message_streams: super::streams::UserStreams::of_messages(),
        #[cfg(feature = "http")]
        groups: super::kept_groups::KeptGroups::default(),
        #[cfg(feature = "http")]
        lint_counts: super::lint_counts::LintCounts::default(),
        #[cfg(feature = "http")]
        page_sessions: super::page_sessions::PageSessions::default(),
        #[cfg(feature = "cli")]
        log: std::sync::OnceLock::new(),
    });
    for core in cores {
        shared.run_vhost(shared.node.start_vhost(core));
    }
    watch(&shared);
    Ok((shared, listeners))
}

/// Starts the tasks that check memory and disk, and that sample counters.
fn watch(shared: &Arc<Shared>) {
    let live = Arc::clone(shared);
    let limits = move || {
        let settings = live.live.read();
        Limits {
            memory_bytes: settings.memory_limit.0,
            disk_free_bytes: settings.disk_free_limit.0,
        }
    };
    let pager = Arc::clone(&shared.node.pager);
    let node = Arc::clone(&shared.node);
    let look = move || node.expire_links();
    shared.spawn(alarm::watch(shared.node.watch(), pager, limits, look));
    let logins = shared.logins.clone();
    if logins.has_tokens_to_fetch() {
        shared.spawn(async move { logins.reload_keys().await });
    }
    shared.spawn(told::tell_rest(Arc::clone(shared)));
    shared.spawn(notes::look(Arc::clone(shared)));
    #[cfg(feature = "http")]
    shared.spawn(rates::sample(Arc::clone(shared)));
    if let Some(store) = &shared.node.store {
        let after_bytes = shared.settings.checkpoint_after.0;
        let checkpointer = Checkpointer::new(Arc::clone(store), after_bytes);
        shared.spawn(checkpoint::write(Arc::clone(shared), checkpointer));
    }
}

/// Closes all connections, waits for their peers as long as the settings allow, then ends tasks and
/// threads.
pub(super) async fn stop(shared: &Shared) {
    shared.stopping.store(true, Ordering::Release);
    shared.wake_all();
    let timeout = shared.live.read().shutdown_timeout.duration();
    let closed = async {
        while shared.connections.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(timeout, closed).await.is_err() {
        tracing::warn!("some peers did not answer the close in time");
    }
    let Threads { paging, journal } = std::mem::take(&mut *shared.threads.lock());
    shared.node.pager.let_go();
    drop(tokio::task::spawn_blocking(move || join(paging)).await);
    for vhost in shared.all_vhosts() {
        let _ = vhost.write_deaths(); // a vhost that failed writes nothing
    }
    // Not before: what is evicted may still be written.
    if let Some(store) = &shared.node.store {
        store.journal_waker().stop();
    }
    drop(tokio::task::spawn_blocking(move || join(journal)).await);
    // Tasks are dropped with what they hold: the data directory is free when this returns.
    let mut tasks = std::mem::take(&mut *shared.tasks.lock());
    tasks.shutdown().await;
}

/// Ends everything at once, without waiting for peers.
pub(super) fn let_go(shared: &Shared) {
    shared.stopping.store(true, Ordering::Release);
    shared.tasks.lock().abort_all();
    shared.node.pager.let_go();
    if let Some(store) = &shared.node.store {
        store.journal_waker().stop();
    }
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
