//! Peers that abuse HTTP: much JSON without the right to send it, answers that are not read, bodies
//! that do not come, expressions that take long.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::slow::fill;
use crate::support::RunningBroker;
use crate::under_attack;

/// Longest wait for an answer that must come.
const ANSWER_MAX: Duration = Duration::from_mins(1);
/// How far what the broker counts may be from the growth of resident memory, in percent: values live for a fraction of a
/// second, and the allocator keeps what they took for longer than that.
const COUNTED_PERCENT: u64 = 50;
/// What unoptimised code takes by itself is in this.
const MEMORY_MAX_MIB: u64 = 200;

/// Sends a request of a user whose password is its name; the status.
fn send(port: u16, user: &str, line: &str, body: &[u8]) -> Option<u16> {
    let mut stream = begin(port, user, line, body.len());
    // It may be refused before all of it is read.
    let _ = stream.write_all(body);
    status(&mut stream)
}

fn begin(port: u16, user: &str, line: &str, body_bytes: usize) -> TcpStream {
    let login = STANDARD.encode(format!("{user}:{user}"));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("HTTP");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a socket");
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Basic \
         {login}\r\ncontent-length: {body_bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("a request");
    stream
}

fn status(stream: &mut TcpStream) -> Option<u16> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1)?.parse().ok()
}

fn is_healthy(broker: &RunningBroker) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a socket");
    let asked = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut answer = [0; 12];
    asked.is_ok() && stream.read_exact(&mut answer).is_ok() && answer == *b"HTTP/1.1 200"
}

/// A user with a tag and a right on what has such names.
pub fn add_user(broker: &RunningBroker, user: &str, names: &str) {
    let port = broker.http_port;
    let body = format!(r#"{{"password": "{user}", "tags": "management"}}"#);
    let path = format!("PUT /api/users/{user}");
    assert_eq!(send(port, "guest", &path, body.as_bytes()), Some(201));
    let path = format!("PUT /api/permissions/%2F/{user}");
    let body = format!(r#"{{"configure": "{names}", "write": "{names}", "read": "{names}"}}"#);
    assert_eq!(send(port, "guest", &path, body.as_bytes()), Some(201));
}

/// 20 MB of JSON, as much as it can be in memory.
fn much_json() -> Vec<u8> {
    let mut json = b"{\"arguments\": [".to_vec();
    json.extend(b"{\"\":0},".repeat(19_000_000 / 7));
    json.extend(b"0]}");
    json
}

/// Three clients made everybody wait 12 s and took 650 MB, to be answered 401.
#[test]
fn json_of_who_may_not_send_it_is_not_read() {
    let json = much_json();
    let cost = under_attack(&[], |broker| {
        add_user(broker, "ada", "^$");
        thread::scope(|scope| {
            for user in ["ada", "ada", "nobody"] {
                let json = &json;
                scope.spawn(move || {
                    let line = "POST /api/exchanges/%2F/amq.default/publish";
                    send(broker.http_port, user, line, json);
                    send(broker.http_port, user, "PUT /api/queues/%2F/q", json);
                });
            }
        });
    });
    assert!(cost.peak_mib < MEMORY_MAX_MIB, "{cost:?}");
}

/// The same of somebody who may: it is read aside, and no further than its bound.
#[test]
fn json_of_who_may_send_it_hurts_nobody() {
    let json = much_json();
    let cost = under_attack(&[], |broker| {
        thread::scope(|scope| {
            for line in [
                "POST /api/exchanges/%2F/amq.default/publish",
                "POST /api/definitions",
                "POST /api/definitions",
            ] {
                let json = &json;
                scope.spawn(move || {
                    assert_eq!(send(broker.http_port, "guest", line, json), Some(400));
                });
            }
        });
    });
    // Twice the values that definitions may have, and the bodies.
    assert!(cost.peak_mib < 900, "{cost:?}");
    cost.check_counted_within(COUNTED_PERCENT);
}

/// 256 connections that never read locked out `/health` for good, without a login.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes an optimised build")]
fn connections_that_never_read_do_not_lock_out_health() {
    let cost = under_attack(&[], |broker| {
        let requests = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
        let connect = || {
            let mut stream = TcpStream::connect(("127.0.0.1", broker.http_port)).ok()?;
            let wait = Some(Duration::from_millis(5));
            stream.set_write_timeout(wait).expect("a socket");
            for _ in 0..20 {
                if stream.write_all(&requests).is_err() {
                    break;
                }
            }
            Some(stream)
        };
        let deaf: Vec<TcpStream> = (0..300).filter_map(|_| connect()).collect();
        let mut slowest = Duration::ZERO;
        // A machine with much else to do lets a connection wait longer than these last: who asks again is
        // answered.
        let mut refused = 0;
        for _ in 0..20 {
            let begun = Instant::now();
            while !is_healthy(broker) {
                refused += 1;
                assert!(begun.elapsed() < ANSWER_MAX, "/health is locked out");
            }
            slowest = slowest.max(begun.elapsed());
        }
        println!("/health beside them: {slowest:?}, {refused} times not at once");
        // They are let go, and others are served again.
        let end = Instant::now() + ANSWER_MAX;
        while send(broker.http_port, "guest", "GET /api/whoami", b"") != Some(200) {
            assert!(Instant::now() < end, "those that never read still hold all");
            thread::sleep(Duration::from_millis(200));
        }
        drop(deaf);
    });
    assert!(cost.peak_mib < 2 * MEMORY_MAX_MIB, "{cost:?}");
}

/// Four slow bodies made all others wait 29 s.
#[test]
fn bodies_that_do_not_come_hold_nothing() {
    let cost = under_attack(&[], |broker| {
        let line = "POST /api/definitions";
        let mut slow: Vec<TcpStream> = (0..64)
            .map(|_| begin(broker.http_port, "guest", line, 19_000_000))
            .collect();
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let begun = Instant::now();
            let put = send(broker.http_port, "guest", "PUT /api/queues/%2F/q", b"{}");
            assert!(put.is_some_and(|status| status < 300), "{put:?}");
            slowest = slowest.max(begun.elapsed());
        }
        println!("a request beside them: {slowest:?}");
        for stream in &mut slow {
            assert_eq!(status(stream), Some(408));
        }
    });
    assert!(cost.peak_mib < MEMORY_MAX_MIB, "{cost:?}");
}

/// One expression took 0.6 s of the only thread that serves connections.
#[test]
fn expressions_of_callers_hurt_nobody() {
    let cost = under_attack(&[], |broker| {
        for number in 0..300 {
            let path = format!("PUT /api/queues/%2F/{}{number}", "a".repeat(200));
            assert_eq!(send(broker.http_port, "guest", &path, b"{}"), Some(201));
        }
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for pattern in [
                        "((%5Cw{50}){50}){50}",
                        "%5Cw{30}%5Cw{30}%5Cw{30}x$",
                        "(?=(a%2B)%2B$)(a|a)*%5C1b",
                        "(a|aa)%2B(?=b)c",
                        "(.*)(.*)(.*)(.*)(.*)%5C1%5C2%5C3%5C4%5C5b",
                        "(a*)*(a*)*(a*)*b",
                    ] {
                        for listing in ["queues", "exchanges", "users", "connections"] {
                            let line =
                                format!("GET /api/{listing}?page=1&use_regex=true&name={pattern}");
                            let status = send(broker.http_port, "guest", &line, b"");
                            assert!(matches!(status, Some(200 | 400)), "{line}: {status:?}");
                        }
                    }
                });
            }
        });
    });
    assert!(cost.peak_mib < MEMORY_MAX_MIB, "{cost:?}");
}

/// Answers that show messages have one room together: clients that ask for them and do not read took memory
/// without end. Who finds it full is told so and may come again.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes an optimised build")]
fn answers_that_are_not_read_are_refused_beyond_their_room_until_they_are_gone() {
    const LINE: &str = "GET /api/queues/%2F/hostile-0/messages?count=60";
    let cost = under_attack(&[], |broker| {
        fill(broker.port, 60, "1000000");
        let ask = || {
            let mut stream = begin(broker.http_port, "guest", LINE, 0);
            let mut status = [0; 12];
            stream.read_exact(&mut status).expect("a status");
            (stream, String::from_utf8_lossy(&status).into_owned())
        };
        let mut deaf = Vec::new();
        let mut refused = loop {
            let (stream, status) = ask();
            if status != "HTTP/1.1 200" {
                assert_eq!(status, "HTTP/1.1 503");
                break stream;
            }
            deaf.push(stream);
            // Each has more than 60 MB.
            assert!(deaf.len() < 5, "there is room for all");
        };
        assert!(deaf.len() >= 2, "there is no room for two");
        let mut told = String::new();
        refused.read_to_string(&mut told).expect("an answer");
        assert!(told.contains(&(256 << 20).to_string()), "{told}");
        assert!(is_healthy(broker));
        drop(deaf);
        let end = Instant::now() + ANSWER_MAX;
        while send(broker.http_port, "guest", LINE, b"") != Some(200) {
            assert!(Instant::now() < end, "those that are gone still hold it");
        }
    });
    assert!(cost.peak_mib < 600, "{cost:?}");
    cost.check_counted_within(COUNTED_PERCENT);
}
