//! What is counted, and how fast it rises.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

/// A `coroner` that talks to the broker until it is dropped.
struct Talking(std::process::Child);

impl Talking {
    fn start(broker: &RunningBroker, arguments: &[&str]) -> Self {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_coroner"));
        command.args(arguments).arg("--url");
        command.arg(format!("amqp://guest:guest@127.0.0.1:{}", broker.port));
        let quiet = command.stdout(std::process::Stdio::null());
        Self(quiet.spawn().expect("the binary starts"))
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Where there is a rate while messages go through the exchange `amq.fanout` to the queues `busy`,
/// which has a consumer, and `growing`.
const RATES: &[(&str, &str)] = &[
    ("/api/queues/%2F/busy", "/message_stats/publish"),
    ("/api/queues/%2F/busy", "/message_stats/deliver_get"),
    ("/api/queues/%2F/busy", "/message_stats/ack"),
    ("/api/queues/%2F/growing", "/messages"),
    ("/api/queues/%2F/growing", "/messages_ready"),
    ("/api/queues?sort=name", "/1/messages"),
    ("/api/exchanges/%2F/amq.fanout", "/message_stats/publish_in"),
    (
        "/api/exchanges/%2F/amq.fanout",
        "/message_stats/publish_out",
    ),
    ("/api/vhosts/%2F", "/message_stats/publish"),
    ("/api/vhosts/%2F", "/messages"),
    ("/api/connections", "/0/recv_oct"),
    ("/api/connections", "/0/send_oct"),
    ("/api/overview", "/message_stats/publish"),
    ("/api/overview", "/message_stats/confirm"),
    ("/api/overview", "/message_stats/deliver_get"),
    ("/api/overview", "/queue_totals/messages"),
];

/// `redeliver` counted what consumers gave back, the vhost's also what they let die: 5 in the queue, 10 in the
/// vhost, and nothing had been delivered twice.
#[test]
fn redeliveries_are_deliveries_of_what_a_consumer_had_before_in_queue_vhost_and_overview_alike() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/q", &json!({}));
    for _ in 0..3 {
        api.publish("q", "a message");
    }
    let get = |count: u64, mode: &str| {
        let body = json!({ "count": count, "ackmode": mode, "encoding": "auto" });
        assert_eq!(api.ask("POST", "/api/queues/%2F/q/get", &body).0, 200);
    };
    let check = |delivered: u64, redelivered: u64| {
        for place in ["/api/queues/%2F/q", "/api/vhosts/%2F", "/api/overview"] {
            let stats = &api.get(place)["message_stats"];
            assert_eq!(stats["deliver_get"], delivered, "{place}");
            assert_eq!(stats["redeliver"], redelivered, "{place}");
        }
    };
    get(2, "ack_requeue_true");
    check(2, 0);
    get(2, "reject_requeue_false");
    check(4, 2);
    get(1, "ack_requeue_false");
    check(5, 2);
}

/// The deletion of a vhost took its counts out of the sums of all: Prometheus took that for a restart, and the
/// whole sum for what had come since.
#[test]
fn counters_of_all_vhosts_together_do_not_fall_when_a_vhost_is_deleted() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/vhosts/v", &json!({}));
    let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
    api.put("/api/permissions/v/guest", &all);
    api.put("/api/queues/v/q", &json!({}));
    let message = json!({
        "properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"
    });
    for _ in 0..3 {
        let place = "/api/exchanges/v/amq.default/publish";
        assert_eq!(api.ask("POST", place, &message).0, 200);
    }
    for mode in ["ack_requeue_false", "reject_requeue_false"] {
        let take = json!({ "count": 1, "encoding": "auto", "ackmode": mode });
        assert_eq!(api.ask("POST", "/api/queues/v/q/get", &take).0, 200);
    }
    let counters = || {
        let (_, text) = api.send("GET", "/metrics/rabbitmq", "");
        let lines = text.lines().filter(|line| line.contains("_total"));
        let samples = lines.filter_map(|line| line.rsplit_once(' '));
        let read = |(name, value): (&str, &str)| Some((name.to_owned(), value.parse().ok()?));
        samples.filter_map(read).collect::<BTreeMap<String, u64>>()
    };
    let message_stats = || {
        let overview = api.ask("GET", "/api/overview", &json!(null)).1;
        let stats = overview["message_stats"].as_object().cloned();
        let stats = stats.into_iter().flatten();
        let counts = stats.filter_map(|(name, count)| Some((name, count.as_u64()?)));
        counts.collect::<BTreeMap<String, u64>>()
    };
    let (before, overview_before) = (counters(), message_stats());
    assert_eq!(overview_before["publish"], 3);
    assert_eq!(api.ask("DELETE", "/api/vhosts/v", &json!(null)).0, 204);
    assert_eq!(message_stats(), overview_before);
    let after = counters();
    for (name, count) in &before {
        assert!(
            after[name] >= *count,
            "{name}: {count}, then {}",
            after[name]
        );
    }
    let global = |name: &str| {
        let begin = format!("rabbitmq_global_messages_{name}_total");
        let found = after.iter().find(|(name, _)| name.starts_with(&begin));
        found.map(|(_, count)| *count)
    };
    assert_eq!(global("received"), Some(3));
    assert_eq!(global("delivered"), Some(2));
    assert_eq!(global("dead_lettered_rejected"), Some(1));
    assert_eq!(after["rabbitmq_queues_deleted_total"], 1);
}

#[test]
fn queues_that_come_and_go_are_counted_also_in_a_vhost_that_is_gone() {
    let broker = RunningBroker::start(&["--collect-statistics-interval", "300ms"]);
    let api = Api { broker: &broker };
    let counts = |found: &Value| {
        let names = ["queue_declared", "queue_created", "queue_deleted"];
        names.map(|name| found["churn_rates"][name].as_u64().expect("a number"))
    };
    assert_eq!(counts(&api.get("/api/overview")), [0, 0, 0]);
    api.put("/api/vhosts/gone", &json!({}));
    let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
    api.put("/api/permissions/gone/guest", &all);
    for path in ["%2F/a", "%2F/b", "%2F/b", "gone/a"] {
        api.put(&format!("/api/queues/{path}"), &json!({}));
    }
    let none = json!(null);
    assert_eq!(api.ask("DELETE", "/api/queues/%2F/a", &none).0, 204);
    assert_eq!(counts(&api.get("/api/overview")), [4, 3, 1]);
    assert_eq!(api.ask("DELETE", "/api/vhosts/gone", &none).0, 204);
    assert_eq!(counts(&api.get("/api/overview")), [4, 3, 2]);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut number = 0;
    loop {
        number += 1;
        api.put(&format!("/api/queues/%2F/n{number}"), &json!({}));
        let found = api.get("/api/overview");
        let rate = found.pointer("/churn_rates/queue_created_details/rate");
        if rate.and_then(Value::as_f64).is_some_and(|rate| rate > 0.0) {
            break;
        }
        assert!(Instant::now() < deadline, "{found:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_happens_has_rates_which_fall_to_nothing_when_it_ends() {
    let broker = RunningBroker::start(&["--collect-statistics-interval", "300ms"]);
    let api = Api { broker: &broker };
    for queue in ["busy", "growing"] {
        api.put(&format!("/api/queues/%2F/{queue}"), &json!({}));
        let path = format!("/api/bindings/%2F/e/amq.fanout/q/{queue}");
        assert_eq!(api.ask("POST", &path, &json!({})).0, 201);
    }
    let rate = |(path, place): &(&str, &str)| {
        let found = api.get(path);
        let found = found.pointer(&format!("{place}_details/rate")).cloned();
        found.and_then(|rate| rate.as_f64())
    };
    let wait = |is_wanted: fn(&str, Option<f64>) -> bool| {
        let deadline = Instant::now() + Duration::from_mins(1);
        let fits = |place: &(&str, &str)| is_wanted(place.0, rate(place));
        while !RATES.iter().all(fits) {
            let others = RATES.iter().filter(|place| !fits(place));
            let others: Vec<_> = others.map(|place| (place, rate(place))).collect();
            assert!(Instant::now() < deadline, "{others:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let consuming = Talking::start(&broker, &["consume", "busy", "--count", "100000"]);
    let publish = [
        "publish",
        "--exchange",
        "amq.fanout",
        "x",
        "--count",
        "100000",
    ];
    let publishing = Talking::start(&broker, &[&publish[..], &["--rate", "200"]].concat());
    wait(|_, rate| rate.is_some_and(|rate| rate > 0.0));
    let published = rate(&("/api/overview", "/message_stats/publish")).expect("a rate");
    assert!(published < 10_000.0, "{published} a second, not about 200");
    assert_eq!(api.get("/api/overview")["rates_mode"], "basic");
    drop(publishing);
    // The first of the connections may be another one now.
    wait(|path, rate| path == "/api/connections" || rate == Some(0.0));
    drop(consuming);
}

#[test]
fn attempts_to_log_in_are_counted_and_set_back() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let node = api.get("/api/overview")["node"].clone();
    let path = format!("/api/auth/attempts/{}", node.as_str().expect("a name"));
    assert_eq!(api.send_as("nobody", "GET", "/api/whoami", "").0, 401);
    let counts = |tried: &Value| {
        let fields = [
            "auth_attempts",
            "auth_attempts_failed",
            "auth_attempts_succeeded",
        ];
        fields.map(|field| tried[field].as_u64().expect("a number"))
    };
    let seen = api.get(&path);
    assert_eq!(seen[0]["protocol"], "http");
    assert_eq!(counts(&seen[0]), [3, 1, 2]);
    let sources = format!("{path}/source");
    let seen = api.get(&sources);
    assert_eq!(seen[0]["username"], "guest");
    assert_eq!(seen[1]["username"], "nobody");
    assert_eq!(seen[1]["remote_address"], "127.0.0.1");
    assert_eq!(counts(&seen[1]), [1, 1, 0]);
    for path in [&path, &sources] {
        assert_eq!(api.send("DELETE", path, "").0, 204, "{path}");
        assert_eq!(counts(&api.get(path)[0]), [1, 0, 1], "{path}");
    }
    assert_eq!(api.send("GET", "/api/auth/attempts/elsewhere", "").0, 404);
}
