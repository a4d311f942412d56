//! Commands against a broker of our own.

use std::process::{Command, Output};

use serde_json::Value;

use super::{coroner, text};
use crate::support::RunningBroker;
use crate::support::raw::{
    DISPOSITION, Raw, described, frame, map, text as raw_text, transfer, truth, uint,
};

struct Bench {
    broker: RunningBroker,
}

impl Bench {
    fn start() -> Self {
        Self {
            broker: RunningBroker::start(&[]),
        }
    }

    /// Runs a command that manages.
    fn manage(&self, arguments: &[&str]) -> Output {
        let url = format!("http://127.0.0.1:{}", self.broker.http_port);
        coroner(&[arguments, &["--url", &url]].concat(), "")
    }

    /// Runs a command that manages and must succeed; returns what it printed.
    #[track_caller]
    fn managed(&self, arguments: &[&str]) -> String {
        let output = self.manage(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs a client.
    fn client(&self, arguments: &[&str], input: &str) -> Output {
        let url = format!("amqp://127.0.0.1:{}", self.broker.port);
        coroner(&[arguments, &["--url", &url]].concat(), input)
    }

    /// Consumes so many messages that must come, however busy the machine is; returns what was
    /// printed.
    #[track_caller]
    fn consumed(&self, queue: &str, count: &str, more: &[&str]) -> String {
        let consume = ["consume", queue, "--count", count, "--wait", "60"];
        self.talked(&[&consume[..], more].concat(), "")
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

/// `VARIABLE=` in the file of a service named the vhost "", a user without a name, and a file that is not there.
#[test]
fn variables_that_are_empty_count_as_not_given() {
    let bench = Bench::start();
    let names = ["USERNAME", "PASSWORD", "VHOST", "CONFIG", "TLS_CERT_FILE"];
    let output = Command::new(env!("CARGO_BIN_EXE_coroner"))
        .args(["list_queues", "--url"])
        .arg(format!("http://127.0.0.1:{}", bench.broker.http_port))
        .envs(names.map(|name| (format!("CORONERCTL_{name}"), "")))
        .env("HOME", "/nonexistent")
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
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

#[test]
fn a_rejected_message_tells_its_story_where_it_lies() {
    let bench = Bench::start();
    let to_dead = r#"arguments={"x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead"}"#;
    bench.managed(&["declare", "queue", "name=dead"]);
    bench.managed(&["declare", "queue", "name=work", to_dead]);
    let publish = [
        "publish",
        "--queue",
        "work",
        "no \u{1b}order",
        "--durable",
        "--ttl",
        "60000",
        "--message-id",
        "m1",
        "--property",
        "tries:=3",
        "--annotation",
        "x-colour=red",
    ];
    assert_eq!(bench.talked(&publish, ""), "1 accepted\n");
    let shown = bench.consumed("work", "1", &["--outcome", "reject"]);
    for said in [
        "message-id=m1",
        "tries=3",
        "x-colour=red",
        "durable=true",
        "body: no \\u{1b}order",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }

    let told = bench.managed(&["deaths", "dead"]);
    for said in [
        "message 1: work --rejected--> dead\n",
        "published to the default exchange with routing key 'work'",
        "died in work: rejected at 20",
        "with a ttl of 60000 ms",
        "message-id=m1",
        "application properties: tries=3",
        "body, 9 bytes: no \\u{1b}order",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    check_narrowed(&bench);
    let json = bench.managed(&["deaths", "dead", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["deaths"][0]["reason"], "rejected");
    assert_eq!(
        json[0]["deaths"][0]["first_time_ms"],
        json[0]["deaths"][0]["last_time_ms"]
    );
    assert_eq!(json[0]["journey"], "work --rejected--> dead");
    assert_eq!(json[0]["redelivered"], false, "a look changes nothing");

    let shown = bench.consumed("dead", "1", &[]);
    assert!(
        shown.contains("journey: work --rejected--> dead"),
        "{shown}"
    );
    assert!(
        !shown.contains("x-acquired-count"),
        "a look changed nothing: {shown}"
    );
}

/// What narrows down the dead letters of the queue `dead`, which holds one that was rejected.
fn check_narrowed(bench: &Bench) {
    let narrowed = |flags: &[&str]| {
        let told = bench.managed(&[&["deaths", "dead"], flags].concat());
        told.contains("message 1 at position 0: work")
    };
    assert!(narrowed(&["--reason", "rejected", "--queue", "work"]));
    assert!(!narrowed(&["--reason", "expired"]));
    assert!(!narrowed(&["--queue", "dead"]));
    assert!(!narrowed(&["--condition", "app:other"]));
    assert!(narrowed(&["--selector", "tries = 3"]));
    assert!(!narrowed(&["--selector", "tries = 4"]));
    assert!(!narrowed(&["--from", "1"]));
    assert!(narrowed(&["--position", "0"]));
    assert!(!narrowed(&["--body-contains", "what is not in it"]));
    assert!(!narrowed(&["--group", "1:00000000"]));
    let csv = bench.managed(&["deaths", "dead", "--format", "csv"]);
    let [heading, row] = csv
        .lines()
        .collect::<Vec<_>>()
        .try_into()
        .expect("two lines");
    assert!(
        heading.starts_with("position,journey,queue,reason,"),
        "{csv}"
    );
    assert!(
        row.starts_with("0,work --rejected--> dead,work,rejected,"),
        "{csv}"
    );
}

#[test]
fn lines_are_messages_and_released_ones_stay() {
    let bench = Bench::start();
    bench.managed(&["declare", "queue", "name=q"]);
    let printed = bench.talked(&["publish", "--queue", "q", "--lines"], "a\nb\nc");
    assert_eq!(printed, "3 accepted\n");
    let release = [
        "consume",
        "q",
        "--outcome",
        "release",
        "--quiet",
        "--wait",
        "5",
    ];
    assert_eq!(bench.talked(&release, ""), "a\nb\nc\n");
    assert_eq!(bench.consumed("q", "3", &["--quiet"]), "a\nb\nc\n");
    let output = bench.client(&["consume", "q", "--count", "1", "--wait", "0.3"], "");
    assert_eq!(output.status.code(), Some(75), "none is left");
}

/// A body with U+009B, which many terminals read as the begin of a command, was printed as it is.
#[test]
fn a_message_consumed_as_json_is_the_same_and_does_not_steer_a_terminal() {
    let bench = Bench::start();
    bench.managed(&["declare", "queue", "name=q"]);
    let body = "a\u{9b}31mb\u{202e}c";
    bench.talked(&["publish", "--queue", "q", body], "");
    let printed = bench.consumed("q", "1", &["--format", "json"]);
    assert!(!printed.contains(['\u{9b}', '\u{202e}']), "{printed}");
    let message: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(message["body"], body);
}

#[test]
fn a_policy_set_from_the_command_line_dead_letters() {
    let bench = Bench::start();
    bench.managed(&["declare", "exchange", "name=my-dlx", "type=fanout"]);
    bench.managed(&["declare", "queue", "name=dead"]);
    bench.managed(&["declare", "queue", "name=work"]);
    bench.managed(&["declare", "binding", "source=my-dlx", "destination=dead"]);
    let policy = [
        "set-policy",
        "DLX",
        "^work$",
        r#"{"dead-letter-exchange":"my-dlx"}"#,
        "--apply-to",
        "queues",
    ];
    bench.managed(&policy);
    let listed = bench.managed(&["list_policies", "--format", "csv"]);
    assert_eq!(
        listed,
        "vhost,name,pattern,apply-to,definition,priority\n\
         /,DLX,^work$,queues,\"{\"\"dead-letter-exchange\"\":\"\"my-dlx\"\"}\",0\n"
    );
    bench.talked(&["publish", "--queue", "work", "x"], "");
    bench.consumed("work", "1", &["--outcome", "reject"]);
    assert!(
        bench
            .managed(&["deaths", "dead"])
            .contains("work --rejected--> dead")
    );
    bench.managed(&["clear_policy", "DLX"]);
    let output = bench.manage(&["clear_policy", "DLX"]);
    assert_eq!(output.status.code(), Some(66), "{}", text(&output.stderr));
    let columns = ["list_bindings", "source_name", "destination_name"];
    let aligned = bench.managed(&[&columns[..], &["--format", "table"]].concat());
    assert!(aligned.contains("my-dlx       dead\n"), "{aligned}");
    // Scripts made for rabbitmqctl take columns apart at tabs.
    let separated = bench.managed(&columns);
    assert!(
        separated.starts_with("source_name\tdestination_name\n"),
        "{separated}"
    );
    assert!(separated.contains("my-dlx\tdead\n"), "{separated}");
    bench.managed(&["delete", "binding", "source=my-dlx", "destination=dead"]);
    bench.managed(&["purge_queue", "dead"]);
    bench.managed(&["delete_queue", "work", "--if-empty"]);
    assert_eq!(bench.managed(&["list_queues", "name"]), "name\ndead\n");
    assert!(bench.managed(&["check_running"]).starts_with("Coroner "));
}

#[test]
fn a_load_takes_the_queues_at_the_addresses_it_is_told_and_leaves_them() {
    let bench = Bench::start();
    bench.managed(&["declare", "queue", "name=load-0"]);
    let load = |address| {
        let shape = ["bench", "--messages", "100", "--queue-prefix", "ad-"];
        let queues = ["--no-declare", "--queue-address", address, "--json"];
        bench.client(&[&shape[..], &queues[..]].concat(), "")
    };
    for _ in 0..2 {
        let output = load("/queues/lo{name}");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
        assert_eq!(json["finished"], 100, "{json}");
    }
    for (address, code) in [("/queues/{name}", 1), ("/queues/load-0", 64)] {
        let output = load(address);
        assert_eq!(output.status.code(), Some(code), "{address}");
    }
}

/// It waited for half a minute and said nothing.
#[test]
fn who_publishes_into_an_alarm_is_told_so_after_two_seconds() {
    let bench = Bench {
        broker: RunningBroker::start(&["--memory-limit", "1"]),
    };
    bench.managed(&["declare", "queue", "name=q"]);
    while bench.manage(&["check_alarms"]).status.code() != Some(65) {
        std::thread::yield_now();
    }
    let output = bench.client(&["publish", "--queue", "q", "x", "--timeout", "3"], "");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(75), "{stderr}");
    assert!(stderr.contains("no message for 2 s"), "{stderr}");
    assert!(stderr.contains("coroner check_alarms"), "{stderr}");
}

#[test]
fn a_hashed_password_is_one_that_definitions_and_users_take() {
    let bench = Bench::start();
    let file = std::env::temp_dir().join(format!("coroner-hashed-{}.json", std::process::id()));
    let file = file.to_str().expect("a path");
    for (name, algorithm) in [("ada", "sha256"), ("bob", "sha512"), ("eve", "argon2id")] {
        let hash = [
            "hash_password",
            "a secret",
            "--algorithm",
            algorithm,
            "--format",
            "json",
        ];
        let hashed = coroner(&hash, "");
        let mut user: Value = serde_json::from_str(&text(&hashed.stdout)).expect("JSON");
        user["name"] = name.into();
        user["tags"] = "management".into();
        let definitions = serde_json::json!({ "users": [user] }).to_string();
        std::fs::write(file, definitions).expect("a file");
        bench.managed(&["definitions", "import", file]);
        bench.managed(&["authenticate_user", name, "a secret"]);
        let output = bench.manage(&["authenticate_user", name, "another"]);
        assert_eq!(output.status.code(), Some(77), "{}", text(&output.stderr));
    }
    std::fs::remove_file(file).ok();
    // As rabbitmqctl prints it, from standard input: nothing but the hash, salted each time.
    let hash = || text(&coroner(&["hash_password"], "a secret\n").stdout);
    let (one, other) = (hash(), hash());
    assert_eq!((one.lines().count(), one == other), (1, false), "{one}");
}

#[test]
fn global_parameters_are_set_listed_and_cleared() {
    let bench = Bench::start();
    bench.managed(&["set_global_parameter", "site", r#"{"name":"north"}"#]);
    let listed = bench.managed(&["list_global_parameters", "name", "value"]);
    assert!(listed.contains("site\t{\"name\":\"north\"}\n"), "{listed}");
    bench.managed(&["clear_global_parameter", "site"]);
    let output = bench.manage(&["clear_global_parameter", "site"]);
    assert_eq!(output.status.code(), Some(66), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("global parameter"));
    let version = bench.managed(&["version"]);
    assert_eq!(version, concat!(env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn a_report_has_state_settings_and_every_list_and_no_password() {
    let user = ["--user", "ada:not-told", "--max-message-size", "123456"];
    let bench = Bench {
        broker: RunningBroker::start(&user),
    };
    let manage = |arguments: &[&str]| {
        let login = ["--username", "ada", "--password", "not-told"];
        bench.managed(&[arguments, &login].concat())
    };
    manage(&["declare", "queue", "name=to-be-seen"]);
    let environment = manage(&["environment", "--format", "json"]);
    let environment: Value = serde_json::from_str(&environment).expect("JSON");
    assert_eq!(environment["user"], serde_json::json!(["ada:***"]));
    assert_eq!(environment["max-message-size"], "123456");
    for format in ["table", "json"] {
        let report = manage(&["report", "--format", format]);
        for part in ["to-be-seen", "123456", "ada:***", "mem", "amq.topic"] {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert!(!report.contains("not-told"), "{report}");
        let sections = ["vhosts", "permissions", "policies", "queues", "bindings"];
        for section in sections {
            assert!(report.contains(section), "{section}: {report}");
        }
    }
    // Who is no administrator gets what it may see.
    manage(&["add_user", "bob", "bob", "--tags", "management"]);
    let login = ["report", "--username", "bob", "--password", "bob"];
    let report = bench.managed(&login);
    assert!(report.contains("(not shown to this user"), "{report}");
}

#[test]
fn a_check_that_does_not_pass_says_which_alarm_or_listener_it_is_about() {
    let bench = Bench {
        broker: RunningBroker::start(&["--memory-limit", "1"]),
    };
    bench.managed(&["declare", "queue", "name=q"]);
    // The alarm is raised when somebody looks next.
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    let output = loop {
        let output = bench.manage(&["check_alarms"]);
        if !output.status.success() || std::time::Instant::now() > deadline {
            break output;
        }
    };
    assert_eq!(output.status.code(), Some(65), "{}", text(&output.stdout));
    let told = text(&output.stderr);
    assert!(
        told.contains("\n  memory alarm on node coroner@localhost"),
        "{told}"
    );
    let output = bench.manage(&["check_local_alarms", "--format", "json"]);
    let json: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(json["alarms"][0]["resource"], "memory", "{json}");
    let output = bench.manage(&["check_protocol_listener", "amqps"]);
    assert_eq!(output.status.code(), Some(65));
    let told = text(&output.stderr);
    assert!(
        told.contains("missing: amqp/ssl; there are: amqp, http"),
        "{told}"
    );
}

// A value was shown as the Base64 of its section.
#[test]
fn get_shows_values_as_json_and_data_as_text() {
    let bench = Bench::start();
    bench.managed(&["declare", "queue", "name=q"]);
    bench.talked(&["publish", "--queue", "q", "just text"], "");
    let value = map(&[raw_text("order"), uint(5), raw_text("paid"), truth(true)]);
    let mut raw = Raw::begun_as(bench.broker.port, "guest");
    raw.attach_sender(0, "q");
    let body = described(0x77, &value);
    raw.send(&frame(0, 0, &[transfer(0, 0, false, false), body].concat()));
    raw.wait_for(DISPOSITION);
    let shown = bench.managed(&["get", "q", "--count", "2", "--format", "tsv"]);
    let rows: Vec<&str> = shown.lines().collect();
    assert!(rows[1].ends_with("\tjust text"), "{shown}");
    assert!(
        rows[2].ends_with("\t{\"order\":5,\"paid\":true}"),
        "{shown}"
    );
    let json = bench.managed(&["get", "q", "--count", "2", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["payload"], "just text");
    assert_eq!(json[1]["amqp"]["body"]["type"], "map", "{json}");
    assert_eq!(json[1]["amqp"]["body"]["value"]["order"], 5, "{json}");
}

#[test]
fn a_user_with_a_generated_password_logs_in_with_what_was_printed_once() {
    let bench = Bench::start();
    let add = [
        "add_user",
        "admin",
        "--generate",
        "--tags",
        "administrator",
        "-q",
    ];
    let printed = bench.managed(&add);
    let password = printed.trim_end();
    assert_eq!(
        (password.len(), printed.lines().count()),
        (24, 1),
        "{printed}"
    );
    bench.managed(&["authenticate_user", "admin", password]);
    let other = ["add_user", "other", "--generate", "--format", "json"];
    let other: Value = serde_json::from_str(&bench.managed(&other)).expect("JSON");
    assert_ne!(other["password"], password);
    let given = bench.manage(&["add_user", "third", "given", "--generate"]);
    assert_eq!(given.status.code(), Some(64), "{}", text(&given.stderr));
}

#[test]
fn health_needs_no_login_and_fails_by_its_code_where_nothing_answers() {
    let bench = Bench::start();
    let login = ["health", "--username", "nobody", "--password", "wrong"];
    assert!(bench.managed(&login).ends_with(" works\n"));
    let url = format!("http://127.0.0.1:{}", bench.broker.http_port);
    drop(bench);
    let output = coroner(&["health", "--url", &url], "");
    assert_eq!(output.status.code(), Some(69), "{}", text(&output.stderr));
}

/// The queue is of the vhost's own making: nobody has declared it.
#[test]
fn what_gets_nowhere_tells_its_story_in_the_quarantine() {
    let bench = Bench::start();
    bench.managed(&[
        "declare",
        "queue",
        "name=work",
        r#"arguments={"x-dead-letter-exchange": "missing"}"#,
    ]);
    bench.talked(&["publish", "--queue", "work", "no order"], "");
    bench.consumed("work", "1", &["--outcome", "reject"]);
    let queues = bench.managed(&["list_queues", "name", "messages"]);
    assert!(queues.contains("amq.quarantine"), "{queues}");
    let told = bench.managed(&["deaths", "amq.quarantine"]);
    for said in [
        "message 1: work --rejected--> amq.quarantine\n",
        "  quarantined: exchange_missing, sent to exchange missing with routing key 'work'\n",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    let json = bench.managed(&["deaths", "amq.quarantine", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["quarantine"]["cause"], "exchange_missing");
}
