//! All recorded exchanges, one after the other on one core, as they were recorded. What belongs to
//! links (pairs, credit, settlement) is the gateway's and is left out here.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value as Json;

use super::typed::{message, value};
use crate::access::Permissions;
use crate::base::{ConnectionId, ConsumerId, Name, Now, PublisherId, Seed, SessionId};
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::{
    Command, Consume, Core, CoreOptions, Effect, Effects, Outcome, Publish, QueueCommand, Reply,
    Settle, Target,
};
use crate::management::{Caller, handle};
use crate::message::{KeyRule, Message, Route};
use crate::wire::{Reader, SectionKind, Value, encode_value, walk, write_descriptor};

const RECORDINGS: &str =
    include_str!("../../../interop/vectors/recordings/management-recordings.json");

/// Where we answer otherwise: by title, with the status we give.
const DIFFERENCES: &str = include_str!("../../../interop/known_differences.toml");

/// Cases about links.
const NOT_HERE: &[&str] = &[
    "unsettled request",
    "no credit on the response link",
    "equal client addresses",
    "client addresses differ",
    "link names differ",
    "only the request half",
];

const OWNER: ConnectionId = ConnectionId(1);
const OTHER: ConnectionId = ConnectionId(2);
const SESSION: SessionId = SessionId(1);
const CONSUMER: ConsumerId = ConsumerId(1);

struct Setting {
    core: Core,
    effects: Effects,
    permissions: Permissions,
    /// Path of the binding with arguments, from the list of bindings.
    location: Option<String>,
}

impl Setting {
    fn new() -> Self {
        let mut setting = Self {
            core: Core::new(CoreOptions::new(Name::from("oracle-mgmt"), Seed(1))),
            effects: Effects::new(),
            permissions: Permissions::all().unwrap(),
            location: None,
        };
        for connection in [OWNER, OTHER] {
            let user = Name::from("guest");
            let limit_bytes = u64::MAX;
            setting.apply(Command::ConnectionOpen {
                connection,
                user,
                client: Name::default(),
                limit_bytes,
            });
        }
        setting.apply(Command::SessionOpen {
            connection: OWNER,
            session: SESSION,
            limit: 1000,
        });
        setting
    }

    fn apply(&mut self, command: Command) -> Reply {
        self.core.apply(Now::default(), command, &mut self.effects)
    }

    fn publish_to_q1(&mut self, count: u64) {
        let mut payload = Vec::new();
        write_descriptor(&mut payload, SectionKind::Data.code());
        encode_value(&Value::Binary(Bytes::from_static(b"m")), &mut payload);
        let message = Message::from_transfer(payload.into(), KeyRule::default()).unwrap();
        for token in 0..count {
            self.apply(Command::Publish(Publish {
                connection: OWNER,
                publisher: PublisherId(1),
                token,
                target: Target::Attached(DEFAULT_EXCHANGE),
                route: Arc::new(Route {
                    exchange: Name::default(),
                    keys: vec![Name::from("q1")].into(),
                }),
                message: Arc::new(message.clone()),
                settled: false,
                forbidden: None,
                delivery_time: None,
            }));
        }
    }

    /// A consumer of q1 that takes one message and holds it.
    fn hold_one(&mut self) {
        self.apply(Command::Consume(Consume {
            connection: OWNER,
            session: SESSION,
            consumer: CONSUMER,
            queue: Name::from("q1"),
            settled: false,
            priority: 0,
            exclusive: false,
            passing: false,
            selector: None,
            timeout_ms: None,
            evidence: None,
            recovery: None,
        }));
        self.apply(Command::ConsumerFlow {
            consumer: CONSUMER,
            limit: 1,
            drain: false,
        });
    }

    fn release_and_detach(&mut self) {
        let held = self
            .effects
            .outgoing
            .iter()
            .find_map(|(_, effect)| match effect {
                Effect::Deliver(delivery) => Some(delivery.position),
                _ => None,
            });
        self.apply(Command::Settle(Settle {
            consumer: CONSUMER,
            position: held.expect("a message was delivered"),
            outcome: Outcome::Released,
            confirm: None,
        }));
        self.apply(Command::ConsumerDetach { consumer: CONSUMER });
    }

    fn delete_q3(&mut self) {
        self.apply(Command::Queue(QueueCommand::Delete {
            connection: Some(OWNER),
            name: Name::from("q3"),
            if_unused: false,
            if_empty: false,
        }));
    }

    /// What happened before a recorded request.
    fn prepare(&mut self, title: &str) {
        if title.starts_with("get a queue with three messages") {
            self.publish_to_q1(3);
            self.hold_one();
        } else if title == "purge: three messages" {
            self.release_and_detach();
        } else if title == "delete a queue that holds two messages" {
            self.publish_to_q1(2);
        }
    }

    fn ask(&mut self, title: &str, request: &[u8]) -> Response {
        let is_other = title.starts_with("exclusive queue of another connection");
        let user = Name::from("someone");
        let caller = Caller {
            user: &user,
            permissions: &self.permissions,
            topics: None,
            connection: if is_other { OTHER } else { OWNER },
            node: "$NODE",
        };
        let now = Now::default();
        let answer = handle(now, &caller, &mut self.core, &mut self.effects, request).unwrap();
        Response::read(&answer.message)
    }
}

/// An answer, decoded.
#[derive(PartialEq, Debug)]
struct Response {
    subject: Value,
    correlation_id: Value,
    application_properties: Value,
    body: Value,
}

impl Response {
    fn read(message: &[u8]) -> Self {
        let index = walk(message).unwrap();
        for absent in [
            index.header,
            index.delivery_annotations,
            index.message_annotations,
        ] {
            assert!(absent.is_absent(), "an answer has no such section");
        }
        assert!(index.footer.is_absent());
        let at = |section: crate::wire::Section| {
            Reader::starting_at(message, section.value as usize)
                .value()
                .unwrap()
        };
        let Value::List(properties) = at(index.properties) else {
            panic!("properties are a list");
        };
        let field = |at: usize| properties.get(at).cloned().unwrap_or(Value::Null);
        for empty in [0, 1, 2, 4] {
            assert_eq!(field(empty), Value::Null, "property {empty}");
        }
        Self {
            subject: field(3),
            correlation_id: field(5),
            application_properties: at(index.application_properties),
            body: at(index.body),
        }
    }

    fn recorded(response: &Json) -> Self {
        let property = |name: &str| response["properties"].get(name).map_or(Value::Null, value);
        let pairs = serde_json::json!({"t": "map", "v": response["application-properties"]});
        Self {
            subject: property("subject"),
            correlation_id: property("correlation-id"),
            application_properties: value(&pairs),
            body: value(&response["body"][0]["value"]),
        }
    }

    fn status(&self) -> u16 {
        self.subject.as_str().unwrap().parse().unwrap()
    }

    /// Texts for people and tokens of bindings are free.
    fn without_free_values(mut self) -> Self {
        if self.status() >= 400 {
            assert!(
                self.body.as_str().is_some_and(|text| !text.is_empty()),
                "{self:?}"
            );
            self.body = Value::string("$TEXT");
        }
        if let Value::List(bindings) = &mut self.body {
            for binding in bindings {
                let Value::Map(pairs) = binding else { continue };
                for (_, value) in pairs
                    .iter_mut()
                    .filter(|(key, _)| key.as_str() == Some("location"))
                {
                    let path = value.as_str().unwrap();
                    let (path, token) = path.split_once("args=").unwrap();
                    let token = if token.is_empty() { "" } else { "TOKEN" };
                    *value = Value::String(format!("{path}args={token}"));
                }
            }
        }
        self
    }

    fn location(&self) -> Option<String> {
        let Value::List(bindings) = &self.body else {
            return None;
        };
        let Value::Map(pairs) = bindings.first()? else {
            return None;
        };
        let found = pairs
            .iter()
            .find(|(key, _)| key.as_str() == Some("location"));
        Some(found?.1.as_str()?.to_owned())
    }
}

/// The request of a case; the path of the binding with arguments is ours.
fn request(case: &Json, setting: &Setting) -> Vec<u8> {
    let mut sections = case["request"].clone();
    if case["title"] == "unbind with arguments, using the location from the list answer" {
        sections["properties"]["to"]["v"] = Json::from(setting.location.clone().unwrap());
    }
    message(&sections)
}

/// Compares an answer with what is listed, else with the recording.
fn judge(case: &Json, given: Response, listed: Option<&toml::Value>) -> Result<(), String> {
    let given = given.without_free_values();
    if let Some(listed) = listed {
        let status = listed["status"].as_integer().unwrap();
        let agrees = i64::from(given.status()) == status;
        return if agrees {
            Ok(())
        } else {
            Err(format!("{status} is listed, given {given:?}"))
        };
    }
    if case["status"].is_null() {
        return Err(format!(
            "RabbitMQ ended the session and nothing is listed, given {given:?}"
        ));
    }
    let recorded = Response::recorded(&case["response"]).without_free_values();
    if given == recorded {
        return Ok(());
    }
    Err(format!("\n  recorded {recorded:?}\n  given    {given:?}"))
}

#[test]
fn recorded_requests_are_answered_as_recorded_or_as_listed() {
    let cases: Vec<Json> = serde_json::from_str(RECORDINGS).unwrap();
    let mut setting = Setting::new();
    let differences: toml::Table = DIFFERENCES.parse().unwrap();
    let differences = differences["management"].as_table().unwrap();
    let mut failures = Vec::new();
    for case in &cases {
        if let Some(heading) = case["heading"].as_str() {
            if heading.starts_with("Permissions") {
                setting.permissions = Permissions::new("^mine", "^mine", "^mine").unwrap();
            }
            continue;
        }
        let title = case["title"].as_str().unwrap();
        if NOT_HERE.contains(&title) {
            continue;
        }
        setting.prepare(title);
        let response = setting.ask(title, &request(case, &setting));
        if title == "list: with arguments" {
            setting.location = response.location();
        }
        if response.status() == 201 && differences.contains_key(title) {
            // What only we accept must not change the cases after it.
            setting.delete_q3();
        }
        if let Err(failure) = judge(case, response, differences.get(title)) {
            failures.push(format!("{title}: {failure}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A boolean of one byte is a boolean for every client; of two bytes rhea makes a number, and its users
/// compare with that.
#[test]
fn booleans_of_answers_have_two_bytes_as_recorded() {
    let cases: Vec<Json> = serde_json::from_str(RECORDINGS).unwrap();
    let mut setting = Setting::new();
    let case = cases.iter().find(|case| case["status"] == 201).unwrap();
    let recorded = case.to_string();
    for (key, hex) in [
        ("durable", "64757261626c655601"),
        ("exclusive", "6578636c75736976655600"),
    ] {
        assert!(recorded.contains(hex), "{key} is recorded so");
    }
    let user = Name::from("someone");
    let caller = Caller {
        user: &user,
        permissions: &setting.permissions,
        topics: None,
        connection: OWNER,
        node: "$NODE",
    };
    let request = message(&case["request"]);
    let (core, effects) = (&mut setting.core, &mut setting.effects);
    let answer = handle(Now::default(), &caller, core, effects, &request).unwrap();
    let text: String = answer
        .message
        .iter()
        .map(|byte| char::from(*byte))
        .collect();
    assert!(text.contains("durable\u{56}\u{1}"), "{text:?}");
    assert!(text.contains("exclusive\u{56}\u{0}"), "{text:?}");
}
