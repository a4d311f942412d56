//! SASL mechanisms as an independent client speaks them, and what is offered.

use coroner::config::SaslMechanism;
use coroner::{Broker, Settings};
use fe2o3_amqp::Connection;
use fe2o3_amqp::sasl_profile::{SaslProfile, SaslScramSha256, SaslScramSha512};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{settings, start};
use crate::support::raw::{
    AMQP_HEADER, ANSWER_MAX, BEGIN, OPEN, SASL_HEADER, binary, frame, null, performative, text,
    uint,
};

async fn may_enter(broker: &Broker, profile: SaslProfile) -> bool {
    let builder = Connection::builder().container_id("doors");
    let opened = builder
        .sasl_profile(profile)
        .open_with_stream(broker.connect());
    opened.await.is_ok()
}

fn sha256(user: &str, password: &str) -> SaslProfile {
    SaslProfile::ScramSha256(SaslScramSha256::new(user, password))
}

fn sha512(user: &str, password: &str) -> SaslProfile {
    SaslProfile::ScramSha512(SaslScramSha512::new(user, password))
}

#[tokio::test(flavor = "multi_thread")]
async fn scram_lets_in_who_knows_the_password() {
    let broker = start(settings()).await;
    for scram in [sha256, sha512] {
        assert!(may_enter(&broker, scram("ada", "lovelace")).await);
        assert!(!may_enter(&broker, scram("ada", "wrong")).await);
        assert!(!may_enter(&broker, scram("ghost", "lovelace")).await);
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_switched_off_is_not_offered() {
    let broker = start(Settings {
        sasl_mechanism: vec![SaslMechanism::ScramSha512],
        ..settings()
    })
    .await;
    assert!(may_enter(&broker, sha512("ada", "lovelace")).await);
    assert!(!may_enter(&broker, sha256("ada", "lovelace")).await);
    assert!(!may_enter(&broker, SaslProfile::Anonymous).await);
    let plain = SaslProfile::Plain {
        username: "ada".into(),
        password: "lovelace".into(),
    };
    assert!(!may_enter(&broker, plain).await);
    broker.stop().await;
}

/// Writes bytes and reads until the broker closes or has said one of these.
async fn answer(broker: &Broker, bytes: &[u8], last: &[&[u8]]) -> (Vec<u8>, bool) {
    let mut stream = broker.connect();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    while !last.iter().any(|last| says(&answer, last)) {
        let read = tokio::time::timeout(ANSWER_MAX, stream.read_buf(&mut answer)).await;
        if read.unwrap().unwrap() == 0 {
            return (answer, true);
        }
    }
    (answer, false)
}

fn says(answer: &[u8], part: &[u8]) -> bool {
    answer.windows(part.len()).any(|window| window == part)
}

// [AMQP 5.3.2] the client chooses a mechanism before anything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_to_nothing_is_no_login() {
    let broker = start(settings()).await;
    let response = performative(0x43, &[binary(b"\0ada\0lovelace")]);
    let bytes = [SASL_HEADER, &frame(1, 0, &response)].concat();
    let (answer, closed) = answer(&broker, &bytes, &[]).await;
    assert!(closed);
    let outcome = performative(0x44, &[vec![0x50, 1]]);
    let code = |bytes: &[u8]| bytes.windows(2).any(|part| part == [0x50, 1]);
    assert!(
        code(&outcome) && code(&answer),
        "refused with code 1: {answer:x?}"
    );
    broker.stop().await;
}

// [AMQP 2.2] a peer may begin with the AMQP header; it is served as configured.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_sasl_is_served_as_anonymous_only_if_configured() {
    let open = performative(OPEN, &[text("plain")]);
    let begin = performative(BEGIN, &[null(), uint(0), uint(9), uint(9)]);
    let bytes = [AMQP_HEADER, &frame(0, 0, &open), &frame(0, 0, &begin)].concat();
    let begun = [0x00, 0x53, BEGIN];
    let refused = b"amqp:unauthorized-access";
    for (require_sasl, anonymous_user, served) in [
        (true, "ada", false),
        (false, "ada", true),
        (false, "", false),
    ] {
        let broker = start(Settings {
            require_sasl,
            anonymous_user: anonymous_user.to_owned(),
            ..settings()
        })
        .await;
        let (answer, _) = answer(&broker, &bytes, &[&begun, refused]).await;
        let expect = if require_sasl {
            SASL_HEADER
        } else {
            AMQP_HEADER
        };
        assert!(answer.starts_with(expect), "{answer:x?}");
        let is_served = says(&answer, &begun);
        assert_eq!(is_served, served, "{require_sasl} {anonymous_user}");
        broker.stop().await;
    }
}
