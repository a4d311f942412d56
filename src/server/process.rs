//! The process around a broker: logs, signals, exit codes.

use std::process::ExitCode;
use std::sync::Arc;

use tracing_subscriber::EnvFilter;

use super::broker::{Broker, Shared};
use super::errors::StartError;
use crate::config::{LogFormat, Settings};

/// Exit code for what failed while starting.
const EXIT_FAILURE: u8 = 1;
/// Exit code when the broker failed itself (`EX_SOFTWARE` of sysexits).
const EXIT_SOFTWARE: u8 = 70;

/// Runs a broker until SIGTERM, SIGINT or its own failure. Prints what it listens on, one line
/// `listening amqp ADDR:PORT` or `listening http ADDR:PORT` each, on standard output.
///
/// # Errors
/// When it cannot start.
pub fn run(settings: Settings) -> Result<ExitCode, StartError> {
    start_log(&settings)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if settings.workers > 0 {
        runtime.worker_threads(settings.workers.into());
    }
    let runtime = runtime.enable_all().build();
    let runtime = runtime.map_err(|error| StartError::Runtime {
        why: error.to_string(),
    })?;
    let code = runtime.block_on(serve(settings))?;
    runtime.shutdown_background();
    Ok(code)
}

async fn serve(settings: Settings) -> Result<ExitCode, StartError> {
    let stats_interval = settings.stats_interval;
    let kept = where_messages_live(&settings);
    let broker = Broker::start(settings).await?;
    say(&kept);
    for address in broker.addresses() {
        say(&format!("listening amqp {address}"));
    }
    if let Some(address) = broker.http_address() {
        say(&format!("listening http {address}"));
    }
    let shared = broker.shared();
    if stats_interval.ms > 0 {
        let reporter = report(Arc::clone(shared), stats_interval.duration());
        shared.spawn(reporter);
    }
    let code = tokio::select! {
        signal = stop_signal() => {
            tracing::info!(signal, "stopping");
            ExitCode::SUCCESS
        }
        () = broker.failed() => ExitCode::from(EXIT_SOFTWARE),
    };
    broker.stop().await;
    Ok(code)
}

/// The name of the signal that asks us to stop.
async fn stop_signal() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let terminate = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(error) => {
                tracing::error!(%error, "cannot listen for SIGTERM");
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = terminate => "SIGTERM",
        _ = tokio::signal::ctrl_c() => "SIGINT",
    }
}

async fn report(shared: Arc<Shared>, interval: std::time::Duration) {
    let mut last = None;
    loop {
        tokio::time::sleep(interval).await;
        let mut stats = shared.stats();
        // What others do on the disk is no news of ours.
        stats.alarms.disk_free_bytes = None;
        if last.as_ref() != Some(&stats) {
            tracing::info!(target: "coroner::stats", "{}", shared.stats());
            last = Some(stats);
        }
    }
}

fn where_messages_live(settings: &Settings) -> String {
    match settings.data_directory() {
        Some(directory) => format!("durable data in {}", directory.display()),
        None => {
            "messages live in memory only, without --data DIR: they are gone when this process \
                 ends"
                .to_owned()
        }
    }
}

fn start_log(settings: &Settings) -> Result<(), StartError> {
    let filter = if settings.frame_trace {
        format!("{},coroner::frames=trace", settings.log)
    } else {
        settings.log.clone()
    };
    let parsed = EnvFilter::try_new(&filter).map_err(|error| StartError::LogFilter {
        filter,
        why: error.to_string(),
    })?;
    match settings.log_format {
        LogFormat::Text => {
            let log = tracing_subscriber::fmt().with_env_filter(parsed);
            // A second broker in one process keeps the first one's log.
            let _ = log.with_writer(std::io::stderr).with_ansi(false).try_init();
        }
    }
    Ok(())
}

#[allow(
    clippy::print_stdout,
    reason = "what listens where is printed for people and scripts"
)]
fn say(line: &str) {
    println!("{line}");
}

impl StartError {
    /// The exit code of a process that could not start.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(EXIT_FAILURE)
    }
}
