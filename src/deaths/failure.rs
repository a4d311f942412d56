//! The latest failed delivery of a message that waits in its queue and did not die of it.

use std::sync::Arc;

use super::Evidence;
use crate::base::{Gauge, Timestamp};

/// When a delivery failed last, how, and by whom. Messages that fail by one disposition share one. It
/// is of the queue that the message is in: a death folds it away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastFailure {
    /// When, on the wall clock.
    pub at: Timestamp,
    /// What the consumer said, and who it was; no rule, since it did not die.
    pub evidence: Arc<Evidence>,
}

impl LastFailure {
    /// Counts its memory, once for all that share its evidence.
    pub fn charge(&self, gauge: &Gauge) {
        self.evidence.charge(gauge);
    }
}
