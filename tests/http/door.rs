//! What is refused at the door: sizes, slowness, other sites.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

/// Longest wait for an answer that must come.
const ANSWER_MAX: Duration = Duration::from_mins(1);

/// Sends bytes and reads the answer to its end: its status, and all of it.
fn exchange(port: u16, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("HTTP");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a socket");
    // It may be refused before all of it is read.
    let _ = stream.write_all(request);
    answer(&mut stream)
}

fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.unwrap_or_default(), answer)
}

/// The head of a request of a user whose password is its name.
fn head(user: &str, line: &str, fields: &str, body_bytes: usize) -> String {
    let login = STANDARD.encode(format!("{user}:{user}"));
    format!(
        "{line} HTTP/1.1\r\n{fields}connection: close\r\nauthorization: Basic {login}\r\n\
         content-length: {body_bytes}\r\n\r\n"
    )
}

/// Asks as guest, with these fields beside the usual ones.
fn ask(broker: &RunningBroker, line: &str, fields: &str, body: &str) -> (u16, String) {
    let request = head("guest", line, fields, body.len()) + body;
    exchange(broker.http_port, request.as_bytes())
}

/// Header fields of 120 KiB passed, and so did HTTP/1.1 without Host. [RFC 9112 3.2, RFC 6585 5]
#[test]
fn heads_that_http_does_not_allow_are_refused() {
    let broker = RunningBroker::start(&[]);
    let path = "GET /api/whoami";
    assert_eq!(ask(&broker, path, "host: localhost\r\n", "").0, 200);
    let (status, told) = ask(&broker, path, "", "");
    assert_eq!(status, 400, "{told}");
    assert!(told.contains("Host"), "{told}");
    let twice = "host: localhost\r\nhost: localhost\r\n";
    assert_eq!(ask(&broker, path, twice, "").0, 400);
    for kib in [65, 100, 120, 200] {
        let fields = format!("host: localhost\r\nx-long: {}\r\n", "x".repeat(kib * 1024));
        assert_eq!(ask(&broker, path, &fields, "").0, 431, "{kib} KiB");
    }
    let many = "x-field: y\r\n".repeat(101);
    let many = format!("host: localhost\r\n{many}");
    assert_eq!(ask(&broker, path, &many, "").0, 431, "too many fields");
    let old = "GET /health HTTP/1.0\r\n\r\n";
    assert_eq!(exchange(broker.http_port, old.as_bytes()).0, 200);
}

/// A page that somebody opened could make and delete queues with the login that the browser remembers,
/// and read everything by a name of its own that leads to 127.0.0.1.
#[test]
fn what_another_site_makes_a_browser_send_is_refused() {
    let broker = RunningBroker::start(&["--http-host", "broker.example"]);
    let check = |line: &str, fields: &str, expect: u16| {
        let (status, told) = ask(&broker, line, fields, "");
        assert_eq!(status, expect, "{line} {fields:?}: {told}");
    };
    let (put, get) = ("PUT /api/queues/%2F/q", "GET /api/overview");
    let own = format!("host: localhost:{}\r\n", broker.http_port);
    let with = |field: &str| format!("{own}{field}\r\n");
    check(put, &own, 201);
    check(
        put,
        &with(&format!("origin: http://localhost:{}", broker.http_port)),
        204,
    );
    check(put, &with("sec-fetch-site: same-origin"), 204);
    for foreign in [
        "origin: http://evil.example",
        "origin: null",
        "origin: http://localhost:1",
        "sec-fetch-site: cross-site",
        "sec-fetch-site: same-site",
    ] {
        for unsafe_line in [put, "DELETE /api/queues/%2F/q", "POST /api/definitions"] {
            check(unsafe_line, &with(foreign), 403);
        }
        check(get, &with(foreign), 200);
    }
    for host in [
        "evil.example",
        "evil.example:15672",
        "127.0.0.1.evil.example",
    ] {
        check(get, &format!("host: {host}\r\n"), 403);
    }
    for host in ["127.0.0.1", "[::1]:15672", "localhost", "broker.example"] {
        check(get, &format!("host: {host}\r\n"), 200);
    }
}

#[test]
fn a_body_that_is_said_to_be_no_json_is_refused() {
    let broker = RunningBroker::start(&[]);
    let check = |line: &str, fields: &str, body: &str, expect: u16| {
        let fields = format!("host: localhost\r\n{fields}");
        let (status, told) = ask(&broker, line, &fields, body);
        assert_eq!(status, expect, "{line} {fields:?}: {told}");
    };
    let put = "PUT /api/queues/%2F/q";
    check(put, "content-type: text/plain\r\n", "{}", 415);
    check(put, "content-type: multipart/form-data\r\n", "{}", 415);
    check(put, "", "{}", 201);
    check(put, "content-type: application/json\r\n", "{}", 204);
    // What curl says of `-d` by itself, and a form of a page does too, with where it is from.
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    check(put, form, "{}", 204);
    check(put, &format!("{form}sec-fetch-site: none\r\n"), "{}", 415);
    check(put, "content-type: text/plain\r\n", "", 204);
}

/// 20 MB of JSON were read and parsed on the only thread that serves connections, 4.7 s long, before
/// it was looked at whether the user may publish there.
#[test]
fn who_may_not_send_a_body_is_refused_before_any_of_it_comes() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let user = json!({"password": "ada", "tags": "management"});
    api.put("/api/users/ada", &user);
    let rights = json!({"configure": "^$", "write": "^$", "read": "^$"});
    api.put("/api/permissions/%2F/ada", &rights);
    for (user, line, expect) in [
        ("nobody", "POST /api/exchanges/%2F/amq.default/publish", 401),
        ("ada", "POST /api/exchanges/%2F/amq.default/publish", 400),
        ("ada", "POST /api/definitions", 401),
        ("ada", "PUT /api/queues/%2F/q", 401),
        ("ada", "PUT /api/exchanges/%2F/x", 401),
        ("ada", "POST /api/bindings/%2F/e/amq.topic/q/q", 401),
        ("ada", "POST /api/queues/%2F/q/get", 401),
    ] {
        // Announced, and nothing of it sent: an answer comes all the same.
        let request = head(user, line, "host: localhost\r\n", 60_000);
        let (status, told) = exchange(broker.http_port, request.as_bytes());
        assert_eq!(status, expect, "{user} {line}: {told}");
    }
}

#[test]
fn bodies_are_bounded_by_what_their_route_needs() {
    let broker = RunningBroker::start(&[]);
    for (line, bytes_max) in [
        ("PUT /api/queues/%2F/q", 64 * 1024),
        ("PUT /api/global-parameters/p", 64 * 1024),
        ("POST /api/users/bulk-delete", 1024 * 1024),
        ("POST /api/exchanges/%2F/amq.default/publish", 20_000_000),
        ("POST /api/definitions", 20_000_000),
    ] {
        let request = head("guest", line, "host: localhost\r\n", bytes_max + 1);
        let (status, told) = exchange(broker.http_port, request.as_bytes());
        assert_eq!(status, 413, "{line}: {told}");
        assert!(
            told.contains(&format!("more than {bytes_max} bytes")),
            "{told}"
        );
    }
    // Short, but much once it is read.
    let nulls = format!(
        "{{\"arguments\": {{\"a\": [{}]}}}}",
        "0,".repeat(32_000) + "0"
    );
    assert!(nulls.len() < 64 * 1024 + 100);
    let objects = format!("[{}{{}}]", "{},".repeat(20_000));
    let (status, told) = ask(
        &broker,
        "PUT /api/queues/%2F/q",
        "host: localhost\r\n",
        &objects,
    );
    assert_eq!(status, 400);
    assert!(told.contains("more than 65536 values"), "{told}");
}

/// Four bodies that were announced with 16 MB and came slowly made all others wait 29 s.
#[test]
fn slow_bodies_are_refused_and_nobody_waits_for_them() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/q", &json!({}));
    let line = "POST /api/exchanges/%2F/amq.default/publish";
    let mut slow: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
            stream.set_read_timeout(Some(ANSWER_MAX)).expect("a socket");
            let request = head("guest", line, "host: localhost\r\n", 16_000_000) + "{";
            stream.write_all(request.as_bytes()).expect("a beginning");
            stream
        })
        .collect();
    let begun = Instant::now();
    api.publish("q", &"x".repeat(200_000));
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    for stream in &mut slow {
        let (status, told) = answer(stream);
        assert_eq!(status, 408, "{told}");
        assert!(told.contains("connection: close"), "{told}");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn what_is_asked_of_a_listing_is_bounded_and_the_bound_is_told() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let check = |query: &str, told: &str| {
        let (status, answer) = api.send("GET", &format!("/api/queues?{query}"), "");
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains(told), "{answer}");
    };
    check(&format!("x={}", "y".repeat(9_000)), "more than 8192 bytes");
    check(&"a=b&".repeat(65), "more than 64 parameters");
    check(
        &format!("columns={}", "a,".repeat(129)),
        "more than 128 fields",
    );
    check(&format!("sort={}", "a.".repeat(8)), "more than 8 names");
    check(&format!("columns={}", "a.".repeat(8)), "more than 8 names");
    let regex = |pattern: &str| format!("page=1&use_regex=true&name={pattern}");
    check(&regex(&"a".repeat(257)), "more than 256 bytes");
    check(&regex("((%5Cw{50}){50}){50}"), "invalid");
    check("page=1&page_size=501", "page size 501");
}

#[test]
fn what_is_kept_is_bounded_and_the_bound_is_told() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let check = |path: &str, body: &Value, told: &str| {
        let (status, answer) = api.ask("PUT", path, body);
        assert_eq!(status, 400, "{path}: {answer}");
        assert!(answer.to_string().contains(told), "{path}: {answer}");
    };
    let long = |bytes: usize| "x".repeat(bytes);
    check(
        "/api/users/u",
        &json!({"tags": "", "password": long(5_000)}),
        "4096 bytes",
    );
    check("/api/users/u", &json!({"tags": vec!["t"; 65]}), "64 words");
    check("/api/users/u", &json!({"tags": [long(257)]}), "256 bytes");
    check(
        "/api/vhosts/v",
        &json!({"description": long(5_000)}),
        "4096 bytes",
    );
    check("/api/vhosts/v", &json!({"tags": vec!["t"; 65]}), "64 words");
    let rights = json!({"configure": long(1_025), "write": "", "read": ""});
    check("/api/permissions/%2F/guest", &rights, "1024 bytes");
    let topics = json!({"exchange": "amq.topic", "write": long(1_025), "read": ""});
    check("/api/topic-permissions/%2F/guest", &topics, "1024 bytes");
    let policy = |pattern: &str, value: &str| json!({"pattern": pattern, "definition": {"dead-letter-exchange": value}});
    check(
        "/api/policies/%2F/p",
        &policy(&long(1_025), "x"),
        "1024 bytes",
    );
    check(
        "/api/policies/%2F/p",
        &policy("((\\w{50}){50}){50}", "x"),
        "pattern",
    );
    check(
        "/api/policies/%2F/p",
        &policy("^a", &long(20_000)),
        "16384 bytes",
    );
    // In definitions, too, and nothing of them is imported.
    let users = json!([{"name": "new", "tags": ""}, {"name": "u", "tags": vec!["t"; 65]}]);
    let (status, told) = api.ask("POST", "/api/definitions", &json!({"users": users}));
    assert_eq!(status, 400);
    assert!(told.to_string().contains("64 words"), "{told}");
    assert_eq!(api.send("GET", "/api/users/new", "").0, 404);
}
