//! Counts of messages taken over HTTP, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics;

/// Numbers of messages taken over HTTP.
#[derive(Debug, Default)]
pub(super) struct Gets {
    auto_ack: AtomicU64,
    manual_ack: AtomicU64,
    empty: AtomicU64,
}

impl Gets {
    /// Counts a request that took this many messages, for good or to requeue them.
    pub(super) fn count(&self, taken: usize, for_good: bool) {
        if taken == 0 {
            self.empty.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let count = if for_good {
            &self.auto_ack
        } else {
            &self.manual_ack
        };
        count.fetch_add(taken as u64, Ordering::Relaxed);
    }

    /// The counts for a snapshot.
    pub(super) fn counts(&self) -> metrics::Gets {
        metrics::Gets {
            auto_ack: self.auto_ack.load(Ordering::Relaxed),
            manual_ack: self.manual_ack.load(Ordering::Relaxed),
            empty: self.empty.load(Ordering::Relaxed),
        }
    }
}
