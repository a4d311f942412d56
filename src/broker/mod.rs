//! Floor 5: the routing core of one vhost: a deterministic machine without IO and without a clock.
//!
//! `Core::apply(now, Command, &mut Effects) -> Reply`, `Core::tick(now, budget, &mut Effects) -> More`,
//! `Core::next_deadline() -> Option<Millis>`, `Core::restore(&Fact)`.

pub mod arguments;
pub mod binding;
mod command;
mod effect;
mod error;
pub mod exchange;
mod headers;
pub mod policy;
pub mod registry;
pub mod router;

pub use command::{Command, Consume, Destination, Outcome, Publish, Settle, Target};
pub use effect::{ConsumerEnd, Delivery, Effect, PublishOutcome};
pub use error::{Error, Kind};
pub use policy::Policy;
