//! Steps under the core's lock, and the longest ones that are not cut.

use std::time::Instant;

use coroner::base::Step;
use coroner::base::limits::{LISTING_SLICE, ROUTED_QUEUES_MAX, ROUTING_STEPS_MAX};
use coroner::broker::router::BindingsOf;

use super::objects::{Vhost, message, route};

/// Queues that one message may have.
const QUEUES: usize = ROUTED_QUEUES_MAX as usize;
/// How often each is done; the median counts.
const ROUNDS: usize = 21;

pub fn measure() {
    keys();
    nodes();
    objects();
    entries();
}

/// The median of some rounds, in nanoseconds.
fn median(mut round: impl FnMut()) -> u64 {
    let mut times: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    let median = times.get(ROUNDS / 2).copied().unwrap_or_default();
    u64::try_from(median).unwrap_or(u64::MAX)
}

fn tell(name: &str, step: Step, ns: u64, steps: usize, what: &str) {
    let each = ns / steps as u64;
    println!("| `{name}` | {} ns | {each} ns | {what} |", step.ns());
}

/// Routes a message by these keys and tells what a step took.
fn routed(vhost: &Vhost, exchange: &str, keys: &[&str]) -> (u64, bool) {
    let router = vhost.core.router();
    let id = router.id_of(exchange).expect("it was declared");
    let (route, message) = (route(exchange, keys), message());
    let mut out = Vec::new();
    let mut is_cut = false;
    let ns = median(|| {
        out.clear();
        is_cut = router
            .route(id, &route, &message, 0, &mut out)
            .are_used_up();
    });
    (ns, is_cut)
}

fn keys() {
    let mut vhost = Vhost::new();
    let keys: Vec<String> = (0..256).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        vhost.queue(key);
        vhost.bind("amq.direct", key, key);
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (ns, _) = routed(&vhost, "amq.direct", &keys);
    tell(
        "Key",
        Step::Key,
        ns,
        keys.len(),
        "256 keys in a direct exchange, each of another queue",
    );
}

/// Patterns of many `#`, and a key that fits all of their beginnings.
fn nodes() {
    let mut vhost = Vhost::new();
    vhost.queue("work");
    for stars in 0..8 {
        let words = [vec!["*"; stars], ["#", "a"].repeat(64)].concat();
        vhost.bind("amq.topic", "work", &words.join("."));
    }
    let key = ["a"; 257].join(".");
    let (ns, is_cut) = routed(&vhost, "amq.topic", &[&key]);
    assert!(is_cut, "they take fewer steps");
    tell(
        "Node",
        Step::Node,
        ns,
        ROUTING_STEPS_MAX,
        "nodes of a topic exchange, up to their bound",
    );
    let us = ns / 1_000;
    println!(
        "| `ROUTING_STEPS_MAX` | | {us} us | the whole of it, after which a message is refused |"
    );
}

fn objects() {
    let mut vhost = Vhost::new();
    vhost.queue("work");
    for number in 0..10_000 {
        vhost.bind("amq.direct", "work", &format!("key-{number}"));
    }
    let router = vhost.core.router();
    let mut found = 0;
    let ns = median(|| {
        found = router
            .bindings_slice(&BindingsOf::default(), None)
            .found
            .len();
    });
    assert!(found > 0 && found <= LISTING_SLICE);
    tell(
        "Object",
        Step::Object,
        ns,
        found,
        "bindings copied for a listing",
    );
}

/// One message into as many queues as it may have: the longest step that is not cut.
fn entries() {
    let mut vhost = Vhost::new();
    for number in 0..QUEUES {
        let queue = format!("queue-{number}");
        vhost.queue(&queue);
        vhost.bind("amq.fanout", &queue, "");
    }
    let fanout = vhost
        .core
        .router()
        .id_of("amq.fanout")
        .expect("it is predeclared");
    // Of each queue the first message takes more: its block is made.
    vhost.publish(fanout, &["k"], "amq.fanout");
    vhost.finish();
    let (found, _) = routed(&vhost, "amq.fanout", &["k"]);
    tell(
        "Pair",
        Step::Pair,
        found,
        QUEUES,
        "queues of a fanout exchange found, sorted",
    );
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        vhost.publish(fanout, &["k"], "amq.fanout");
        times.push(start.elapsed().as_nanos());
        vhost.finish();
    }
    times.sort_unstable();
    let median = times.get(ROUNDS / 2).copied().unwrap_or_default();
    let longest_us = times.last().copied().unwrap_or_default() / 1_000;
    let ns = u64::try_from(median).unwrap_or(u64::MAX);
    tell(
        "Entry",
        Step::Entry,
        ns,
        QUEUES,
        "copies of a message that enter queues, found and entered",
    );
    println!(
        "| `ROUTED_QUEUES_MAX` | | {} us | one message into all of them; the longest of {ROUNDS}: {longest_us} \
         us; finding them alone: {} us |",
        ns / 1_000,
        found / 1_000,
    );
}
