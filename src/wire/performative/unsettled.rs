//! Delivery-tags, and the map of unsettled deliveries in an attach. [AMQP 2.7.3, 2.8.7]

use std::fmt;

use super::DeliveryState;
use crate::base::limits::DELIVERY_TAG_BYTES_MAX;
use crate::wire::{self, DecodeError, Reader};

/// The name that a sender gives a delivery, unique among the unsettled ones of its link: at most
/// [`DELIVERY_TAG_BYTES_MAX`] bytes. [AMQP 2.8.7]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DeliveryTag {
    bytes: [u8; DELIVERY_TAG_BYTES_MAX],
    length: u8,
}

impl DeliveryTag {
    /// The tag with these bytes; none if there are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut tag = Self::default();
        tag.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        tag.length = u8::try_from(bytes.len()).ok()?;
        Some(tag)
    }

    /// The bytes that the sender chose.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }
}

impl fmt::Debug for DeliveryTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.as_slice())
    }
}

/// An unsettled delivery as one end of a link sees it: its tag, and its state if it has one.
pub type UnsettledDelivery = (DeliveryTag, Option<DeliveryState>);

/// The tags in an encoded map of unsettled deliveries. Keys that are no delivery-tag are left out:
/// no end can have such a delivery.
pub fn unsettled_tags(map: &[u8]) -> Result<Vec<DeliveryTag>, DecodeError> {
    let mut tags = Vec::new();
    for pair in Reader::new(map).map()? {
        let pair = pair?;
        let key = Reader::new(pair.key).binary();
        tags.extend(key.ok().and_then(DeliveryTag::new));
    }
    Ok(tags)
}

/// The deliveries in an encoded map of unsettled deliveries, with their states: none if it is null, or
/// none that is known. Keys that are no delivery-tag are left out.
pub fn unsettled_deliveries(map: &[u8]) -> Result<Vec<UnsettledDelivery>, DecodeError> {
    let mut deliveries = Vec::new();
    for pair in Reader::new(map).map()? {
        let pair = pair?;
        let key = Reader::new(pair.key).binary();
        let tag = key.ok().and_then(DeliveryTag::new);
        deliveries.extend(tag.map(|tag| (tag, DeliveryState::decode(pair.value).ok())));
    }
    Ok(deliveries)
}

/// Appends the encoding of a map of unsettled deliveries; null if there are none.
pub(super) fn write_unsettled(out: &mut Vec<u8>, unsettled: &[UnsettledDelivery]) {
    if unsettled.is_empty() {
        return wire::write_null(out);
    }
    let compound = wire::begin_map(out);
    for (tag, state) in unsettled {
        wire::write_binary(out, tag.as_slice());
        match state {
            Some(state) => state.write(out),
            None => wire::write_null(out),
        }
    }
    wire::end(out, compound, 2 * unsettled.len());
}
