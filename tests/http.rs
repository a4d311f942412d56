//! The HTTP API of the real binary, judged by its own description.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and open sockets"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::RunningBroker;

struct Api<'a> {
    broker: &'a RunningBroker,
}

impl Api<'_> {
    /// Sends a request of guest; its status and its body as text.
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.send_as("guest", method, path, body)
    }

    /// Sends a request of a user whose password is its name.
    fn send_as(&self, user: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let login = STANDARD.encode(format!("{user}:{user}"));
        let mut stream = TcpStream::connect(("127.0.0.1", self.broker.http_port)).expect("HTTP");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Basic \
             {login}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("a request");
        stream.write_all(body.as_bytes()).expect("a body");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        let chunked = head.contains("transfer-encoding: chunked");
        let body = if chunked {
            unchunk(body)
        } else {
            body.to_owned()
        };
        (status.parse().expect("a number"), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, answer) = self.send(method, path, &body.to_string());
        (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.send("GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        serde_json::from_str(&answer).expect("JSON")
    }

    fn put(&self, path: &str, body: &Value) {
        let (status, answer) = self.ask("PUT", path, body);
        assert!([201, 204].contains(&status), "{path}: {status} {answer}");
    }

    fn publish(&self, key: &str, payload: &str) {
        let body = json!({
            "properties": {}, "routing_key": key, "payload": payload, "payload_encoding": "string",
        });
        let path = "/api/exchanges/%2F/amq.default/publish";
        assert_eq!(
            self.ask("POST", path, &body),
            (200, json!({"routed": true}))
        );
    }
}

fn unchunk(body: &str) -> String {
    let mut whole = String::new();
    let mut rest = body;
    while let Some((size, behind)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        whole.push_str(&behind[..size]);
        rest = behind[size..].trim_start_matches("\r\n");
    }
    whole
}

/// One of each thing, under the names with which [`filled`] fills paths.
fn furnish(api: &Api<'_>) {
    api.put("/api/queues/%2F/thing", &json!({"durable": true}));
    api.put("/api/exchanges/%2F/thing", &json!({"type": "topic"}));
    let binding = json!({"routing_key": "key"});
    let path = "/api/bindings/%2F/e/thing/q/thing";
    assert_eq!(api.ask("POST", path, &binding).0, 201);
    let policy = json!({"pattern": "^thing", "definition": {"max-length": 10}});
    api.put("/api/policies/%2F/thing", &policy);
    api.put("/api/operator-policies/%2F/thing", &policy);
    let user = json!({"password": "p", "tags": "management"});
    api.put("/api/users/thing", &user);
    let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
    api.put("/api/permissions/%2F/thing", &rights);
    let topic = json!({"exchange": "thing", "write": ".*", "read": ".*"});
    api.put("/api/topic-permissions/%2F/thing", &topic);
    api.put("/api/global-parameters/thing", &json!({"value": 1}));
    let (status, _) = api.ask(
        "PUT",
        "/api/vhost-limits/%2F/max-connections",
        &json!({"value": 99}),
    );
    assert_eq!(status, 204);
    api.publish("thing", "a message");
}

/// A path of the description with its parameters filled in.
fn filled(path: &str, node: &str, connection: &str) -> String {
    let name = match path.split('/').nth(2) {
        Some("nodes") => node,
        Some("connections") => connection,
        _ => "thing",
    };
    let component = if path.contains("{component}") {
        "policy"
    } else {
        ""
    };
    path.replace("{vhost}", "%2F")
        .replace("{name}", name)
        .replace("{node}", node)
        .replace("{user}", "thing")
        .replace("{source}", "thing")
        .replace("{type}", "q")
        .replace("{destination}", "thing")
        .replace("{props}", "key")
        .replace("{exchange}", "thing")
        .replace("{limit}", "max-connections")
        .replace("{component}", component)
        .replace("{protocol}", "http")
        .replace("{within}", "1")
        .replace("{unit}", "months")
}

/// Whether a value is as a schema of the description says.
fn check(place: &str, schema: &Value, value: &Value) {
    let is = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        other => panic!("{place}: type {other:?}"),
    };
    assert!(is, "{place}: {value} is no {}", schema["type"]);
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("a name");
        let field = value.get(name);
        let field = field.unwrap_or_else(|| panic!("{place}: no field {name} in {value}"));
        check(
            &format!("{place} {name}"),
            &schema["properties"][name],
            field,
        );
    }
    let items = value.as_array().into_iter().flatten();
    for item in items.filter(|_| !schema["items"]["type"].is_null()) {
        check(place, &schema["items"], item);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_described_route_answers_as_described() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    furnish(&api);
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut client = fe2o3_amqp::Connection::open("described", url.as_str())
        .await
        .expect("a connection");
    let connections = api.get("/api/connections");
    let connection = connections[0]["name"].as_str().expect("a name");
    let connection = connection.replace(' ', "%20").replace('>', "%3E");
    let node = api.get("/api/cluster-name")["name"]
        .as_str()
        .expect("a name")
        .to_owned();

    let description = api.get("/api/openapi.json");
    let paths = description["paths"].as_object().expect("paths");
    assert!(paths.len() > 60, "{} paths", paths.len());
    for (template, operations) in paths {
        let path = filled(template, &node, &connection);
        let path = path.replace("{port}", &broker.http_port.to_string());
        let schema =
            &operations["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        if operations.get("get").is_some() {
            assert!(!schema.is_null(), "{path} is not described");
            check(&format!("GET {path}"), schema, &api.get(&path));
        }
        // What changes something is refused for want of a body, by its own handler.
        for method in ["put", "post"] {
            if operations.get(method).is_none() {
                continue;
            }
            let (status, answer) = api.send(&method.to_uppercase(), &path, "[]");
            let answer: Value = serde_json::from_str(&answer).expect("a reason");
            let place = format!("{method} {path}: {answer}");
            assert_eq!(status, 400, "{place}");
            assert!(
                answer["error"].is_string() && answer["reason"].is_string(),
                "{place}"
            );
        }
    }
    client.close().await.expect("a close");
    // Deletions, the container last.
    for (template, operations) in paths {
        if operations.get("delete").is_some() && *template != "/api/vhosts/{vhost}" {
            let path = filled(template, &node, "gone");
            let (status, answer) = api.send("DELETE", &path, "");
            assert!([204, 404].contains(&status), "{path}: {status} {answer}");
        }
    }
}

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
    let deadline = Instant::now() + Duration::from_secs(30);
    while api.get("/api/queues/%2F/long")["messages_paged_out"] == 0 {
        assert!(Instant::now() < deadline, "nothing leaves memory");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut next, mut seen) = (json!(0), 0);
    while next != Value::Null {
        let look = api.get(&format!(
            "/api/queues/%2F/long/messages?from={next}&count=700"
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
        let deadline = Instant::now() + Duration::from_secs(30);
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
    assert!(published < 1_000.0, "{published} a second, not 200");
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

/// A request to a parameter, its status, and a part of the answer.
type Asked = (&'static str, &'static str, Value, u16, &'static str);

#[test]
#[allow(clippy::too_many_lines, reason = "a table: one row for each request")]
fn parameters_are_set_where_rabbitmq_sets_them_and_refused_by_name_elsewhere() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let limits = |value: Value| json!({ "value": value });
    let policy = json!({"value": {"pattern": "^a", "definition": {"max-length": 3}}});
    let asked: &[Asked] = &[
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!({"max-queues": 5})),
            201,
            "",
        ),
        (
            "GET",
            "vhost-limits/%2F/limits",
            Value::Null,
            200,
            r#""value":{"max-queues":5}"#,
        ),
        (
            "GET",
            "vhost-limits/%2F",
            Value::Null,
            200,
            r#""name":"limits""#,
        ),
        ("GET", "", Value::Null, 200, r#""component":"vhost-limits""#),
        // What is not named any more is lifted.
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!({"max-connections": 7})),
            204,
            "",
        ),
        (
            "GET",
            "vhost-limits/%2F/limits",
            Value::Null,
            200,
            r#""value":{"max-connections":7}"#,
        ),
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!({"max-cows": 1})),
            400,
            "'max-cows'",
        ),
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!({"max-queues": "x"})),
            400,
            "'max-queues'",
        ),
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!([])),
            400,
            "is an object",
        ),
        (
            "PUT",
            "vhost-limits/%2F/other",
            limits(json!({})),
            400,
            "not 'other'",
        ),
        (
            "PUT",
            "vhost-limits/nowhere/limits",
            limits(json!({})),
            404,
            "",
        ),
        ("PUT", "operator_policy/%2F/p", policy.clone(), 201, ""),
        ("PUT", "operator_policy/%2F/p", policy.clone(), 204, ""),
        (
            "GET",
            "operator_policy/%2F/p",
            Value::Null,
            200,
            r#""max-length":3"#,
        ),
        (
            "PUT",
            "operator_policy/%2F/p",
            limits(json!({"pattern": "("})),
            400,
            "definition",
        ),
        (
            "PUT",
            "policy/%2F/p",
            policy.clone(),
            400,
            "may not be set using this method",
        ),
        ("PUT", "policy/%2F/p", json!({}), 400, "key_missing,value"),
        (
            "PUT",
            "shovel/%2F/s",
            limits(json!({})),
            400,
            "component shovel not found",
        ),
        ("GET", "shovel/%2F/s", Value::Null, 404, ""),
        ("GET", "shovel/%2F", Value::Null, 200, "[]"),
        ("DELETE", "shovel/%2F/s", Value::Null, 404, ""),
        ("DELETE", "operator_policy/%2F/p", Value::Null, 204, ""),
        ("DELETE", "operator_policy/%2F/p", Value::Null, 404, ""),
        ("DELETE", "vhost-limits/%2F/limits", Value::Null, 204, ""),
        ("GET", "vhost-limits/%2F/limits", Value::Null, 404, ""),
        ("GET", "", Value::Null, 200, "[]"),
    ];
    for (method, path, body, status, part) in asked {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let path = format!("/api/parameters/{path}");
        let answer = api.send(method, path.trim_end_matches('/'), &body);
        assert_eq!(answer.0, *status, "{method} {path} {body}: {}", answer.1);
        assert!(
            answer.1.contains(part),
            "{method} {path} {body}: {}",
            answer.1
        );
    }
}

#[test]
fn queues_are_listed_by_page_and_as_a_stream() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for number in 0..600 {
        api.put(&format!("/api/queues/%2F/q{number:04}"), &json!({}));
    }
    let page = api.get("/api/queues?page=3&page_size=200&columns=name");
    assert_eq!(page["total_count"], 600);
    assert_eq!(page["items"][0], json!({"name": "q0400"}));
    assert_eq!(page["items"][199], json!({"name": "q0599"}));
    let found = api.get("/api/queues/%2F?page=1&name=^q05.9$&use_regex=true&sort_reverse=true");
    assert_eq!(found["filtered_count"], 10);
    assert_eq!(found["items"][0]["name"], "q0599");
    let all = api.get("/api/queues");
    assert_eq!(all.as_array().map(Vec::len), Some(600));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_closes_a_connection_and_its_client_is_told_why() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut client = fe2o3_amqp::Connection::open("closed", url.as_str())
        .await
        .expect("a connection");
    let listed = api.get("/api/vhosts/%2F/connections");
    assert_eq!(listed[0]["container_id"], "closed");
    assert_eq!(listed[0]["user"], "guest");
    let name = listed[0]["name"].as_str().expect("a name");
    let name = name.replace(' ', "%20").replace('>', "%3E");
    assert_eq!(
        api.send("DELETE", &format!("/api/connections/{name}"), "")
            .0,
        204
    );
    let error = client.on_close().await.expect_err("closed by the broker");
    assert!(
        format!("{error:?}").contains("connection:forced")
            || format!("{error:?}").contains("ConnectionForced"),
        "{error:?}"
    );
    // The client shows the description with its quotes escaped.
    let words = r#"Connection forced: \"Closed via management plugin\""#;
    assert!(format!("{error}").contains(words), "{error}");
}

const TAGS: [&str; 5] = [
    "administrator",
    "monitoring",
    "policymaker",
    "management",
    "none",
];

/// What each tag and the permissions of a vhost open, as measured on RabbitMQ 4.0.5. Policymaker and
/// management have permissions on names with `mine`, the others have none.
#[test]
fn who_may_do_what_is_as_in_rabbitmq() {
    let policy = r#"{"pattern": "^a", "definition": {"max-length": 1}}"#;
    let get = r#"{"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}"#;
    let matrix: [(&str, &str, &str, [u16; 5]); 13] = [
        ("GET", "/api/overview", "", [200, 200, 200, 200, 401]),
        ("GET", "/api/nodes", "", [200, 200, 401, 401, 401]),
        ("GET", "/api/users", "", [200, 401, 401, 401, 401]),
        ("GET", "/api/queues/%2F", "", [200, 401, 200, 200, 401]),
        ("GET", "/api/queues/gone/q", "", [404, 404, 404, 404, 401]),
        ("GET", "/api/parameters", "", [200, 401, 200, 401, 401]),
        (
            "PUT",
            "/api/queues/%2F/mine",
            "{}",
            [401, 401, 201, 204, 401],
        ),
        (
            "PUT",
            "/api/queues/%2F/other",
            "{}",
            [401, 401, 401, 401, 401],
        ),
        (
            "POST",
            "/api/queues/%2F/mine/get",
            get,
            [401, 401, 200, 200, 401],
        ),
        (
            "DELETE",
            "/api/queues/%2F/mine/contents",
            "",
            [401, 401, 204, 204, 401],
        ),
        (
            "PUT",
            "/api/policies/%2F/p",
            policy,
            [201, 401, 204, 401, 401],
        ),
        (
            "PUT",
            "/api/operator-policies/%2F/p",
            policy,
            [201, 401, 401, 401, 401],
        ),
        ("PUT", "/api/vhosts/new", "{}", [201, 401, 401, 401, 401]),
    ];
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for tag in TAGS {
        let tags = if tag == "none" { "" } else { tag };
        let user = json!({"password": tag, "tags": tags});
        api.put(&format!("/api/users/{tag}"), &user);
    }
    for user in ["policymaker", "management"] {
        let rights = json!({"configure": "^mine", "write": "^mine", "read": "^mine"});
        api.put(&format!("/api/permissions/%2F/{user}"), &rights);
    }
    for (method, path, body, expect) in matrix {
        let found = TAGS.map(|user| api.send_as(user, method, path, body).0);
        assert_eq!(found, expect, "{method} {path} by {TAGS:?}");
    }
}

#[test]
fn a_full_vhost_refuses_a_queue_in_rabbitmqs_words() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/vhost-limits/%2F/max-queues", &json!({"value": 1}));
    api.put("/api/queues/%2F/a", &json!({}));
    let why = "cannot declare queue 'b': queue limit in vhost '/' (1) is reached";
    assert_eq!(
        api.ask("PUT", "/api/queues/%2F/b", &json!({})),
        (400, json!({"error": "bad_request", "reason": why}))
    );
    api.put("/api/queues/%2F/a", &json!({}));
    api.put("/api/vhost-limits/%2F/max-queues", &json!({"value": -1}));
    api.put("/api/queues/%2F/b", &json!({}));
}

/// As measured on RabbitMQ 4.0.5 (`interop/rights`).
#[test]
fn keys_of_a_topic_exchange_are_bound_by_who_may_read_them() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/q", &json!({}));
    let user = json!({"password": "ada", "tags": "management"});
    api.put("/api/users/ada", &user);
    let rights = json!({"configure": "", "write": ".*", "read": ".*"});
    api.put("/api/permissions/%2F/ada", &rights);
    let topics = json!({"exchange": "amq.topic", "write": ".*", "read": "^ada\\."});
    api.put("/api/topic-permissions/%2F/ada", &topics);
    for (exchange, key, status) in [
        ("amq.topic", "ada.a", 201),
        ("amq.topic", "bob.a", 401),
        ("amq.direct", "bob.a", 201),
    ] {
        let path = format!("/api/bindings/%2F/e/{exchange}/q/q");
        let body = json!({"routing_key": key}).to_string();
        let (found, answer) = api.send_as("ada", "POST", &path, &body);
        assert_eq!(found, status, "{exchange} {key}: {answer}");
    }
    let bound = json!({"routing_key": "bob.a"});
    assert_eq!(
        api.ask("POST", "/api/bindings/%2F/e/amq.topic/q/q", &bound)
            .0,
        201
    );
    let path = "/api/bindings/%2F/e/amq.topic/q/q/bob.a";
    assert_eq!(api.send_as("ada", "DELETE", path, "").0, 401);
}
