//! When a message is to be delivered, as clients name it. [evidence part 5]

use crate::base::Timestamp;
use crate::wire::{Pair, Reader, Value, decode_value};

/// The annotation with the instant: a timestamp, or an integer of milliseconds since 1970.
pub(super) const DELIVERY_TIME: &str = "x-opt-delivery-time";
/// The annotation with a delay from its arrival: an integer of milliseconds.
pub(super) const DELIVERY_DELAY: &str = "x-opt-delivery-delay";

/// When a message is to be delivered at the earliest, as its publisher said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryTime {
    /// At this instant; at once if it has passed.
    At(Timestamp),
    /// So many milliseconds after its arrival; 0: at once.
    After(u64),
}

/// The instant in the encoded annotation map of a `modified` outcome; none without one, or if it is
/// of another type. The last of several counts, as where annotations are merged.
pub fn delivery_time(annotations: &[u8]) -> Option<Timestamp> {
    let pairs = Reader::new(annotations).map().ok()?;
    let named = |pair: &Pair<'_>| pair.symbol_key() == Some(DELIVERY_TIME);
    let pair = pairs.flatten().filter(named).last()?;
    instant(pair.value)
}

/// The instant that a value stands for; one beyond the timestamps is the last of them. None if the
/// value is of another type.
pub(super) fn instant(value: &[u8]) -> Option<Timestamp> {
    match decode_value(value).ok()?.0 {
        Value::Timestamp(ms) => Some(Timestamp(ms)),
        Value::Ulong(ms) => Some(Timestamp(i64::try_from(ms).unwrap_or(i64::MAX))),
        other => other.as_i64().map(Timestamp),
    }
}

/// The delay that a value stands for; one below 0 is none at all. None if the value is of another
/// type.
pub(super) fn delay(value: &[u8]) -> Option<DeliveryTime> {
    let delay_ms = match decode_value(value).ok()?.0 {
        Value::Ulong(ms) => ms,
        other => u64::try_from(other.as_i64()?).unwrap_or(0),
    };
    Some(DeliveryTime::After(delay_ms))
}
