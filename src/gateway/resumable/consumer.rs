//! Links of consumers that outlive their connection: the core keeps what they hold, the gateway names it
//! on the wire. [AMQP 2.6.13, 3.5.6]
//!
//! A delivery has as its delivery-tag its position in its queue, and how often it was requeued there if it
//! was: no two unsettled ones of a link have the same, not even those of one message that came back, and the
//! map of a consumer that comes back says which it means.

use std::num::NonZeroU32;

use super::{Gateway, TIMEOUT_MAX_S, UNSETTLED_STATE, errors};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{ConsumerId, Position, invariant};
use crate::broker::Delivery;
use crate::broker::recovery::{Acquisition, ExpiryPolicy, Kept, LinkKey, Recovered, Recovery};
use crate::gateway::consumer::outcome;
use crate::gateway::links::{Consumer, LinkKind};
use crate::link::{LinkHandle, Sending, Unsendable};
use crate::message::PREFIX_SECTIONS;
use crate::wire::performative::{
    Attach, AttachAnswer, DeliveryState, DeliveryTag, Error, ResumableTag, ResumePoint, Symbol,
    Terminus, TerminusLifetime, UnsettledDelivery, unsettled_deliveries,
};

/// How a consumer's link outlives its connection, as it is answered.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct ConsumerLifetime {
    expiry: ExpiryPolicy,
    timeout_s: NonZeroU32,
    /// Whether it outlives the broker, too.
    is_durable: bool,
}

/// When the time of a link begins and how long it is, in seconds, as a terminus asks for it; none: it ends
/// with its connection, or asks for what is not known. [AMQP 3.5.3, 3.5.6]
pub(super) fn lifetime(
    policy: Option<&Symbol>,
    timeout_s: u32,
) -> Option<(ExpiryPolicy, NonZeroU32)> {
    let (expiry, timeout_s) = match policy.map(Symbol::as_str) {
        None => (ExpiryPolicy::SessionEnd, timeout_s),
        Some("never") => (ExpiryPolicy::ConnectionClose, TIMEOUT_MAX_S),
        Some(word) => (ExpiryPolicy::from_word(word)?, timeout_s),
    };
    Some((expiry, NonZeroU32::new(timeout_s.min(TIMEOUT_MAX_S))?))
}

impl ConsumerLifetime {
    /// The delivery-tag of a message, and where it goes on if it is sent again. [AMQP 3.4.1]
    pub(in crate::gateway) fn tag(delivery: &Delivery, rest: Option<Rest>) -> ResumableTag {
        let at = rest.map_or_else(ResumePoint::default, |rest| rest.at);
        ResumableTag {
            tag: tag_of(delivery.acquisition()),
            resumed: delivery.resumed.then_some(DeliveryState::Received(at)),
        }
    }
}

/// What is sent again of a delivery of which a part had arrived.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Rest {
    at: ResumePoint,
    /// Where it begins in the bare message.
    offset: usize,
}

/// The delivery of a consumer's map that had arrived up to its bare message, at least: header and annotations are
/// made for each transfer, and sent from their beginning. One link has one such delivery, at most.
fn begun((tag, state): &UnsettledDelivery) -> Option<Box<(Acquisition, ResumePoint)>> {
    match state {
        Some(DeliveryState::Received(point)) if point.section_number >= PREFIX_SECTIONS => {
            Some(Box::new((acquisition_of(tag)?, *point)))
        }
        _ => None,
    }
}

impl Consumer {
    /// What is to be sent of a delivery; none: all of it.
    #[inline]
    pub(in crate::gateway) fn rest_of(&mut self, delivery: &Delivery) -> Option<Rest> {
        if delivery.resumed {
            self.rest_of_resumed(delivery)
        } else {
            None
        }
    }

    #[cold]
    fn rest_of_resumed(&mut self, delivery: &Delivery) -> Option<Rest> {
        let of_it = |begun: &mut Box<(Acquisition, ResumePoint)>| begun.0 == delivery.acquisition();
        let (_, point) = *self.begun.take_if(of_it)?;
        let section = point.section_number - PREFIX_SECTIONS;
        let message = &delivery.message;
        let (section, section_offset, offset) = message.bare_point(section, point.section_offset);
        #[cfg(test)]
        let offset = offset + usize::from(is_planted(Plant::RestElsewhere) && section_offset > 0);
        let at = ResumePoint {
            section_number: PREFIX_SECTIONS + section,
            section_offset,
        };
        Some(Rest { at, offset })
    }
}

fn tag_of(acquisition: Acquisition) -> DeliveryTag {
    let mut bytes = [0; 12];
    let (position, acquired) = bytes.split_at_mut(8);
    position.copy_from_slice(&acquisition.position.0.to_be_bytes());
    acquired.copy_from_slice(&acquisition.acquired.to_be_bytes());
    let length = if acquisition.acquired == 0 { 8 } else { 12 };
    let tag = bytes.get(..length).and_then(DeliveryTag::new);
    tag.unwrap_or_default() // twelve bytes fit
}

fn acquisition_of(tag: &DeliveryTag) -> Option<Acquisition> {
    let (position, acquired) = tag.as_slice().split_first_chunk()?;
    let acquired = match acquired {
        [] => 0,
        more => u32::from_be_bytes(more.try_into().ok()?),
    };
    Some(Acquisition {
        position: Position(u64::from_be_bytes(*position)),
        acquired,
    })
}

impl Gateway {
    /// Sends the rest of a delivery of which a part had arrived.
    #[cold]
    pub(in crate::gateway) fn send_rest(
        &mut self,
        handle: LinkHandle,
        sending: Sending<'_>,
        (delivery, Rest { offset, .. }): (&Delivery, Rest),
    ) -> Result<(), Unsendable> {
        if let Some(body) = delivery.message.blob()
            && offset < delivery.message.bare_len()
        {
            return self.stream_from(handle, sending, (delivery, body), offset);
        }
        let front = delivery.message.bare();
        let bare = front.get(offset..).unwrap_or_default();
        let mut skip = offset.saturating_sub(front.len());
        let mut parts = delivery.message.rest().to_vec();
        for part in &mut parts {
            let skipped = skip.min(part.len());
            *part = part.slice(skipped..);
            skip -= skipped;
        }
        let sending = Sending { bare, ..sending };
        self.link.send_parts(handle, sending, &parts)
    }

    /// What the attach of a consumer asks for beyond its connection; none: nothing, or nothing that can be
    /// kept.
    pub(in crate::gateway) fn asked_recovery(
        &self,
        attach: &Attach,
        consumer: &mut Consumer,
    ) -> Result<Option<Box<Recovery>>, Error> {
        let is_able = self.environment.options.link_recovery && !self.container.is_empty();
        let source = attach.source.as_deref().filter(|source| !source.dynamic);
        let (Some(source), Some(login)) = (source, self.login.as_ref()) else {
            return Ok(None);
        };
        let Some((expiry, timeout_s)) = lifetime(source.expiry_policy.as_ref(), source.timeout_s)
            .filter(|_| is_able && !consumer.settled)
        else {
            return Ok(None);
        };
        let map = attach.unsettled.as_deref();
        let deliveries = map.map(unsettled_deliveries).transpose();
        let deliveries =
            deliveries.map_err(|why| errors::invalid_field(format_args!("unsettled: {why}")))?;
        let deliveries = deliveries.unwrap_or_default();
        consumer.begun = deliveries.iter().find_map(begun);
        let mut known: Vec<_> = deliveries
            .into_iter()
            .filter_map(|(tag, state)| {
                let outcome = state.and_then(|state| outcome(consumer, &state));
                Some((acquisition_of(&tag)?, outcome))
            })
            .collect();
        known.sort_by_key(|(acquisition, _)| *acquisition);
        consumer.lifetime = Some(ConsumerLifetime {
            expiry,
            timeout_s,
            is_durable: false,
        });
        Ok(Some(Box::new(Recovery {
            key: LinkKey {
                user: login.user.clone(),
                by_token: login.has_token(),
                container: self.container.clone(),
                link: consumer_name(attach),
            },
            expiry,
            timeout_ms: u64::from(timeout_s.get()) * 1_000,
            known,
            is_incomplete: attach.incomplete_unsettled,
            is_durable: source.durable == UNSETTLED_STATE,
        })))
    }

    /// Answers the attach of a consumer whose link outlives its connection, unless what it held before is
    /// still compared; false if it does not outlive it.
    pub(in crate::gateway) fn accept_kept(&mut self, handle: LinkHandle, kept: Kept) -> bool {
        let (is_durable, is_recovering) = match kept {
            Kept::No => return false,
            Kept::Yes { is_durable } => (is_durable, false),
            Kept::Recovering { is_durable } => (is_durable, true),
        };
        if let Some(link) = self.links.by_handle(handle)
            && let LinkKind::Consumer(consumer) = &mut link.kind
            && let Some(lifetime) = &mut consumer.lifetime
        {
            lifetime.is_durable = is_durable;
        }
        if !is_recovering {
            self.accept_recovered(handle, Vec::new());
        }
        true
    }

    /// Answers the attach of a consumer with what its link holds still.
    pub(in crate::gateway) fn on_recovered(&mut self, id: ConsumerId, recovered: &Recovered) {
        let Some((handle, _)) = self.links.consumer(id) else {
            return; // it went meanwhile
        };
        let held = recovered.held.iter();
        let held = held.map(|acquisition| (tag_of(*acquisition), None));
        let late = recovered.late.iter();
        let late = late.map(|acquisition| (tag_of(*acquisition), Some(DeliveryState::Released)));
        self.accept_recovered(handle, held.chain(late).collect());
    }

    fn accept_recovered(&mut self, handle: LinkHandle, unsettled: Vec<UnsettledDelivery>) {
        let lifetime = match self.links.by_handle(handle).map(|link| &link.kind) {
            Some(LinkKind::Consumer(consumer)) => consumer.lifetime,
            _ => None,
        };
        let Some(lifetime) = lifetime else {
            return invariant!(broken, "a link that outlives its connection asked for it");
        };
        let kept = TerminusLifetime {
            durable: if lifetime.is_durable {
                UNSETTLED_STATE
            } else {
                0
            },
            expiry_policy: lifetime.expiry.as_str(),
            timeout_s: lifetime.timeout_s.get(),
        };
        self.link.accept_attach(
            handle,
            AttachAnswer {
                source: Terminus::EchoWithLifetime(kept),
                target: Terminus::EchoIfAddressed,
                unsettled,
                ..AttachAnswer::default()
            },
        );
    }

    /// Sends the state of a delivery that a link held for too long before it was attached.
    pub(in crate::gateway) fn on_restate(&mut self, id: ConsumerId, acquisition: Acquisition) {
        let Some((handle, _)) = self.links.consumer(id) else {
            return; // it went meanwhile
        };
        let tag = ResumableTag {
            tag: tag_of(acquisition),
            resumed: Some(DeliveryState::Released),
        };
        // Without credit it is told in the map of the next attach.
        let _ = self.link.restate(handle, &tag);
    }
}

fn consumer_name(attach: &Attach) -> crate::base::Name {
    crate::base::Name::from(attach.name.as_str())
}
