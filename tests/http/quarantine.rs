//! What becomes of dead letters that get nowhere, seen from outside.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::folder::Folder;
use crate::support::RunningBroker;

const PATIENCE: Duration = Duration::from_mins(1);
/// Deaths in a test.
const DEATHS: u64 = 5;

/// The queue `work`, whose dead-letter exchange is deleted again.
fn arrange(api: &Api<'_>) {
    let arguments = json!({"durable": true, "arguments": {"x-dead-letter-exchange": "dlx"}});
    api.put("/api/exchanges/%2F/dlx", &json!({"type": "fanout"}));
    api.put("/api/queues/%2F/work", &arguments);
    let (status, _) = api.send("DELETE", "/api/exchanges/%2F/dlx", "");
    assert_eq!(status, 204);
}

fn publish_durable(api: &Api<'_>, payload: &str) {
    let body = json!({
        "properties": {"delivery_mode": 2}, "routing_key": "work",
        "payload": payload, "payload_encoding": "string",
    });
    let (status, _) = api.ask("POST", "/api/exchanges/%2F/amq.default/publish", &body);
    assert_eq!(status, 200);
}

fn reject(api: &Api<'_>, count: u64) {
    let body = json!({"count": count, "ackmode": "reject_requeue_false", "encoding": "auto"});
    let (status, taken) = api.ask("POST", "/api/queues/%2F/work/get", &body);
    let taken = taken.as_array().expect("messages").len() as u64;
    assert_eq!((status, taken), (200, count));
}

/// What became of the dead of the queue `work`.
fn fates(api: &Api<'_>) -> Value {
    api.get("/api/queues/%2F/work")["dead_letters"].clone()
}

fn has_quarantine(api: &Api<'_>) -> bool {
    let (status, _) = api.send("GET", "/api/queues/%2F/amq.quarantine", "");
    assert!([200, 404].contains(&status), "{status}");
    status == 200
}

#[test]
fn five_rejected_after_their_exchange_was_deleted_are_in_the_quarantine_also_after_a_crash() {
    let folder = Folder::new("quarantine-crash");
    let data = folder.path("data");
    let arguments = ["--data", &data];
    let broker = RunningBroker::start(&arguments);
    let api = Api { broker: &broker };
    arrange(&api);
    for number in 0..DEATHS {
        publish_durable(&api, &number.to_string());
    }
    reject(&api, DEATHS);
    let missing = json!([{"reason": "rejected", "cause": "exchange_missing", "count": DEATHS}]);
    assert_eq!(fates(&api)["quarantined"], missing);
    assert_eq!(fates(&api)["dropped"], json!([]));
    let (_, metrics) = api.send("GET", "/metrics", "");
    let counted = format!(
        "coroner_dead_letters_total{{vhost=\"/\",queue=\"work\",reason=\"rejected\",\
         outcome=\"quarantined\"}} {DEATHS}"
    );
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    let definitions = api.get("/api/definitions");
    let queues = definitions["queues"].as_array().expect("queues");
    let names: Vec<_> = queues.iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["work"], "the broker makes the quarantine itself");
    drop(broker); // killed

    let broker = RunningBroker::start(&arguments);
    let api = Api { broker: &broker };
    let (_, metrics) = api.send("GET", "/metrics", "");
    let lies = format!(
        "coroner_dead_letter_queue_messages{{vhost=\"/\",queue=\"amq.quarantine\",\
         state=\"ready\"}} {DEATHS}"
    );
    assert!(metrics.lines().any(|line| line == lies), "{metrics}");
    let look = api.get("/api/queues/%2F/amq.quarantine/messages?count=10");
    let messages = look["messages"].as_array().expect("messages");
    assert_eq!(messages.len() as u64, DEATHS);
    for (number, message) in messages.iter().enumerate() {
        assert_eq!(message["payload"], number.to_string());
        assert_eq!(
            (&message["exchange"], &message["routing_key"]),
            (&json!("dlx"), &json!("work"))
        );
        let quarantine = json!({"cause": "exchange_missing", "path": []});
        assert_eq!(message["amqp"]["quarantine"], quarantine);
        assert_eq!(message["amqp"]["deaths"][0]["queue"], "work");
        let cause = &message["amqp"]["message_annotations"]["x-opt-quarantine-cause"];
        assert_eq!(cause, "exchange_missing");
    }
    assert_eq!(api.get("/api/queues/%2F/work")["messages"], 0);
}

#[test]
fn five_rejected_are_counted_drops_where_settings_say_so() {
    for arguments in [&["--on-undeliverable", "drop"][..], &["--strict"]] {
        let broker = RunningBroker::start(arguments);
        let api = Api { broker: &broker };
        arrange(&api);
        for number in 0..DEATHS {
            api.publish("work", &number.to_string());
        }
        reject(&api, DEATHS);
        let missing = json!([{"reason": "rejected", "cause": "exchange_missing", "count": DEATHS}]);
        assert_eq!(fates(&api)["dropped"], missing, "{arguments:?}");
        assert_eq!(fates(&api)["quarantined"], json!([]), "{arguments:?}");
        assert!(!has_quarantine(&api), "{arguments:?}");
    }
}

#[test]
fn sighup_brings_another_choice_to_all_vhosts() {
    let folder = Folder::new("quarantine-reload");
    let file = folder.path("coroner.toml");
    std::fs::write(&file, "on-undeliverable = \"drop\"\n").expect("written");
    let broker = RunningBroker::start(&["--config", &file]);
    let api = Api { broker: &broker };
    arrange(&api);
    api.publish("work", "dropped");
    reject(&api, 1);
    assert!(!has_quarantine(&api));
    std::fs::write(&file, "on-undeliverable = \"quarantine\"\n").expect("written");
    let id = broker.process_id().to_string();
    let told = Command::new("kill").args(["-HUP", &id]).status();
    assert!(told.expect("kill runs").success());
    let deadline = Instant::now() + PATIENCE;
    while !has_quarantine(&api) {
        assert!(Instant::now() < deadline, "the setting does not hold");
        api.publish("work", "kept some time");
        reject(&api, 1);
    }
    // A vhost that is new has it, too.
    api.put("/api/vhosts/later", &json!({}));
    let arguments = json!({"arguments": {"x-dead-letter-exchange": "missing"}});
    api.put("/api/queues/later/work", &arguments);
    let body = json!({
        "properties": {}, "routing_key": "work", "payload": "p", "payload_encoding": "string",
    });
    let path = "/api/exchanges/later/amq.default/publish";
    assert_eq!(api.ask("POST", path, &body).0, 200);
    let body = json!({"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"});
    assert_eq!(api.ask("POST", "/api/queues/later/work/get", &body).0, 200);
    let (status, _) = api.send("GET", "/api/queues/later/amq.quarantine", "");
    assert_eq!(status, 200);
}

#[test]
fn policy_key_and_argument_are_shown_and_refused_with_the_words_they_take() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let policy = |word: &str| json!({"pattern": "^work$", "definition": {"on-undeliverable": word}, "apply-to": "queues"});
    for kind in ["policies", "operator-policies"] {
        let path = format!("/api/{kind}/%2F/net");
        let (status, answer) = api.send("PUT", &path, &policy("keep").to_string());
        assert_eq!(status, 400, "{answer}");
        assert!(
            answer.contains("must be one of drop, quarantine"),
            "{answer}"
        );
        api.put(&path, &policy("quarantine"));
    }
    let argument = json!({"arguments": {"x-on-undeliverable": "drop"}});
    api.put("/api/queues/%2F/work", &argument);
    let work = api.get("/api/queues/%2F/work");
    assert_eq!(work["arguments"]["x-on-undeliverable"], "drop");
    let effective = &work["effective_policy_definition"];
    assert_eq!(effective["on-undeliverable"], "quarantine");
    api.publish("work", "kept, as the operator says");
    reject(&api, 1);
    let look = api.get("/api/queues/%2F/amq.quarantine/messages");
    let quarantine = &look["messages"][0]["amqp"]["quarantine"];
    assert_eq!(quarantine["cause"], "no_dead_letter_exchange");
}
