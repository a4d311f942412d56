//! What is too much to be looked at: nothing is claimed of it, and it is named; and what looks like too much
//! and is not.

use serde_json::{Value as Json, json};

use super::{binding, exchange, looked, policy, queue, told};
use crate::broker::arguments::OnUndeliverable;
use crate::lint::budget::{Budget, Part};
use crate::lint::{Found, Target, Topology, lint_within, text};

/// What is found with this many steps of a part: rule and object of each finding, and what was not looked at.
fn found(definitions: &Json, budget: Budget) -> (Vec<String>, Vec<String>) {
    let mut topology = Topology::read(definitions, None, OnUndeliverable::Drop).unwrap();
    let sandbox = topology.vhosts.values_mut().next().unwrap();
    let found: Found = lint_within(sandbox, Target::Coroner, &[], budget);
    let findings = found.findings.iter();
    let findings =
        findings.map(|finding| format!("{} {}", finding.rule.as_str(), finding.subject.name()));
    let left = found.not_looked_at.into_iter().map(|left| left.item);
    (findings.collect(), left.collect())
}

fn check(definitions: &Json, part: Part, steps: usize, expected: (&[&str], &[&str])) {
    let (findings, left) = found(definitions, Budget::default().with(part, steps));
    assert_eq!(findings, expected.0, "{part:?} {steps}");
    assert_eq!(left, expected.1, "{part:?} {steps}");
}

fn to_exchange(source: &str, below: &str) -> Json {
    json!({"source": source, "vhost": "/", "destination": below, "destination_type": "exchange",
        "routing_key": "", "arguments": {}})
}

/// Each policy was compared with each stream, and with each exchange, outside of the bound.
#[test]
fn policies_are_compared_with_streams_and_exchanges_within_the_bound_for_queues() {
    let stream = |name: &str| queue(name, json!({"x-queue-type": "stream"}));
    let of_streams = |name: &str| {
        let mut policy = policy(name, ("^none$", 0), json!({"max-length": 9}));
        policy["apply-to"] = json!("all");
        policy
    };
    let definitions = json!({
        "queues": [stream("a"), stream("b"), stream("c")],
        "policies": [of_streams("one"), of_streams("two")],
    });
    // 6 exchanges are there from the beginning.
    let all: (&[&str], &[&str]) = (&["DL013 one", "DL013 two"], &[]);
    check(&definitions, Part::Matches, 2 * (3 + 6), all);
    let some: (&[&str], &[&str]) = (&["DL013 one"], &["policies of vhost '/'"]);
    check(&definitions, Part::Matches, 2 * (3 + 6) - 1, some);
    check(&definitions, Part::Matches, 5, (&[], some.1));
}

#[test]
fn queues_that_are_too_many_for_the_policies_are_told_as_not_looked_at() {
    let definitions = json!({
        "queues": [queue("a", json!({})), queue("b", json!({}))],
        "policies": [
            policy("low", (".*", 0), json!({"max-length": 9, "overflow": "reject-publish"})),
            policy("high", (".*", 1), json!({"overflow": "reject-publish"})),
        ],
    });
    check(&definitions, Part::Matches, 4, (&["DL011 low"], &[]));
    check(
        &definitions,
        Part::Matches,
        3,
        (&[], &["policies of vhost '/'"]),
    );
}

/// Each dead-letter exchange had 256 exchanges times 256 for itself, however many there are.
#[test]
fn nothing_is_claimed_of_what_lies_behind_a_dead_letter_exchange_once_the_steps_are_used_up() {
    let definitions = json!({
        "queues": [queue("orders", json!({"x-dead-letter-exchange": "a"}))],
        "exchanges": [exchange("a", "fanout"), exchange("b", "fanout"), exchange("c", "fanout")],
        "bindings": [to_exchange("a", "b"), to_exchange("b", "c"), to_exchange("c", "a")],
    });
    check(&definitions, Part::Behind, 3, (&["DL002 orders"], &[]));
    let left = "exchanges behind dead-letter exchanges of vhost '/'";
    check(&definitions, Part::Behind, 2, (&[], &[left]));
}

#[test]
fn a_dead_letter_exchange_with_too_many_exchanges_behind_it_is_told_in_the_report() {
    let of = |count: usize| {
        let name = |n: usize| format!("x{n}");
        let exchanges = (0..count).map(|n| exchange(&name(n), "fanout"));
        let bindings = (1..count).map(|n| to_exchange(&name(n - 1), &name(n)));
        json!({
            "queues": [queue("orders", json!({"x-dead-letter-exchange": "x0"}))],
            "exchanges": exchanges.collect::<Vec<_>>(),
            "bindings": bindings.collect::<Vec<_>>(),
        })
    };
    let report = looked(&of(256), Target::Coroner);
    assert_eq!(told(&report), ["DL002 error orders: dropped (unroutable)"]);
    assert_eq!(report["not_read"], json!([]));
    let report = looked(&of(257), Target::Coroner);
    assert_eq!(told(&report), Vec::<String>::new());
    let words = text(&report);
    let left = "not looked at: exchanges behind dead-letter exchanges of vhost '/': there are more than 256";
    assert!(words.contains(left), "{words}");
}

#[test]
fn loops_and_ways_that_are_not_looked_at_are_told() {
    let back = |to: &str| json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to});
    let definitions = json!({"queues": [queue("a", back("b")), queue("b", back("a"))]});
    check(&definitions, Part::Loops, 100, (&["DL005 a"], &[]));
    check(&definitions, Part::Loops, 1, (&[], &["loops of vhost '/'"]));
    let dead = json!({"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "none"});
    let lost = json!({
        "queues": [queue("a", dead.clone()), queue("b", dead)],
        "exchanges": [exchange("dead", "direct")],
        "bindings": [binding("dead", "b", "some")],
    });
    let (all, ways): (&[&str], &[&str]) =
        (&["DL002 a", "DL002 b"], &["ways of messages of vhost '/'"]);
    check(&lost, Part::Routes, 100, (all, &[]));
    check(&lost, Part::Routes, 0, (&[], ways));
    check(&lost, Part::Arrivals, 0, (&[], ways));
}

/// A queue was taken to get dead letters only where its live messages were not followed.
#[test]
fn a_queue_whose_live_messages_are_not_followed_is_not_said_to_be_for_the_dead() {
    let definitions = json!({
        "queues": [queue("orders", json!({"x-dead-letter-exchange": "dead"})), queue("parking", json!({}))],
        "exchanges": [exchange("shop", "direct"), exchange("dead", "fanout")],
        "bindings": [binding("shop", "parking", "p"), binding("dead", "parking", "")],
    });
    check(&definitions, Part::Routes, 100, (&["DL016 orders"], &[]));
    let ways = "ways of messages of vhost '/'";
    check(&definitions, Part::Routes, 0, (&[], &[ways]));
}

/// It was said, without a word, that there is none.
#[test]
fn a_way_back_that_is_sought_among_too_many_is_told_as_not_looked_at() {
    let of = |count: usize| {
        let name = |n: usize| format!("q{n}");
        let next =
            |n: usize| json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name(n)});
        let queues = (1..count).map(|n| queue(&name(n - 1), next(n)));
        let ends = [
            queue("orders", json!({"x-dead-letter-exchange": "dead"})),
            queue(&name(count - 1), json!({})),
        ];
        let definitions = json!({
            "queues": queues.chain(ends).collect::<Vec<_>>(),
            "exchanges": [exchange("shop", "direct"), exchange("dead", "fanout")],
            "bindings": [binding("shop", "q0", "k"), binding("dead", "q0", "")],
        });
        let (findings, left) = found(&definitions, Budget::default().with(Part::Loops, 0));
        let of_orders = findings.iter().any(|finding| finding == "DL016 orders");
        let way_back = "dead letters among live messages (DL016) of vhost '/'";
        (of_orders, left.iter().any(|left| left == way_back))
    };
    assert_eq!(of(10), (true, false));
    assert_eq!(of(2_100), (false, true));
}

/// Queues `q0` to `q19999`, of which each is bound to both exchanges, the dead-letter exchange one of them.
fn many(kinds: (&str, &str), keys: fn(usize) -> (String, String)) -> Json {
    let count = 20_000;
    let name = |n: usize| format!("q{n}");
    let queues = (0..count).map(|n| queue(&name(n), json!({"x-dead-letter-exchange": "dead"})));
    let bindings = (0..count).flat_map(|n| {
        let (live, dead) = keys(n);
        [
            binding("shop", &name(n), &live),
            binding("dead", &name(n), &dead),
        ]
    });
    json!({
        "queues": queues.collect::<Vec<_>>(),
        "exchanges": [exchange("shop", kinds.0), exchange("dead", kinds.1)],
        "bindings": bindings.collect::<Vec<_>>(),
    })
}

/// Seconds that looking at such a topology may take, not optimised and on a busy machine; it took hours.
const SECONDS: u64 = 100;

#[allow(clippy::disallowed_methods, reason = "it is about time")]
fn in_time(definitions: &Json) -> Json {
    let begin = std::time::Instant::now();
    let report = looked(definitions, Target::Coroner);
    assert!(begin.elapsed().as_secs() < SECONDS, "{:?}", begin.elapsed());
    report
}

/// For each queue that loses something the 20,000 bindings were sorted, and those that are patterns sought.
#[test]
fn twenty_thousand_queues_that_lose_letters_share_one_dead_letter_exchange() {
    let keys = |n: usize| (format!("lost.{n}"), format!("kept.{n}"));
    let report = in_time(&many(("direct", "direct"), keys));
    assert_eq!(
        report["errors"],
        json!(crate::base::limits::LINT_FINDINGS_MAX)
    );
    let keys = |n: usize| (format!("lost.{n}.#"), format!("kept.{n}"));
    let report = in_time(&many(("topic", "topic"), keys));
    assert_eq!(
        report["errors"],
        json!(crate::base::limits::LINT_FINDINGS_MAX)
    );
}

/// A fanout was asked for each key, and from each queue all ways on were followed to find one back.
#[test]
fn twenty_thousand_queues_dead_letter_to_all_of_them() {
    let keys = |n: usize| (format!("k{n}"), String::new());
    let report = in_time(&many(("direct", "fanout"), keys));
    let left = report["not_read"].as_array().unwrap().iter();
    let left: Vec<&str> = left.filter_map(|left| left["item"].as_str()).collect();
    assert_eq!(
        left,
        ["dead letters among live messages (DL016) of vhost '/'"]
    );
}

/// For each queue all bindings of the exchange above it were looked at.
#[test]
fn twenty_thousand_queues_lie_below_an_exchange_to_which_as_many_lead() {
    let count = 20_000;
    let (name, producer) = (|n: usize| format!("q{n}"), |n: usize| format!("p{n}"));
    let dead = json!({"x-dead-letter-exchange": "dead"});
    let queues = (0..count).map(|n| queue(&name(n), dead.clone()));
    let fixed = [exchange("hub", "fanout"), exchange("dead", "fanout")];
    let exchanges = (0..count).map(|n| exchange(&producer(n), "fanout"));
    let bindings = (0..count).flat_map(|n| {
        let to_hub = to_exchange(&producer(n), "hub");
        [binding("hub", &name(n), ""), to_hub]
    });
    let bindings = bindings.chain([binding("dead", "end", "")]);
    let definitions = json!({
        "queues": queues.chain([queue("end", json!({}))]).collect::<Vec<_>>(),
        "exchanges": exchanges.chain(fixed).collect::<Vec<_>>(),
        "bindings": bindings.collect::<Vec<_>>(),
    });
    assert_eq!(told(&in_time(&definitions)), ["DL009 info end"]);
}
