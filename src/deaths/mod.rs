//! Floor 2: the history of a message's deaths. The only room that edits a history.
//!
//! Promises: one entry per (queue, reason), newest first; times never fall along one message; what
//! is encoded is what RabbitMQ 4 writes, to the last type. Never: no clock, no routing, no IO.

mod history;

pub use history::{Death, Encoding, Entry, Evidence, History, HistoryError, Point, Reason};
