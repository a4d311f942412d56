//! Publishers and consumers in a program that embeds the broker: without socket, login and codec.
//!
//! ```text
//!  Publisher, Consumer --commands--> Engine (a client's side of `link`) --bytes in memory--> a connection
//! Each is a connection with one link, so that the rules for AMQP clients hold for it: credit,
//! alarms, outcomes once they are durable, bounds. Only its login is special: it may do everything
//! in its vhost.

mod consumer;
mod delivery;
mod engine;
mod error;
mod message;
mod publisher;

#[cfg(test)]
mod tests;

pub use consumer::{Consumer, ConsumerBuilder};
pub(super) use delivery::data;
pub use delivery::{Death, Delivery};
pub use error::{AmqpError, LinkError};
pub use message::Message;
pub use publisher::{Outcome, Publisher, PublisherBuilder};
