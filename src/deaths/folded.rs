//! Folded entries: totals, and the names of their queues, of entries for which a history has no
//! room.

use thiserror::Error;

use super::{Entry, Reason};
use crate::base::limits::HISTORY_FOLDED_QUEUES_MAX;
use crate::base::{Name, Timestamp, uncount};

/// The history would have to keep one more folded queue than it has room for. The death cannot be
/// recorded without forgetting a queue, and then a cycle might never be noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the history has {HISTORY_FOLDED_QUEUES_MAX} folded queues already, and another one has to be \
     folded"
)]
pub struct HistoryFull;

/// The folded part of a history.
///
/// ```text
/// entries  newest ................ [ first death's ]          kept
/// queues                newest .. |                | .. oldest    folded
///                        newer_than_first
/// ```
///
/// Folded queues are older than all entries but that of the first death, which is kept wherever it
/// is. While it is the oldest entry, newer ones than it were folded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folded {
    /// The queues, by the time of the latest folded death, oldest first. A queue with a newer entry
    /// is not among them.
    pub(super) queues: Vec<FoldedQueue>,
    /// How many at the end of `queues` died after the latest death of the first death's entry.
    pub(super) newer_than_first: usize,
    /// Whether a `rejected` newer than the latest death of the first death's entry was folded.
    pub(super) rejected_since_first: bool,
    /// Number of folded entries; a pair of queue and reason that died again and was folded again
    /// counts each time.
    pub(super) entries: u64,
    /// Number of their deaths, in the order of [`Reason::ALL`].
    pub(super) deaths: [u64; Reason::ALL.len()],
    /// Wall-clock time of the latest of their deaths.
    pub(super) until: Timestamp,
}

/// The queue of folded entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FoldedQueue {
    pub(super) queue: Name,
    /// Whether its latest death, or a later one that was folded, is `rejected`: then it closes no
    /// cycle.
    pub(super) rejected_since: bool,
}

impl Folded {
    pub(super) const fn empty() -> Self {
        Self {
            queues: Vec::new(),
            newer_than_first: 0,
            rejected_since_first: false,
            entries: 0,
            deaths: [0; Reason::ALL.len()],
            until: Timestamp(i64::MIN),
        }
    }

    /// Number of folded entries.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Number of deaths in folded entries.
    pub fn deaths(&self) -> u64 {
        let sum = |sum: u64, deaths: &u64| sum.saturating_add(*deaths);
        self.deaths.iter().fold(0, sum)
    }

    /// Number of deaths in folded entries for one reason.
    pub fn deaths_for(&self, reason: Reason) -> u64 {
        let mut all = Reason::ALL.into_iter().zip(self.deaths);
        all.find(|(one, _)| *one == reason)
            .map_or(0, |(_, deaths)| deaths)
    }

    /// Wall-clock time of the latest death in folded entries.
    pub const fn until(&self) -> Timestamp {
        self.until
    }

    /// The queues without a newer entry, oldest first.
    pub fn queues(&self) -> impl Iterator<Item = &Name> {
        self.queues.iter().map(|folded| &folded.queue)
    }

    /// Bytes of the queues' names.
    pub(super) fn size_bytes(&self) -> usize {
        let sizes = self
            .queues()
            .map(|queue| queue.len() + size_of::<FoldedQueue>());
        sizes.sum()
    }

    /// Folds an entry. `is_known`: a newer entry has its queue. `is_newer_than_first`: the first
    /// death's entry is older than it.
    pub(super) fn fold(
        &mut self,
        entry: &Entry,
        is_known: bool,
        is_newer_than_first: bool,
    ) -> Result<(), HistoryFull> {
        let is_rejected = entry.reason == Reason::Rejected;
        if is_rejected {
            for queue in &mut self.queues {
                queue.rejected_since = true;
            }
            self.rejected_since_first |= is_newer_than_first;
        }
        self.entries = self.entries.saturating_add(1);
        self.until = self.until.max(entry.last_time);
        for (reason, deaths) in Reason::ALL.iter().zip(&mut self.deaths) {
            if *reason == entry.reason {
                *deaths = deaths.saturating_add(entry.count);
            }
        }
        if is_known {
            return Ok(());
        }
        self.forget(&entry.queue);
        if self.queues.len() >= HISTORY_FOLDED_QUEUES_MAX {
            return Err(HistoryFull);
        }
        self.queues.push(FoldedQueue {
            queue: entry.queue.clone(),
            rejected_since: is_rejected,
        });
        self.newer_than_first += usize::from(is_newer_than_first);
        Ok(())
    }

    /// Whether a queue is among the folded ones.
    pub(super) fn has(&self, queue: &str) -> bool {
        self.queues().any(|folded| folded.as_str() == queue)
    }

    /// Removes a queue that died again and has an entry for that.
    pub(super) fn forget(&mut self, queue: &str) {
        let place = self.queues().position(|folded| folded.as_str() == queue);
        let Some(place) = place else {
            return;
        };
        if place + self.newer_than_first >= self.queues.len() {
            uncount!(
                self.newer_than_first,
                1,
                "a queue that is newer than the first was counted"
            );
        }
        self.queues.remove(place);
    }

    /// Removes all queues: these entries close no cycle any more. Their totals stay.
    pub(super) fn forget_all(&mut self) {
        self.queues.clear();
        self.first_died_again();
    }

    /// Notes that the first death's entry died again: it is newer than all folded queues.
    pub(super) const fn first_died_again(&mut self) {
        self.newer_than_first = 0;
        self.rejected_since_first = false;
    }

    /// The queues newer than the first death's entry, and the older ones, each newest first.
    pub(super) fn around_first(
        &self,
    ) -> (
        impl Iterator<Item = &FoldedQueue>,
        impl Iterator<Item = &FoldedQueue>,
    ) {
        let older = self.queues.len() - self.newer_than_first;
        let (older, newer) = self.queues.split_at(older);
        (newer.iter().rev(), older.iter().rev())
    }
}
