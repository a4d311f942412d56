use std::sync::Arc;

use proptest::prelude::*;
use rstest::rstest;

use super::{death, entries, history};
use crate::base::Name;
use crate::deaths::{
    ANNOTATIONS, AnnotationError, Death, DeathsView, Encoding, Evidence, EvidenceLevel, History,
    HistoryError, How, Reason, Viewer, decode_deaths, fuzz_deaths,
};
use crate::wire::{Pairs, Value, decode_value};

fn written(history: &History, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    let view = DeathsView {
        encoding,
        ..DeathsView::default()
    };
    history.write_annotations(view, &mut out);
    out
}

/// The encoded value of one annotation.
fn annotation<'a>(written: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut pairs = Pairs::bare(written, u32::MAX).map_while(Result::ok);
    pairs
        .find(|pair| pair.symbol_key() == Some(name))
        .map(|pair| pair.value)
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap();
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

fn retried() -> History {
    history(&[
        death("work", Reason::Rejected, 0x1a1_fd89_3f89),
        death("retry", Reason::Expired, 0x1a1_fd89_3fdb),
    ])
}

/// Byte for byte what `RabbitMQ` 4.0.5 wrote: the raw bytes of `vectors/retry-loop-classic.json`,
/// first message, behind `x-routing-key`.
#[test]
fn array_of_maps_is_written_as_rabbitmq_writes_it() {
    let recorded = "a30c782d6f70742d646561746873f00000010400000002d10000007c0000000ea305717565\
        7565a1057265747279a306726561736f6ea30765787069726564a305636f756e745301a30a66697273742d7469\
        6d6583000001a1fd893fdba3096c6173742d74696d6583000001a1fd893fdba30865786368616e6765a100a30c\
        726f7574696e672d6b657973e00b01b10000000572657472790000007b0000000ea3057175657565a104776f72\
        6ba306726561736f6ea30872656a6563746564a305636f756e745301a30a66697273742d74696d6583000001a1\
        fd893f89a3096c6173742d74696d6583000001a1fd893f89a30865786368616e6765a100a30c726f7574696e67\
        2d6b657973e00a01b100000004776f726ba316782d66697273742d64656174682d65786368616e6765a100a313\
        782d66697273742d64656174682d7175657565a104776f726ba314782d66697273742d64656174682d72656173\
        6f6ea10872656a6563746564a315782d6c6173742d64656174682d65786368616e6765a100a312782d6c617374\
        2d64656174682d7175657565a1057265747279a313782d6c6173742d64656174682d726561736f6ea107657870\
        69726564";
    assert_eq!(hex(&written(&retried(), Encoding::Array)), recorded);
}

/// In the order of all recorded entries that have a ttl, as in `vectors/ttl-and-rejected-classic.json`:
/// `RabbitMQ` ends the connection of a reader of AMQP 0-9-1 when an entry has another one.
#[test]
fn ttl_comes_first_in_an_entry() {
    let died = Death {
        ttl: Some(60_000),
        ..death("src", Reason::Rejected, 0x1a1_fddb_8880)
    };
    let recorded = "e08901d10000008300000010a30374746c700000ea60a3057175657565a103737263a306726561\
        736f6ea30872656a6563746564a305636f756e745301a30a66697273742d74696d6583000001a1fddb8880a309\
        6c6173742d74696d6583000001a1fddb8880a30865786368616e6765a100a30c726f7574696e672d6b657973e0\
        0901b100000003737263";
    let written = written(&history(&[died]), Encoding::Array);
    assert_eq!(
        annotation(&written, "x-opt-deaths").map(hex).as_deref(),
        Some(recorded)
    );
}

#[rstest]
#[case(Encoding::Array, "array of 2 map")]
#[case(Encoding::List, "list of 2")]
fn both_forms_hold_the_same_entries(#[case] encoding: Encoding, #[case] shown: &str) {
    let history = retried();
    let written = written(&history, encoding);
    let value = annotation(&written, "x-opt-deaths").unwrap();
    assert_eq!(decode_value(value).unwrap().0.to_string(), shown);
    assert_eq!(decode_deaths(value), Ok(entries(&history)));
}

#[test]
fn without_encoding_only_the_entries_are_left_out() {
    let history = retried();
    for encoding in [Encoding::Array, Encoding::List, Encoding::None] {
        let written = written(&history, encoding);
        let names = Pairs::bare(&written, u32::MAX).map_while(Result::ok);
        let names = names
            .filter_map(|pair| pair.symbol_key())
            .collect::<Vec<_>>();
        let skipped = usize::from(encoding == Encoding::None);
        // The eighth is there when something is folded.
        assert_eq!(names, ANNOTATIONS[skipped..7]);
        let view = DeathsView {
            encoding,
            ..DeathsView::default()
        };
        assert_eq!(
            history.write_annotations(view, &mut Vec::new()),
            names.len()
        );
    }
}

#[test]
fn single_annotations_can_be_asked_for() {
    let history = retried();
    let written = written(&history, Encoding::Array);
    for name in ANNOTATIONS {
        let value = annotation(&written, name).map(|value| decode_value(value).unwrap().0);
        assert_eq!(history.annotation(name), value, "{name}");
    }
    assert_eq!(
        history.annotation("x-last-death-queue"),
        Some(Value::string("retry"))
    );
    assert_eq!(history.annotation("x-other"), None);
}

#[test]
fn what_is_no_list_of_deaths_is_refused_by_name() {
    let encoded = |value: &Value| {
        let mut out = Vec::new();
        crate::wire::encode_value(value, &mut out);
        out
    };
    let text = encoded(&Value::string("x"));
    assert_eq!(
        decode_deaths(&text),
        Err(AnnotationError::NoEntries {
            found: "string 'x'".to_owned()
        })
    );
    let entry = Value::Map(vec![(Value::symbol("queue"), Value::Uint(1))]);
    assert_eq!(
        decode_deaths(&encoded(&Value::List(vec![entry])))
            .unwrap_err()
            .to_string(),
        "entry 0 of x-opt-deaths has no valid field routing-keys"
    );
}

fn with_evidence() -> History {
    let evidence = Evidence {
        condition: Some("app:poison".into()),
        description: Some("cannot \u{e9}".into()),
        info: Some(bytes::Bytes::from_static(&[0xc1, 1, 0])),
        container: Some("c".into()),
        link: None,
        user: Some(Name::from("guest")),
        how: Some(How::Rejected),
        address: None,
        rule: Some("policy p".into()),
        ..Evidence::default()
    };
    let rejected = death("a", Reason::Rejected, -5);
    let rejected = Death {
        ttl: Some(0),
        evidence: Some(Arc::new(evidence)),
        ..rejected
    };
    history(&[death("b", Reason::Maxlen, 7), rejected])
}

/// All annotations with what they say, as text.
fn shown(history: &History, evidence: EvidenceLevel, viewer: Viewer<'_>) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    let view = DeathsView {
        encoding: Encoding::List,
        evidence,
        viewer,
    };
    let count = history.write_annotations(view, &mut out);
    let pairs = Pairs::bare(&out, u32::MAX).map_while(Result::ok);
    let pairs: Vec<_> = pairs
        .map(|pair| {
            let value = decode_value(pair.value).unwrap().0;
            (pair.symbol_key().unwrap().to_owned(), value)
        })
        .collect();
    assert_eq!(pairs.len(), count);
    pairs
}

fn find<'a>(pairs: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    let mut pairs = pairs.iter();
    pairs.find(|(key, _)| key == name).map(|(_, value)| value)
}

#[test]
fn a_receiver_gets_the_error_of_the_latest_death_unless_it_wants_none() {
    let history = with_evidence();
    let error = shown(&history, EvidenceLevel::Error, Viewer::Monitor);
    let none = shown(&history, EvidenceLevel::None, Viewer::Monitor);
    assert_eq!(error[..7], none[..]);
    let condition = ("x-opt-last-death-condition", Value::symbol("app:poison"));
    let description = (
        "x-opt-last-death-description",
        Value::string("cannot \u{e9}"),
    );
    for ((key, value), (name, expected)) in error[7..].iter().zip([&condition, &description]) {
        assert_eq!((&**key, value), (*name, expected));
        // A headers exchange sees the same, whatever receivers want.
        assert_eq!(history.annotation(name).as_ref(), Some(expected));
    }
    assert_eq!(error.len(), 9);
}

#[test]
fn an_error_does_not_outlive_the_next_death() {
    let again = History::record(Some(&with_evidence()), &death("c", Reason::Expired, 9)).unwrap();
    assert_eq!(shown(&again, EvidenceLevel::Full, Viewer::Monitor).len(), 7);
    assert_eq!(again.annotation("x-opt-last-death-condition"), None);
}

#[test]
fn full_evidence_stands_behind_the_keys_of_an_entry_and_names_users_to_whom_it_may() {
    let history = with_evidence();
    for (viewer, names_user) in [
        (Viewer::Monitor, true),
        (
            Viewer::User {
                name: "guest",
                by_token: false,
            },
            true,
        ),
        (
            Viewer::User {
                name: "other",
                by_token: false,
            },
            false,
        ),
        (Viewer::Nobody, false),
    ] {
        let full = shown(&history, EvidenceLevel::Full, viewer);
        let by = find(&full, "x-opt-last-death-by").unwrap();
        assert_eq!(by.get("how"), Some(&Value::symbol("rejected")));
        assert_eq!(by.get("container"), Some(&Value::string("c")));
        assert_eq!(by.get("link"), None);
        assert_eq!(by.get("user").is_some(), names_user, "{viewer:?}");
        let entries = find(&full, "x-opt-deaths").unwrap().as_elements().unwrap();
        let Value::Map(pairs) = &entries[0] else {
            panic!("no map: {entries:?}");
        };
        let keys: Vec<_> = pairs.iter().filter_map(|(key, _)| key.as_str()).collect();
        let expected = "ttl queue reason count first-time last-time exchange routing-keys \
            error-condition error-description error-info by";
        assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
        assert_eq!(entries[0].get("error-info"), Some(&Value::Map(Vec::new())));
        assert_eq!(entries[0].get("by"), Some(by));
        assert_eq!(entries[1].get("by"), None);
    }
}

#[test]
fn stored_form_keeps_everything_with_the_evidence() {
    let mut stored = Vec::new();
    with_evidence().encode(&mut stored);
    assert_eq!(History::decode(&stored), Ok(with_evidence()));
    stored[0] = 2;
    assert_eq!(History::decode(&stored), Err(HistoryError::Version(2)));
    assert_eq!(History::decode(&[]), Err(HistoryError::Field("version")));
}

/// The journal's crash matrix in small: no cut and no changed byte may panic or be taken for whole.
#[test]
fn cut_stored_form_is_damage() {
    let mut stored = Vec::new();
    with_evidence().encode(&mut stored);
    for end in 0..stored.len() {
        assert!(History::decode(&stored[..end]).is_err(), "cut at {end}");
    }
    stored.push(0x40);
    assert_eq!(History::decode(&stored), Err(HistoryError::Field("length")));
}

proptest! {
    #[test]
    fn changed_bytes_break_no_invariant(at in any::<usize>(), byte: u8) {
        let mut stored = Vec::new();
        with_evidence().encode(&mut stored);
        let at = at % stored.len();
        stored[at] = byte;
        fuzz_deaths(&stored);
        let mut written = written(&with_evidence(), Encoding::Array);
        let at = at % written.len();
        written[at] = byte;
        fuzz_deaths(&written[14..]);
    }
}
