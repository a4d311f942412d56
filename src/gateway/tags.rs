//! Delivery-tags on the anonymous terminus: a link that ends, since the address of a message leads nowhere and
//! its sender cannot be told by an outcome, says which message it was. [anonterm 1.0, Routing Errors]

use std::collections::VecDeque;

use bytes::Bytes;

use super::Gateway;
use crate::base::limits::ANONYMOUS_TAGS_MAX;
use crate::base::{PublisherId, Serial};
use crate::link::Tagged;
use crate::wire::Value;
use crate::wire::performative::{DeliveryTag, Error, Symbol};

/// Information of an error: the delivery-tag of the message that caused it.
const DELIVERY_TAG: &str = "delivery-tag";

/// The tags of the last messages that were sent settled, or on links without the outcome `rejected`.
#[derive(Debug, Default)]
pub(super) struct Tags(VecDeque<(PublisherId, Serial, DeliveryTag)>);

impl Tags {
    pub(super) fn keep(&mut self, of: (PublisherId, Serial), tag: DeliveryTag) {
        if self.0.len() >= ANONYMOUS_TAGS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((of.0, of.1, tag));
    }

    /// The error with the tag of the message that caused it, if that is known.
    pub(super) fn name(&self, error: Error, of: (PublisherId, Serial)) -> Error {
        let mut kept = self.0.iter().rev();
        match kept.find(|(link, id, _)| (*link, *id) == of) {
            Some((_, _, tag)) => named(error, tag),
            None => error,
        }
    }

    /// Memory of the table, in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(PublisherId, Serial, DeliveryTag)>()
    }
}

/// The error with the tag of the message that caused it.
pub(super) fn named(mut error: Error, tag: &DeliveryTag) -> Error {
    let tag = Value::Binary(Bytes::copy_from_slice(tag.as_slice()));
    let named = [(Symbol::from(DELIVERY_TAG), tag)];
    let known = error.info.take().into_iter();
    let known = known.flat_map(|info| info.iter().cloned().collect::<Vec<_>>());
    error.info = Some(Box::new(known.chain(named).collect()));
    error
}

impl Gateway {
    /// Handles a message on the anonymous terminus that came with its tag.
    #[cold]
    pub(super) fn on_named(&mut self, named: Tagged) {
        if let Some(link) = self.links.by_handle(named.link) {
            let of = (link.id.publisher(), named.arrived.delivery_id);
            self.tags.keep(of, named.tag);
        }
        self.on_messages(named.link, named.arrived);
    }
}
