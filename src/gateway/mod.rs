//! Layer 8: one connection between the link engine and the core: link events become commands,
//! effects become link calls. Sans-IO.
//!
//! ```text
//!            handle_bytes               Batch::apply, by whoever holds the core's lock
//!  bytes --> link engine --> events --> batch --> core --> replies, effects
//!                 ^                                              |
//!  bytes <--------+----------- answers, deliveries <-------------+
//!            poll_transmit      handle_answers, push_effects, handle_effects
//! ```
//! Promises: every answer a peer sees beyond the protocol itself is decided here or in the core;
//! effects are handled in the order in which the core made them. Never: no IO, no clock, no lock
//! held across a call.
//!
//! Read first: [`Gateway`], then `attach` (what a link may be), `publish`, `publisher`, `consumer`.

mod address;
mod attach;
mod audit;
mod cbs;
mod connection;
mod consumer;
mod coordinator;
mod counters;
mod describe;
mod dynamic;
mod environment;
mod errors;
mod events;
mod foreign;
mod handshake;
mod links;
mod management;
mod pattern;
mod presettled;
mod publish;
mod publisher;
mod renewal;
mod resumable;
mod sasl;
mod seats;
mod stream;
mod streaming_body;
mod subscriptions;
mod tags;
mod terminus;
mod transactional;
mod transactions;
mod work;

#[cfg(test)]
mod tests;

pub use audit::{Asked, AuditLog};
pub use connection::Gateway;
pub use counters::OpenLinks;
pub use describe::{ConnectionInfo, LinkInfo, LinkPurpose, SessionInfo};
pub use environment::{Environment, GatewayOptions};
pub use presettled::Written;
pub use stream::Fetch;
pub use streaming_body::Bodies;
pub use work::Batch;
