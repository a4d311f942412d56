//! Floor 1: AMQP 1.0 bytes to values and back. The only room that knows type codes. [AMQP 1, 2.3]
//!
//! Promises: nothing here panics, recurses on a peer's data without a bound, or allocates more than
//! the input justifies. Never: no IO, no state between calls, no meaning beyond the encoding.

mod value;

pub use value::{Array, Value};
