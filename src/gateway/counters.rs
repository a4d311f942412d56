//! Counts of the links attached at all gateways of one broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::links::LinkKind;
use crate::base::uncount_atomic;

/// Number of attached links, by their purpose.
#[derive(Debug, Default)]
pub struct OpenLinks {
    publishers: Arc<AtomicU64>,
    consumers: Arc<AtomicU64>,
    management: Arc<AtomicU64>,
}

/// A counted link; dropping it subtracts it again.
#[derive(Debug)]
pub(super) struct Counted(Arc<AtomicU64>);

impl OpenLinks {
    /// Number of publishers, of consumers, and of others: halves of management pairs, controllers
    /// of transactions.
    pub fn counts(&self) -> [u64; 3] {
        let counters = [&self.publishers, &self.consumers, &self.management];
        counters.map(|counter| counter.load(Ordering::Relaxed))
    }

    pub(super) fn count(&self, kind: &LinkKind) -> Counted {
        let counter = match kind {
            LinkKind::Publisher(_) => &self.publishers,
            LinkKind::Consumer(_) => &self.consumers,
            LinkKind::Request(_)
            | LinkKind::Response(_)
            | LinkKind::PutToken(_)
            | LinkKind::TokenStatus(_)
            | LinkKind::Controller(_) => &self.management,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(counter))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        uncount_atomic!(self.0, 1, Ordering::Relaxed, "a link that ends was counted");
    }
}
