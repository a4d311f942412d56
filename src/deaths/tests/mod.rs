//! Claims about recording, the cycle rule and the encodings.

mod cycles;
mod encodings;
mod evidence;
mod fence;
mod folding;
mod quarantined;
mod recording;
mod sharing;

use std::sync::Arc;

use super::{Death, Entry, History, Reason};
use crate::base::{Name, Timestamp};

/// A death in `queue` of a message that came through the default exchange under the queue's name.
fn death(queue: &str, reason: Reason, time: i64) -> Death {
    Death {
        queue: queue.into(),
        reason,
        time: Timestamp(time),
        exchange: Name::default(),
        routing_keys: Arc::from([Name::from(queue)]),
        ttl: None,
        evidence: None,
    }
}

/// The history after these deaths, the first one first.
fn history(deaths: &[Death]) -> History {
    let (first, rest) = deaths.split_first().unwrap();
    let first = after(None, first);
    rest.iter()
        .fold(first, |history, death| after(Some(&history), death))
}

/// The history after one more death, for which it has room.
fn after(previous: Option<&History>, death: &Death) -> History {
    History::record(previous, death).unwrap()
}

/// The entries without what they share.
fn entries(history: &History) -> Vec<Entry> {
    let entries = history.entries().iter();
    entries.map(|entry| (**entry).clone()).collect()
}
