//! Links of consumers that outlive their connection: what one holds stays its own while it is nowhere
//! attached, for as long as was agreed. [AMQP 2.6.13, 3.5.6]
//!
//! ```text
//!              attach (known: what the consumer has)
//!   attached <--------------------------------------- suspended --time over--> its queue
//!      |   |                                             ^
//!      |   '--detached, session or connection gone-------'
//!      '--closed--> its queue
//!
//!   held before --outcome known--> settled
//!               --known----------> sent again, once there is credit
//!               --not known------> its queue
//! ```
//!
//! The holder id of the deliveries stays that of the first consumer of the link, so that neither end nor
//! attach touches them.

mod attaching;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::Core;
use super::clients::{Consumer, holder};
use super::consumer_links::Journalled;
use super::failure::Failure;
use super::work::Work;
use crate::base::limits::{
    RESUMABLE_DELIVERY_BYTES, RESUMABLE_LINKS_MAX, RESUMABLE_LINKS_USER_MAX,
};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{
    Charge, ConnectionId, ConsumerId, HolderId, Lsn, Millis, Name, Position, QueueId, SessionId,
    invariant, uncount,
};
use crate::broker::Outcome;
use crate::broker::consumer_link::ConsumerLink;
use crate::broker::queue::Queue;
use crate::broker::recovery::{Acquisition, ExpiryPolicy, Kept, LinkEnd, LinkKey};
use crate::deaths::{Evidence, How};

/// Links whose time is over that one tick ends; the next one goes on.
const END_MAX: usize = 64;
/// Blocks of messages that one slice passes in search of held ones.
const BLOCKS_MAX: usize = 512;
/// Memory of an acquisition that is kept, about, in bytes.
const ACQUISITION_BYTES: u64 = 32;

/// How a consumer's link outlives its connection, and what is left to be done for it.
#[derive(Debug)]
pub(super) struct Terms {
    key: LinkKey,
    expiry: ExpiryPolicy,
    timeout_ms: u64,
    /// What the journal has of it; none: it ends with the broker.
    pub(super) journalled: Option<Journalled>,
    /// Deliveries that it held for too long and has not settled, in order.
    late: BTreeSet<Acquisition>,
    /// The comparison with what its consumer knows of; none: it is done.
    recovering: Option<Recovering>,
    /// Deliveries that its consumer knows of and that are to be sent again, in order.
    resend: VecDeque<Acquisition>,
    /// Deliveries that were sent again since the link was attached: its consumer has each of them, also if
    /// this one does not reach it.
    resent: BTreeSet<Acquisition>,
    /// Deliveries of which others may have the message by now, whatever its consumer says.
    restate: VecDeque<Acquisition>,
    /// Those whose state was sent: it may not reach its consumer, which says so when it comes back.
    restated: BTreeSet<Acquisition>,
    /// Whether its consumer gets nothing new until it attaches again, since it did not tell all that it
    /// knows of. [AMQP 2.7.3]
    only_resumes: bool,
    /// Whether [`Work::Resend`] is on the list.
    is_resending: bool,
    charge: Charge,
}

/// What the consumer of a link knows of, compared with what the link held.
#[derive(Debug)]
struct Recovering {
    known: Vec<(Acquisition, Option<Outcome>)>,
    /// Whether these are not all of them: then the others stay held.
    is_incomplete: bool,
    /// How those failed that the consumer knows nothing of.
    failed: Option<How>,
    /// The next position to look at.
    from: Position,
    /// What is held still, and whether its consumer said that it knows of it.
    held: Vec<(Acquisition, bool)>,
    late: Vec<Acquisition>,
    /// The record with the last outcome.
    lsn: Lsn,
}

/// A link that is nowhere attached, and holds deliveries.
#[derive(Debug)]
struct Suspended {
    terms: Box<Terms>,
    queue: QueueId,
    consumer: ConsumerId,
    holder: HolderId,
    held: u32,
    /// The timeout that its consumer asked for.
    timeout_ms: Option<u32>,
    evidence: Option<Arc<Evidence>>,
    /// How its deliveries failed; none: they did not.
    failed: Option<How>,
    session: SessionId,
    connection: ConnectionId,
    /// When its time is over; none: it has not begun.
    due: Option<Millis>,
}

/// A link that the journal has kept.
pub(super) struct Restored<'a> {
    pub(super) link: &'a ConsumerLink,
    /// A consumer that stands for the one that it had.
    pub(super) consumer: ConsumerId,
    /// Number of messages that it holds.
    pub(super) held: u32,
}

/// What a consumer takes over from the one that its link had before.
pub(super) struct Inherited {
    /// None: its link ends with its connection.
    pub(super) terms: Option<Box<Terms>>,
    pub(super) holder: HolderId,
    pub(super) held: u32,
}

/// Who settles a delivery that was held for too long.
pub(super) enum LateSettler {
    /// Its consumer, which has been sent it.
    Consumer,
    /// Nobody; the identity of its consumer.
    Nobody(Option<Arc<Evidence>>),
}

/// All links of consumers that outlive their connections.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    /// Attached or not: the consumer that it has, or had last.
    links: BTreeMap<LinkKey, ConsumerId>,
    /// Number of them by user.
    users: BTreeMap<(Name, bool), usize>,
    suspended: BTreeMap<ConsumerId, Suspended>,
    /// Those whose time has begun, by its end.
    due: BTreeSet<(Millis, ConsumerId)>,
    /// Those whose time begins with the end of a session or connection.
    later: BTreeSet<(ConnectionId, ConsumerId)>,
    /// Consumers that have the deliveries of another.
    heirs: BTreeMap<HolderId, ConsumerId>,
}

impl Terms {
    fn new(
        key: LinkKey,
        (expiry, timeout_ms): (ExpiryPolicy, u64),
        journalled: Option<Journalled>,
        charge: Charge,
    ) -> Box<Self> {
        let mut terms = Box::new(Self {
            key,
            expiry,
            timeout_ms,
            journalled,
            late: BTreeSet::new(),
            recovering: None,
            resend: VecDeque::new(),
            resent: BTreeSet::new(),
            restate: VecDeque::new(),
            restated: BTreeSet::new(),
            only_resumes: false,
            is_resending: false,
            charge,
        });
        terms.count();
        terms
    }

    /// Whether its consumer gets nothing new yet.
    pub(super) fn is_behind(&self) -> bool {
        let is_sent = self.resend.is_empty() && self.restate.is_empty();
        self.recovering.is_some() || self.only_resumes || !is_sent
    }

    /// Whether its consumer gets nothing new, since its map was incomplete: it is to attach again.
    pub(super) const fn only_resumes(&self) -> bool {
        self.only_resumes
    }

    /// Whether its consumer is to be sent again something that it knows of.
    pub(super) fn owes(&self) -> bool {
        self.recovering.is_some() || !self.resend.is_empty() || !self.restate.is_empty()
    }

    /// Forgets a late delivery that its consumer has settled.
    pub(super) fn settle_late(&mut self, position: Position) {
        let first = Acquisition {
            position,
            acquired: 0,
        };
        let late = self.late.range(first..).next().copied();
        if let Some(late) = late.filter(|late| late.position == position) {
            self.late.remove(&late);
        }
        self.count();
    }

    /// Notes that a delivery was held for too long.
    fn time_out(&mut self, late: Acquisition) {
        self.late.insert(late);
        self.count();
    }

    /// Whether a delivery was not sent since the link was attached.
    fn is_unsent(&self, acquisition: &Acquisition) -> bool {
        self.recovering.is_some() || self.resend.binary_search(acquisition).is_ok()
    }

    /// Charges what it keeps.
    fn count(&mut self) {
        let texts = [&self.key.user, &self.key.container, &self.key.link];
        let texts_bytes: usize = texts.iter().map(|text| text.len()).sum();
        let recovering = self.recovering.as_ref();
        let known = recovering.map_or(0, |it| it.known.capacity());
        let held = recovering.map_or(0, |it| it.held.len());
        let sent = self.resend.len() + self.resent.len();
        let sent = sent + self.restate.len() + self.restated.len();
        let kept = self.late.len() + sent + held;
        let known_bytes = known * size_of::<(Acquisition, Option<Outcome>)>();
        let bytes = RESUMABLE_DELIVERY_BYTES + (2 * texts_bytes + known_bytes) as u64;
        self.charge.set(bytes + ACQUISITION_BYTES * kept as u64);
    }
}

impl Recoveries {
    /// The consumer that has deliveries with this holder id.
    pub(super) fn consumer_of(&self, holder: HolderId) -> ConsumerId {
        let heir = self.heirs.get(&holder).copied();
        heir.unwrap_or(ConsumerId(holder.0))
    }

    /// Whether this consumer's link is nowhere attached, and may come back.
    #[cfg(test)]
    pub(super) fn is_suspended(&self, consumer: ConsumerId) -> bool {
        self.suspended.contains_key(&consumer)
    }

    /// How long a link that is nowhere attached may hold a delivery, in milliseconds.
    pub(super) fn timeout_of(&self, consumer: ConsumerId, queue: &Queue) -> Option<u32> {
        let suspended = self.suspended.get(&consumer)?;
        let own_ms = suspended.timeout_ms.or_else(|| queue.settings.timeout_ms());
        own_ms.filter(|timeout_ms| *timeout_ms > 0)
    }

    /// When the time of the next link is over.
    pub(super) fn due(&self) -> Millis {
        self.due.first().map_or(Millis::NEVER, |(due, _)| *due)
    }

    /// Has the link with this name be one of this consumer; false if there are too many.
    fn claim(&mut self, key: &LinkKey, consumer: ConsumerId) -> bool {
        if let Some(known) = self.links.get_mut(key) {
            *known = consumer;
            return true;
        }
        let user = (key.user.clone(), key.by_token);
        let of_user = self.users.get(&user).copied().unwrap_or(0);
        if self.links.len() >= RESUMABLE_LINKS_MAX || of_user >= RESUMABLE_LINKS_USER_MAX {
            return false;
        }
        self.users.insert(user, of_user + 1);
        self.links.insert(key.clone(), consumer);
        true
    }

    /// Forgets a link, unless another consumer has it by now.
    fn forget(&mut self, key: &LinkKey, consumer: ConsumerId) {
        if self.links.get(key) != Some(&consumer) {
            return;
        }
        self.links.remove(key);
        let user = (key.user.clone(), key.by_token);
        if let Some(of_user) = self.users.get_mut(&user) {
            uncount!(*of_user, 1, "a link that is forgotten was its user's");
            if *of_user == 0 {
                self.users.remove(&user);
            }
        }
    }

    fn suspend(&mut self, suspended: Suspended) {
        let id = suspended.consumer;
        match suspended.due {
            Some(due) => self.due.insert((due, id)),
            None => self.later.insert((suspended.connection, id)),
        };
        self.suspended.insert(id, suspended);
    }

    /// Keeps a link that held something when the broker ended: its time begins. False if there are too many,
    /// or another link has its name.
    pub(super) fn restore(&mut self, now: Millis, restored: &Restored<'_>, charge: Charge) -> bool {
        let Restored {
            link,
            consumer,
            held,
        } = *restored;
        if self.links.contains_key(&link.key) || !self.claim(&link.key, consumer) {
            return false;
        }
        let journalled = Journalled {
            number: link.number,
            acquired: Lsn(0),
        };
        let lifetime = (link.expiry, link.timeout_ms);
        self.suspend(Suspended {
            terms: Terms::new(link.key.clone(), lifetime, Some(journalled), charge),
            queue: link.queue,
            consumer,
            holder: holder(consumer),
            held,
            timeout_ms: link.consumer_timeout_ms,
            evidence: None,
            failed: None,
            session: SessionId(0),
            connection: ConnectionId(0),
            due: Some(now.plus(link.timeout_ms)),
        });
        true
    }

    /// Counts a message as gone that a link held which is nowhere attached; false if it is attached.
    pub(super) fn lose_reserved(&mut self, consumer: ConsumerId) -> bool {
        let Some(suspended) = self.suspended.get_mut(&consumer) else {
            return false;
        };
        uncount!(suspended.held, 1, "what is gone a link held");
        true
    }

    fn take(&mut self, id: ConsumerId) -> Option<Suspended> {
        let suspended = self.suspended.remove(&id)?;
        match suspended.due {
            Some(due) => self.due.remove(&(due, id)),
            None => self.later.remove(&(suspended.connection, id)),
        };
        Some(suspended)
    }

    /// Begins the time of links that ended before their connection: all, or those of one session.
    pub(super) fn begin(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        session: Option<SessionId>,
    ) {
        let first = (connection, ConsumerId(0));
        let last = (connection, ConsumerId(u64::MAX));
        let begins = |id: &ConsumerId| {
            let suspended = self.suspended.get(id)?;
            let end = session.map_or(LinkEnd::ConnectionClosed, |_| LinkEnd::SessionEnded);
            let is_its = session.is_none_or(|session| suspended.session == session);
            (is_its && suspended.terms.expiry.begins(end)).then_some(*id)
        };
        let later = self.later.range(first..=last);
        let begun: Vec<_> = later.filter_map(|(_, id)| begins(id)).collect();
        for id in begun {
            self.later.remove(&(connection, id));
            if let Some(suspended) = self.suspended.get_mut(&id) {
                let due = now.plus(suspended.terms.timeout_ms);
                suspended.due = Some(due);
                self.due.insert((due, id));
            }
        }
    }
}

/// Ends.
impl Core {
    /// Keeps what a consumer holds whose link may be attached again; returns it if it is not to be kept.
    pub(super) fn suspend_link(
        &mut self,
        now: Millis,
        (id, mut consumer): (ConsumerId, Consumer),
        failed: Option<How>,
        end: LinkEnd,
    ) -> Option<Consumer> {
        let Some(mut terms) = consumer.recovery.take() else {
            return Some(consumer);
        };
        let unsaid = std::mem::take(&mut terms.restate);
        terms.late.extend(unsaid);
        terms.late.append(&mut terms.restated);
        if end == LinkEnd::Closed || (consumer.held == 0 && terms.late.is_empty()) {
            self.recoveries.heirs.remove(&consumer.holder);
            self.recoveries.forget(&terms.key, id);
            self.forget_consumer_link(terms.journalled);
            return Some(consumer);
        }
        terms.recovering = None;
        terms.resend.clear();
        terms.resent.clear();
        terms.count();
        let begins = terms.expiry.begins(end);
        let due = begins.then(|| now.plus(terms.timeout_ms));
        #[cfg(test)]
        let due = due.map(|due| {
            if is_planted(Plant::HeldNotKept) {
                now
            } else {
                due
            }
        });
        self.recoveries.suspend(Suspended {
            terms,
            queue: consumer.queue,
            consumer: id,
            holder: consumer.holder,
            held: consumer.held,
            timeout_ms: consumer.timeout_ms,
            evidence: consumer.evidence,
            failed,
            session: consumer.session,
            connection: consumer.connection,
            due,
        });
        None
    }

    /// Forgets the link of a consumer whose queue is gone.
    pub(super) fn forget_link(&mut self, id: ConsumerId, consumer: &Consumer) {
        if let Some(terms) = &consumer.recovery {
            self.recoveries.heirs.remove(&consumer.holder);
            self.recoveries.forget(&terms.key, id);
            self.forget_consumer_link(terms.journalled);
        }
    }

    /// Ends links whose time is over.
    pub(super) fn end_due_links(&mut self, now: Millis) {
        for _ in 0..END_MAX {
            let first = self.recoveries.due.first().copied();
            let Some((_, id)) = first.filter(|(due, _)| *due <= now) else {
                return;
            };
            let Some(suspended) = self.recoveries.take(id) else {
                return invariant!(broken, "a link whose time is over is there");
            };
            self.end_suspended(suspended);
        }
    }

    /// Ends the links of a user that was deleted, as far as they are nowhere attached.
    pub(super) fn end_links_of(&mut self, user: &Name) {
        let suspended = self.recoveries.suspended.iter();
        let its = suspended.filter(|(_, it)| it.terms.key.is_of_user(user));
        let its: Vec<_> = its.map(|(id, _)| *id).collect();
        for id in its {
            if let Some(suspended) = self.recoveries.take(id) {
                self.end_suspended(suspended);
            }
        }
    }

    fn end_suspended(&mut self, suspended: Suspended) {
        self.recoveries
            .forget(&suspended.terms.key, suspended.consumer);
        self.forget_consumer_link(suspended.terms.journalled);
        self.requeue_held(suspended);
    }

    /// Gives what a link held to its queue.
    fn requeue_held(&mut self, suspended: Suspended) {
        let Suspended {
            queue: id,
            consumer,
            holder,
            mut held,
            timeout_ms,
            evidence,
            failed,
            ..
        } = suspended;
        self.recoveries.heirs.remove(&holder);
        let reserved = self.forget_reserved(id, holder);
        uncount!(held, reserved, "what is reserved for a link it held");
        let Some(queue) = self.queues.get_mut(&id) else {
            return; // deleted meanwhile, with all in it
        };
        queue.timeouts.remove(timeout_ms);
        if held == 0 {
            queue.selecting.free_groups(consumer);
            return self.schedule(id);
        }
        self.work.push_back(Work::Requeue {
            queue: id,
            consumer,
            holder,
            from: Position(0),
            left: held,
            failure: failed.map(|how| Box::new(Failure::new(how, evidence))),
            suspected: false,
        });
    }

    /// Takes back a delivery that a link held for too long if its consumer cannot settle it now.
    pub(super) fn time_out_unsent(
        &mut self,
        id: ConsumerId,
        acquisition: Acquisition,
    ) -> LateSettler {
        if let Some(suspended) = self.recoveries.suspended.get_mut(&id) {
            uncount!(suspended.held, 1, "what a link held for too long it held");
            suspended.terms.time_out(acquisition);
            return LateSettler::Nobody(suspended.evidence.clone());
        }
        let consumer = self.clients.consumers.get_mut(&id);
        let Some((terms, evidence)) =
            consumer.and_then(|it| Some((it.recovery.as_mut()?, it.evidence.clone())))
        else {
            return LateSettler::Consumer;
        };
        if !terms.is_unsent(&acquisition) {
            terms.time_out(acquisition);
            return LateSettler::Consumer;
        }
        terms.restate.push_back(acquisition);
        terms.resend.retain(|other| *other != acquisition);
        self.release(id);
        LateSettler::Nobody(evidence)
    }
}

impl Inherited {
    /// Nothing: the link is new, and ends with its connection.
    pub(super) const fn nothing(id: ConsumerId) -> Self {
        Self {
            terms: None,
            holder: holder(id),
            held: 0,
        }
    }

    /// What the consumer is told of its link.
    pub(super) fn kept(&self) -> Kept {
        match &self.terms {
            None => Kept::No,
            Some(terms) => {
                let is_durable = terms.journalled.is_some();
                if terms.recovering.is_some() {
                    Kept::Recovering { is_durable }
                } else {
                    Kept::Yes { is_durable }
                }
            }
        }
    }
}

#[cfg(test)]
impl Core {
    /// Numbers of links of consumers that outlive their connections: all, and those nowhere attached.
    pub(crate) fn recoverable_links(&self) -> (usize, usize) {
        (self.recoveries.links.len(), self.recoveries.suspended.len())
    }
}
