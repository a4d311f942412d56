//! Each rule, on the smallest topology that breaks it; and what is not found where all is well.

mod behind;
mod bounds;
mod expiring;
mod graph;
mod known;
mod projects;
mod strangers;
mod worlds;

use serde_json::{Value as Json, json};

use super::{Report, Rule, Silence, Target, Topology, sarif, text};
use crate::base::Name;
use crate::base::limits::LINT_FINDINGS_MAX;
use crate::broker::Declared;
use crate::broker::arguments::OnUndeliverable;

/// The report about definitions, as it is answered.
fn looked(definitions: &Json, target: Target) -> Json {
    let mut topology = Topology::read(definitions, None, OnUndeliverable::Drop).unwrap();
    Report::of(&mut topology, target).to_json()
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the callers write it in place"
)]
pub(super) fn queue(name: &str, arguments: Json) -> Json {
    json!({"name": name, "vhost": "/", "durable": true, "auto_delete": false, "arguments": arguments})
}

pub(super) fn exchange(name: &str, kind: &str) -> Json {
    json!({"name": name, "vhost": "/", "type": kind, "durable": true, "auto_delete": false,
        "internal": false, "arguments": {}})
}

pub(super) fn binding(source: &str, queue: &str, key: &str) -> Json {
    json!({"source": source, "vhost": "/", "destination": queue, "destination_type": "queue",
        "routing_key": key, "arguments": {}})
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the callers write it in place"
)]
fn policy(name: &str, (pattern, priority): (&str, i64), definition: Json) -> Json {
    json!({"name": name, "vhost": "/", "pattern": pattern, "apply-to": "queues",
        "priority": priority, "definition": definition})
}

/// `rule severity object: outcome of the witness` of each finding.
fn told(report: &Json) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let told = findings.map(|finding| {
        let word = |pointer: &str| finding.pointer(pointer).and_then(Json::as_str);
        let mut told = format!(
            "{} {} {}",
            word("/rule").unwrap(),
            word("/severity").unwrap(),
            word("/object/name").unwrap(),
        );
        if let Some(outcome) = word("/witness/outcome") {
            told = format!("{told}: {outcome}");
        }
        told
    });
    told.collect()
}

fn check(definitions: &Json, expected: &[&str]) {
    let report = looked(definitions, Target::Coroner);
    assert_eq!(report["not_read"], json!([]));
    assert_eq!(told(&report), expected, "{}", text(&report));
}

#[test]
fn a_topology_in_which_nothing_can_be_lost_has_only_a_hint_about_its_depth() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "dead"})),
            queue("parked", json!({"x-max-length": 100, "x-overflow": "reject-publish"})),
        ],
        "exchanges": [exchange("shop", "topic"), exchange("dead", "fanout")],
        "bindings": [binding("shop", "orders", "order.*"), binding("dead", "parked", "")],
    });
    check(&definitions, &[]);
}

#[test]
fn a_dead_letter_exchange_that_is_missing_or_unbound_loses_what_is_rejected() {
    let definitions = json!({
        "queues": [
            queue("a", json!({"x-dead-letter-exchange": "missing"})),
            queue("b", json!({"x-dead-letter-exchange": "unbound"})),
            queue("c", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nobody"})),
        ],
        "exchanges": [exchange("unbound", "fanout")],
    });
    check(
        &definitions,
        &[
            "DL001 error a: dropped (exchange_missing)",
            "DL002 error b: dropped (unroutable)",
            "DL002 error c: dropped (unroutable)",
        ],
    );
}

#[test]
fn keys_by_which_dead_letters_reach_no_queue_are_found_by_examples() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "dead"})),
            queue("orders.dlq", json!({"x-max-length": 9, "x-overflow": "reject-publish"})),
        ],
        "exchanges": [exchange("shop", "direct"), exchange("dead", "direct")],
        "bindings": [
            binding("shop", "orders", "order.new"),
            binding("shop", "orders", "order.cancelled"),
            binding("dead", "orders.dlq", "order.new"),
        ],
    });
    check(&definitions, &["DL003 error orders: dropped (unroutable)"]);
    let report = looked(&definitions, Target::Coroner);
    let text = text(&report);
    assert!(
        text.contains("dead letters with key 'order.cancelled' reach no queue"),
        "{text}"
    );
    assert!(
        text.contains(
            "witness: published shop/order.cancelled, rejected in orders -> dropped (unroutable)"
        ),
        "{text}"
    );
}

/// A word for a wildcard is made up: perhaps nobody publishes it. Where bindings name whole keys, or one
/// binding names a key that is lost, it is sure.
#[test]
fn keys_that_are_made_up_are_an_info_where_the_dead_are_told_apart_by_patterns() {
    let topology = |live: &[&str], dead: &[&str]| {
        let live = live.iter().map(|key| binding("shop", "orders", key));
        let dead = dead.iter().map(|key| binding("dead", "orders.dlq", key));
        json!({
            "queues": [
                queue("orders", json!({"x-dead-letter-exchange": "dead"})),
                queue("orders.dlq", json!({"x-max-length": 9, "x-overflow": "reject-publish"})),
            ],
            "exchanges": [exchange("shop", "topic"), exchange("dead", "topic")],
            "bindings": live.chain(dead).collect::<Vec<_>>(),
        })
    };
    check(&topology(&["#"], &["#"]), &[]);
    check(&topology(&["order.#"], &["order.*"]), &[]);
    let info = ["DL003 info orders: dropped (unroutable)"];
    check(&topology(&["#"], &["order.#"]), &info);
    check(&topology(&["order.*"], &["*.new", "*.cancelled"]), &info);
    let error = ["DL003 error orders: dropped (unroutable)"];
    check(&topology(&["order.*"], &["order.new"]), &error);
    check(&topology(&["order.*", "invoice"], &["order.#"]), &error);
    check(
        &topology(&["order.*", "order.cancelled"], &["*.new"]),
        &error,
    );
    let report = looked(
        &topology(&["order.*"], &["*.new", "*.cancelled"]),
        Target::Coroner,
    );
    let told = text(&report);
    assert!(
        told.contains("dead letters with keys such as 'order.any' reach no queue"),
        "{told}"
    );
}

/// A dead-letter exchange that live messages pass, too, takes what it takes of them; but what comes
/// with keys that it never sees alive is lost without anybody having noticed before.
#[test]
fn keys_that_do_not_come_alive_to_the_dead_letter_exchange_are_told() {
    let feeding = |key: &str| {
        let live = json!({"source": "shop", "vhost": "/", "destination": "dead",
            "destination_type": "exchange", "routing_key": key, "arguments": {}});
        json!({
            "queues": [
                queue("orders", json!({"x-dead-letter-exchange": "dead"})),
                queue("one", json!({})), queue("two", json!({})),
            ],
            "exchanges": [exchange("shop", "topic"), exchange("dead", "topic")],
            "bindings": [live, binding("shop", "orders", "x.#"),
                binding("dead", "one", "*.one"), binding("dead", "two", "*.two")],
        })
    };
    check(&feeding("y.#"), &[]);
    // What is known of orders says nothing about y.
    let info = ["DL003 info orders: dropped (unroutable)"];
    check(&feeding("x.#"), &info);
    check(&feeding("#.y"), &info);
    check(&feeding("y.one"), &info);
}

/// The trick of those who have no redrive: the queue of dead letters expires back. What died of
/// age in `orders` is dropped on return; what was rejected comes back.
#[test]
fn dead_letters_that_expire_back_to_where_they_died_without_a_rejection_are_a_loop() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-message-ttl": 1000, "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "orders.dlq"})),
            queue("orders.dlq", json!({"x-message-ttl": 1000, "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "orders"})),
        ],
        "exchanges": [exchange("shop", "fanout")],
        "bindings": [binding("shop", "orders", "")],
    });
    check(
        &definitions,
        &["DL004 error orders: dropped (cycle)", "DL005 info orders"],
    );
}

/// A queue that is deleted when nobody uses it for a second would be gone for the next witness.
#[test]
fn queues_that_expire_stay_while_witnesses_wait_for_their_ttl() {
    let definitions = json!({
        "queues": [
            queue("loop", json!({"x-message-ttl": 1000, "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "loop"})),
            queue("reply", json!({"x-expires": 1000, "x-message-ttl": 5000,
                "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "reply"})),
        ],
    });
    let report = looked(&definitions, Target::Rabbitmq);
    let told = told(&report);
    for expected in [
        "DL004 error loop: dropped (cycle)",
        "DL004 error reply: dropped (cycle)",
    ] {
        assert!(told.iter().any(|line| line == expected), "{told:?}");
    }
}

#[test]
fn a_pair_that_retries_what_is_rejected_after_a_while_is_no_fault() {
    let definitions = json!({
        "queues": [
            queue("work", json!({"x-dead-letter-exchange": "wait"})),
            queue("work.wait", json!({"x-message-ttl": 1000, "x-dead-letter-exchange": "work"})),
        ],
        "exchanges": [exchange("work", "fanout"), exchange("wait", "fanout")],
        "bindings": [binding("work", "work", ""), binding("wait", "work.wait", "")],
    });
    check(&definitions, &["DL005 info work"]);
}

#[test]
fn what_is_rejected_round_and_round_without_a_delay_is_a_hot_loop() {
    let definitions = json!({
        "queues": [
            queue("a", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"})),
            queue("b", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a"})),
            queue("self", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "self"})),
        ],
        "exchanges": [exchange("in", "fanout")],
        "bindings": [binding("in", "a", ""), binding("in", "b", ""), binding("in", "self", "")],
    });
    check(&definitions, &["DL005 warning a", "DL005 warning self"]);
}

/// It was told three times of one cause. Silenced, or only infos, the others do not speak for it.
#[test]
fn a_queue_that_dead_letters_into_itself_is_told_by_what_comes_of_it() {
    let of = |more: Json| {
        let mut arguments =
            json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "self"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        json!({"queues": [queue("self", arguments)]})
    };
    let expires = of(json!({"x-message-ttl": 1000}));
    let both = ["DL004 error self: dropped (cycle)", "DL005 warning self"];
    check(&expires, &both);
    let words = text(&looked(&expires, Target::Coroner));
    let cause = "it dead-letters into itself, by argument x-dead-letter-exchange";
    assert_eq!(words.matches(cause).count(), 2, "{words}");
    let silenced = |rules: &[&str]| {
        let mut definitions = expires.clone();
        let ignored = rules.iter().map(|rule| json!({"rule": rule}));
        let ignored = json!({"ignore": ignored.collect::<Vec<_>>()});
        definitions["global_parameters"] = json!([{"name": "lint", "value": ignored}]);
        let report = looked(&definitions, Target::Coroner);
        (told(&report), report["silenced"].as_u64())
    };
    let one = vec![String::from("DL005 warning self")];
    assert_eq!(silenced(&["DL004"]), (one, Some(1)));
    let cause_only = vec![String::from("DL017 warning self")];
    assert_eq!(silenced(&["DL004", "DL005"]), (cause_only, Some(2)));
    check(
        &of(json!({"x-delayed-retry-type": "failed", "x-delayed-retry-min": 1000})),
        &[
            "DL017 warning self",
            "DL018 warning self",
            "DL005 info self",
        ],
    );
}

#[test]
fn what_dies_without_a_dead_letter_exchange_is_found_by_reason_and_seen_to_be_lost() {
    let definitions = json!({
        "queues": [
            queue("old", json!({"x-message-ttl": 1000})),
            queue("full", json!({"x-max-length": 2})),
            queue("limited", json!({"x-queue-type": "quorum"})),
            queue("refusing", json!({"x-max-length": 2, "x-overflow": "reject-publish"})),
        ],
    });
    check(
        &definitions,
        &[
            "DL006 warning old: dropped (no_dead_letter_exchange)",
            "DL007 warning full: dropped (no_dead_letter_exchange)",
            "DL008 warning limited: dropped (no_dead_letter_exchange)",
        ],
    );
}

#[test]
fn queues_of_the_dead_grow_or_lose_what_dies_again() {
    let of = |name: &str, arguments: Json| (queue(name, arguments), binding("dead", name, ""));
    let (grows, one) = of("grows", json!({}));
    let (forgets, two) = of("forgets", json!({"x-message-ttl": 5}));
    let (drops, three) = of("drops", json!({"x-max-length": 5}));
    let definitions = json!({
        "queues": [queue("live", json!({"x-dead-letter-exchange": "dead"})), grows, forgets, drops],
        "exchanges": [exchange("dead", "fanout")],
        "bindings": [one, two, three],
    });
    check(
        &definitions,
        &["DL009 info grows", "DL010 info drops", "DL010 info forgets"],
    );
}

#[test]
fn policies_that_lose_against_others_or_match_nothing_are_named_with_what_is_lost() {
    let definitions = json!({
        "queues": [queue("orders", json!({"x-dead-letter-exchange": "amq.fanout"}))],
        "bindings": [binding("amq.fanout", "orders", "")],
        "policies": [
            policy("ttl", ("^orders", 0), json!({"message-ttl": 1000})),
            policy("dlx", (".*", 1), json!({"dead-letter-exchange": "amq.direct"})),
            policy("idle", ("^nothing$", 9), json!({"max-length": 1})),
            // It is there once a dead letter gets nowhere.
            policy("kept", ("^amq[.]quarantine$", 9), json!({"max-length": 1})),
        ],
    });
    let report = looked(&definitions, Target::Coroner);
    let told = told(&report);
    for expected in [
        "DL011 warning ttl",
        "DL012 warning orders",
        "DL013 info idle",
    ] {
        assert!(
            told.iter().any(|told| told == expected),
            "{expected}: {told:?}"
        );
    }
    let text = text(&report);
    assert!(!told.iter().any(|told| told.contains("kept")), "{told:?}");
    let of_rabbitmq = self::told(&looked(&definitions, Target::Rabbitmq));
    let none = String::from("DL013 info kept");
    assert!(of_rabbitmq.contains(&none), "{of_rabbitmq:?}");
    let outranked =
        "policy ttl (vhost /): (priority 0) is never applied to orders: policy dlx has priority 1";
    assert!(text.contains(outranked), "{text}");
    assert!(text.contains("lost: message-ttl"), "{text}");
}

#[test]
fn what_does_not_last_or_dies_on_arrival_is_a_poor_target() {
    let mut fleeting = exchange("fleeting", "fanout");
    fleeting["durable"] = json!(false);
    let mut passing = queue("passing", json!({"x-max-length": 0}));
    passing["durable"] = json!(false);
    let definitions = json!({
        "queues": [queue("orders", json!({"x-dead-letter-exchange": "fleeting"})), passing],
        "exchanges": [fleeting],
        "bindings": [binding("fleeting", "passing", "")],
    });
    let told = told(&looked(&definitions, Target::Coroner));
    let of_orders: Vec<_> = told
        .iter()
        .filter(|told| told.contains(" orders"))
        .collect();
    assert_eq!(
        of_orders,
        [
            "DL015 warning orders",
            "DL015 warning orders",
            "DL020 warning orders"
        ],
        "{told:?}"
    );
}

#[test]
fn dead_letters_among_live_messages_are_found_unless_they_came_from_there() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "everything"})),
            queue("audit", json!({})),
        ],
        "exchanges": [exchange("shop", "fanout"), exchange("everything", "fanout")],
        "bindings": [
            binding("shop", "orders", ""),
            binding("shop", "audit", ""),
            binding("everything", "audit", ""),
        ],
    });
    check(&definitions, &["DL016 warning orders"]);
}

#[test]
fn delayed_retries_without_a_limit_go_on_for_ever() {
    let arguments = json!({"x-delayed-retry-type": "failed", "x-delayed-retry-min": 1000,
        "x-dead-letter-exchange": "amq.fanout"});
    let definitions = json!({
        "queues": [
            queue("slow", arguments),
            queue("parked", json!({"x-max-length": 9, "x-overflow": "reject-publish"})),
        ],
        "bindings": [binding("amq.fanout", "parked", "")],
    });
    check(&definitions, &["DL018 warning slow"]);
}

#[test]
fn what_a_rabbitmq_would_not_do_is_told_if_it_is_for_one() {
    let definitions = json!({
        "queues": [
            queue("classic", json!({"x-dead-letter-strategy": "at-least-once",
                "x-dead-letter-exchange": "amq.fanout", "x-on-undeliverable": "drop"})),
            queue("parked", json!({"x-max-length": 9, "x-overflow": "reject-publish"})),
        ],
        "bindings": [binding("amq.fanout", "parked", "")],
        "policies": [policy("keep", (".*", 0), json!({"on-undeliverable": "quarantine"}))],
    });
    check(&definitions, &[]);
    let told = told(&looked(&definitions, Target::Rabbitmq));
    assert_eq!(
        told,
        [
            "DL019 warning classic",
            "DL019 warning classic",
            "DL019 warning keep"
        ]
    );
}

#[test]
fn what_cannot_be_delivered_and_is_kept_is_a_warning() {
    let definitions = json!({
        "queues": [queue("a", json!({"x-dead-letter-exchange": "missing"}))],
    });
    let read = Topology::read(&definitions, None, OnUndeliverable::Quarantine);
    let report = Report::of(&mut read.unwrap(), Target::Coroner).to_json();
    assert_eq!(told(&report), ["DL001 warning a: kept in amq.quarantine"]);
}

#[test]
fn a_silenced_finding_is_counted_and_not_told() {
    let silence = |rule: &str| {
        json!({
            "global_parameters": [{"name": "lint", "value":
                {"ignore": [{"rule": rule, "object": "old", "why": "a cache"}]}}],
            "queues": [queue("old", json!({"x-message-ttl": 1000}))],
        })
    };
    let report = looked(&silence("DL006"), Target::Coroner);
    assert_eq!((told(&report).len(), &report["silenced"]), (0, &json!(1)));
    let wrong = Topology::read(&silence("DL999"), None, OnUndeliverable::Drop).unwrap_err();
    assert!(
        wrong.why.contains("there is no rule 'DL999'"),
        "{}",
        wrong.why
    );
}

/// What was silenced filled the report, and the rest was cut off.
#[test]
fn what_is_silenced_leaves_its_place_to_what_is_not() {
    let mut queues: Vec<Json> = (0..=LINT_FINDINGS_MAX)
        .map(|number| {
            queue(
                &format!("q{number}"),
                json!({"x-dead-letter-exchange": "missing"}),
            )
        })
        .collect();
    queues.push(queue("old", json!({"x-message-ttl": 1000})));
    let mut definitions = json!({"queues": queues});
    let report = looked(&definitions, Target::Coroner);
    assert_eq!(report["left_out"], json!(2));
    assert!(text(&report).ends_with("2 more are left out\n"));
    definitions["global_parameters"] =
        json!([{"name": "lint", "value": {"ignore": [{"rule": "DL001"}]}}]);
    let report = looked(&definitions, Target::Coroner);
    assert_eq!(
        told(&report),
        ["DL006 warning old: dropped (no_dead_letter_exchange)"]
    );
    assert_eq!(report["left_out"], json!(0));
}

#[test]
fn a_silence_with_a_mistake_does_not_silence_everything() {
    for (one, expect) in [
        (
            json!({"rule": "DL001", "objekt": "a"}),
            "there is no field 'objekt'",
        ),
        (
            json!({"rule": "DL001", "object": ["a"]}),
            "the field 'object' must be a text",
        ),
        (json!({"object": "a"}), "the field 'rule' is missing"),
    ] {
        let refused = Silence::read(&json!({"ignore": [one]})).unwrap_err();
        assert!(refused.why.contains(expect), "{}", refused.why);
    }
}

/// Both exchanges are dead-letter exchanges, and clients publish to one of them: this was two errors.
#[test]
fn a_retry_by_two_exchanges_loses_nothing() {
    let definitions = json!({
        "exchanges": [exchange("work", "direct"), exchange("retry", "direct")],
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "retry"})),
            queue("orders.retry", json!({"x-dead-letter-exchange": "work", "x-message-ttl": 5000})),
        ],
        "bindings": [
            binding("work", "orders", "order.new"),
            binding("retry", "orders.retry", "order.new"),
        ],
    });
    check(&definitions, &["DL005 info orders"]);
}

/// It was a warning if the waiting queue came first by its name.
#[test]
fn a_retry_is_one_whatever_its_queues_are_called() {
    for wait in ["orders.wait", "delay.orders"] {
        let definitions = json!({
            "queues": [
                queue("orders", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait})),
                queue(wait, json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
                    "x-message-ttl": 5000})),
            ],
        });
        check(&definitions, &["DL005 info orders"]);
    }
}

/// Of the deaths that lead nowhere one that can be tried is shown.
#[test]
fn keys_that_lead_nowhere_are_shown_by_a_rejection() {
    let definitions = json!({
        "exchanges": [exchange("shop", "direct"), exchange("dead", "direct")],
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "dead", "x-max-length": 100_000})),
            queue("failed", json!({"x-max-length": 100, "x-overflow": "reject-publish"})),
        ],
        "bindings": [
            binding("shop", "orders", "order.new"),
            binding("shop", "orders", "order.old"),
            binding("dead", "failed", "order.new"),
        ],
    });
    let report = looked(&definitions, Target::Coroner);
    let told = told(&report);
    assert!(
        told.iter()
            .any(|told| told.starts_with("DL003 error orders: dropped")),
        "{told:?}"
    );
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_looked_at() {
    let definitions = json!({
        "queues": [
            queue("stream", json!({"x-queue-type": "stream"})),
            queue("wrong", json!({"x-max-length": "many"})),
            queue("old", json!({"x-message-ttl": 1000})),
        ],
    });
    let report = looked(&definitions, Target::Coroner);
    assert_eq!(report["not_read"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(told(&report).len(), 1);
}

/// A warning at a declaration and a finding must not have two numbers for one thing.
#[test]
fn a_warning_has_the_number_of_the_rule_that_finds_the_same() {
    let policies = [
        ("missing", json!({"dead-letter-exchange": "none"})),
        ("unbound", json!({"dead-letter-exchange": "unbound"})),
        ("keyed", json!({"dead-letter-routing-key": "key"})),
        ("idle", json!({"queue-mode": "lazy"})),
    ];
    let named = policies.iter().map(|(name, definition)| {
        let pattern = format!("^{name}$");
        policy(name, (&pattern, 0), definition.clone())
    });
    let names = policies.iter().map(|(name, _)| queue(name, json!({})));
    let definitions = json!({
        "queues": names.collect::<Vec<_>>(),
        "exchanges": [exchange("unbound", "fanout")],
        "policies": named.collect::<Vec<_>>(),
    });
    let report = looked(&definitions, Target::Coroner);
    let mut found: Vec<&str> = told_rules(&report);
    found.sort_unstable();
    let mut topology = Topology::read(&definitions, None, OnUndeliverable::Drop).unwrap();
    let sandbox = topology.vhosts.values_mut().next().unwrap();
    let warned = policies.iter().flat_map(|(name, _)| {
        sandbox.core().warnings_of(&Declared::Policy {
            operator: false,
            name: Name::from(*name),
        })
    });
    let mut warned: Vec<&str> = warned.map(|warning| warning.rule().unwrap()).collect();
    warned.sort_unstable();
    assert_eq!(warned, ["DL001", "DL002", "DL013", "DL014"]);
    assert_eq!(warned, found, "{}", text(&report));
}

fn told_rules(report: &Json) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| finding["rule"].as_str().unwrap())
        .collect()
}

#[test]
fn a_sarif_report_names_rule_level_and_object() {
    let definitions = json!({"queues": [queue("old", json!({"x-message-ttl": 1000}))]});
    let report = looked(&definitions, Target::Coroner);
    let sarif = sarif(&report, "broker.json", "1.0.0");
    assert_eq!(sarif["version"], "2.1.0");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(
        (&result["ruleId"], &result["level"]),
        (&json!("DL006"), &json!("warning"))
    );
    assert_eq!(
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
        "broker.json"
    );
    assert_eq!(
        sarif["runs"][0]["tool"]["driver"]["rules"]
            .as_array()
            .unwrap()
            .len(),
        Rule::ALL.len()
    );
}

/// What was not looked at stood in the text and in the JSON only, and the witness too.
#[test]
fn a_sarif_report_says_what_was_not_looked_at_and_what_became_of_the_witness() {
    let definitions = json!({
        "queues": [queue("stream", json!({"x-queue-type": "stream"})), queue("full", json!({"x-max-length": 2}))],
    });
    let sarif = sarif(
        &looked(&definitions, Target::Coroner),
        "broker.json",
        "1.0.0",
    );
    let run = &sarif["runs"][0];
    let notified = &run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"];
    let notified = notified.as_str().unwrap();
    assert!(
        notified.starts_with("not looked at: queue 'stream' in vhost '/': "),
        "{notified}"
    );
    let told = run["results"][0]["message"]["text"].as_str().unwrap();
    let witness =
        "witness: published to queue full, pushed out in full -> dropped (no_dead_letter_exchange)";
    assert!(told.contains(witness), "{told}");
}

#[test]
fn each_of_very_many_queues_of_a_fanout_is_known_to_get_live_messages() {
    let count = 2_000;
    let queues: Vec<Json> = (0..count)
        .map(|n| {
            queue(
                &format!("q{n}"),
                json!({"x-dead-letter-exchange": "missing"}),
            )
        })
        .collect();
    let bindings: Vec<Json> = (0..count)
        .map(|n| binding("all", &format!("q{n}"), ""))
        .collect();
    let definitions = json!({
        "queues": queues, "exchanges": [exchange("all", "fanout")], "bindings": bindings,
    });
    let report = looked(&definitions, Target::Coroner);
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), count);
    for finding in findings {
        assert_eq!(finding["witness"]["exchange"], "all", "{finding}");
    }
}

/// The budget of part 9: 20,000 queues in 2 s, optimised; tests are not, and share their machine.
#[test]
fn twenty_thousand_queues_are_looked_at() {
    let count = 20_000;
    let queues =
        (0..count).map(|n| queue(&format!("q{n}"), json!({"x-dead-letter-exchange": "dead"})));
    let queues: Vec<Json> = queues.collect();
    let bindings = (0..count).map(|n| binding("shop", &format!("q{n}"), &format!("k{n}")));
    let mut bindings: Vec<Json> = bindings.collect();
    bindings.push(binding("dead", "dlq", "#"));
    let mut queues = queues;
    queues.push(queue("dlq", json!({})));
    let definitions = json!({
        "queues": queues,
        "exchanges": [exchange("shop", "direct"), exchange("dead", "topic")],
        "bindings": bindings,
    });
    check(&definitions, &["DL009 info dlq"]);
}

#[test]
fn every_rule_has_a_row_in_the_page_about_them() {
    let page = include_str!("../../../docs/LINT.md");
    for rule in Rule::ALL {
        let (number, severity) = (rule.as_str(), rule.severity().as_str());
        let row = format!("| {number} | {severity} | {} |\n", rule.meaning());
        assert!(page.contains(&row), "{row}");
    }
}
