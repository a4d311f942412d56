//! Topologies in the manner of well-known projects, written anew and small: what their users would be
//! told.

use serde_json::{Value as Json, json};

use super::{binding, check, exchange, policy, queue};

/// Spring Cloud Stream: a consumer group's queue with a dead-letter queue of its own behind one
/// direct exchange `DLX`; what is rejected is parked there for ever.
#[test]
fn a_group_with_a_dead_letter_queue_behind_one_direct_exchange() {
    let definitions = json!({
        "queues": [
            queue("orders.billing", json!({"x-dead-letter-exchange": "DLX",
                "x-dead-letter-routing-key": "orders.billing"})),
            queue("orders.billing.dlq", json!({})),
        ],
        "exchanges": [exchange("orders", "topic"), exchange("DLX", "direct")],
        "bindings": [
            binding("orders", "orders.billing", "#"),
            binding("DLX", "orders.billing.dlq", "orders.billing"),
        ],
    });
    check(&definitions, &["DL009 info orders.billing.dlq"]);
}

/// The same with a ttl on the dead-letter queue that sends it back, as its documentation offers
/// for retries.
#[test]
fn a_dead_letter_queue_that_expires_back_to_its_group() {
    let definitions = json!({
        "queues": [
            queue("orders.billing", json!({"x-dead-letter-exchange": "DLX",
                "x-dead-letter-routing-key": "orders.billing"})),
            queue("orders.billing.dlq", json!({"x-message-ttl": 5000,
                "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.billing"})),
        ],
        "exchanges": [exchange("orders", "topic"), exchange("DLX", "direct")],
        "bindings": [
            binding("orders", "orders.billing", "#"),
            binding("DLX", "orders.billing.dlq", "orders.billing"),
        ],
    });
    check(&definitions, &["DL005 info orders.billing"]);
}

/// `NServiceBus`: a delayed message walks through levels of queues, each with twice the ttl of the
/// next, by topic exchanges that look at one bit each.
fn levels_of_delays(levels: u32) -> Json {
    let name = |level: u32| format!("delay-level-{level:02}");
    let (mut queues, mut exchanges, mut bindings) = (Vec::new(), Vec::new(), Vec::new());
    exchanges.push(exchange("delivery", "topic"));
    for level in 0..levels {
        let below = if level == 0 {
            "delivery".to_owned()
        } else {
            name(level - 1)
        };
        exchanges.push(exchange(&name(level), "topic"));
        queues.push(queue(
            &name(level),
            json!({"x-message-ttl": 1000_u64 << level,
            "x-dead-letter-exchange": below}),
        ));
        let place = usize::try_from(levels - 1 - level).unwrap();
        let before = "*.".repeat(place);
        bindings.push(binding(&name(level), &name(level), &format!("{before}1.#")));
        bindings.push(json!({"source": name(level), "vhost": "/", "destination": below,
            "destination_type": "exchange", "routing_key": format!("{before}0.#"), "arguments": {}}));
    }
    for endpoint in ["sales", "billing"] {
        queues.push(queue(endpoint, json!({})));
        bindings.push(binding("delivery", endpoint, &format!("#.{endpoint}")));
    }
    json!({"queues": queues, "exchanges": exchanges, "bindings": bindings})
}

/// Each of its 28 levels had a finding: made-up keys, such as `1.any`, are no bits.
#[test]
fn levels_of_delays_that_hand_down_what_expires_are_no_fault() {
    check(&levels_of_delays(28), &[]);
}

#[test]
fn a_level_of_delays_that_leads_nowhere_is_one() {
    // Nothing leads to the queue of a level, by its bit or at all.
    let mut definitions = levels_of_delays(5);
    let bindings = definitions["bindings"].as_array_mut().unwrap();
    bindings
        .retain(|one| one["destination"] != "delay-level-02" || one["routing_key"] != "*.*.1.#");
    check(
        &definitions,
        &[
            "DL003 error delay-level-02: dropped (unroutable)",
            "DL003 info delay-level-03: dropped (unroutable)",
        ],
    );
    // The first level hands down by a key that is no bit.
    let mut definitions = levels_of_delays(5);
    definitions["queues"][4]["arguments"]["x-dead-letter-routing-key"] = json!("1.2.sales");
    check(
        &definitions,
        &["DL002 error delay-level-04: dropped (unroutable)"],
    );
    // Somebody else's messages come with keys of their own.
    let mut definitions = levels_of_delays(5);
    let queues = definitions["queues"].as_array_mut().unwrap();
    queues.push(queue(
        "work",
        json!({"x-dead-letter-exchange": "delay-level-02"}),
    ));
    let exchanges = definitions["exchanges"].as_array_mut().unwrap();
    exchanges.push(exchange("shop", "topic"));
    let bindings = definitions["bindings"].as_array_mut().unwrap();
    bindings.push(binding("shop", "work", "order.new"));
    check(&definitions, &["DL003 error work: dropped (unroutable)"]);
}

/// The usual ladder: the worker publishes what is to be tried again into queues that wait. Each of them was
/// said to mix dead letters with live ones.
#[test]
fn a_ladder_of_queues_in_which_messages_wait_for_their_next_try() {
    let wait = |name: &str, ms: u64| {
        let arguments = json!({"x-message-ttl": ms, "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "orders"});
        queue(name, arguments)
    };
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "parking"})),
            wait("orders.wait.1", 1_000), wait("orders.wait.2", 10_000), wait("orders.wait.3", 60_000),
            queue("parked", json!({"x-max-length": 9, "x-overflow": "reject-publish"})),
        ],
        "exchanges": [exchange("shop", "topic"), exchange("retry", "direct"), exchange("parking", "fanout")],
        "bindings": [
            binding("shop", "orders", "order.*"), binding("parking", "parked", ""),
            binding("retry", "orders.wait.1", "1"), binding("retry", "orders.wait.2", "2"),
            binding("retry", "orders.wait.3", "3"),
        ],
    });
    check(&definitions, &[]);
}

/// Symfony Messenger: a queue for each delay, which goes when it is empty, sends messages to the exchange to
/// which they are published without one. Its work queue was said to hold dead letters.
#[test]
fn a_delay_by_a_queue_that_goes_when_it_is_empty() {
    let delay = json!({"x-message-ttl": 5_000, "x-expires": 15_000,
        "x-dead-letter-exchange": "messages", "x-dead-letter-routing-key": ""});
    let definitions = json!({
        "queues": [queue("messages", json!({})), queue("failed", json!({})), queue("delay_5000", delay)],
        "exchanges": [exchange("messages", "fanout"), exchange("failed", "fanout"), exchange("delays", "direct")],
        "bindings": [
            binding("messages", "messages", ""), binding("failed", "failed", ""),
            binding("delays", "delay_5000", "delay_5000"),
        ],
    });
    check(&definitions, &[]);
}

/// Celery on quorum queues: levels of delays, below which an exchange hands on to that of the tasks, whose
/// queue is bound with its name too. That one key without a wildcard made each level a warning.
#[test]
fn levels_of_delays_above_an_exchange_that_knows_one_key() {
    let levels = 8;
    let name = |level: usize| format!("celery_delayed_{level}");
    let to_exchange = |source: &str, below: &str, key: &str| {
        json!({"source": source, "vhost": "/", "destination": below, "destination_type": "exchange",
            "routing_key": key, "arguments": {}})
    };
    let mut queues = vec![queue("celery", json!({}))];
    let mut exchanges = vec![exchange("celery", "topic"), exchange("delivery", "topic")];
    let mut bindings = vec![
        binding("celery", "celery", "celery"),
        binding("celery", "celery", "#.celery"),
        to_exchange("delivery", "celery", "#.celery"),
    ];
    for level in 0..levels {
        let below = if level == 0 {
            "delivery".to_owned()
        } else {
            name(level - 1)
        };
        queues.push(queue(
            &name(level),
            json!({"x-queue-type": "quorum", "x-message-ttl": 1000_u64 << level,
            "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
            "x-dead-letter-exchange": below}),
        ));
        exchanges.push(exchange(&name(level), "topic"));
        let before = "*.".repeat(levels - 1 - level);
        bindings.push(binding(&name(level), &name(level), &format!("{before}1.#")));
        bindings.push(to_exchange(&name(level), &below, &format!("{before}0.#")));
    }
    let definitions = json!({"queues": queues, "exchanges": exchanges, "bindings": bindings});
    // Words below the last level are those of queues: of others nobody knows that they are not used.
    check(
        &definitions,
        &["DL003 info celery_delayed_0: waits in celery_delayed_0"],
    );
}

/// `MassTransit`: faults are published to queues `_error` and `_skipped` by the client; the broker's
/// dead lettering is not used, and quorum queues have a limit all the same.
#[test]
fn faults_that_the_client_moves_itself() {
    let definitions = json!({
        "queues": [
            queue("submit-order", json!({"x-queue-type": "quorum"})),
            queue("submit-order_error", json!({})),
            queue("submit-order_skipped", json!({})),
        ],
        "exchanges": [
            exchange("submit-order", "fanout"),
            exchange("submit-order_error", "fanout"),
            exchange("submit-order_skipped", "fanout"),
        ],
        "bindings": [
            binding("submit-order", "submit-order", ""),
            binding("submit-order_error", "submit-order_error", ""),
            binding("submit-order_skipped", "submit-order_skipped", ""),
        ],
    });
    check(
        &definitions,
        &["DL008 warning submit-order: dropped (no_dead_letter_exchange)"],
    );
}

/// Celery with a delay queue for countdowns, and a dead-letter exchange that was forgotten to be
/// bound.
#[test]
fn a_worker_whose_dead_letter_exchange_nobody_bound() {
    let definitions = json!({
        "queues": [queue("celery", json!({"x-dead-letter-exchange": "celery.dead"}))],
        "exchanges": [exchange("celery", "direct"), exchange("celery.dead", "direct")],
        "bindings": [binding("celery", "celery", "celery")],
    });
    check(&definitions, &["DL002 error celery: dropped (unroutable)"]);
}

/// A company's policies: one for dead letters, and one for a ttl that takes them away.
#[test]
fn two_policies_of_which_one_was_meant_to_add_to_the_other() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-queue-type": "quorum"})),
            queue("dead", json!({"x-max-length": 1000, "x-overflow": "reject-publish"})),
        ],
        "exchanges": [exchange("shop", "direct"), exchange("dlx", "fanout")],
        "bindings": [binding("shop", "orders", "order"), binding("dlx", "dead", "")],
        "policies": [
            policy("dead-letters", ("^orders", 0), json!({"dead-letter-exchange": "dlx"})),
            policy("ttl", ("^orders", 5), json!({"message-ttl": 60_000})),
        ],
    });
    let report: Json = super::looked(&definitions, crate::lint::Target::Coroner);
    let told = super::told(&report);
    for expected in [
        "DL006 warning orders: dropped (no_dead_letter_exchange)",
        "DL008 warning orders: dropped (no_dead_letter_exchange)",
        "DL011 warning dead-letters",
    ] {
        assert!(
            told.iter().any(|told| told == expected),
            "{expected}: {told:?}"
        );
    }
}
