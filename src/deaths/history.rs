//! The death history of a message: recording of deaths, and the cycle rule.

use std::fmt;
use std::sync::Arc;

use super::folded::{Folded, FoldedQueue, HistoryFull};
use super::{Death, Entry, Evidence, Point, Quarantined, Reason, Viewer, evidence};
use crate::base::limits::{HISTORY_ENTRIES_BYTES_MAX, HISTORY_ENTRIES_MAX};
use crate::base::{Account, Gauge, Name, uncount};

/// All deaths of one message, compressed by (queue, reason).
///
/// ```text
/// entries   newest .......................... oldest     by the latest death of each
///           [ (queue, reason) count ] [ ... ] [ ... ]
///             ^ latest death            ^ first: the entry of the very first death, wherever it is
/// folded    what is left of the oldest ones, when there were too many
/// ```
///
/// An entry keeps what its own first death wrote (exchange, keys, ttl), so the first death of all can
/// be read from its entry, and of the latest only the exchange has to be kept beside the newest one.
#[derive(Clone)]
pub struct History {
    /// Newest first; never empty. The history after the next death shares all but the one that the
    /// death changes.
    entries: Vec<Arc<Entry>>,
    /// Index of the first death's entry, which keeps the exchange, keys and ttl of that death.
    first: usize,
    /// The exchange before the latest death; its queue and reason are those of the newest entry.
    last_exchange: Name,
    /// Sum of [`Entry::size_bytes`] over the entries.
    entries_bytes: usize,
    /// Totals of the entries that were folded; none if there are none.
    folded: Option<Arc<Folded>>,
    /// Number of newest entries that are younger than the latest redrive; none: there was none.
    /// Older entries are shown, and close no cycle.
    fence: Option<usize>,
    /// Why its message is in the quarantine; none if it is not.
    quarantined: Option<Arc<Quarantined>>,
    /// Bytes of the stored form it was read from, which then owns its names; 0: it was not read.
    read_bytes: usize,
    /// The gauge that its memory is charged to.
    account: Account,
}

/// Shows what the history says; its memory depends on where it was read from.
impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            entries,
            first,
            last_exchange,
            entries_bytes: _,
            folded,
            fence,
            quarantined,
            read_bytes: _,
            account: _,
        } = self;
        f.debug_struct("History")
            .field("entries", entries)
            .field("first", first)
            .field("last_exchange", last_exchange)
            .field("folded", folded)
            .field("fence", fence)
            .field("quarantined", quarantined)
            .finish()
    }
}

/// The parts of a stored history besides its entries, each present only if needed.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) folded: Option<Folded>,
    pub(super) fence: Option<usize>,
    pub(super) quarantined: Option<Quarantined>,
}

/// A queue in a history, on the way back from the latest death.
#[derive(Clone, Copy, Debug)]
struct Passed<'a> {
    queue: &'a Name,
    /// Whether it is an entry for the reason `rejected`.
    is_rejected: bool,
    /// Whether a newer `rejected` was folded.
    rejected_since: bool,
}

/// Estimated memory of an entry without its names, in bytes.
const ENTRY_BYTES: usize = 192;
/// Estimated memory of a folded queue, in bytes.
const FOLDED_BYTES: usize = 64;
/// Number of deaths whose evidence is always below the bound of all together.
const EVIDENCE_FITS: usize = 2;

/// Compares what the histories say, whatever they were read from.
impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
            && self.first == other.first
            && self.last_exchange == other.last_exchange
            && self.folded == other.folded
            && self.fence == other.fence
            && self.quarantined == other.quarantined
    }
}

impl Eq for History {}

impl History {
    /// The history with one more death. [dead-lettering part 3]
    ///
    /// A repeated (queue, reason) raises the count, moves the time of the latest death and goes to
    /// the front; everything else of it stays. Times never fall along one message, also when the
    /// wall clock does. Entries beyond the limit are folded, the oldest first, but never that of
    /// the first death.
    pub fn record(previous: Option<&Self>, death: &Death) -> Result<Self, HistoryFull> {
        let mut history = Self::with_death(previous, death);
        while history.is_too_large() {
            history.fold()?;
        }
        if history.entries.len() > EVIDENCE_FITS {
            evidence::bound(&mut history.entries);
        }
        Ok(history)
    }

    fn with_death(previous: Option<&Self>, death: &Death) -> Self {
        let older = previous.map_or(&[][..], Self::entries);
        let place = older.iter().position(|entry| {
            entry.reason == death.reason && entry.queue.as_str() == death.queue.as_str()
        });
        let newest_time = older.first().map(|newest| newest.last_time);
        let time = newest_time.unwrap_or(death.time).max(death.time);
        let mut entries = Vec::with_capacity(older.len() + usize::from(place.is_none()));
        let known = place.and_then(|place| older.get(place));
        let newest = Arc::new(match known {
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
                routing_keys: shared_keys(older, &death.routing_keys),
                ttl: death.ttl,
                evidence: death.evidence.clone(),
            },
        });
        let added_bytes = known.map_or_else(|| newest.size_bytes(), |_| 0);
        let entries_bytes = previous.map_or(0, |history| history.entries_bytes) + added_bytes;
        entries.push(newest);
        let (newer, rest) = older.split_at(place.unwrap_or(older.len()));
        entries.extend_from_slice(newer);
        entries.extend_from_slice(rest.get(1..).unwrap_or_default());
        let mut folded = previous.and_then(|history| history.folded.clone());
        let first = match (previous.map(|history| history.first), place) {
            (None, _) => 0,
            (Some(first), Some(place)) if first == place => {
                if let Some(folded) = &mut folded {
                    Arc::make_mut(folded).first_died_again();
                }
                0
            }
            (Some(first), Some(place)) if first > place => first,
            (Some(first), _) => first + 1,
        };
        if let Some(folded) = &mut folded
            && folded.has(&death.queue)
        {
            Arc::make_mut(folded).forget(&death.queue);
        }
        // An entry that moves to the front across the fence is on its near side from then on.
        let fence = previous.and_then(|history| history.fence);
        let fence = fence.map(|fence| match place {
            Some(place) if place < fence => fence,
            _ => fence + 1,
        });
        Self {
            entries,
            first,
            last_exchange: death.exchange.clone(),
            entries_bytes,
            folded,
            fence,
            quarantined: None,
            read_bytes: 0,
            account: Account::default(),
        }
    }

    /// Whether entries have to be folded. Those of the first and the latest death are always kept.
    const fn is_too_large(&self) -> bool {
        self.entries.len() > HISTORY_ENTRIES_MAX
            || (self.entries_bytes > HISTORY_ENTRIES_BYTES_MAX && self.entries.len() > 2)
    }

    /// Folds the oldest entry that is not the first death's.
    fn fold(&mut self) -> Result<(), HistoryFull> {
        let last = self.entries.len().saturating_sub(1);
        let is_newer_than_first = self.first == last;
        let place = if is_newer_than_first {
            last.saturating_sub(1)
        } else {
            last
        };
        let entry = self.entries.remove(place);
        uncount!(
            self.entries_bytes,
            entry.size_bytes(),
            "bytes of an entry that is folded were counted"
        );
        if is_newer_than_first {
            self.first = place;
        }
        let mut newer = self.entries.iter().take(place);
        let is_known = newer.any(|newer| *newer.queue == *entry.queue);
        // Entries behind the fence leave their totals, and no name: they close no cycle.
        let is_behind_fence = self.fence.is_some_and(|fence| place >= fence);
        if let Some(fence) = &mut self.fence
            && !is_behind_fence
        {
            *fence -= 1;
        }
        let folded = self.folded.get_or_insert_with(|| Folded::empty().into());
        Arc::make_mut(folded).fold(&entry, is_known || is_behind_fence, is_newer_than_first)
    }

    /// Estimated bytes of the history without evidence and keys.
    pub fn about_bytes(&self) -> usize {
        let folded = self.folded.as_ref().map_or(0, |folded| folded.queues.len());
        self.entries.len() * ENTRY_BYTES + folded * FOLDED_BYTES
    }

    /// Charges its memory and that of its evidence to the gauge, once for all that share it.
    pub fn charge(&self, gauge: &Gauge) {
        let bytes = || (self.about_bytes() + self.read_bytes) as u64;
        if self.account.open(gauge, bytes) {
            for evidence in self.entries.iter().flat_map(|entry| &entry.evidence) {
                evidence.charge(gauge);
            }
        }
    }

    /// Builds a history from its stored parts, which had `read_bytes` bytes; none if they do not
    /// fit together.
    pub(super) fn from_parts(
        entries: Vec<Entry>,
        first: usize,
        last_exchange: Name,
        Parts {
            folded,
            fence,
            quarantined,
        }: Parts,
        read_bytes: usize,
    ) -> Option<Self> {
        let is_oldest = entries.len().checked_sub(1) == Some(first);
        let fits = folded.as_ref().is_none_or(|folded| {
            let newer = folded.newer_than_first;
            (is_oldest && newer <= folded.queues.len())
                || (newer == 0 && !folded.rejected_since_first)
        });
        let fits = fits && fence.is_none_or(|fence| fence <= entries.len());
        (first < entries.len() && fits).then(|| Self {
            entries_bytes: entries.iter().map(Entry::size_bytes).sum(),
            entries: entries.into_iter().map(Arc::new).collect(),
            first,
            last_exchange,
            folded: folded.map(Arc::new),
            fence,
            quarantined: quarantined.map(Arc::new),
            read_bytes,
            account: Account::default(),
        })
    }

    /// The folded entries; usually none.
    pub fn folded(&self) -> Option<&Folded> {
        self.folded.as_deref()
    }

    /// The history of a message that is redriven after these deaths: they stay shown and counted,
    /// but the cycle rule looks back only to here. Otherwise a death on the way to where it was
    /// redriven from would count as a cycle. [evidence part 3]
    #[must_use]
    pub fn redriven(&self) -> Self {
        let mut folded = self.folded.clone();
        if let Some(folded) = &mut folded {
            Arc::make_mut(folded).forget_all();
        }
        Self {
            folded,
            fence: Some(0),
            quarantined: None,
            account: Account::default(),
            ..self.clone()
        }
    }

    /// Number of deaths, those of folded entries included.
    pub fn deaths(&self) -> u64 {
        let kept: u64 = self.entries.iter().map(|entry| entry.count).sum();
        kept + self.folded().map_or(0, Folded::deaths)
    }

    /// Whether it died since the latest redrive; true if it was never redriven.
    pub fn died_since_redrive(&self) -> bool {
        self.fence != Some(0)
    }

    /// The entry of the first death.
    pub fn first_entry(&self) -> &Arc<Entry> {
        let Some(entry) = self.entries.get(self.first) else {
            unreachable!("the first death has an entry");
        };
        entry
    }

    /// The newest entry of a death by a consumer, which is where the message failed; without one
    /// that of the first death. [evidence part 6: `origin`]
    pub fn origin(&self) -> &Arc<Entry> {
        let is_failure =
            |entry: &&Arc<Entry>| matches!(entry.reason, Reason::Rejected | Reason::DeliveryLimit);
        let failed = self.entries.iter().find(is_failure);
        failed.unwrap_or_else(|| self.first_entry())
    }

    /// The newest entry of a queue.
    pub fn entry_of(&self, queue: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| *entry.queue == *queue)
    }

    /// Number of newest entries that are younger than the latest redrive; none if there was none.
    pub(super) const fn fence(&self) -> Option<usize> {
        self.fence
    }

    /// Whether its message was redriven since its first death.
    pub const fn was_redriven(&self) -> bool {
        self.fence.is_some()
    }

    /// This history as a viewer may see it: without the names and addresses of other users.
    #[must_use]
    pub fn seen_by(&self, viewer: Viewer<'_>) -> Self {
        let mut seen = self.clone();
        for entry in &mut seen.entries {
            let hidden = entry.evidence.as_ref().filter(|it| !viewer.may_see(it));
            if let Some(evidence) = hidden {
                let evidence = Evidence {
                    user: None,
                    by_token: false,
                    address: None,
                    account: Account::default(),
                    ..(**evidence).clone()
                };
                Arc::make_mut(entry).evidence = Some(Arc::new(evidence));
            }
        }
        seen.account = Account::default();
        seen
    }

    /// Why its message is in the quarantine; none if it is not.
    pub fn quarantined(&self) -> Option<&Quarantined> {
        self.quarantined.as_deref()
    }

    /// This history as its message has it in the quarantine. The next death removes that.
    #[must_use]
    pub fn quarantined_for(&self, why: Quarantined) -> Self {
        Self {
            quarantined: Some(Arc::new(why)),
            account: Account::default(),
            ..self.clone()
        }
    }

    /// The queues of the cycle for which its message is in the quarantine, in order; empty if it is
    /// there for another cause, or not at all.
    pub fn quarantine_path(&self) -> Vec<Name> {
        let closes_at = self.quarantined().and_then(|why| why.closes_at.as_ref());
        closes_at.map_or_else(Vec::new, |queue| self.cycle_path(queue))
    }

    /// Estimate of its memory from above, in bytes; it shares much of that with the history before
    /// it.
    pub fn size_bytes(&self) -> usize {
        let folded = self.folded().map_or(0, Folded::size_bytes);
        size_of::<Self>() + self.entries_bytes + folded
    }

    /// The entries, newest first; never empty.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Index of the first death's entry.
    pub(super) const fn first_place(&self) -> usize {
        self.first
    }

    /// The first death; it never changes.
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

    /// Whether a message that just died for another reason than `rejected` would go round in a
    /// cycle without a rejection if it were sent to `target`: the target is in this history (which
    /// has that death already), and neither its newest entry nor any newer one is `rejected`.
    /// [dead-lettering part 4]
    pub fn is_cycle(&self, target: &str) -> bool {
        for passed in self.back() {
            if passed.is_rejected {
                return false;
            }
            if passed.queue.as_str() == target {
                return !passed.rejected_since;
            }
        }
        false
    }

    /// The queues of the cycle that would close at `target`, in the order in which they were
    /// passed, the target first and last: for the log. Empty if the target is not in the history.
    pub fn cycle_path(&self, target: &str) -> Vec<Name> {
        let back = || self.back().map(|passed| passed.queue);
        let Some(place) = back().position(|queue| queue.as_str() == target) else {
            return Vec::new();
        };
        let mut path: Vec<Name> = back().take(place + 1).cloned().collect();
        path.reverse();
        path.dedup();
        path.extend(path.first().cloned());
        path
    }

    /// The queues from the latest death back to the oldest, those of folded entries at their place,
    /// or back to the latest redrive.
    fn back(&self) -> impl Iterator<Item = Passed<'_>> {
        let folded = self.folded();
        let is_first_oldest = folded.is_some() && self.first + 1 == self.entries.len();
        let newer = self.entries.len() - usize::from(is_first_oldest);
        let (newer, first) = self.entries.split_at_checked(newer).unwrap_or_default();
        let seen = self.fence.unwrap_or(usize::MAX);
        let first = if self.first < seen { first } else { &[] };
        let since_first = folded.is_some_and(|folded| folded.rejected_since_first);
        let (newer_folded, older_folded) = folded.map(Folded::around_first).unzip();
        let kept = |entry| Passed::entry(entry, false);
        let oldest = move |entry| Passed::entry(entry, since_first);
        (newer.iter().take(seen).map(kept))
            .chain(newer_folded.into_iter().flatten().map(Passed::folded))
            .chain(first.iter().map(oldest))
            .chain(older_folded.into_iter().flatten().map(Passed::folded))
    }
}

impl<'a> Passed<'a> {
    fn entry(entry: &'a Arc<Entry>, rejected_since: bool) -> Self {
        Self {
            queue: &entry.queue,
            is_rejected: entry.reason == Reason::Rejected,
            rejected_since,
        }
    }

    const fn folded(folded: &'a FoldedQueue) -> Self {
        Self {
            queue: &folded.queue,
            is_rejected: false,
            rejected_since: folded.rejected_since,
        }
    }
}

/// The keys of an entry if they are equal, so that the allocation is shared: most messages keep
/// their keys, and those of a message with CC keys are many.
fn shared_keys(entries: &[Arc<Entry>], keys: &Arc<[Name]>) -> Arc<[Name]> {
    if keys.len() < 2 {
        return Arc::clone(keys);
    }
    let mut known = entries.iter().map(|entry| &entry.routing_keys);
    Arc::clone(known.find(|known| *known == keys).unwrap_or(keys))
}
