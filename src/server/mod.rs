//! Floor 8: tokio: listeners, connections, timers, the process. The only room that starts tasks and
//! reads a clock.
//!
//! ```text
//!  socket --> Driver --> Gateway --> Vhost (core behind one lock) --> Outbox --> other Drivers
//!     ^          |  one task per connection: read, work, write
//!     +----------+
//! ```
//! Promises: the core's lock is held for a batch and never across an await; effects reach each
//! connection in the order of the core; who has nothing to do sleeps. Never: no decision about
//! messages or the protocol.
//!
//! Read first: [`Broker`], then `connection` (a turn), `vhost` (a batch), `http` (the HTTP API).

mod admin;
mod alarm;
mod bell;
mod broker;
mod browse;
mod builder;
mod checkpoint;
mod clock;
mod connection;
mod definitions;
mod descriptors;
mod desk;
mod errors;
mod expiry;
mod health;
mod http;
mod listener;
mod live;
mod log;
mod login;
mod metrics;
mod outbox;
mod pager;
mod partials;
mod process;
mod rates;
mod recover;
mod service;
mod setup;
mod shared;
mod stats;
mod store;
mod tls;
mod vhost;
mod vhosts;
mod yielding;

#[cfg(test)]
mod tests;

/// The disk below the journal; in tests one that can be made to fail, to fill and to wait.
#[cfg(not(test))]
type BrokerDisk = crate::store::FileDisk;
#[cfg(test)]
type BrokerDisk = tests::moody_disk::MoodyDisk;

pub use admin::Admin;
pub use alarm::Alarms;
pub use broker::Broker;
pub use builder::Builder;
pub use definitions::{Imported, LeftOut};
pub use errors::StartError;
pub use process::run;
pub use stats::{JournalStats, LockHolds, MemoryStats, Stats, VhostStats};
pub use tls::TlsError;
