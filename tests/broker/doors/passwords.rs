//! Passwords in clear: what a wrong one costs, and how many may be tried.

use std::time::{Duration, Instant};

use super::counts::logins;
use crate::support::RunningBroker;
use crate::support::raw::{
    AMQP_HEADER, ANSWER_MAX, OPEN, Raw, SASL_HEADER, binary, frame, performative, symbol, text,
};

pub const LOGIN_REFUSED: u8 = 1;

/// Failures of one user after which the next login must wait.
const FAILURES_MAX: u64 = 10;

/// Sends a PLAIN login.
pub fn send_login(raw: &mut Raw, user: &str, password: &str) {
    let response = format!("\0{user}\0{password}");
    let init = performative(0x41, &[symbol("PLAIN"), binary(response.as_bytes())]);
    raw.send(&[SASL_HEADER, &frame(1, 0, &init), AMQP_HEADER].concat());
}

/// Waits for the outcome: whether it let us in.
pub fn outcome(raw: &mut Raw) -> bool {
    let outcome = raw.wait_for(0x44);
    !outcome
        .body
        .windows(2)
        .any(|part| part == [0x50, LOGIN_REFUSED])
}

fn login(port: u16, user: &str, password: &str) -> (bool, Duration) {
    let start = Instant::now();
    let mut raw = Raw::connect(port);
    send_login(&mut raw, user, password);
    (outcome(&mut raw), start.elapsed())
}

#[test]
fn a_refusal_takes_half_a_second_whoever_is_named() {
    let broker = RunningBroker::start(&["--user", "ada:lovelace"]);
    for round in 0..3 {
        for (user, password) in [
            ("ada", "wrong"),
            ("ghost", "wrong"),
            ("ghost", ""),
            ("ada", ""),
        ] {
            let (accepted, took) = login(broker.port, user, password);
            assert!(!accepted, "{user}");
            // How long the password takes is hidden behind it, and counted in `counts`.
            let half_a_second = Duration::from_millis(499);
            assert!(
                took >= half_a_second,
                "{round} {user} {password:?}: {took:?}"
            );
        }
    }
    assert!(login(broker.port, "ada", "lovelace").0);
}

#[test]
fn after_many_failures_a_user_must_wait_there_and_others_need_not() {
    let broker = RunningBroker::start(&["--user", "ada:lovelace", "--user", "bob:builder"]);
    let mut guesses: Vec<_> = (0..30).map(|_| Raw::connect(broker.port)).collect();
    for (number, guess) in guesses.iter_mut().enumerate() {
        send_login(guess, "ada", &number.to_string());
    }
    let end = Instant::now() + ANSWER_MAX;
    while logins(&broker, "PLAIN")[1] < FAILURES_MAX {
        assert!(Instant::now() < end, "so many are never refused");
        std::thread::sleep(Duration::from_millis(5));
    }
    // At once, before the refusals are answered: with time, failures are forgotten.
    assert!(
        !login(broker.port, "ada", "lovelace").0,
        "the right one among so many wrong ones"
    );
    assert!(!guesses.iter_mut().any(outcome));
    assert!(login(broker.port, "bob", "builder").0, "somebody else");
    let end = Instant::now() + ANSWER_MAX;
    while !login(broker.port, "ada", "lovelace").0 {
        assert!(Instant::now() < end, "never let in again");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_thousand_clients_are_back_within_five_seconds() {
    let broker = RunningBroker::start(&["--user", "ada:lovelace"]);
    let start = Instant::now();
    let mut clients: Vec<_> = (0..1_000).map(|_| Raw::connect(broker.port)).collect();
    for client in &mut clients {
        send_login(client, "ada", "lovelace");
        client.perform(OPEN, &[text("client"), text("localhost")]);
    }
    for client in &mut clients {
        assert!(outcome(client));
        client.wait_for(OPEN);
    }
    check_reconnection(&broker, start.elapsed());
}

/// What a thousand clients may take that come at once: five seconds and 64 MB at most. Unoptimised code
/// is slow, and itself takes 20 MB more.
#[allow(clippy::print_stdout, reason = "a figure for those who measure")]
pub fn check_reconnection(broker: &RunningBroker, took: Duration) {
    let (seconds, mib) = if cfg!(debug_assertions) {
        (60, 96)
    } else {
        (5, 64)
    };
    let memory = std::fs::read_to_string(format!("/proc/{}/status", broker.process_id())).unwrap();
    let peak = memory
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("a thousand clients: {took:?}, at most {peak_kib} KiB");
    assert!(took < Duration::from_secs(seconds), "{took:?}");
    assert!(peak_kib < mib * 1024, "{peak_kib} KiB");
}
