//! The process around a broker: logs, signals, exit codes.

use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::broker::Broker;
use super::errors::{Cause, StartError};
use super::log::LogControl;
use super::shared::Shared;
use super::{descriptors, service};
use crate::access::{Tag, User};
use crate::config::{ConfigError, GUEST, Settings};
use crate::store::StoreState;

/// Exit code for an invalid setting (`EX_USAGE` of sysexits): a supervisor need not try again.
const EXIT_USAGE: u8 = 64;
/// Exit code for a failed start.
const EXIT_FAILURE: u8 = 1;
/// Exit code when the broker itself failed (`EX_SOFTWARE` of sysexits).
const EXIT_SOFTWARE: u8 = 70;
/// Time after which a changed `stats-interval` is noticed.
const STATS_LOOK: Duration = Duration::from_secs(5);

/// Runs a broker until SIGTERM, SIGINT or its own failure. Prints the addresses that it listens on,
/// one line `listening amqp ADDR:PORT` or `listening http ADDR:PORT` each, on standard output.
///
/// `warnings` about the settings are logged first. A SIGHUP reloads the settings; systemd is
/// notified of the state.
///
/// # Errors
/// When it cannot start.
pub fn run(
    settings: Settings,
    warnings: &[String],
    load: impl Fn() -> Result<Settings, ConfigError>,
) -> Result<ExitCode, StartError> {
    let log = LogControl::start(&settings)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    descriptors::raise_limit();
    let runtime = runtime(settings.workers).map_err(|error| StartError::Runtime {
        why: Cause::new(error),
    })?;
    let code = runtime.block_on(serve(settings, log, load))?;
    runtime.shutdown_background();
    Ok(code)
}

/// The runtime of the tasks, with this many threads, or for 0 one less than there are processors,
/// which leaves one to the journal, to the system's network and to clients on the same machine. A
/// single one is the main thread itself: it passes nothing to others, and wakes no thread for a
/// connection whose bytes have arrived.
fn runtime(workers: u16) -> std::io::Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = match workers {
        0 => processors.saturating_sub(1).max(1),
        workers => workers.into(),
    };
    let mut builder = if workers == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    builder.worker_threads(workers).enable_all().build()
}

async fn serve(
    settings: Settings,
    log: LogControl,
    load: impl Fn() -> Result<Settings, ConfigError>,
) -> Result<ExitCode, StartError> {
    let signals = Signals::listen().map_err(|error| StartError::Runtime {
        why: Cause::new(error),
    })?;
    let Signals {
        mut terminate,
        mut interrupt,
        hangup,
    } = signals;
    let given = settings.clone();
    let kept = where_messages_live(&settings);
    let broker = Broker::start(settings).await?;
    say(&kept);
    for address in broker.addresses() {
        say(&format!("listening amqp {address}"));
    }
    for address in broker.amqps_addresses() {
        say(&format!("listening amqps {address}"));
    }
    for address in broker.websocket_addresses() {
        say(&format!("listening websocket {address}"));
    }
    if let Some(address) = broker.http_address() {
        say(&format!("listening http {address}"));
    }
    for address in broker.https_addresses() {
        say(&format!("listening https {address}"));
    }
    say(&welcome(&broker));
    let shared = broker.shared();
    let _ = shared.log.set(log.clone());
    shared.spawn(report(Arc::clone(shared)));
    shared.spawn(service::feed_watchdog(Arc::clone(shared)));
    let following = service::follow_settings(hangup, Arc::clone(shared), log, given, load);
    service::tell(&[NotifyState::Ready]);
    let code = tokio::select! {
        _ = terminate.recv() => {
            tracing::info!(signal = "SIGTERM", "stopping");
            ExitCode::SUCCESS
        }
        _ = interrupt.recv() => {
            tracing::info!(signal = "SIGINT", "stopping");
            ExitCode::SUCCESS
        }
        () = broker.failed() => ExitCode::from(EXIT_SOFTWARE),
        () = following => ExitCode::from(EXIT_SOFTWARE), // signals come no more
    };
    service::tell(&[NotifyState::Stopping]);
    let shared = Arc::clone(shared);
    broker.stop().await;
    match shared.journal().map(|(state, _)| state) {
        Some(StoreState::Poisoned) => {
            tracing::error!("stopped; the journal failed: what was not confirmed may be lost");
        }
        Some(StoreState::Open | StoreState::Full) => tracing::info!("stopped, all synced"),
        None => tracing::info!("stopped, nothing is kept"),
    }
    Ok(code)
}

/// Hints for somebody who sees a broker start for the first time.
fn welcome(broker: &Broker) -> String {
    let settings = &broker.shared().settings;
    let registry = broker.shared().node.environment.registry();
    let administrator = |user: &&User| user.tags.contains(&Tag::Administrator);
    let user = registry.users().find(administrator);
    let amqp = broker.addresses().first();
    let mut text = format!("Coroner {} is ready.", env!("CARGO_PKG_VERSION"));
    if let Some(address) = amqp.or_else(|| broker.amqps_addresses().first()) {
        text = format!("{text} AMQP 1.0 clients connect to {address}");
        if let Some(user) = user {
            text = format!("{text} as user {}", user.name);
            if *user.name == *GUEST {
                text.push_str(", password guest unless it was changed");
            }
            if settings
                .loopback_user
                .iter()
                .any(|name| **name == *user.name)
            {
                text.push_str(", from this machine only");
            }
        }
        text.push('.');
    }
    if let Some(address) = broker.http_address() {
        text = format!("{text} A browser looks at http://{address}/.");
    }
    text + " Commands: coroner --help"
}

/// The signals that a process is sent. Listened for from the start: a signal without a listener
/// ends the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// Logs the broker's counters every `stats-interval`, which may change meanwhile; 0: not at all.
async fn report(shared: Arc<Shared>) {
    let (mut last, mut waited) = (None, Duration::ZERO);
    loop {
        let interval = shared.live.read().stats_interval.duration();
        if interval.is_zero() || waited < interval {
            let left = interval.saturating_sub(waited);
            let pause = if left.is_zero() {
                STATS_LOOK
            } else {
                left.min(STATS_LOOK)
            };
            tokio::time::sleep(pause).await;
            waited += pause;
            continue;
        }
        waited = Duration::ZERO;
        let mut stats = shared.stats();
        // Changes of the disk by other programs do not count as news.
        stats.alarms.disk_free_bytes = None;
        if last.as_ref() != Some(&stats) {
            tracing::debug!(target: "coroner::stats", "{}", shared.stats());
            last = Some(stats);
        }
    }
}

fn where_messages_live(settings: &Settings) -> String {
    match settings.data_directory() {
        Some(directory) => format!("durable data in {}", directory.display()),
        None => "in memory only: everything is gone when this process ends".to_owned(),
    }
}

/// Prints what listens where, for people and scripts. A broker whose output nobody reads any more
/// serves all the same.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

impl StartError {
    /// The exit code of a process that could not start: 64 if it cannot until a setting, or a file
    /// that one names, is changed; 1 if trying again may help.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Setting { .. }
            | Self::Registry(_)
            | Self::Pattern(_)
            | Self::Tls(_)
            | Self::Jwks { .. }
            | Self::Definitions { .. }
            | Self::LogFilter { .. } => EXIT_USAGE,
            Self::Listen { .. } | Self::Data { .. } | Self::Runtime { .. } => EXIT_FAILURE,
        })
    }
}
