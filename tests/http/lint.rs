//! The linter over HTTP: what is there, and what would be there.

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

fn told(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().expect("findings");
    let told = findings.iter().map(|finding| {
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        format!(
            "{} {} {}",
            text(&finding["rule"]),
            text(&finding["object"]["name"]),
            text(&finding["witness"]["outcome"])
        )
    });
    told.collect()
}

#[test]
fn the_topology_of_a_running_broker_is_looked_at_and_so_is_what_would_be_added() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put(
        "/api/queues/%2F/orders",
        &json!({"arguments": {"x-dead-letter-exchange": "dead"}}),
    );
    let report = api.get("/api/lint/%2F");
    assert_eq!(told(&report), ["DL001 orders kept in amq.quarantine"]);
    assert_eq!(report["warnings"], 1);
    // For a RabbitMQ, which has no quarantine, it is worse.
    let report = api.get("/api/lint?for=rabbitmq");
    assert_eq!(told(&report), ["DL001 orders dropped (exchange_missing)"]);
    assert_eq!(report["errors"], 1);

    let more = json!({
        "exchanges": [{"name": "dead", "type": "fanout", "durable": true}],
        "queues": [{"name": "parked", "durable": true, "arguments": {"x-max-length": 9,
            "x-overflow": "reject-publish"}}],
        "bindings": [{"source": "dead", "destination": "parked", "destination_type": "queue",
            "routing_key": "", "arguments": {}}],
    });
    let (status, after) = api.ask("POST", "/api/lint/%2F", &more);
    assert_eq!((status, told(&after)), (200, Vec::<String>::new()));
    // Nothing was imported.
    assert_eq!(told(&api.get("/api/lint/%2F")).len(), 1);

    let ignore =
        json!({"value": {"ignore": [{"rule": "DL001", "object": "orders", "why": "soon"}]}});
    api.put("/api/global-parameters/lint", &ignore);
    let report = api.get("/api/lint");
    assert_eq!((told(&report).len(), &report["silenced"]), (0, &json!(1)));
}

#[test]
fn findings_are_counted_for_prometheus() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let lost = json!({"arguments": {"x-dead-letter-exchange": "none"}});
    api.put("/api/queues/%2F/lost", &lost);
    let (status, text) = api.send("GET", "/metrics", "");
    assert_eq!(status, 200);
    let line = "coroner_lint_findings{vhost=\"/\",rule=\"DL001\"} 1";
    assert!(text.lines().any(|one| one == line), "{text}");
}

#[test]
fn definitions_with_a_finding_as_bad_as_fail_on_says_are_not_imported() {
    let broker = RunningBroker::start(&["--on-undeliverable", "drop"]);
    let api = Api { broker: &broker };
    let file = json!({
        "vhosts": [{"name": "/"}],
        "queues": [
            {"name": "fine", "vhost": "/", "durable": true, "arguments": {}},
            {"name": "lost", "vhost": "/", "durable": true,
                "arguments": {"x-dead-letter-exchange": "none"}},
        ],
    });
    let (status, answer) = api.ask("POST", "/api/definitions?fail-on=error", &file);
    let reason = answer["reason"].as_str().expect("a reason");
    assert_eq!(status, 400, "{answer}");
    assert!(reason.contains("DL001 queue lost (vhost /)"), "{reason}");
    assert_eq!(api.get("/api/queues").as_array().map(Vec::len), Some(0));
    let (status, _) = api.ask("POST", "/api/definitions?fail_on=error", &file);
    assert_eq!(status, 400, "a mistyped guard is none");
    let (status, answer) = api.ask("POST", "/api/definitions?fail-on=eror", &file);
    assert_eq!(status, 400, "{answer}");

    // Without it, or with nothing as bad, it is imported.
    let mild = json!({"queues": [{"name": "mild", "vhost": "/", "durable": true,
        "arguments": {"x-message-ttl": 1000}}]});
    let (status, answer) = api.ask("POST", "/api/definitions?fail-on=error", &mild);
    assert_eq!(status, 204, "{answer}");
    let (status, _) = api.ask("POST", "/api/definitions?fail-on=warning", &mild);
    assert_eq!(status, 400);
    assert_eq!(
        api.ask("POST", "/api/definitions", &file).0,
        200,
        "a warning"
    );
    assert_eq!(api.get("/api/queues").as_array().map(Vec::len), Some(3));
}

/// The file was judged alone, and by the command line as if all brokers kept what cannot be delivered.
#[test]
fn an_import_is_judged_by_what_would_stand_after_it() {
    let broker = RunningBroker::start(&["--on-undeliverable", "drop"]);
    let api = Api { broker: &broker };
    let dead = json!({"type": "fanout", "durable": true});
    api.put("/api/exchanges/%2F/dead", &dead);
    let parked = json!({"durable": true,
        "arguments": {"x-max-length": 9, "x-overflow": "reject-publish"}});
    api.put("/api/queues/%2F/parked", &parked);
    let bound = json!({"routing_key": ""});
    let (status, _) = api.ask("POST", "/api/bindings/%2F/e/dead/q/parked", &bound);
    assert_eq!(status, 201);
    // What the file needs is there.
    let file = json!({
        "vhosts": [{"name": "/"}, {"name": "new"}],
        "queues": [{"name": "orders", "vhost": "/", "durable": true,
            "arguments": {"x-dead-letter-exchange": "dead"}}],
    });
    let (status, report) = api.ask("POST", "/api/lint", &file);
    assert_eq!((status, told(&report)), (200, Vec::<String>::new()));
    let (status, answer) = api.ask("POST", "/api/definitions?fail-on=info", &file);
    assert_eq!(status, 204, "{answer}");
    // What is there gets into trouble by the file, in which nothing is wrong by itself.
    let policy = json!({"name": "away", "vhost": "/", "pattern": "^parked$", "priority": 1,
        "definition": {"dead-letter-exchange": "none"}});
    let file = json!({"policies": [policy]});
    let (status, report) = api.ask("POST", "/api/lint", &file);
    let expected = ["DL001 parked dropped (exchange_missing)"];
    assert_eq!(
        (status, told(&report)),
        (200, expected.map(str::to_owned).to_vec())
    );
    let (status, answer) = api.ask("POST", "/api/definitions?fail-on=error", &file);
    assert_eq!(status, 400, "{answer}");
    let reason = answer["reason"].as_str().expect("a reason");
    assert!(reason.contains("DL001 queue parked"), "{reason}");
    assert_eq!(api.get("/api/policies").as_array().map(Vec::len), Some(0));
}

#[test]
fn what_the_linter_does_not_understand_is_named() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for (path, why) in [
        ("/api/lint?for=kafka", "must be coroner or rabbitmq"),
        ("/api/lint?fro=rabbitmq", "'fro' is not known"),
    ] {
        let (status, answer) = api.ask("GET", path, &Value::Null);
        let reason = answer["reason"].as_str().expect("a reason");
        assert!(
            status == 400 && reason.contains(why),
            "{path}: {status} {answer}"
        );
    }
    let (status, _) = api.ask("GET", "/api/lint/nowhere", &Value::Null);
    assert_eq!(status, 404);
    let wrong = json!({"value": {"ignore": "all"}});
    let (status, answer) = api.ask("PUT", "/api/global-parameters/lint", &wrong);
    let reason = answer["reason"].as_str().expect("a reason");
    assert!(
        status == 400 && reason.contains("must be an array"),
        "{answer}"
    );
}

/// A wrong value silenced the linter, the graph and the metrics of all vhosts.
#[test]
fn a_wrong_silence_that_was_imported_silences_nothing() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let arguments = json!({"x-dead-letter-exchange": "dead"});
    api.put("/api/queues/%2F/orders", &json!({"arguments": arguments}));
    let definitions = json!({"global_parameters": [{"name": "lint", "value": {"ignore": "all"}}]});
    let (status, answer) = api.ask("POST", "/api/definitions", &definitions);
    assert_eq!(status, 204, "{answer}");
    let report = api.get("/api/lint");
    assert_eq!(told(&report).len(), 1);
    let why = report["not_read"][0]["why"].as_str().expect("why");
    assert!(why.contains("must be an array"), "{why}");
    assert!(api.get("/api/graph/%2F")["edges"].is_array());
    let (_, metrics) = api.send("GET", "/metrics", "");
    let line = "coroner_lint_findings{vhost=\"/\",rule=\"DL001\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}
