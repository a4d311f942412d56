//! Layer 2: the history of a message's deaths. The only module that edits a history.
//!
//! Promises: one entry per (queue, reason), newest first, as many and as large as the limits allow,
//! the rest folded without a death uncounted or a queue forgotten; times never fall along one
//! message; the encoding is that of RabbitMQ 4, to the last type. Never: no clock, no routing, no
//! IO.

mod annotations;
mod death;
mod evidence;
mod failure;
mod folded;
#[cfg(feature = "internals")]
mod fuzz;
mod history;
mod journal;
mod quarantined;
mod recent;
mod redrives;

pub use annotations::{
    ANNOTATIONS, AnnotationError, DeathsView, Encoding, EvidenceLevel, Viewer, decode_deaths,
};
pub use death::{Death, Entry, Point, Reason};
pub use evidence::{Evidence, How};
pub use failure::LastFailure;
pub use folded::{Folded, HistoryFull};
#[cfg(feature = "internals")]
pub use fuzz::fuzz_deaths;
pub use history::History;
pub use journal::{HistoryEncoder, HistoryError};
pub use quarantined::{QuarantineCause, Quarantined, RecentlyQuarantined};
pub use recent::{Dying, Recent};
pub use redrives::{RecentlyRedriven, Redrive, Redrives};

#[cfg(test)]
mod tests;
