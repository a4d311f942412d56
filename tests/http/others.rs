//! What belongs to others: their consumers, their own queues, their messages.

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;
use crate::support::raw::Raw;

/// A user with a tag, and rights on everything or only to configure.
fn add_user(api: &Api<'_>, user: &str, tag: &str, write: &str, read: &str) {
    api.put(
        &format!("/api/users/{user}"),
        &json!({"password": user, "tags": tag}),
    );
    let rights = json!({"configure": ".*", "write": write, "read": read});
    api.put(&format!("/api/permissions/%2F/{user}"), &rights);
}

fn get_as(api: &Api<'_>, user: &str, path: &str) -> Value {
    let (status, answer) = api.send_as(user, "GET", path, "");
    assert_eq!(status, 200, "{path} by {user}: {answer}");
    serde_json::from_str(&answer).expect("JSON")
}

/// The consumers of everybody, with names and addresses of their connections, were listed for every
/// tag. RabbitMQ's management plugin shows them to monitors, and to others their own.
#[test]
fn consumers_of_others_are_seen_by_monitors_only() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    add_user(&api, "ada", "management", ".*", ".*");
    add_user(&api, "mona", "monitoring", ".*", ".*");
    api.put("/api/queues/%2F/q", &json!({}));
    let mut consumer = Raw::begun(broker.port);
    consumer.attach_receiver(0, "q");
    let count = |user: &str, path: &str| {
        let listed = get_as(&api, user, path);
        listed.as_array().expect("a list").len()
    };
    for path in ["/api/consumers", "/api/consumers/%2F"] {
        assert_eq!(count("guest", path), 1, "its own");
        assert_eq!(count("mona", path), 1);
        assert_eq!(count("ada", path), 0);
    }
    let details = |user: &str| {
        let queue = get_as(&api, user, "/api/queues/%2F/q");
        assert_eq!(queue["consumers"], 1, "how many there are is no secret");
        queue["consumer_details"].as_array().expect("a list").len()
    };
    assert_eq!(
        (details("guest"), details("mona"), details("ada")),
        (1, 1, 0)
    );
    assert_eq!(count("ada", "/api/connections"), 0);
    assert_eq!(
        get_as(&api, "ada", "/api/overview")["object_totals"]["connections"],
        0
    );
}

/// The test took what was the first in its queue, with the right to configure alone, and threw it away.
#[test]
fn the_aliveness_test_needs_its_rights_and_gives_back_what_is_not_its_own() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    add_user(&api, "ada", "management", "^$", "^$");
    add_user(&api, "eve", "management", ".*", "^$");
    add_user(&api, "bob", "management", "^$", ".*");
    add_user(&api, "joe", "management", ".*", ".*");
    api.put("/api/queues/%2F/aliveness-test", &json!({}));
    for payload in ["first", "second"] {
        api.publish("aliveness-test", payload);
    }
    let path = "/api/aliveness-test/%2F";
    for user in ["ada", "eve", "bob"] {
        assert_eq!(api.send_as(user, "GET", path, "").0, 401, "{user}");
    }
    for _ in 0..3 {
        assert_eq!(get_as(&api, "joe", path), json!({"status": "ok"}));
    }
    let left = api.get("/api/queues/%2F/aliveness-test/messages");
    let left = left["messages"].as_array().expect("a list");
    let left: Vec<_> = left.iter().map(|message| &message["payload"]).collect();
    assert_eq!(left, ["first", "second"], "in their order");
}

/// A look showed the messages of a queue that is exclusive to another connection.
#[test]
fn an_exclusive_queue_of_another_connection_is_not_looked_into() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let owner = Raw::with_exclusive_queue(broker.port, "own");
    api.publish("own", "secret");
    let get = json!({"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"});
    for (method, path, body) in [
        ("GET", "/api/queues/%2F/own/messages", Value::Null),
        ("POST", "/api/queues/%2F/own/get", get),
    ] {
        let (status, told) = api.ask(method, path, &body);
        assert_eq!(status, 400, "{path}: {told}");
        let why = "cannot obtain exclusive access to locked queue 'own' in vhost '/'. It could be \
                   originally declared on another connection or the exclusive property value does \
                   not match that of the original declaration.";
        assert_eq!(told["reason"], why);
    }
    drop(owner);
}

/// `rabbitmqadmin show memory_breakdown_in_bytes` and `rebalance queues` ask for these.
#[test]
fn the_memory_of_a_node_is_told_in_rabbitmqs_categories_and_queues_are_balanced_already() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let node = api.get("/api/nodes")[0].clone();
    let name = node["name"].as_str().unwrap();
    let memory = api.get(&format!("/api/nodes/{name}/memory"))["memory"].clone();
    assert_eq!(memory["strategy"], "rss");
    let categories = memory.as_object().unwrap().values();
    let sum: u64 = categories.filter_map(Value::as_u64).sum();
    let total = memory["total"]["rss"].as_u64().unwrap();
    assert!(total > 1 << 20 && sum == total, "{memory}");
    // Memory grows a little from one look to the next.
    let used = node["mem_used"].as_u64().unwrap();
    assert!(used.abs_diff(total) < 16 << 20, "{used} {total}");
    assert_eq!(api.send("GET", "/api/nodes/other/memory", "").0, 404);
    assert_eq!(api.send("POST", "/api/rebalance/queues", "").0, 204);
}

/// `rabbitmqadmin nodes list` showed 0 of 0 files.
#[test]
fn a_node_says_how_many_files_it_has_open_and_how_many_it_may_have() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let node = api.get("/api/nodes")[0].clone();
    let used = node["fd_used"].as_u64().unwrap();
    let total = node["fd_total"].as_u64().unwrap();
    assert!(used > 3 && used < total, "{used} of {total}");
}

/// rabbitmqadmin-ng writes the default exchange as what it is called: as nothing.
#[test]
fn the_default_exchange_may_be_an_empty_segment_of_the_path() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/q", &json!({"durable": true}));
    let message = json!({"routing_key": "q", "payload": "x", "payload_encoding": "string",
        "properties": {}});
    let (status, answer) = api.ask("POST", "/api/exchanges/%2F//publish", &message);
    assert_eq!((status, &answer["routed"]), (200, &json!(true)), "{answer}");
    let bindings = api.get("/api/bindings/%2F/e//q/q");
    assert_eq!(bindings[0]["routing_key"], "q", "{bindings}");
    assert_eq!(
        api.get("/api/exchanges/%2F//bindings/source")[0]["destination"],
        "q"
    );
    assert_eq!(api.get("/api/deprecated-features/used"), json!([]));
    assert_eq!(api.send("GET", "/api/queues/%2F//bindings", "").0, 404);
}
