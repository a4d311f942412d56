//! Redrives over HTTP, and over kills of the broker.

use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fe2o3_amqp::types::messaging::{Header, Message, Outcome};
use fe2o3_amqp::{Connection, Sender, Session};
use serde_json::{Value, json};

use crate::api::Api;
use crate::folder::Folder;
use crate::support::RunningBroker;

const PATIENCE: Duration = Duration::from_mins(1);
/// How often a redrive is asked whether it is over.
const POLL: Duration = Duration::from_millis(20);
/// Dead letters that are moved while the broker is killed again and again.
const MANY: u64 = 10_000;

/// `work` dead-letters to `dlq`.
fn arrange(api: &Api<'_>) {
    api.put("/api/queues/%2F/dlq", &json!({"durable": true}));
    let arguments = json!({
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dlq",
    });
    let work = json!({"durable": true, "arguments": arguments});
    api.put("/api/queues/%2F/work", &work);
}

fn reject(api: &Api<'_>, count: u64) {
    let body = json!({
        "count": count, "ackmode": "reject_requeue_false", "encoding": "auto", "truncate": 1,
    });
    let (status, taken) = api.ask("POST", "/api/queues/%2F/work/get", &body);
    let taken = taken.as_array().expect("messages").len() as u64;
    assert_eq!((status, taken), (200, count));
}

fn job(api: &Api<'_>, id: &str) -> Value {
    api.get(&format!("/api/redrives/%2F/{id}"))
}

/// Waits until a redrive is over.
fn wait(api: &Api<'_>, id: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let job = job(api, id);
        if !job["ended_at"].is_null() {
            return job;
        }
        assert!(Instant::now() < deadline, "{job}");
        thread::sleep(POLL);
    }
}

fn messages(api: &Api<'_>, queue: &str) -> Value {
    api.get(&format!("/api/queues/%2F/{queue}"))["messages"].clone()
}

/// Messages in `work` and in `dlq` at one time.
fn both(api: &Api<'_>) -> (u64, u64) {
    let queues = api.get("/api/queues/%2F");
    let of = |name: &str| {
        let mut queues = queues.as_array().expect("queues").iter();
        let queue = queues.find(|queue| queue["name"] == name);
        queue.expect("a queue")["messages"]
            .as_u64()
            .expect("a count")
    };
    (of("work"), of("dlq"))
}

/// What the first moved message tells of its redrive.
fn check_told(api: &Api<'_>) {
    let look = api.get("/api/queues/%2F/work/messages");
    let first = &look["messages"][0];
    assert_eq!(
        (&first["payload"], &first["exchange"]),
        (&json!("0"), &json!(""))
    );
    let told = &first["amqp"]["message_annotations"]["x-opt-redrives"][0];
    assert_eq!((&told["number"], &told["job"]), (&json!(1), &json!("fix")));
    assert_eq!(
        (&told["from"], &told["to"]),
        (&json!("dlq"), &json!("work"))
    );
    assert_eq!((&told["by"], &told["deaths"]), (&json!("guest"), &json!(1)));
}

/// What the redrive knows once two messages were accepted and one died again.
fn check_learned(api: &Api<'_>) {
    let taken = json!({"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"});
    assert_eq!(api.ask("POST", "/api/queues/%2F/work/get", &taken).0, 200);
    reject(api, 1);
    let learned = job(api, "fix");
    let outcome = json!({"accepted": 2, "died_again": 1, "outstanding": 0, "gone": 0});
    assert_eq!(
        (&learned["outcome"], &learned["settled"]),
        (&outcome, &json!(true))
    );
    let (_, metrics) = api.send("GET", "/metrics", "");
    for (outcome, count) in [("moved", 3), ("accepted", 2), ("died_again", 1)] {
        let line =
            format!("coroner_redrive_messages_total{{vhost=\"/\",outcome=\"{outcome}\"}} {count}");
        assert!(metrics.lines().any(|known| known == line), "{line}");
    }
}

#[test]
fn a_redrive_is_asked_for_looked_at_and_forgotten() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    for number in 0..3 {
        api.publish("work", &number.to_string());
    }
    reject(&api, 3);
    api.publish("dlq", "never died");
    let body = json!({"queue": "dlq", "note": "fixed in 2.14.1"});
    let (status, dry) = api.ask("POST", "/api/redrives/%2F/dry-run", &body);
    assert_eq!(status, 200, "{dry}");
    let to_work = json!({
        "queue": "work", "messages": 3, "consumers": 0, "room": null, "durable": true,
    });
    assert_eq!(dry["targets"], json!([to_work]));
    assert_eq!(
        (&dry["matched"], &dry["complete"]),
        (&json!(4), &json!(true))
    );
    let skipped = json!({"held": 0, "no_target": 1, "not_allowed": 0, "same_queue": 0});
    assert_eq!(dry["skipped"], skipped);
    assert_eq!(dry["sample"][0], "0");
    assert_eq!(messages(&api, "dlq"), 4, "a dry run changes nothing");
    assert_eq!(api.get("/api/redrives/%2F"), json!([]));

    assert_eq!(api.ask("PUT", "/api/redrives/%2F/fix", &body).0, 201);
    let over = wait(&api, "fix");
    assert_eq!(
        (&over["state"], &over["cause"]),
        (&json!("completed"), &Value::Null)
    );
    assert_eq!(
        (&over["by"], &over["note"]),
        (&json!("guest"), &json!("fixed in 2.14.1"))
    );
    let counts = json!({
        "matched": 4, "moved": 3, "skipped_held": 0, "skipped_no_target": 1,
        "skipped_not_allowed": 0, "skipped_changed": 0, "left": 0,
    });
    assert_eq!(over["counts"], counts);
    assert_eq!(over["targets"], json!([{"queue": "work", "moved": 3}]));
    assert_eq!(
        (&over["settled"], &over["outcome"]["outstanding"]),
        (&json!(false), &json!(3))
    );
    assert_eq!(
        (messages(&api, "dlq"), messages(&api, "work")),
        (json!(1), json!(3))
    );

    check_told(&api);
    // The same again is no second run; something else under this id is refused.
    assert_eq!(api.ask("PUT", "/api/redrives/%2F/fix", &body).0, 204);
    let other = json!({"queue": "work"});
    let (status, answer) = api.ask("PUT", "/api/redrives/%2F/fix", &other);
    assert_eq!(
        (status, &answer["error"]),
        (409, &json!("conflict")),
        "{answer}"
    );

    check_learned(&api);
    assert_eq!(api.send("DELETE", "/api/redrives/%2F/fix", "").0, 204);
    assert_eq!(api.send("GET", "/api/redrives/%2F/fix", "").0, 404);
    assert_eq!(api.send("DELETE", "/api/redrives/%2F/fix", "").0, 404);
}

#[test]
fn what_is_wrong_with_a_redrive_is_said() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    for (id, body, status, says) in [
        (
            "a",
            json!({"queue": "dlq", "filter": {"colour": 1}}),
            400,
            "colour",
        ),
        (
            "a",
            json!({"queue": "dlq", "rate": 0}),
            400,
            "0.1 to 100000",
        ),
        ("a%20b", json!({"queue": "dlq"}), 400, "1 to 64 characters"),
        ("a", json!({}), 400, "key_missing,queue"),
        ("a", json!({"queue": "gone"}), 404, "no queue 'gone'"),
        (
            "a",
            json!({"queue": "dlq", "target": {"kind": "queue", "queue": "dlq"}}),
            400,
            "source and target",
        ),
        (
            "a",
            json!({"queue": "dlq", "target": {"kind": "discard"}}),
            400,
            "'note'",
        ),
    ] {
        let (found, answer) = api.ask("PUT", &format!("/api/redrives/%2F/{id}"), &body);
        assert_eq!(found, status, "{body}: {answer}");
        let reason = answer["reason"].as_str().expect("a reason");
        assert!(reason.contains(says), "{reason}");
        if id == "a" {
            let (dry, answer) = api.ask("POST", "/api/redrives/%2F/dry-run", &body);
            assert_eq!(dry, status, "a dry run is refused alike: {answer}");
        }
    }
    let steered = api.ask("POST", "/api/redrives/%2F/gone/pause", &json!({}));
    assert_eq!(steered.0, 404);
    assert_eq!(api.get("/api/redrives"), json!([]));
}

#[test]
fn who_may_redrive_and_who_may_steer() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    for (user, write, read) in [
        ("alice", ".*", ".*"),
        ("reader", "^dlq$", ".*"),
        ("writer", ".*", "^work$"),
    ] {
        let tags = json!({"password": user, "tags": "management"});
        api.put(&format!("/api/users/{user}"), &tags);
        let rights = json!({"configure": "", "write": write, "read": read});
        api.put(&format!("/api/permissions/%2F/{user}"), &rights);
    }
    for number in 0..3 {
        api.publish("work", &number.to_string());
    }
    reject(&api, 3);
    let slow = json!({"queue": "dlq", "rate": 0.1}).to_string();
    let path = "/api/redrives/%2F/mine";
    assert_eq!(api.send_as("reader", "PUT", path, &slow).0, 401);
    assert_eq!(api.send_as("writer", "PUT", path, &slow).0, 401);
    let discard = json!({"queue": "dlq", "target": {"kind": "discard"}, "note": "n", "max": 1});
    let dropped = api.send_as(
        "reader",
        "PUT",
        "/api/redrives/%2F/drop",
        &discard.to_string(),
    );
    assert_eq!(dropped.0, 201, "to read is to purge");
    wait(&api, "drop");
    assert_eq!(api.send_as("alice", "PUT", path, &slow).0, 201);
    for steering in ["pause", "resume"] {
        let path = format!("{path}/{steering}");
        assert_eq!(api.send_as("reader", "POST", &path, "").0, 401, "{path}");
        assert_eq!(api.send_as("alice", "POST", &path, "").0, 204, "{path}");
        assert_eq!(api.send_as("guest", "POST", &path, "").0, 204, "{path}");
    }
    // A user that is deleted moves nothing any more.
    assert_eq!(api.send("DELETE", "/api/users/alice", "").0, 204);
    let paused = job(&api, "mine");
    assert_eq!(
        (&paused["state"], &paused["cause"]),
        (&json!("paused"), &json!("user_gone"))
    );
    assert_eq!(api.send("DELETE", path, "").0, 409, "it is not over");
    assert_eq!(api.send("POST", &format!("{path}/cancel"), "").0, 204);
    assert_eq!(job(&api, "mine")["state"], "cancelled");
    assert_eq!(api.send("DELETE", path, "").0, 204);
}

/// Publishes durable messages with these bodies to `work`.
async fn publish_many(broker: &RunningBroker, bodies: impl Iterator<Item = Vec<u8>>) {
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut connection = Connection::open("redriven", url.as_str())
        .await
        .expect("a connection");
    let mut session = Session::begin(&mut connection).await.expect("a session");
    let mut sender = Sender::attach(&mut session, "many", "/queues/work")
        .await
        .expect("a link");
    let mut outcomes = Vec::new();
    for body in bodies {
        let message = Message::builder()
            .header(Header {
                durable: true,
                ..Header::default()
            })
            .data(body)
            .build();
        outcomes.push(sender.send_batchable(message).await.expect("sent"));
    }
    for outcome in outcomes {
        let outcome = outcome.await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
    }
    connection.close().await.expect("a close");
}

#[test]
fn a_broker_that_is_killed_again_and_again_moves_each_dead_letter_once() {
    let folder = Folder::new("redrive-killed");
    let data = folder.path("data");
    let arguments = ["--data", &data];
    let mut broker = RunningBroker::start(&arguments);
    {
        let api = Api { broker: &broker };
        arrange(&api);
        let bodies = (0..MANY).map(|number| number.to_string().into_bytes());
        let publishing = publish_many(&broker, bodies);
        tokio::runtime::Runtime::new()
            .expect("a runtime")
            .block_on(publishing);
        reject(&api, MANY);
        let body = json!({"queue": "dlq", "rate": 4_000, "ramp": false});
        assert_eq!(api.ask("PUT", "/api/redrives/%2F/fix", &body).0, 201);
    }
    let (mut kills, deadline) = (0, Instant::now() + PATIENCE);
    loop {
        let state = job(&Api { broker: &broker }, "fix")["state"].clone();
        if state == "completed" {
            break;
        }
        assert!(state == "running" || state == "waiting", "{state}");
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(400));
        drop(broker); // killed
        kills += 1;
        broker = RunningBroker::start(&arguments);
        let api = Api { broker: &broker };
        let job = job(&api, "fix");
        let (work, dlq) = both(&api);
        assert_eq!(work + dlq, MANY, "{job}");
    }
    assert!(kills >= 3, "{kills} kills");
    let api = Api { broker: &broker };
    let over = job(&api, "fix");
    assert_eq!(over["counts"]["moved"], MANY);
    assert_eq!(
        (messages(&api, "work"), messages(&api, "dlq")),
        (json!(MANY), json!(0))
    );
    // Each once: who takes them all sees as many, and the job learns of each.
    let body = json!({
        "count": MANY, "ackmode": "ack_requeue_false", "encoding": "auto", "truncate": 1,
    });
    let (_, taken) = api.ask("POST", "/api/queues/%2F/work/get", &body);
    assert_eq!(taken.as_array().expect("messages").len() as u64, MANY);
    let outcome = json!({"accepted": MANY, "died_again": 0, "outstanding": 0, "gone": 0});
    assert_eq!(job(&api, "fix")["outcome"], outcome);
}

/// What a redrive read back stayed in memory, since the budget was above the limit: the alarm stood for
/// good, and the redrive waited for its end.
#[test]
fn a_redrive_of_more_than_the_memory_limit_goes_on_to_its_end() {
    const LARGE: u64 = 600;
    const PORTION: u64 = 20;
    let folder = Folder::new("redrive-memory");
    let data = folder.path("data");
    let broker = RunningBroker::start(&["--data", &data, "--memory-limit=4MiB"]);
    let api = Api { broker: &broker };
    arrange(&api);
    let mut bare = vec![0x00, 0x53, 0x75, 0xb0];
    bare.extend(20_000_u32.to_be_bytes());
    bare.resize(bare.len() + 20_000, b'x');
    let line = json!({
        "v": 1, "exchange": "", "routing_keys": ["work"],
        "header": {"durable": true, "priority": null, "ttl": null, "delivery_count": 0},
        "annotations": null, "bare": STANDARD.encode(bare),
    });
    // Each portion is read before it is refused in an alarm.
    let portion = format!("{line}\n").repeat(usize::try_from(PORTION).expect("few"));
    let deadline = Instant::now() + PATIENCE;
    for first in (1..=LARGE).step_by(usize::try_from(PORTION).expect("few")) {
        let headers = format!("import-id: fill\r\nimport-line: {first}\r\n");
        let path = "/api/queues/%2F/dlq/messages.jsonl";
        let import = || api.send_with("guest", ("POST", path), &headers, &portion);
        // An alarm may refuse it for a moment; one that stands does so for good.
        while let (status, answer) = import()
            && status != 200
        {
            assert_eq!(status, 503, "{answer}");
            assert!(Instant::now() < deadline, "{answer}");
            thread::sleep(POLL);
        }
    }
    let asked = json!({"queue": "dlq", "target": {"kind": "queue", "queue": "work"}});
    assert_eq!(api.ask("PUT", "/api/redrives/%2F/back", &asked).0, 201);
    let counts = wait(&api, "back")["counts"].clone();
    assert_eq!(counts["moved"], LARGE, "{counts}");
    assert_eq!(both(&api), (LARGE, 0));
}

/// Bodies above 256 KiB are in the journal only, and were once taken as not having the text.
#[test]
fn a_text_is_looked_for_in_the_first_mebibyte_of_bodies_on_disk() {
    let folder = Folder::new("redrive-bodies");
    let data = folder.path("data");
    let arguments = ["--data", &data];
    let broker = RunningBroker::start(&arguments);
    let api = Api { broker: &broker };
    arrange(&api);
    let bodies = [(600_000, "near"), (1_200_000, "near"), (900_000, "near")];
    let bodies = bodies.into_iter().map(|(before, mark)| {
        let mut body = vec![b'x'; before];
        body.extend(mark.as_bytes());
        body.resize(before + 600_000, b'x');
        body
    });
    tokio::runtime::Runtime::new()
        .expect("a runtime")
        .block_on(publish_many(&broker, bodies));
    reject(&api, 3);
    drop(broker);
    let broker = RunningBroker::start(&arguments);
    let api = Api { broker: &broker };
    let asked = |text: &str| json!({"queue": "dlq", "filter": {"body_contains": text}});
    for (text, expected) in [("near", 2), ("nowhere", 0)] {
        let path = "/api/redrives/%2F/dry-run";
        let (status, dry) = api.ask("POST", path, &asked(text));
        assert_eq!((status, &dry["matched"]), (200, &json!(expected)), "{dry}");
        assert_eq!(
            (&dry["complete"], &dry["next"]),
            (&json!(true), &Value::Null)
        );
        let path = format!("/api/redrives/%2F/{text}");
        assert_eq!(api.ask("PUT", &path, &asked(text)).0, 201);
        let counts = wait(&api, text)["counts"].clone();
        assert_eq!(
            (&counts["moved"], &counts["left"]),
            (&json!(expected), &json!(0)),
            "{counts}"
        );
    }
    // The text of one is behind the first MiB.
    assert_eq!(both(&api), (2, 1));
    let wrong = json!({"queue": "dlq", "from": "behind"});
    let (status, answer) = api.ask("POST", "/api/redrives/%2F/dry-run", &wrong);
    assert_eq!(status, 400);
    assert!(
        answer["reason"]
            .as_str()
            .is_some_and(|why| why.contains("'from'")),
        "{answer}"
    );
}

fn dry_run(api: &Api<'_>, body: &Value) -> Value {
    let (status, dry) = api.ask("POST", "/api/redrives/%2F/dry-run", body);
    assert_eq!(status, 200, "{dry}");
    dry
}

/// It told of all messages, though the redrive ends before.
#[test]
fn a_dry_run_ends_where_the_redrive_would_by_its_max() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    for number in 0..5 {
        api.publish("work", &number.to_string());
    }
    reject(&api, 5);
    // It told of one that would be moved.
    let none = dry_run(&api, &json!({"queue": "dlq", "max": 0}));
    assert_eq!((&none["left"], &none["targets"]), (&json!(5), &json!([])));
    let body = json!({"queue": "dlq", "max": 2});
    let dry = dry_run(&api, &body);
    assert_eq!(dry["targets"][0]["messages"], 2, "{dry}");
    assert_eq!((&dry["matched"], &dry["left"]), (&json!(5), &json!(3)));
    assert_eq!(dry["sample"], json!(["0", "1"]));
    let warning =
        "the redrive would end after 2 messages, its 'max': it would leave 3 more that are meant";
    assert_eq!(dry["warnings"], json!([warning]));
    assert_eq!(api.ask("PUT", "/api/redrives/%2F/two", &body).0, 201);
    let counts = &wait(&api, "two")["counts"];
    assert_eq!((&counts["moved"], &counts["left"]), (&json!(2), &json!(3)));
    let all = dry_run(&api, &json!({"queue": "dlq", "max": 3}));
    assert_eq!((&all["left"], &all["warnings"]), (&json!(0), &json!([])));
}

/// It was told without the delayed messages, which take room too, and without the limit on bytes.
#[test]
fn the_room_of_a_target_is_what_a_redrive_finds() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    for _ in 0..4 {
        api.publish("work", &"x".repeat(1_000));
    }
    reject(&api, 4);
    let later = json!({
        "properties": {"headers": {"x-opt-delivery-delay": 7_200_000}},
        "routing_key": "by-length", "payload": "", "payload_encoding": "string",
    });
    for (queue, limit) in [
        ("by-length", "x-max-length"),
        ("by-bytes", "x-max-length-bytes"),
    ] {
        let limit = json!({"durable": true, "arguments": {limit: if queue == "by-length" { 5 } else { 2_500 }}});
        api.put(&format!("/api/queues/%2F/{queue}"), &limit);
    }
    for _ in 0..2 {
        let path = "/api/exchanges/%2F/amq.default/publish";
        assert_eq!(api.ask("POST", path, &later).0, 200);
    }
    for (queue, room) in [("by-length", 3), ("by-bytes", 2)] {
        let target = json!({"kind": "queue", "queue": queue});
        let body = json!({"queue": "dlq", "target": target});
        let dry = dry_run(&api, &body);
        assert_eq!(dry["targets"][0]["room"], room, "{dry}");
        let warning = dry["warnings"][0].as_str().expect("a warning");
        assert!(
            warning.contains(&format!("has room for {room} of 4 messages")),
            "{warning}"
        );
    }
}
