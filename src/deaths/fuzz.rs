//! Entry point for fuzzing: checks invariants that hold for any bytes, and panics when one does
//! not.

use std::sync::Arc;

use super::{Death, Folded, History, Reason, decode_deaths};
use crate::base::limits::{HISTORY_ENTRIES_MAX, HISTORY_FOLDED_QUEUES_MAX};
use crate::base::{Name, Timestamp};

/// Checks that what can be read as a stored history or as `x-opt-deaths` survives a round trip.
pub fn fuzz_deaths(data: &[u8]) {
    if let Ok(history) = History::decode(data) {
        let mut encoded = Vec::new();
        history.encode(&mut encoded);
        assert!(
            History::decode(&encoded).as_ref() == Ok(&history),
            "a history survives a round trip"
        );
        record_in(&history, data);
    }
    if let Ok(entries) = decode_deaths(data) {
        assert!(entries.len() <= data.len(), "every entry takes bytes");
    }
}

/// Checks that recording one more death adds one to the count, and that the result is bounded.
fn record_in(history: &History, data: &[u8]) {
    let queue = if data.len().is_multiple_of(2) {
        "new"
    } else {
        ""
    };
    let death = Death {
        queue: Name::from(queue),
        reason: Reason::Expired,
        time: Timestamp(0),
        exchange: Name::default(),
        routing_keys: Arc::from([Name::default()]),
        ttl: None,
        evidence: None,
    };
    let Ok(next) = History::record(Some(history), &death) else {
        return;
    };
    let queues = |history: &History| history.folded().map_or(0, |folded| folded.queues().count());
    assert!(
        next.entries().len() <= HISTORY_ENTRIES_MAX
            && queues(&next) <= HISTORY_FOLDED_QUEUES_MAX.max(queues(history)),
        "a history is bounded"
    );
    assert!(
        total(history) >= u128::from(u64::MAX) || total(&next) == total(history) + 1,
        "every death is counted, as far as numbers go"
    );
    assert!(
        next.first() == history.first(),
        "the first death stays what it was"
    );
    assert!(
        next.quarantined().is_none(),
        "what dies anew is in no quarantine"
    );
    let _ = (next.is_cycle(queue), next.cycle_path(""));
    let _ = history.quarantine_path();
}

/// Number of deaths in a history, folded ones included.
fn total(history: &History) -> u128 {
    let kept = history
        .entries()
        .iter()
        .map(|entry| u128::from(entry.count));
    kept.sum::<u128>() + u128::from(history.folded().map_or(0, Folded::deaths))
}
