//! The instant before which a message is not to be delivered. [evidence part 5]

use crate::base::Timestamp;
use crate::wire::{Pair, Reader, Value, decode_value};

/// The annotation with that instant: a timestamp, or an integer of milliseconds since 1970.
const DELIVERY_TIME: &str = "x-opt-delivery-time";

/// The instant in the encoded annotation map of a `modified` outcome; none without one, or if it is
/// of another type. The last of several counts, as where annotations are merged.
pub fn delivery_time(annotations: &[u8]) -> Option<Timestamp> {
    let pairs = Reader::new(annotations).map().ok()?;
    let named = |pair: &Pair<'_>| pair.symbol_key() == Some(DELIVERY_TIME);
    let pair = pairs.flatten().filter(named).last()?;
    instant(pair.value)
}

/// The instant that a value stands for; one beyond the timestamps is the last of them.
fn instant(value: &[u8]) -> Option<Timestamp> {
    match decode_value(value).ok()?.0 {
        Value::Timestamp(ms) => Some(Timestamp(ms)),
        Value::Ulong(ms) => Some(Timestamp(i64::try_from(ms).unwrap_or(i64::MAX))),
        other => other.as_i64().map(Timestamp),
    }
}
