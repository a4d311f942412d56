//! The bound on messages that have begun to arrive, over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of incomplete messages that all connections may hold together.
#[derive(Debug)]
pub(super) struct PartialBudget {
    used_bytes: AtomicU64,
    max_bytes: u64,
}

impl PartialBudget {
    pub(super) fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            used_bytes: AtomicU64::new(0),
            max_bytes,
        })
    }

    /// The share of one connection; given back when dropped.
    pub(super) fn share(self: &Arc<Self>) -> PartialShare {
        PartialShare {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }
}

/// What one connection holds of the budget.
#[derive(Debug)]
pub(super) struct PartialShare {
    budget: Arc<PartialBudget>,
    bytes: u64,
}

impl PartialShare {
    /// Notes what the connection holds now. False when it took more and all together have too much.
    pub(super) fn set(&mut self, bytes: u64) -> bool {
        let used = &self.budget.used_bytes;
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes <= before {
            if bytes < before {
                used.fetch_sub(before - bytes, Ordering::Relaxed);
            }
            return true;
        }
        let more = bytes - before;
        used.fetch_add(more, Ordering::Relaxed) + more <= self.budget.max_bytes
    }
}

impl Drop for PartialShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_takes_too_much_is_told_and_gives_back_what_it_had() {
        let budget = PartialBudget::new(100);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.set(60));
        assert!(other.set(40));
        assert!(!other.set(41));
        assert!(one.set(60), "who takes no more is left alone");
        drop(other);
        assert!(one.set(100));
    }
}
