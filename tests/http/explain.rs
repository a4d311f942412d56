//! Explanations of messages over HTTP: in every state, for whom, and what is foretold happens.
//! [evidence part 7]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

const PATIENCE: Duration = Duration::from_mins(1);

/// What is foretold for one event.
fn then(explained: &Value, event: &str) -> Value {
    let steps = explained["next"].as_array().expect("steps").iter();
    let mut steps = steps.filter(|step| step["if"] == event);
    let step = steps
        .next()
        .unwrap_or_else(|| panic!("no {event} in {explained}"));
    step["then"].clone()
}

fn names(queues: &Value) -> Vec<&str> {
    let queues = queues.as_array().expect("queues").iter();
    queues
        .map(|queue| queue["queue"].as_str().expect("a name"))
        .collect()
}

/// The explanation of the message at this position of `work`.
fn explain(api: &Api<'_>, position: u64) -> Value {
    api.get(&format!("/api/queues/%2F/work/messages/{position}/explain"))
}

/// Takes one message of `work`, and rejects it.
fn reject(api: &Api<'_>) {
    let body = json!({"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"});
    let (status, taken) = api.ask("POST", "/api/queues/%2F/work/get", &body);
    assert_eq!((status, taken.as_array().map(Vec::len)), (200, Some(1)));
}

fn ready(api: &Api<'_>, queue: &str) -> u64 {
    let browsed = api.get(&format!("/api/queues/%2F/{queue}/messages"));
    browsed["messages"].as_array().expect("messages").len() as u64
}

#[test]
fn what_is_foretold_for_a_rejection_happens_whatever_the_topology() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let arguments = json!({"arguments": {
        "x-dead-letter-exchange": "dlx", "x-dead-letter-strategy": "at-most-once",
    }});
    api.put("/api/queues/%2F/work", &arguments);
    for _ in 0..4 {
        api.publish("work", "an order");
    }

    // The exchange is missing, then nothing is bound, then there is one target, then one that is full.
    let foretold = then(&explain(&api, 0), "rejected");
    assert_eq!(
        (&foretold["verdict"], &foretold["cause"]),
        (&json!("quarantined"), &json!("exchange_missing"))
    );
    assert_eq!(names(&foretold["targets"]), ["amq.quarantine"]);
    reject(&api);
    assert_eq!(ready(&api, "amq.quarantine"), 1);

    api.put("/api/exchanges/%2F/dlx", &json!({"type": "direct"}));
    let foretold = then(&explain(&api, 1), "rejected");
    assert_eq!(foretold["cause"], "unroutable");
    assert_eq!(
        foretold["way"],
        json!({"exchange": "dlx", "keys": ["work"]})
    );
    reject(&api);
    assert_eq!(ready(&api, "amq.quarantine"), 2);

    let bounded = json!({"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}});
    api.put("/api/queues/%2F/dead", &bounded);
    let bound = api.ask(
        "POST",
        "/api/bindings/%2F/e/dlx/q/dead",
        &json!({"routing_key": "work"}),
    );
    assert_eq!(bound.0, 201);
    let foretold = then(&explain(&api, 2), "rejected");
    assert_eq!(foretold["verdict"], "dead_lettered");
    let target = json!({
        "queue": "dead", "consumers": 0, "messages": 0, "max_length": 1, "dies": false,
    });
    assert_eq!(foretold["targets"], json!([target]));
    reject(&api);
    assert_eq!(ready(&api, "dead"), 1);

    let foretold = then(&explain(&api, 3), "rejected");
    assert_eq!(
        (&foretold["verdict"], &foretold["cause"]),
        (&json!("quarantined"), &json!("target_full"))
    );
    assert_eq!(
        foretold["skipped"],
        json!([{"queue": "dead", "why": "full"}])
    );
    reject(&api);
    assert_eq!((ready(&api, "dead"), ready(&api, "amq.quarantine")), (1, 3));

    check_dead_letter(&api);
}

/// The dead letter tells where it came from, and its queue has no way on.
fn check_dead_letter(api: &Api<'_>) {
    let explained = api.get("/api/queues/%2F/dead/messages/0/explain");
    let life = explained["life"].as_array().expect("life");
    let what: Vec<_> = life
        .iter()
        .map(|step| (&step["what"], &step["where"]))
        .collect();
    let expected = [
        ("published", ""),
        ("entered", "work"),
        ("died", "work"),
        ("entered", "dead"),
    ];
    let expected = expected.map(|(what, place)| (json!(what), json!(place)));
    let expected: Vec<_> = expected.iter().map(|(what, place)| (what, place)).collect();
    assert_eq!(what, expected);
    assert_eq!(
        (&life[2]["why"], &life[2]["rule"]),
        (&json!("rejected"), &json!("argument"))
    );
    assert_eq!(life[3]["rule"], "binding work");
    assert_eq!(
        then(&explained, "rejected")["cause"],
        "no_dead_letter_exchange"
    );
    assert_eq!(explained["now"]["position"], "0");
    let limit = &explained["now"]["settings"]["max-length"];
    assert_eq!(*limit, json!({"value": "1", "rule": "argument"}));
}

#[test]
fn what_is_not_there_and_what_may_not_be_read_is_refused_with_a_reason() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/work", &json!({}));
    api.publish("work", "an order");
    let said = |path: &str| {
        let (status, answer) = api.send("GET", path, "");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        (
            status,
            answer["reason"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (status, reason) = said("/api/queues/%2F/work/messages/7/explain");
    assert_eq!(status, 404);
    assert!(
        reason.contains("queue 'work' has no message at position 7"),
        "{reason}"
    );
    let (status, reason) = said("/api/queues/%2F/none/messages/0/explain");
    assert_eq!((status, &*reason), (404, "queue_not_found"));
    for position in ["-1", "x", "18446744073709551616"] {
        let (status, reason) = said(&format!("/api/queues/%2F/work/messages/{position}/explain"));
        assert_eq!(status, 400);
        assert!(
            reason.contains(&format!("the position '{position}' must be a number")),
            "{reason}"
        );
    }
    let (status, reason) = said("/api/queues/%2F/work/messages/0/explain?description=late");
    assert_eq!(status, 400);
    assert!(reason.contains("it needs 'condition'"), "{reason}");

    // Who may not read the queue is told nothing of what is in it.
    api.put(
        "/api/users/reader",
        &json!({"password": "reader", "tags": "management"}),
    );
    let path = "/api/queues/%2F/work/messages/0/explain";
    for (read, expected) in [("^other$", 401), ("^work$", 200)] {
        let rights = json!({"configure": "^$", "write": "^$", "read": read});
        api.put("/api/permissions/%2F/reader", &rights);
        assert_eq!(api.send_as("reader", "GET", path, "").0, expected, "{read}");
    }
}

#[test]
fn messages_that_are_held_and_messages_on_disk_are_explained() {
    let broker = RunningBroker::start(&["--memory-budget", "1"]);
    let api = Api { broker: &broker };
    let arguments = json!({"arguments": {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 3_600_000,
    }});
    api.put("/api/queues/%2F/dead", &json!({}));
    api.put("/api/queues/%2F/work", &arguments);
    let last = 1_600;
    for number in 0..=last {
        api.publish("work", &number.to_string());
    }
    let deadline = Instant::now() + PATIENCE;
    let details = || api.get("/api/queues/%2F/work");
    while details()["messages_paged_out"] == 0 {
        assert!(Instant::now() < deadline, "nothing leaves memory");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The newest blocks leave first, but not the last one: some of these are on disk.
    for position in [0, 300, 700, 1_000, 1_300, last] {
        let explained = explain(&api, position);
        assert_eq!(
            explained["now"]["ahead"], position,
            "as many before it as came before"
        );
        assert_eq!(explained["now"]["state"], "ready");
        for event in ["rejected", "expired"] {
            assert_eq!(
                names(&then(&explained, event)["targets"]),
                ["dead"],
                "{position}"
            );
        }
        assert_eq!(explained["now"]["rule"], "argument");
    }
    assert!(
        details()["messages_paged_out"] != 0,
        "looking read nothing back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_a_consumer_holds_is_explained_with_who_holds_it() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let arguments = json!({"arguments": {"x-dead-letter-exchange": "dlx", "x-delivery-limit": 0}});
    api.put("/api/queues/%2F/work", &arguments);
    api.put("/api/queues/%2F/timeouts", &json!({}));
    api.put("/api/exchanges/%2F/dlx", &json!({"type": "headers"}));
    let wanted = json!({"arguments": {
        "x-match": "any-with-x", "x-opt-last-death-condition": "app:timeout",
    }});
    let bound = api.ask("POST", "/api/bindings/%2F/e/dlx/q/timeouts", &wanted);
    assert_eq!(bound.0, 201);
    api.publish("work", "an order");
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut connection = fe2o3_amqp::Connection::open("billing", url.as_str())
        .await
        .expect("open");
    let mut session = fe2o3_amqp::Session::begin(&mut connection)
        .await
        .expect("a session");
    let mut receiver = fe2o3_amqp::Receiver::attach(&mut session, "in", "/queues/work")
        .await
        .expect("a link");
    let delivery = receiver
        .recv::<fe2o3_amqp::types::messaging::Body<fe2o3_amqp::types::primitives::Value>>()
        .await
        .expect("the message");
    let explained = explain(&api, 0);
    assert_eq!(explained["now"]["state"], "unacknowledged");
    let holder = &explained["now"]["held_by"];
    assert_eq!(
        (&holder["container"], &holder["user"]),
        (&json!("billing"), &json!("guest"))
    );
    // Without the condition that it will give, nothing is bound for it.
    assert_eq!(then(&explained, "rejected")["cause"], "unroutable");
    let failed = then(&explained, "failed");
    assert_eq!(
        (&failed["reason"], &failed["cause"]),
        (&json!("delivery_limit"), &json!("unroutable"))
    );
    let path = "/api/queues/%2F/work/messages/0/explain?condition=app:timeout";
    let foretold = then(&api.get(path), "rejected");
    assert_eq!(names(&foretold["targets"]), ["timeouts"]);
    let error = fe2o3_amqp::types::definitions::Error::new(
        fe2o3_amqp::types::definitions::ErrorCondition::Custom("app:timeout".into()),
        None,
        None,
    );
    receiver
        .reject(&delivery, error)
        .await
        .expect("a rejection");
    let deadline = Instant::now() + PATIENCE;
    while ready(&api, "timeouts") == 0 {
        assert!(Instant::now() < deadline, "it went elsewhere");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    receiver.close().await.ok();
    connection.close().await.ok();
}

/// It was answered with 404.
#[test]
fn a_message_that_waits_for_its_time_is_explained_too() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let arguments = json!({"arguments": {
        "x-delayed-retry-type": "all", "x-delayed-retry-min": 600_000,
    }});
    api.put("/api/queues/%2F/work", &arguments);
    api.publish("work", "an order");
    let body = json!({"count": 1, "ackmode": "reject_requeue_true", "encoding": "auto"});
    let (status, _) = api.ask("POST", "/api/queues/%2F/work/get", &body);
    assert_eq!(status, 200);
    let explained = explain(&api, 0);
    assert_eq!(explained["now"]["state"], "delayed", "{explained}");
    assert_eq!(then(&explained, "accepted")["verdict"], "gone");
}

#[test]
fn a_redriven_message_tells_who_brought_it_back_and_who_may_not() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let arguments = json!({"arguments": {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
    }});
    api.put("/api/queues/%2F/dead", &json!({}));
    api.put("/api/queues/%2F/work", &arguments);
    api.publish("work", "an order");
    reject(&api);

    // Who may not write to the default exchange cannot bring it back.
    api.put(
        "/api/users/reader",
        &json!({"password": "reader", "tags": "management"}),
    );
    let rights = json!({"configure": "^$", "write": "^$", "read": ".*"});
    api.put("/api/permissions/%2F/reader", &rights);
    let path = "/api/queues/%2F/dead/messages/0/explain";
    let (status, told) = api.send_as("reader", "GET", path, "");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let redriven = then(&told, "redriven");
    assert_eq!(
        (status, &redriven["verdict"], &redriven["skipped"]),
        (
            200,
            &json!("skipped"),
            &json!([{"queue": "work", "why": "not_allowed"}])
        )
    );
    assert_eq!(
        names(&then(&api.get(path), "redriven")["targets"]),
        ["work"]
    );

    api.put("/api/redrives/%2F/fix-price", &json!({"queue": "dead"}));
    let deadline = Instant::now() + PATIENCE;
    while ready(&api, "work") == 0 {
        assert!(Instant::now() < deadline, "it is not moved");
        std::thread::sleep(Duration::from_millis(20));
    }
    let explained = explain(&api, 1);
    let life = explained["life"].as_array().expect("life");
    let told = life.iter().find(|step| step["what"] == "redriven");
    let told = told.unwrap_or_else(|| panic!("no redrive in {explained}"));
    assert_eq!(
        (&told["from"], &told["where"], &told["job"], &told["deaths"]),
        (
            &json!("dead"),
            &json!("work"),
            &json!("fix-price"),
            &json!(1)
        )
    );
    assert_eq!(told["by"]["user"], "guest");
    assert!(told["at"].as_i64() >= life[2]["at"].as_i64());

    let url = format!("http://127.0.0.1:{}", broker.http_port);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_coroner"));
    command.args(["deaths", "work", "--url", &url]);
    let output = crate::support::run_to_end(&mut command, PATIENCE);
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.contains("redriven once: by guest at "), "{said}");
    assert!(said.contains(", job fix-price, from dead"), "{said}");
}

/// It did not say until when, and its id was not found.
#[test]
fn a_delayed_message_is_found_by_its_id_and_said_to_be_delayed_until_its_time() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/work", &json!({}));
    let later = json!({
        "properties": {"message_id": "order-1", "headers": {"x-opt-delivery-delay": 7_200_000}},
        "routing_key": "work", "payload": "an order", "payload_encoding": "string",
    });
    let published = api.ask("POST", "/api/exchanges/%2F/amq.default/publish", &later);
    assert_eq!(published, (200, json!({"routed": true})));
    let now = &explain(&api, 0)["now"];
    assert_eq!(now["state"], "delayed");
    let next = &api.get("/api/queues/%2F/work")["next_delayed_at"];
    assert_eq!(&now["delayed_until"], next, "{now}");
    let url = format!("http://127.0.0.1:{}", broker.http_port);
    let coroner = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_coroner"))
            .args(arguments)
            .args(["--url", &url])
            .env("TZ", "UTC")
            .output()
            .expect("the binary runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = coroner(&["explain", "work", "--message-id", "order-1"]);
    assert!(told.contains("; delayed until 2"), "{told}");
    assert!(
        told.contains(", in 1 h 59 min") || told.contains(", in 2 h"),
        "{told}"
    );
    assert!(coroner(&["deaths", "work", "--state", "delayed"]).contains("order-1"));
    assert!(coroner(&["deaths", "work"]).contains("no messages in queue 'work'"));
    let groups = coroner(&[
        "dead_letter_groups",
        "work",
        "--state",
        "delayed",
        "--by",
        "reason",
    ]);
    assert!(groups.contains('1'), "{groups}");
    let lines = coroner(&["export_messages", "work", "-", "--state", "delayed"]);
    assert_eq!(lines.lines().count(), 1, "{lines}");
}
