//! The latest failed delivery of a message that is in its queue and did not die of it.

use std::sync::Arc;

use super::Evidence;
use crate::base::{Gauge, Timestamp};

/// When and how a delivery failed last, and by which consumer. Messages that fail by one
/// disposition share one. It belongs to the queue that the message is in: a death removes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastFailure {
    /// Wall-clock time of the failure.
    pub at: Timestamp,
    /// The consumer's error and identity; without a rule, since the message did not die.
    pub evidence: Arc<Evidence>,
}

impl LastFailure {
    /// Charges its memory to the gauge, once for all that share its evidence.
    pub fn charge(&self, gauge: &Gauge) {
        self.evidence.charge(gauge);
    }
}
