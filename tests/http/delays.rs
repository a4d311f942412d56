//! Messages that wait until it is their time.

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

const QUEUE: &str = "/api/queues/%2F/q";

/// Publishes to the queue; the status and the answer.
fn publish(api: &Api<'_>, headers: &Value) -> (u16, Value) {
    let body = json!({
        "properties": {"headers": headers, "delivery_mode": 2},
        "routing_key": "q", "payload": "later", "payload_encoding": "string",
    });
    api.ask("POST", "/api/exchanges/%2F/amq.default/publish", &body)
}

fn counts(api: &Api<'_>) -> (Value, Value) {
    let queue = api.get(QUEUE);
    (
        queue["messages_ready"].clone(),
        queue["messages_delayed"].clone(),
    )
}

#[test]
fn a_publish_says_when_it_is_delivered_and_a_strict_broker_does_not_listen() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put(QUEUE, &json!({}));
    let routed = (200, json!({"routed": true}));
    for headers in [
        json!({"x-opt-delivery-delay": 60_000}),
        json!({"x-opt-delivery-time": 9_999_999_999_999_i64}),
    ] {
        assert_eq!(publish(&api, &headers), routed);
    }
    assert_eq!(counts(&api), (json!(0), json!(2)));
    let (status, answer) = publish(&api, &json!({"x-opt-delivery-delay": "soon"}));
    let reason = answer["reason"].as_str().unwrap_or_default();
    assert_eq!(status, 400);
    assert!(reason.contains("x-opt-delivery-delay must be"), "{reason}");
    assert_eq!(publish(&api, &json!({"x-opt-delivery-time": 1})), routed);
    assert_eq!(counts(&api), (json!(1), json!(2)));

    let strict = RunningBroker::start(&["--strict"]);
    let api = Api { broker: &strict };
    api.put(QUEUE, &json!({}));
    for delay in [json!(60_000), json!("soon")] {
        let headers = json!({ "x-opt-delivery-delay": delay });
        assert_eq!(publish(&api, &headers), routed);
    }
    assert_eq!(counts(&api), (json!(2), json!(0)));
}

#[test]
fn delayed_messages_are_made_ready_now() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put(QUEUE, &json!({}));
    for delay in 0..200 {
        publish(&api, &json!({"x-opt-delivery-delay": 60_000 + delay}));
    }
    let retry = |body: &Value| api.ask("POST", &format!("{QUEUE}/retry"), body);
    assert_eq!(retry(&json!({"count": 3})), (200, json!({"retried": 3})));
    assert_eq!(counts(&api), (json!(3), json!(197)));
    assert_eq!(retry(&json!({})), (200, json!({"retried": 197})));
    assert_eq!(counts(&api), (json!(200), json!(0)));
    assert_eq!(retry(&json!({})), (200, json!({"retried": 0})));
    for (body, said) in [
        (json!({"count": -1}), "count"),
        (json!({"count": "many"}), "count"),
        (json!({"number": 1}), "number"),
    ] {
        let (status, answer) = retry(&body);
        let reason = answer["reason"].as_str().unwrap_or_default();
        assert!(status == 400 && reason.contains(said), "{status} {answer}");
    }
    let (status, _) = api.ask("POST", "/api/queues/%2F/nosuch/retry", &json!({}));
    assert_eq!(status, 404);
}
