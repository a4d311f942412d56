//! Facts about publishers' links that outlive the broker to bytes and back.
//!
//! ```text
//! link kept       number: ulong, user: string, binary if it is the bearer of a token, container, link: string, expiry: symbol, timeout: uint (seconds),
//!                 list of deliveries
//! decided         number of the link: ulong, boolean, delivery if it is true, list of settled tags: binary
//! link forgotten  number: ulong
//!
//! delivery        tag: binary, queue that was full: string or null (it is accepted)
//! ```

use super::RecordError;
use super::decode::{flag, list, name, ulong};
use super::kind::OfPublisherLink;
use crate::base::Name;
use crate::broker::Fact;
use crate::broker::publisher_link::{KeptDelivery, PublisherLink, PublisherLinkFact, Unsettled};
use crate::broker::recovery::{ExpiryPolicy, LinkKey};
use crate::wire::{
    Fields, write_binary, write_bool, write_or_null, write_string, write_string_or_binary,
    write_symbol, write_uint, write_ulong,
};

/// Bytes of a tag or text beside its own.
const TAG_BYTES: usize = 4;

pub(super) fn encode(fact: &PublisherLinkFact, out: &mut Vec<u8>) {
    match fact {
        PublisherLinkFact::Kept { link, unsettled } => {
            out.push(OfPublisherLink::Kept.byte());
            write_ulong(out, link.number);
            write_link_key(out, &link.key);
            write_symbol(out, link.expiry.as_str());
            write_uint(out, link.timeout_s);
            write_ulong(out, unsettled.len() as u64);
            for delivery in unsettled {
                encode_delivery(delivery, out);
            }
        }
        PublisherLinkFact::Decided(decided) => {
            out.push(OfPublisherLink::Decided.byte());
            write_ulong(out, decided.link);
            write_bool(out, decided.delivery.is_some());
            if let Some(delivery) = &decided.delivery {
                encode_delivery(delivery, out);
            }
            write_ulong(out, decided.settled.len() as u64);
            for tag in &decided.settled {
                write_binary(out, tag);
            }
        }
        PublisherLinkFact::Forgotten { link } => {
            out.push(OfPublisherLink::Forgotten.byte());
            write_ulong(out, *link);
        }
    }
}

/// Bytes of its tags and texts in a record, about.
pub(super) fn bytes_of(fact: &PublisherLinkFact) -> usize {
    let delivery = |(tag, full): &Unsettled| {
        TAG_BYTES + tag.len() + full.as_ref().map_or(0, |queue| queue.len())
    };
    match fact {
        PublisherLinkFact::Kept { link, unsettled } => {
            let texts = [&link.key.user, &link.key.container, &link.key.link];
            let texts = texts.iter().map(|text| text.len());
            texts.sum::<usize>() + unsettled.iter().map(delivery).sum::<usize>()
        }
        PublisherLinkFact::Decided(decided) => {
            let settled = decided.settled.iter().map(|tag| TAG_BYTES + tag.len());
            decided.delivery.as_ref().map_or(0, delivery) + settled.sum::<usize>()
        }
        PublisherLinkFact::Forgotten { .. } => 0,
    }
}

fn encode_delivery((tag, full): &Unsettled, out: &mut Vec<u8>) {
    write_binary(out, tag);
    write_or_null(out, full.as_deref(), write_string);
}

pub(super) fn decode(kind: OfPublisherLink, fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    let number = |fields: &mut Fields<'_>| ulong(fields, "number of a link");
    Ok(Fact::PublisherLink(match kind {
        OfPublisherLink::Kept => PublisherLinkFact::Kept {
            link: Box::new(PublisherLink {
                number: number(fields)?,
                key: link_key(fields)?,
                expiry: expiry(fields)?,
                timeout_s: fields.uint()?.ok_or(RecordError::Field("timeout"))?,
            }),
            unsettled: list(fields, delivery)?,
        },
        OfPublisherLink::Decided => PublisherLinkFact::Decided(Box::new(KeptDelivery {
            link: number(fields)?,
            delivery: flag(fields)?.then(|| delivery(fields)).transpose()?,
            settled: list(fields, tag)?,
        })),
        OfPublisherLink::Forgotten => PublisherLinkFact::Forgotten {
            link: number(fields)?,
        },
    }))
}

pub(super) fn write_link_key(out: &mut Vec<u8>, key: &LinkKey) {
    write_string_or_binary(out, (&key.user, key.by_token));
    write_string(out, &key.container);
    write_string(out, &key.link);
}

pub(super) fn link_key(fields: &mut Fields<'_>) -> Result<LinkKey, RecordError> {
    let user = fields.string_or_binary()?;
    let (user, by_token) = user.ok_or(RecordError::Field("user of a link"))?;
    Ok(LinkKey {
        user: Name::from(user),
        by_token,
        container: name(fields, "container of a link")?,
        link: name(fields, "name of a link")?,
    })
}

pub(super) fn expiry(fields: &mut Fields<'_>) -> Result<ExpiryPolicy, RecordError> {
    let expiry = fields.symbol()?.and_then(ExpiryPolicy::from_word);
    expiry.ok_or(RecordError::Field("expiry policy"))
}

fn delivery(fields: &mut Fields<'_>) -> Result<Unsettled, RecordError> {
    Ok((tag(fields)?, fields.string()?.map(Name::from)))
}

fn tag(fields: &mut Fields<'_>) -> Result<Box<[u8]>, RecordError> {
    let tag = fields.binary()?.map(Box::from);
    tag.ok_or(RecordError::Field("delivery-tag"))
}
