//! Messages that were taken over HTTP, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics;

/// How many.
#[derive(Debug, Default)]
pub(super) struct Gets {
    auto_ack: AtomicU64,
    manual_ack: AtomicU64,
    empty: AtomicU64,
}

impl Gets {
    /// A request took so many, for good or to give them back.
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

    /// For a snapshot.
    pub(super) fn counts(&self) -> metrics::Gets {
        metrics::Gets {
            auto_ack: self.auto_ack.load(Ordering::Relaxed),
            manual_ack: self.manual_ack.load(Ordering::Relaxed),
            empty: self.empty.load(Ordering::Relaxed),
        }
    }
}
