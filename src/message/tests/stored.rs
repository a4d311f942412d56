use std::sync::Arc;

use bytes::Bytes;

use super::{bytes, hex, message, modified_by, prefix, rejected, route};
use crate::base::{Name, Timestamp};
use crate::deaths::{Evidence, How, LastFailure};
use crate::message::{Message, StoredMessageError};

fn dead_letter() -> Message {
    let published = message(
        "005370c0020141 005372c10502a3017840 005373c0050240a1017a 005374c10502a1017840 \
         005375a0026d31 005378c10502a3017840",
    );
    modified_by(&published, &bytes("c10602a301795201"))
        .unwrap()
        .died(rejected(), 2)
}

/// The same, failed once more where it came to.
fn failed() -> Message {
    let mut failed = dead_letter();
    let by = Evidence::of_consumer(&Name::from("c"), "l", Some(&Name::from("u")), None);
    failed.fail(Arc::new(LastFailure {
        at: Timestamp(9),
        evidence: Arc::new(by.with_annotations(How::ConnectionLost, None)),
    }));
    failed
}

fn stored(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

#[test]
fn stored_message_is_delivered_as_before() {
    for original in [
        dead_letter(),
        failed(),
        message("005377 40"),
        message("005370c0060340 5001 5201 005377 40"),
    ] {
        let read = Message::decode(&stored(&original).into()).unwrap();
        let route = route("x", &["k"]);
        assert_eq!(prefix(&read, &route, 1, 1), prefix(&original, &route, 1, 1));
        assert_eq!(read.bare(), original.bare());
        assert_eq!(hex(read.body()), hex(original.body()));
        assert_eq!(
            read.application_property("x"),
            original.application_property("x")
        );
        assert_eq!(stored(&read), stored(&original));
        assert_eq!(read.last_failure(), original.last_failure());
    }
}

#[test]
fn envelope_and_bare_message_can_be_stored_apart() {
    let original = dead_letter();
    let mut envelope = Vec::new();
    original.encode_envelope(&mut envelope);
    let read = Message::decode_envelope(&envelope, original.bare_bytes()).unwrap();
    assert_eq!(stored(&read), stored(&original));
    let short = original.bare_bytes().slice(..3);
    assert_eq!(
        Message::decode_envelope(&envelope, short).unwrap_err(),
        StoredMessageError::Field("ends of sections")
    );
    envelope.push(0x40);
    assert!(Message::decode_envelope(&envelope, original.bare_bytes()).is_err());
}

#[test]
fn cut_or_foreign_stored_form_is_damage() {
    let original = failed();
    let whole = stored(&original);
    let body_end = whole.len() - "005378c10502a3017840".len() / 2;
    for end in 0..body_end {
        assert!(
            Message::decode(&Bytes::copy_from_slice(&whole[..end])).is_err(),
            "cut at {end}"
        );
    }
    let mut foreign = whole;
    foreign[0] = 2;
    assert_eq!(
        Message::decode(&foreign.into()).unwrap_err(),
        StoredMessageError::Format(2)
    );
}
