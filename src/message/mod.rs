//! Floor 3: a message: the bare bytes as received, an index of its sections, the broker's annotations.
//!
//! Promises: bare bytes are never changed. Never: no routing decision, no clock.

mod body;
mod view;

pub use body::{KeyRule, Message, MessageError, Route};
pub use view::DeliveryView;
