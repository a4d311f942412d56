//! What a RabbitMQ exported and this broker does not have: it exists, and nothing false is said of it.

use serde_json::{Value as Json, json};

use super::{binding, exchange, looked, policy, queue, told};
use crate::base::Name;
use crate::broker::arguments::OnUndeliverable;
use crate::lint::{Graph, Report, Target, Topology, Unknown, text};

fn check(definitions: &Json, expected: &[&str]) {
    for target in [Target::Coroner, Target::Rabbitmq] {
        let report = looked(definitions, target);
        assert_eq!(told(&report), expected, "{target:?}: {}", text(&report));
    }
}

#[test]
fn a_dead_letter_exchange_of_another_kind_exists_and_leads_where_nobody_knows() {
    for kind in ["x-delayed-message", "x-consistent-hash", "x-recent-history"] {
        let of = |bindings: &[Json]| {
            json!({
                "queues": [
                    queue("orders", json!({"x-dead-letter-exchange": "later"})),
                    queue("dlq", json!({"x-max-length": 9, "x-overflow": "reject-publish"})),
                ],
                "exchanges": [exchange("later", kind)],
                "bindings": bindings,
            })
        };
        check(&of(&[]), &[]);
        check(&of(&[binding("later", "dlq", "1")]), &[]);
        let report = looked(&of(&[binding("later", "dlq", "1")]), Target::Rabbitmq);
        assert_eq!(report["not_read"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn a_stream_takes_dead_letters_and_policies() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "dead"})),
            queue("work", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "events"})),
            queue("events", json!({"x-queue-type": "stream", "x-max-age": "7D"})),
        ],
        "exchanges": [exchange("shop", "direct"), exchange("dead", "direct")],
        "bindings": [binding("shop", "orders", "new"), binding("dead", "events", "new")],
        "policies": [
            {"name": "age", "vhost": "/", "pattern": "^events$", "apply-to": "streams", "priority": 0,
                "definition": {"max-age": "1D"}},
            policy("more", ("^events$", 0), json!({"message-ttl": 5})),
        ],
    });
    check(&definitions, &[]);
}

/// Policies do not merge: one with keys that nobody knows here beats the other all the same.
#[test]
fn a_policy_with_unknown_keys_only_beats_others() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({})),
            queue("parked", json!({"x-max-length": 9, "x-overflow": "reject-publish"})),
        ],
        "policies": [
            policy("dlx", ("^orders$", 0), json!({"dead-letter-exchange": "missing"})),
            policy("mirrors", ("^orders$", 5), json!({"ha-mode": "all"})),
        ],
    });
    let report = looked(&definitions, Target::Coroner);
    assert_eq!(told(&report), ["DL011 warning dlx"], "{}", text(&report));
    let words = text(&report);
    assert!(words.contains("policy mirrors has priority 5"), "{words}");
    assert!(words.contains("lost: dead-letter-exchange"), "{words}");
}

#[test]
fn a_graph_names_the_type_of_what_is_of_another_kind() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "later"})),
            queue("events", json!({"x-queue-type": "stream"})),
        ],
        "exchanges": [exchange("later", "x-delayed-message")],
        "bindings": [binding("later", "events", "")],
    });
    let topology = Topology::read(&definitions, None, OnUndeliverable::Drop).unwrap();
    let graph = Graph::of_topology(&topology, &Name::from("/")).unwrap();
    let graph = graph.to_json();
    let nodes = graph["nodes"].as_array().unwrap().iter();
    let types: Vec<String> = nodes
        .map(|node| format!("{} {}", node["id"], node["type"]))
        .collect();
    assert_eq!(
        types,
        [
            r#""x:later" "x-delayed-message""#,
            r#""q:events" "stream""#,
            r#""q:orders" "classic""#
        ]
    );
    assert_eq!(graph["edges"][0]["sometimes"], true);
}

/// An import leaves them out: then the exchange is missing indeed.
#[test]
fn after_an_import_what_is_not_supported_does_not_exist() {
    let definitions = json!({
        "queues": [queue("orders", json!({"x-dead-letter-exchange": "later"}))],
        "exchanges": [exchange("later", "x-delayed-message")],
    });
    let mut topology = Topology::default();
    let added = topology.add(&definitions, None, OnUndeliverable::Drop, Unknown::LeftOut);
    added.unwrap();
    let report = Report::of(&mut topology, Target::Coroner).to_json();
    assert_eq!(
        told(&report),
        ["DL001 error orders: dropped (exchange_missing)"]
    );
}

#[test]
fn arguments_that_a_rabbitmq_refuses_are_told_from_those_that_it_ignores() {
    let words = |arguments: Json| {
        let queue = queue("q", arguments);
        text(&looked(&json!({"queues": [queue]}), Target::Rabbitmq))
    };
    let refuses = |argument: &str, kind: &str| {
        format!(
            "RabbitMQ refuses the declaration: {kind} queues do not have the argument '{argument}'"
        )
    };
    let told = words(json!({"x-dead-letter-strategy": "at-least-once", "x-delivery-limit": 3}));
    assert!(
        told.contains(&refuses("x-dead-letter-strategy", "classic")),
        "{told}"
    );
    assert!(
        told.contains(&refuses("x-delivery-limit", "classic")),
        "{told}"
    );
    assert!(!told.contains("ignores"), "{told}");
    let told = words(
        json!({"x-queue-type": "quorum", "x-queue-master-locator": "client-local", "x-delivery-limit": 3}),
    );
    assert!(
        told.contains(&refuses("x-queue-master-locator", "quorum")),
        "{told}"
    );
    assert!(!told.contains("'x-delivery-limit'"), "{told}");
    let told = words(json!({"x-on-undeliverable": "drop"}));
    assert!(
        told.contains("RabbitMQ 4.0 ignores the argument 'x-on-undeliverable'"),
        "{told}"
    );
    // A policy is another matter: with a key that classic queues do not have it is not applied to them.
    let definitions = json!({
        "queues": [queue("q", json!({"x-dead-letter-exchange": "amq.fanout"}))],
        "policies": [policy("safe", ("^q$", 0), json!({"dead-letter-strategy": "at-least-once"}))],
    });
    let told = text(&looked(&definitions, Target::Rabbitmq));
    assert!(
        told.contains(
            "RabbitMQ does not apply a policy with dead-letter-strategy to classic queues"
        ),
        "{told}"
    );
}

/// DL008 was told of a classic queue, which has no such limit there; and not that the policy counts for nothing.
#[test]
fn a_policy_with_a_delivery_limit_counts_for_nothing_in_classic_queues_of_a_rabbitmq() {
    let definitions = json!({
        "queues": [queue("classic", json!({})), queue("quorum", json!({"x-queue-type": "quorum"}))],
        "policies": [policy("limit", (".*", 0), json!({"delivery-limit": 3}))],
    });
    let of = |target: Target| looked(&definitions, target);
    let lost = |name: &str| format!("DL008 warning {name}: dropped (no_dead_letter_exchange)");
    let here = [lost("classic"), lost("quorum")];
    assert_eq!(told(&of(Target::Coroner)), here);
    let there = [lost("quorum"), "DL019 warning classic".to_owned()];
    assert_eq!(told(&of(Target::Rabbitmq)), there);
    let words = text(&of(Target::Rabbitmq));
    let says = "RabbitMQ does not apply a policy with delivery-limit to classic queues";
    assert!(words.contains(says), "{words}");
}

/// A `delivery-limit` of -1 was not seen, since it is none; and letters were said to die there of failures.
#[test]
fn a_delivery_limit_by_policy_neither_drops_nor_moves_what_failed_in_classic_queues_of_a_rabbitmq()
{
    let of = |queues: Json, limit: i64, target: Target| {
        let limit = policy("limit", (".*", 0), json!({"delivery-limit": limit}));
        told(&looked(
            &json!({"queues": queues, "policies": [limit]}),
            target,
        ))
    };
    let to = |name: &str| json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name});
    let dead = json!([queue("orders", to("parking")), queue("parking", json!({}))]);
    let grows = "DL009 info parking".to_owned();
    let last = "DL010 info parking".to_owned();
    let differs = ["orders", "parking"].map(|name| format!("DL019 warning {name}"));
    assert_eq!(of(dead.clone(), 3, Target::Coroner), [grows.clone(), last]);
    let there = [differs.as_slice(), &[grows]].concat();
    assert_eq!(of(dead.clone(), 3, Target::Rabbitmq), there);
    assert_eq!(of(dead, -1, Target::Rabbitmq), there);
    let round = json!([queue("round", to("round"))]);
    let turns = |told: Vec<String>| told.iter().any(|told| told.starts_with("DL004"));
    assert!(turns(of(round.clone(), 3, Target::Coroner)));
    assert!(!turns(of(round, 3, Target::Rabbitmq)));
}
