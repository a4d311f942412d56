use rstest::rstest;

use super::{bytes, message, modified_by, rejected};
use bytes::Bytes;

use crate::base::limits::{MERGED_ANNOTATIONS_BYTES_MAX, MODIFIED_ANNOTATIONS_BYTES_MAX};
use crate::base::{Gauge, Name, Timestamp};
use crate::message::{DeliveryTime, KeyRule, Merging, Message, MessageError};
use crate::wire::{Value, begin_map, encode_value, end};

/// An encoded map of these pairs.
fn map(pairs: &[(Value, Value)]) -> Vec<u8> {
    let mut out = Vec::new();
    let compound = begin_map(&mut out);
    for (key, value) in pairs {
        encode_value(key, &mut out);
        encode_value(value, &mut out);
    }
    end(&mut out, compound, 2 * pairs.len());
    out
}

/// A message with these message annotations and an empty data body.
fn annotated(pairs: &[(Value, Value)], keys: KeyRule) -> Result<Message, MessageError> {
    let payload = [&[0, 0x53, 0x72], &map(pairs)[..], &[0, 0x53, 0x75, 0xa0, 0]].concat();
    Message::from_transfer(payload.into(), keys)
}

fn symbol(name: &str, value: impl Into<String>) -> (Value, Value) {
    (Value::symbol(name), Value::string(value))
}

/// The client's annotations as they would be delivered.
fn client(message: &Message) -> Vec<(Value, Value)> {
    let decode = |encoded: &[u8]| crate::wire::decode_value(encoded).unwrap().0;
    let pairs = message.client_annotations().map(Result::unwrap);
    pairs
        .map(|pair| (decode(pair.key), decode(pair.value)))
        .collect()
}

/// [dead-lettering part 3] "what a publisher or a consumer sends under these names never enters".
#[test]
fn names_of_the_broker_are_removed_at_publish() {
    let names = [
        "x-opt-deaths",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-first-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        "x-last-death-exchange",
        "x-opt-deaths-folded",
        "x-opt-last-death-condition",
        "x-opt-last-death-description",
        "x-opt-last-death-by",
        "x-opt-redrives",
        "x-opt-quarantine-cause",
        "x-opt-quarantine-path",
        "x-exchange",
        "x-routing-key",
        "x-delivery-count",
        "x-acquired-count",
        "x-opt-suspect",
    ];
    let mut pairs = names.map(|name| symbol(name, "spoof")).to_vec();
    pairs.push((Value::symbol("x-opt-deaths"), Value::List(vec![])));
    let kept = [
        symbol("x-opt-note", "n"),
        (Value::Ulong(7), Value::Null),
        symbol("plain", "p"),
    ];
    pairs.splice(3..3, kept.clone());
    let message = annotated(&pairs, KeyRule::Specification).unwrap();
    assert_eq!(client(&message), kept);
    let spoofed = names.map(|name| symbol(name, "spoof"));
    let modified = modified_by(&message, &map(&spoofed)).unwrap();
    assert_eq!(client(&modified), kept, "nor with `modified`");
    let dead = message.died(rejected(), 0);
    let sees = |name: &str| {
        let mut seen = None;
        dead.visit_annotations(|is| is == name, |_, value| seen = Some(value));
        seen
    };
    assert_eq!(sees("x-first-death-queue"), Some(Value::string("src")));
    assert_eq!(sees("x-exchange"), None);
    assert_eq!(sees("x-routing-key"), None);
    assert_eq!(sees("x-opt-note"), Some(Value::string("n")));
    assert_eq!(sees("x-delivery-count"), None);
}

/// [dead-lettering part 9 row 8]
#[rstest]
#[case(symbol("plain", "v"), "symbol 'plain'")]
#[case((Value::Ulong(1), Value::Null), "ulong 1")]
fn strict_mode_refuses_keys_that_rabbitmq_refuses(#[case] pair: (Value, Value), #[case] key: &str) {
    let allowed = symbol("x-opt-a", "v");
    let pairs = [allowed.clone(), pair];
    let refused = MessageError::AnnotationKey {
        key: key.to_owned(),
    };
    assert_eq!(
        client(&annotated(&pairs, KeyRule::Specification).unwrap()),
        pairs
    );
    assert_eq!(annotated(&pairs, KeyRule::Strict).unwrap_err(), refused);
    assert_eq!(KeyRule::Strict.check_modified(&map(&pairs)), Err(refused));
    assert_eq!(KeyRule::Specification.check_modified(&map(&pairs)), Ok(()));
    assert_eq!(KeyRule::Strict.check_modified(&map(&[allowed])), Ok(()));
}

#[test]
fn string_keys_are_refused_by_name() {
    let string_key = [(Value::string("x-a"), Value::Null)];
    let error = annotated(&string_key, KeyRule::Specification).unwrap_err();
    assert_eq!(
        error.to_string(),
        "annotation key at byte 6 is a string, not a symbol"
    );
    assert!(
        KeyRule::Specification
            .check_modified(&map(&string_key))
            .is_err()
    );
    assert!(KeyRule::Specification.check_modified(&bytes("45")).is_err());
}

/// [dead-lettering part 9 row 7] "kept with their types on every queue type".
#[test]
fn modified_annotations_replace_add_and_keep_their_types() {
    let published = [
        symbol("x-opt-a", "old"),
        symbol("x-opt-b", "kept"),
        (Value::Ulong(1), Value::Null),
    ];
    let message = annotated(&published, KeyRule::Specification).unwrap();
    let uuid = Value::Uuid([7; 16]);
    let modified = map(&[
        symbol("x-opt-a", "first"),
        symbol("x-exchange", "forged"),
        symbol("x-opt-deaths", "forged"),
        symbol("x-opt-deaths-folded", "forged"),
        (Value::Ulong(1), Value::Double(1)),
        (Value::symbol("x-opt-new"), uuid.clone()),
        symbol("x-opt-a", "last"),
    ]);
    let message = modified_by(&message, &modified).unwrap();
    let mut found = client(&message);
    found.sort();
    let mut expect = vec![
        symbol("x-opt-b", "kept"),
        symbol("x-opt-a", "last"),
        (Value::symbol("x-opt-new"), uuid),
        (Value::Ulong(1), Value::Double(1)),
    ];
    expect.sort();
    assert_eq!(found, expect);
    let again = modified_by(&message, &map(&[symbol("x-opt-b", "changed")]));
    let again = again.unwrap();
    assert_eq!(client(&again).len(), 4);
    assert!(modified_by(&again, &[0xff]).is_none(), "garbage");
}

#[test]
fn annotations_do_not_grow_without_end() {
    let half = "x".repeat(MERGED_ANNOTATIONS_BYTES_MAX / 2);
    let message = annotated(&[], KeyRule::Specification).unwrap();
    let add = |message: &Message, name: &str, value: &str| {
        modified_by(message, &map(&[symbol(name, value)]))
    };
    let message = add(&message, "a", &half).unwrap();
    assert!(add(&message, "b", &half).is_none());
    let more = add(&message, "b", "short").unwrap();
    assert_eq!(client(&more).len(), 2);
}

/// One frame of 120 kB about 12,000 messages took 1.5 GB of memory and of the journal.
#[test]
fn messages_share_what_one_outcome_says_of_them_and_it_is_counted_once() {
    let gauge = Gauge::default();
    let mut merging = Merging::default();
    let modified = Bytes::from(map(&[symbol("x-opt-long", "x".repeat(10_000))]));
    let plain = annotated(&[], KeyRule::Specification).unwrap();
    let other = annotated(&[symbol("x-opt-a", "1")], KeyRule::Specification).unwrap();
    let messages: Vec<Message> = [&plain, &plain, &plain, &other, &other, &plain]
        .into_iter()
        .map(|message| message.with_annotations(&modified, &mut merging).unwrap())
        .collect();
    for message in &messages {
        message.charge(&gauge);
        let long = client(message)
            .into_iter()
            .find(|(key, _)| *key == Value::symbol("x-opt-long"));
        assert!(long.is_some());
    }
    drop(merging);
    let runs = 3 * (modified.len() as u64);
    let counted = gauge.bytes();
    assert!(
        (runs..runs + 500).contains(&counted),
        "{counted} bytes for three runs of {runs}"
    );
    drop(messages);
    assert_eq!(gauge.bytes(), 0);
}

#[test]
fn one_outcome_gives_no_more_than_its_bound_to_all_messages() {
    let mut merging = Merging::default();
    let long = "x".repeat(100_000);
    let modified = Bytes::from(map(&[symbol("x-opt-long", &long)]));
    let message = annotated(&[], KeyRule::Specification).unwrap();
    let mut given = || message.with_annotations(&modified, &mut merging).is_some();
    let count = (0..12_000).filter(|_| given()).count() as u64;
    let bound = MODIFIED_ANNOTATIONS_BYTES_MAX / 100_000;
    assert!((bound - 1..=bound + 1).contains(&count), "{count} messages");
    let other = Bytes::from(map(&[symbol("x-opt-long", &long)]));
    assert!(
        message.with_annotations(&other, &mut merging).is_some(),
        "another outcome"
    );
}

/// The same key in its one-byte and its four-byte form is one key.
#[test]
fn keys_are_compared_by_meaning() {
    let message = message("005372c10902 b300000001 61 5201 005375a000");
    let message = modified_by(&message, &bytes("c10602 a30161 5202"));
    let message = message.unwrap();
    assert_eq!(client(&message), [(Value::symbol("a"), Value::Uint(2))]);
}

/// [dead-lettering part 9 row 5] "a list of strings, anything else is refused".
#[rstest]
#[case(Value::List(vec![Value::string("b"), Value::string("c")]), Ok(vec!["b", "c"]))]
#[case(Value::List(vec![]), Ok(vec![]))]
#[case(
    Value::string("b"),
    Err("annotation x-cc must be a list of strings, found string 'b'")
)]
#[case(
    Value::Null,
    Err("annotation x-cc must be a list of strings, found null")
)]
#[case(
    Value::List(vec![Value::string("b"), Value::Uint(1)]),
    Err("annotation x-cc must be a list of strings, found a list with other elements")
)]
fn cc_is_a_list_of_strings(#[case] value: Value, #[case] expect: Result<Vec<&str>, &str>) {
    let message = annotated(&[(Value::symbol("x-cc"), value)], KeyRule::Strict).unwrap();
    let keys = message.directions().cc().map_err(|error| error.to_string());
    let expect = expect.map(|keys| keys.into_iter().map(Name::from).collect::<Vec<_>>());
    assert_eq!(keys, expect.map_err(str::to_owned));
}

/// A message with an `x-cc` of 5 million keys took the core 6 seconds, in which nobody else was served:
/// now nothing beyond these bounds is looked at.
#[rstest]
#[case(vec!["k".to_owned(); 257], "annotation x-cc has 257 keys, at most 256 are allowed")]
#[case(vec!["k".repeat(1000); 66], "annotation x-cc has 66339 bytes, at most 65536 are allowed")]
#[case(
    vec!["k".repeat(1025)],
    "a key of annotation x-cc has 1025 bytes, at most 1024 are allowed"
)]
#[case(
    vec![".".repeat(257)],
    "a key of annotation x-cc has 257 dots, at most 256 are allowed"
)]
fn cc_is_bounded_in_keys_bytes_and_words(#[case] keys: Vec<String>, #[case] expect: &str) {
    let value = Value::List(keys.into_iter().map(Value::String).collect());
    let message = annotated(&[(Value::symbol("x-cc"), value)], KeyRule::Strict).unwrap();
    assert_eq!(message.directions().cc().unwrap_err().to_string(), expect);
    let fits = Value::List(vec![Value::String("k".repeat(200)); 256]);
    let message = annotated(&[(Value::symbol("x-cc"), fits)], KeyRule::Strict).unwrap();
    assert_eq!(message.directions().cc().map(|keys| keys.len()), Ok(256));
}

#[rstest]
#[case(&[], Ok(None))]
#[case(&[("x-opt-delivery-delay", Value::Ushort(7))], Ok(Some(DeliveryTime::After(7))))]
#[case(&[("x-opt-delivery-delay", Value::Long(-7))], Ok(Some(DeliveryTime::After(0))))]
#[case(
    &[("x-opt-delivery-delay", Value::Ulong(7)), ("x-opt-delivery-time", Value::Long(-1))],
    Ok(Some(DeliveryTime::At(Timestamp(-1))))
)]
#[case(
    &[("x-opt-delivery-time", Value::Ulong(u64::MAX))],
    Ok(Some(DeliveryTime::At(Timestamp(i64::MAX))))
)]
#[case(
    &[("x-opt-delivery-time", Value::Float(0))],
    Err("annotation x-opt-delivery-time must be a timestamp or an integer of milliseconds since \
         1970, found float 0")
)]
#[case(
    &[("x-opt-delivery-time", Value::Long(5)), ("x-opt-delivery-delay", Value::string("5"))],
    Err("annotation x-opt-delivery-delay must be an integer of milliseconds, found string '5'")
)]
fn the_time_of_a_delivery_is_an_instant_or_a_delay(
    #[case] annotations: &[(&str, Value)],
    #[case] expect: Result<Option<DeliveryTime>, &str>,
) {
    let pairs = annotations
        .iter()
        .map(|(name, value)| (Value::symbol(*name), value.clone()));
    let message = annotated(&pairs.collect::<Vec<_>>(), KeyRule::Strict).unwrap();
    let time = message.directions().delivery_time();
    let time = time.map_err(|error| error.to_string());
    assert_eq!(time, expect.map_err(str::to_owned));
}

#[test]
fn message_without_annotations_has_no_cc() {
    assert_eq!(message("005375a000").directions().cc(), Ok(vec![]));
}
