//! What a client that asks for warnings is told, and that no other client is told anything new.

use rstest::rstest;
use serde_json::{Value as Json, json};

use super::typed::message;
use crate::access::Permissions;
use crate::base::{ConnectionId, Name, Now, Seed};
use crate::broker::{Core, CoreOptions, Effects};
use crate::management::{Caller, handle};
use crate::wire::{Reader, Value, walk};

fn text(text: &str) -> Json {
    json!({"t": "string", "v": text})
}

/// The application properties of the answer to a declaration with one argument.
fn told(path: &str, (name, value): (&str, &str), asked: &Json) -> Vec<(String, String)> {
    let mut core = Core::new(CoreOptions::new(Name::from("v"), Seed(1)));
    let (user, permissions) = (Name::from("someone"), Permissions::all().unwrap());
    let caller = Caller {
        user: &user,
        permissions: &permissions,
        topics: None,
        connection: ConnectionId(1),
        node: "node",
    };
    let arguments = json!({"t": "map", "v": [[text(name), text(value)]]});
    let request = message(&json!({
        "properties": {"to": text(path), "subject": text("PUT"), "reply-to": text("$me")},
        "application-properties": asked,
        "body": [{
            "section": "amqp-value",
            "value": {"t": "map", "v": [[text("arguments"), arguments]]},
        }],
    }));
    let mut effects = Effects::new();
    let answer = handle(Now::default(), &caller, &mut core, &mut effects, &request).unwrap();
    let index = walk(&answer.message).unwrap();
    let start = index.application_properties.value as usize;
    let Value::Map(pairs) = Reader::starting_at(&answer.message, start).value().unwrap() else {
        panic!("{answer:?}");
    };
    let string = |value: &Value| value.as_str().unwrap().to_owned();
    pairs
        .iter()
        .map(|(key, value)| (string(key), string(value)))
        .collect()
}

const LETTERS: (&str, &str) = ("x-dead-letter-exchange", "missing");
const ALTERNATE: (&str, &str) = ("alternate-exchange", "missing");

#[rstest]
#[case("/queues/q", LETTERS, "x-dead-letter-exchange")]
#[case("/exchanges/e", ALTERNATE, "alternate-exchange")]
fn who_asks_is_warned_in_the_answer(
    #[case] path: &str,
    #[case] argument: (&str, &str),
    #[case] part: &str,
) {
    let asked = json!([[text("http:warning"), {"t": "boolean", "v": true}]]);
    let told = told(path, argument, &asked);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], ("http:response".to_owned(), "1.1".to_owned()));
    assert_eq!(told[1].0, "http:warning");
    assert!(
        told[1].1.contains(part) && told[1].1.contains("missing"),
        "{told:?}"
    );
}

#[rstest]
#[case(json!([]), LETTERS)]
#[case(json!([[text("http:warning"), {"t": "boolean", "v": false}]]), LETTERS)]
#[case(json!([[text("http:warning"), text("true")]]), LETTERS)]
#[case(json!([[text("other"), {"t": "boolean", "v": true}]]), LETTERS)]
#[case(json!([[text("http:warning"), {"t": "boolean", "v": true}]]), ("x-queue-type", "quorum"))]
fn unasked_or_without_a_reason_answers_are_as_recorded(
    #[case] asked: Json,
    #[case] argument: (&str, &str),
) {
    let told = told("/queues/q", argument, &asked);
    assert_eq!(told, [("http:response".to_owned(), "1.1".to_owned())]);
}
