use std::sync::Arc;

use bytes::Bytes;

use super::{death, history};
use crate::base::limits::{
    EVIDENCE_BYTES_MAX, EVIDENCE_CONDITION_BYTES_MAX, EVIDENCE_DESCRIPTION_BYTES_MAX,
    EVIDENCE_INFO_BYTES_MAX, EVIDENCE_NAME_BYTES_MAX,
};
use crate::base::{Gauge, Name};
use crate::deaths::{Death, Evidence, History, How, Reason, Viewer};
use crate::wire::{Reader, Value, begin_map, decode_value, encode_value, end};

/// An encoded map of so many numbered pairs, each with a text of this length.
fn info(pairs: usize, length: usize) -> Bytes {
    let mut out = Vec::new();
    let map = begin_map(&mut out);
    for pair in 0..pairs {
        encode_value(&Value::symbol(format!("k{pair}")), &mut out);
        encode_value(&Value::string("x".repeat(length)), &mut out);
    }
    end(&mut out, map, 2 * pairs);
    out.into()
}

fn consumer() -> Evidence {
    let long = Name::from("c".repeat(1_000).as_str());
    Evidence::of_consumer(&long, &"l".repeat(1_000), Some(&long), None)
}

/// All that may be said of one death.
fn everything() -> Arc<Evidence> {
    let description = "d".repeat(100_000);
    let info = info(1, EVIDENCE_INFO_BYTES_MAX - 20);
    Arc::new(consumer().with_error(&"c".repeat(1_000), Some(&description), Some(&info)))
}

/// The keys of an encoded map.
fn keys(info: &Bytes) -> Vec<String> {
    let pairs = Reader::new(info).map().unwrap();
    let key = |pair: crate::wire::Pair<'_>| pair.symbol_key().unwrap().to_owned();
    pairs.map(|pair| key(pair.unwrap())).collect()
}

/// A consumer's `rejected` with 15 MB of info about a message in many queues made a record that no
/// segment took.
#[test]
fn what_is_kept_of_an_error_is_bounded_and_says_that_it_was_cut() {
    let evidence = everything();
    let length = |name: &Option<Name>| name.as_ref().unwrap().len();
    assert_eq!(length(&evidence.condition), EVIDENCE_CONDITION_BYTES_MAX);
    assert_eq!(
        length(&evidence.description),
        EVIDENCE_DESCRIPTION_BYTES_MAX
    );
    let description = evidence.description.as_ref().unwrap();
    assert!(description.ends_with('\u{2026}'));
    for name in [&evidence.container, &evidence.link, &evidence.user] {
        assert_eq!(length(name), EVIDENCE_NAME_BYTES_MAX);
    }
    assert_eq!(keys(evidence.info.as_ref().unwrap()), ["k0"], "it fits");

    let long = consumer().with_error("a:b", None, Some(&info(100_000, 90)));
    let kept = long.info.unwrap();
    assert!((EVIDENCE_INFO_BYTES_MAX - 110..=EVIDENCE_INFO_BYTES_MAX).contains(&kept.len()));
    let keys = keys(&kept);
    assert_eq!(keys[0], "k0");
    assert_eq!(keys.last().unwrap(), "truncated");
    let (whole, used) = decode_value(&kept).unwrap();
    assert!(matches!(whole, Value::Map(_)) && used == kept.len());
}

#[test]
fn a_description_is_cut_at_a_character() {
    let long = "\u{20ac}".repeat(EVIDENCE_DESCRIPTION_BYTES_MAX);
    for front in ["", "a", "ab"] {
        let description = [front, &long].concat();
        let evidence = consumer().with_error("a:b", Some(&description), None);
        let kept = evidence.description.unwrap();
        let kept = kept.as_str().strip_suffix('\u{2026}').unwrap();
        assert!(description.starts_with(kept));
        assert!(kept.len() > EVIDENCE_DESCRIPTION_BYTES_MAX - 7);
    }
}

#[test]
fn older_deaths_lose_info_then_description_then_all_that_was_said() {
    let one = everything();
    let deaths: Vec<Death> = (0..64)
        .map(|number| Death {
            evidence: Some(Arc::clone(&one)),
            ..death(&format!("q{number}"), Reason::Rejected, 1)
        })
        .collect();
    for count in [1, 2, 3, 5, 20, 64] {
        let history = history(&deaths[..count]);
        let kept = history
            .entries()
            .iter()
            .filter_map(|entry| entry.evidence.as_ref());
        let bytes: usize = kept.map(|evidence| evidence.bytes()).sum();
        assert!(bytes <= EVIDENCE_BYTES_MAX, "{count} deaths: {bytes} bytes");
        let newest = history.entries()[0].evidence.as_ref().unwrap();
        assert_eq!(newest, &one, "the latest death keeps all");
        let mut stored = Vec::new();
        history.encode(&mut stored);
        assert!(stored.len() < EVIDENCE_BYTES_MAX + 200 * count + 100);
    }
    let three = history(&deaths[..3]);
    let said = three
        .entries()
        .iter()
        .map(|entry| entry.evidence.as_ref().unwrap());
    let said: Vec<(bool, bool)> = said
        .map(|evidence| (evidence.info.is_some(), evidence.description.is_some()))
        .collect();
    assert_eq!(said, [(true, true), (false, true), (false, true)]);
}

#[test]
fn histories_and_evidence_are_counted_once_however_many_messages_share_them() {
    let gauge = Gauge::default();
    let evidence = everything();
    let histories: Vec<History> = (0..1_000)
        .map(|time| {
            let evidence = Some(Arc::clone(&evidence));
            let died = Death {
                evidence,
                ..death("q", Reason::Rejected, time)
            };
            History::record(None, &died).unwrap()
        })
        .collect();
    for history in &histories {
        history.charge(&gauge);
        history.charge(&gauge);
    }
    let counted = gauge.bytes();
    assert!(
        counted > evidence.bytes() as u64 && counted < 300_000,
        "{counted}"
    );
    drop((histories, evidence));
    assert_eq!(gauge.bytes(), 0);
}

/// A death through 64 queues wrote the name of one policy 64 times.
#[test]
fn a_rule_that_several_deaths_have_is_stored_once() {
    let bytes = |rule: &dyn Fn(usize) -> Option<String>| {
        let deaths: Vec<Death> = (0..64)
            .map(|number| Death {
                evidence: Some(Arc::new(Evidence {
                    rule: rule(number).map(Name::from),
                    ..Evidence::default()
                })),
                ..death(&format!("q{number}"), Reason::Expired, 1)
            })
            .collect();
        let history = history(&deaths);
        let mut stored = Vec::new();
        history.encode(&mut stored);
        let read = History::decode(&stored).unwrap();
        assert_eq!(read, history);
        (stored.len(), read)
    };
    let name = "policy a-name-of-forty-bytes-as-people-give-them";
    let (without, _) = bytes(&|_| None);
    let (one, read) = bytes(&|_| Some(name.to_owned()));
    assert!(one < without + name.len() + 64 + 4, "{without}, then {one}");
    let rules = read.entries().iter();
    let mut rules = rules.map(|entry| entry.evidence.as_ref().unwrap().rule.clone().unwrap());
    let first = rules.next().unwrap();
    assert!(rules.all(|rule| rule.same(&first)), "read, too");
    let (two, _) = bytes(&|number| Some(format!("policy {}", number % 2)));
    assert!(two < without + 2 * 64 + 24, "{without}, then {two}");
}

/// What Azure's SDK sends with each rejection, whatever is wrong.
#[test]
fn what_azures_clients_say_is_kept_as_sent_and_shown_by_its_reason() {
    let pair = |key: &str, text: &str| (Value::symbol(key), Value::string(text));
    let mut info = Vec::new();
    encode_value(
        &Value::Map(vec![
            pair("DeadLetterReason", "bad order"),
            pair("DeadLetterErrorDescription", "no price"),
            (Value::symbol("tries"), Value::Int(3)),
        ]),
        &mut info,
    );
    let name = "com.microsoft:dead-letter";
    let info = Bytes::from(info);
    let sent = consumer().with_error(name, Some("as sent"), Some(&info));
    assert_eq!(sent.condition.as_deref(), Some(name));
    assert_eq!(sent.description.as_deref(), Some("as sent"));
    assert_eq!(sent.info.as_ref(), Some(&info));
    let text = |text: &str| Some(Name::from(text));
    assert_eq!(sent.shown(), (text("bad order"), text("no price")));
    let other = consumer().with_error("app:bad", None, Some(&info));
    assert_eq!(other.shown(), (text("app:bad"), None));
    let bare = consumer().with_error(name, Some("as sent"), None);
    assert_eq!(bare.shown(), (text(name), text("as sent")));
}

/// An array whose elements are described, as deep as values may be, is kept to the byte; what is
/// longer goes as a pair.
#[test]
fn info_with_an_array_of_described_values_keeps_its_types() {
    // Two described ints (descriptor 0x53 0x09): constructor 0x00 0x53 0x09 0x71.
    let array = b"\xe0\x0d\x02\x00\x53\x09\x71\x00\x00\x00\x01\x00\x00\x00\x02";
    let encoded = |filler: usize| {
        let mut out = Vec::new();
        let map = begin_map(&mut out);
        encode_value(&Value::symbol("array"), &mut out);
        out.extend_from_slice(array);
        encode_value(&Value::symbol("filler"), &mut out);
        encode_value(&Value::string("x".repeat(filler)), &mut out);
        end(&mut out, map, 4);
        Bytes::from(out)
    };
    let kept = |filler: usize| {
        let info = encoded(filler);
        let evidence = consumer().with_error("a:b", None, Some(&info));
        (evidence.info.unwrap(), info)
    };
    let (small, sent) = kept(10);
    assert_eq!(small, sent);
    let (cut, _) = kept(EVIDENCE_INFO_BYTES_MAX);
    assert_eq!(keys(&cut), ["array", "truncated"]);
    let at = cut.windows(array.len()).position(|bytes| bytes == array);
    assert!(at.is_some(), "the array is there as it was sent");
    decode_value(&cut).unwrap();
}

/// An export has the stored form of the history, which must not tell what lists hide.
#[test]
fn a_viewer_gets_the_history_without_names_and_addresses_of_others() {
    let evidence = Evidence {
        condition: Some("app:schema".into()),
        user: Some("ada".into()),
        address: Some("10.0.0.7:5".into()),
        container: Some("billing".into()),
        ..Evidence::default()
    };
    let death = Death {
        evidence: Some(Arc::new(evidence.clone())),
        ..death("q", Reason::Rejected, 1)
    };
    let history = history(&[death]);
    let seen = |viewer| {
        history.seen_by(viewer).entries()[0]
            .evidence
            .clone()
            .unwrap()
    };
    assert_eq!(*seen(Viewer::Monitor), evidence);
    assert_eq!(
        *seen(Viewer::User {
            name: "ada",
            by_token: false
        }),
        evidence
    );
    let bearer = Viewer::User {
        name: "ada",
        by_token: true,
    };
    let hidden = Evidence {
        user: None,
        address: None,
        ..evidence
    };
    assert_eq!(
        *seen(Viewer::User {
            name: "bob",
            by_token: false
        }),
        hidden
    );
    assert_eq!(*seen(bearer), hidden);
    assert_eq!(*seen(Viewer::Nobody), hidden);
}

/// The bearer of a token and the user of the registry with its name were taken for one.
#[test]
fn a_history_that_was_stored_knows_who_was_known_by_a_token() {
    for by_token in [false, true] {
        let evidence = Evidence {
            user: Some("ad\u{e4}".into()),
            by_token,
            how: Some(How::Rejected),
            ..Evidence::default()
        };
        let death = Death {
            evidence: Some(Arc::new(evidence.clone())),
            ..death("q", Reason::Rejected, 1)
        };
        let mut stored = Vec::new();
        history(&[death]).encode(&mut stored);
        let again = History::decode(&stored).unwrap();
        let read = again.entries()[0].evidence.clone().unwrap();
        assert_eq!(*read, evidence);
        let sees = |by_token| {
            Viewer::User {
                name: "ad\u{e4}",
                by_token,
            }
            .may_see(&read)
        };
        assert!(sees(by_token) && !sees(!by_token));
    }
}
