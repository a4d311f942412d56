//! Coroner: an AMQP 1.0 message broker whose subject is dead letters.
//!
//! To embed it, begin with [`Broker::builder`]; [`Broker::publisher`] and [`Broker::consumer`] need no AMQP
//! client. The features `http`, `tls`, `cli` and `client` are all on by default.
//!
//! The crate is laid out in modules on layers; imports go strictly to lower layers: see
//! `docs/ARCHITECTURE.md`.
#![cfg_attr(
    not(all(feature = "internals", feature = "client")),
    allow(
        dead_code,
        unused_imports,
        reason = "what only tests or a feature that is left out use"
    )
)]

// Each module twice, since rustfmt does not look into those that a macro declares.
#[cfg(not(feature = "internals"))]
mod access;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod access;
#[cfg(not(feature = "internals"))]
mod base;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod base;
#[cfg(not(feature = "internals"))]
mod broker;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod broker;
#[cfg(all(feature = "cli", not(feature = "internals")))]
mod cli;
#[cfg(all(feature = "cli", feature = "internals"))]
#[doc(hidden)]
pub mod cli;
#[cfg(not(feature = "internals"))]
mod config;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod config;
#[cfg(not(feature = "internals"))]
mod deaths;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod deaths;
#[cfg(not(feature = "internals"))]
mod filter;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod filter;
#[cfg(not(feature = "internals"))]
mod gateway;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod gateway;
#[cfg(not(feature = "internals"))]
mod link;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod link;
#[cfg(all(feature = "http", not(feature = "internals")))]
mod lint;
#[cfg(all(feature = "http", feature = "internals"))]
#[doc(hidden)]
pub mod lint;
#[cfg(not(feature = "internals"))]
mod management;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod management;
#[cfg(not(feature = "internals"))]
mod message;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod message;
#[cfg(not(feature = "internals"))]
mod metrics;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod metrics;
#[cfg(not(feature = "internals"))]
mod node;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod node;
#[cfg(all(feature = "http", not(feature = "internals")))]
mod page;
#[cfg(all(feature = "http", feature = "internals"))]
#[doc(hidden)]
pub mod page;
#[cfg(not(feature = "internals"))]
mod record;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod record;
#[cfg(not(feature = "internals"))]
mod search;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod search;
#[cfg(not(feature = "internals"))]
mod server;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod server;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod sim;
#[cfg(not(feature = "internals"))]
mod store;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod store;
#[cfg(not(feature = "internals"))]
mod wire;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod wire;

pub use access::PatternError;
pub use broker::registry::RegistryError;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use cli::main;
pub use config::Settings;
#[cfg(feature = "http")]
pub use lint::Graph;
pub use management::{
    Culprit, DeathGroup, DeathGroupNote, DeathGroups, Explanation, Happening, LifeStep,
    LookRequest, NextStep, RedriveForecast, RedriveGoal, RedriveRequest, RedriveStatus, Refusal,
    Status, TargetQueue, TracedSetting, Whereabouts,
};
pub use metrics::Detail;
pub use server::{
    Admin, AmqpError, Broker, Builder, Cause, Consumer, ConsumerBuilder, Death, Delivery,
    EventStream, LinkError, Message, Outcome, Publisher, PublisherBuilder, SeenMessage,
    SeenMessages, StartError, TlsError,
};
#[cfg(feature = "http")]
pub use server::{Imported, ImportedMessages, LeftOut};
pub use wire::{Array, Value, ValueKind};

/// The types of settings.
pub mod settings {
    pub use crate::config::{
        ByteSize, DeathEvidence, HttpListen, ListenAddress, LogFormat, PermissionEntry, QueueType,
        SaslMechanism, Span, SyncSetting, TlsLoginFrom, UiSetting, UndeliverableSetting, UserEntry,
        UserTagsEntry,
    };
}

/// What a broker counts, see [`Broker::stats`].
pub mod stats {
    pub use crate::server::{Alarms, JournalStats, LockHolds, MemoryStats, Stats, VhostStats};
    pub use crate::store::{StoreState, StoreStats};
}
