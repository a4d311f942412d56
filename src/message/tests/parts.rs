//! Messages that stay in the pieces that they came in.

use bytes::Bytes;
use rstest::rstest;

use super::{bytes, hex, message, prefix, route};
use crate::message::{KeyRule, Message};
use crate::wire::PropertyField;

/// Header, annotation x-opt-a, properties with a message-id, an application property.
const HEAD: &str = "005370c0020141 005372c10d02a307782d6f70742d61a10161 \
    005373c00401a10169 005374c10702a1016ba10176";
const DATA: &str = "005375a003616263";
const FOOTER: &str = "005378c10402530140";

/// Cut into pieces of so many bytes.
fn pieces(payload: &str, piece: usize) -> Vec<Bytes> {
    let payload = bytes(payload);
    let starts = (0..payload.len()).step_by(piece);
    starts
        .map(|start| payload.slice(start..payload.len().min(start + piece)))
        .collect()
}

fn in_parts(payload: &str, piece: usize) -> Option<Message> {
    Message::from_parts(&pieces(payload, piece), KeyRule::Specification).unwrap()
}

#[rstest]
#[case::data(&[HEAD, DATA])]
#[case::two_sections_and_a_footer(&[HEAD, DATA, DATA, FOOTER])]
#[case::nothing_in_front(&[DATA, DATA])]
fn a_message_in_pieces_is_the_one_that_was_joined(#[case] sections: &[&str]) {
    let payload = sections.concat();
    let whole = message(&payload);
    let came_by = route("x", &["k"]);
    for piece in 1..=bytes(&payload).len() {
        let parted = in_parts(&payload, piece).unwrap();
        assert_eq!(hex(&parted.whole()), hex(whole.bare()));
        assert_eq!(hex(&parted.bare_bytes()), hex(whole.bare()));
        assert!(whole.bare().starts_with(parted.bare()));
        assert_eq!(parted.bare_len(), whole.bare_len());
        assert_eq!((parted.apart_bytes(), parted.is_hollow()), (0, false));
        assert_eq!(
            prefix(&parted, &came_by, 1, 2),
            prefix(&whole, &came_by, 1, 2)
        );
        let property = PropertyField::MessageId;
        assert_eq!(parted.property(property), whole.property(property));
        let key = "k";
        assert_eq!(
            parted.application_property(key),
            whole.application_property(key)
        );
        let mut stored = (Vec::new(), Vec::new());
        parted.encode(&mut stored.0);
        whole.encode(&mut stored.1);
        assert_eq!(hex(&stored.0), hex(&stored.1));
    }
    assert!(whole.rest().is_empty(), "in one piece nothing follows");
}

#[rstest]
#[case::text("005377a103616263")]
#[case::cut_off("005375a00361")]
#[case::no_body(HEAD)]
fn what_is_not_made_of_bytes_is_to_be_joined(#[case] payload: &str) {
    assert!(in_parts(payload, 3).is_none());
}

#[test]
fn a_long_beginning_is_to_be_joined() {
    let text = "61".repeat(70_000);
    let properties = format!("005374d1{:08x}00000002a10161b1{:08x}{text}", 70_012, 70_000);
    let payload = properties + DATA;
    message(&payload);
    assert!(in_parts(&payload, 10_000).is_none());
}
