//! Claims about the fence: the cycle rule looks no further back than to the latest redrive.
//! [evidence part 3]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::folding::{deaths, expired_once_each, naive_is_cycle, reason, stored, total};
use super::{after, death, history};
use crate::base::Name;
use crate::base::limits::HISTORY_ENTRIES_MAX;
use crate::deaths::{Death, Folded, History, HistoryError, Reason};
use crate::wire::{write_binary, write_ulong};

/// Work rejected it, hold let it wait by a ttl, and from where it was parked it is brought back to hold.
#[test]
fn a_redriven_message_passes_a_queue_again_that_expired_it_before() {
    let parked = history(&[
        death("work", Reason::Expired, 1),
        death("hold", Reason::Expired, 2),
    ]);
    assert!(parked.is_cycle("hold") && parked.is_cycle("work"));
    let redriven = parked.redriven();
    assert_eq!(redriven.entries(), parked.entries(), "all is told");
    assert!(!redriven.is_cycle("hold") && !redriven.is_cycle("work"));
    assert!(redriven.cycle_path("hold").is_empty());
    let again = after(Some(&redriven), &death("third", Reason::Expired, 3));
    assert!(again.is_cycle("third"), "what came since counts");
    assert!(!again.is_cycle("hold"));
}

#[test]
fn an_entry_that_moves_to_the_front_across_the_fence_is_on_this_side_of_it() {
    let parked = history(&expired_once_each(3)).redriven();
    let again = after(Some(&parked), &death("queue-001", Reason::Expired, 10));
    assert_eq!(again.entries()[0].count, 2);
    let cycles = [0, 1, 2].map(|queue| again.is_cycle(&format!("queue-{queue:03}")));
    assert_eq!(cycles, [false, true, false]);
    // And once more: it is there already.
    let twice = after(Some(&again), &death("queue-001", Reason::Expired, 11));
    assert_eq!((twice.fence(), twice.entries().len()), (Some(1), 3));
    let path = twice.cycle_path("queue-001");
    assert_eq!(path, ["queue-001", "queue-001"].map(Name::from));
}

#[test]
fn what_is_folded_from_behind_the_fence_keeps_its_totals_and_loses_its_name() {
    let parked = history(&expired_once_each(70));
    assert_eq!(parked.folded().unwrap().queues().count(), 6);
    let redriven = parked.redriven();
    let folded = redriven.folded().unwrap();
    assert_eq!((folded.queues().count(), folded.deaths()), (0, 6));
    // Ten more queues: the first death's entry stays, ten from behind the fence are folded.
    let more = deaths(80, |number| (number, Reason::Expired));
    let next = more[70..]
        .iter()
        .fold(redriven, |history, one| after(Some(&history), one));
    assert_eq!(next.first().queue.as_str(), "queue-000");
    let folded = next.folded().unwrap();
    assert_eq!((folded.queues().count(), folded.deaths()), (0, 16));
    assert_eq!((total(&next), next.fence()), (80, Some(10)));
    assert!(!next.is_cycle("queue-005") && !next.is_cycle("queue-000"));
    assert!(next.is_cycle("queue-070"));
}

#[test]
fn a_loop_of_seventy_queues_behind_a_redrive_is_found() {
    let parked = history(&expired_once_each(70)).redriven();
    let again = expired_once_each(140);
    let next = again[70..]
        .iter()
        .fold(parked, |history, one| after(Some(&history), one));
    assert_eq!(
        next.fence(),
        Some(HISTORY_ENTRIES_MAX - 1),
        "but the first death's entry"
    );
    assert_eq!(total(&next), 140);
    for queue in 70..140 {
        assert!(next.is_cycle(&format!("queue-{queue:03}")), "{queue}");
    }
    assert!((0..70).all(|queue| !next.is_cycle(&format!("queue-{queue:03}"))));
}

#[test]
fn the_fence_is_stored_and_a_second_one_or_one_too_far_is_damage() {
    let history = after(
        Some(&history(&expired_once_each(70)).redriven()),
        &death("other", Reason::Rejected, 100),
    );
    let stored = stored(&history);
    assert_eq!(History::decode(&stored), Ok(history));
    for end in 0..stored.len() {
        assert!(History::decode(&stored[..end]).is_err(), "cut at {end}");
    }
    let plain = super::folding::stored(&super::history(&expired_once_each(2)));
    let with_fences = |fences: &[u64]| {
        let mut bytes = plain.clone();
        assert_eq!(bytes.pop(), Some(0x44), "it has no part");
        write_ulong(&mut bytes, fences.len() as u64);
        for fence in fences {
            let mut content = Vec::new();
            write_ulong(&mut content, *fence);
            write_ulong(&mut bytes, 2);
            write_binary(&mut bytes, &content);
        }
        History::decode(&bytes)
    };
    assert_eq!(
        with_fences(&[2]).map(|history| history.fence()),
        Ok(Some(2))
    );
    assert_eq!(with_fences(&[3]), Err(HistoryError::Field("first death")));
    assert_eq!(with_fences(&[1, 1]), Err(HistoryError::Field("part")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Deaths over more pairs than fit, with redrives between them, against a list of all of them.
    #[test]
    fn a_history_with_redrives_knows_what_a_list_of_all_deaths_knows(
        words in proptest::collection::vec(
            proptest::option::weighted(0.98, (0..90_usize, reason())), 80..500),
        is_stored: bool,
    ) {
        let of = |number: usize| words[number].unwrap_or((0, Reason::Expired));
        let all = deaths(words.len(), of);
        let (mut found, mut since): (Option<History>, Vec<Death>) = (None, Vec::new());
        let mut by_reason = BTreeMap::<_, u64>::new();
        for (number, word) in words.iter().enumerate() {
            let mut next = match (&found, word) {
                (None, None) => continue,
                (Some(history), None) => {
                    since.clear();
                    history.redriven()
                }
                (_, Some(_)) => {
                    since.push(all[number].clone());
                    *by_reason.entry(all[number].reason).or_default() += 1;
                    after(found.as_ref(), &all[number])
                }
            };
            if is_stored && number % 7 == 0 {
                next = History::decode(&stored(&next)).unwrap();
            }
            prop_assert!(next.entries().len() <= HISTORY_ENTRIES_MAX);
            let targets = if number % 16 == 0 { 0..91 } else { number % 91..number % 91 + 1 };
            for target in targets {
                let target = format!("queue-{target:03}");
                prop_assert_eq!(
                    next.is_cycle(&target), naive_is_cycle(&since, &target), "{} after {}", target, number
                );
                prop_assert_eq!(next.is_cycle(&target) && next.cycle_path(&target).is_empty(), false);
            }
            found = Some(next);
        }
        for (history, reason) in found.iter().flat_map(|it| Reason::ALL.map(|reason| (it, reason))) {
            let kept = history.entries().iter().filter(|entry| entry.reason == reason);
            let kept: u64 = kept.map(|entry| entry.count).sum();
            let folded = history.folded().map_or(0, |folded: &Folded| folded.deaths_for(reason));
            prop_assert_eq!(kept + folded, by_reason.get(&reason).copied().unwrap_or(0));
        }
    }
}
