//! Every route that the API describes answers as it describes.

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

/// One of each thing, under the names with which [`filled`] fills paths.
fn furnish(api: &Api<'_>) {
    api.put("/api/queues/%2F/thing", &json!({"durable": true}));
    api.put("/api/exchanges/%2F/thing", &json!({"type": "topic"}));
    let binding = json!({"routing_key": "key"});
    let path = "/api/bindings/%2F/e/thing/q/thing";
    assert_eq!(api.ask("POST", path, &binding).0, 201);
    let policy = json!({"pattern": "^thing", "definition": {"max-length": 10}});
    api.put("/api/policies/%2F/thing", &policy);
    api.put("/api/operator-policies/%2F/thing", &policy);
    let user = json!({"password": "p", "tags": "management"});
    api.put("/api/users/thing", &user);
    let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
    api.put("/api/permissions/%2F/thing", &rights);
    let topic = json!({"exchange": "thing", "write": ".*", "read": ".*"});
    api.put("/api/topic-permissions/%2F/thing", &topic);
    api.put("/api/global-parameters/thing", &json!({"value": 1}));
    let (status, _) = api.ask(
        "PUT",
        "/api/vhost-limits/%2F/max-connections",
        &json!({"value": 99}),
    );
    assert_eq!(status, 204);
    api.publish("thing", "a message");
    let note = json!({"note": "it never died"});
    api.put("/api/queues/%2F/thing/groups/none/note", &note);
    // It never died, so that it stays.
    api.put("/api/redrives/%2F/thing", &json!({"queue": "thing"}));
}

/// A path of the description with its parameters filled in.
fn filled(path: &str, node: &str, connection: &str) -> String {
    let name = match path.split('/').nth(2) {
        Some("nodes") => node,
        Some("connections") => connection,
        _ => "thing",
    };
    let component = if path.contains("{component}") {
        "policy"
    } else {
        ""
    };
    path.replace("{vhost}", "%2F")
        .replace("{name}", name)
        .replace("{node}", node)
        .replace("{user}", "thing")
        .replace("{source}", "thing")
        .replace("{type}", "q")
        .replace("{destination}", "thing")
        .replace("{props}", "key")
        .replace("{exchange}", "thing")
        .replace("{limit}", "max-connections")
        .replace("{component}", component)
        .replace("{protocol}", "http")
        .replace("{key}", "none")
        .replace("{within}", "1")
        .replace("{unit}", "months")
        .replace("{position}", "0")
}

/// Whether a value is as a schema of the description says.
fn check(place: &str, schema: &Value, value: &Value) {
    let is = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        other => panic!("{place}: type {other:?}"),
    };
    assert!(is, "{place}: {value} is no {}", schema["type"]);
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("a name");
        let field = value.get(name);
        let field = field.unwrap_or_else(|| panic!("{place}: no field {name} in {value}"));
        check(
            &format!("{place} {name}"),
            &schema["properties"][name],
            field,
        );
    }
    let items = value.as_array().into_iter().flatten();
    for item in items.filter(|_| !schema["items"]["type"].is_null()) {
        check(place, &schema["items"], item);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_described_route_answers_as_described() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    furnish(&api);
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut client = fe2o3_amqp::Connection::open("described", url.as_str())
        .await
        .expect("a connection");
    let connections = api.get("/api/connections");
    let connection = connections[0]["name"].as_str().expect("a name");
    let connection = connection.replace(' ', "%20").replace('>', "%3E");
    let node = api.get("/api/cluster-name")["name"]
        .as_str()
        .expect("a name")
        .to_owned();

    let description = api.get("/api/openapi.json");
    let paths = description["paths"].as_object().expect("paths");
    assert!(paths.len() > 60, "{} paths", paths.len());
    for (template, operations) in paths {
        let path = filled(template, &node, &connection);
        let path = path.replace("{port}", &broker.http_port.to_string());
        let content = &operations["get"]["responses"]["200"]["content"];
        let schema = &content["application/json"]["schema"];
        if content.get("application/jsonl").is_some() {
            // An event stream would not end.
            let lines = "accept: application/jsonl\r\n";
            let (status, lines) = api.send_with("guest", ("GET", &path), lines, "");
            assert_eq!(status, 200, "GET {path}");
            for line in lines.lines() {
                serde_json::from_str::<Value>(line).expect("an object on each line");
            }
        } else if operations.get("get").is_some() {
            assert!(!schema.is_null(), "{path} is not described");
            check(&format!("GET {path}"), schema, &api.get(&path));
        }
        // What changes something is refused for want of a body, by its own handler.
        for method in ["put", "post"] {
            if operations.get(method).is_none() {
                continue;
            }
            if path == "/api/rebalance/queues" {
                // It takes no body, and changes nothing on one node.
                assert_eq!(api.send("POST", &path, "").0, 204);
                continue;
            }
            let (status, answer) = api.send(&method.to_uppercase(), &path, "[]");
            let answer: Value = serde_json::from_str(&answer).expect("a reason");
            let place = format!("{method} {path}: {answer}");
            assert_eq!(status, 400, "{place}");
            assert!(
                answer["error"].is_string() && answer["reason"].is_string(),
                "{place}"
            );
        }
    }
    client.close().await.expect("a close");
    // Deletions, the container last.
    for (template, operations) in paths {
        if operations.get("delete").is_some() && *template != "/api/vhosts/{vhost}" {
            let path = filled(template, &node, "gone");
            let (status, answer) = api.send("DELETE", &path, "");
            assert!([204, 404].contains(&status), "{path}: {status} {answer}");
        }
    }
}
