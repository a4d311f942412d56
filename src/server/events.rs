//! Readers of events: those of one or several vhosts in the order of their numbers. [evidence part 10]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::shared::Shared;
use crate::base::{Lsn, Name};
use crate::broker::event::VhostEvent;
use crate::node::events::{EventCursor, EventsRead, VhostEvents};

/// Events of one vhost that are looked at in one step.
const STEP: usize = 256;

/// An event, and its vhost.
pub(super) type Told = (Name, Arc<VhostEvent>);

/// Reads events in order, as they become durable.
pub(super) struct EventReader {
    shared: Arc<Shared>,
    places: BTreeMap<Name, Place>,
    /// Events of several vhosts with numbers from this one on are not told yet: one with a lower number
    /// may be on its way. All with lower numbers are in the rings.
    horizon: u64,
}

struct Place {
    ring: Arc<VhostEvents>,
    cursor: EventCursor,
}

/// Where a reader begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// Behind all events so far.
    Now,
    /// In front of the oldest that is kept.
    Oldest,
    /// Behind the event with this number.
    Behind(u64),
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) events: Vec<Told>,
    /// Events that were let go of before they were read.
    pub(super) missed: u64,
}

impl EventReader {
    /// A reader of no vhost yet.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            horizon: 0,
            places: BTreeMap::new(),
            shared,
        }
    }

    /// Reads these vhosts from now on: those that it does not read yet from `start` on. Returns whether
    /// events behind that are not kept any more.
    pub(super) fn read_vhosts(&mut self, vhosts: &[Name], start: Start) -> bool {
        self.places.retain(|name, _| vhosts.contains(name));
        let (mut lacks, mut reads_more) = (false, false);
        for name in vhosts {
            let Some(vhost) = self.shared.node.vhosts.get(name) else {
                self.places.remove(name);
                continue;
            };
            let ring = Arc::clone(vhost.events());
            let known = self.places.get(name);
            if known.is_some_and(|place| Arc::ptr_eq(&place.ring, &ring)) {
                continue;
            }
            let cursor = match start {
                Start::Now => ring.end(),
                Start::Oldest => ring.start(),
                Start::Behind(number) => {
                    let (cursor, lacks_some) = ring.behind(number);
                    lacks |= lacks_some;
                    cursor
                }
            };
            self.places.insert(name.clone(), Place { ring, cursor });
            reads_more = true;
        }
        if reads_more {
            self.look_again(self.shared.node.events.next());
        }
        lacks
    }

    /// Reads the next events; none: there are no more for now.
    pub(super) fn read(&mut self) -> Read {
        let below = if self.places.len() > 1 {
            self.horizon
        } else {
            u64::MAX
        };
        let store = self.shared.node.store.as_ref();
        let mut read = Read::default();
        let mut found: Vec<(&Name, &mut EventCursor, EventsRead)> = Vec::new();
        for (name, place) in &mut self.places {
            let durable = store.map_or(Lsn(u64::MAX), |store| store.durable());
            let some = place.ring.read(place.cursor, STEP, (durable, below));
            found.push((name, &mut place.cursor, some));
        }
        // Those behind the first that may not be told yet follow it.
        let ends = found.iter().filter_map(|(_, _, some)| some.next);
        let end = ends.min().unwrap_or(u64::MAX);
        for (name, cursor, some) in found {
            let events = some.events.into_iter();
            let told: Vec<_> = events.take_while(|event| event.number < end).collect();
            *cursor = some.from.behind(told.len());
            read.missed += some.missed;
            read.events
                .extend(told.into_iter().map(|event| (name.clone(), event)));
        }
        if self.places.len() > 1 {
            read.events.sort_by_key(|(_, event)| event.number);
        }
        read
    }

    /// Reads up to this number from now on, which the next event had lately: whoever took a lower one and still
    /// holds a core's lock is waited for.
    pub(super) fn look_again(&mut self, horizon: u64) {
        if self.places.len() > 1 && horizon != self.horizon {
            for (name, place) in &self.places {
                if let Some(vhost) = self.shared.node.vhosts.get(name) {
                    vhost.look(|_| ()).ok(); // of one that failed nothing is on its way
                }
                place.ring.settle();
            }
        }
        self.horizon = horizon;
    }
}
