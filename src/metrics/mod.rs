//! Layer 7: metrics: names, help and text format.
//!
//! Promises: one table of names; cardinality is bounded: queues beyond the bound are summed under
//! the queue [`OTHER`]; sums over a label are complete. Never: no lock, no clock; it reads
//! snapshots of plain counts that others copied.
//!
//! Read first: [`TABLE`], [`Snapshot`], [`render()`].

#[cfg(test)]
mod document;
pub mod rabbitmq;
mod render;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use render::{Detail, OTHER, render};
pub use snapshot::{
    Depth, Gets, LOCK_HOLD_BOUNDS_NS, Links, QueueFigures, Queues, Snapshot, Vhost,
};
pub use table::{Metric, MetricKind, Scope, TABLE};
pub use text::CONTENT_TYPE;
