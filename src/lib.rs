//! Coroner: an AMQP 1.0 message broker whose subject is dead letters.
//!
//! The crate is laid out in rooms on floors; imports go strictly to lower floors:
//! see `docs/ARCHITECTURE.md`.

pub mod base;
pub mod broker;
pub mod deaths;
pub mod link;
pub mod message;
pub mod wire;
