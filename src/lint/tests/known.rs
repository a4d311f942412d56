//! What is known for sure of messages, and what only may be: flags of ways that are found one after the
//! other, and keys that nobody knows.

use serde_json::{Value as Json, json};

use super::{binding, check, exchange, looked, queue, told};
use crate::lint::{Target, text};

const PARKED: &str = r#"{"x-max-length": 9, "x-overflow": "reject-publish"}"#;

fn parked(name: &str) -> Json {
    queue(name, serde_json::from_str(PARKED).unwrap())
}

fn dead_to(name: &str, exchange: &str) -> Json {
    queue(name, json!({"x-dead-letter-exchange": exchange}))
}

fn by_headers(source: &str, queue: &str) -> Json {
    let mut bound = binding(source, queue, "");
    bound["arguments"] = json!({"x-match": "all", "type": "pdf"});
    bound
}

/// `third` was reached by headers first, and by the long way of `a`, `b`, `c` only later: what followed from
/// it stayed uncertain, so that no key of `fourth` was looked at but its name, which nobody uses.
#[test]
fn what_follows_from_a_way_that_turns_out_to_be_sure_is_sure_too() {
    let definitions = json!({
        "exchanges": [
            exchange("in", "direct"), exchange("perhaps", "headers"), exchange("to-b", "direct"),
            exchange("to-c", "direct"), exchange("to-third", "direct"), exchange("to-fourth", "direct"),
            exchange("unknown", "direct"),
        ],
        "queues": [
            dead_to("first", "perhaps"), dead_to("maybe", "to-third"),
            dead_to("a", "to-b"), dead_to("b", "to-c"), dead_to("c", "to-third"),
            dead_to("third", "to-fourth"), dead_to("fourth", "unknown"), parked("other"),
        ],
        "bindings": [
            binding("in", "first", "k"), binding("in", "a", "k"),
            by_headers("perhaps", "maybe"), binding("to-b", "b", "k"), binding("to-c", "c", "k"),
            binding("to-third", "third", "k"), binding("to-fourth", "fourth", "k"),
            binding("unknown", "other", "z"),
        ],
    });
    check(&definitions, &["DL003 error fourth: dropped (unroutable)"]);
    let words = text(&looked(&definitions, Target::Coroner));
    let witness = "published in/k, rejected in a, rejected in b, rejected in c, rejected in third, \
                   rejected in fourth -> dropped (unroutable)";
    assert!(
        words.contains("dead letters with key 'k' reach no queue"),
        "{words}"
    );
    assert!(words.contains(witness), "{words}");
}

/// What headers brought was taken to go anywhere, and a fanout takes whatever comes.
#[test]
fn letters_with_keys_that_nobody_knows_go_surely_where_keys_do_not_matter() {
    let of = |kind: &str, key: &str| {
        let mut passing = queue("passing", json!({}));
        passing["durable"] = json!(false);
        json!({
            "exchanges": [exchange("docs", "headers"), exchange("dead", kind)],
            "queues": [dead_to("pdf", "dead"), passing],
            "bindings": [by_headers("docs", "pdf"), binding("dead", "passing", key)],
        })
    };
    let surely = "the dead letters of this durable queue go to passing, which is not durable";
    let perhaps = "the dead letters of this durable queue may go to passing";
    for (kind, key, words) in [
        ("fanout", "", surely),
        ("topic", "#", surely),
        ("topic", "a.#", perhaps),
        ("direct", "a", perhaps),
        ("headers", "a", perhaps),
    ] {
        let report = looked(&of(kind, key), Target::Coroner);
        let expected = ["DL015 warning pdf", "DL009 info passing"];
        assert_eq!(told(&report), expected, "{kind}");
        assert!(text(&report).contains(words), "{kind}: {}", text(&report));
    }
}

/// The empty key was taken for one that nobody knows.
#[test]
fn an_empty_dead_letter_routing_key_is_a_key() {
    let zip = json!({"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": ""});
    let of = |key: &str| {
        json!({
            "exchanges": [exchange("docs", "headers"), exchange("dead", "direct"), exchange("more", "direct")],
            "queues": [queue("zip", zip.clone()), dead_to("again", "more"), parked("end")],
            "bindings": [by_headers("docs", "zip"), binding("dead", "again", ""), binding("more", "end", key)],
        })
    };
    check(&of(""), &[]);
    let words = text(&looked(&of("x"), Target::Coroner));
    assert!(words.contains("DL003 queue again"), "{words}");
    assert!(
        words.contains("dead letters with key '' reach no queue"),
        "{words}"
    );
}

/// What headers may bring to `maybe` has a key that is known. One was told of the queue's own name, which
/// nobody uses, as an error.
#[test]
fn letters_that_may_come_are_told_with_the_keys_that_they_would_have() {
    let of = |key: &str| {
        json!({
            "exchanges": [exchange("in", "direct"), exchange("perhaps", "headers"), exchange("last", "direct")],
            "queues": [dead_to("first", "perhaps"), dead_to("maybe", "last"), parked("end")],
            "bindings": [binding("in", "first", "k"), by_headers("perhaps", "maybe"), binding("last", "end", key)],
        })
    };
    check(&of("k"), &[]);
    check(&of("z"), &["DL003 warning maybe"]);
    let words = text(&looked(&of("z"), Target::Coroner));
    let told = "if messages with key 'k' come here, their dead letters reach no queue";
    assert!(words.contains(told), "{words}");
}

/// It came by headers, so that nothing was tried; but any key will do.
#[test]
fn a_witness_of_what_headers_bring_is_put_into_its_queue() {
    let definitions = json!({
        "exchanges": [exchange("docs", "headers"), exchange("dead", "fanout")],
        "queues": [dead_to("pdf", "dead"), dead_to("again", "missing")],
        "bindings": [by_headers("docs", "pdf"), binding("dead", "again", "")],
    });
    check(
        &definitions,
        &["DL001 error again: dropped (exchange_missing)"],
    );
    let words = text(&looked(&definitions, Target::Coroner));
    let witness = "published to queue pdf, rejected in pdf, rejected in again -> dropped";
    assert!(words.contains(witness), "{words}");
}

/// The exchange of an argument that an operator policy beats was taken for one to which clients publish.
#[test]
fn an_exchange_that_an_argument_names_has_dead_letters_also_where_an_operator_policy_beats_it() {
    let definitions = json!({
        "exchanges": [exchange("dead", "fanout"), exchange("of-operators", "fanout")],
        "queues": [dead_to("orders", "dead"), parked("end")],
        "bindings": [binding("dead", "end", ""), binding("of-operators", "end", "")],
        "parameters": [{"vhost": "/", "component": "operator_policy", "name": "all", "value": {
            "pattern": "^orders$", "apply-to": "queues", "priority": 0,
            "definition": {"dead-letter-exchange": "of-operators"}}}],
    });
    check(&definitions, &["DL012 warning orders"]);
}

#[test]
fn of_two_policies_with_the_same_priority_the_first_name_is_said_to_count() {
    let policy = |name: &str, definition: Json| super::policy(name, ("^a$", 0), definition);
    let definitions = json!({
        "queues": [queue("a", json!({}))],
        "policies": [
            policy("one", json!({"max-length": 9, "overflow": "reject-publish"})),
            policy("two", json!({"expires": 9})),
        ],
    });
    let words = text(&looked(&definitions, Target::Coroner));
    let told = "(priority 0) is never applied to a: policy one has the same priority, and comes first by \
                its name";
    assert!(words.contains(told), "{words}");
}

/// That clients are taken to publish to its name, since perhaps no dead letter comes, hid that only they do.
#[test]
fn a_queue_that_perhaps_dead_letters_reach_and_nothing_else_is_for_the_dead() {
    let parking = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"});
    let definitions = json!({
        "queues": [
            queue("first", json!({"x-dead-letter-exchange": "perhaps"})),
            queue("maybe", parking),
            queue("parking", json!({})),
        ],
        "exchanges": [exchange("in", "direct"), exchange("perhaps", "headers")],
        "bindings": [binding("in", "first", "k"), binding("perhaps", "maybe", "")],
    });
    let told = told(&looked(&definitions, Target::Coroner));
    assert!(told.contains(&"DL009 info parking".to_owned()), "{told:?}");
}
