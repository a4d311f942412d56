//! The events of all vhosts: a ring for each, filled behind the core's lock and read by streams.
//! [evidence part 10]
//!
//! ```text
//!   Effects::events --under the core's lock--> staged --Ring::settle, without it--> ring
//! ```
//!
//! An event is told once the record that holds what it tells is durable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::base::limits::{EVENTS_BYTES_MAX, EVENTS_KEPT_MAX, EVENTS_MEMORY_PART};
use crate::base::locks::{RankedMutex, RankedRwLock, rank};
use crate::base::{Lsn, Name, Position, uncount, uncount_atomic};
use crate::broker::Core;
use crate::broker::event::{EventNumbers, VhostEvent};
use crate::broker::event_runs::{EventItem, EventRun, EventRuns};

/// Events that are let go of under one hold of a ring's lock when all rings have too many bytes.
const TRIM: usize = 256;
/// Events for which memory stays between two holds of the core's lock.
const STAGED_KEPT_MAX: usize = 256;

/// The events of all vhosts.
#[derive(Debug)]
pub(crate) struct Events {
    shared: Arc<SharedEvents>,
    /// The numbers that the vhosts of this broker give to events.
    numbers: EventNumbers,
    /// The first number that may be given since the start.
    begun: AtomicU64,
    /// Events that streams missed.
    missed: AtomicU64,
}

/// What the rings share.
#[derive(Debug)]
struct SharedEvents {
    /// Bytes in all rings.
    bytes: AtomicUsize,
    /// Beyond so many the oldest events go.
    bytes_max: AtomicUsize,
    rings: RankedRwLock<rank::EventRings, Vec<Arc<VhostEvents>>>,
}

/// The bound of the memory of all events.
#[derive(Clone, Debug)]
pub(crate) struct EventsBound {
    shared: Arc<SharedEvents>,
}

/// The events of one vhost.
#[derive(Debug)]
pub(crate) struct VhostEvents {
    vhost: Name,
    shared: Arc<SharedEvents>,
    staged: RankedMutex<rank::EventsStaged, Staged>,
    ring: RankedMutex<rank::EventRing, Ring>,
}

/// Events of holds of the core's lock that ended, or are about to.
#[derive(Debug, Default)]
struct Staged {
    events: EventRuns,
    /// The record that the last of them waits for.
    lsn: Lsn,
}

#[derive(Debug, Default)]
struct Ring {
    runs: VecDeque<KeptRun>,
    /// The items of all runs; of the first run those that are left.
    items: VecDeque<EventItem>,
    /// Number of events that were let go of.
    passed: u64,
    /// The number of the last of them.
    passed_to: u64,
    /// The record that the last event waits for.
    lsn: Lsn,
    bytes: usize,
}

#[derive(Debug)]
struct KeptRun {
    run: EventRun,
    /// Number of events before its first one, since the start.
    index: u64,
    /// The record that it waits for.
    lsn: Lsn,
    bytes: usize,
}

/// Where a reader of one ring is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct EventCursor {
    /// Number of events of this vhost, since the start, that are behind it.
    index: u64,
}

/// What a reader found.
#[derive(Debug, Default)]
pub(crate) struct EventsRead {
    /// Events in order.
    pub(crate) events: Vec<Arc<VhostEvent>>,
    /// The cursor in front of them.
    pub(crate) from: EventCursor,
    /// The number of the event behind them, if there is one: it is not durable yet, or was not asked for.
    pub(crate) next: Option<u64>,
    /// Events that were let go of before they were read.
    pub(crate) missed: u64,
}

impl Events {
    /// No events yet.
    pub(crate) fn new(numbers: EventNumbers) -> Self {
        Self {
            shared: Arc::default(),
            begun: AtomicU64::new(numbers.next()),
            numbers,
            missed: AtomicU64::new(0),
        }
    }

    /// The bound of their memory.
    pub(crate) fn bound(&self) -> EventsBound {
        EventsBound {
            shared: Arc::clone(&self.shared),
        }
    }

    /// The first number that may be given since the start.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Events that streams were not told.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Counts events that a stream was not told.
    pub(crate) fn count_missed(&self, missed: u64) {
        self.missed.fetch_add(missed, Ordering::Relaxed);
    }

    /// What tells this start of the broker from all others, in ids of events.
    pub(crate) const fn origin(&self) -> u64 {
        self.numbers.origin()
    }

    /// The number that the next event will have.
    pub(crate) fn next(&self) -> u64 {
        self.numbers.next()
    }

    /// A ring for a vhost, whose events are numbered with those of all others from now on.
    pub(crate) fn ring(&self, core: &mut Core) -> Arc<VhostEvents> {
        if self.numbers.raise(core.event_numbers_below()) {
            self.begun.fetch_max(self.numbers.next(), Ordering::Relaxed);
        }
        core.number_events_by(self.numbers.clone());
        let ring = Arc::new(VhostEvents {
            vhost: core.vhost().clone(),
            shared: Arc::clone(&self.shared),
            staged: RankedMutex::default(),
            ring: RankedMutex::default(),
        });
        let mut rings = self.shared.rings.write();
        rings.retain(|known| known.vhost != ring.vhost);
        rings.push(Arc::clone(&ring));
        ring
    }

    /// Forgets the events of a vhost that was deleted.
    pub(crate) fn forget(&self, vhost: &str) {
        let mut rings = self.shared.rings.write();
        rings.retain(|ring| *ring.vhost != *vhost);
    }
}

impl EventCursor {
    /// The cursor so many events further.
    pub(crate) const fn behind(self, count: usize) -> Self {
        Self {
            index: self.index + count as u64,
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new(EventNumbers::default())
    }
}

impl VhostEvents {
    /// Takes the events of a hold of the core's lock, under that lock; `lsn`: its last record.
    pub(crate) fn stage(&self, events: &mut EventRuns, lsn: Lsn) {
        let mut staged = self.staged.lock();
        staged.events.append(events);
        staged.lsn = staged.lsn.max(lsn);
    }

    /// Puts what was staged into the ring; not under the core's lock.
    pub(crate) fn settle(&self) {
        let mut ring = self.ring.lock();
        // Whoever comes later finds these in the ring, so they stay in order.
        let mut staged = self.staged.lock();
        let (mut events, lsn) = (std::mem::take(&mut staged.events), staged.lsn);
        drop(staged);
        if events.is_empty() {
            return;
        }
        ring.lsn = ring.lsn.max(lsn);
        let before = ring.bytes;
        ring.add(&mut events);
        let all = self.shared.change(before, ring.bytes);
        drop(ring);
        self.reuse(events);
        if all > self.shared.bytes_max.load(Ordering::Relaxed) {
            self.shared.trim();
        }
    }

    /// Lets the next events have the memory of those that were settled, unless it is much.
    fn reuse(&self, events: EventRuns) {
        if events.capacity() > STAGED_KEPT_MAX {
            return;
        }
        let mut staged = self.staged.lock();
        if staged.events.capacity() == 0 {
            staged.events = events;
        }
    }

    /// A cursor behind all events so far.
    pub(crate) fn end(&self) -> EventCursor {
        let ring = self.ring.lock();
        EventCursor { index: ring.end() }
    }

    /// A cursor in front of the oldest event that is kept.
    pub(crate) fn start(&self) -> EventCursor {
        let index = self.ring.lock().passed;
        EventCursor { index }
    }

    /// A cursor behind the event with this number, and whether later ones were let go of.
    pub(crate) fn behind(&self, number: u64) -> (EventCursor, bool) {
        let ring = self.ring.lock();
        let index = ring.behind(number);
        (EventCursor { index }, ring.passed_to > number)
    }

    /// Reads up to `count` events that are durable and have numbers below `below`.
    pub(crate) fn read(
        &self,
        cursor: EventCursor,
        count: usize,
        (durable, below): (Lsn, u64),
    ) -> EventsRead {
        let ring = self.ring.lock();
        let missed = ring.passed.saturating_sub(cursor.index);
        let index = cursor.index.max(ring.passed);
        let is_told = |kept: &KeptRun, number| kept.lsn <= durable && number < below;
        let mut read = EventsRead {
            from: EventCursor { index },
            missed,
            ..EventsRead::default()
        };
        for (kept, number, item) in ring.events_from(index) {
            if read.events.len() >= count || !is_told(kept, number) {
                read.next = Some(number);
                break;
            }
            read.events.push(Arc::new(kept.run.event(number, item)));
        }
        read
    }

    /// The latest event about a message that was at this position of a queue.
    pub(crate) fn last_of(&self, queue: &str, position: Position) -> Option<Arc<VhostEvent>> {
        let ring = self.ring.lock();
        let mut end = ring.items.len();
        for kept in ring.runs.iter().rev() {
            let begin = ring.place(kept.index);
            let is_of_queue = kept.run.queue_of_messages().map(|name| &**name) == Some(queue);
            let mut items = ring.items.range(begin..end);
            if is_of_queue && let Some(found) = items.rposition(|item| item.is_at(position)) {
                let place = begin + found;
                let number = kept.run.first + (ring.passed + place as u64 - kept.index);
                return Some(Arc::new(kept.run.event(number, ring.items.get(place)?)));
            }
            end = begin;
        }
        None
    }

    /// The number of the oldest event, if there is one.
    fn oldest(&self) -> Option<u64> {
        let ring = self.ring.lock();
        let (_, number, _) = ring.events_from(ring.passed).next()?;
        Some(number)
    }

    /// Lets go of some of the oldest events.
    fn let_go(&self, count: usize) -> usize {
        let mut ring = self.ring.lock();
        let before = ring.bytes;
        let mut gone = Vec::with_capacity(count);
        while gone.len() < count
            && let Some(event) = ring.pop()
        {
            gone.push(event);
        }
        let all = self.shared.change(before, ring.bytes);
        drop(ring);
        all
    }
}

impl Drop for VhostEvents {
    fn drop(&mut self) {
        let bytes = self.ring.lock().bytes;
        self.shared.change(bytes, 0);
    }
}

impl Default for SharedEvents {
    fn default() -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(EVENTS_BYTES_MAX),
            rings: RankedRwLock::default(),
        }
    }
}

impl EventsBound {
    /// Lets events take a part of the memory that there is, in bytes; 0: no limit. What they refer to counts
    /// as memory of messages: without this it could hold publishers up for ever.
    pub(crate) fn set_memory_limit(&self, limit_bytes: u64) {
        let part = usize::try_from(limit_bytes / EVENTS_MEMORY_PART).unwrap_or(usize::MAX);
        let max = if limit_bytes == 0 {
            EVENTS_BYTES_MAX
        } else {
            part.min(EVENTS_BYTES_MAX)
        };
        self.shared.bytes_max.store(max, Ordering::Relaxed);
        if self.shared.bytes.load(Ordering::Relaxed) > max {
            self.shared.trim();
        }
    }
}

impl SharedEvents {
    /// Counts the bytes of a ring; returns those of all. The ring is still locked: without that, events
    /// could be let go of before they are counted, and the sum fall below 0.
    fn change(&self, before: usize, after: usize) -> usize {
        self.bytes.fetch_add(after, Ordering::Relaxed);
        let all = uncount_atomic!(
            self.bytes,
            before,
            Ordering::Relaxed,
            "bytes of a ring were counted"
        );
        all.saturating_sub(before)
    }

    /// Lets go of the oldest events of all vhosts until they have few enough bytes.
    fn trim(&self) {
        loop {
            let rings = self.rings.read();
            let oldest = rings.iter().filter_map(|ring| Some((ring.oldest()?, ring)));
            let oldest = oldest.min_by_key(|(number, _)| *number);
            let Some(ring) = oldest.map(|(_, ring)| Arc::clone(ring)) else {
                return;
            };
            drop(rings);
            if ring.let_go(TRIM) <= self.bytes_max.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl Ring {
    /// Number of all events since the start.
    fn end(&self) -> u64 {
        self.passed + self.items.len() as u64
    }

    /// Where the item of the event with this index is; 0 for those that were let go of.
    fn place(&self, index: u64) -> usize {
        usize::try_from(index.saturating_sub(self.passed)).unwrap_or(usize::MAX)
    }

    /// Adds events, and lets go of the oldest above the limit.
    fn add(&mut self, events: &mut EventRuns) {
        let (runs, items) = events.drain();
        let mut index = self.end();
        for run in runs {
            let bytes = run.kept_bytes(self.runs.back().map(|kept| &kept.run));
            self.bytes += bytes;
            let (lsn, count) = (self.lsn, run.count as u64);
            self.runs.push_back(KeptRun {
                run,
                index,
                lsn,
                bytes,
            });
            index += count;
        }
        for item in items {
            let item = item.keep();
            self.bytes += item.kept_bytes();
            self.items.push_back(item);
        }
        while self.items.len() > EVENTS_KEPT_MAX {
            self.pop();
        }
    }

    /// Lets go of the oldest event: its item, and its run if that was the last of it.
    fn pop(&mut self) -> Option<(EventItem, Option<KeptRun>)> {
        let item = self.items.pop_front()?;
        uncount!(
            self.bytes,
            item.kept_bytes(),
            "bytes of an event were counted"
        );
        let first = self.runs.front()?;
        self.passed_to = first.run.first + (self.passed - first.index);
        self.passed += 1;
        let is_last = self.passed_to + 1 >= first.run.end();
        let run = is_last.then(|| self.runs.pop_front()).flatten();
        if let Some(run) = &run {
            uncount!(self.bytes, run.bytes, "bytes of a run were counted");
        }
        Some((item, run))
    }

    /// The index behind the event with this number.
    fn behind(&self, number: u64) -> u64 {
        let runs = self.runs.partition_point(|kept| kept.run.first <= number);
        let Some(kept) = runs.checked_sub(1).and_then(|last| self.runs.get(last)) else {
            return self.passed;
        };
        let of_run = number.saturating_add(1).min(kept.run.end()) - kept.run.first;
        self.passed.max(kept.index + of_run)
    }

    /// The events from this index on, with their numbers.
    fn events_from(&self, index: u64) -> impl Iterator<Item = (&KeptRun, u64, &EventItem)> {
        let runs = self.runs.partition_point(|kept| kept.index <= index);
        let runs = self.runs.range(runs.saturating_sub(1)..);
        let numbered = runs.flat_map(move |kept| {
            let skipped = index.saturating_sub(kept.index);
            (kept.run.first + skipped..kept.run.end()).map(move |number| (kept, number))
        });
        let items = self.items.range(self.place(index).min(self.items.len())..);
        numbered
            .zip(items)
            .map(|((kept, number), item)| (kept, number, item))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::base::{Seed, Timestamp};
    use crate::broker::event::{EventKind, EventMessage};
    use crate::broker::event_runs::EventDraft;
    use crate::broker::{CoreOptions, DropCause};
    use crate::deaths::Reason;

    const ALL: (Lsn, u64) = (Lsn(u64::MAX), u64::MAX);

    /// Adds events of messages in a row, `alike` of which make a run.
    pub(crate) fn add(events: &Events, count: u64, alike: u64) -> EventRuns {
        let mut runs = EventRuns::default();
        let queue = Name::from("q");
        for at in 0..count {
            let kind = EventKind::Quarantined {
                reason: Reason::Rejected,
                cause: DropCause::QuarantineFull,
            };
            let message = EventMessage {
                position: Position(at),
                age_ms: 0,
                size_bytes: 0,
                message: None,
                history: None,
                unwritten: None,
            };
            let time = Timestamp((at / alike).cast_signed());
            let draft = EventDraft::new(&runs, (time, queue.clone()), kind, Some(message));
            runs.push(events.numbers.take(), draft);
        }
        runs
    }

    fn ring(events: &Events, vhost: &str) -> Arc<VhostEvents> {
        let mut core = Core::new(CoreOptions::new(Name::from(vhost), Seed(1)));
        events.ring(&mut core)
    }

    fn put(events: &Events, ring: &VhostEvents, count: usize, lsn: u64) {
        let mut some = add(events, count as u64, 3);
        ring.stage(&mut some, Lsn(lsn));
        ring.settle();
    }

    fn numbers(read: &EventsRead) -> Vec<u64> {
        read.events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn an_event_is_told_once_its_record_is_durable() {
        let events = Events::default();
        let ring = ring(&events, "v");
        put(&events, &ring, 2, 7);
        put(&events, &ring, 1, 0); // of a message that the journal does not know, behind them
        let read = ring.read(ring.start(), 10, (Lsn(6), u64::MAX));
        assert_eq!((numbers(&read), read.next), (vec![], Some(1)));
        let read = ring.read(ring.start(), 10, (Lsn(7), u64::MAX));
        assert_eq!((numbers(&read), read.next), (vec![1, 2, 3], None));
        let read = ring.read(ring.start(), 10, (Lsn(7), 3));
        assert_eq!((numbers(&read), read.next), (vec![1, 2], Some(3)));
    }

    #[test]
    fn a_reader_goes_on_behind_a_number_and_learns_what_it_missed() {
        let events = Events::default();
        let ring = ring(&events, "v");
        let begin = ring.end();
        put(&events, &ring, 5, 0);
        let (cursor, lacks) = ring.behind(3);
        let read = ring.read(cursor, 10, ALL);
        assert_eq!((numbers(&read), lacks), (vec![4, 5], false));
        assert_eq!(read.from.behind(2), ring.end());
        put(&events, &ring, EVENTS_KEPT_MAX, 0);
        let read = ring.read(begin, 1, ALL);
        assert_eq!((numbers(&read), read.missed), (vec![6], 5));
        assert!(ring.behind(4).1, "the fifth is gone");
        assert!(!ring.behind(5).1);
    }

    /// Runs of 1 to 7 events, several vhosts that take numbers between them, and a ring that is full: whatever is
    /// asked, the answer is what a list of single events would give.
    #[test]
    fn a_ring_of_runs_is_read_like_a_list_of_events() {
        let events = Events::default();
        let ring = ring(&events, "v");
        let mut list: Vec<u64> = Vec::new();
        for step in 0..4_000_u64 {
            let first = events.next();
            put_alike(&events, &ring, 1 + step % 11, 1 + step % 7);
            list.extend(first..events.next());
            if step % 3 == 0 {
                events.numbers.take(); // another vhost's
            }
        }
        let kept = &list[list.len() - EVENTS_KEPT_MAX..];
        assert_eq!(numbers(&ring.read(ring.start(), usize::MAX, ALL)), kept);
        for number in [
            kept[0] - 1,
            kept[0],
            kept[1_234],
            kept[9_999],
            kept[9_999] + 5,
        ] {
            let (cursor, lacks) = ring.behind(number);
            let behind: Vec<u64> = kept
                .iter()
                .copied()
                .filter(|it| *it > number)
                .take(50)
                .collect();
            let read = ring.read(cursor, 50, ALL);
            assert_eq!(
                (numbers(&read), lacks),
                (behind, number < kept[0] - 1),
                "{number}"
            );
        }
        let bytes = ring.ring.lock().bytes;
        assert_eq!(
            bytes,
            counted(&ring),
            "of {} runs",
            ring.ring.lock().runs.len()
        );
    }

    #[test]
    fn the_latest_event_about_a_position_is_found_in_its_run() {
        let events = Events::default();
        let ring = ring(&events, "v");
        put_alike(&events, &ring, 9, 4);
        put_alike(&events, &ring, 6, 4);
        let number = |position| Some(ring.last_of("q", Position(position))?.number);
        assert_eq!(
            [number(5), number(6), number(8)],
            [Some(15), Some(7), Some(9)]
        );
        assert_eq!(number(9), None);
        assert!(ring.last_of("other", Position(5)).is_none());
    }

    /// Bytes of all that is kept, added up; an item of the first run is not lacking without its run.
    fn counted(ring: &VhostEvents) -> usize {
        let ring = ring.ring.lock();
        let items: usize = ring.items.iter().map(EventItem::kept_bytes).sum();
        items + ring.runs.iter().map(|kept| kept.bytes).sum::<usize>()
    }

    fn put_alike(events: &Events, ring: &VhostEvents, count: u64, alike: u64) {
        let mut some = add(events, count, alike);
        ring.stage(&mut some, Lsn(0));
        ring.settle();
    }

    #[test]
    fn the_oldest_of_all_vhosts_go_when_there_are_too_many_bytes() {
        let events = Events::default();
        let (old, new) = (ring(&events, "old"), ring(&events, "new"));
        put(&events, &old, 1_000, 0);
        put(&events, &new, 1_000, 0);
        let full = EVENTS_BYTES_MAX - 100;
        let all = events.shared.bytes.load(Ordering::Relaxed);
        events.shared.change(0, full - all); // as if others took the rest
        put(&events, &new, 10, 0);
        assert_eq!(old.ring.lock().items.len(), 1_000 - TRIM);
        assert_eq!(new.ring.lock().items.len(), 1_010);
        // A memory limit leaves them a part of it.
        events.bound().set_memory_limit(0);
        assert_eq!(new.ring.lock().items.len(), 1_010);
        let left = new.ring.lock().bytes;
        let others = events.shared.bytes.load(Ordering::Relaxed) - left;
        let limit = (others + left / 2) as u64 * EVENTS_MEMORY_PART;
        events.bound().set_memory_limit(limit);
        let all = events.shared.bytes.load(Ordering::Relaxed);
        assert!(all <= others + left / 2, "{all} of {others} and {left}");
        events.forget("old");
        let before = events.shared.bytes.load(Ordering::Relaxed);
        drop(old);
        assert!(events.shared.bytes.load(Ordering::Relaxed) < before);
    }
}
