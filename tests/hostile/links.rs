//! Links and connections that ask for more than is kept, or do not go.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::slow::fill;
use crate::support::raw::{self, Raw};
use crate::under_attack;

/// Longest that a connection may stay that was closed and does not read: `limits::SOCKET_DROP_MS`, and
/// time to look.
const GONE_MAX: Duration = Duration::from_secs(12);

/// A request of guest to the HTTP API: the whole answer.
fn ask(port: u16, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("a socket");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// [AMQP 2.7.9] A peer with full buffers never took our close, so its connection was `running` for as long
/// as it liked, whoever deleted it.
#[test]
fn a_peer_that_never_reads_is_gone_seconds_after_it_was_deleted() {
    let cost = under_attack(&[], |broker| {
        fill(broker.port, 3_000, "10000");
        let mut raw = Raw::begun(broker.port);
        raw.attach_receiver(0, "hostile-0");
        raw.credit(0, 0xffff_fffb, 0x7fff_ffff);
        raw.wait_for(raw::TRANSFER);
        let local = raw.stream.local_addr().expect("a socket").port();
        let port = broker.port;
        let name = format!("127.0.0.1%3A{local}%20-%3E%20127.0.0.1%3A{port}");
        let path = format!("/api/connections/{name}");
        let before = ask(broker.http_port, "GET", &path);
        assert!(before.contains("\"running\""), "{before}");
        let answer = ask(broker.http_port, "DELETE", &path);
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        let deleted = Instant::now();
        let mut was_closing = false;
        loop {
            let answer = ask(broker.http_port, "GET", &path);
            if answer.starts_with("HTTP/1.1 404") {
                break;
            }
            was_closing |= answer.contains("\"closing\"");
            assert!(deleted.elapsed() < GONE_MAX, "{answer}");
            thread::sleep(Duration::from_millis(100));
        }
        assert!(was_closing, "it was said to be closing meanwhile");
    });
    assert!(cost.peak_mib < 250);
}

/// 1,500 names as long as a frame: none is kept, and the session of the first ends.
#[test]
fn long_names_of_links_are_not_kept() {
    let cost = under_attack(&[], |broker| {
        let mut raws: Vec<Raw> = (0..10).map(|_| Raw::begun(broker.port)).collect();
        let name = "n".repeat(120_000);
        for raw in &mut raws {
            for round in 0..150 {
                let mut fields = raw::attach(0, false, "/queues/none");
                fields[0] = raw::text(&name);
                raw.perform(raw::ATTACH, &fields);
                let end = raw.wait_for(raw::END);
                assert!(end.says("amqp:invalid-field"), "round {round}: {end:x?}");
                raw.perform(raw::END, &[]);
                raw.begin(0);
                raw.wait_for(raw::BEGIN);
            }
        }
    });
    assert!(cost.peak_mib < 200);
}
