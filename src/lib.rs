//! Coroner: an AMQP 1.0 message broker whose subject is dead letters.
//!
//! The crate is laid out in rooms on floors; imports go strictly to lower floors:
//! see `docs/ARCHITECTURE.md`.
#![cfg_attr(
    not(all(feature = "cli", feature = "client", feature = "http", feature = "tls")),
    allow(
        dead_code,
        unused_imports,
        reason = "what only a feature left out uses; a build with all of them has no such thing"
    )
)]

pub mod access;
pub mod base;
pub mod broker;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod deaths;
pub mod filter;
pub mod gateway;
pub mod link;
pub mod management;
pub mod message;
pub mod metrics;
pub mod node;
pub mod record;
pub mod server;
pub mod sim;
pub mod store;
pub mod wire;

pub use config::Settings;
pub use server::{
    Admin, AmqpError, Broker, Builder, Consumer, ConsumerBuilder, Death, Delivery, LinkError,
    Message, Outcome, Publisher, PublisherBuilder, StartError, Stats,
};
pub use wire::Value;
