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

use crate::base::limits::{EVENTS_BYTES_MAX, EVENTS_KEPT_MAX};
use crate::base::locks::{RankedMutex, RankedRwLock, rank};
use crate::base::{Lsn, Name, Position};
use crate::broker::Core;
use crate::broker::event::{EventNumbers, VhostEvent};

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
#[derive(Debug, Default)]
struct SharedEvents {
    /// Bytes in all rings.
    bytes: AtomicUsize,
    rings: RankedRwLock<rank::EventRings, Vec<Arc<VhostEvents>>>,
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
    events: Vec<VhostEvent>,
    /// The record that the last of them waits for.
    lsn: Lsn,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<Kept>,
    /// Number of events that were let go of.
    passed: u64,
    /// The number of the last of them.
    passed_to: u64,
    /// The record that the last event waits for.
    lsn: Lsn,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    event: VhostEvent,
    /// The record that it waits for.
    lsn: Lsn,
    bytes: u32,
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
    pub(super) fn stage(&self, events: &mut Vec<VhostEvent>, lsn: Lsn) {
        let mut staged = self.staged.lock();
        if staged.events.is_empty() {
            std::mem::swap(&mut staged.events, events);
        } else {
            staged.events.append(events);
        }
        staged.lsn = staged.lsn.max(lsn);
    }

    /// Puts what was staged into the ring; not under the core's lock.
    pub(super) fn settle(&self) {
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
        for event in events.drain(..) {
            ring.push(event.keep());
            if ring.kept.len() > EVENTS_KEPT_MAX {
                ring.pop();
            }
        }
        let after = ring.bytes;
        drop(ring);
        let all = self.shared.change(before, after);
        self.reuse(events);
        if all > EVENTS_BYTES_MAX {
            self.shared.trim();
        }
    }

    /// Lets the next events have the memory of those that were settled, unless it is much.
    fn reuse(&self, events: Vec<VhostEvent>) {
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
        let before = ring
            .kept
            .partition_point(|kept| kept.event.number <= number);
        let index = ring.passed + before as u64;
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
        let skipped = usize::try_from(index - ring.passed).unwrap_or(usize::MAX);
        let is_told = |kept: &&Kept| kept.lsn <= durable && kept.event.number < below;
        let behind = ring.kept.range(skipped.min(ring.kept.len())..);
        let events: Vec<_> = behind
            .take(count)
            .take_while(is_told)
            .map(|kept| Arc::new(kept.event.clone()))
            .collect();
        let next = ring.kept.get(skipped + events.len());
        EventsRead {
            from: EventCursor { index },
            next: next.map(|kept| kept.event.number),
            events,
            missed,
        }
    }

    /// The latest event about a message that was at this position of a queue.
    pub(crate) fn last_of(&self, queue: &str, position: Position) -> Option<Arc<VhostEvent>> {
        let ring = self.ring.lock();
        let is_of_it = |event: &VhostEvent| {
            let at = event.message.as_ref().map(|message| message.position);
            at == Some(position) && *event.queue == *queue
        };
        let mut kept = ring.kept.iter().rev();
        let found = kept.find(|kept| is_of_it(&kept.event))?;
        Some(Arc::new(found.event.clone()))
    }

    /// The number of the oldest event, if there is one.
    fn oldest(&self) -> Option<u64> {
        let ring = self.ring.lock();
        ring.kept.front().map(|kept| kept.event.number)
    }

    /// Lets go of some of the oldest events.
    fn let_go(&self, count: usize) -> usize {
        let mut ring = self.ring.lock();
        let before = ring.bytes;
        let mut gone = Vec::with_capacity(count);
        while gone.len() < count
            && let Some(kept) = ring.pop()
        {
            gone.push(kept);
        }
        let after = ring.bytes;
        drop(ring);
        self.shared.change(before, after)
    }
}

impl Drop for VhostEvents {
    fn drop(&mut self) {
        let bytes = self.ring.lock().bytes;
        self.shared.change(bytes, 0);
    }
}

impl SharedEvents {
    /// Counts the bytes of a ring; returns those of all.
    fn change(&self, before: usize, after: usize) -> usize {
        let old = self.bytes.fetch_add(after, Ordering::Relaxed) + after;
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        old.saturating_sub(before)
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
            if ring.let_go(TRIM) <= EVENTS_BYTES_MAX {
                return;
            }
        }
    }
}

impl Ring {
    /// Number of all events since the start.
    fn end(&self) -> u64 {
        self.passed + self.kept.len() as u64
    }

    fn push(&mut self, event: VhostEvent) {
        let before = self.kept.back().map(|kept| &kept.event);
        let bytes = event.kept_bytes(before);
        self.bytes += bytes;
        self.kept.push_back(Kept {
            event,
            lsn: self.lsn,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        });
    }

    fn pop(&mut self) -> Option<Kept> {
        let kept = self.kept.pop_front()?;
        self.bytes = self.bytes.saturating_sub(kept.bytes as usize);
        self.passed += 1;
        self.passed_to = kept.event.number;
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Seed, Timestamp};
    use crate::broker::event::EventKind;
    use crate::broker::{CoreOptions, DropCause};

    const ALL: (Lsn, u64) = (Lsn(u64::MAX), u64::MAX);

    fn event(events: &Events) -> VhostEvent {
        VhostEvent {
            number: events.numbers.take(),
            time: Timestamp(0),
            queue: Name::from("q"),
            kind: EventKind::Dropped {
                reason: None,
                cause: DropCause::Purged,
                messages: 1,
            },
            message: None,
        }
    }

    fn ring(events: &Events, vhost: &str) -> Arc<VhostEvents> {
        let mut core = Core::new(CoreOptions::new(Name::from(vhost), Seed(1)));
        events.ring(&mut core)
    }

    fn put(events: &Events, ring: &VhostEvents, count: usize, lsn: u64) {
        let mut some: Vec<VhostEvent> = (0..count).map(|_| event(events)).collect();
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
        assert_eq!(old.ring.lock().kept.len(), 1_000 - TRIM);
        assert_eq!(new.ring.lock().kept.len(), 1_010);
        events.forget("old");
        let before = events.shared.bytes.load(Ordering::Relaxed);
        drop(old);
        assert!(events.shared.bytes.load(Ordering::Relaxed) < before);
    }
}
