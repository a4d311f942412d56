//! Requests over HTTP, written out by hand.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::RunningBroker;

pub struct Api<'a> {
    pub broker: &'a RunningBroker,
}

impl Api<'_> {
    /// Sends a request of guest; its status and its body as text.
    pub fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.send_as("guest", method, path, body)
    }

    /// Sends a request of a user whose password is its name.
    pub fn send_as(&self, user: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        self.send_with(user, (method, path), "", body)
    }

    /// The same with further lines of the head, each with its end.
    pub fn send_with(
        &self,
        user: &str,
        (method, path): (&str, &str),
        headers: &str,
        body: &str,
    ) -> (u16, String) {
        let login = STANDARD.encode(format!("{user}:{user}"));
        let mut stream = TcpStream::connect(("127.0.0.1", self.broker.http_port)).expect("HTTP");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Basic \
             {login}\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("a request");
        stream.write_all(body.as_bytes()).expect("a body");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        let chunked = head.contains("transfer-encoding: chunked");
        let body = if chunked {
            unchunk(body)
        } else {
            body.to_owned()
        };
        (status.parse().expect("a number"), body)
    }

    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, answer) = self.send(method, path, &body.to_string());
        (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, answer) = self.send("GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        serde_json::from_str(&answer).expect("JSON")
    }

    pub fn put(&self, path: &str, body: &Value) {
        let (status, answer) = self.ask("PUT", path, body);
        assert!([201, 204].contains(&status), "{path}: {status} {answer}");
    }

    pub fn publish(&self, key: &str, payload: &str) {
        let body = json!({
            "properties": {}, "routing_key": key, "payload": payload, "payload_encoding": "string",
        });
        let path = "/api/exchanges/%2F/amq.default/publish";
        assert_eq!(
            self.ask("POST", path, &body),
            (200, json!({"routed": true}))
        );
    }
}

fn unchunk(body: &str) -> String {
    let mut whole = String::new();
    let mut rest = body;
    while let Some((size, behind)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        whole.push_str(&behind[..size]);
        rest = behind[size..].trim_start_matches("\r\n");
    }
    whole
}
