//! Looks at messages.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

#[test]
fn a_look_at_messages_changes_nothing_and_a_dead_letter_tells_its_story() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let target = json!({"arguments": {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
    }});
    api.put("/api/queues/%2F/dead", &json!({}));
    api.put("/api/queues/%2F/work", &target);
    api.publish("work", "cannot be read");
    let get = |queue: &str, ackmode: &str| {
        let body = json!({"count": 1, "ackmode": ackmode, "encoding": "auto"});
        api.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &body)
    };
    let (status, taken) = get("work", "reject_requeue_false");
    assert_eq!(
        (status, &taken[0]["payload"]),
        (200, &json!("cannot be read"))
    );

    let before = api.get("/api/queues/%2F/dead");
    let look = api.get("/api/queues/%2F/dead/messages");
    assert_eq!(look, api.get("/api/queues/%2F/dead/messages"));
    assert_eq!(
        before["messages"],
        api.get("/api/queues/%2F/dead")["messages"]
    );
    let death = &look["messages"][0]["amqp"]["deaths"][0];
    assert_eq!(death["queue"], "work");
    assert_eq!(death["reason"], "rejected");
    assert_eq!(death["count"], 1);
    assert_eq!(death["rule"], "argument");
    // It was taken over HTTP: there is no consumer to name, and it said nothing.
    assert_eq!(
        (&death["by"], &death["error"]),
        (&json!(null), &json!(null))
    );
    let x_death = &look["messages"][0]["properties"]["headers"]["x-death"][0];
    assert_eq!(x_death["routing-keys"], json!(["work"]));
    assert_eq!(look["messages"][0]["redelivered"], false);

    let work = api.get("/api/queues/%2F/work");
    assert_eq!(work["dead_letters"]["deaths"]["rejected"], 1);
    assert_eq!(work["dead_letters"]["dead_lettered"]["rejected"], 1);
    let (_, back) = get("dead", "ack_requeue_true");
    assert_eq!(back[0]["message_count"], 0);
    let (_, again) = get("dead", "ack_requeue_false");
    assert_eq!(again[0]["redelivered"], true);
    assert_eq!(get("dead", "ack_requeue_false").1, json!([]));
}

#[test]
fn a_look_at_messages_reads_those_on_disk() {
    let broker = RunningBroker::start(&["--memory-budget", "1"]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/long", &json!({}));
    let last = 1_600;
    for number in 0..=last {
        api.publish("long", &number.to_string());
    }
    let deadline = Instant::now() + Duration::from_mins(1);
    while api.get("/api/queues/%2F/long")["messages_paged_out"] == 0 {
        assert!(Instant::now() < deadline, "nothing leaves memory");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut next, mut seen) = (json!(0), 0);
    while next != Value::Null {
        // A text, since positions may be beyond the integers of JSON.
        let from = next.as_str().unwrap_or("0");
        let look = api.get(&format!(
            "/api/queues/%2F/long/messages?from={from}&count=700"
        ));
        for message in look["messages"].as_array().expect("messages") {
            assert_eq!(message["payload"], seen.to_string());
            assert_eq!(message["routing_key"], "long");
            seen += 1;
        }
        next = look["next"].clone();
    }
    assert_eq!(seen, last + 1);
}

/// A history of more than 64 entries tells what became of the oldest.
#[test]
fn a_history_that_was_too_long_tells_what_was_folded() {
    const QUEUES: usize = 66;
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for number in 0..QUEUES {
        let arguments = json!({"arguments": {
            "x-message-ttl": 0, "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": format!("q{}", number + 1),
        }});
        api.put(&format!("/api/queues/%2F/q{number}"), &arguments);
    }
    api.put(&format!("/api/queues/%2F/q{QUEUES}"), &json!({}));
    api.publish("q0", "long way");
    let deadline = Instant::now() + Duration::from_mins(1);
    let message = loop {
        let look = api.get(&format!("/api/queues/%2F/q{QUEUES}/messages"));
        if look["messages"][0].is_object() {
            break look["messages"][0].clone();
        }
        assert!(Instant::now() < deadline, "it does not arrive");
        std::thread::sleep(Duration::from_millis(20));
    };
    let amqp = &message["amqp"];
    assert_eq!(amqp["deaths"].as_array().expect("deaths").len(), 64);
    // The first death stays, the two behind it are folded.
    assert_eq!(amqp["deaths"][63]["queue"], "q0");
    let folded = &amqp["deaths_folded"];
    assert_eq!(
        (&folded["entries"], &folded["deaths"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(folded["queues"], json!(["q1", "q2"]));
    assert_eq!(folded["by_reason"]["expired"], 2);
    assert_eq!(amqp["message_annotations"]["x-first-death-queue"], "q0");
}
