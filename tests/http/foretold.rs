//! `coroner explain`, then what it foretells, line by line: a vhost is set up for each line, the
//! command is asked, the event is made to happen, and what came of it is compared. [evidence part 17]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use fe2o3_amqp::types::definitions::{Error, ErrorCondition, Fields};
use fe2o3_amqp::types::messaging::{Body, Modified};
use fe2o3_amqp::types::primitives::{Symbol, Value as Amqp};
use fe2o3_amqp::{Connection, Delivery, Receiver, Session};
use serde_json::{Value, json};

use crate::api::Api;
use crate::support::{RunningBroker, run_to_end};

const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked whether something has happened.
const POLL: Duration = Duration::from_millis(20);
/// Time to live where the message is to expire, and where it is not, in milliseconds.
const TTL_MS: [u64; 2] = [1_500, 3_600_000];

/// A situation, and the events that are foretold for its message.
struct Scene {
    name: &'static str,
    arrange: fn(&Stage<'_>),
    /// The queue that the message is in; it is the only one, at this position.
    place: (&'static str, u64),
    events: &'static [&'static str],
}

const SCENES: &[Scene] = &[
    Scene {
        name: "one target; ttl and a limit of one message",
        arrange: |stage| {
            let more = json!({"x-message-ttl": stage.ttl_ms, "x-max-length": 1});
            stage
                .queue("dead", &json!({}))
                .work("dead", &more)
                .publish("work");
        },
        place: ("work", 0),
        events: &["accepted", "rejected", "failed", "expired", "maxlen"],
    },
    Scene {
        name: "no dead-letter exchange",
        arrange: |stage| {
            let all = json!({"x-message-ttl": stage.ttl_ms, "x-delivery-limit": 0});
            stage.queue("work", &all).publish("work");
        },
        place: ("work", 0),
        events: &["accepted", "rejected", "failed", "expired"],
    },
    Scene {
        name: "the target is missing",
        arrange: |stage| {
            let more = json!({"x-message-ttl": stage.ttl_ms, "x-delivery-limit": 0});
            stage.work("dead", &more).publish("work");
        },
        place: ("work", 0),
        events: &["accepted", "rejected", "failed", "expired"],
    },
    Scene {
        name: "the target is missing, and dead letters are to be dropped",
        arrange: |stage| {
            stage
                .work("dead", &json!({"x-on-undeliverable": "drop"}))
                .publish("work");
        },
        place: ("work", 0),
        events: &["accepted", "rejected", "failed"],
    },
    Scene {
        name: "two targets, one of them full",
        arrange: |stage| {
            stage.full("dead").queue("copy", &json!({}));
            stage.put("exchanges", "dlx", &json!({"type": "fanout"}));
            for queue in ["dead", "copy"] {
                stage.post(
                    &format!("bindings/{}/e/dlx/q/{queue}", stage.vhost),
                    &json!({}),
                );
            }
            let arguments = json!({"x-dead-letter-exchange": "dlx"});
            stage.queue("work", &arguments).publish("work");
        },
        place: ("work", 0),
        events: &["accepted", "rejected", "failed"],
    },
    Scene {
        name: "a circle of two queues",
        arrange: |stage| {
            let hold = json!({
                "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work",
                "x-message-ttl": stage.ttl_ms,
            });
            // The message expires in the first by its own time to live.
            stage.queue("hold", &hold).work("hold", &json!({}));
            stage.publish_with("work", &json!({"expiration": "1"}));
            stage.wait(&[("hold", 1)]);
        },
        place: ("hold", 0),
        events: &["accepted", "rejected", "failed", "expired", "redriven"],
    },
    Scene {
        name: "a full target, at least once",
        arrange: |stage| {
            let strategy = json!({"x-dead-letter-strategy": "at-least-once"});
            stage.full("dead").work("dead", &strategy).publish("work");
        },
        place: ("work", 0),
        events: &["accepted", "rejected", "failed"],
    },
    Scene {
        name: "dead, and waiting for that target",
        arrange: |stage| {
            let strategy = json!({"x-dead-letter-strategy": "at-least-once"});
            stage.full("dead").work("dead", &strategy).publish("work");
            stage.reject("work");
        },
        place: ("work", 0),
        events: &["retried", "redriven"],
    },
    Scene {
        name: "a dead letter",
        arrange: |stage| {
            stage
                .queue("dead", &json!({}))
                .work("dead", &json!({}))
                .publish("work");
            stage.reject("work").wait(&[("dead", 1)]);
        },
        place: ("dead", 0),
        events: &["accepted", "rejected", "failed", "redriven"],
    },
    Scene {
        name: "a dead letter whose queue is gone",
        arrange: |stage| {
            stage
                .queue("dead", &json!({}))
                .work("dead", &json!({}))
                .publish("work");
            stage.reject("work").wait(&[("dead", 1)]);
            stage.send("DELETE", &format!("queues/{}/work", stage.vhost), "");
        },
        place: ("dead", 0),
        events: &["redriven"],
    },
    Scene {
        name: "a dead letter whose queue is full",
        arrange: |stage| {
            let more = json!({"x-max-length": 1});
            stage
                .queue("dead", &json!({}))
                .work("dead", &more)
                .publish("work");
            stage.reject("work").wait(&[("dead", 1)]).publish("work");
        },
        place: ("dead", 0),
        events: &["redriven"],
    },
    Scene {
        name: "a dead letter that is back in its queue",
        arrange: |stage| {
            stage.work("work", &json!({})).publish("work");
            stage.reject("work").wait(&[("work", 1)]);
        },
        place: ("work", 1),
        events: &["redriven"],
    },
    Scene {
        name: "in the quarantine",
        arrange: |stage| {
            stage.work("dead", &json!({})).publish("work");
            stage.reject("work").wait(&[("amq.quarantine", 1)]);
        },
        place: ("amq.quarantine", 0),
        events: &["accepted", "rejected", "failed", "maxlen", "redriven"],
    },
];

/// A vhost for one line.
struct Stage<'a> {
    broker: &'a RunningBroker,
    vhost: String,
    ttl_ms: u64,
}

/// Messages by queue, dead ones that wait among them, and drops by cause.
type Counts = (BTreeMap<String, i64>, BTreeMap<String, i64>);

impl Stage<'_> {
    fn send(&self, method: &str, path: &str, body: &str) -> String {
        let broker = self.broker;
        let (status, answer) = Api { broker }.send(method, &format!("/api/{path}"), body);
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {answer}"
        );
        answer
    }

    fn post(&self, path: &str, body: &Value) {
        self.send("POST", path, &body.to_string());
    }

    fn put(&self, kind: &str, name: &str, body: &Value) {
        self.send(
            "PUT",
            &format!("{kind}/{}/{name}", self.vhost),
            &body.to_string(),
        );
    }

    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.send("GET", path, "")).expect("JSON")
    }

    fn queue(&self, name: &str, arguments: &Value) -> &Self {
        self.put(
            "queues",
            name,
            &json!({"durable": true, "arguments": arguments}),
        );
        self
    }

    /// The queue `work`, which dead-letters to another one.
    fn work(&self, target: &str, more: &Value) -> &Self {
        let mut arguments = json!({
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": target,
        });
        for (name, value) in more.as_object().expect("arguments") {
            arguments[name] = value.clone();
        }
        self.queue("work", &arguments)
    }

    /// A queue that holds one message and takes no more.
    fn full(&self, name: &str) -> &Self {
        let limit = json!({"x-max-length": 1, "x-overflow": "reject-publish"});
        self.queue(name, &limit).publish(name)
    }

    fn publish(&self, queue: &str) -> &Self {
        self.publish_with(queue, &json!({"delivery_mode": 2}))
    }

    fn publish_with(&self, queue: &str, properties: &Value) -> &Self {
        let body = json!({
            "properties": properties, "routing_key": queue, "payload": "an order",
            "payload_encoding": "string",
        });
        let path = format!("exchanges/{}/amq.default/publish", self.vhost);
        self.post(&path, &body);
        self
    }

    fn reject(&self, queue: &str) -> &Self {
        let body = json!({"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"});
        self.post(&format!("queues/{}/{queue}/get", self.vhost), &body);
        self
    }

    fn counts(&self) -> Counts {
        let queues = self.get(&format!("queues/{}", self.vhost));
        let mut counts = Counts::default();
        for queue in queues.as_array().expect("queues") {
            let number = |name: &str| queue[name].as_i64().expect("a number");
            let name = queue["name"].as_str().expect("a name").to_owned();
            let messages = number("messages") + number("messages_dead_pending");
            counts.0.insert(name, messages);
            for drop in queue["dead_letters"]["dropped"].as_array().expect("drops") {
                let cause = drop["cause"].as_str().expect("a cause").to_owned();
                *counts.1.entry(cause).or_default() += drop["count"].as_i64().expect("a count");
            }
        }
        counts
    }

    /// Waits until the queues hold as many messages.
    fn wait(&self, queues: &[(&str, i64)]) -> &Self {
        let deadline = Instant::now() + PATIENCE;
        let is_so = || {
            let counts = self.counts().0;
            queues
                .iter()
                .all(|(name, count)| counts.get(*name) == Some(count))
        };
        while !is_so() {
            assert!(
                Instant::now() < deadline,
                "{:?}, not {queues:?}",
                self.counts()
            );
            std::thread::sleep(POLL);
        }
        self
    }

    /// What `coroner explain` foretells, by event.
    fn foretell(&self, (queue, position): (&str, u64)) -> BTreeMap<String, Value> {
        let url = format!("http://127.0.0.1:{}", self.broker.http_port);
        let mut command = Command::new(env!("CARGO_BIN_EXE_coroner"));
        command.args(["explain", queue, &position.to_string(), "--format", "json"]);
        command.args(["--url", &url, "--vhost", &self.vhost]);
        let output = run_to_end(&mut command, PATIENCE);
        let told = String::from_utf8(output.stdout).expect("text");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let steps = told["next"].as_array().expect("steps").iter();
        let name = |step: &Value| step["if"].as_str().expect("an event").to_owned();
        steps
            .map(|step| (name(step), step["then"].clone()))
            .collect()
    }

    /// Takes the message over AMQP and settles it.
    async fn settle(&self, queue: &str, event: &str) {
        let url = format!("amqp://guest:guest@127.0.0.1:{}", self.broker.port);
        let hostname = format!("vhost:{}", self.vhost);
        let connection = Connection::builder()
            .container_id("billing")
            .hostname(hostname.as_str())
            .open(url.as_str());
        let mut connection = connection.await.expect("a connection");
        let mut session = Session::begin(&mut connection).await.expect("a session");
        let address = format!("/queues/{queue}");
        // This client cannot read a history as an array of maps.
        let list = (Symbol::from("x-opt-deaths-encoding"), Amqp::from("list"));
        let receiver = Receiver::builder()
            .name("in")
            .source(address)
            .properties(Fields::from_iter([list]));
        let receiver = receiver.attach(&mut session).await;
        let mut receiver = receiver.expect("a link");
        let delivery: Delivery<Body<Amqp>> = receiver.recv().await.expect("the message");
        let settled = match event {
            "accepted" => receiver.accept(&delivery).await,
            "rejected" => {
                let condition = ErrorCondition::Custom("app:bad".into());
                let error = Error::new(condition, Some("no such customer".to_owned()), None);
                receiver.reject(&delivery, error).await
            }
            _ => {
                let failed = Modified {
                    delivery_failed: Some(true),
                    undeliverable_here: None,
                    message_annotations: None,
                };
                receiver.modify(&delivery, failed).await
            }
        };
        settled.expect("a settlement");
        // What comes back stays in the queue.
        receiver.close().await.ok();
        session.end().await.ok();
        connection.close().await.ok();
    }

    /// Redrives the message to its origin; the job once it is over, or waits.
    fn redrive(&self, (queue, position): (&str, u64)) -> Value {
        let filter = json!({"position": [position.to_string()]});
        self.put(
            "redrives",
            "job",
            &json!({"queue": queue, "filter": filter}),
        );
        let deadline = Instant::now() + PATIENCE;
        loop {
            let job = self.get(&format!("redrives/{}/job", self.vhost));
            if !job["ended_at"].is_null() || job["state"] == "waiting" {
                return job;
            }
            assert!(Instant::now() < deadline, "{job}");
            std::thread::sleep(POLL);
        }
    }
}

/// The counts that are expected after an event.
fn expected(before: &Counts, then: &Value, (event, queue): (&str, &str)) -> Counts {
    let (mut messages, mut drops) = before.clone();
    let verdict = then["verdict"].as_str().expect("a verdict");
    let stays = ["requeued", "dead_pending", "skipped", "waiting"].contains(&verdict);
    let mut add = |queue: &str, more: i64| *messages.entry(queue.to_owned()).or_default() += more;
    if !stays && then["waits"] != true {
        add(queue, -1);
    }
    if event == "maxlen" {
        add(queue, 1); // the one that pushes it out
    }
    for target in then["targets"].as_array().expect("targets") {
        add(target["queue"].as_str().expect("a name"), 1);
    }
    if verdict == "dropped" {
        let cause = then["cause"].as_str().expect("a cause");
        *drops.entry(cause.to_owned()).or_default() += 1;
    }
    (messages, drops)
}

/// Compares what became of a redrive with what was foretold.
fn check_job(job: &Value, then: &Value, context: &str) {
    let cause = then["cause"].as_str().unwrap_or_default();
    match then["verdict"].as_str().expect("a verdict") {
        "moved" => assert_eq!(job["counts"]["moved"], 1, "{context}: {job}"),
        "waiting" => {
            let state = (&job["state"], &job["cause"]);
            assert_eq!(
                state,
                (&json!("waiting"), &then["cause"]),
                "{context}: {job}"
            );
        }
        _ => {
            // The job counts what is in its origin already among what has no target.
            let cause = if cause == "same_queue" {
                "no_target"
            } else {
                cause
            };
            let counts = &job["counts"];
            assert_eq!(counts[format!("skipped_{cause}")], 1, "{context}: {job}");
        }
    }
}

async fn check(broker: &RunningBroker, number: usize, scene: &Scene, event: &str) {
    let context = format!("{}: {event}", scene.name);
    let stage = Stage {
        broker,
        vhost: format!("v{number}-{event}"),
        ttl_ms: TTL_MS[usize::from(event != "expired")],
    };
    stage.send("PUT", &format!("vhosts/{}", stage.vhost), "{}");
    let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
    stage.put("permissions", "guest", &rights);
    (scene.arrange)(&stage);
    let foretold = stage.foretell(scene.place);
    let told: Vec<&str> = foretold.keys().map(String::as_str).collect();
    let mut listed = scene.events.to_vec();
    listed.sort_unstable();
    let is_all = told == listed || scene.events == ["redriven"];
    assert!(is_all, "{context}: {told:?} is told of {listed:?}");
    let then = &foretold[event];
    let before = stage.counts();
    let (queue, _) = scene.place;
    match event {
        "expired" | "retried" => {}
        "maxlen" => {
            stage.publish(queue);
        }
        "redriven" => check_job(&stage.redrive(scene.place), then, &context),
        event => stage.settle(queue, event).await,
    }
    let expected = expected(&before, then, (event, queue));
    let deadline = Instant::now() + PATIENCE;
    while stage.counts() != expected {
        let counts = stage.counts();
        assert!(
            Instant::now() < deadline,
            "{context}: {then} was foretold of {before:?}; there is {counts:?} and not {expected:?}"
        );
        std::thread::sleep(POLL);
    }
    if then["verdict"] == "requeued" {
        let path = format!("queues/{}/{queue}/messages", stage.vhost);
        let back = stage.get(&path)["messages"][0].clone();
        let position = scene.place.1.to_string();
        assert_eq!(back["position"], position, "{context}: back to its place");
        assert_eq!(back["last_failure"]["how"], "failed", "{context}");
    }
    if event == "retried" {
        // Until there is room, it was told.
        stage.send(
            "DELETE",
            &format!("queues/{}/dead/contents", stage.vhost),
            "",
        );
        stage.wait(&[("work", 0), ("dead", 1)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_explain_foretells_happens_for_each_of_its_lines() {
    let broker = RunningBroker::start(&["--quarantine-max-length", "1"]);
    let mut lines = 0;
    for (number, scene) in SCENES.iter().enumerate() {
        for event in scene.events {
            check(&broker, number, scene, event).await;
            lines += 1;
        }
    }
    assert!(lines > 35, "{lines} lines were tried");
}
