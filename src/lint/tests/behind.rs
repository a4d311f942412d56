//! Dead letters behind the dead-letter exchange: by bindings between exchanges, alternate exchanges, and
//! headers.

use serde_json::{Value as Json, json};

use super::{binding, check, exchange, looked, queue, told};
use crate::lint::{Target, text};

fn to_exchange(source: &str, below: &str, key: &str) -> Json {
    json!({"source": source, "vhost": "/", "destination": below, "destination_type": "exchange",
        "routing_key": key, "arguments": {}})
}

/// `orders` gets live messages from `shop` and has the dead-letter exchange `dead`.
fn orders(exchanges: &[Json], queues: &[Json], bindings: &[Json]) -> Json {
    let orders = queue("orders", json!({"x-dead-letter-exchange": "dead"}));
    let queues = [&[orders], queues].concat();
    let exchanges = [&[exchange("shop", "direct")], exchanges].concat();
    let bindings = [&[binding("shop", "orders", "order.new")], bindings].concat();
    json!({"queues": queues, "exchanges": exchanges, "bindings": bindings})
}

/// `x` was taken for an exchange that clients publish to: DL016, and no DL009.
#[test]
fn an_exchange_behind_a_dead_letter_exchange_has_dead_letters_only() {
    let behind = |arguments: Json| {
        orders(
            &[exchange("dead", "fanout"), exchange("x", "topic")],
            &[queue("dlq", arguments)],
            &[to_exchange("dead", "x", ""), binding("x", "dlq", "#")],
        )
    };
    check(&behind(json!({})), &["DL009 info dlq"]);
    check(&behind(json!({"x-message-ttl": 5000})), &["DL010 info dlq"]);
    let told = text(&looked(
        &behind(json!({"x-message-ttl": 5000})),
        Target::Coroner,
    ));
    assert!(told.contains("the second death is the last"), "{told}");
}

#[test]
fn an_exchange_behind_a_dead_letter_exchange_that_live_messages_pass_has_both() {
    let definitions = orders(
        &[exchange("dead", "fanout"), exchange("x", "fanout")],
        &[queue("audit", json!({}))],
        &[
            to_exchange("dead", "x", ""),
            to_exchange("shop", "x", "order.new"),
            binding("x", "audit", ""),
        ],
    );
    check(&definitions, &["DL016 warning orders"]);
}

#[test]
fn the_alternate_of_a_dead_letter_exchange_has_dead_letters_only() {
    let mut dead = exchange("dead", "direct");
    dead["arguments"] = json!({"alternate-exchange": "parking"});
    let definitions = orders(
        &[dead, exchange("parking", "fanout")],
        &[
            queue(
                "dlq",
                json!({"x-max-length": 9, "x-overflow": "reject-publish"}),
            ),
            queue("parked", json!({})),
        ],
        &[
            binding("dead", "dlq", "order.old"),
            binding("parking", "parked", ""),
        ],
    );
    check(&definitions, &["DL009 info parked"]);
}

/// What a live exchange does not route reaches the queue below its alternate: it has live messages, too.
#[test]
fn the_alternate_of_a_live_exchange_gets_live_messages() {
    let mut shop = exchange("shop", "direct");
    shop["arguments"] = json!({"alternate-exchange": "dead"});
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "dead"})),
            queue("parked", json!({})),
        ],
        "exchanges": [shop, exchange("dead", "fanout")],
        "bindings": [binding("shop", "orders", "order.new"), binding("dead", "parked", "")],
    });
    check(&definitions, &[]);
}

/// Nothing was said of a queue behind a headers exchange, as it was not looked at.
#[test]
fn what_headers_may_lead_to_is_told_as_what_may_be() {
    let mut passing = queue("passing", json!({}));
    passing["durable"] = json!(false);
    let definitions = orders(
        &[exchange("dead", "headers")],
        &[queue("dlq", json!({})), passing],
        &[binding("dead", "dlq", ""), binding("dead", "passing", "")],
    );
    check(
        &definitions,
        &[
            "DL015 warning orders",
            "DL009 info dlq",
            "DL009 info passing",
        ],
    );
    let told = text(&looked(&definitions, Target::Coroner));
    assert!(
        told.contains("may go to passing, which is not durable"),
        "{told}"
    );
}

#[test]
fn an_exchange_behind_that_does_not_last_is_named() {
    let mut fleeting = exchange("fleeting", "fanout");
    fleeting["durable"] = json!(false);
    let definitions = orders(
        &[exchange("dead", "fanout"), fleeting],
        &[queue(
            "dlq",
            json!({"x-max-length": 9, "x-overflow": "reject-publish"}),
        )],
        &[
            to_exchange("dead", "fleeting", ""),
            binding("fleeting", "dlq", ""),
        ],
    );
    check(&definitions, &["DL015 warning orders"]);
    let told = text(&looked(&definitions, Target::Coroner));
    assert!(
        told.contains("may go through exchange 'fleeting', which is not durable"),
        "{told}"
    );
}

/// A headers exchange anywhere in the vhost made all ways over two exchanges uncertain.
#[test]
fn a_headers_exchange_that_is_not_on_the_way_leaves_it_certain() {
    let definitions = orders(
        &[
            exchange("dead", "fanout"),
            exchange("x", "direct"),
            exchange("elsewhere", "headers"),
        ],
        &[
            queue(
                "dlq",
                json!({"x-max-length": 9, "x-overflow": "reject-publish"}),
            ),
            queue("other", json!({})),
        ],
        &[
            to_exchange("dead", "x", ""),
            binding("x", "dlq", "order.old"),
            binding("elsewhere", "other", ""),
        ],
    );
    check(&definitions, &["DL003 error orders: dropped (unroutable)"]);
}

/// Nothing was followed from `dlq`, since what comes to it only may come.
#[test]
fn a_queue_that_messages_may_reach_is_looked_at_as_if_one_was_put_into_it() {
    let shop = exchange("shop", "headers");
    let definitions = json!({
        "exchanges": [shop, exchange("dead", "fanout"), exchange("back", "fanout")],
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "dead"})),
            queue("dlq", json!({"x-message-ttl": 5000, "x-dead-letter-exchange": "back"})),
        ],
        "bindings": [
            binding("shop", "orders", ""),
            binding("dead", "dlq", ""),
            binding("back", "dlq", ""),
        ],
    });
    check(
        &definitions,
        &["DL004 error dlq: dropped (cycle)", "DL005 warning dlq"],
    );
}

/// A binding to an exchange that leads nowhere was taken for a way.
#[test]
fn exchanges_that_lead_to_each_other_and_to_no_queue_are_no_way() {
    let definitions = orders(
        &[exchange("dead", "fanout"), exchange("x", "fanout")],
        &[],
        &[to_exchange("dead", "x", ""), to_exchange("x", "dead", "")],
    );
    check(&definitions, &["DL002 error orders: dropped (unroutable)"]);
    let told = text(&looked(&definitions, Target::Coroner));
    assert!(
        told.contains(
            "no queue is bound to the dead-letter exchange 'dead', nor to an exchange behind it"
        ),
        "{told}"
    );
}

/// Letters of a queue that dead-letters at-least-once wait in it: they were told to be lost.
#[test]
fn letters_without_a_way_wait_where_they_are_sent_at_least_once() {
    let arguments = |kind: &str, exchange: &str| {
        json!({"x-queue-type": kind, "x-dead-letter-exchange": exchange,
            "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
    };
    let of = |kind: &str| {
        json!({
            "queues": [
                queue("a", arguments(kind, "missing")),
                queue("b", arguments(kind, "unbound")),
                queue("c", arguments(kind, "dead")),
                queue("dlq", json!({"x-max-length": 9, "x-overflow": "reject-publish"})),
            ],
            "exchanges": [exchange("unbound", "fanout"), exchange("dead", "direct"),
                exchange("shop", "direct")],
            "bindings": [binding("shop", "c", "new"), binding("dead", "dlq", "old")],
        })
    };
    let waits = [
        "DL001 warning a: waits in a",
        "DL002 warning b: waits in b",
        "DL003 warning c: waits in c",
    ];
    check(&of("quorum"), &waits);
    check(&of("classic"), &waits);
    assert_eq!(told(&looked(&of("quorum"), Target::Rabbitmq)), waits);
    let words = text(&looked(&of("quorum"), Target::Coroner));
    let waiting = "does not exist: they wait in this queue until there is a way (at-least-once)";
    assert!(words.contains(waiting), "{words}");
    // A RabbitMQ has that strategy in quorum queues only: there they are lost, which is not tried here.
    let of_classic = told(&looked(&of("classic"), Target::Rabbitmq));
    for lost in ["DL001 error a", "DL002 error b", "DL003 error c"] {
        assert!(of_classic.iter().any(|one| one == lost), "{of_classic:?}");
    }
}
