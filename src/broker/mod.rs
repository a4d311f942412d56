//! Layer 6: the routing core of one vhost, a deterministic state machine without IO and without a
//! clock.
//!
//! Promises: the same seed and the same commands at the same times give the same effects; every
//! message is ready, held, waiting dead, settled, moved or dropped with a counted cause, exactly
//! once; every change of durable state is a [`Fact`].
//! Never: no IO, no clock, no failure of [`Core::apply`], no iteration over a hash map, no
//! recursion along a cascade.
//!
//! Read first: [`Core`], [`Command`], [`Reply`], [`Effects`].

mod argument_value;
pub mod arguments;
pub mod binding;
mod command;
pub mod consumer_link;
mod core;
mod counter_sums;
mod counters;
mod dead_letter;
pub mod death_counts;
pub mod definition;
pub mod delay;
mod effect;
mod effects;
mod error;
pub mod event;
pub mod event_runs;
pub mod exchange;
mod fact;
mod foresight;
mod headers;
mod matching;
pub mod memo;
pub mod names;
mod origins;
pub mod policy;
pub mod publisher_link;
pub mod queue;
pub mod recovery;
pub mod redrive;
pub mod registry;
mod reply;
pub mod router;
pub mod subscription;
mod topic;
mod warning;

pub use self::core::{
    Core, CoreOptions, CycleSearch, Memory, More, Restoring, Snapshot, SnapshotSlice,
    Undeliverable, example_key,
};
pub use argument_value::value_bytes;
pub use command::{
    Browse, Command, Commit, Consume, Destination, Outcome, Publish, PublisherCommand,
    PublisherNews, QueueCommand, Settle, SettleRun, Target, TopologyCommand, UpkeepCommand,
};
pub use counters::{ByReason, Counters, DropCount, Drops, QueueChurn, QueueCounters, Settled};
pub use dead_letter::dead_letter_route;
pub use effect::{
    ConsumerEnd, Delivery, Effect, NotCommitted, PublishOutcome, TooManyQueues, room_bytes,
};
pub use effects::{
    BodyLook, DropCause, Effects, LogEvent, PageIn, PagedIn, Spill, Wanted, append_effects,
};
pub use error::{Error, ObjectKind};
pub use fact::{
    Body, CheckpointedMessage, Entries, Entry, Fact, Facts, Record, Renamed, Renames, TopologyFact,
};
pub use foresight::{
    Asked, Becomes, Event, Explained, ExplainedQueue, ForeseenTarget, Foresight, NotMoved, Skipped,
};
pub use headers::{Attributes, NoAttributes};
pub use matching::Matching;
pub use origins::Origins;
pub use policy::Policy;
pub use reply::{
    Browsed, BrowsedMessage, ConsumerInfo, ConsumerPlace, Content, DeadLetterTo, QueueDetails,
    QueueInfo, Reply,
};
pub use subscription::{Lifetime, Subscribe, Topic};
pub use warning::{ClosedCycle, Declared, Warning};
