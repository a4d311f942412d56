//! The recorded frames of connections, sessions and links, and the recorded management requests,
//! replayed over the wire.

use std::process::Command;
use std::time::Duration;

use crate::support::{RunningBroker, repository, run_to_end};

/// The longest replay waits a few seconds in a few of its cases.
const REPLAY_MAX: Duration = Duration::from_mins(15);

/// The recordings name this virtual host, and raw bytes in them leave room for no longer name.
const WIRE_VHOST: &str = "oracle-wire";
const MANAGEMENT_VHOST: &str = "oracle-mgmt";

/// The replays' own virtual hosts, one (`oracle`) that nobody but guest may enter, and a user who
/// may touch only names that begin with `mine`.
const SETTING: &[&str] = &[
    "--vhost=oracle",
    "--vhost=oracle-wire",
    "--vhost=oracle-mgmt",
    "--user=guest:guest",
    "--user=limited:limited",
    "--permission=limited oracle-wire ^mine ^mine ^mine",
    "--permission=limited oracle-mgmt ^mine ^mine ^mine",
    "--anonymous-user=guest",
];

#[test]
fn recorded_connection_session_and_link_frames_hold() {
    replay("behaviour.py", WIRE_VHOST);
}

#[test]
fn recorded_management_requests_hold() {
    replay("management.py", MANAGEMENT_VHOST);
}

fn replay(program: &str, vhost: &str) {
    let mut broker = RunningBroker::start(SETTING);
    let output = run_to_end(
        Command::new("python3")
            .arg(repository("interop/replay").join(program))
            .args(["--port", &broker.port.to_string(), "--vhost", vhost])
            .args(["--http", &format!("http://127.0.0.1:{}", broker.http_port)]),
        REPLAY_MAX,
    );
    let report = String::from_utf8_lossy(&output.stdout);
    let failures: Vec<&str> = report
        .lines()
        .filter(|line| !line.starts_with("PASS") && !line.starts_with("SKIP"))
        .collect();
    assert!(
        output.status.success(),
        "{program}:\n{}\n{}",
        failures.join("\n"),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(broker.is_alive(), "the broker died during the replay");
}
