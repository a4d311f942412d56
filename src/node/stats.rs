//! Counters of one vhost, for management.

use crate::metrics::LOCK_HOLD_BOUNDS_NS;

/// How long the core's lock was held, in buckets: bucket `n` counts holds of at most
/// `LOCK_HOLD_BOUNDS_NS[n]` that are in no lower bucket, the last one all longer ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LockHolds {
    /// Number of holds in each bucket.
    pub buckets: [u64; LOCK_HOLD_BOUNDS_NS.len() + 1],
    /// Sum of all holds, in nanoseconds.
    pub total_ns: u64,
    /// The longest hold, in nanoseconds.
    pub longest_ns: u64,
}

impl LockHolds {
    pub(crate) const fn new() -> Self {
        Self {
            buckets: [0; LOCK_HOLD_BOUNDS_NS.len() + 1],
            total_ns: 0,
            longest_ns: 0,
        }
    }

    pub(crate) fn record(&mut self, nanoseconds: u64) {
        self.total_ns = self.total_ns.saturating_add(nanoseconds);
        self.longest_ns = self.longest_ns.max(nanoseconds);
        let bucket = LOCK_HOLD_BOUNDS_NS.partition_point(|bound_ns| *bound_ns < nanoseconds);
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            *bucket += 1;
        }
    }

    /// Number of holds.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The duration in nanoseconds that this share of the holds (0 to 10,000 of ten thousand) did
    /// not exceed, rounded up to a bucket's bound but never above the longest; 0 if there was none.
    pub fn quantile_ns(&self, of_10_000: u64) -> u64 {
        let wanted = (self.count() * of_10_000.min(10_000)).div_ceil(10_000);
        let mut seen = 0;
        for (count, bound_ns) in self.buckets.iter().zip(LOCK_HOLD_BOUNDS_NS) {
            seen += count;
            if seen >= wanted && seen > 0 {
                return bound_ns.min(self.longest_ns);
            }
        }
        self.longest_ns
    }
}

/// Counters of one vhost.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct VhostStats {
    /// The vhost's name.
    pub name: String,
    /// Number of open connections.
    pub connections: usize,
    /// Messages published by clients.
    pub published: u64,
    /// Deliveries to consumers.
    pub delivered: u64,
    /// Dead letters that entered a queue.
    pub dead_lettered: u64,
    /// How long its core's lock was held.
    pub lock_holds: LockHolds,
    /// Whether its core failed: then the vhost does nothing any more.
    pub failed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_lock_holds_are_known_to_ten_thousandths() {
        let mut holds = LockHolds::new();
        assert_eq!(holds.quantile_ns(9_900), 0);
        for _ in 0..9_998 {
            holds.record(700);
        }
        holds.record(900_000);
        holds.record(u64::MAX);
        assert_eq!(holds.count(), 10_000);
        assert_eq!(holds.quantile_ns(5_000), 1_000, "the bound of its bucket");
        assert_eq!(holds.quantile_ns(9_998), 1_000);
        assert_eq!(
            holds.quantile_ns(9_999),
            1_000_000,
            "below a millisecond can be told"
        );
        assert_eq!(
            holds.quantile_ns(10_000),
            u64::MAX,
            "the longest is known as it was"
        );
    }
}
