use std::sync::Arc;

use proptest::prelude::*;

use super::{after, death, entries, history};
use crate::base::{Name, Timestamp};
use crate::deaths::{Death, Entry, Evidence, History, HistoryEncoder, Reason};
use crate::wire::write_binary_of;

#[test]
fn repeated_death_counts_up_moves_to_the_front_and_keeps_the_rest() {
    let again = Death {
        exchange: "other".into(),
        routing_keys: Arc::from([Name::from("k"), Name::from("cc")]),
        ttl: Some(5),
        ..death("a", Reason::Rejected, 300)
    };
    let first = Death {
        ttl: Some(60_000),
        ..death("a", Reason::Rejected, 100)
    };
    let history = history(&[first, death("b", Reason::Expired, 200), again]);
    let [a, b] = history.entries() else {
        panic!("two entries")
    };
    assert_eq!((a.queue.as_str(), a.count, a.ttl), ("a", 2, Some(60_000)));
    assert_eq!(
        (a.first_time, a.last_time),
        (Timestamp(100), Timestamp(300))
    );
    assert_eq!(
        (a.exchange.as_str(), &*a.routing_keys),
        ("", &[Name::from("a")][..])
    );
    assert_eq!((b.queue.as_str(), b.count), ("b", 1));
    assert_eq!(
        (
            history.first().queue.as_str(),
            history.first().exchange.as_str()
        ),
        ("a", "")
    );
    assert_eq!(
        (
            history.last().queue.as_str(),
            history.last().exchange.as_str()
        ),
        ("a", "other")
    );
}

#[test]
fn same_queue_with_another_reason_is_another_entry() {
    let history = history(&[
        death("a", Reason::Rejected, 1),
        death("a", Reason::Expired, 2),
    ]);
    assert_eq!(history.entries().len(), 2);
    assert_eq!(
        (history.first().reason, history.last().reason),
        (Reason::Rejected, Reason::Expired)
    );
}

/// [dead-lettering part 8] "a jump of the wall clock" must not make times fall.
#[test]
fn times_never_fall_when_the_wall_clock_does() {
    let history = history(&[
        death("a", Reason::Expired, 1_000),
        death("b", Reason::Expired, 400),
        death("a", Reason::Expired, 500),
    ]);
    let times = history
        .entries()
        .iter()
        .map(|entry| (entry.first_time.0, entry.last_time.0));
    assert_eq!(times.collect::<Vec<_>>(), [(1_000, 1_000), (1_000, 1_000)]);
}

#[test]
fn evidence_is_that_of_the_latest_death() {
    let says = |text: &str| {
        Some(Arc::new(Evidence {
            condition: Some(text.into()),
            ..Evidence::default()
        }))
    };
    let with = |evidence| Death {
        evidence,
        ..death("a", Reason::Rejected, 1)
    };
    let history = history(&[with(says("one")), with(says("two"))]);
    assert_eq!(history.entries()[0].evidence, says("two"));
}

#[test]
fn hundred_thousand_turns_of_a_retry_pair_keep_the_size_and_count_exactly() {
    let (work, retry) = (
        death("work", Reason::Rejected, 1),
        death("retry", Reason::Expired, 2),
    );
    let mut history = after(None, &work);
    let mut size = 0;
    for turn in 1..=100_000 {
        history = after(
            Some(&history),
            &Death {
                time: Timestamp(turn),
                ..retry.clone()
            },
        );
        assert!(!history.is_cycle("work"), "a rejection is part of the loop");
        history = after(
            Some(&history),
            &Death {
                time: Timestamp(turn),
                ..work.clone()
            },
        );
        let mut encoded = Vec::new();
        if turn == 1 || turn == 100_000 {
            history.encode(&mut encoded);
            // The counts grow from one byte to eight.
            assert!(size == 0 || encoded.len() <= size + 2 * 7);
            size = encoded.len();
        }
    }
    let counts = history
        .entries()
        .iter()
        .map(|entry| (entry.queue.as_str(), entry.count));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [("work", 100_001), ("retry", 100_000)]
    );
    assert_eq!(history.first().queue.as_str(), "work");
}

/// All deaths one by one, compressed only when asked.
fn naive_entries(deaths: &[Death]) -> Vec<Entry> {
    let mut clock = i64::MIN;
    let rising = deaths.iter().map(|death| {
        clock = clock.max(death.time.0);
        (death, Timestamp(clock))
    });
    let rising = rising.collect::<Vec<_>>();
    let mut entries = Vec::<Entry>::new();
    for (latest, last_time) in rising.iter().rev() {
        let same = |death: &Death| death.queue == latest.queue && death.reason == latest.reason;
        if entries
            .iter()
            .any(|e| e.queue == latest.queue && e.reason == latest.reason)
        {
            continue;
        }
        let alike = rising
            .iter()
            .filter(|(death, _)| same(death))
            .collect::<Vec<_>>();
        let (first, first_time) = alike[0];
        entries.push(Entry {
            queue: first.queue.clone(),
            reason: first.reason,
            count: alike.len() as u64,
            first_time: *first_time,
            last_time: *last_time,
            exchange: first.exchange.clone(),
            routing_keys: first.routing_keys.clone(),
            ttl: first.ttl,
            evidence: latest.evidence.clone(),
        });
    }
    entries
}

fn any_death() -> impl Strategy<Value = Death> {
    let reason = prop_oneof![
        Just(Reason::Rejected),
        Just(Reason::Expired),
        Just(Reason::Maxlen),
        Just(Reason::DeliveryLimit),
    ];
    let ttl = proptest::option::of(0..100_u32);
    ("[a-d]", reason, 0..1_000_i64, "[xy]", ttl).prop_map(|(queue, reason, time, exchange, ttl)| {
        Death {
            exchange: exchange.as_str().into(),
            ttl,
            ..death(&queue, reason, time)
        }
    })
}

proptest! {
    #[test]
    fn history_equals_a_list_of_all_deaths_compressed(
        deaths in proptest::collection::vec(any_death(), 1..40),
    ) {
        let history = history(&deaths);
        prop_assert_eq!(entries(&history), naive_entries(&deaths));
        let (first, last) = (&deaths[0], &deaths[deaths.len() - 1]);
        prop_assert_eq!(history.first().queue, &first.queue);
        prop_assert_eq!(history.first().reason, first.reason);
        prop_assert_eq!(history.first().exchange, &first.exchange);
        prop_assert_eq!(history.last().queue, &last.queue);
        prop_assert_eq!(history.last().reason, last.reason);
        prop_assert_eq!(history.last().exchange, &last.exchange);

        let mut stored = Vec::new();
        history.encode(&mut stored);
        prop_assert_eq!(History::decode(&stored), Ok(history));
    }
}

/// The journal's bytes must not depend on which record was written before: the next one may be read alone.
#[test]
fn a_history_that_messages_share_is_written_alike_each_time() {
    let [one, other] = ["a", "b"].map(|queue| {
        let deaths: Vec<Death> = (1..=3)
            .map(|time| death(&format!("{queue}{}", time % 2), Reason::Rejected, time))
            .collect();
        Arc::new(history(&deaths))
    });
    let mut encoder = HistoryEncoder::default();
    for history in [&one, &one, &one, &other, &one, &one, &other, &other, &other] {
        let (mut alone, mut behind) = (Vec::new(), b"what stands in front".to_vec());
        write_binary_of(&mut alone, |out| history.encode(out));
        encoder.write(history, &mut behind);
        assert_eq!(&behind[20..], alone);
    }
    drop(one);
    // One that is freed lends its address to no other.
    for time in 1..100 {
        let next = Arc::new(history(&[death("c", Reason::Expired, time)]));
        for _ in 0..3 {
            let (mut alone, mut behind) = (Vec::new(), Vec::new());
            write_binary_of(&mut alone, |out| next.encode(out));
            encoder.write(&next, &mut behind);
            assert_eq!(behind, alone);
        }
    }
}
