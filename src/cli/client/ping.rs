//! The command `ping`: whether a broker answers, and how fast.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::{ClientConnection, Login};
use crate::cli::api::Settings;
use crate::cli::exit::Failure;
use crate::cli::output::{Output, print_json};

/// Connects, logs in, opens, measures the way there and back, and closes
///
/// Ends with 0 if all of that went well, so that scripts can wait for a broker.
#[derive(Args)]
pub(super) struct Ping {
    /// How often to go there and back
    #[arg(short = 'c', long, default_value_t = 1)]
    count: u32,
    #[command(flatten)]
    login: Login,
}

/// Runs the command `ping`. Beginning and ending a session is the round trip: both are answered.
pub(super) async fn run(task: Ping, settings: Settings, out: Output) -> Result<(), Failure> {
    let begun = now();
    let mut peer = ClientConnection::connect(&settings, task.login).await?;
    let opened = begun.elapsed();
    let mut fastest = Duration::MAX;
    for _ in 0..task.count.max(1) {
        let begun = now();
        peer.there_and_back().await?;
        fastest = fastest.min(begun.elapsed());
    }
    peer.close().await?;
    if out.is_json() {
        return print_json(&json!({
            "url": settings.endpoint.to_string(),
            "open_us": micros(opened),
            "round_trip_us": micros(fastest),
        }));
    }
    let (opened, fastest) = (micros(opened), micros(fastest));
    out.done(format_args!(
        "{} answers: open after {opened} us, there and back in {fastest} us",
        settings.endpoint
    ))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[allow(clippy::disallowed_methods, reason = "the command line measures")]
fn now() -> Instant {
    Instant::now()
}
