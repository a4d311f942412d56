//! Which rights each operation needs, one missing at a time; and requests that are garbage.

use std::sync::Arc;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::typed::message;
use crate::access::{Permissions, TopicPermissions};
use crate::base::{ConnectionId, Lsn, Name, Now, Seed};
use crate::broker::registry::{TopicMap, Topics};
use crate::broker::{Core, CoreOptions, Effects};
use crate::management::{Caller, handle};
use crate::wire::{Reader, walk};

/// What one request is answered: the status, as text.
fn ask(core: &mut Core, permissions: &Permissions, payload: &[u8]) -> Option<String> {
    ask_with(core, permissions, None, payload)
}

fn ask_with(
    core: &mut Core,
    permissions: &Permissions,
    topics: Option<&Topics>,
    payload: &[u8],
) -> Option<String> {
    let user = Name::from("someone");
    let caller = Caller {
        user: &user,
        permissions,
        topics,
        connection: ConnectionId(1),
        node: "node",
    };
    let mut effects = Effects::new();
    let answer = handle(Now::default(), &caller, core, &mut effects, payload).ok()?;
    let index = walk(&answer.message).unwrap();
    let mut fields = Reader::starting_at(&answer.message, index.properties.value as usize)
        .list()
        .unwrap();
    fields.skip(3).unwrap();
    Some(fields.string().unwrap().unwrap().to_owned())
}

fn request(method: &str, path: &str, fields: &[(&str, serde_json::Value)]) -> Vec<u8> {
    let text = |text: &str| json!({"t": "string", "v": text});
    let pairs: Vec<_> = fields
        .iter()
        .map(|(key, value)| json!([text(key), value]))
        .collect();
    let body = if matches!(method, "PUT" | "POST") {
        json!({"t": "map", "v": pairs})
    } else {
        json!({"t": "null"})
    };
    message(&json!({
        "properties": {"to": text(path), "subject": text(method), "reply-to": text("$me")},
        "body": [{"section": "amqp-value", "value": body}],
    }))
}

fn new_core() -> Core {
    let mut core = Core::new(CoreOptions::new(Name::from("v"), Seed(1)));
    let all = Permissions::all().unwrap();
    for (method, path) in [
        ("PUT", "/queues/q"),
        ("PUT", "/exchanges/x"),
        ("PUT", "/exchanges/y"),
    ] {
        let status = ask(&mut core, &all, &request(method, path, &[])).unwrap();
        assert!(status.starts_with('2'), "{path} {status}");
    }
    core
}

/// The arguments of a declaration: one string.
fn argument(name: &str, value: &str) -> Vec<(&'static str, serde_json::Value)> {
    let text = |text: &str| json!({"t": "string", "v": text});
    vec![(
        "arguments",
        json!({"t": "map", "v": [[text(name), text(value)]]}),
    )]
}

fn binding(destination: &'static str, name: &str) -> Vec<(&'static str, serde_json::Value)> {
    let text = |text: &str| json!({"t": "string", "v": text});
    vec![
        ("source", text("x")),
        (destination, text(name)),
        ("binding_key", text("k")),
        ("arguments", json!({"t": "map", "v": []})),
    ]
}

/// The rights are `configure write read` patterns that just suffice; each of them is then taken away.
#[rstest]
#[case("PUT", "/queues/n", &[], ["^n$", "", ""])]
#[case("PUT", "/queues/n", &argument("x-dead-letter-exchange", "x"), ["^n$", "^x$", "^n$"])]
#[case("PUT", "/queues/n", &argument("x-dead-letter-exchange", ""), ["^n$", "^amq.default$", "^n$"])]
#[case("DELETE", "/queues/q", &[], ["^q$", "", ""])]
#[case("DELETE", "/queues/q/messages", &[], ["", "", "^q$"])]
#[case("GET", "/queues/q", &[], ["", "", ""])]
#[case("PUT", "/exchanges/n", &[], ["^n$", "", ""])]
#[case("PUT", "/exchanges/n", &argument("alternate-exchange", "x"), ["^n$", "^x$", "^n$"])]
#[case("DELETE", "/exchanges/x", &[], ["^x$", "", ""])]
#[case("POST", "/bindings", &binding("destination_queue", "q"), ["", "^q$", "^x$"])]
#[case("POST", "/bindings", &binding("destination_exchange", "y"), ["", "^y$", "^x$"])]
#[case("GET", "/bindings?src=x&dstq=q&key=k", &[], ["", "", ""])]
#[case("DELETE", "/bindings/src=x;dstq=q;key=k;args=", &[], ["", "^q$", "^x$"])]
fn operations_need_exactly_their_rights(
    #[case] method: &str,
    #[case] path: &str,
    #[case] fields: &[(&str, serde_json::Value)],
    #[case] rights: [&str; 3],
) {
    let with = |[configure, write, read]: [&str; 3]| {
        let permissions = Permissions::new(configure, write, read).unwrap();
        ask(
            &mut new_core(),
            &permissions,
            &request(method, path, fields),
        )
        .unwrap()
    };
    let status = with(rights);
    assert!(status.starts_with('2'), "with {rights:?}: {status}");
    for missing in (0..3).filter(|right| !rights[*right].is_empty()) {
        let mut fewer = rights;
        fewer[missing] = "";
        assert_eq!(with(fewer), "403", "with {fewer:?}");
    }
}

/// Keys of topic exchanges only; an exchange without topic permissions is like any other.
#[rstest]
#[case("amq.topic", "mine.a", "^mine", true)]
#[case("amq.topic", "other", "^mine", false)]
#[case("amq.topic", "other", "", false)]
#[case("amq.direct", "other", "^mine", true)]
#[case("amq.fanout", "other", "^mine", true)]
fn binding_to_a_topic_exchange_needs_the_right_to_read_its_key(
    #[case] source: &'static str,
    #[case] key: &'static str,
    #[case] read: &str,
    #[case] may: bool,
) {
    let all = Permissions::all().unwrap();
    let topic = TopicPermissions::new("", read, "someone", "v").unwrap();
    let topics = TopicMap::from([(Name::from(source), Arc::new(topic))]);
    let topics = Topics::User(Arc::new(topics));
    let text = |text: &str| json!({"t": "string", "v": text});
    for (destination, name, letter) in [("queue", "q", "q"), ("exchange", "y", "e")] {
        let kind = format!("destination_{destination}");
        let body = [
            ("source", text(source)),
            (kind.as_str(), text(name)),
            ("binding_key", text(key)),
            ("arguments", json!({"t": "map", "v": []})),
        ];
        let path = format!("/bindings/src={source};dst{letter}={name};key={key};args=");
        let mut core = new_core();
        let mut check = |topics: Option<&Topics>, method, path: &str, expect: &str| {
            let payload = request(method, path, &body);
            let status = ask_with(&mut core, &all, topics, &payload).unwrap();
            assert_eq!(status, expect, "{method} {path}");
        };
        let expect = if may { "204" } else { "403" };
        check(Some(&topics), "POST", "/bindings", expect);
        check(None, "POST", "/bindings", "204");
        check(Some(&topics), "DELETE", &path, expect);
    }
}

#[test]
fn tokens_cannot_be_renewed() {
    let renewal = request("PUT", "/auth/tokens", &[]);
    let all = Permissions::all().unwrap();
    assert_eq!(ask(&mut new_core(), &all, &renewal), Some("400".to_owned()));
}

/// So the RabbitMQ Python client 1.0 asks; alone it is still a request without properties.
#[test]
fn a_body_of_null_in_front_of_the_properties_is_none() {
    let all = Permissions::all().unwrap();
    let mut payload = request("GET", "/queues/q", &[]);
    payload.rotate_right(4);
    assert_eq!(payload.get(..4), Some(&[0x00, 0x53, 0x77, 0x40][..]));
    let core = &mut new_core();
    assert_eq!(ask(core, &all, &payload), Some("200".to_owned()));
    assert_eq!(ask(core, &all, &payload[..4]), Some("400".to_owned()));
}

proptest! {
    #[test]
    fn mutated_requests_are_answered_or_no_messages(
        which in 0..4_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut payload = match which {
            0 => request("PUT", "/queues/n", &argument("x-max-length", "x")),
            1 => request("POST", "/bindings", &binding("destination_queue", "q")),
            2 => request("GET", "/bindings?src=x&dstq=q&key=k", &[]),
            _ => request("DELETE", "/bindings/src=x;dstq=q;key=k;args=", &[]),
        };
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if let Some(status) = ask(&mut new_core(), &Permissions::all().unwrap(), &payload) {
            prop_assert_ne!(status, "500");
        }
    }
}

#[test]
fn every_answer_waits_for_the_last_change_of_what_it_may_tell() {
    let mut core = Core::new(CoreOptions::new(Name::from("/"), Seed(1)));
    let (user, permissions) = (Name::from("someone"), Permissions::all().unwrap());
    let caller = Caller {
        user: &user,
        permissions: &permissions,
        topics: None,
        connection: ConnectionId(1),
        node: "node",
    };
    let mut effects = Effects::new();
    let mut lsn = |method: &str, path: &str| {
        let payload = request(method, path, &[]);
        let answer = handle(Now::default(), &caller, &mut core, &mut effects, &payload);
        answer.unwrap().lsn
    };
    assert_eq!(lsn("GET", "/queues/q"), Lsn(0), "nothing was changed yet");
    let declared = lsn("PUT", "/queues/q");
    assert!(declared > Lsn(0));
    assert_eq!(lsn("PUT", "/queues/q"), declared, "it was there already");
    assert_eq!(lsn("GET", "/queues/q"), declared);
    let deleted = lsn("DELETE", "/queues/q");
    assert!(deleted > declared);
    assert_eq!(lsn("DELETE", "/queues/q"), deleted, "it was gone already");
    assert_eq!(lsn("GET", "/queues/q"), deleted, "there is no such queue");
}

/// Values that take no byte each became 60 bytes of memory, and were decoded under the core's lock.
#[test]
fn a_request_of_more_values_than_allowed_is_a_bad_request() {
    let mut core = Core::new(CoreOptions::new(Name::from("/"), Seed(1)));
    let nulls = |count: usize| {
        let nulls = vec![json!({"t": "null"}); count];
        let path = "/queues/q";
        request(
            "PUT",
            path,
            &[("arguments", json!({"t": "list", "v": nulls}))],
        )
    };
    let all = Permissions::new(".*", ".*", ".*").unwrap();
    let prepared = |payload: &[u8]| crate::management::Prepared::read(payload).unwrap();
    let many = format!("{:?}", prepared(&nulls(5_000)));
    assert!(
        many.contains("the request has more than 4096 values"),
        "{many}"
    );
    assert!(!format!("{:?}", prepared(&nulls(4_000))).contains("4096"));
    assert_eq!(ask(&mut core, &all, &nulls(5_000)).as_deref(), Some("400"));
}

/// All bindings with a key were copied in one hold of the lock: 0.9 seconds at 100,000.
#[test]
fn a_binding_among_many_with_its_key_is_found_piece_by_piece() {
    let mut core = Core::new(CoreOptions::new(Name::from("/"), Seed(1)));
    let all = Permissions::new(".*", ".*", ".*").unwrap();
    let text = |text: &str| json!({"t": "string", "v": text});
    assert_eq!(
        ask(&mut core, &all, &request("PUT", "/queues/q", &[])).as_deref(),
        Some("201")
    );
    let bind = |n: usize| {
        let argument = json!([text("n"), {"t": "ulong", "v": n}]);
        let fields = [
            ("source", text("amq.direct")),
            ("destination_queue", text("q")),
            ("binding_key", text("k")),
            ("arguments", json!({"t": "map", "v": [argument]})),
        ];
        request("POST", "/bindings", &fields)
    };
    for n in 0..600 {
        assert_eq!(ask(&mut core, &all, &bind(n)).as_deref(), Some("204"));
    }
    let list = request("GET", "/bindings?src=amq.direct&dstq=q&key=k", &[]);
    assert_eq!(
        ask(&mut core, &all, &list).as_deref(),
        Some("400"),
        "too many for one answer"
    );
    let last = core.router().bindings(None, None, None).pop().unwrap();
    let path = crate::management::BindingPath {
        token: crate::management::token::binding_token(&last.arguments),
        source: last.source.clone(),
        destination: last.destination.clone(),
        key: last.key.clone(),
    };
    let delete = request("DELETE", &path.write(), &[]);
    let mut prepared = crate::management::Prepared::read(&delete).unwrap();
    let user = Name::from("someone");
    let caller = Caller {
        user: &user,
        permissions: &all,
        topics: None,
        connection: ConnectionId(1),
        node: "node",
    };
    let mut effects = Effects::new();
    let mut holds = 1;
    while let crate::management::Progress::Later(rest) =
        prepared.carry_out(Now::default(), &caller, &mut core, &mut effects)
    {
        prepared = rest;
        holds += 1;
    }
    assert_eq!(holds, 3, "600 bindings in pieces of 256");
    assert!(!core.router().bindings(None, None, None).contains(&last));
}
