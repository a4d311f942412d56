//! Layer 4: the AMQP 1.0 link engine: connection, session, link and delivery machines. [AMQP 2]
//!
//! Promises: sans-IO and deterministic: bytes and the time are arguments, bytes and events are
//! polled; hostile bytes never panic, never take more memory than the limits named in
//! [`LinkOptions`] and `base::limits`, and are answered with the condition that the specification
//! names. Never: no message is decoded, nothing of queues or exchanges is known here.
//!
//! Read first: [`Connection`] (its four kinds of methods), [`Event`], [`LinkOptions`].

mod connection;
mod error;
mod event;
mod foreign;
#[cfg(feature = "internals")]
mod fuzz;
mod handles;
#[allow(clippy::module_inception, reason = "the link of the specification")]
mod link;
mod options;
mod output;
mod payload;
mod receiving;
mod session;
mod trace;
mod unsettled;

pub use connection::{Connection, Sending, Unsendable};
pub use event::{
    Arrived, Counters, Event, Expected, Fates, Posted, Resumed, Tagged, TagsTold, Unfinished,
};
pub use foreign::Foreign;
#[cfg(feature = "internals")]
pub use fuzz::{fuzz_connection, fuzz_frame};
pub use handles::{LinkHandle, SessionHandle};
pub use options::{ClientOptions, ClientSasl, Identity, LinkOptions};
pub use payload::Payload;

#[cfg(test)]
mod tests;
