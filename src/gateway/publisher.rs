//! Publishing links: their credit, and the dispositions that report the outcomes of publishes.

use std::sync::Arc;

use super::Gateway;
use super::errors;
use super::links::{Link, LinkKind};
use super::publish::Way;
use super::resumable::{AskedResumable, Resumable};
use super::streaming_body::StreamingBody;
use super::work::Work;
use crate::access::TopicPermissions;
use crate::base::limits::{PUBLISH_CREDIT_BYTES, PUBLISH_CREDIT_MAX};
use crate::base::{Lsn, Name, PublisherId, Serial, invariant, uncount};
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::{Command, PublishOutcome, PublisherCommand, Target};
use crate::link::LinkHandle;
use crate::message::Route;
use crate::wire::performative::{DeliveryState, Error};

/// Initial credit, while the sizes of a link's messages are unknown (as RabbitMQ), in messages.
const CREDIT_FIRST: u32 = 170;
/// The weight of a new size in the moving mean is one part of this number.
const MEAN_PARTS: u64 = 8;

/// A publishing link, as the broker keeps it.
#[derive(Debug)]
pub(super) struct Publisher {
    /// Where its messages are published to.
    pub(super) to: Destination,
    /// Credit that the peer has left, in messages.
    credit: u32,
    /// Credit at the last grant, in messages; more is granted when half of it is used.
    given: u32,
    /// Number of messages whose outcome is not known yet.
    pending: u32,
    /// Moving mean of the size of its messages, in bytes; 0 before the first.
    mean_bytes: u64,
    /// The registry's generation under which its right to write was checked.
    pub(super) checked: u64,
    /// The keys it may use, if its exchange is a topic exchange; none: all.
    pub(super) topic: Option<Arc<TopicPermissions>>,
    /// Whether it has published to the address of a queue, and is ended when the queue is deleted.
    follows: bool,
    /// What its attach asks for beyond its connection, until it is answered.
    pub(super) asked: Option<Box<AskedResumable>>,
    /// What of it outlives its connection, if anything does.
    pub(super) resumable: Option<Box<Resumable>>,
    /// The message that is being streamed while it arrives.
    pub(super) streaming: Option<Box<StreamingBody>>,
}

/// Where the messages of a link are published to.
#[derive(Debug)]
pub(super) enum Destination {
    /// One exchange with one key, looked up at attach.
    Fixed {
        /// The exchange's id; none until the core has answered.
        exchange: Option<Target>,
        /// The exchange's name, and the key.
        route: Arc<Route>,
        /// Whether a message that no subscriber wants is accepted.
        is_topic: bool,
    },
    /// The address in each message: the anonymous terminus.
    Anonymous {
        /// The last `to` that was looked up, whether it was a topic, and its route.
        last: Option<(String, bool, Arc<Route>)>,
        /// Whether the publisher's source offers `rejected`, or names no outcomes.
        takes_rejected: bool,
    },
}

impl Publisher {
    pub(super) const fn new(to: Destination) -> Self {
        Self {
            to,
            credit: 0,
            given: 0,
            pending: 0,
            mean_bytes: 0,
            checked: 0,
            topic: None,
            follows: false,
            asked: None,
            resumable: None,
            streaming: None,
        }
    }

    /// The route of its messages that have no further keys, once it is known and permitted.
    pub(super) fn way(&self, generation: u64) -> Option<Way> {
        match &self.to {
            Destination::Fixed {
                exchange: Some(target),
                route,
                ..
            } if self.checked == generation => Some(Way {
                target: *target,
                route: Arc::clone(route),
                topic: self.topic.clone(),
                delivery_time: None,
            }),
            _ => None,
        }
    }

    /// The credit to grant now, if the peer's has become low; none while credit is held back
    /// (`wait`).
    pub(super) fn top_up(&mut self, wait: bool) -> Option<u32> {
        if self.credit > self.given / 2 {
            return None;
        }
        let window = match (wait, self.mean_bytes) {
            (true, _) => 0,
            (false, 0) => u64::from(CREDIT_FIRST),
            (false, mean) => (PUBLISH_CREDIT_BYTES / mean).clamp(1, PUBLISH_CREDIT_MAX.into()),
        };
        let window = u32::try_from(window).unwrap_or(PUBLISH_CREDIT_MAX);
        let mut wanted = window.saturating_sub(self.pending);
        if let Some(resumable) = &self.resumable {
            wanted = resumable.give(wanted, self.credit);
        }
        if wanted <= self.credit {
            return None;
        }
        (self.credit, self.given) = (wanted, wanted);
        Some(wanted)
    }

    /// Counts a message that was published. Returns the queue to follow, if it is the first to a
    /// queue's address.
    pub(super) fn published(&mut self, settled: bool) -> Option<Name> {
        self.pending += u32::from(!settled);
        self.begin_to_follow()
    }

    /// The queue whose address it publishes to, at its first message.
    fn begin_to_follow(&mut self) -> Option<Name> {
        if self.follows {
            return None;
        }
        match &self.to {
            Destination::Fixed {
                exchange: Some(Target::Attached(DEFAULT_EXCHANGE)),
                route,
                ..
            } => {
                self.follows = true;
                route.keys.first().cloned()
            }
            _ => None,
        }
    }

    /// Withdraws all credit.
    pub(super) fn stop(&mut self) {
        (self.credit, self.given) = (0, 0);
    }

    /// Counts an aborted message: it used up a credit, perhaps one that was withdrawn meanwhile.
    pub(super) fn aborted(&mut self) {
        self.credit = self.credit.saturating_sub(1);
    }

    /// Counts a message that used up a credit, perhaps one that was withdrawn meanwhile.
    pub(super) fn arrived(&mut self, size_bytes: u64) {
        self.credit = self.credit.saturating_sub(1);
        self.mean_bytes = match self.mean_bytes {
            0 => size_bytes.max(1),
            mean => (mean * (MEAN_PARTS - 1) + size_bytes).div_ceil(MEAN_PARTS),
        };
    }
}

impl Gateway {
    /// Detaches a link because the queue whose address it publishes to was deleted.
    pub(super) fn on_publisher_ended(&mut self, id: PublisherId) {
        if let Some((handle, _)) = self.links.publisher(id) {
            self.link
                .detach(handle, true, Some(errors::queue_deleted()));
        }
    }

    /// Forgets a detached link: it no longer follows the queue whose address it published to.
    pub(super) fn forget_publisher(&mut self, link: &Link) {
        if let LinkKind::Publisher(publisher) = &link.kind
            && publisher.follows
        {
            self.batch
                .push(Work::Command(Command::Publisher(PublisherCommand::Leave {
                    connection: self.id,
                    publisher: link.id.publisher(),
                })));
        }
    }

    /// Reports that the core accepted publishes with consecutive tokens.
    pub(super) fn on_accepted(&mut self, id: PublisherId, first: u64, count: u32) {
        let Some((handle, publisher)) = self.links.publisher(id) else {
            return self.on_accepted_by_resumable(id, first, count);
        };
        if publisher.resumable.is_some() {
            return self.on_accepted_by_resumable(id, first, count);
        }
        uncount!(
            publisher.pending,
            count,
            "publishes that were accepted were counted"
        );
        let Some(behind_first) = count.checked_sub(1) else {
            return invariant!(broken, "there are publishes that were accepted");
        };
        let first = Serial(u32::try_from(first).unwrap_or_default());
        let last = first.plus(behind_first);
        let accepted = DeliveryState::Accepted;
        self.link
            .settle_received_range(handle, first, last, &accepted);
        self.give_credit(id);
    }

    #[cold]
    fn on_accepted_by_resumable(&mut self, id: PublisherId, first: u64, count: u32) {
        for token in (first..).take(count as usize) {
            self.on_resumable_published(id, (token, &PublishOutcome::Accepted), Lsn(0));
        }
    }

    /// Reports the outcome of a publish.
    pub(super) fn on_published(&mut self, id: PublisherId, token: u64, outcome: &PublishOutcome) {
        let publisher = self.links.publisher(id).map(|(_, publisher)| publisher);
        if publisher.is_none_or(|publisher| publisher.resumable.is_some()) {
            return self.on_resumable_published(id, (token, outcome), Lsn(0));
        }
        self.uncount_pending(id);
        // The token is the delivery-id, see `publish`.
        let delivery_id = Serial(u32::try_from(token).unwrap_or_default());
        self.tell_published(id, delivery_id, outcome);
    }

    /// Counts a publish with an outcome.
    pub(super) fn uncount_pending(&mut self, id: PublisherId) {
        if let Some((_, publisher)) = self.links.publisher(id) {
            uncount!(
                publisher.pending,
                1,
                "a publish with an outcome was counted"
            );
        }
    }

    /// Tells a publisher the outcome of a delivery.
    pub(super) fn tell_published(
        &mut self,
        id: PublisherId,
        delivery_id: Serial,
        outcome: &PublishOutcome,
    ) {
        let Some((handle, publisher)) = self.links.publisher(id) else {
            return;
        };
        let (state, detach) = verdict(&publisher.to, outcome);
        if let Some(state) = state {
            self.link.settle_received(handle, delivery_id, &state);
        }
        match detach {
            Some(error) => self.end_publisher((handle, id, delivery_id), outcome, error),
            None => self.give_credit(id),
        }
    }

    /// Ends the link of a message that was sent settled and cannot be published: also on the anonymous
    /// terminus, where others are told by their outcome. [anonterm 1.0, Routing Errors]
    pub(super) fn on_presettled_refused(
        &mut self,
        id: PublisherId,
        token: u64,
        outcome: &PublishOutcome,
    ) {
        let Some((handle, publisher)) = self.links.publisher(id) else {
            return; // ended by an earlier one
        };
        let error = match verdict(&publisher.to, outcome) {
            (_, Some(error)) => error,
            (Some(DeliveryState::Rejected { error: Some(error) }), None) => {
                Arc::unwrap_or_clone(error)
            }
            _ => return invariant!(broken, "why a message cannot be published has an error"),
        };
        let delivery_id = Serial(u32::try_from(token).unwrap_or_default());
        self.end_publisher((handle, id, delivery_id), outcome, error);
    }

    /// Detaches a link whose message cannot be published.
    fn end_publisher(
        &mut self,
        (handle, id, delivery_id): (LinkHandle, PublisherId, Serial),
        outcome: &PublishOutcome,
        error: Error,
    ) {
        if let PublishOutcome::Internal { exchange } | PublishOutcome::Forbidden { exchange, .. } =
            outcome
        {
            self.audit_refusal("write exchange", exchange, &error);
        }
        let error = self.tags.name(error, (id, delivery_id));
        self.link.detach(handle, true, Some(error));
    }

    /// Grants more credit to a publisher when its credit has become low.
    pub(super) fn give_credit(&mut self, id: PublisherId) {
        let wait = self.alarm || self.crowded;
        if let Some((handle, publisher)) = self.links.publisher(id)
            && let Some(credit) = publisher.top_up(wait)
        {
            self.link.set_credit(handle, credit);
        }
    }

    /// Handles an alarm that was raised or cleared: publishers lose their credit or get some.
    pub(super) fn on_alarm(&mut self, raised: bool) {
        self.alarm = raised;
        if raised {
            self.give_up_streaming();
        }
        for link in self.links.iter_mut() {
            let LinkKind::Publisher(publisher) = &mut link.kind else {
                continue;
            };
            if raised {
                publisher.stop();
                self.link.set_credit(link.handle, 0);
            } else if let Some(credit) = publisher.top_up(self.crowded) {
                self.link.set_credit(link.handle, credit);
            }
        }
    }

    /// Sets whether messages arrive faster than they can be evicted: meanwhile publishers get no
    /// more credit, and keep what they have.
    pub fn set_crowded(&mut self, crowded: bool) {
        let wait = self.alarm || crowded;
        if !std::mem::replace(&mut self.crowded, crowded) || wait {
            return;
        }
        for link in self.links.iter_mut() {
            if let LinkKind::Publisher(publisher) = &mut link.kind
                && let Some(credit) = publisher.top_up(false)
            {
                self.link.set_credit(link.handle, credit);
            }
        }
    }
}

/// The delivery state for an outcome, and the error to detach with. As with missing rights, a
/// message to an internal exchange gets no outcome.
///
/// A message that queues refuse is told `rejected` also where the publisher's source does not offer that, as
/// RabbitMQ does, which checks only that the outcomes of an attach are known ones: its link works, and to end it
/// would undo what else is on its way. Only on the anonymous terminus an address that leads nowhere ends the link
/// instead. [anonterm 1.0, Routing Errors]
pub(super) fn verdict(
    to: &Destination,
    outcome: &PublishOutcome,
) -> (Option<DeliveryState>, Option<Error>) {
    match outcome {
        PublishOutcome::Accepted => (Some(DeliveryState::Accepted), None),
        PublishOutcome::Unroutable => (Some(DeliveryState::Released), None),
        PublishOutcome::QueueFull { queue } => {
            (Some(errors::rejected(errors::queue_full(queue))), None)
        }
        PublishOutcome::TooManyQueues(why) => {
            (Some(errors::rejected(errors::too_many_queues(*why))), None)
        }
        PublishOutcome::NoExchange { exchange } => {
            let error = errors::no_exchange(exchange);
            match to {
                Destination::Anonymous {
                    takes_rejected: true,
                    ..
                } => (Some(errors::rejected(error)), None),
                Destination::Anonymous { .. } => (None, Some(error)),
                Destination::Fixed { .. } => (Some(DeliveryState::Released), Some(error)),
            }
        }
        PublishOutcome::Internal { exchange } => (None, Some(errors::internal_exchange(exchange))),
        PublishOutcome::Forbidden { exchange, key } => {
            (None, Some(errors::forbidden_key(exchange, key)))
        }
    }
}
