//! Claims about looking for bytes.

use bytes::Bytes;
use proptest::prelude::*;

use super::{data, filter, message, texts, verdict};
use crate::base::limits::FILTER_BODY_BYTES_MAX;
use crate::message::{KeyRule, Message};
use crate::search::Verdict;
use crate::search::contains::Needle;
use crate::wire::{Value, encode_value};

proptest! {
    #[test]
    fn a_needle_is_found_where_a_plain_search_finds_it(
        hay in "[ab]{0,40}",
        needle in "[ab]{1,6}",
    ) {
        prop_assert_eq!(Needle::new(&needle).is_in(hay.as_bytes()), hay.contains(&needle));
    }
}

#[test]
fn a_text_is_found_in_every_kind_of_body() {
    let contains = |text: &str, sections: &[(u64, Value)]| {
        let filter = filter(&[("body_contains", Value::string(text))]);
        verdict(&filter, &message(sections)) == Verdict::Matches
    };
    assert!(contains("4711", &[data(b"order 4711")]));
    assert!(!contains("4712", &[data(b"order 4711")]));
    assert!(contains("order 4711", &[data(b"ord"), data(b"er 4711")]));
    assert!(contains("4711", &[(0x77, Value::string("order 4711"))]));
    let sequence = (0x76, texts(&["order", "4711"]));
    assert!(contains("4711", &[sequence.clone(), sequence]));
    assert!(!contains("4711", &[]));
}

#[test]
fn a_text_is_found_in_the_first_mebibyte_of_a_body_in_parts() {
    let contains = |before: usize| {
        let mut body = vec![b'x'; before];
        body.extend_from_slice(b"4711");
        body.extend_from_slice(&vec![b'x'; 2 * FILTER_BODY_BYTES_MAX]);
        let mut payload = Vec::new();
        let section = Value::Described(Box::new((Value::Ulong(0x75), Value::Binary(body.into()))));
        encode_value(&section, &mut payload);
        let parts: Vec<Bytes> = payload
            .chunks(100_000)
            .map(Bytes::copy_from_slice)
            .collect();
        let message = Message::from_parts(&parts, KeyRule::Specification)
            .unwrap()
            .unwrap();
        let filter = filter(&[("body_contains", Value::string("4711"))]);
        verdict(&filter, &message) == Verdict::Matches
    };
    assert!(contains(0));
    assert!(contains(99_990));
    assert!(contains(FILTER_BODY_BYTES_MAX - 100));
    assert!(!contains(FILTER_BODY_BYTES_MAX));
}
