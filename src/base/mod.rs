//! Layer 0: ids, time, names, limits and small containers. Imports no other module of the crate.
//!
//! Everything here is plain data. Time is never read, only passed: see [`Now`].

mod gauge;
mod ids;
pub mod invariant;
pub mod limits;
pub mod locks;
mod map;
mod meter;
mod name;
mod nearest;
#[cfg(feature = "http")]
pub(crate) mod order;
mod percent;
#[cfg(test)]
pub(crate) mod plant;
mod random;
mod serial;
mod signal;
mod table;
mod time;

pub(crate) use invariant::{invariant, uncount, uncount_atomic};

pub use gauge::{Account, Charge, Gauge, shared_text_bytes};
pub use ids::{
    ConnectionId, ConsumerId, ExchangeId, HolderId, Lsn, Position, PublisherId, QueueId, SessionId,
};
pub use map::{Map, Seed, Set};
pub use meter::{HoldBudget, Meter, Step, Steps};
pub use name::{KeyError, Name, Payer, check_routing_key};
pub use nearest::nearest;
pub use random::Random;
pub use serial::Serial;
pub(crate) use signal::Signal;
pub use table::{Id, Table};
pub use time::{Millis, Now, Stamp, Timestamp};
