//! Claims about what the quarantine adds to a history.

use std::sync::Arc;

use proptest::prelude::*;

use super::{after, death, history};
use crate::base::Name;
use crate::deaths::{
    ANNOTATIONS, DeathsView, Encoding, EvidenceLevel, History, HistoryError, QuarantineCause,
    Quarantined, Reason, RecentlyQuarantined, fuzz_deaths,
};
use crate::wire::{Pairs, Value, decode_value};

fn looped() -> History {
    history(&[
        death("a", Reason::Expired, 1),
        death("b", Reason::Expired, 2),
        death("c", Reason::Expired, 3),
    ])
}

fn cycle() -> Quarantined {
    Quarantined {
        cause: QuarantineCause::Cycle,
        closes_at: Some(Name::from("b")),
    }
}

fn missing() -> Quarantined {
    Quarantined {
        cause: QuarantineCause::ExchangeMissing,
        closes_at: None,
    }
}

/// The annotations as a receiver gets them.
fn shown(history: &History, view: DeathsView<'_>) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    let pairs = history.write_annotations(view, &mut out);
    let shown: Vec<_> = Pairs::bare(&out, u32::try_from(2 * pairs).unwrap())
        .map(|pair| {
            let pair = pair.unwrap();
            let key = pair.symbol_key().unwrap().to_owned();
            (key, decode_value(pair.value).unwrap().0)
        })
        .collect();
    assert_eq!(shown.len(), pairs, "as many as were told");
    shown
}

fn stored(history: &History) -> Vec<u8> {
    let mut stored = Vec::new();
    history.encode(&mut stored);
    stored
}

#[test]
fn cause_and_path_are_delivered_whatever_a_receiver_asks_for() {
    let path = Value::List(["b", "c", "b"].map(Value::string).to_vec());
    for encoding in [Encoding::Array, Encoding::List, Encoding::None] {
        for evidence in EvidenceLevel::ALL {
            let view = DeathsView {
                encoding,
                evidence,
                ..DeathsView::default()
            };
            let of = |why, name: &str| {
                let shown = shown(&looped().quarantined_for(why), view);
                let found = shown.into_iter().find(|(key, _)| key == name);
                found.map(|(_, value)| value)
            };
            let (cause, loop_path) = ("x-opt-quarantine-cause", "x-opt-quarantine-path");
            assert_eq!(of(cycle(), cause), Some(Value::symbol("cycle")));
            assert_eq!(of(cycle(), loop_path), Some(path.clone()));
            assert_eq!(
                of(missing(), cause),
                Some(Value::symbol("exchange_missing"))
            );
            assert_eq!(of(missing(), loop_path), None);
        }
    }
}

#[test]
fn every_annotation_that_is_written_can_be_asked_for_by_its_name() {
    let history = looped().quarantined_for(cycle());
    let written = shown(&history, DeathsView::default());
    for name in ANNOTATIONS {
        let value = written.iter().find(|(key, _)| key == name);
        let value = value.map(|(_, value)| value.clone());
        assert_eq!(history.annotation(name), value, "{name}");
    }
}

#[test]
fn the_next_death_knows_nothing_of_the_quarantine() {
    let history = looped().quarantined_for(cycle());
    let next = after(Some(&history), &death("d", Reason::Rejected, 4));
    assert_eq!(next.quarantined(), None);
    assert_eq!(next.quarantine_path(), Vec::<Name>::new());
    assert_eq!(next.entries()[1..], *history.entries());
}

#[test]
fn a_redrive_takes_cause_and_path_away() {
    let redriven = looped().quarantined_for(cycle()).redriven();
    assert_eq!(redriven, looped().redriven());
    let names = shown(&redriven, DeathsView::default()).into_iter();
    let left: Vec<_> = names
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("x-opt-quarantine"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn messages_that_share_a_history_share_it_in_the_quarantine_too() {
    let history = Arc::new(looped());
    let mut recent = RecentlyQuarantined::default();
    let first = recent.of(&history, missing());
    assert!(Arc::ptr_eq(&first, &recent.of(&history, missing())));
    assert!(!Arc::ptr_eq(&first, &recent.of(&history, cycle())));
    let other = recent.of(&Arc::new(looped()), missing());
    assert!(!Arc::ptr_eq(&first, &other));
    assert_eq!(first, other);
}

#[test]
fn stored_form_keeps_why_it_is_in_the_quarantine() {
    for cause in QuarantineCause::ALL {
        for closes_at in [None, Some(Name::from("b"))] {
            let why = Quarantined { cause, closes_at };
            let history = looped().quarantined_for(why);
            assert_eq!(History::decode(&stored(&history)).as_ref(), Ok(&history));
        }
    }
}

/// The journal's crash matrix in small.
#[test]
fn cut_quarantined_part_is_damage() {
    let mut stored = stored(&looped().quarantined_for(cycle()));
    for end in 0..stored.len() {
        assert!(History::decode(&stored[..end]).is_err(), "cut at {end}");
    }
    stored.push(0x40);
    assert_eq!(History::decode(&stored), Err(HistoryError::Field("length")));
}

proptest! {
    #[test]
    fn changed_bytes_of_a_quarantined_history_break_no_invariant(at in any::<usize>(), byte: u8) {
        let mut stored = stored(&looped().quarantined_for(cycle()));
        let at = at % stored.len();
        stored[at] = byte;
        fuzz_deaths(&stored);
    }
}
