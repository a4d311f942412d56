//! Messages exported as lines, and imported again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fe2o3_amqp::types::messaging::{Header, Message};
use fe2o3_amqp::types::primitives::Binary;
use serde_json::{Value, json};

use crate::api::Api;
use crate::folder::Folder;
use crate::support::RunningBroker;

fn lines_of(queue: &str) -> String {
    format!("/api/queues/%2F/{queue}/messages.jsonl")
}

/// The lines of a queue without the times at which the messages arrived there.
fn exported(api: &Api<'_>, queue: &str) -> Vec<Value> {
    let (status, text) = api.send("GET", &lines_of(queue), "");
    assert_eq!(status, 200, "{text}");
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).expect("an object");
        let arrived = line.as_object_mut().expect("an object").remove("arrived");
        assert!(arrived.is_some_and(|at| at.as_i64() > Some(1_600_000_000_000)));
        line
    });
    lines.collect()
}

fn import(api: &Api<'_>, queue: &str, text: &str) -> (u16, Value) {
    let (status, answer) = api.send("POST", &lines_of(queue), text);
    (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
}

fn text(lines: &[Value]) -> String {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    lines.join("\n")
}

/// A line of a message that never died, with these sections.
fn line(bare: &[u8]) -> Value {
    json!({
        "v": 1, "exchange": "shop", "routing_keys": ["order.new", "copy"],
        "header": {"durable": true, "priority": 7, "ttl": null, "delivery_count": 0},
        "annotations": null, "bare": STANDARD.encode(bare),
    })
}

/// Dead letters of a consumer, of ttl and of a queue in quarantine.
fn furnish(api: &Api<'_>) {
    let to_dead = |more: Value| {
        let mut arguments = json!({
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
        });
        for (name, value) in more.as_object().expect("arguments") {
            arguments[name] = value.clone();
        }
        json!({"durable": true, "arguments": arguments})
    };
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    api.put("/api/queues/%2F/copy", &json!({"durable": true}));
    api.put("/api/queues/%2F/work", &to_dead(json!({})));
    api.put("/api/queues/%2F/old", &to_dead(json!({"x-message-ttl": 0})));
    for n in 0..3 {
        let body = json!({
            "properties": {
                "delivery_mode": 2, "message_id": format!("m{n}"), "priority": n,
                "headers": {"kind": "late", "x-opt-mine": [1, "two"]},
            },
            "routing_key": "work", "payload": format!("order {n}"), "payload_encoding": "string",
        });
        let path = "/api/exchanges/%2F/amq.default/publish";
        assert_eq!(api.ask("POST", path, &body).0, 200);
    }
    let body = json!({"count": 10, "ackmode": "reject_requeue_false", "encoding": "auto"});
    assert_eq!(api.ask("POST", "/api/queues/%2F/work/get", &body).0, 200);
    api.publish("old", "too late");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_and_imported_elsewhere_is_exported_alike() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    furnish(&api);
    // A body that was streamed, which is read back piece by piece.
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let connection = fe2o3_amqp::Connection::open("sender", url.as_str()).await;
    let mut connection = connection.expect("a connection");
    let session = fe2o3_amqp::Session::begin(&mut connection).await;
    let mut session = session.expect("a session");
    let sender = fe2o3_amqp::Sender::attach(&mut session, "sends", "/queues/dead").await;
    let mut sender = sender.expect("a sender");
    let large: Vec<u8> = (0..700_001_u32).map(|n| (n % 251) as u8).collect();
    let header = Header {
        durable: true,
        ..Header::default()
    };
    let message = Message::builder()
        .header(header)
        .data(Binary::from(large))
        .build();
    sender.send(message).await.expect("an outcome");
    connection.close().await.ok();

    let first = exported(&api, "dead");
    assert_eq!(first.len(), 5);
    let death = &first[0]["deaths"][0];
    assert_eq!(
        (&death["queue"], &death["reason"]),
        (&json!("work"), &json!("rejected"))
    );
    assert_eq!(first[0]["preview"], "order 0");
    assert_eq!(first[3]["deaths"][0]["reason"], "expired");
    assert!(first[4]["bare"].as_str().expect("base64").len() > 900_000);
    let (status, answer) = import(&api, "copy", &text(&first));
    assert_eq!(
        (status, answer),
        (200, json!({"imported": 5, "skipped": 0}))
    );
    assert_eq!(exported(&api, "copy"), first);
    let shown = |queue: &str| {
        let path = format!("/api/queues/%2F/{queue}/messages?count=4");
        let mut shown = api.get(&path);
        shown["messages"][0].take()
    };
    assert_eq!(shown("copy"), shown("dead"));
    // A filter narrows it.
    let (_, some) = api.send("GET", &format!("{}?reason=expired", lines_of("dead")), "");
    assert_eq!(some.lines().count(), 1);
}

#[test]
fn every_kind_of_body_goes_through_to_the_byte_also_from_disk() {
    let folder = Folder::new("export-bodies");
    let data = folder.path("data");
    let arguments = ["--data", &data];
    let broker = RunningBroker::start(&arguments);
    let api = Api { broker: &broker };
    for queue in ["one", "two"] {
        api.put(
            &format!("/api/queues/%2F/{queue}"),
            &json!({"durable": true}),
        );
    }
    let properties: &[u8] = b"\x00\x53\x73\xc0\x04\x01\xa1\x01x";
    let data: &[u8] = b"\x00\x53\x75\xa0\x03\x00\xff\x0a";
    let value: &[u8] = b"\x00\x53\x77\xa1\x02hi";
    let sequence: &[u8] = b"\x00\x53\x76\xc0\x03\x01\x54\x05";
    let footer: &[u8] = b"\x00\x53\x78\xc1\x01\x00";
    let large = {
        let body = vec![b'y'; 400_000];
        let mut bare = b"\x00\x53\x75\xb0".to_vec();
        bare.extend_from_slice(&u32::try_from(body.len()).expect("a length").to_be_bytes());
        bare.extend_from_slice(&body);
        bare
    };
    let bodies = [
        data.to_vec(),
        [data, data].concat(),
        value.to_vec(),
        [sequence, sequence].concat(),
        [properties, data, footer].concat(),
        // Without a body, and without anything.
        properties.to_vec(),
        Vec::new(),
        large,
    ];
    let lines: Vec<Value> = bodies.iter().map(|bare| line(bare)).collect();
    let (status, answer) = import(&api, "one", &text(&lines));
    assert_eq!(
        (status, &answer["imported"]),
        (200, &json!(bodies.len())),
        "{answer}"
    );
    let first = exported(&api, "one");
    for (line, bare) in first.iter().zip(&bodies) {
        assert_eq!(line["bare"], STANDARD.encode(bare));
        assert_eq!(line["routing_keys"], json!(["order.new", "copy"]));
        assert_eq!(
            (&line["exchange"], &line["header"]["priority"]),
            (&json!("shop"), &json!(7))
        );
    }
    import(&api, "two", &text(&first));
    assert_eq!(exported(&api, "two"), first);
    drop(broker);
    let broker = RunningBroker::start(&arguments);
    let api = Api { broker: &broker };
    assert_eq!(exported(&api, "two"), first);
}

#[test]
fn an_import_ends_at_the_first_line_that_is_wrong_and_names_it() {
    let broker = RunningBroker::start(&["--max-message-size", "1000000"]);
    let api = Api { broker: &broker };
    let full = json!({"arguments": {"x-max-length": 3, "x-overflow": "drop-head"}});
    api.put("/api/queues/%2F/full", &full);
    let good = line(b"\x00\x53\x75\xa0\x02hi");
    let check = |lines: &str, expected: &str| {
        api.put("/api/queues/%2F/in", &json!({}));
        let (status, answer) = import(&api, "in", &format!("{good}\n\n{lines}\n{good}\n"));
        assert_eq!((status, &answer["line"]), (400, &json!(3)), "{answer}");
        assert_eq!(answer["imported"], 1);
        let reason = answer["reason"].as_str().expect("a reason");
        assert!(reason.contains(expected), "{reason}");
        assert_eq!(exported(&api, "in").len(), 1);
        api.send("DELETE", "/api/queues/%2F/in", "");
    };
    let with = |name: &str, value: Value| {
        let mut line = good.clone();
        line[name] = value;
        line.to_string()
    };
    check("{\"v\":1,", "no JSON");
    check("[]", "no object");
    check(&with("v", json!(2)), "'v' is 2, not 1");
    check(&with("colour", json!(1)), "the field 'colour' is not known");
    check(&with("bare", json!("?")), "'bare' is no base64");
    check(
        &with("bare", json!(STANDARD.encode("text"))),
        "'bare' is no message",
    );
    check(&with("bare", Value::Null), "'bare' is missing");
    check(
        &with("routing_keys", json!([])),
        "'routing_keys' has no key",
    );
    check(
        &with("header", json!({"priority": 256})),
        "'priority' must be a number from 0 to 255",
    );
    check(&with("history", json!("AAAA")), "'history' cannot be read");
    check(&with("deaths", json!([])), "'deaths' without 'history'");
    check(
        &with("bare", json!("A".repeat(1_400_000))),
        "more than 1000000 bytes",
    );
    check(&"x".repeat(2_600_000), "more than 2448576 bytes");
    // A full queue takes no more, and pushes nothing out.
    let (status, answer) = import(&api, "full", &format!("{good}\n").repeat(5));
    assert_eq!((status, &answer["imported"]), (400, &json!(3)), "{answer}");
    assert!(
        answer["reason"]
            .as_str()
            .is_some_and(|why| why.contains("'full' is full"))
    );
    let mut refused = good.to_string();
    refused.truncate(refused.len() / 2);
    let (status, answer) = import(&api, "full", &refused);
    assert_eq!((status, &answer["line"]), (400, &json!(1)));
}

#[test]
fn only_administrators_import_and_who_may_read_a_queue_exports_it() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    furnish(&api);
    api.put(
        "/api/users/bob",
        &json!({"password": "bob", "tags": "management"}),
    );
    let rights = json!({"configure": ".*", "write": ".*", "read": "^dead$"});
    api.put("/api/permissions/%2F/bob", &rights);
    let as_bob = |method: &str, queue: &str| api.send_as("bob", method, &lines_of(queue), "");
    assert_eq!(as_bob("GET", "work").0, 401);
    assert_eq!(as_bob("POST", "dead").0, 401);
    let (status, lines) = as_bob("GET", "dead");
    assert_eq!((status, lines.lines().count()), (200, 4));
    let missing = api.send("GET", &lines_of("nowhere"), "");
    assert_eq!(missing.0, 404);
    assert_eq!(
        api.send("GET", &format!("{}?colour=red", lines_of("dead")), "")
            .0,
        400
    );
}

#[test]
fn nothing_is_imported_in_an_alarm_and_the_answer_says_where_to_go_on() {
    let broker = RunningBroker::start(&["--memory-limit", "1"]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    while api.get("/api/nodes")[0]["mem_alarm"] != true {
        std::thread::yield_now();
    }
    let good = line(&[0x00, 0x53, 0x77, 0xa1, 0x01, b'x']);
    let (status, answer) = import(&api, "dead", &format!("{good}\n{good}\n"));
    assert_eq!(status, 503, "{answer}");
    let reason = answer["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("an alarm of memory"), "{answer}");
    assert!(reason.contains("go on with line 1"), "{answer}");
    assert!(exported(&api, "dead").is_empty());
}
