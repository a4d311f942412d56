//! The examples do what they say, against the real binary.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test starts processes and fails by panicking"
)]

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use support::{RunningBroker, run_to_end};

const EXAMPLE_MAX: Duration = Duration::from_mins(2);

#[test]
fn hello_publishes_and_receives() {
    assert_eq!(
        example("hello"),
        ["published and accepted", "received: hello, world"]
    );
}

#[test]
fn poison_message_finds_out_why() {
    let lines = example("poison_message");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "dead letter: { this is no order");
    for field in [
        "count: 1",
        "queue: \"tasks\"",
        "reason: rejected",
        "exchange: \"\"",
    ] {
        assert!(lines[1].contains(field), "{field} in {}", lines[1]);
    }
}

#[test]
fn delayed_messages_arrive_in_the_order_of_their_delays() {
    let lines = example("delayed_messages");
    let delays: Vec<&str> = lines
        .iter()
        .map(|line| line.rsplit(' ').nth(1).expect("a number before `ms`"))
        .collect();
    assert_eq!(delays, ["500", "1500", "4000"], "{lines:?}");
}

#[test]
fn embed_serves_its_own_program() {
    let lines = example("embed");
    assert!(lines.contains(&"received: dig".to_owned()), "{lines:?}");
}

#[test]
fn interop_goes_through_its_scenarios() {
    let broker = RunningBroker::start(&[]);
    let setting = std::env::temp_dir().join(format!("interop-{}.json", std::process::id()));
    let text = format!(
        r#"{{"host": "127.0.0.1", "amqp": {0}, "amqps": 0, "bare": {0}, "user": "guest",
        "password": "guest", "vhost": "/", "ca": "", "prefix": "interop-test-"}}"#,
        broker.port
    );
    std::fs::write(&setting, text).expect("a setting is written");
    let scenarios = ["plain", "declare", "types", "outcomes", "rejected", "cycle"];
    let mut client = Command::new(program("interop"));
    let output = run_to_end(client.arg(&setting).args(scenarios), EXAMPLE_MAX);
    std::fs::remove_file(&setting).expect("the setting is removed");
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines, scenarios.map(|scenario| format!("ok {scenario}")));
}

/// The lines an example prints when it is run against a fresh broker.
fn example(name: &str) -> Vec<String> {
    let broker = RunningBroker::start(&[]);
    let address = format!("127.0.0.1:{}", broker.port);
    let output = run_to_end(Command::new(program(name)).arg(address), EXAMPLE_MAX);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{name}: {printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed.lines().map(str::to_owned).collect()
}

/// `cargo test` builds the examples beside the binary.
fn program(name: &str) -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_coroner"));
    let program = binary.with_file_name("examples").join(name);
    assert!(
        program.exists(),
        "build the examples first: cargo build --examples"
    );
    program
}
