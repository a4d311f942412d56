//! Consumers that hold deliveries for too long, as operators see and set it. [evidence part 5]

use std::time::Instant;

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;
use crate::support::raw::{
    self, ANSWER_MAX, ATTACH, DISPOSITION, FLOW, Raw, TRANSFER, map, null, symbol, truth, uint,
};

fn queue(api: &Api<'_>, name: &str) -> Value {
    api.get(&format!("/api/queues/%2F/{name}"))
}

#[test]
fn the_timeout_of_a_queue_is_shown_with_what_sets_it() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let quorum = json!({"x-queue-type": "quorum"});
    let own = json!({"x-consumer-timeout": 5_000});
    for (name, arguments) in [("quorum", quorum), ("classic", json!({})), ("own", own)] {
        let body = json!({"durable": true, "arguments": arguments});
        api.put(&format!("/api/queues/%2F/{name}"), &body);
    }
    assert_eq!(queue(&api, "quorum")["consumer_timeout"], 1_800_000);
    assert_eq!(queue(&api, "classic")["consumer_timeout"], Value::Null);
    assert_eq!(queue(&api, "own")["consumer_timeout"], 5_000);
    let imported = json!({
        "queues": [{
            "name": "imported", "vhost": "/", "durable": true, "auto_delete": false,
            "arguments": {"x-consumer-timeout": 7_000},
        }],
        "policies": [{
            "name": "stuck", "vhost": "/", "pattern": ".*", "apply-to": "queues", "priority": 0,
            "definition": {"consumer-timeout": 6_000},
        }],
    });
    let (status, answer) = api.send("POST", "/api/definitions", &imported.to_string());
    assert!((200..300).contains(&status), "{status} {answer}");
    let timeout = |name: &str| queue(&api, name)["consumer_timeout"].as_u64();
    let names = ["quorum", "classic", "own", "imported"];
    let all = names.map(timeout);
    assert_eq!(all, [6_000, 6_000, 5_000, 6_000].map(Some));
}

/// A consumer over bare frames: what it is told, and what operators see of it meanwhile.
#[test]
fn a_consumer_that_timed_out_is_shown_so_and_the_message_says_who_held_it() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    Raw::declare(broker.port, "slow");
    let mut raw = Raw::begun(broker.port);
    raw.attach_sender(0, "slow");
    raw.wait_for(FLOW);
    raw.publish(0, 0, false, b"one");
    raw.wait_for(DISPOSITION);
    let timeout = map(&[symbol("rabbitmq:consumer-timeout"), uint(300)]);
    let mut attach = raw::attach(1, true, "/queues/slow");
    attach.extend([null(), null(), null(), timeout]);
    raw.perform(ATTACH, &attach);
    raw.wait_for(ATTACH);
    raw.credit(1, 0, 5);
    raw.wait_for(TRANSFER);
    // [AMQP 2.7.6] role sender, not settled, state released
    let told = raw.wait_for(DISPOSITION);
    let released = [0x40, 0x42, 0x00, 0x53, 0x26];
    let says = |body: &[u8]| body.windows(released.len()).any(|part| part == released);
    assert!(says(&told.body), "{told:x?}");
    let start = Instant::now();
    let consumer = loop {
        let consumers = api.get("/api/consumers/%2F");
        if consumers[0]["activity_status"] == "timeout" || start.elapsed() > ANSWER_MAX {
            break consumers[0].clone();
        }
    };
    assert_eq!(consumer["activity_status"], "timeout");
    assert_eq!(consumer["messages_timed_out"], 1);
    assert_eq!(consumer["consumer_timeout"], 300);
    assert_eq!(consumer["messages_unacknowledged"], 0);
    let messages = api.get("/api/queues/%2F/slow/messages");
    let failure = &messages["messages"][0]["last_failure"];
    assert_eq!(failure["how"], "consumer-timeout", "{messages}");
    assert_eq!(failure["by"]["link"], "link-1");
    let accepted = raw::performative(0x24, &[]);
    let settle = [truth(true), uint(0), uint(0), truth(true), accepted];
    raw.perform(DISPOSITION, &settle);
    raw.wait_for(TRANSFER);
}
