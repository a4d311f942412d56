use std::sync::Arc;

use bytes::Bytes;

use super::{death, history};
use crate::base::limits::{
    EVIDENCE_BYTES_MAX, EVIDENCE_CONDITION_BYTES_MAX, EVIDENCE_DESCRIPTION_BYTES_MAX,
    EVIDENCE_INFO_BYTES_MAX, EVIDENCE_NAME_BYTES_MAX,
};
use crate::base::{Gauge, Name};
use crate::deaths::{Death, Evidence, History, Reason};
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
