//! Counters of one vhost, for people.

use crate::metrics::LOCK_HOLD_BOUNDS_NS;

/// How long the core's lock was held, in buckets: bucket `n` counts holds of at most
/// `LOCK_HOLD_BOUNDS_NS[n]` that are in no lower bucket, the last one all that were longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LockHolds {
    /// Holds by length.
    pub buckets: [u64; LOCK_HOLD_BOUNDS_NS.len() + 1],
    /// All holds together, in nanoseconds.
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

    /// Holds altogether.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Nanoseconds that this share of the holds (0 to 10,000 of ten thousand) did not exceed, rounded
    /// up to a bucket's bound but never above the longest; 0 if there was none.
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
    /// Its name.
    pub name: String,
    /// Connections in it.
    pub connections: usize,
    /// Messages published.
    pub published: u64,
    /// Deliveries to consumers.
    pub delivered: u64,
    /// Dead letters that reached a queue.
    pub dead_lettered: u64,
    /// How long its core's lock was held.
    pub lock_holds: LockHolds,
    /// Its core failed: nothing works in it any more.
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
