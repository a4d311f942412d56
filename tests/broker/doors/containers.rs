//! Container-ids that are of one connection only: the client ids of JMS.

use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use super::counts::http;
use crate::support::RunningBroker;
use crate::support::raw::{ANSWER_MAX, CLOSE, Came, OPEN, Raw, null, symbol, text, uint};

const SOLE: &str = "sole-connection-for-container";
const FAILED: &str = "amqp:connection-establishment-failed";

/// A connection that sent `open` with a container-id and perhaps the wish to be its only one, and the
/// answer.
fn opened(port: u16, container: &str, is_sole: bool, host: &str) -> (Raw, Came) {
    let mut raw = Raw::authenticated(port);
    let desired = if is_sole { symbol(SOLE) } else { null() };
    let fields = [text(container), text(host), uint(65_536), null(), null()];
    let further = [null(), null(), null(), desired];
    raw.perform(OPEN, &[&fields[..], &further[..]].concat());
    let answer = raw.wait_for(OPEN);
    (raw, answer)
}

/// Whether a connection is refused because of its container-id.
fn is_refused(port: u16, container: &str, is_sole: bool) -> bool {
    let (mut raw, answer) = opened(port, container, is_sole, "localhost");
    if !answer.says(FAILED) {
        return false;
    }
    let close = raw.wait_for(CLOSE);
    assert!(close.says("amqp:invalid-field"), "{close:?}");
    // Both symbols, with a length of one byte.
    assert!(close.says("\u{d}invalid-field"), "{close:?}");
    assert!(close.body.ends_with(b"\xa3\x0ccontainer-id"), "{close:?}");
    assert!(close.says(&format!("'{container}'")), "{close:?}");
    true
}

// [AMQP 2.7.1] "desired-capabilities", of the connection capability that JMS clients ask for.
#[test]
fn a_container_id_is_of_one_connection_if_either_asks_for_that() {
    let broker = RunningBroker::start(&[]);
    let port = broker.port;
    let (mut first, answer) = opened(port, "ada", true, "localhost");
    assert!(answer.says(SOLE), "it is offered: {answer:?}");
    assert!(!answer.says(FAILED), "{answer:?}");
    assert!(is_refused(port, "ada", true), "both ask");
    assert!(is_refused(port, "ada", false), "the first asks");
    assert!(!is_refused(port, "Ada", true), "another id");

    // One that is refused holds nothing, and the first goes on.
    first.begin(0);
    first.wait_for(0x11);
    first.perform(CLOSE, &[]);
    first.wait_for(CLOSE);
    assert!(!is_refused(port, "ada", true), "closed: it is free at once");

    let (_second, answer) = opened(port, "bob", false, "localhost");
    assert!(!answer.says(SOLE), "it is not offered unasked: {answer:?}");
    let (_third, answer) = opened(port, "bob", false, "localhost");
    assert!(!answer.says(FAILED), "nobody asks: {answer:?}");
    assert!(is_refused(port, "bob", true), "the second asks");
}

#[test]
fn a_container_id_is_free_again_when_its_connection_is_lost() {
    let broker = RunningBroker::start(&[]);
    let (first, _) = opened(broker.port, "ada", true, "localhost");
    assert!(is_refused(broker.port, "ada", true));
    first.stream.shutdown(Shutdown::Both).unwrap();
    let deadline = Instant::now() + ANSWER_MAX;
    while is_refused(broker.port, "ada", true) {
        assert!(Instant::now() < deadline, "it is never free");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_container_id_is_of_its_vhost() {
    let broker = RunningBroker::start(&[]);
    let request = "PUT /api/vhosts/other";
    let (status, made) = http(broker.http_port, request, "guest:guest", "{}");
    assert_eq!(status, 201, "{made}");
    let (_first, _) = opened(broker.port, "ada", true, "localhost");
    let (_other, answer) = opened(broker.port, "ada", true, "vhost:other");
    assert!(!answer.says(FAILED), "{answer:?}");
    assert!(is_refused(broker.port, "ada", true));
}

#[test]
fn a_strict_broker_leaves_container_ids_to_the_clients() {
    let broker = RunningBroker::start(&["--strict"]);
    let (_first, answer) = opened(broker.port, "ada", true, "localhost");
    assert!(!answer.says(SOLE), "{answer:?}");
    assert!(!is_refused(broker.port, "ada", true));
}
