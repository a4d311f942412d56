//! The audit log of a running broker.
#![allow(clippy::disallowed_methods, reason = "tests open sockets")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::operating::Process;
use crate::support::raw::{ATTACH, OPEN, Raw, attach, described, list, map, null, text, truth};

const GUEST: &str = "Z3Vlc3Q6Z3Vlc3Q=";
const ADA: &str = "YWRhOmFkYQ==";

fn start(arguments: &[&str]) -> Process {
    let ada = [
        "--user",
        "guest:guest",
        "--user",
        "ada:ada",
        "--user-tags",
        "guest=administrator",
        "--user-tags",
        "ada=management",
        "--permission",
        "guest * .* .* .*",
        "--permission",
        "ada / ^ada ^ada ^ada",
        "--vhost",
        "closed",
    ];
    let all = [&["--log-format", "json"], &ada[..], arguments].concat();
    Process::start(&all, &[])
}

/// Sends a request; the status of the answer.
fn ask(process: &Process, request: &str, login: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(process.http).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Basic {login}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// The next line of the audit log, without time and address.
fn audited(process: &Process) -> Value {
    let line = process.line("\"coroner::audit\"");
    let mut line: Value = serde_json::from_str(&line).unwrap();
    let line = line.as_object_mut().unwrap();
    if let Some(address) = line.remove("address") {
        assert!(address.as_str().unwrap().starts_with("127.0.0.1:"));
    }
    line.retain(|key, _| !["timestamp", "target", "level", "span", "spans"].contains(&&**key));
    Value::Object(std::mem::take(line))
}

/// Sends a request as a user (`USER:PASSWORD` in Base64), and compares the answer's status and the line.
fn check(process: &Process, request: &str, (login, body): (&str, &str), expect: Value) {
    let status = expect["status"].as_u64().unwrap();
    assert_eq!(
        u64::from(ask(process, request, login, body)),
        status,
        "{request}"
    );
    let mut expect = expect;
    let user = if login == GUEST { "guest" } else { "ada" };
    (expect["user"], expect["protocol"]) = (json!(user), json!("http"));
    let mut line = audited(process);
    if status < 300 {
        expect["message"] = json!("granted");
    } else {
        expect.as_object_mut().unwrap().remove("status");
        expect["message"] = json!("refused");
        if expect.get("why").is_none() {
            let why = line.as_object_mut().unwrap().remove("why");
            assert!(why.is_some_and(|why| !why.as_str().unwrap().is_empty()));
        }
    }
    assert_eq!(line, expect, "{request}");
}

/// What is expected of a change in the vhost `/`.
fn change(status: u16, action: &str, object: &str) -> Value {
    json!({"vhost": "/", "action": action, "object": object, "status": status})
}

#[test]
fn who_changes_something_over_http_is_in_the_audit_log() {
    let process = start(&[]);
    let durable = (GUEST, "{\"durable\":true}");
    let queue = "/api/queues/%2F/orders";
    check(
        &process,
        &format!("PUT {queue}"),
        durable,
        change(201, "declare queue", "orders"),
    );
    // What is there already is no change, and neither is what is looked at.
    assert_eq!(
        ask(&process, &format!("PUT {queue}"), GUEST, durable.1),
        204
    );
    assert_eq!(ask(&process, &format!("GET {queue}"), GUEST, ""), 200);
    let guest = (GUEST, "");
    check(
        &process,
        &format!("DELETE {queue}/contents"),
        guest,
        change(204, "purge queue", "orders"),
    );
    check(
        &process,
        &format!("DELETE {queue}"),
        guest,
        change(204, "delete queue", "orders"),
    );
    let eve = (GUEST, "{\"password\":\"secret\",\"tags\":\"\"}");
    let made = json!({"vhost": "", "action": "set user", "object": "eve", "status": 201});
    check(&process, "PUT /api/users/eve", eve, made);
    let bind = "POST /api/bindings/%2F/e/amq.topic/q/none";
    check(
        &process,
        bind,
        (GUEST, "{}"),
        change(404, "bind", "amq.topic/q/none"),
    );
}

#[test]
fn who_may_not_over_http_is_in_the_audit_log() {
    let process = start(&[]);
    let ada = (ADA, "");
    assert_eq!(
        ask(&process, "PUT /api/queues/%2F/orders", GUEST, "{}"),
        201
    );
    assert_eq!(audited(&process)["user"], "guest");
    let mut refused = change(401, "delete queue", "orders");
    refused["why"] = json!("user 'ada' has no configure right on queue 'orders'");
    check(&process, "DELETE /api/queues/%2F/orders", ada, refused);
    let users = json!({"vhost": "", "action": "GET /api/users", "object": "", "status": 401,
        "why": "Not administrator user"});
    check(&process, "GET /api/users", ada, users);
    let closed = json!({"vhost": "closed", "action": "GET /api/queues/{vhost}", "object": "closed",
        "status": 401});
    check(&process, "GET /api/queues/closed", ada, closed);
    // Another site made a browser send it: nobody has logged in yet.
    let foreign = "DELETE /api/queues/%2F/orders HTTP/1.1\r\norigin: http://evil.example\r\nx: y";
    assert_eq!(ask(&process, foreign, GUEST, ""), 403);
    let line = audited(&process);
    assert_eq!(
        [&line["message"], &line["action"], &line["user"]],
        ["refused", "DELETE", ""]
    );
    assert_eq!(line["object"], "/api/queues/%2F/orders");
}

#[test]
fn who_changes_something_over_amqp_or_may_not_is_in_the_audit_log() {
    let process = start(&[]);
    let mut ada = Raw::managing(process.amqp, "ada");
    let mut id = 0;
    let mut check = |method: &str, path: &str, expect: Value| {
        ada.manage(
            id,
            (method, path),
            &if method == "PUT" { map(&[]) } else { null() },
        );
        id += 1;
        let mut line = audited(&process);
        assert_eq!(line["user"], "ada");
        assert_eq!(line["protocol"], "amqp");
        assert_eq!(line["vhost"], "/");
        let line = line.as_object_mut().unwrap();
        let line: Vec<Value> = ["message", "action", "object", "status", "why"]
            .iter()
            .filter_map(|key| line.remove(*key))
            .collect();
        assert_eq!(Value::Array(line), expect);
    };
    check(
        "PUT",
        "/queues/ada-1",
        json!(["granted", "declare queue", "ada-1", 201]),
    );
    let why = "user 'ada' has no configure right on queue 'orders'";
    check(
        "PUT",
        "/queues/orders",
        json!(["refused", "declare queue", "orders", why]),
    );
    check(
        "DELETE",
        "/queues/ada-1/messages",
        json!(["granted", "purge queue", "ada-1", 200]),
    );
    check(
        "DELETE",
        "/queues/ada-1",
        json!(["granted", "delete queue", "ada-1", 200]),
    );
    // A link that is refused.
    assert_eq!(
        ask(&process, "PUT /api/queues/%2F/orders", GUEST, "{}"),
        201
    );
    assert_eq!(audited(&process)["user"], "guest");
    let mut raw = Raw::begun_as(process.amqp, "ada");
    raw.attach_receiver(0, "orders");
    let line = audited(&process);
    assert_eq!([&line["action"], &line["object"]], ["read queue", "orders"]);
    let why = "read access to queue 'orders' refused for user 'ada'";
    assert_eq!([&line["message"], &line["why"]], ["refused", why]);
    // A vhost that is not for everybody.
    let mut raw = Raw::authenticated_as(process.amqp, "ada");
    raw.perform(OPEN, &[text("raw"), text("vhost:closed")]);
    let line = audited(&process);
    assert_eq!(
        [&line["action"], &line["object"], &line["user"]],
        ["enter vhost", "closed", "ada"]
    );
    assert_eq!(line["why"], "user 'ada' may not enter vhost 'closed'");
}

/// These queues came to be without a word.
#[test]
fn a_queue_made_by_a_bare_address_or_a_dynamic_link_is_in_the_audit_log() {
    let process = start(&["--auto-create", "ada.#"]);
    let made = |user: &str, object: &str| {
        let line = audited(&process);
        let common = [&line["protocol"], &line["vhost"], &line["action"]];
        assert_eq!(common, ["amqp", "/", "declare queue"], "{line}");
        assert_eq!(
            [&line["message"], &line["user"]],
            ["granted", user],
            "{line}"
        );
        assert_eq!(line["status"], 201);
        let named = line["object"].as_str().unwrap();
        assert!(named.starts_with(object), "{line}");
    };
    let mut ada = Raw::begun_as(process.amqp, "ada");
    ada.perform(ATTACH, &attach(0, true, "ada.bare"));
    ada.wait_for(ATTACH);
    made("ada", "ada.bare");
    // It is there: nothing is made. Who may not send gets no queue made, either.
    ada.perform(ATTACH, &attach(1, true, "ada.bare"));
    ada.wait_for(ATTACH);
    ada.perform(ATTACH, &attach(2, false, "ada.sent"));
    ada.wait_for(ATTACH);
    assert_eq!(audited(&process)["action"], "write exchange");
    let mut guest = Raw::begun_as(process.amqp, "guest");
    guest.perform(ATTACH, &attach(0, false, "ada.sent"));
    guest.wait_for(ATTACH);
    made("guest", "ada.sent");
    // A dynamic source: address, durable, expiry-policy, timeout, dynamic.
    let mut fields = attach(1, true, "");
    let dynamic = list(&[null(), null(), null(), null(), truth(true)]);
    fields[5] = described(0x28, &dynamic);
    guest.perform(ATTACH, &fields);
    guest.wait_for(ATTACH);
    made("guest", "amq.gen-");
}

/// Of fifty refusals within a second twenty have a line, and none is forgotten.
#[test]
fn what_one_user_asks_too_often_is_counted_and_told() {
    let process = start(&[]);
    let mut ada = Raw::managing(process.amqp, "ada");
    for id in 0..50 {
        ada.manage(id, ("DELETE", "/queues/orders"), &null());
    }
    let mut told = 0;
    while told < 50 {
        let line = audited(&process);
        assert_eq!(line["user"], "ada");
        told += match line["message"].as_str() {
            Some("refused") => 1,
            Some("more in the last second") => line["refused"].as_u64().unwrap(),
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(told, 50);
}
