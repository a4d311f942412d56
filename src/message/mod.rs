//! Layer 3: a message: the bare bytes as received, an index of its sections, the broker's annotations.
//!
//! Promises: bare bytes are never changed; annotations reserved for the broker never come from a
//! client. Never: no routing decision, no clock. Read first: [`Message`], [`DeliveryView`].

mod annotations;
mod blob;
mod delivery_time;
mod directions;
mod error;
#[cfg(feature = "internals")]
mod fuzz;
mod journal;
mod looking;
#[allow(
    clippy::module_inception,
    reason = "the module is named after its main type"
)]
mod message;
mod parts;
mod storage;
mod view;

pub use annotations::{KeyRule, Merging};
pub use blob::BareLengths;
pub use delivery_time::{DeliveryTime, delivery_time};
pub use directions::Directions;
pub use error::{MessageError, StoredMessageError};
#[cfg(feature = "internals")]
pub use fuzz::fuzz_message;
pub use looking::LookedAt;
pub use message::{Message, Route};
pub use view::{DeliveryView, PREFIX_SECTIONS, Prefix};

#[cfg(test)]
mod tests;
