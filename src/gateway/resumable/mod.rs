//! Links of publishers that outlive their connection: a publisher that attaches one again gets the outcomes
//! that it missed, and publishes nothing twice. [AMQP 2.6.13, 3.5.6]
//!
//! Promised to a link whose target expires later than its connection, and whose deliveries its publisher
//! settles after their outcome (`rcv-settle-mode` second): else the broker would forget an outcome that
//! may not have arrived. Over a restart of the broker if the target asks for that (`durable` 2,
//! unsettled-state) and there is a journal: then the core notes with each message what became of it.
//!
//! Read first: [`link`], one such link; then [`table`], all of them; [`begun`], messages that are cut in the
//! middle. What the core keeps of consumers'
//! links is named on the wire in [`consumer`]; their ends are in [`leaving`].

mod begun;
mod consumer;
mod leaving;
mod link;
mod table;

use std::sync::Arc;

use super::Gateway;
use super::connection::AwaitedAnswer;
use super::errors;
use super::handshake::Login;
use super::links::{Link, LinkId, LinkKind};
use super::publish::Refusal;
use super::publisher::{Destination, verdict};
use super::work::Work;
use crate::base::limits::RESUMABLE_TIMEOUT_MAX_MS;
use crate::base::{ConnectionId, Lsn, PublisherId, Serial};
use crate::broker::publisher_link::{KeptPublish, PublisherLink};
use crate::broker::recovery::{self, ExpiryPolicy};
use crate::broker::{Command, Effect, Publish, PublishOutcome, PublisherCommand, PublisherNews};
use crate::link::{Arrived, LinkHandle, Resumed, Tagged};
use crate::wire::performative::{
    Attach, AttachAnswer, DeliveryState, DeliveryTag, Error, ReceiverSettleMode, SenderSettleMode,
    Symbol, Target, TargetArchetype, Terminus, UnsettledDelivery, unsettled_tags,
};

use begun::Begun;
pub(super) use consumer::ConsumerLifetime;
pub(super) use leaving::{Departed, end_of_detach};
use link::{Decision, NotTaken, Owner, ResumableLink, ToTell};
pub(super) use table::ResumableLinks;
use table::{Claim, LinkKey, Wanted};

/// Longest time that a link is kept after its connection, in seconds as termini have it.
const TIMEOUT_MAX_S: u32 = RESUMABLE_TIMEOUT_MAX_MS / 1_000;
/// The durability of a terminus that keeps which deliveries are unsettled. [AMQP 3.5.5]
const UNSETTLED_STATE: u32 = 2;

/// What an attach asks for, until it is answered.
#[derive(Debug)]
pub(super) struct AskedResumable {
    wanted: Wanted,
    expiry: ExpiryPolicy,
    target: Target,
}

/// A publisher's link that outlives its connection, while it is attached.
#[derive(Debug)]
pub(super) struct Resumable {
    key: LinkKey,
    expiry: ExpiryPolicy,
    owner: Owner,
    link: Arc<ResumableLink>,
    /// The message that its publisher may resume in the middle.
    offered: Option<Box<Begun>>,
    /// The message that goes on, if what had arrived of it is in memory.
    front: Option<Box<Begun>>,
}

impl Resumable {
    /// The credit that its publisher gets, which has `credit` and is to have `wanted`.
    pub(super) fn give(&self, wanted: u32, credit: u32) -> u32 {
        self.link.give(wanted, credit)
    }
}

/// Attaching.
impl Gateway {
    /// What the attach of a publisher asks for beyond its connection; none: nothing, or nothing that can
    /// be kept.
    pub(super) fn asked_resumable(
        &self,
        attach: &Attach,
    ) -> Result<Option<Box<AskedResumable>>, Error> {
        let Some(TargetArchetype::Target(target)) = attach.target.as_deref() else {
            return Ok(None);
        };
        let is_settled_late = attach.rcv_settle_mode == ReceiverSettleMode::Second
            && attach.snd_settle_mode != SenderSettleMode::Settled;
        let is_able = self.environment.options.link_recovery && !self.container.is_empty();
        if !is_able || !is_settled_late || target.dynamic {
            return Ok(None);
        }
        let lifetime = consumer::lifetime(target.expiry_policy.as_ref(), target.timeout_s);
        let Some((expiry, timeout_s)) = lifetime else {
            return Ok(None);
        };
        let map = attach.unsettled.as_deref();
        let tags = map.map(unsettled_tags).transpose();
        let tags = tags.map_err(|why| errors::invalid_field(format_args!("unsettled: {why}")))?;
        let mut tags = tags.unwrap_or_default();
        tags.sort_unstable();
        let wanted = Wanted {
            timeout_s: timeout_s.get(),
            is_durable: target.durable == UNSETTLED_STATE && self.environment.has_journal(),
            tags,
            is_incomplete: attach.incomplete_unsettled,
        };
        let target = target.clone();
        Ok(Some(Box::new(AskedResumable {
            wanted,
            expiry,
            target,
        })))
    }

    /// Attaches a link that is to outlive its connection. Returns what its publisher is answered, or none
    /// if it ends with the connection after all.
    pub(super) fn claim_resumable(
        &mut self,
        handle: LinkHandle,
        asked: AskedResumable,
    ) -> Option<AttachAnswer> {
        let AskedResumable {
            wanted,
            expiry,
            mut target,
        } = asked;
        let link = self.links.by_handle(handle)?;
        let (id, owner) = (link.id.publisher(), owner_of(self.id, link.id));
        let login = self.login.as_ref()?;
        let key = LinkKey {
            vhost: self.vhost.clone()?,
            user: login.user.clone(),
            by_token: login.has_token(),
            container: self.container.clone(),
            link: link.name.clone(),
        };
        let environment = &self.environment;
        let claim = (environment.resumable).claim(environment.kept(), (&key, owner), &wanted)?;
        let Claim {
            link: resumable,
            unsettled,
            stolen_from,
            begun,
        } = claim;
        let LinkKind::Publisher(publisher) = &mut link.kind else {
            return None;
        };
        let number = resumable.number();
        let offered = begun.filter(|begun| wanted.names(begun.tag()));
        let told_begun = offered.as_ref().map(|begun| begun.unsettled());
        if let Some(begun) = &offered {
            self.link.expect_resumed(handle, begun.expected());
        }
        publisher.resumable = Some(Box::new(Resumable {
            key,
            expiry,
            owner,
            link: resumable,
            offered,
            front: None,
        }));
        let durable = self.durable;
        let told = unsettled.into_iter().map(|(tag, decision)| {
            let known = decision.filter(|(_, lsn)| *lsn <= durable);
            let state = known.and_then(|(decision, _)| state_of(&publisher.to, decision));
            (tag, state)
        });
        // First, so that it is told if not all are.
        let unsettled: Vec<UnsettledDelivery> = told_begun.into_iter().chain(told).collect();
        if let Some(from) = stolen_from {
            self.tell_stolen(from);
        }
        if let Some(number) = number {
            self.keep_link(id, (number, wanted.timeout_s));
        }
        let is_durable = wanted.is_durable && number.is_some();
        target.durable = if is_durable { UNSETTLED_STATE } else { 0 };
        target.expiry_policy = Some(Symbol::from(expiry.as_str()));
        target.timeout_s = wanted.timeout_s;
        Some(AttachAnswer {
            target: Terminus::Given(Box::new(TargetArchetype::Target(target))),
            is_resumable: true,
            unsettled,
            ..AttachAnswer::default()
        })
    }

    /// Tells the core that the journal is to keep what becomes of messages on a link.
    fn keep_link(&mut self, id: PublisherId, (number, timeout_s): (u64, u32)) {
        let Some(Resumable { key, expiry, .. }) = self.resumable(id) else {
            return;
        };
        let link = PublisherLink {
            number,
            key: recovery::LinkKey {
                user: key.user.clone(),
                by_token: key.by_token,
                container: key.container.clone(),
                link: key.link.clone(),
            },
            expiry: *expiry,
            timeout_s,
        };
        let keep = PublisherCommand::Keep(Box::new(link));
        self.batch.push(Work::Command(Command::Publisher(keep)));
    }

    /// Detaches the older end of a link that was attached again. [AMQP 2.6.1]
    fn tell_stolen(&mut self, from: Owner) {
        if from.connection == self.id {
            return self.on_publisher_stolen(from.publisher);
        }
        self.batch
            .push(Work::Command(Command::Publisher(PublisherCommand::Tell {
                connection: from.connection,
                publisher: from.publisher,
                news: PublisherNews::Stolen,
            })));
    }

    /// Detaches a link that was attached again elsewhere.
    pub(super) fn on_publisher_stolen(&mut self, id: PublisherId) {
        if let Some((handle, _)) = self.links.publisher(id) {
            self.link.detach(handle, true, Some(errors::stolen()));
        }
    }
}

/// Messages and their settlement.
impl Gateway {
    /// Handles a message that came with its tag, since its link outlives its connection.
    #[cold]
    pub(super) fn on_tagged(&mut self, tagged: Tagged) {
        if self.links.resumable(tagged.link).is_none() {
            return self.on_named(tagged);
        }
        let Tagged {
            link: handle,
            tag,
            is_second,
            arrived,
        } = tagged;
        let Some(resumable) = self.links.resumable(handle) else {
            return;
        };
        let payload = resumable.with_front(arrived.payload);
        let arrived = Arrived { payload, ..arrived };
        if arrived.settled {
            return self.on_messages(handle, arrived);
        }
        let Arrived {
            delivery_id,
            settled,
            payload,
        } = arrived;
        let generation = self.login.as_ref().map_or(0, Login::generation);
        let Some((id, way)) = self.receive(handle, generation, payload) else {
            return;
        };
        let Some(Resumable { owner, link, .. }) = self.resumable(id.publisher()) else {
            return;
        };
        let (owner, link) = (*owner, Arc::clone(link));
        let takes_rejected = self.takes_rejected(id.publisher());
        if !takes_rejected {
            self.tags.keep((id.publisher(), delivery_id), tag);
        }
        let taken = link.arrive(owner, (tag, delivery_id), is_second);
        match (taken, way) {
            (Ok(()), Ok((way, message))) => {
                let publish = self.publish_of(id, (delivery_id, settled), way, message);
                let command = command_of(&link, tag, publish);
                self.batch.push(Work::Command(command));
                self.count_published(id, settled);
            }
            (Ok(()), Err(refusal)) => {
                let at = (id.publisher(), delivery_id.0);
                match &refusal {
                    _ if !takes_rejected => link.undo(at), // the link ends
                    Refusal::Outcome(state) => {
                        link.decide(at, &Decision::Refused(state.clone()), Lsn(0));
                    }
                    Refusal::Released(_) | Refusal::Detach(_) => {}
                }
                self.refuse_message(handle, delivery_id, settled, refusal);
            }
            (Err(why), way) => {
                if let Ok((_, message)) = way {
                    self.release_blob(message.blob().map(|body| **body));
                }
                // It ends with the news that it is stolen.
                if why == NotTaken::Repeated {
                    let error = errors::repeated_tag();
                    self.link.detach(handle, true, Some(error));
                }
            }
        }
        self.give_credit(id.publisher());
    }

    /// Handles a delivery that its publisher resumes: it is told the outcome, if there is one.
    #[cold]
    pub(super) fn on_resumed(&mut self, resumed: &Resumed) {
        let Resumed {
            link: handle,
            delivery_id,
            ..
        } = *resumed;
        let found = self.links.by_handle(handle);
        let Some(Link {
            id,
            kind: LinkKind::Publisher(publisher),
            ..
        }) = found
        else {
            return;
        };
        publisher.aborted(); // its payload counts for nothing
        let id = id.publisher();
        let known = publisher.resumable.as_ref().and_then(|resumable| {
            let place = (resumed.tag, delivery_id);
            let settles = (resumed.settled, resumed.is_second);
            resumable.link.resume(resumable.owner, place, settles)
        });
        match known {
            None if resumed.is_in_part && !resumed.settled => {
                // Its publisher believes that all of it is here, and is to send it again.
                let released = DeliveryState::Released;
                self.link.settle_received(handle, delivery_id, &released);
            }
            None => self.link.forget_received(handle, delivery_id),
            Some(None) => {} // told once it is known
            Some(Some((Decision::Refused(state), _))) => {
                self.link.settle_received(handle, delivery_id, &state);
            }
            Some(Some((Decision::Published(outcome), lsn))) if lsn <= self.durable => {
                self.tell_published(id, delivery_id, &outcome);
            }
            Some(Some((Decision::Published(outcome), lsn))) => {
                let effect = Effect::Published {
                    publisher: id,
                    token: delivery_id.0.into(),
                    outcome,
                    lsn,
                };
                self.waiting.push_back((lsn, AwaitedAnswer::Effect(effect)));
            }
        }
        self.give_credit(id);
    }

    /// Forgets a delivery that its publisher has settled.
    pub(super) fn on_sender_settled(&mut self, handle: LinkHandle, delivery_id: Serial) {
        if let Some(Link {
            id,
            kind: LinkKind::Publisher(publisher),
            ..
        }) = self.links.by_handle(handle)
            && let Some(resumable) = &publisher.resumable
        {
            let id = id.publisher();
            resumable.link.settle(resumable.owner, delivery_id);
            self.give_credit(id);
        }
    }

    /// Handles what became of a message on a link that outlives its connection, or outlived its session:
    /// the publisher is told wherever it has the link attached.
    #[cold]
    pub(super) fn on_resumable_published(
        &mut self,
        id: PublisherId,
        (token, outcome): (u64, &PublishOutcome),
        lsn: Lsn,
    ) {
        let Some(resumable) = self.resumable(id) else {
            return;
        };
        let link = Arc::clone(&resumable.link);
        // The token is the delivery-id, see `publish`.
        let delivery_id = u32::try_from(token).unwrap_or_default();
        if is_none_of_delivery(outcome) || self.ends_link(id, outcome) {
            // It ends its link, if that is there; if not the message is to be sent again.
            link.undo((id, delivery_id));
            return self.tell_published(id, Serial(delivery_id), outcome);
        }
        let decision = Decision::Published(outcome.clone());
        match link.decide((id, delivery_id), &decision, lsn) {
            ToTell::Known => self.tell_published(id, Serial(delivery_id), outcome),
            ToTell::Nobody => self.uncount_pending(id),
            ToTell::At(owner, here) if owner.connection == self.id => {
                self.uncount_pending(id);
                if lsn <= self.durable {
                    self.tell_published(owner.publisher, here, outcome);
                }
            }
            ToTell::At(owner, here) => {
                self.uncount_pending(id);
                self.batch
                    .push(Work::Command(Command::Publisher(PublisherCommand::Tell {
                        connection: owner.connection,
                        publisher: owner.publisher,
                        news: PublisherNews::Published {
                            token: here.0.into(),
                            outcome: outcome.clone(),
                            lsn,
                        },
                    })));
            }
        }
    }

    /// Whether a publisher can be told by an outcome that its message leads nowhere.
    pub(super) fn takes_rejected(&mut self, id: PublisherId) -> bool {
        let publisher = self.links.publisher(id).map(|(_, publisher)| &publisher.to);
        !matches!(
            publisher,
            Some(Destination::Anonymous {
                takes_rejected: false,
                ..
            })
        )
    }

    /// Whether the link ends for this outcome, which its publisher does not take.
    fn ends_link(&mut self, id: PublisherId, outcome: &PublishOutcome) -> bool {
        matches!(outcome, PublishOutcome::NoExchange { .. }) && !self.takes_rejected(id)
    }

    /// A link that outlives this connection, attached or not.
    fn resumable(&mut self, id: PublisherId) -> Option<&Resumable> {
        let departed = self.departed.iter();
        let mut departed = departed.map(|departed| &*departed.resumable);
        match self.links.publisher(id) {
            Some((_, publisher)) => publisher.resumable.as_deref(),
            None => departed.find(|resumable| resumable.owner.publisher == id),
        }
    }
}

const fn owner_of(connection: ConnectionId, id: LinkId) -> Owner {
    Owner {
        connection,
        publisher: id.publisher(),
    }
}

/// Publishes a message of a link, with its tag if that link outlives the broker.
fn command_of(link: &ResumableLink, tag: DeliveryTag, publish: Publish) -> Command {
    let Some(number) = link.number() else {
        return Command::Publish(publish);
    };
    let settled = link.take_settled(tag).into_iter();
    Command::PublishKept(Box::new(KeptPublish {
        publish,
        link: number,
        tag: tag.as_slice().into(),
        settled: settled.map(|tag| tag.as_slice().into()).collect(),
    }))
}

/// The state of a delivery with this outcome.
fn state_of(to: &Destination, decision: Decision) -> Option<DeliveryState> {
    match decision {
        Decision::Published(outcome) => verdict(to, &outcome).0,
        Decision::Refused(state) => Some(state),
    }
}

/// Whether this ends the publisher's link, and is no state of the delivery.
const fn is_none_of_delivery(outcome: &PublishOutcome) -> bool {
    match outcome {
        PublishOutcome::Internal { .. } | PublishOutcome::Forbidden { .. } => true,
        PublishOutcome::Accepted
        | PublishOutcome::Unroutable
        | PublishOutcome::QueueFull { .. }
        | PublishOutcome::TooManyQueues(_)
        | PublishOutcome::NoExchange { .. } => false,
    }
}
