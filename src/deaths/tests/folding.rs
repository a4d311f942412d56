//! Claims about histories that have too many entries, or too large ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{after, death, history};
use crate::base::limits::{
    HISTORY_ENTRIES_BYTES_MAX, HISTORY_ENTRIES_MAX, HISTORY_FOLDED_QUEUES_MAX, NAME_BYTES_MAX,
};
use crate::base::{Name, Timestamp};
use crate::deaths::history::Parts;
use crate::deaths::{
    Death, DeathsView, Encoding, Folded, History, HistoryError, HistoryFull, Reason, decode_deaths,
    fuzz_deaths,
};
use crate::wire::{Pairs, Value, decode_value, write_binary, write_ulong};

/// Deaths one by one, numbered from 0, the queue and reason of each by its number.
pub(super) fn deaths(count: usize, each: impl Fn(usize) -> (usize, Reason)) -> Vec<Death> {
    let one = |number: usize| {
        let (queue, reason) = each(number);
        let time = i64::try_from(number).unwrap();
        death(&format!("queue-{queue:03}"), reason, time)
    };
    (0..count).map(one).collect()
}

pub(super) fn expired_once_each(queues: usize) -> Vec<Death> {
    deaths(queues, |number| (number, Reason::Expired))
}

pub(super) fn total(history: &History) -> u64 {
    let kept: u64 = history.entries().iter().map(|entry| entry.count).sum();
    kept + history.folded().map_or(0, Folded::deaths)
}

pub(super) fn stored(history: &History) -> Vec<u8> {
    let mut stored = Vec::new();
    history.encode(&mut stored);
    stored
}

fn written(history: &History, encoding: Encoding) -> Vec<u8> {
    let mut written = Vec::new();
    let view = DeathsView {
        encoding,
        ..DeathsView::default()
    };
    history.write_annotations(view, &mut written);
    written
}

#[test]
fn sixty_fifth_pair_folds_the_oldest_entry_that_is_not_the_first_deaths() {
    let history = history(&expired_once_each(66));
    let queues = history
        .entries()
        .iter()
        .map(|entry| entry.queue.to_string());
    let expect = (3..66).rev().chain([0]);
    let expect: Vec<_> = expect.map(|number| format!("queue-{number:03}")).collect();
    assert_eq!(queues.collect::<Vec<_>>(), expect);
    assert_eq!(history.first().queue.as_str(), "queue-000");
    let folded = history.folded().unwrap();
    assert_eq!((folded.entries(), folded.deaths()), (2, 2));
    assert_eq!(folded.until(), Timestamp(2));
    let queues = folded.queues().map(Name::as_str);
    assert_eq!(queues.collect::<Vec<_>>(), ["queue-001", "queue-002"]);
}

#[test]
fn sixty_four_pairs_fold_nothing() {
    let history = history(&expired_once_each(HISTORY_ENTRIES_MAX));
    assert_eq!(history.entries().len(), 64);
    assert_eq!(history.folded(), None);
}

/// A message through 3,000 queues wrote 169 MB: its history grew with each death.
#[test]
fn ten_thousand_deaths_over_three_hundred_queues_stay_below_48_kib_with_exact_totals() {
    let deaths = deaths(10_000, |number| (number * 7 % 300, Reason::Expired));
    let mut history = None;
    let mut largest = 0;
    for death in &deaths {
        let next = after(history.as_ref(), death);
        largest = largest.max(stored(&next).len());
        history = Some(next);
    }
    let history = history.unwrap();
    assert!(largest < 48 * 1024, "stored as {largest} bytes");
    let delivered = written(&history, Encoding::Array).len();
    assert!(delivered < 48 * 1024, "delivered as {delivered} bytes");
    assert!(history.size_bytes() < 48 * 1024, "{}", history.size_bytes());
    assert_eq!(total(&history), 10_000);
    assert_eq!(history.first().queue.as_str(), "queue-000");
    assert!((0..300).all(|queue| history.is_cycle(&format!("queue-{queue:03}"))));
}

#[test]
fn what_a_message_writes_of_its_history_grows_with_the_number_of_its_deaths_and_not_with_its_square()
 {
    let bytes = |deaths: &[Death]| {
        let mut history = None;
        let mut bytes = 0;
        for death in deaths {
            let next = after(history.as_ref(), death);
            bytes += stored(&next).len();
            history = Some(next);
        }
        bytes
    };
    let over_320 = |count| deaths(count, |number| (number % 320, Reason::Expired));
    let (some, more) = (bytes(&over_320(3_000)), bytes(&over_320(6_000)));
    // It is full after 320: from then on each death writes the same.
    assert!(more < 2 * some + some / 4, "{some}, then {more} bytes");
    assert!(some < 3_000 * 12 * 1024, "{some} bytes for 3,000 deaths");
}

#[test]
fn loop_of_seventy_queues_is_found_and_told_with_all_its_queues() {
    let history = history(&expired_once_each(70));
    for start in [0, 1, 5, 6, 7, 69] {
        let target = format!("queue-{start:03}");
        assert!(history.is_cycle(&target), "{target}");
        let path = history.cycle_path(&target);
        let expect = (start..70).chain([start]);
        let expect: Vec<_> = expect
            .map(|number| Name::from(format!("queue-{number:03}")))
            .collect();
        assert_eq!(path, expect, "{target}");
    }
    assert!(!history.is_cycle("queue-070"));
    assert_eq!(history.cycle_path("queue-070"), Vec::<Name>::new());
}

#[test]
fn folded_rejection_breaks_the_loops_through_what_died_before_it_only() {
    // Queue 3 rejected, all others expired: then 0 to 8 but the first death's are folded.
    let rejecting = |number| match number {
        3 => (number, Reason::Rejected),
        _ => (number, Reason::Expired),
    };
    let history = history(&deaths(72, rejecting));
    assert_eq!(history.folded().unwrap().entries(), 8);
    let cycles = (0..9).map(|queue| history.is_cycle(&format!("queue-{queue:03}")));
    let expect = [false, false, false, false, true, true, true, true, true];
    assert_eq!(cycles.collect::<Vec<_>>(), expect);
}

#[test]
fn kept_rejection_breaks_the_loops_through_what_is_folded() {
    let rejecting = |number| match number {
        69 => (number, Reason::Rejected),
        _ => (number, Reason::Expired),
    };
    let history = history(&deaths(71, rejecting));
    assert!(!history.is_cycle("queue-001"));
    assert!(history.is_cycle("queue-070"));
}

/// What was folded behind the back of the first death's entry is newer than it.
#[test]
fn rejection_of_the_first_death_breaks_only_the_loops_through_what_is_older() {
    let rejecting = |number| match number {
        0 | 71 => (0, Reason::Rejected),
        _ => (number, Reason::Expired),
    };
    let loops = |count| history(&deaths(count, rejecting)).is_cycle("queue-001");
    assert!(loops(71), "rejected in queue 0, then expired in all others");
    assert!(!loops(72), "and rejected again in queue 0");
}

#[test]
fn folded_pair_that_dies_again_is_a_new_entry() {
    let mut all = expired_once_each(66);
    let again = Death {
        exchange: "other".into(),
        ..death("queue-001", Reason::Expired, 100)
    };
    all.push(again);
    let history = history(&all);
    let newest = &history.entries()[0];
    assert_eq!((newest.queue.as_str(), newest.count), ("queue-001", 1));
    assert_eq!(newest.first_time, Timestamp(100));
    assert_eq!(newest.exchange.as_str(), "other");
    let folded = history.folded().unwrap();
    let queues = folded.queues().map(Name::as_str).collect::<Vec<_>>();
    assert_eq!(
        queues,
        ["queue-002", "queue-003"],
        "it is no folded one now"
    );
    assert_eq!((folded.entries(), total(&history)), (3, 67));
}

#[test]
fn queue_number_321_is_too_much_and_changes_nothing() {
    let all = expired_once_each(HISTORY_ENTRIES_MAX + HISTORY_FOLDED_QUEUES_MAX + 1);
    let (one_more, all) = all.split_last().unwrap();
    let full = history(all);
    let before = full.clone();
    assert_eq!(History::record(Some(&full), one_more), Err(HistoryFull));
    assert_eq!(full, before);
    // A queue that it knows is no further one, folded or kept.
    for queue in ["queue-000", "queue-001", "queue-319"] {
        let again = after(Some(&full), &death(queue, Reason::Expired, 1_000));
        assert_eq!(total(&again), 321, "{queue}");
    }
}

/// A CC key for each byte that fits: the largest list of keys a publisher can send.
fn many_keys(marked: &str) -> Arc<[Name]> {
    let key = |number: usize| Name::from(format!("{marked}{number:0>250}"));
    (0..256).map(key).collect()
}

#[test]
fn entries_with_many_keys_are_folded_so_that_a_history_is_bounded_in_bytes() {
    let mut all = expired_once_each(40);
    for (number, death) in all.iter_mut().enumerate() {
        death.routing_keys = many_keys(&format!("{number:03}"));
    }
    let history = history(&all);
    let queues = history.entries().iter().map(|entry| entry.queue.as_str());
    assert_eq!(queues.collect::<Vec<_>>(), ["queue-039", "queue-000"]);
    for (entry, number) in history.entries().iter().zip(["039", "000"]) {
        assert_eq!(entry.routing_keys, many_keys(number), "kept keys are whole");
    }
    assert_eq!(total(&history), 40);
    assert!(history.is_cycle("queue-020"));
    let delivered = written(&history, Encoding::Array).len();
    assert!(delivered < HISTORY_ENTRIES_BYTES_MAX, "{delivered}");
}

#[test]
fn keys_that_all_entries_have_are_kept_and_stored_once() {
    let mut all = expired_once_each(2);
    for death in &mut all {
        death.routing_keys = many_keys(""); // equal, not the same
    }
    let history = history(&all);
    let [one, other] = history.entries() else {
        panic!("two entries")
    };
    assert!(Arc::ptr_eq(&one.routing_keys, &other.routing_keys));
    let stored = stored(&history);
    assert!(stored.len() < 70 * 1024, "{}", stored.len());
    let read = History::decode(&stored).unwrap();
    assert_eq!(read, history);
    let keys = read.entries().iter().map(|entry| &entry.routing_keys);
    let keys: Vec<_> = keys.collect();
    assert!(Arc::ptr_eq(keys[0], keys[1]), "also when they are read");
}

#[test]
fn sixty_four_entries_with_the_longest_names_fit() {
    let name = |number: usize| Name::from(format!("{number:0>NAME_BYTES_MAX$}"));
    let death = |number: usize| Death {
        queue: name(number),
        exchange: name(0),
        routing_keys: Arc::from([Name::from("k".repeat(1024))]),
        ttl: Some(u32::MAX),
        ..death("", Reason::DeliveryLimit, 1)
    };
    let all: Vec<_> = (0..HISTORY_ENTRIES_MAX).map(death).collect();
    let history = history(&all);
    assert_eq!(history.entries().len(), HISTORY_ENTRIES_MAX);
    let estimate: usize = history
        .entries()
        .iter()
        .map(|entry| entry.size_bytes())
        .sum();
    assert!(estimate <= HISTORY_ENTRIES_BYTES_MAX, "{estimate}");
    assert!(written(&history, Encoding::Array).len() < estimate);
}

#[test]
fn annotation_tells_what_is_folded_whatever_the_encoding_of_the_entries() {
    let history = history(&deaths(70, |number| match number {
        69 => (1, Reason::Rejected),
        number => (number, Reason::Expired),
    }));
    for encoding in [Encoding::Array, Encoding::List, Encoding::None] {
        let written = written(&history, encoding);
        let pairs = Pairs::bare(&written, u32::MAX).map_while(Result::ok);
        let pairs: Vec<_> = pairs.collect();
        let view = DeathsView {
            encoding,
            ..DeathsView::default()
        };
        assert_eq!(
            pairs.len(),
            history.write_annotations(view, &mut Vec::new())
        );
        let last = pairs.last().unwrap();
        assert_eq!(last.symbol_key(), Some("x-opt-deaths-folded"));
        let value = decode_value(last.value).unwrap().0;
        let field = |name, value| (Value::symbol(name), value);
        let expect = Value::Map(vec![
            field("entries", Value::Ulong(6)),
            field("deaths", Value::Ulong(6)),
            field("until", Value::Timestamp(6)),
        ]);
        assert_eq!(value, expect);
        assert_eq!(history.annotation("x-opt-deaths-folded"), Some(expect));
        if encoding != Encoding::None {
            assert_eq!(decode_deaths(pairs[0].value).unwrap().len(), 64);
        }
    }
}

#[test]
fn without_folded_entries_there_is_no_annotation_about_them() {
    let history = history(&expired_once_each(3));
    assert_eq!(history.annotation("x-opt-deaths-folded"), None);
    let pairs = history.write_annotations(DeathsView::default(), &mut Vec::new());
    assert_eq!(pairs, 7);
}

fn with_folded() -> History {
    history(&deaths(75, |number| {
        let reason = Reason::ALL[number % Reason::ALL.len()];
        (number, reason)
    }))
}

#[test]
fn stored_form_keeps_what_is_folded_and_goes_on_from_it() {
    let history = with_folded();
    let read = History::decode(&stored(&history)).unwrap();
    assert_eq!(read, history);
    let one_more = death("another", Reason::Expired, 1_000);
    assert_eq!(
        after(Some(&read), &one_more),
        after(Some(&history), &one_more)
    );
}

/// The bound is one of what is recorded, not of the format: it may change.
#[test]
fn longer_history_than_is_recorded_is_read_whole_and_folded_at_the_next_death() {
    let all = expired_once_each(100);
    let entry = |one: &Death| (*history(std::slice::from_ref(one)).entries()[0]).clone();
    let entries = all.iter().rev().map(entry).collect();
    let long = History::from_parts(entries, 99, Name::default(), Parts::default(), 0).unwrap();
    let read = History::decode(&stored(&long)).unwrap();
    assert_eq!((read.entries().len(), &read), (100, &long));
    let all = expired_once_each(101);
    let next = after(Some(&read), &all[100]);
    assert_eq!((next.entries().len(), total(&next)), (64, 101));
    assert_eq!(next, history(&all));
}

#[test]
fn part_that_a_newer_version_wrote_is_not_skipped() {
    let plain = stored(&history(&expired_once_each(2)));
    for kind in [3, 200] {
        let mut stored = plain.clone();
        assert_eq!(stored.pop(), Some(0x44), "it has no part");
        write_ulong(&mut stored, 1);
        write_ulong(&mut stored, kind);
        write_binary(&mut stored, b"redrives, one day");
        assert_eq!(History::decode(&stored), Err(HistoryError::Part(kind)));
    }
}

#[test]
fn cut_folded_part_is_damage() {
    let mut stored = stored(&with_folded());
    for end in 0..stored.len() {
        assert!(History::decode(&stored[..end]).is_err(), "cut at {end}");
    }
    stored.push(0x40);
    assert_eq!(History::decode(&stored), Err(HistoryError::Field("length")));
}

/// The naive rule: back from the latest death, is the target met before a rejection?
pub(super) fn naive_is_cycle(deaths: &[Death], target: &str) -> bool {
    let mut back = deaths.iter().rev();
    let met = back.find(|death| death.reason == Reason::Rejected || *death.queue == *target);
    met.is_some_and(|death| death.reason != Reason::Rejected)
}

pub(super) fn reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        30 => Just(Reason::Expired),
        10 => Just(Reason::Maxlen),
        1 => Just(Reason::Rejected),
    ]
}

proptest! {
    #[test]
    fn changed_bytes_of_a_folded_history_break_no_invariant(at in any::<usize>(), byte: u8) {
        let mut stored = stored(&with_folded());
        let at = at % stored.len();
        stored[at] = byte;
        fuzz_deaths(&stored);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Deaths over more pairs than fit, against a list of all of them, one by one.
    #[test]
    fn folded_history_knows_what_a_list_of_all_deaths_knows(
        words in proptest::collection::vec((0..110_usize, reason()), 80..500),
        is_stored: bool,
    ) {
        let all = deaths(words.len(), |number| words[number]);
        let mut found: Option<History> = None;
        for (number, one) in all.iter().enumerate() {
            let mut next = after(found.as_ref(), one);
            if is_stored && number % 7 == 0 {
                next = History::decode(&stored(&next)).unwrap();
            }
            let so_far = &all[..=number];
            prop_assert!(next.entries().len() <= HISTORY_ENTRIES_MAX);
            prop_assert_eq!(next.first().queue, &all[0].queue);
            prop_assert_eq!(next.last().queue, &one.queue);
            let targets = if number % 16 == 0 { 0..111 } else { number % 111..number % 111 + 1 };
            for target in targets {
                let target = format!("queue-{target:03}");
                prop_assert_eq!(
                    next.is_cycle(&target), naive_is_cycle(so_far, &target), "{} after {}", target, number
                );
            }
            found = Some(next);
        }
        let found = found.unwrap();
        let mut by_reason = BTreeMap::<_, u64>::new();
        for death in &all {
            *by_reason.entry(death.reason).or_default() += 1;
        }
        for reason in Reason::ALL {
            let kept = found.entries().iter().filter(|entry| entry.reason == reason);
            let kept: u64 = kept.map(|entry| entry.count).sum();
            let folded = found.folded().map_or(0, |folded| folded.deaths_for(reason));
            prop_assert_eq!(kept + folded, by_reason.get(&reason).copied().unwrap_or(0));
        }
    }
}
