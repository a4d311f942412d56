//! DL021: dead letters reach a queue that expires.

use serde_json::json;

use super::{binding, check, exchange, looked, policy, queue, told};
use crate::broker::arguments::OnUndeliverable;
use crate::lint::{Report, Target, Topology, text};

/// Also of a queue that is not durable, and where a policy says so; a queue of delays that no dead letter
/// reaches may expire.
#[test]
fn a_queue_of_dead_letters_that_expires_takes_them_with_it() {
    let dead = json!({"x-dead-letter-exchange": "dead"});
    let mut passing = queue("passing", dead.clone());
    passing["durable"] = json!(false);
    let bounded = json!({"x-expires": 5000, "x-max-length": 9, "x-overflow": "reject-publish"});
    let mut definitions = json!({
        "queues": [
            queue("orders", dead), passing, queue("dlq", bounded),
            queue("delay", json!({"x-expires": 5000, "x-message-ttl": 1000, "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "orders"})),
        ],
        "exchanges": [exchange("dead", "fanout")],
        "bindings": [binding("dead", "dlq", "")],
    });
    check(&definitions, &["DL021 warning dlq"]);
    let words = text(&looked(&definitions, Target::Coroner));
    assert!(
        words.contains("DL021 queue dlq (vhost /): dead letters come here, and what it holds is dropped with it when nobody used it for 5000 ms\n        by argument x-expires\n"),
        "{words}"
    );
    definitions["policies"] = json!([policy("tidy", ("^dlq", 0), json!({"expires": 9}))]);
    definitions["exchanges"] = json!([exchange("dead", "headers")]);
    let words = text(&looked(&definitions, Target::Rabbitmq));
    assert!(words.contains("dead letters may come here"), "{words}");
    assert!(
        words.contains("for 9 ms\n        by argument x-expires and policy tidy\n"),
        "{words}"
    );
    let fix = "declare it without x-expires, and let policy tidy match other queues only";
    assert!(words.contains(fix), "{words}");
}

/// DL004 and DL005 tell that its own dead letters come back.
#[test]
fn a_queue_that_expires_and_dead_letters_into_itself_only_is_told_by_the_loop() {
    let to_self = json!({"x-expires": 5000, "x-message-ttl": 1000, "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "self"});
    let other = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "self"});
    let mut queues = vec![queue("self", to_self)];
    let alone = told(&looked(&json!({"queues": queues}), Target::Coroner));
    let has = |told: &[String], rule: &str| told.iter().any(|line| line.starts_with(rule));
    assert!(has(&alone, "DL004 ") && !has(&alone, "DL021 "), "{alone:?}");
    queues.push(queue("other", other));
    let both = told(&looked(&json!({"queues": queues}), Target::Coroner));
    assert!(has(&both, "DL021 warning self"), "{both:?}");
}

/// It stands in no definitions.
#[test]
fn a_policy_that_lets_the_quarantine_expire_is_told() {
    let short = policy("short", ("", 0), json!({"expires": 9}));
    let definitions = json!({"queues": [queue("q", json!({}))], "policies": [short]});
    let told = |undeliverable: OnUndeliverable| {
        let mut topology = Topology::read(&definitions, None, undeliverable).unwrap();
        text(&Report::of(&mut topology, Target::Coroner).to_json())
    };
    let kept = told(OnUndeliverable::Quarantine);
    let lets = "warning DL021 policy short (vhost /): it lets amq.quarantine expire";
    assert!(kept.contains(lets), "{kept}");
    assert!(!told(OnUndeliverable::Drop).contains("DL021"));
}

/// The vhost drops: an argument, or a policy, keeps what one queue cannot deliver.
#[test]
fn a_policy_that_lets_the_quarantine_of_one_queue_expire_is_told() {
    let kept = json!({"x-on-undeliverable": "quarantine", "x-dead-letter-exchange": "none"});
    let short = json!({"expires": 9});
    let keeps = json!({"expires": 9, "on-undeliverable": "quarantine"});
    let lets = "warning DL021 policy short (vhost /): it lets amq.quarantine expire";
    for (arguments, definition, is_told) in [
        (kept, short.clone(), true),
        (
            json!({"x-on-undeliverable": "quarantine"}),
            short.clone(),
            true,
        ),
        (json!({}), keeps, true),
        (json!({"x-on-undeliverable": "drop"}), short, false),
    ] {
        let definitions = json!({
            "queues": [queue("q", arguments)],
            "policies": [policy("short", (".*", 0), definition)],
        });
        let words = text(&looked(&definitions, Target::Coroner));
        assert_eq!(words.contains(lets), is_told, "{words}");
    }
}
