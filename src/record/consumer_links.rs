//! Facts about consumers' links that outlive the broker to bytes and back.
//!
//! ```text
//! consumer link kept       number: ulong, user, container, link: string, queue: ulong, expiry: symbol,
//!                          timeout, consumer timeout: ulong, uint or null (milliseconds)
//! acquired                 number of the link, queue: ulong, list of acquisitions
//! unsent                   queue, position: ulong
//! consumer link forgotten  number: ulong
//!
//! acquisition              position: ulong, requeues before it: uint
//! ```

use super::RecordError;
use super::decode::{list, slot, ulong};
use super::kind::OfConsumerLink;
use super::publisher_links::{expiry, link_key, write_link_key};
use crate::base::{Position, QueueId};
use crate::broker::Fact;
use crate::broker::consumer_link::{ConsumerLink, ConsumerLinkFact};
use crate::broker::recovery::Acquisition;
use crate::wire::{Fields, write_or_null, write_symbol, write_uint, write_ulong};

/// Bytes of an acquisition in a record, at most.
const ACQUISITION_BYTES: usize = 14;

pub(super) fn encode(fact: &ConsumerLinkFact, out: &mut Vec<u8>) {
    match fact {
        ConsumerLinkFact::Kept(link) => {
            out.push(OfConsumerLink::Kept.byte());
            write_ulong(out, link.number);
            write_link_key(out, &link.key);
            write_ulong(out, link.queue.0);
            write_symbol(out, link.expiry.as_str());
            write_ulong(out, link.timeout_ms);
            write_or_null(out, link.consumer_timeout_ms, write_uint);
        }
        ConsumerLinkFact::Acquired {
            link,
            queue,
            acquisitions,
        } => {
            out.push(OfConsumerLink::Acquired.byte());
            write_ulong(out, *link);
            write_ulong(out, queue.0);
            write_ulong(out, acquisitions.len() as u64);
            for acquisition in acquisitions {
                write_ulong(out, acquisition.position.0);
                write_uint(out, acquisition.acquired);
            }
        }
        ConsumerLinkFact::Unsent { queue, position } => {
            out.push(OfConsumerLink::Unsent.byte());
            write_ulong(out, queue.0);
            write_ulong(out, position.0);
        }
        ConsumerLinkFact::Forgotten { link } => {
            out.push(OfConsumerLink::Forgotten.byte());
            write_ulong(out, *link);
        }
    }
}

/// Bytes of what it says beside its numbers, about.
pub(super) fn bytes_of(fact: &ConsumerLinkFact) -> usize {
    match fact {
        ConsumerLinkFact::Kept(link) => {
            let texts = [&link.key.user, &link.key.container, &link.key.link];
            texts.iter().map(|text| text.len()).sum()
        }
        ConsumerLinkFact::Acquired { acquisitions, .. } => ACQUISITION_BYTES * acquisitions.len(),
        ConsumerLinkFact::Unsent { .. } | ConsumerLinkFact::Forgotten { .. } => 0,
    }
}

pub(super) fn decode(kind: OfConsumerLink, fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    let number = |fields: &mut Fields<'_>| ulong(fields, "number of a link");
    Ok(Fact::ConsumerLink(match kind {
        OfConsumerLink::Kept => ConsumerLinkFact::Kept(Box::new(ConsumerLink {
            number: number(fields)?,
            key: link_key(fields)?,
            queue: queue_id(fields)?,
            expiry: expiry(fields)?,
            timeout_ms: ulong(fields, "timeout")?,
            consumer_timeout_ms: fields.uint()?,
        })),
        OfConsumerLink::Acquired => ConsumerLinkFact::Acquired {
            link: number(fields)?,
            queue: queue_id(fields)?,
            acquisitions: list(fields, acquisition)?,
        },
        OfConsumerLink::Unsent => {
            let (queue, position) = slot(fields)?;
            ConsumerLinkFact::Unsent { queue, position }
        }
        OfConsumerLink::Forgotten => ConsumerLinkFact::Forgotten {
            link: number(fields)?,
        },
    }))
}

fn queue_id(fields: &mut Fields<'_>) -> Result<QueueId, RecordError> {
    ulong(fields, "queue").map(QueueId)
}

fn acquisition(fields: &mut Fields<'_>) -> Result<Acquisition, RecordError> {
    Ok(Acquisition {
        position: Position(ulong(fields, "position")?),
        acquired: fields.uint()?.ok_or(RecordError::Field("requeues"))?,
    })
}
