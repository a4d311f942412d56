//! SCRAM on plain frames: many clients at once, and what somebody is told who guesses names.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::counts::logins;
use super::passwords::{check_reconnection, outcome};
use crate::support::RunningBroker;
use crate::support::raw::{
    AMQP_HEADER, OPEN, Raw, SASL_HEADER, binary, frame, performative, symbol, text,
};

const CHALLENGE: u8 = 0x42;
const RESPONSE: u8 = 0x43;

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// Begins a login; its nonce is `n` and the number.
pub fn begin(raw: &mut Raw, user: &str, number: usize) {
    let first = format!("n,,n={user},r=n{number}");
    let init = performative(0x41, &[symbol("SCRAM-SHA-256"), binary(first.as_bytes())]);
    raw.send(&[SASL_HEADER, &frame(1, 0, &init)].concat());
}

/// What the broker asks: its nonce, salt and rounds.
pub fn challenge(raw: &mut Raw) -> (String, String, u32) {
    let came = raw.wait_for(CHALLENGE);
    let body = String::from_utf8_lossy(&came.body).into_owned();
    let asked = &body[body.find("r=").unwrap()..];
    let mut fields = asked.split(',').map(|field| field[2..].to_owned());
    let [nonce, salt, rounds] = std::array::from_fn(|_| fields.next().unwrap());
    (nonce, salt, rounds.parse().unwrap())
}

/// Sends the proof of a password whose salted form is known.
pub fn prove(
    raw: &mut Raw,
    user: &str,
    salted: &[u8],
    number: usize,
    asked: &(String, String, u32),
) {
    let (nonce, salt, rounds) = asked;
    let unproven = format!("c=biws,r={nonce}");
    let signed = format!("n={user},r=n{number},r={nonce},s={salt},i={rounds},{unproven}");
    let client = mac(salted, b"Client Key");
    let signature = mac(&Sha256::digest(&client), signed.as_bytes());
    let proof: Vec<u8> = client.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    let last = format!("{unproven},p={}", BASE64.encode(proof));
    let response = performative(RESPONSE, &[binary(last.as_bytes())]);
    raw.send(&[&frame(1, 0, &response), AMQP_HEADER].concat());
}

fn salted(password: &str, salt: &str, rounds: u32) -> Vec<u8> {
    let mut salted = vec![0; 32];
    let salt = BASE64.decode(salt).unwrap();
    pbkdf2::pbkdf2::<Hmac<Sha256>>(password.as_bytes(), &salt, rounds, &mut salted).unwrap();
    salted
}

/// Clients keep the salted password from login to login, as RFC 5802 (5.1) lets them.
#[test]
fn a_thousand_clients_are_back_by_scram_within_five_seconds() {
    let broker = RunningBroker::start(&["--user", "ada:lovelace"]);
    let mut first = Raw::connect(broker.port);
    begin(&mut first, "ada", 0);
    let (_, salt, rounds) = challenge(&mut first);
    let salted = salted("lovelace", &salt, rounds);
    let start = Instant::now();
    let mut clients: Vec<_> = (0..1_000).map(|_| Raw::connect(broker.port)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        begin(client, "ada", number);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let asked = challenge(client);
        prove(client, "ada", &salted, number, &asked);
        client.perform(OPEN, &[text("client"), text("localhost")]);
    }
    for client in &mut clients {
        assert!(outcome(client));
        client.wait_for(OPEN);
    }
    check_reconnection(&broker, start.elapsed());
}

#[test]
fn who_does_not_exist_is_asked_the_same_each_time_and_as_everybody() {
    let broker = RunningBroker::start(&["--user", "ada:lovelace"]);
    let ask = |user: &str| {
        let mut raw = Raw::connect(broker.port);
        begin(&mut raw, user, 7);
        let (nonce, salt, rounds) = challenge(&mut raw);
        assert!(nonce.starts_with("n7") && nonce.len() > 20, "{nonce}");
        (salt, rounds)
    };
    let (known, ghost) = (ask("ada"), ask("ghost"));
    assert_eq!(ask("ada"), known);
    assert_eq!(ask("ghost"), ghost);
    assert_ne!(ask("phantom").0, ghost.0);
    assert_eq!((known.1, known.0.len()), (ghost.1, ghost.0.len()));
}

/// The limit on failed logins was asked for when an exchange began: of 300 that were begun before the
/// first was finished every one was judged, and the last was let in.
#[test]
fn of_many_guesses_that_are_begun_at_once_no_more_are_judged_than_may_fail() {
    let broker = RunningBroker::start(&["--user", "ada:lovelace"]);
    let mut clients: Vec<_> = (0..40).map(|_| Raw::connect(broker.port)).collect();
    let mut asked = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        begin(client, "ada", number);
        asked.push(challenge(client));
    }
    let (_, salt, rounds) = asked[0].clone();
    let (wrong, right) = (
        salted("guess", &salt, rounds),
        salted("lovelace", &salt, rounds),
    );
    let last = clients.len() - 1;
    for (number, client) in clients.iter_mut().enumerate() {
        let password = if number == last { &right } else { &wrong };
        prove(client, "ada", password, number, &asked[number]);
    }
    for client in &mut clients {
        assert!(!outcome(client));
    }
    let [accepted, _, limited] = logins(&broker, "SCRAM-SHA-256");
    assert_eq!(accepted, 0);
    // Ten may fail, and one more for every two seconds that this took.
    assert!((25..=30).contains(&limited), "{limited} were not judged");
}
