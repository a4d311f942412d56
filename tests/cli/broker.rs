//! Commands against a broker of our own.

use std::process::Output;

use serde_json::Value;

use crate::support::RunningBroker;
use crate::{coroner, text};

struct Bench {
    broker: RunningBroker,
}

impl Bench {
    fn start() -> Self {
        Self {
            broker: RunningBroker::start(&[]),
        }
    }

    /// Runs a client.
    fn client(&self, arguments: &[&str], input: &str) -> Output {
        let url = format!("amqp://127.0.0.1:{}", self.broker.port);
        coroner(&[arguments, &["--url", &url]].concat(), input)
    }

    /// Runs a client that must succeed; returns what it printed.
    #[track_caller]
    fn talked(&self, arguments: &[&str], input: &str) -> String {
        let output = self.client(arguments, input);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }
}

#[test]
fn ping_opens_and_a_wrong_password_does_not() {
    let bench = Bench::start();
    let printed = bench.talked(&["ping", "--format", "json"], "");
    let json: Value = serde_json::from_str(&printed).expect("JSON");
    assert!(
        json["round_trip_us"].as_u64().is_some_and(|time| time > 0),
        "{json}"
    );
    let output = bench.client(&["ping", "--password", "wrong"], "");
    assert_eq!(output.status.code(), Some(77), "{}", text(&output.stderr));
    let output = bench.client(&["ping", "-p", "nowhere"], "");
    assert_eq!(output.status.code(), Some(66), "{}", text(&output.stderr));
}

#[test]
fn what_cannot_be_published_or_consumed_is_said_with_its_code() {
    let bench = Bench::start();
    let output = bench.client(&["publish", "--queue", "nowhere", "x"], "");
    assert_eq!(output.status.code(), Some(66), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("amqp:not-found"));
    let unroutable = [
        "publish",
        "--exchange",
        "amq.topic",
        "--key",
        "k",
        "x",
        "--format",
        "json",
    ];
    let output = bench.client(&unroutable, "");
    assert_eq!(output.status.code(), Some(65));
    let json: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(
        (&json["accepted"], &json["released"]),
        (&0.into(), &1.into())
    );
    let output = bench.client(&["consume", "nowhere"], "");
    assert_eq!(output.status.code(), Some(66), "{}", text(&output.stderr));
}
