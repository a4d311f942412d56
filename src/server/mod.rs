//! Layer 10: tokio: listeners, connections, timers, the process. The only module that starts tasks and
//! reads a clock.
//!
//! ```text
//!  socket --> Driver --> Gateway --> Vhost (core behind one lock) --> Outbox --> other Drivers
//!     ^          |  one task per connection: read, work, write
//!     +----------+
//! Promises: the core's lock is held for a batch and never across an await; effects reach each
//! connection in the order of the core; tasks without work sleep. Never: no decision about messages
//! or the protocol.
//!
//! Read first: [`Broker`], then `connection` (a turn), `vhost` (a batch), `http` (the HTTP API).

mod accept;
mod admin;
mod alarm;
mod broker;
mod builder;
mod checkpoint;
mod clock;
mod connection;
#[cfg(feature = "http")]
mod cycles;
mod declare;
#[cfg(feature = "http")]
mod definitions;
mod descriptors;
mod embedded;
mod errors;
mod event_stream;
mod events;
mod expiry;
#[cfg(feature = "http")]
mod exporting;
mod features;
#[cfg(feature = "http")]
mod gets;
mod handle;
mod health;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod importing;
mod journal;
#[cfg(feature = "oauth2")]
mod jwks;
#[cfg(feature = "http")]
mod kept_groups;
#[cfg(feature = "http")]
mod lint_counts;
#[cfg(feature = "cli")]
mod live;
#[cfg(feature = "cli")]
mod log;
mod login;
mod looking;
mod memory;
mod metrics;
mod notes;
#[cfg(feature = "http")]
mod page_sessions;
mod paging;
#[cfg(feature = "cli")]
mod process;
mod progress;
#[cfg(feature = "http")]
mod rates;
mod recover;
mod redriving;
mod scan;
#[cfg(feature = "cli")]
mod service;
mod setup;
mod shared;
mod sockets;
mod stall;
mod start;
mod stats;
#[cfg(feature = "http")]
mod streams;
mod timer;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
#[cfg_attr(not(feature = "oauth2"), path = "no_tokens.rs")]
mod tokens;
mod told;
#[cfg(feature = "http")]
mod topology;
#[cfg(feature = "http")]
mod websocket;
mod yielding;

#[cfg(test)]
mod tests;

/// The disk of the journal; in tests one that can be made to fail, to fill and to wait.
#[cfg(not(test))]
type BrokerDisk = crate::store::FileDisk;
#[cfg(test)]
type BrokerDisk = tests::moody_disk::MoodyDisk;

/// The types of the node with that disk.
type Pager = crate::node::pager::Pager<BrokerDisk>;
type SpillTarget = crate::node::pager::SpillTarget<BrokerDisk>;
type Store = crate::node::Store<BrokerDisk>;
type Vhost = crate::node::Vhost<BrokerDisk>;

pub use crate::node::{Alarms, LockHolds, VhostStats};
pub use admin::Admin;
pub use broker::Broker;
pub use builder::Builder;
#[cfg(feature = "http")]
pub use definitions::{Imported, LeftOut};
pub use embedded::{
    AmqpError, Consumer, ConsumerBuilder, Death, Delivery, LinkError, Message, Outcome, Publisher,
    PublisherBuilder,
};
pub use errors::{Cause, StartError, TlsError};
pub use event_stream::EventStream;
#[cfg(feature = "http")]
pub use importing::ImportedMessages;
pub use looking::{SeenMessage, SeenMessages};
#[cfg(feature = "cli")]
pub use process::run;
#[cfg(feature = "cli")]
pub(crate) use setup::random;
pub use stats::{JournalStats, MemoryStats, Stats};
