//! Floor 6: management of one vhost: typed operations and the AMQP node `/management`.
//!
//! Promises: every request that is a message gets one answer, a refusal with a text that says why;
//! rights are checked before anything is looked up or changed. Never: no links, no credit (the
//! gateway's), no HTTP bytes, no clock.
//!
//! Read first: [`handle`], [`Caller`].

mod node;

pub use node::{Answer, Caller, RequestError, handle};
