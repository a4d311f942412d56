//! What the annotations of a publisher say about the way of its message: where else it goes, and
//! when it is delivered.

use super::delivery_time::{self, DELIVERY_DELAY, DELIVERY_TIME, DeliveryTime};
use super::{Message, MessageError};
use crate::base::limits::{CC_BYTES_MAX, CC_KEYS_MAX};
use crate::base::{Name, check_routing_key};
use crate::wire::{Reader, Value, ValueKind, decode_value};

/// The annotation with further routing keys. [dead-lettering part 9 row 5]
const CC: &str = "x-cc";
/// The annotation by which JMS clients say what their `to` is.
const JMS_DESTINATION: &str = "x-opt-jms-dest";
/// Its values for topics.
const JMS_TOPIC: i8 = 1;
const JMS_TEMPORARY_TOPIC: i8 = 3;
/// Bytes of a wrong value that an error shows; a longer one is shown by its type.
const SHOWN_BYTES_MAX: usize = 256;

/// The encoded values of the annotations that say where a message goes, and when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Directions<'a> {
    cc: Option<&'a [u8]>,
    delivery_time: Option<&'a [u8]>,
    delivery_delay: Option<&'a [u8]>,
    destination: Option<&'a [u8]>,
}

impl Directions<'_> {
    /// Whether its `to` is the address of a topic: annotation `x-opt-jms-dest`, 1 for a topic and 3
    /// for a temporary one.
    pub fn is_topic(&self) -> bool {
        let kind = self.destination.map(decode_value);
        let topic = [JMS_TOPIC, JMS_TEMPORARY_TOPIC].map(Value::Byte);
        matches!(kind, Some(Ok((kind, _))) if topic.contains(&kind))
    }

    /// The CC keys: annotation `x-cc`, empty if absent. More than `limits::CC_KEYS_MAX` keys or
    /// `limits::CC_BYTES_MAX` bytes are refused before any is decoded.
    pub fn cc(&self) -> Result<Vec<Name>, MessageError> {
        let Some(value) = self.cc else {
            return Ok(Vec::new());
        };
        let mut reader = Reader::new(value);
        if reader.kind() != Some(ValueKind::List) {
            return Err(MessageError::Cc {
                found: shown(value),
            });
        }
        let mut list = reader.list()?;
        let keys = list.left() as usize;
        if keys > CC_KEYS_MAX {
            return Err(MessageError::CcKeys { keys });
        }
        if value.len() > CC_BYTES_MAX {
            let bytes = value.len();
            return Err(MessageError::CcBytes { bytes });
        }
        let other = |()| MessageError::Cc {
            found: "a list with other elements".to_owned(),
        };
        let keys = (0..keys).map(|_| {
            let key = list.string().ok().flatten().ok_or(()).map_err(other)?;
            check_routing_key(key).map_err(MessageError::CcKey)?;
            Ok(Name::from(key))
        });
        keys.collect()
    }

    /// When it is to be delivered: annotation `x-opt-delivery-time`, else `x-opt-delivery-delay`;
    /// none without both. [evidence part 5]
    pub fn delivery_time(&self) -> Result<Option<DeliveryTime>, MessageError> {
        if self.delivery_time.is_none() && self.delivery_delay.is_none() {
            return Ok(None); // as a rule
        }
        let delay = self.delivery_delay.map(|value| {
            let delay = delivery_time::delay(value);
            delay.ok_or_else(|| MessageError::DeliveryDelay {
                found: shown(value),
            })
        });
        let time = self.delivery_time.map(|value| {
            let time = delivery_time::instant(value).map(DeliveryTime::At);
            time.ok_or_else(|| MessageError::DeliveryTime {
                found: shown(value),
            })
        });
        let (delay, time) = (delay.transpose()?, time.transpose()?);
        Ok(time.or(delay))
    }
}

impl Message {
    /// What its publisher said about its way.
    pub fn directions(&self) -> Directions<'_> {
        let mut directions = Directions::default();
        if !self.has_client_annotations() {
            return directions;
        }
        for pair in self.client_annotations().flatten() {
            let place = match pair.symbol_key() {
                Some(CC) => &mut directions.cc,
                Some(DELIVERY_TIME) => &mut directions.delivery_time,
                Some(DELIVERY_DELAY) => &mut directions.delivery_delay,
                Some(JMS_DESTINATION) => &mut directions.destination,
                _ => continue,
            };
            place.get_or_insert(pair.value);
        }
        directions
    }
}

/// A value as an error shows it: a large one by its type only.
fn shown(value: &[u8]) -> String {
    let small = Some(value).filter(|value| value.len() <= SHOWN_BYTES_MAX);
    let decoded = small.and_then(|value| decode_value(value).ok());
    decoded.map_or_else(
        || {
            format!(
                "a {} of {} bytes",
                Reader::new(value).type_name(),
                value.len()
            )
        },
        |(value, _)| value.to_string(),
    )
}
