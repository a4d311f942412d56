//! The bound on incomplete incoming messages, over all connections.
//!
//! A connection may hold [`PARTIAL_FREE_BYTES`] of incomplete messages without a permit. Beyond
//! that it needs one of a few permits and is not read until it has one: so memory is bounded
//! however many peers send large messages at once, and those with a permit finish. One user can
//! have a part of the permits only, so that its peers never block those of other users.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::outbox::Outbox;
#[cfg(doc)]
use crate::base::limits::PARTIAL_FREE_BYTES;
use crate::base::limits::{PARTIAL_BYTES_MAX, PARTIAL_USER_PERCENT_MAX};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{ConnectionId, Payer, uncount};

/// Time within which the holder of a permit has to receive [`KEEP_BYTES`] while others wait, in
/// milliseconds: a peer that never finishes a message must not block the others.
pub(crate) const KEEP_MS: u64 = 1_000;
/// Bytes that have to arrive in that time.
pub(crate) const KEEP_BYTES: u64 = 16 * 1024;
/// What a connection may hold of an unfinished message or frame without having to go on like that
/// while only such bytes keep an alarm up, in bytes.
pub(crate) const KEEP_FREE_BYTES: u64 = 4 * 1024;

/// The permits, and the connections that wait for one.
#[derive(Debug)]
pub(crate) struct Partials {
    inner: RankedMutex<rank::Partials, Inner>,
}

/// What alarms mean for messages that arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Arriving {
    /// No alarm is raised.
    #[default]
    Freely,
    /// An alarm is raised: connections that only publish get no permit until stored messages have gone.
    Stopped,
    /// The alarm is kept up only by messages that are arriving: it ends once they have arrived or were
    /// given up, so one connection after the other gets a permit.
    OneByOne,
}

#[derive(Debug)]
struct Inner {
    free: usize,
    arriving: Arriving,
    /// How many each user has, if any.
    held: BTreeMap<Payer, usize>,
    /// Permits that one user may hold.
    of_user_max: usize,
    waiting: Vec<WaitingConnection>,
}

#[derive(Debug)]
struct WaitingConnection {
    id: ConnectionId,
    user: Payer,
    outbox: Arc<Outbox>,
    /// Whether it was woken: a permit is kept for it.
    is_woken: bool,
}

impl Inner {
    fn held_by(&self, user: &Payer) -> usize {
        self.held.get(user).copied().unwrap_or(0)
    }

    /// Whether a peer gets none because of an alarm.
    fn is_stopped(&self, consumes: bool) -> bool {
        match self.arriving {
            Arriving::Freely => false,
            Arriving::Stopped => !consumes,
            Arriving::OneByOne => !consumes && !self.held.is_empty(),
        }
    }

    /// How many more a user may have.
    fn left_for(&self, user: &Payer) -> usize {
        self.free
            .min(self.of_user_max.saturating_sub(self.held_by(user)))
    }
}

impl Partials {
    /// As many permits as messages of the largest size fit into [`PARTIAL_BYTES_MAX`], at least
    /// one.
    pub(crate) fn new(message_bytes_max: u64) -> Self {
        let permits = (PARTIAL_BYTES_MAX / message_bytes_max.max(1)).clamp(1, 1024);
        let free = usize::try_from(permits).unwrap_or(1);
        let of_user_max = (free * PARTIAL_USER_PERCENT_MAX / 100).max(1);
        Self {
            inner: RankedMutex::new(Inner {
                free,
                arriving: Arriving::Freely,
                held: BTreeMap::new(),
                of_user_max,
                waiting: Vec::new(),
            }),
        }
    }

    /// Takes a permit, or registers the connection to be woken when there may be one. A connection
    /// that also consumes gets one in spite of an alarm: its settlements are what ends the alarm.
    pub(crate) fn take(
        self: &Arc<Self>,
        (id, user): (ConnectionId, &Payer),
        outbox: &Arc<Outbox>,
        consumes: bool,
    ) -> Option<Permit> {
        let mut inner = self.inner.lock();
        if inner.left_for(user) == 0 || inner.is_stopped(consumes) {
            // It keeps its place.
            if let Some(waiting) = inner.waiting.iter_mut().find(|it| it.id == id) {
                waiting.is_woken = false;
                return None;
            }
            inner.waiting.push(WaitingConnection {
                id,
                user: user.clone(),
                outbox: Arc::clone(outbox),
                is_woken: false,
            });
            return None;
        }
        inner.waiting.retain(|waiting| waiting.id != id);
        uncount!(inner.free, 1, "a permit that is given is free");
        *inner.held.entry(user.clone()).or_default() += 1;
        Some(Permit {
            partials: Arc::clone(self),
            user: user.clone(),
        })
    }

    /// Whether somebody waits to whom this one would be of use; all publishers do if only what arrives keeps
    /// an alarm up.
    pub(crate) fn is_short(&self, permit: &Permit) -> bool {
        let inner = self.inner.lock();
        if inner.arriving == Arriving::OneByOne {
            return true;
        }
        let is_of_use = |it: &WaitingConnection| {
            !it.is_woken && (it.user == permit.user || inner.held_by(&it.user) < inner.of_user_max)
        };
        // In an alarm they wait for its end.
        let is_stopped = inner.arriving == Arriving::Stopped;
        (inner.free == 0 || !is_stopped) && inner.waiting.iter().any(is_of_use)
    }

    /// Removes a connection that is closed, or has no incomplete messages left.
    pub(crate) fn forget(&self, id: ConnectionId) {
        self.inner.lock().waiting.retain(|waiting| waiting.id != id);
        self.wake();
    }

    /// Takes note of the alarms that stand.
    pub(crate) fn set_arriving(&self, arriving: Arriving) {
        let before = std::mem::replace(&mut self.inner.lock().arriving, arriving);
        if before != arriving {
            self.wake();
        }
    }

    /// Whether what arrives is what keeps an alarm up.
    pub(crate) fn is_one_by_one(&self) -> bool {
        self.inner.lock().arriving == Arriving::OneByOne
    }

    /// Wakes as many waiting connections as there are permits, and of each user as many as it may
    /// have. Those that were woken and have not come yet are counted.
    fn wake(&self) {
        let mut woken = Vec::new();
        {
            let mut inner = self.inner.lock();
            let mut waiting = std::mem::take(&mut inner.waiting);
            let (mut free, mut left) = (inner.free, BTreeMap::new());
            for is_woken in [true, false] {
                for it in waiting.iter_mut().filter(|it| it.is_woken == is_woken) {
                    let left = left
                        .entry(it.user.clone())
                        .or_insert_with(|| inner.left_for(&it.user));
                    if free == 0 || *left == 0 {
                        continue;
                    }
                    (free, *left) = (free - 1, *left - 1);
                    if !is_woken {
                        woken.push((it.id, Arc::clone(&it.outbox)));
                    }
                }
            }
            for it in &mut waiting {
                it.is_woken |= woken.iter().any(|(id, _)| *id == it.id);
            }
            inner.waiting = waiting;
        }
        for (_, outbox) in woken {
            outbox.wake();
        }
    }
}

/// The right to hold incomplete messages; returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    partials: Arc<Partials>,
    user: Payer,
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut inner = self.partials.inner.lock();
            inner.free += 1;
            if let Some(held) = inner.held.get_mut(&self.user) {
                uncount!(*held, 1, "a permit of a user was counted");
                if *held == 0 {
                    inner.held.remove(&self.user);
                }
            }
        }
        self.partials.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::base::Name;

    fn woken(outbox: &Outbox) -> bool {
        outbox
            .poll_ready(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    fn login(name: &str) -> Payer {
        (Name::from(name), false)
    }

    fn of(id: u64, user: &Payer) -> (ConnectionId, &Payer) {
        (ConnectionId(id), user)
    }

    #[test]
    fn who_waits_is_woken_when_a_permit_comes_back() {
        let partials = Arc::new(Partials::new(PARTIAL_BYTES_MAX));
        let (outbox, other, ada) = (Arc::default(), Arc::default(), login("ada"));
        let permit = partials.take(of(1, &ada), &outbox, false).unwrap();
        assert!(!partials.is_short(&permit));
        assert!(partials.take(of(2, &ada), &outbox, false).is_none());
        assert!(partials.is_short(&permit) && !woken(&outbox));
        drop(permit);
        assert!(woken(&outbox));
        assert!(partials.take(of(2, &ada), &other, false).is_some());
    }

    #[test]
    fn alarm_lets_only_consumers_in() {
        let partials = Arc::new(Partials::new(1));
        let (outbox, ada) = (Arc::default(), login("ada"));
        partials.set_arriving(Arriving::Stopped);
        assert!(partials.take(of(1, &ada), &outbox, false).is_none());
        assert!(partials.take(of(2, &ada), &outbox, true).is_some());
        partials.set_arriving(Arriving::Freely);
        assert!(partials.take(of(1, &ada), &outbox, false).is_some());
    }

    /// What had begun to arrive was more than the limit and nobody read it on: the alarm stood for good.
    #[test]
    fn alarm_that_only_what_arrives_keeps_up_lets_one_after_the_other_in() {
        let partials = Arc::new(Partials::new(1));
        let (outbox, ada): (Arc<Outbox>, _) = (Arc::default(), login("ada"));
        partials.set_arriving(Arriving::Stopped);
        assert!(partials.take(of(1, &ada), &outbox, false).is_none());
        partials.set_arriving(Arriving::OneByOne);
        assert!(woken(&outbox));
        let first = partials.take(of(1, &ada), &outbox, false).unwrap();
        assert!(partials.is_short(&first), "all publishers wait for it");
        let waiting = Arc::default();
        assert!(partials.take(of(2, &ada), &waiting, false).is_none());
        let consuming = partials.take(of(3, &ada), &outbox, true);
        assert!(consuming.is_some() && !woken(&waiting));
        drop((first, consuming));
        assert!(woken(&waiting));
        assert!(partials.take(of(2, &ada), &waiting, false).is_some());
    }

    /// 64 stalled peers of one user had all permits, four times one after another.
    #[test]
    fn a_user_leaves_permits_to_others_and_its_waiting_peers_are_passed_over() {
        let partials = Arc::new(Partials::new(PARTIAL_BYTES_MAX / 4));
        let (ada, eve) = (login("ada"), login("eve"));
        let outbox = Arc::default();
        let mut stalled: Vec<_> = (0..3)
            .map(|id| partials.take(of(id, &eve), &outbox, false).unwrap())
            .collect();
        let waiting: [Arc<Outbox>; 2] = Default::default();
        for (id, outbox) in (3..).zip(&waiting) {
            assert!(partials.take(of(id, &eve), outbox, false).is_none());
        }
        // One of its own waits; nobody else does.
        assert!(partials.is_short(&stalled[0]));
        let taken = partials.take(of(5, &ada), &outbox, false).unwrap();
        let late: Arc<Outbox> = Arc::default();
        assert!(partials.take(of(6, &ada), &late, false).is_none());
        // It goes to who may have it, though others came before.
        drop(taken);
        assert!(woken(&late) && !waiting.iter().any(|outbox| woken(outbox)));
        // One more of its own comes in for each that goes, also if the one before did not come yet.
        stalled.pop();
        assert!(woken(&waiting[0]) && !woken(&waiting[1]));
        assert!(partials.is_short(&stalled[0]));
        stalled.pop();
        assert!(woken(&waiting[1]) && !woken(&waiting[0]));
        assert!(!partials.is_short(&stalled[0]));
        assert!(partials.take(of(4, &eve), &waiting[1], false).is_some());
    }

    /// Bearers of tokens with its name took the permits of a user.
    #[test]
    fn the_bearer_of_a_token_has_permits_of_its_own() {
        let partials = Arc::new(Partials::new(PARTIAL_BYTES_MAX / 4));
        let (ada, bearer) = (login("ada"), (Name::from("ada"), true));
        let outbox = Arc::default();
        let take = |id, user| partials.take(of(id, user), &outbox, false);
        let taken: Vec<_> = (0..3).map(|id| take(id, &bearer)).collect();
        assert!(taken.iter().all(Option::is_some));
        assert!(take(3, &bearer).is_none());
        assert!(take(4, &ada).is_some());
    }
}
