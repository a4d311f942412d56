//! Definitions: all declared objects of a broker or a vhost as one JSON object, in RabbitMQ's
//! format. Pure: from JSON to typed operations and from plain data to JSON.

mod export;
mod import;
mod items;
mod strangers;
#[cfg(test)]
mod tests;

pub use export::{Broker, VhostParts, broker, vhost};
pub use import::{ImportStep, Item, Problem, StandIn, read};
