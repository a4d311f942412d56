//! What an operator sees of a broker: metrics, health, signals, logs.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and read clocks"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use coroner::base::invariant::Place;
use coroner::metrics::Detail;
use coroner::{Broker, Settings};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

/// The value of a sample of the text form.
fn sample(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

#[tokio::test]
async fn metrics_tell_what_happened_to_a_message_that_was_rejected() {
    let settings = Settings {
        amqp: Vec::new(),
        auto_create: vec!["#".to_owned()],
        in_memory: true,
        ..Settings::default()
    };
    let broker = Broker::builder().settings(settings).start().await.unwrap();
    let mut connection = Connection::builder()
        .container_id("test")
        .sasl_profile(SaslProfile::Plain {
            username: "guest".into(),
            password: "guest".into(),
        })
        .open_with_stream(broker.connect())
        .await
        .unwrap();
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "work").await.unwrap();
    sender.send("bad").await.unwrap().accepted_or("").unwrap();
    let mut receiver = Receiver::attach(&mut session, "r", "work").await.unwrap();
    let delivery = receiver.recv::<String>().await.unwrap();
    let open = broker.metrics(Detail::Queues);
    receiver.reject(&delivery, None).await.unwrap();
    sender.send("good").await.unwrap().accepted_or("").unwrap();
    let text = broker.metrics(Detail::Vhosts);
    let check =
        |text: &str, name: &str, expect| assert_eq!(sample(text, name), Some(expect), "{name}");
    check(&open, "coroner_connections", 1);
    check(&open, "coroner_sessions{vhost=\"/\"}", 1);
    check(&open, "coroner_links{role=\"publisher\"}", 1);
    check(&open, "coroner_links{role=\"consumer\"}", 1);
    check(
        &open,
        "coroner_queue_messages{vhost=\"/\",queue=\"work\",state=\"held\"}",
        1,
    );
    check(&text, "coroner_messages_published_total{vhost=\"/\"}", 2);
    let rejected = "coroner_delivery_outcomes_total{vhost=\"/\",outcome=\"rejected\"}";
    check(&text, rejected, 1);
    let dead = "coroner_dead_letters_total{vhost=\"/\",queue=\"work\",reason=\"rejected\",\
                outcome=\"dropped\"}";
    check(&text, dead, 1);
    let dropped = "coroner_messages_dropped_total{vhost=\"/\",reason=\"rejected\",\
                   cause=\"no_dead_letter_exchange\"}";
    check(&text, dropped, 1);
    connection.close().await.unwrap();
    broker.stop().await;
}

/// `coroner serve` in a process of its own, with all it prints in one channel; killed when dropped.
pub struct Process {
    pub child: Child,
    lines: mpsc::Receiver<String>,
    pub amqp: u16,
    pub http: SocketAddr,
}

impl Process {
    /// Starts it with these arguments and variables, and waits until it listens.
    pub fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_coroner"))
            .args(["serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--in-memory"])
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, lines) = mpsc::channel();
        forward(child.stdout.take().unwrap(), say.clone());
        forward(child.stderr.take().unwrap(), say);
        let mut process = Self {
            child,
            lines,
            amqp: 0,
            http: ([127, 0, 0, 1], 0).into(),
        };
        let line = process.line("listening amqp ");
        let port = line.rsplit(':').next().unwrap();
        process.amqp = port.parse().unwrap();
        let line = process.line("listening http ");
        let address = line.strip_prefix("listening http ").unwrap();
        process.http = address.parse().unwrap();
        process
    }

    /// The next line with this in it.
    pub fn line(&self, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no line with '{part}'"));
            if line.contains(part) {
                return line;
            }
        }
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(killed.success());
    }

    /// Asks by HTTP: status line and headers, and the body.
    fn get(&self, path: &str, header: &str) -> (String, String) {
        self.ask("GET", path, header, "")
    }

    /// Sends a request: status line and headers, and the body of the answer.
    fn ask(&self, method: &str, path: &str, header: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.http).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// How long something may take that takes milliseconds on a quiet machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn forward(from: impl Read + Send + 'static, to: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

/// What release builds do at a place that cannot be reached; debug builds panic there.
#[tokio::test]
async fn broken_invariants_are_counted_in_the_metrics_over_http() {
    static PLACE: Place = Place::new("src/somewhere.rs", 7, "nothing comes here");
    const NAME: &str = "coroner_invariants_broken_total ";
    let settings = Settings {
        amqp: Vec::new(),
        http: "127.0.0.1:0".parse().unwrap(),
        in_memory: true,
        ..Settings::default()
    };
    let broker = Broker::builder().settings(settings).start().await.unwrap();
    let address = broker.http_address().unwrap();
    let metrics = async || {
        let ask = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            sample(&answer, NAME).expect(NAME)
        };
        tokio::task::spawn_blocking(ask).await.unwrap()
    };
    let before = metrics().await;
    assert!(PLACE.report(), "the first time it is told");
    assert!(!PLACE.report());
    assert_eq!(metrics().await, before + 2);
}

#[test]
fn health_and_metrics_are_answered_without_a_login_unless_metrics_want_one() {
    let open = Process::start(&[], &[]);
    let (head, body) = open.get("/health", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, r#"{"status":"ok"}"#);
    for (path, name) in [
        ("/metrics/rabbitmq", "rabbitmq_queue_messages_ready"),
        ("/metrics/rabbitmq", "rabbitmq_connections"),
        (
            "/metrics/detailed",
            "rabbitmq_detailed_queue_messages_ready{vhost=\"/\",queue=\"other\"}",
        ),
        ("/metrics", "coroner_memory_limit_bytes"),
        ("/metrics", "process_open_fds"),
        ("/metrics", "process_start_time_seconds"),
    ] {
        let (head, body) = open.get(path, "");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(sample(&body, name).is_some(), "{path} {name}: {body}");
    }
    for path in ["/metrics", "/metrics/per-object"] {
        let (head, body) = open.get(path, "");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(
            head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
            "{head}"
        );
        assert_eq!(sample(&body, "coroner_vhost_up{vhost=\"/\"}"), Some(1));
    }
    let closed = Process::start(&["--metrics-login"], &[]);
    let (head, _) = closed.get("/metrics", "");
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    let guest = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
    let (head, _) = closed.get("/metrics", guest);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let (head, _) = closed.get("/health", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}

/// A file in a folder of its own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("coroner-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn systemd_hears_ready_watchdog_reloading_and_stopping() {
    let folder = Folder::new("notify");
    let path = folder.path("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = |word: &str| {
        let mut buffer = [0; 256];
        loop {
            let length = socket.recv(&mut buffer).expect(word);
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.lines().any(|line| line == word) {
                return text;
            }
        }
    };
    let variables = [("NOTIFY_SOCKET", &*path), ("WATCHDOG_USEC", "400000")];
    let mut process = Process::start(&[], &variables);
    hear("READY=1");
    hear("WATCHDOG=1");
    hear("WATCHDOG=1");
    process.signal("-HUP");
    assert!(hear("RELOADING=1").contains("MONOTONIC_USEC="));
    hear("READY=1");
    process.signal("-TERM");
    hear("STOPPING=1");
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_sighup_changes_what_can_be_changed_and_names_what_cannot() {
    let folder = Folder::new("reload");
    let file = folder.path("coroner.toml");
    std::fs::write(&file, "log = \"warn\"\n").unwrap();
    let process = Process::start(&["--config", &file], &[]);
    let more = "log = \"info\"\nvhost = [\"new\"]\nworkers = 3\nmemory-limit = \"7MiB\"\n";
    let memory_limit = || {
        let (_, nodes) = process.get("/api/nodes", "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n");
        let nodes: serde_json::Value = serde_json::from_str(&nodes).unwrap();
        nodes[0]["mem_limit"].as_u64()
    };
    assert_eq!(memory_limit(), Some(2 << 30));
    std::fs::write(&file, more).unwrap();
    process.signal("-HUP");
    process.line("the log follows the settings");
    process.line("vhosts, users and permissions were loaded");
    let line = process.line("this setting holds from now on");
    assert!(line.contains("memory-limit"), "{line}");
    assert_eq!(memory_limit(), Some(7 << 20));
    // The budget, 128 MiB, would never be reached: half of the limit is in force.
    let line = process.line("memory-budget is more than half of memory-limit");
    assert!(line.contains(&(7_u64 << 19).to_string()), "{line}");
    let (_, text) = process.get("/metrics", "");
    let budget = sample(&text, "coroner_memory_budget_bytes");
    assert_eq!(budget, Some(7 << 19));
    let line = process.line("this setting changes at the next start only");
    assert!(line.contains("workers"), "{line}");
    let (_, text) = process.get("/metrics", "");
    assert_eq!(sample(&text, "coroner_vhost_up{vhost=\"new\"}"), Some(1));
    std::fs::write(&file, "workers = \"many\"\n").unwrap();
    process.signal("-HUP");
    let line = process.line("all stay as they are");
    assert!(line.contains("workers"), "{line}");
    let (head, _) = process.get("/health", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}

/// How a request with a body is written for [`Process::ask`].
const GUEST: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\ncontent-type: application/json\r\n";

#[test]
fn the_level_of_the_log_is_set_over_http_and_a_bad_one_is_refused_by_name() {
    let process = Process::start(&["--stats-interval", "100ms"], &[]);
    let (_, level) = process.get("/api/log-level", GUEST);
    assert_eq!(level, r#"{"level":"info"}"#);
    for (level, said) in [
        ("loud", "'loud' is none of the levels off, error, warn"),
        ("warn,coroner::server=loud", "'loud' is none of the levels"),
        ("coroner::server", "'coroner::server' is none of the levels"),
        (&"debug,".repeat(200), "at most 1024 bytes"),
    ] {
        let body = format!(r#"{{"level":"{level}"}}"#);
        let (head, answer) = process.ask("PUT", "/api/log-level", GUEST, &body);
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        assert!(answer.contains(said), "{answer}");
    }
    let (head, _) = process.ask("PUT", "/api/log-level", GUEST, r#"{"level":"warning"}"#);
    assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
    let (_, level) = process.get("/api/log-level", GUEST);
    assert_eq!(level, r#"{"level":"warn"}"#);
    let debug = r#"{"level":"info,coroner::stats=debug"}"#;
    process.ask("PUT", "/api/log-level", GUEST, debug);
    process.line("the log follows the HTTP API");
    process.line("coroner::stats: connections=");
}

/// It came once a minute at the level info, and filled logs with figures that nobody had asked for.
#[test]
fn the_line_of_statistics_is_logged_at_the_level_debug_only() {
    // Both declare queues, which changes the statistics, until the one that tells has told.
    let start = |level| Process::start(&["--stats-interval", "10ms", "--log", level], &[]);
    let (told, untold) = (start("debug"), start("info"));
    for number in 0..50 {
        let queue = format!("/api/queues/%2F/q{number}");
        for process in [&told, &untold] {
            let (head, _) = process.ask("PUT", &queue, GUEST, "{}");
            assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
        }
    }
    told.line("coroner::stats: connections=");
    untold.signal("-TERM");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = untold.lines.recv_timeout(left).expect("a last line");
        assert!(!line.contains("coroner::stats"), "{line}");
        if line.contains("stopped, nothing is kept") {
            break;
        }
    }
}

#[test]
fn metrics_name_the_queues_that_take_dead_letters_and_count_what_is_taken_over_http() {
    let process = Process::start(&[], &[]);
    let post = |path: &str, body: &str| {
        let (head, answer) = process.ask("POST", path, GUEST, body);
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head} {answer}");
    };
    for (queue, arguments) in [
        ("dead", "{}"),
        (
            "full",
            r#"{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead","x-max-length":1}"#,
        ),
    ] {
        let body = format!("{{\"arguments\":{arguments}}}");
        process.ask("PUT", &format!("/api/queues/%2F/{queue}"), GUEST, &body);
    }
    for _ in 0..3 {
        let message =
            r#"{"properties":{},"routing_key":"full","payload":"x","payload_encoding":"string"}"#;
        post("/api/exchanges/%2F/amq.default/publish", message);
    }
    let sampled = |path: &str, name: &str| {
        let (_, text) = process.get(path, "");
        sample(&text, name).unwrap_or_else(|| panic!("no {name}: {text}"))
    };
    let depth = "coroner_dead_letter_queue_messages{vhost=\"/\",queue=\"dead\",state=\"ready\"}";
    assert_eq!(sampled("/metrics", depth), 2);
    let rest = depth.replace("dead\",state", "other\",state");
    assert_eq!(sampled("/metrics", &rest), 0, "'full' took none");
    let get = |queue: &str, mode: &str| {
        let body = format!(r#"{{"count":5,"encoding":"auto","ackmode":"{mode}"}}"#);
        post(&format!("/api/queues/%2F/{queue}/get"), &body);
    };
    get("dead", "ack_requeue_true");
    get("dead", "ack_requeue_false");
    get("dead", "ack_requeue_false");
    for (name, expect) in [
        ("delivered_get_manual_ack", 2),
        ("delivered_get_auto_ack", 2),
        ("get_empty", 1),
        ("redelivered", 2),
        ("received_confirm", 3),
    ] {
        let name = format!("rabbitmq_global_messages_{name}_total{{protocol=\"amqp10\"}}");
        assert_eq!(sampled("/metrics/rabbitmq", &name), expect, "{name}");
    }
}

/// Policies of a file were judged before its exchanges and bindings were there: each import warned of
/// exchanges that came with the next items.
#[test]
fn definitions_are_judged_once_all_of_them_are_there() {
    let process = Process::start(&[], &[]);
    let definitions = serde_json::json!({
        "policies": [
            {"vhost": "/", "name": "good", "pattern": "^orders$", "apply-to": "queues",
             "definition": {"dead-letter-exchange": "dlx"}},
            {"vhost": "/", "name": "lost", "pattern": "^never$", "apply-to": "queues",
             "definition": {"dead-letter-exchange": "nowhere"}},
        ],
        "exchanges": [
            {"vhost": "/", "name": "dlx", "type": "fanout", "durable": true, "auto_delete": false,
             "internal": false, "arguments": {}},
        ],
        "queues": [
            {"vhost": "/", "name": "early", "durable": true, "auto_delete": false,
             "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}},
            {"vhost": "/", "name": "late", "durable": true, "auto_delete": false,
             "arguments": {"x-dead-leter-exchange": "dlx"}},
        ],
        "bindings": [
            {"source": "dlx", "vhost": "/", "destination": "late", "destination_type": "queue",
             "routing_key": "", "arguments": {}},
        ],
    });
    let (head, answer) = process.ask("POST", "/api/definitions", GUEST, &definitions.to_string());
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let told = [
        "policy 'lost' in vhost '/': DL001: dead-letter-exchange: there is no exchange 'nowhere'",
        "queue 'late' in vhost '/': x-dead-leter-exchange: no effect, there is no such \
         argument; did you mean 'x-dead-letter-exchange'?",
    ];
    assert_eq!(answer["warnings"], serde_json::json!(told));
    // The log has the same two, and no other.
    let mut logged = Vec::new();
    loop {
        let line = process.line("");
        if line.contains("definitions imported") {
            break;
        }
        if line.contains("WARN") && !line.contains("audit") {
            logged.push(line);
        }
    }
    assert_eq!(logged.len(), 2, "{logged:?}");
    assert!(
        logged[0].contains("there is no exchange 'nowhere'"),
        "{logged:?}"
    );
}

/// The trick of `RabbitMQ`'s users, and the same in a definitions file, where the queue of work comes
/// behind the policy that expires its dead letters back.
#[test]
fn a_policy_that_expires_dead_letters_back_is_warned_of_by_its_rule() {
    let process = Process::start(&[], &[]);
    let work = r#"{"arguments": {"x-max-length": 5, "x-dead-letter-exchange": "",
                   "x-dead-letter-routing-key": "orders.dlq"}}"#;
    process.ask("PUT", "/api/queues/%2F/orders.dlq", GUEST, "{}");
    process.ask("PUT", "/api/queues/%2F/orders", GUEST, work);
    let again = r#"{"pattern": "^orders.dlq$", "apply-to": "queues", "definition":
                    {"message-ttl": 60000, "dead-letter-exchange": "",
                     "dead-letter-routing-key": "orders"}}"#;
    let told = "DL004: dead letters go in a circle by themselves, orders -> orders.dlq -> orders: \
                what died in 'orders' without a rejection (maxlen) is quarantined in 'orders.dlq' \
                instead of coming back; to move dead letters back use 'coroner redrive orders.dlq'";
    for kind in ["policies", "operator-policies"] {
        let (path, operator) = (format!("/api/{kind}/%2F/again"), kind != "policies");
        // An operator policy does not say where to: the argument or the policy does.
        let body = again.replace("\"dead-letter-exchange\": \"\",", "");
        let body = if operator { &body } else { again };
        let (head, _) = process.ask("PUT", &path, GUEST, body);
        assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
        assert!(head.contains(told), "{head}");
        process.line("DL004");
    }
    let definitions = serde_json::json!({
        "policies": [
            {"vhost": "/", "name": "wait", "pattern": "^jobs.wait$", "apply-to": "queues",
             "definition": {"message-ttl": 60000, "dead-letter-exchange": "",
                            "dead-letter-routing-key": "jobs"}},
        ],
        "queues": [
            {"vhost": "/", "name": "jobs.wait", "durable": true, "auto_delete": false,
             "arguments": {}},
            {"vhost": "/", "name": "jobs", "durable": true, "auto_delete": false,
             "arguments": {"x-message-ttl": 60000, "x-dead-letter-exchange": "",
                           "x-dead-letter-routing-key": "jobs.wait"}},
        ],
    });
    let (_, answer) = process.ask("POST", "/api/definitions", GUEST, &definitions.to_string());
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let warnings = answer["warnings"].as_array().unwrap();
    let told = |item: &str, path: &str| {
        let texts = warnings.iter().map(|one| one.as_str().unwrap());
        let mut texts = texts.filter(|one| one.starts_with(item) && one.contains("DL004"));
        assert!(texts.any(|one| one.contains(path)), "{warnings:?}");
    };
    told("policy 'wait'", "jobs -> jobs.wait -> jobs:");
    told("queue 'jobs'", "jobs.wait -> jobs -> jobs.wait:");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

/// A container beside a Kubernetes service of this name did not start.
#[test]
fn a_broker_starts_beside_variables_that_are_none_of_its_own_and_warns_of_them() {
    let variables = [
        ("CORONER_PORT", "tcp://10.0.0.1:5672"),
        ("CORONER_CHANEL_MAX", "secret-value"),
        ("CORONER_STRICT", "yes"),
    ];
    drop(Process::start(&[], &variables));
    let output = Command::new(env!("CARGO_BIN_EXE_coroner"))
        .args(["serve", "--in-memory", "--definitions", "missing.json"])
        .envs(variables)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines + &String::from_utf8(output.stderr).unwrap();
    assert!(
        lines.contains("did you mean CORONER_CHANNEL_MAX?"),
        "{lines}"
    );
    assert!(
        lines.contains("CORONER_PORT do not set anything"),
        "{lines}"
    );
    assert!(!lines.contains("secret-value"), "{lines}");
}

/// The start ended with where it listens, and the end with nothing.
#[test]
fn a_start_says_what_to_do_next_and_a_stop_that_all_is_kept() {
    let folder = Folder::new("welcome");
    let data = folder.path("data");
    let mut child = Command::new(env!("CARGO_BIN_EXE_coroner"))
        .args(["serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .args(["--data", &data])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ready = String::new();
    for line in lines.map_while(Result::ok) {
        ready = line;
        if ready.contains("is ready") {
            break;
        }
    }
    for said in [
        env!("CARGO_PKG_VERSION"),
        "connect to 127.0.0.1:",
        "as user guest, password guest",
        "from this machine only",
        "http://127.0.0.1:",
        "coroner --help",
    ] {
        assert!(ready.contains(said), "{said}: {ready}");
    }
    let id = child.id().to_string();
    Command::new("kill").args(["-TERM", &id]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    let last = log.lines().last().unwrap_or_default();
    assert!(last.ends_with("stopped, all synced"), "{log}");
}

#[test]
fn the_address_of_the_api_answers_a_browser_without_a_login() {
    let process = Process::start(&[], &[]);
    let (head, _) = process.get("/", "");
    assert!(head.starts_with("HTTP/1.1 303 "), "{head}");
    assert!(head.contains("location: /ui/"), "{head}");
    let (head, _) = process.get("/ui/", "");
    assert!(head.contains("location: /ui/session?next="), "{head}");
    let (head, body) = process.get("/ui/session", "accept: text/html\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(body.contains("Log in"), "{body}");
    let process = Process::start(&["--ui", "off"], &[]);
    let (head, body) = process.get("/", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        body.contains("coroner --help") && body.contains("/api/"),
        "{body}"
    );
}

/// A policy with a misspelled key was left out with a line in the log, and the broker ran without it.
#[test]
fn a_start_whose_definitions_have_a_refused_policy_fails_and_names_the_key() {
    let folder = Folder::new("refused-policy");
    let file = folder.path("definitions.json");
    let policy = r#"{"policies": [{"vhost": "/", "name": "p", "pattern": ".*",
                     "definition": {"max-lenght": 5}}]}"#;
    std::fs::write(&file, policy).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_coroner"))
        .args([
            "serve",
            "--amqp",
            "127.0.0.1:0",
            "--http",
            "off",
            "--in-memory",
        ])
        .args(["--definitions", &file])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("did you mean 'max-length'?"), "{told}");
}

#[test]
fn each_line_of_a_json_log_is_an_object() {
    let mut process = Process::start(&["--log-format", "json", "--log", "info"], &[]);
    process.signal("-TERM");
    let line = process.line("\"stopping\"");
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["message"], "stopping");
    assert_eq!(event["signal"], "SIGTERM");
    assert_eq!(event["level"], "INFO");
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
}

/// Some bad settings ended with 1, after which systemd tries again, for ever.
#[test]
fn a_bad_setting_ends_with_64_and_what_may_pass_with_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let folder = Folder::new("settings");
    let bad = folder.path("definitions.json");
    std::fs::write(&bad, "{").unwrap();
    let check = |arguments: &[&str], code: i32, said: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coroner"));
        command.args([
            "serve",
            "--in-memory",
            "--http",
            "off",
            "--amqp",
            "127.0.0.1:0",
        ]);
        let output = crate::support::run_to_end(command.args(arguments), PATIENCE);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    };
    check(&["--log", "warn,=loud=x"], 64, "'log'");
    check(&["--permission", "nobody / .* .* .*"], 64, "nobody");
    check(&["--permission", "guest / ( .* .*"], 64, "permission");
    check(
        &["--definitions", "/nonexistent/definitions.json"],
        64,
        "/nonexistent/definitions.json",
    );
    check(&["--definitions", &bad], 64, "not JSON");
    check(
        &[
            "--tls-certificate",
            "/nonexistent/c.pem",
            "--tls-key",
            "/nonexistent/k.pem",
            "--amqps",
            "127.0.0.1:0",
        ],
        64,
        "c.pem",
    );
    check(&["--user", ":empty"], 64, "user");
    check(&["--amqp", &taken], 1, &taken);
}

/// Of the figures that systemd gives to a unit 3.7 was ours; what is taken away here is not given back.
#[test]
fn the_unit_is_hardened() {
    let unit = crate::support::repository("contrib/coroner.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    for line in [
        "UMask=0077",
        "PrivateUsers=yes",
        "ProtectSystem=strict",
        "ProtectKernelLogs=yes",
        "CapabilityBoundingSet=",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged",
        "RestartPreventExitStatus=64",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}");
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--threshold=20", "--no-pager"]);
    match analyze.arg(&unit).output() {
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{told}");
        }
        // Where there is no systemd, the lines above have to do.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
}

#[test]
fn a_client_that_speaks_another_protocol_is_named_once_with_what_it_should_do() {
    let process = Process::start(&["--log-format", "json"], &[]);
    let say = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", process.amqp)).unwrap();
        stream.write_all(bytes).unwrap();
        // The broker says what it speaks, and closes.
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        assert!(answer.starts_with(b"AMQP\x03\x01\x00\x00"), "{answer:?}");
    };
    let check = |bytes: &[u8], protocol: &str, advice: &str| {
        say(bytes);
        say(bytes);
        let line = process.line("another protocol");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["protocol"], protocol, "once");
        assert!(line["advice"].as_str().unwrap().contains(advice), "{line}");
    };
    check(b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1", "AMQP 1.0");
    check(b"GET / HTTP/1.1\r\n\r\n", "HTTP", "15672");
    check(&[0x16, 3, 1, 0, 200, 1, 0, 0, 196], "TLS", "--amqps");
}
