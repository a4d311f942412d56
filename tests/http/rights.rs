//! Who may do what.

use serde_json::json;

use crate::api::Api;
use crate::support::RunningBroker;

const TAGS: [&str; 5] = [
    "administrator",
    "monitoring",
    "policymaker",
    "management",
    "none",
];

/// What each tag and the permissions of a vhost open, as measured on RabbitMQ 4.0.5. Policymaker and
/// management have permissions on names with `mine`, the others have none.
#[test]
fn who_may_do_what_is_as_in_rabbitmq() {
    let policy = r#"{"pattern": "^a", "definition": {"max-length": 1}}"#;
    let get = r#"{"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}"#;
    let matrix: [(&str, &str, &str, [u16; 5]); 13] = [
        ("GET", "/api/overview", "", [200, 200, 200, 200, 401]),
        ("GET", "/api/nodes", "", [200, 200, 401, 401, 401]),
        ("GET", "/api/users", "", [200, 401, 401, 401, 401]),
        ("GET", "/api/queues/%2F", "", [200, 401, 200, 200, 401]),
        ("GET", "/api/queues/gone/q", "", [404, 404, 404, 404, 401]),
        ("GET", "/api/parameters", "", [200, 401, 200, 401, 401]),
        (
            "PUT",
            "/api/queues/%2F/mine",
            "{}",
            [401, 401, 201, 204, 401],
        ),
        (
            "PUT",
            "/api/queues/%2F/other",
            "{}",
            [401, 401, 401, 401, 401],
        ),
        (
            "POST",
            "/api/queues/%2F/mine/get",
            get,
            [401, 401, 200, 200, 401],
        ),
        (
            "DELETE",
            "/api/queues/%2F/mine/contents",
            "",
            [401, 401, 204, 204, 401],
        ),
        (
            "PUT",
            "/api/policies/%2F/p",
            policy,
            [201, 401, 204, 401, 401],
        ),
        (
            "PUT",
            "/api/operator-policies/%2F/p",
            policy,
            [201, 401, 401, 401, 401],
        ),
        ("PUT", "/api/vhosts/new", "{}", [201, 401, 401, 401, 401]),
    ];
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for tag in TAGS {
        let tags = if tag == "none" { "" } else { tag };
        let user = json!({"password": tag, "tags": tags});
        api.put(&format!("/api/users/{tag}"), &user);
    }
    for user in ["policymaker", "management"] {
        let rights = json!({"configure": "^mine", "write": "^mine", "read": "^mine"});
        api.put(&format!("/api/permissions/%2F/{user}"), &rights);
    }
    for (method, path, body, expect) in matrix {
        let found = TAGS.map(|user| api.send_as(user, method, path, body).0);
        assert_eq!(found, expect, "{method} {path} by {TAGS:?}");
    }
}

#[test]
fn a_full_vhost_refuses_a_queue_in_rabbitmqs_words() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/vhost-limits/%2F/max-queues", &json!({"value": 1}));
    api.put("/api/queues/%2F/a", &json!({}));
    let why = "cannot declare queue 'b': queue limit in vhost '/' (1) is reached";
    assert_eq!(
        api.ask("PUT", "/api/queues/%2F/b", &json!({})),
        (400, json!({"error": "bad_request", "reason": why}))
    );
    api.put("/api/queues/%2F/a", &json!({}));
    api.put("/api/vhost-limits/%2F/max-queues", &json!({"value": -1}));
    api.put("/api/queues/%2F/b", &json!({}));
}

/// As measured on RabbitMQ 4.0.5 (`interop/rights`).
#[test]
fn keys_of_a_topic_exchange_are_bound_by_who_may_read_them() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/q", &json!({}));
    let user = json!({"password": "ada", "tags": "management"});
    api.put("/api/users/ada", &user);
    let rights = json!({"configure": "", "write": ".*", "read": ".*"});
    api.put("/api/permissions/%2F/ada", &rights);
    let topics = json!({"exchange": "amq.topic", "write": ".*", "read": "^ada\\."});
    api.put("/api/topic-permissions/%2F/ada", &topics);
    for (exchange, key, status) in [
        ("amq.topic", "ada.a", 201),
        ("amq.topic", "bob.a", 401),
        ("amq.direct", "bob.a", 201),
    ] {
        let path = format!("/api/bindings/%2F/e/{exchange}/q/q");
        let body = json!({"routing_key": key}).to_string();
        let (found, answer) = api.send_as("ada", "POST", &path, &body);
        assert_eq!(found, status, "{exchange} {key}: {answer}");
    }
    let bound = json!({"routing_key": "bob.a"});
    assert_eq!(
        api.ask("POST", "/api/bindings/%2F/e/amq.topic/q/q", &bound)
            .0,
        201
    );
    let path = "/api/bindings/%2F/e/amq.topic/q/q/bob.a";
    assert_eq!(api.send_as("ada", "DELETE", path, "").0, 401);
}

/// As in RabbitMQ: declaring in a vhost just made was refused, until its maker gave himself permissions.
#[test]
fn who_makes_a_vhost_may_do_everything_in_it() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let ada = json!({"password": "ada", "tags": "administrator"});
    api.put("/api/users/ada", &ada);
    let check = |method: &str, path: &str, body: &str, status: u16| {
        let (given, answer) = api.send_as("ada", method, path, body);
        assert_eq!(given, status, "{method} {path}: {answer}");
    };
    check("PUT", "/api/vhosts/new", "{}", 201);
    check("PUT", "/api/queues/new/q", "{}", 201);
    let rights = api.get("/api/permissions/new/ada");
    for right in ["configure", "write", "read"] {
        assert_eq!(rights[right], ".*", "{rights}");
    }
    // Who only describes it anew gets nothing.
    let eve = json!({"password": "eve", "tags": "administrator"});
    api.put("/api/users/eve", &eve);
    let described = api.send_as("eve", "PUT", "/api/vhosts/new", r#"{"description": "d"}"#);
    assert_eq!(described.0, 204);
    assert_eq!(api.send("GET", "/api/permissions/new/eve", "").0, 404);
}
