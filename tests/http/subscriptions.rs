//! Subscriptions in exported definitions: durable ones come back, with their filters.

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

const NAME: &str = "amq.subscription.ada.news";

/// Definitions with a durable subscription to `a.*` with these further arguments.
fn definitions(properties: &Value, further: &Value) -> Value {
    let mut arguments =
        json!({"x-subscription-exchange": "amq.topic", "x-subscription-key": "a.*"});
    let mut queue = json!({"name": NAME, "vhost": "/", "durable": true, "auto_delete": false});
    for (object, more) in [(&mut arguments, further), (&mut queue, properties)] {
        for (name, value) in more.as_object().expect("an object") {
            object[name] = value.clone();
        }
    }
    queue["arguments"] = arguments;
    let binding = json!({"source": "amq.topic", "vhost": "/", "destination": NAME,
        "destination_type": "queue", "routing_key": "a.*", "arguments": {}});
    json!({"queues": [queue], "bindings": [binding]})
}

/// Publishes to the topic with this header `colour`.
fn publish(api: &Api<'_>, colour: &str) -> Value {
    let body = json!({
        "properties": {"headers": {"colour": colour}}, "routing_key": "a.b", "payload": colour,
        "payload_encoding": "string",
    });
    api.ask("POST", "/api/exchanges/%2F/amq.topic/publish", &body)
        .1
}

#[test]
fn an_exported_subscription_is_imported_elsewhere_with_its_filters() {
    let (one, other) = (RunningBroker::start(&[]), RunningBroker::start(&[]));
    let further = json!({
        "x-subscription-selector": "colour <> 'blue'",
        "x-subscription-sql": "colour LIKE '%e%'",
        "x-subscription-application-properties": {"colour": "&p:g"},
    });
    let mut file = definitions(&json!({}), &further);
    for broker in [&one, &other] {
        let api = Api { broker };
        let (status, told) = api.ask("POST", "/api/definitions", &file);
        assert_eq!(status, 204, "{told}");
        for (colour, is_wanted) in [
            ("green", true),
            ("grey", true),
            ("gold", false),
            ("red", false),
        ] {
            assert_eq!(
                publish(&api, colour),
                json!({"routed": is_wanted}),
                "{colour}"
            );
        }
        file = api.get("/api/definitions");
        let queues = file["queues"].as_array().expect("queues");
        assert_eq!(queues.len(), 1, "{queues:?}");
        assert_eq!(
            queues[0]["arguments"]["x-subscription-sql"],
            "colour LIKE '%e%'"
        );
    }
}

#[test]
fn what_cannot_be_a_durable_subscription_is_not_imported_and_says_why() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let refused = |properties: Value, further: Value, words: &str| {
        let file = definitions(&properties, &further);
        let (status, told) = api.ask("POST", "/api/definitions", &file);
        let told = told.to_string();
        assert!((400..500).contains(&status), "{words}: {status} {told}");
        assert!(told.contains(words), "{words}: {told}");
        assert_eq!(api.get("/api/queues"), json!([]), "{words}");
    };
    refused(
        json!({"durable": false}),
        json!({}),
        "only durable subscriptions",
    );
    refused(
        json!({"auto_delete": true}),
        json!({}),
        "only durable subscriptions",
    );
    let no_key = json!({"x-subscription-key": null});
    refused(json!({}), no_key, "x-subscription-key");
    let asks_for_time = json!({"x-subscription-sql": "UTC() > 5"});
    refused(json!({}), asks_for_time, "UTC() is not known");
    let half = json!({"x-subscription-selector": "colour ="});
    refused(json!({}), half, "x-subscription-selector");
    let text = json!({"x-subscription-properties": "subject"});
    refused(json!({}), text, "must be a table");
    let number = json!({"x-subscription-sql": 5});
    refused(json!({}), number, "must be a string");
}

/// An export with an exclusive queue's binding could not be imported: it names a queue that is not in it.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_with_a_connection_is_not_exported_nor_what_leads_to_it() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut connection = fe2o3_amqp::Connection::open("subscriber", url.as_str())
        .await
        .expect("a connection");
    let mut session = fe2o3_amqp::Session::begin(&mut connection)
        .await
        .expect("a session");
    let receiver = fe2o3_amqp::Receiver::attach(&mut session, "news", "/exchanges/amq.topic/a.b")
        .await
        .expect("a receiver");
    assert_eq!(api.get("/api/queues").as_array().map(Vec::len), Some(1));
    let file = api.get("/api/definitions");
    assert_eq!(
        (&file["queues"], &file["bindings"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(api.ask("POST", "/api/definitions", &file).0, 204);
    receiver.close().await.expect("closed");
    session.end().await.expect("ended");
    connection.close().await.expect("closed");
}
