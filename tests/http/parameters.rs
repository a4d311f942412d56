//! Parameters in their general form.

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

/// A request to a parameter, its status, and a part of the answer.
type Asked = (&'static str, &'static str, Value, u16, &'static str);

#[test]
#[allow(clippy::too_many_lines, reason = "a table: one row for each request")]
fn parameters_are_set_where_rabbitmq_sets_them_and_refused_by_name_elsewhere() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let limits = |value: Value| json!({ "value": value });
    let policy = json!({"value": {"pattern": "^a", "definition": {"max-length": 3}}});
    let asked: &[Asked] = &[
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!({"max-queues": 5})),
            201,
            "",
        ),
        (
            "GET",
            "vhost-limits/%2F/limits",
            Value::Null,
            200,
            r#""value":{"max-queues":5}"#,
        ),
        (
            "GET",
            "vhost-limits/%2F",
            Value::Null,
            200,
            r#""name":"limits""#,
        ),
        ("GET", "", Value::Null, 200, r#""component":"vhost-limits""#),
        // What is not named any more is lifted.
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!({"max-connections": 7})),
            204,
            "",
        ),
        (
            "GET",
            "vhost-limits/%2F/limits",
            Value::Null,
            200,
            r#""value":{"max-connections":7}"#,
        ),
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!({"max-cows": 1})),
            400,
            "'max-cows'",
        ),
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!({"max-queues": "x"})),
            400,
            "'max-queues'",
        ),
        (
            "PUT",
            "vhost-limits/%2F/limits",
            limits(json!([])),
            400,
            "is an object",
        ),
        (
            "PUT",
            "vhost-limits/%2F/other",
            limits(json!({})),
            400,
            "not 'other'",
        ),
        (
            "PUT",
            "vhost-limits/nowhere/limits",
            limits(json!({})),
            404,
            "",
        ),
        ("PUT", "operator_policy/%2F/p", policy.clone(), 201, ""),
        ("PUT", "operator_policy/%2F/p", policy.clone(), 204, ""),
        (
            "GET",
            "operator_policy/%2F/p",
            Value::Null,
            200,
            r#""max-length":3"#,
        ),
        (
            "PUT",
            "operator_policy/%2F/p",
            limits(json!({"pattern": "("})),
            400,
            "definition",
        ),
        (
            "PUT",
            "policy/%2F/p",
            policy.clone(),
            400,
            "may not be set using this method",
        ),
        ("PUT", "policy/%2F/p", json!({}), 400, "key_missing,value"),
        (
            "PUT",
            "shovel/%2F/s",
            limits(json!({})),
            400,
            "component shovel not found",
        ),
        ("GET", "shovel/%2F/s", Value::Null, 404, ""),
        ("GET", "shovel/%2F", Value::Null, 200, "[]"),
        ("DELETE", "shovel/%2F/s", Value::Null, 404, ""),
        ("DELETE", "operator_policy/%2F/p", Value::Null, 204, ""),
        ("DELETE", "operator_policy/%2F/p", Value::Null, 404, ""),
        ("DELETE", "vhost-limits/%2F/limits", Value::Null, 204, ""),
        ("GET", "vhost-limits/%2F/limits", Value::Null, 404, ""),
        ("GET", "", Value::Null, 200, "[]"),
    ];
    for (method, path, body, status, part) in asked {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let path = format!("/api/parameters/{path}");
        let answer = api.send(method, path.trim_end_matches('/'), &body);
        assert_eq!(answer.0, *status, "{method} {path} {body}: {}", answer.1);
        assert!(
            answer.1.contains(part),
            "{method} {path} {body}: {}",
            answer.1
        );
    }
}
