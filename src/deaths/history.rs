//! A history: how deaths are recorded in it, and the cycle rule.

use std::sync::Arc;

use super::{Death, Entry, Point, Reason};
use crate::base::Name;

/// All deaths of one message, compressed by (queue, reason).
///
/// ```text
/// entries   newest .......................... oldest     by the latest death of each
///           [ (queue, reason) count ] [ ... ] [ ... ]
///             ^ latest death            ^ first: the entry of the very first death, wherever it is
/// ```
///
/// An entry keeps what its own first death wrote (exchange, keys, ttl), so the first death of all can
/// be read from its entry, and of the latest only the exchange has to be kept beside the newest one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// Newest first; never empty. The next history shares all but the one that its death changed.
    entries: Vec<Arc<Entry>>,
    /// Place of the first death's entry: an entry keeps what its own first death wrote.
    first: usize,
    /// Exchange before the latest death; its queue and reason are those of the newest entry.
    last_exchange: Name,
}

impl History {
    /// The history after one more death. [dead-lettering part 3]
    ///
    /// A repeated (queue, reason) raises the count, moves the time of the latest death and goes to
    /// the front; everything else of it stays. Times never fall along one message, also when the
    /// wall clock does.
    #[must_use]
    pub fn record(previous: Option<&Self>, death: &Death) -> Self {
        let older = previous.map_or(&[][..], Self::entries);
        let place = older.iter().position(|entry| {
            entry.reason == death.reason && entry.queue.as_str() == death.queue.as_str()
        });
        let newest_time = older.first().map_or(death.time, |newest| newest.last_time);
        let time = death.time.max(newest_time);
        let mut entries = Vec::with_capacity(older.len() + usize::from(place.is_none()));
        let known = place.and_then(|place| older.get(place));
        entries.push(Arc::new(match known {
            Some(known) => Entry {
                count: known.count.saturating_add(1),
                last_time: time,
                evidence: death.evidence.clone(),
                ..(**known).clone()
            },
            None => Entry {
                queue: death.queue.clone(),
                reason: death.reason,
                count: 1,
                first_time: time,
                last_time: time,
                exchange: death.exchange.clone(),
                routing_keys: death.routing_keys.clone(),
                ttl: death.ttl,
                evidence: death.evidence.clone(),
            },
        }));
        let (newer, rest) = older.split_at(place.unwrap_or(older.len()));
        entries.extend_from_slice(newer);
        entries.extend_from_slice(rest.get(1..).unwrap_or_default());
        let first = match (previous.map(|history| history.first), place) {
            (None, _) => 0,
            (Some(first), Some(place)) if first == place => 0,
            (Some(first), Some(place)) if first > place => first,
            (Some(first), _) => first + 1,
        };
        Self {
            entries,
            first,
            last_exchange: death.exchange.clone(),
        }
    }

    /// Puts together a history that was stored; nothing if its parts do not fit.
    pub(super) fn from_parts(
        entries: Vec<Entry>,
        first: usize,
        last_exchange: Name,
    ) -> Option<Self> {
        (first < entries.len()).then(|| Self {
            entries: entries.into_iter().map(Arc::new).collect(),
            first,
            last_exchange,
        })
    }

    /// The entries, newest first; never empty.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Place of the first death's entry among the entries.
    pub(super) const fn first_place(&self) -> usize {
        self.first
    }

    /// The first death; never changes from then on.
    pub fn first(&self) -> Point<'_> {
        let Some(entry) = self.entries.get(self.first) else {
            unreachable!("the first death has an entry");
        };
        Point {
            queue: &entry.queue,
            reason: entry.reason,
            exchange: &entry.exchange,
        }
    }

    /// The latest death.
    pub fn last(&self) -> Point<'_> {
        let Some(newest) = self.entries.first() else {
            unreachable!("a history begins with a death");
        };
        Point {
            queue: &newest.queue,
            reason: newest.reason,
            exchange: &self.last_exchange,
        }
    }

    /// Whether a message that just died for another reason than `rejected` turns in a loop by itself
    /// if it goes to `target`: the target stands in this history (which has that death already), and
    /// neither its newest entry nor any newer one is `rejected`. [dead-lettering part 4]
    pub fn is_cycle(&self, target: &str) -> bool {
        for entry in &self.entries {
            if entry.reason == Reason::Rejected {
                return false;
            }
            if entry.queue.as_str() == target {
                return true;
            }
        }
        false
    }

    /// The queues of the loop that would close at `target`, in the order in which they were passed,
    /// the target first and last: for a log line. Empty if the target is not in the history.
    pub fn cycle_path(&self, target: &str) -> Vec<Name> {
        let Some(place) = self
            .entries
            .iter()
            .position(|entry| entry.queue.as_str() == target)
        else {
            return Vec::new();
        };
        let mut path = Vec::with_capacity(place + 2);
        path.extend(
            self.entries
                .iter()
                .take(place + 1)
                .rev()
                .map(|entry| entry.queue.clone()),
        );
        path.dedup();
        path.extend(path.first().cloned());
        path
    }
}
