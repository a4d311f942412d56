//! One link of a publisher that outlives its connection: its unsettled deliveries and their outcomes.
//! [AMQP 2.6.13]
//!
//! ```text
//!  a message arrives --> undecided --outcome known--> decided --publisher settles--> (gone)
//!                            |                           |
//!                   connection lost, attached again: told in the map, resumed under a new delivery-id
//! ```
//!
//! The connection on which a message arrived is told its outcome by the core, and notes it here: also
//! when the link is attached elsewhere by then, or nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::begun::Begun;
use super::table::Wanted;
use crate::base::limits::{
    RESUMABLE_DELIVERIES_MAX, RESUMABLE_DELIVERIES_MIN, RESUMABLE_DELIVERY_BYTES,
    RESUMABLE_PARTIALS_USER_BYTES_MAX, RESUMABLE_USER_BYTES_MAX,
};
use crate::base::locks::{RankedMutex, rank};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Charge, ConnectionId, Lsn, Millis, PublisherId, Serial, uncount_atomic};
use crate::broker::PublishOutcome;
use crate::wire::performative::{DeliveryState, DeliveryTag};

/// Settled deliveries that the journal learns of with one message, at most.
const SETTLED_TOLD_MAX: usize = 64;
/// Memory of the tag of such a delivery, about, in bytes.
const SETTLED_BYTES: u64 = 64;

/// The attached link of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::gateway) struct Owner {
    pub(in crate::gateway) connection: ConnectionId,
    pub(in crate::gateway) publisher: PublisherId,
}

/// What became of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::gateway) enum Decision {
    /// The core's outcome.
    Published(PublishOutcome),
    /// The gateway refused it.
    Refused(DeliveryState),
}

/// What is known of a delivery, and the record that must be durable before it is told (0: none); none
/// while the message is on its way.
pub(in crate::gateway) type Undecided = Option<(Decision, Lsn)>;

/// A publisher's link that outlives its connection.
#[derive(Debug)]
pub(in crate::gateway) struct ResumableLink {
    /// Its number in the journal; none: it ends with the broker.
    number: Option<u64>,
    state: RankedMutex<rank::ResumableLink, State>,
    of_user: Arc<OfUser>,
}

/// What one user has of such links.
#[derive(Debug, Default)]
pub(super) struct OfUser {
    pub(super) links: AtomicU64,
    /// Bytes of the unsettled deliveries of its links, and of those that they have credit for.
    bytes: AtomicU64,
    /// Bytes of the messages of which a part has arrived.
    begun_bytes: AtomicU64,
}

/// A share of what one user may have of messages of which a part has arrived; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    of_user: Arc<OfUser>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        let begun = &self.of_user.begun_bytes;
        uncount_atomic!(
            begun,
            self.bytes,
            Ordering::Relaxed,
            "a share that is given back was counted"
        );
    }
}

#[derive(Debug)]
struct State {
    place: Place,
    timeout_s: u32,
    deliveries: BTreeMap<DeliveryTag, Delivery>,
    /// Deliveries without an outcome, by the link and the delivery-id that they arrived with: the core
    /// names them so.
    arrived: BTreeMap<(PublisherId, u32), DeliveryTag>,
    /// Deliveries by their delivery-id on the attached link.
    here: BTreeMap<u32, DeliveryTag>,
    /// Tags of deliveries that are settled, which the journal has to learn.
    settled: BTreeSet<DeliveryTag>,
    /// What has arrived of the message in the middle of which it was suspended.
    begun: Option<Box<Begun>>,
    /// Credit that was given last: as many deliveries may come, and count already.
    given: u32,
    charge: Charge,
}

/// Where a link is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Attached(Owner),
    /// Nowhere since this owner has left.
    Suspended {
        owner: Owner,
        expiry: Expiry,
    },
    Closed,
}

/// The time that a suspended link has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expiry {
    /// It begins with the end of a session or connection.
    Later,
    At(Millis),
}

#[derive(Debug)]
struct Delivery {
    /// The link and the delivery-id that it arrived with.
    arrived: (PublisherId, u32),
    decision: Undecided,
    /// Its delivery-id on the attached link, once it has one.
    here: Option<u32>,
    /// Whether the publisher settles it, after its outcome.
    is_second: bool,
}

/// Why a message is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::gateway) enum NotTaken {
    /// The link is attached elsewhere.
    Stolen,
    /// An unsettled delivery has the same tag.
    Repeated,
}

/// Where an outcome is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::gateway) enum ToTell {
    /// It was known before: on the link that asks.
    Known,
    /// On this link, for this delivery-id.
    At(Owner, Serial),
    /// Nowhere: the publisher asks when it resumes the delivery, or it has settled it.
    Nobody,
}

impl ResumableLink {
    pub(super) fn new(
        owner: Owner,
        (number, timeout_s): (Option<u64>, u32),
        (charge, of_user): (Charge, Arc<OfUser>),
    ) -> Self {
        let state = State {
            place: Place::Attached(owner),
            timeout_s,
            deliveries: BTreeMap::new(),
            arrived: BTreeMap::new(),
            here: BTreeMap::new(),
            settled: BTreeSet::new(),
            begun: None,
            given: 0,
            charge,
        };
        Self {
            number,
            state: RankedMutex::new(state),
            of_user,
        }
    }

    /// A link of a broker before, with its unsettled deliveries. Its time begins now.
    pub(super) fn restored(
        now: Millis,
        (number, timeout_s): (u64, u32),
        unsettled: impl Iterator<Item = (DeliveryTag, PublishOutcome)>,
        (charge, of_user): (Charge, Arc<OfUser>),
    ) -> Self {
        let nobody = (ConnectionId(0), PublisherId(0));
        let (connection, publisher) = nobody;
        let owner = Owner {
            connection,
            publisher,
        };
        let terms = (Some(number), timeout_s);
        let link = Self::new(owner, terms, (charge, of_user));
        let mut state = link.state.lock();
        for (tag, outcome) in unsettled {
            let delivery = Delivery {
                arrived: (publisher, 0),
                decision: Some((Decision::Published(outcome), Lsn(0))),
                here: None,
                is_second: true,
            };
            link.add(&mut state, tag, delivery);
        }
        drop(state);
        link.suspend(owner, Some(now));
        link
    }

    /// Its number in the journal; none: it ends with the broker.
    pub(in crate::gateway) const fn number(&self) -> Option<u64> {
        self.number
    }

    /// Takes the tags of deliveries that are settled, some at a time, to be told with a message: first that
    /// which has its tag.
    pub(in crate::gateway) fn take_settled(&self, tag: DeliveryTag) -> Vec<DeliveryTag> {
        let State {
            settled, charge, ..
        } = &mut *self.state.lock();
        let own = settled.take(&tag).into_iter();
        let others = std::iter::from_fn(|| settled.pop_first());
        let taken: Vec<_> = own.chain(others).take(SETTLED_TOLD_MAX).collect();
        charge.shrink(SETTLED_BYTES * taken.len() as u64);
        taken
    }

    /// Attaches it: deliveries that the publisher has settled are gone. Returns the others, and who had
    /// it attached.
    pub(super) fn attach(
        &self,
        owner: Owner,
        wanted: &Wanted,
    ) -> (Vec<(DeliveryTag, Undecided)>, Option<Owner>) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.place, Place::Attached(owner));
        let stolen_from = match before {
            Place::Attached(before) => Some(before),
            Place::Suspended { .. } | Place::Closed => None,
        };
        #[cfg(test)]
        if is_planted(Plant::OutcomesForgotten) {
            state.deliveries.clear();
        }
        state.timeout_s = wanted.timeout_s;
        self.set_given(&mut state, 0);
        state.here.clear();
        for delivery in state.deliveries.values_mut() {
            delivery.here = None;
        }
        if !wanted.is_incomplete {
            let goes = |tag: &DeliveryTag| wanted.tags.binary_search(tag).is_err();
            let gone: Vec<_> = state
                .deliveries
                .keys()
                .filter(|tag| goes(tag))
                .copied()
                .collect();
            for tag in gone {
                self.remove(&mut state, tag);
            }
        }
        let unsettled = state.deliveries.iter();
        let unsettled = unsettled.map(|(tag, delivery)| (*tag, delivery.decision.clone()));
        (unsettled.collect(), stolen_from)
    }

    /// Notes that a message arrived.
    pub(in crate::gateway) fn arrive(
        &self,
        owner: Owner,
        (tag, id): (DeliveryTag, Serial),
        is_second: bool,
    ) -> Result<(), NotTaken> {
        let mut state = self.state.lock();
        if state.place != Place::Attached(owner) {
            return Err(NotTaken::Stolen);
        }
        if state.deliveries.contains_key(&tag) {
            return Err(NotTaken::Repeated);
        }
        let arrived = (owner.publisher, id.0);
        let delivery = Delivery {
            arrived,
            decision: None,
            here: Some(id.0),
            is_second,
        };
        state.arrived.insert(arrived, tag);
        state.here.insert(id.0, tag);
        self.add(&mut state, tag, delivery);
        Ok(())
    }

    fn add(&self, state: &mut State, tag: DeliveryTag, delivery: Delivery) {
        state.deliveries.insert(tag, delivery);
        state.charge.grow(RESUMABLE_DELIVERY_BYTES);
        let bytes = RESUMABLE_DELIVERY_BYTES;
        self.of_user.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes what became of a message, by the link and the delivery-id that it arrived with.
    pub(in crate::gateway) fn decide(
        &self,
        arrived: (PublisherId, u32),
        decision: &Decision,
        lsn: Lsn,
    ) -> ToTell {
        let mut state = self.state.lock();
        let Some(tag) = state.arrived.remove(&arrived) else {
            return ToTell::Known;
        };
        let place = state.place;
        let delivery = state.deliveries.get_mut(&tag);
        let Some(delivery) = delivery.filter(|delivery| delivery.arrived == arrived) else {
            // It was settled before, and its tag may be that of another delivery by now.
            let is_known = state.deliveries.contains_key(&tag);
            if !is_known && may_be_kept(decision) {
                self.note_settled(&mut state, tag);
            }
            return ToTell::Nobody;
        };
        delivery.decision = Some((decision.clone(), lsn));
        let (Some(here), Place::Attached(owner)) = (delivery.here, place) else {
            return ToTell::Nobody;
        };
        if !delivery.is_second {
            self.remove(&mut state, tag);
        }
        ToTell::At(owner, Serial(here))
    }

    /// Takes a delivery that the publisher resumes; none: it is not known, and to be ignored.
    /// [AMQP 2.7.5]
    pub(in crate::gateway) fn resume(
        &self,
        owner: Owner,
        (tag, id): (DeliveryTag, Serial),
        (settled, is_second): (bool, bool),
    ) -> Option<Undecided> {
        let mut state = self.state.lock();
        if state.place != Place::Attached(owner) {
            return None;
        }
        if settled {
            self.remove(&mut state, tag);
            return None;
        }
        let delivery = state.deliveries.get_mut(&tag)?;
        delivery.is_second = is_second;
        let before = delivery.here.replace(id.0);
        let decision = delivery.decision.clone();
        if let Some(before) = before {
            state.here.remove(&before);
        }
        state.here.insert(id.0, tag);
        if decision.is_some() && !is_second {
            self.remove(&mut state, tag); // it is settled with its outcome
        }
        Some(decision)
    }

    /// Forgets a delivery that its publisher settled.
    pub(in crate::gateway) fn settle(&self, owner: Owner, id: Serial) {
        let mut state = self.state.lock();
        if state.place == Place::Attached(owner)
            && let Some(tag) = state.here.remove(&id.0)
        {
            self.remove(&mut state, tag);
        }
    }

    /// Forgets a message that has no outcome: its publisher is to send it again.
    pub(in crate::gateway) fn undo(&self, arrived: (PublisherId, u32)) {
        let mut state = self.state.lock();
        if let Some(tag) = state.arrived.remove(&arrived) {
            self.remove(&mut state, tag);
        }
    }

    /// The credit that its publisher gets, which has `credit` and is to have `wanted`: as far as there is
    /// room for the deliveries, beside those that are not settled. Each link of a user has a share.
    pub(in crate::gateway) fn give(&self, wanted: u32, credit: u32) -> u32 {
        let mut state = self.state.lock();
        let unsettled = u32::try_from(state.deliveries.len()).unwrap_or(u32::MAX);
        let given_bytes = u64::from(state.given) * RESUMABLE_DELIVERY_BYTES;
        let taken_bytes = self.of_user.bytes.load(Ordering::Relaxed);
        let left = count_of((RESUMABLE_USER_BYTES_MAX + given_bytes).saturating_sub(taken_bytes));
        let links = self.of_user.links.load(Ordering::Relaxed).max(1);
        let share = count_of(RESUMABLE_USER_BYTES_MAX / links).min(RESUMABLE_DELIVERIES_MAX);
        let always = RESUMABLE_DELIVERIES_MIN.saturating_sub(unsettled);
        let room = share.saturating_sub(unsettled).min(left).max(always);
        let given = wanted.min(room);
        if given > credit {
            self.set_given(&mut state, given);
        }
        given
    }

    fn set_given(&self, state: &mut State, given: u32) {
        let before = std::mem::replace(&mut state.given, given);
        let [before, after] =
            [before, given].map(|count| u64::from(count) * RESUMABLE_DELIVERY_BYTES);
        self.of_user.bytes.fetch_add(after, Ordering::Relaxed);
        uncount_atomic!(
            self.of_user.bytes,
            before,
            Ordering::Relaxed,
            "credit that was given was counted"
        );
    }

    /// Suspends it, since its owner leaves. Its time begins now, or later.
    pub(in crate::gateway) fn suspend(&self, owner: Owner, begins: Option<Millis>) {
        let mut state = self.state.lock();
        let timeout_ms = u64::from(state.timeout_s) * 1_000;
        let expiry = begins.map_or(Expiry::Later, |now| Expiry::At(now.plus(timeout_ms)));
        let is_its = match state.place {
            Place::Attached(by)
            | Place::Suspended {
                owner: by,
                expiry: Expiry::Later,
            } => by == owner,
            Place::Suspended { .. } | Place::Closed => false,
        };
        if is_its {
            state.place = Place::Suspended { owner, expiry };
            self.set_given(&mut state, 0);
        }
    }

    /// A share of this size for a message of which a part has arrived, if there is room.
    pub(super) fn share(&self, bytes: u64) -> Option<Share> {
        let begun = &self.of_user.begun_bytes;
        let before = begun.fetch_add(bytes, Ordering::Relaxed);
        let share = Share {
            of_user: Arc::clone(&self.of_user),
            bytes,
        };
        (before + bytes <= RESUMABLE_PARTIALS_USER_BYTES_MAX).then_some(share)
    }

    /// Keeps what has arrived of a message until the link is attached again. Returns what is not kept: that of
    /// an owner that has lost the link, or what was kept before.
    pub(super) fn keep_begun(&self, owner: Owner, begun: Box<Begun>) -> Option<Box<Begun>> {
        let mut state = self.state.lock();
        match state.place {
            Place::Suspended { owner: by, .. } if by == owner => state.begun.replace(begun),
            Place::Suspended { .. } | Place::Attached(_) | Place::Closed => Some(begun),
        }
    }

    /// Takes what has arrived of a message.
    pub(super) fn take_begun(&self) -> Option<Box<Begun>> {
        self.state.lock().begun.take()
    }

    /// Whether this link of the owner may still be told outcomes, or its end.
    pub(in crate::gateway) fn concerns(&self, owner: Owner) -> bool {
        let state = self.state.lock();
        let first = (owner.publisher, 0);
        let last = (owner.publisher, u32::MAX);
        let expiry = Expiry::Later;
        state.arrived.range(first..=last).next().is_some()
            || state.place == Place::Suspended { owner, expiry }
    }

    /// Closes it; false if it is attached elsewhere.
    pub(super) fn close(&self, owner: Owner) -> bool {
        let mut state = self.state.lock();
        let is_its = match state.place {
            Place::Attached(by) | Place::Suspended { owner: by, .. } => by == owner,
            Place::Closed => false,
        };
        if is_its {
            state.place = Place::Closed;
        }
        is_its
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self, now: Millis) -> bool {
        match self.state.lock().place {
            Place::Suspended {
                expiry: Expiry::At(due),
                ..
            } => due <= now,
            Place::Suspended { .. } | Place::Attached(_) => false,
            Place::Closed => true,
        }
    }

    /// Forgets all deliveries. Returns what has arrived of a message, to be dropped with no lock held.
    pub(super) fn clear(&self) -> Option<Box<Begun>> {
        let mut state = self.state.lock();
        state.place = Place::Closed;
        self.set_given(&mut state, 0);
        let tags: Vec<_> = state.deliveries.keys().copied().collect();
        for tag in tags {
            self.remove(&mut state, tag);
        }
        state.arrived.clear();
        state.begun.take()
    }

    /// Notes that the journal is to learn that a delivery is settled.
    fn note_settled(&self, state: &mut State, tag: DeliveryTag) {
        if self.number.is_some() && state.settled.insert(tag) {
            state.charge.grow(SETTLED_BYTES);
        }
    }

    fn remove(&self, state: &mut State, tag: DeliveryTag) {
        let Some(delivery) = state.deliveries.remove(&tag) else {
            return;
        };
        if let Some(here) = delivery.here {
            state.here.remove(&here);
        }
        let decision = delivery.decision.as_ref();
        if decision.is_some_and(|(it, _)| may_be_kept(it)) {
            self.note_settled(state, tag);
        }
        state.charge.shrink(RESUMABLE_DELIVERY_BYTES);
        let bytes = RESUMABLE_DELIVERY_BYTES;
        uncount_atomic!(
            self.of_user.bytes,
            bytes,
            Ordering::Relaxed,
            "a delivery that is removed was counted"
        );
    }
}

/// Whether the journal may have the decision.
const fn may_be_kept(decision: &Decision) -> bool {
    matches!(
        decision,
        Decision::Published(PublishOutcome::Accepted | PublishOutcome::QueueFull { .. })
    )
}

/// Number of deliveries that these bytes are enough for.
fn count_of(bytes: u64) -> u32 {
    u32::try_from(bytes / RESUMABLE_DELIVERY_BYTES).unwrap_or(u32::MAX)
}
