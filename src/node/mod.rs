//! Layer 9: a whole broker without input and output: vhosts behind their locks, the journal's
//! buffer and its waiters, the memory budget, checkpoints, back pressure.
//!
//! ```text
//!  connection --> Vhost (core behind one lock) --> Outbox --> other connections
//!                    |  records                       ^
//!                    v                                | durable
//!                  Store (wake) --> Committer: write, sync
//! Promises: the core's lock is held for a batch; records get their LSNs under it, and waiters for
//! one are woken only once it is durable; tasks are woken after the lock is released. Never: no
//! socket, thread or clock; those are the server's, or the simulator's. Disks come in as
//! [`crate::store::Disk`].
//!
//! Read first: `node`, then `connection` (a turn), `vhost` (a batch), `store` and `committer` (the
//! way to the disk), `pager` (eviction and paging in).

pub(crate) mod alarm;
mod browse;
pub(crate) mod checkpoint;
mod clock;
pub(crate) mod committer;
mod connection;
pub(crate) mod events;
mod explain;
mod journal_waker;
#[expect(clippy::module_inception, reason = "the node itself")]
mod node;
mod outbox;
pub(crate) mod pager;
pub(crate) mod paging;
pub(crate) mod partials;
pub(crate) mod recover;
mod sampled;
mod stats;
#[cfg(feature = "internals")]
mod stepped;
mod store;
mod vhost;
mod vhosts;

pub use alarm::Alarms;
pub(crate) use browse::ShownMessage;
pub(crate) use clock::Clock;
pub(crate) use connection::{Connection, Output};
pub(crate) use node::{Node, NodeParts, redrive_rights};
pub(crate) use outbox::Outbox;
pub(crate) use sampled::Sampled;
pub use stats::{LockHolds, VhostStats};
#[cfg(feature = "internals")]
pub use stepped::SteppedNode;
pub(crate) use store::Store;
pub(crate) use vhost::{Failed, Vhost};
