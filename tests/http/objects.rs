//! Listings of queues; connections that are closed.

use std::io::{Read, Write};
use std::net::TcpStream;

use rstest::rstest;
use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

#[test]
fn queues_are_listed_by_page_and_as_a_stream() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for number in 0..600 {
        api.put(&format!("/api/queues/%2F/q{number:04}"), &json!({}));
    }
    let page = api.get("/api/queues?page=3&page_size=200&columns=name");
    assert_eq!(page["total_count"], 600);
    assert_eq!(page["items"][0], json!({"name": "q0400"}));
    assert_eq!(page["items"][199], json!({"name": "q0599"}));
    let found = api.get("/api/queues/%2F?page=1&name=^q05.9$&use_regex=true&sort_reverse=true");
    assert_eq!(found["filtered_count"], 10);
    assert_eq!(found["items"][0]["name"], "q0599");
    let all = api.get("/api/queues");
    assert_eq!(all.as_array().map(Vec::len), Some(600));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_closes_a_connection_and_its_client_is_told_why() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut client = fe2o3_amqp::Connection::open("closed", url.as_str())
        .await
        .expect("a connection");
    let listed = api.get("/api/vhosts/%2F/connections");
    assert_eq!(listed[0]["container_id"], "closed");
    assert_eq!(listed[0]["user"], "guest");
    let name = listed[0]["name"].as_str().expect("a name");
    let name = name.replace(' ', "%20").replace('>', "%3E");
    assert_eq!(
        api.send("DELETE", &format!("/api/connections/{name}"), "")
            .0,
        204
    );
    let error = client.on_close().await.expect_err("closed by the broker");
    assert!(
        format!("{error:?}").contains("connection:forced")
            || format!("{error:?}").contains("ConnectionForced"),
        "{error:?}"
    );
    // The client shows the description with its quotes escaped.
    let words = r#"Connection forced: \"Closed via management plugin\""#;
    assert!(format!("{error}").contains(words), "{error}");
}

/// `?if-empty=1` was read as absent, and the queue deleted with its messages.
#[test]
fn a_condition_of_a_deletion_that_is_not_understood_deletes_nothing() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/q", &json!({}));
    api.put("/api/exchanges/%2F/x", &json!({"type": "fanout"}));
    api.publish("q", "precious");
    for (path, says) in [
        (
            "/api/queues/%2F/q?if-empty=1",
            "'if-empty' must be true or false, not '1'",
        ),
        (
            "/api/queues/%2F/q?if-unused=yes",
            "'if-unused' must be true or false",
        ),
        (
            "/api/queues/%2F/q?if-empty",
            "'if-empty' must be true or false",
        ),
        (
            "/api/queues/%2F/q?if_empty=true",
            "did you mean 'if-empty'?",
        ),
        (
            "/api/exchanges/%2F/x?if-unused=1",
            "'if-unused' must be true or false",
        ),
        (
            "/api/queues?page=1&sort_reverse=1",
            "'sort_reverse' must be true or false",
        ),
    ] {
        let method = if path.contains("sort") {
            "GET"
        } else {
            "DELETE"
        };
        let (status, told) = api.send(method, path, "");
        assert_eq!(status, 400, "{path}: {told}");
        assert!(told.contains(says), "{path}: {told}");
    }
    assert_eq!(
        api.send("DELETE", "/api/queues/%2F/q?if-empty=true", "").0,
        400
    );
    assert_eq!(api.get("/api/queues/%2F/q")["name"], "q");
    // As RabbitMQ's page asks, and with parameters that are strange to the route.
    let plain = "/api/queues/%2F/q?if-empty=false&vhost=%2F";
    assert_eq!(api.send("DELETE", plain, "").0, 204);
}

/// `{"durabel": true}` was ignored, and the queue was not durable.
#[rstest]
#[case("PUT", "/api/queues/%2F/q", json!({"durabel": true}), "durabel", "durable")]
#[case("PUT", "/api/queues/%2F/q", json!({"auto-delete": true}), "auto-delete", "auto_delete")]
#[case("PUT", "/api/exchanges/%2F/x", json!({"arguements": {}}), "arguements", "arguments")]
#[case("POST", "/api/bindings/%2F/e/amq.topic/q/q", json!({"routing-key": "k"}), "routing-key", "routing_key")]
#[case("PUT", "/api/policies/%2F/p", json!({"pattern": "", "apply_to": "all"}), "apply_to", "apply-to")]
#[case("PUT", "/api/vhosts/v", json!({"descripton": "x"}), "descripton", "description")]
#[case("PUT", "/api/users/u", json!({"tags": "", "passwrod": "x"}), "passwrod", "password")]
#[case("PUT", "/api/permissions/%2F/guest", json!({"confgure": ""}), "confgure", "configure")]
#[case("POST", "/api/queues/%2F/q/get", json!({"ack_mode": "x"}), "ack_mode", "ackmode")]
#[case(
    "POST",
    "/api/exchanges/%2F/amq.default/publish",
    json!({"properties": {"delivery_mod": 2}, "routing_key": "q", "payload": "", "payload_encoding": "string"}),
    "delivery_mod",
    "delivery_mode"
)]
fn a_mistyped_field_is_refused_with_the_right_one(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: Value,
    #[case] wrong: &str,
    #[case] meant: &str,
) {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let (status, told) = api.ask(method, path, &body);
    let says = format!("the field '{wrong}' is not known; did you mean '{meant}'?");
    assert_eq!((status, told["reason"].as_str()), (400, Some(&*says)));
}

/// RabbitMQ's page and clients send fields that its routes do not look at.
#[test]
fn what_clients_send_beside_the_fields_of_a_route_passes() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let sent = json!({"vhost": "/", "name": "q", "durable": "true", "auto_delete": "false",
                      "type": "classic", "node": "rabbit@here", "arguments": {}});
    api.put("/api/queues/%2F/q", &sent);
    let sent = json!({"vhost": "/", "name": "v", "description": "", "tags": "", "tracing": false});
    api.put("/api/vhosts/v", &sent);
    // The name that this field had first.
    api.put("/api/vhosts/w", &json!({"defaultqueuetype": "quorum"}));
    assert_eq!(api.get("/api/vhosts/w")["default_queue_type"], "quorum");
    let sent = json!({"username": "u", "password": "p", "tags": "management"});
    api.put("/api/users/u", &sent);
}

#[test]
fn what_a_vhost_of_rabbitmq_can_have_and_one_of_coroner_cannot_is_warned_of() {
    let broker = RunningBroker::start(&[]);
    let mut stream = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
    let body = json!({"protected_from_deletion": true}).to_string();
    let head = format!(
        "PUT /api/vhosts/v HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Basic \
         Z3Vlc3Q6Z3Vlc3Q=\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let says =
        "warning: 299 - \"protected_from_deletion: Coroner does not have it, it has no effect\"";
    assert!(answer.contains(says), "{answer}");
}

/// A limit above 32 bits was answered with 204 and cut.
#[test]
fn a_limit_that_cannot_be_kept_is_refused_and_the_largest_one_named() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for limit in ["max-connections", "max-channels"] {
        let path = format!("/api/user-limits/guest/{limit}");
        let (status, told) = api.ask("PUT", &path, &json!({"value": 4_294_967_296_u64}));
        assert_eq!(status, 400, "{told}");
        let says = format!("the limit '{limit}' of a user is at most 4294967295, not 4294967296");
        assert!(
            told["reason"].as_str().expect("a text").starts_with(&says),
            "{told}"
        );
        assert_eq!(api.get("/api/user-limits/guest"), json!([]));
    }
    api.put(
        "/api/user-limits/guest/max-channels",
        &json!({"value": 4_294_967_295_u64}),
    );
    // Limits of vhosts are larger, and come back from the definitions as they were.
    api.put(
        "/api/vhost-limits/%2F/max-queues",
        &json!({"value": 5_000_000_000_u64}),
    );
    let definitions = api.get("/api/definitions");
    assert_eq!(
        api.send("DELETE", "/api/vhost-limits/%2F/max-queues", "").0,
        204
    );
    let (status, told) = api.ask("POST", "/api/definitions", &definitions);
    assert_eq!((status, told), (204, Value::Null));
    let limits = api.get("/api/vhost-limits/%2F");
    assert_eq!(limits[0]["value"]["max-queues"], 5_000_000_000_u64);
}

/// Clients that page through channels ask for a page, and got an array: RabbitMQ answers with an object.
#[test]
fn a_page_of_what_this_broker_never_has_is_a_page_without_items() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for place in ["channels", "vhosts/%2F/channels", "feature-flags"] {
        assert_eq!(api.get(&format!("/api/{place}")), json!([]));
        let page = api.get(&format!("/api/{place}?page=1&page_size=5"));
        assert_eq!(page["items"], json!([]), "{place}");
        assert_eq!(
            (&page["page"], &page["total_count"]),
            (&json!(1), &json!(0))
        );
    }
}

#[test]
fn an_object_by_itself_has_the_columns_that_are_asked_for() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let told = api.get("/api/overview?columns=object_totals.queues,cluster_name");
    let name = api.get("/api/cluster-name")["name"].clone();
    let expect = json!({ "object_totals": { "queues": 0 }, "cluster_name": name });
    assert_eq!(told, expect);
    let exchange = api.get("/api/exchanges/%2F/amq.topic?columns=type,message_stats.publish_in");
    let expect = json!({ "type": "topic", "message_stats": { "publish_in": 0 } });
    assert_eq!(exchange, expect);
    let vhost = api.get("/api/vhosts/%2F?columns=name,messages");
    assert_eq!(vhost, json!({ "name": "/", "messages": 0 }));
}
