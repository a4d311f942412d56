//! Publishers and consumers of a program that embeds the broker: no socket, no login, no codec to choose.
//!
//! ```text
//!  Publisher, Consumer --commands--> Engine (a client's side of `link`) --bytes in memory--> a connection
//! ```
//! Each is a connection with one link, so that what holds for AMQP clients holds for it: credit, alarms,
//! outcomes once they are durable, bounds. Only its login is ours: it may do everything in its vhost.

mod consumer;
mod delivery;
mod engine;
mod error;
mod message;
mod publisher;

#[cfg(test)]
mod tests;

pub use consumer::{Consumer, ConsumerBuilder};
pub use delivery::{Death, Delivery};
pub use error::{AmqpError, LinkError};
pub use message::Message;
pub use publisher::{Outcome, Publisher, PublisherBuilder};
