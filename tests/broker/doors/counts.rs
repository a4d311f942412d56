//! What logins are counted as, and what they cost: dear hashes, not time, which other programs share.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::passwords::{outcome, send_login};
use super::scram::{begin, challenge, prove};
use crate::support::RunningBroker;
use crate::support::raw::Raw;

/// The example of RabbitMQ's documentation: a hash of `test12`.
const IMPORTED: &str = r#"{"password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
    "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": "management"}"#;

/// Sends a request; the status and the whole answer.
pub fn http(port: u16, request: &str, login: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let login = BASE64.encode(login);
    let head = format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Basic \
         {login}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap();
    (status.parse().unwrap(), answer)
}

/// The value of one series.
fn figure(broker: &RunningBroker, series: &str) -> u64 {
    let (_, text) = http(broker.http_port, "GET /metrics", "", "");
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_else(|| panic!("no {series}"))
        .trim()
        .parse()
        .unwrap()
}

/// Accepted, refused and limited logins by a mechanism so far.
pub fn logins(broker: &RunningBroker, mechanism: &str) -> [u64; 3] {
    ["accepted", "refused", "limited"].map(|outcome| {
        let labels = format!("{{mechanism=\"{mechanism}\",outcome=\"{outcome}\"}}");
        figure(broker, &format!("coroner_logins_total{labels}"))
    })
}

fn hashed(broker: &RunningBroker) -> u64 {
    figure(broker, "coroner_passwords_hashed_total ")
}

fn plain(broker: &RunningBroker, user: &str, password: &str) -> bool {
    let mut raw = Raw::connect(broker.port);
    send_login(&mut raw, user, password);
    outcome(&mut raw)
}

fn basic(broker: &RunningBroker, user: &str, password: &str) -> bool {
    let login = format!("{user}:{password}");
    http(broker.http_port, "GET /api/whoami", &login, "").0 == 200
}

/// A SCRAM login with a wrong password.
fn scram(broker: &RunningBroker, user: &str) -> bool {
    let mut raw = Raw::connect(broker.port);
    begin(&mut raw, user, 0);
    let asked = challenge(&mut raw);
    prove(&mut raw, user, b"wrong", 0, &asked);
    outcome(&mut raw)
}

fn broker() -> RunningBroker {
    let broker = RunningBroker::start(&["--user", "guest:guest", "--user", "ada:lovelace"]);
    let (status, answer) = http(
        broker.http_port,
        "PUT /api/users/imported",
        "guest:guest",
        IMPORTED,
    );
    assert_eq!(status, 201, "{answer}");
    broker
}

#[test]
fn wrong_password_costs_one_hash_whoever_is_named_and_however() {
    let broker = broker();
    assert!(plain(&broker, "ada", "lovelace"), "remembered from now on");
    for door in [plain, basic] {
        for (user, password) in [
            ("ghost", "wrong"),
            ("imported", "wrong"),
            ("ada", "wrong"),
            ("ada", ""),
        ] {
            let before = hashed(&broker);
            assert!(!door(&broker, user, password), "{user}");
            assert_eq!(hashed(&broker) - before, 1, "{user} {password:?}");
        }
        let before = hashed(&broker);
        assert!(door(&broker, "imported", "test12"));
        assert_eq!(hashed(&broker) - before, 0, "a right one of RabbitMQ's");
    }
    let before = hashed(&broker);
    assert!(plain(&broker, "ada", "lovelace"));
    for user in ["ghost", "imported", "ada"] {
        assert!(!scram(&broker, user), "{user}");
    }
    assert_eq!(hashed(&broker) - before, 0, "remembered, and by proof");
}

#[test]
fn logins_are_counted_by_mechanism_and_outcome() {
    let broker = broker();
    let basic_before = logins(&broker, "Basic");
    assert_eq!(basic_before, [1, 0, 0], "by which the user was made");
    assert!(basic(&broker, "imported", "test12"));
    assert!(!basic(&broker, "ghost", "wrong"));
    assert_eq!(logins(&broker, "Basic"), [2, 1, 0]);

    assert!(plain(&broker, "ada", "lovelace"));
    for _ in 0..2 {
        assert!(!scram(&broker, "ada"));
    }
    assert_eq!(logins(&broker, "PLAIN"), [1, 0, 0]);
    assert_eq!(logins(&broker, "SCRAM-SHA-256"), [0, 2, 0]);
    let mut guesses: Vec<_> = (0..40).map(|_| Raw::connect(broker.port)).collect();
    for guess in &mut guesses {
        send_login(guess, "imported", "wrong");
    }
    assert!(!guesses.iter_mut().any(outcome));
    let [accepted, refused, limited] = logins(&broker, "PLAIN");
    assert_eq!((accepted, refused + limited), (1, 40));
    assert!(limited >= 1 && refused >= 10, "{refused} {limited}");
}
