//! AMQP over WebSocket: the handshake over a real socket, and what a page of another site may.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::RunningBroker;

/// Longest wait for an answer that must come.
const ANSWER_MAX: Duration = Duration::from_mins(1);
/// The protocol header of SASL. [AMQP 5.3.1]
const SASL: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// Asks for a WebSocket, with these lines beside the usual ones: the head of the answer, and the connection.
fn open(port: u16, path: &str, fields: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("HTTP");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a socket");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
    );
    stream.write_all(request.as_bytes()).expect("a request");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("an answer") == 1 {
        head.push(byte[0]);
    }
    (String::from_utf8(head).expect("text"), stream)
}

fn status(head: &str) -> u16 {
    let word = head.split(' ').nth(1).expect("a status");
    word.parse().expect("a number")
}

/// A frame of a client, whose mask changes nothing.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = 0x80 | u8::try_from(payload.len()).expect("a short frame");
    [&[first, length, 0, 0, 0, 0], payload].concat()
}

/// Takes the next frame: its first byte and its payload.
fn next(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("a frame");
    assert!(head[1] < 126, "a short frame, not masked");
    let mut payload = vec![0; usize::from(head[1])];
    stream.read_exact(&mut payload).expect("its payload");
    (head[0], payload)
}

const AMQP: &str = "Sec-WebSocket-Protocol: amqp\r\n";

#[test]
fn amqp_is_spoken_over_websocket_beside_the_api_and_at_a_port_of_its_own() {
    let broker = RunningBroker::start(&["--websocket", "127.0.0.1:0"]);
    let own = broker.websocket_port.expect("a port of its own");
    for (port, path) in [(broker.http_port, "/amqp"), (own, "/"), (own, "/ws")] {
        let (head, mut stream) = open(port, path, AMQP);
        assert_eq!(status(&head), 101, "{head}");
        let head = head.to_ascii_lowercase();
        assert!(head.contains("sec-websocket-protocol: amqp"), "{head}");
        assert!(
            head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{head}"
        );
        // The header in two messages, with a ping between them.
        stream.write_all(&frame(0x82, &SASL[..3])).expect("a frame");
        stream.write_all(&frame(0x89, b"there?")).expect("a frame");
        assert_eq!(next(&mut stream), (0x8a, b"there?".to_vec()));
        stream.write_all(&frame(0x82, &SASL[3..])).expect("a frame");
        let (first, payload) = next(&mut stream);
        assert_eq!((first, payload.get(..8)), (0x82, Some(SASL.as_slice())));
        stream.write_all(&frame(0x88, &[])).expect("a frame");
        loop {
            match next(&mut stream) {
                (0x82, _) => {}
                (first, payload) => {
                    assert_eq!((first, payload), (0x88, 1000_u16.to_be_bytes().to_vec()));
                    break;
                }
            }
        }
    }
    let (head, _) = open(own, "/", "Sec-WebSocket-Protocol: mqtt\r\n");
    assert_eq!(status(&head), 400, "{head}");
}

/// A page that somebody opens anywhere could otherwise log in as guest on this machine.
#[test]
fn a_page_of_another_site_opens_a_websocket_only_where_a_setting_lets_it() {
    let allowing = ["--websocket-origin", "https://app.example"];
    let (plain, allowing) = (RunningBroker::start(&[]), RunningBroker::start(&allowing));
    let own = format!("Origin: http://localhost:{}\r\n", plain.http_port);
    let app = "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n";
    let evil = "Origin: https://evil.example\r\n";
    for (broker, origin, expected) in [
        (&plain, "", 101),
        (&plain, own.as_str(), 101),
        (&plain, app, 403),
        (&plain, evil, 403),
        (&plain, "Origin: null\r\n", 403),
        (&allowing, app, 101),
        (&allowing, evil, 403),
    ] {
        let (head, mut stream) = open(broker.http_port, "/amqp", &format!("{AMQP}{origin}"));
        assert_eq!(status(&head), expected, "{origin}: {head}");
        if expected == 403 {
            let mut told = [0; 1024];
            let count = stream.read(&mut told).expect("a body");
            let told = String::from_utf8_lossy(&told[..count]);
            assert!(told.contains("websocket-origin"), "{told}");
        }
    }
}
