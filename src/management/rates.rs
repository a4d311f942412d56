//! Rates of counters: what each object counted is sampled at intervals, and a rate is the change
//! since the last sample.
//!
//! Promises: bounded memory, no work while nothing is counted. A rate is that of the last whole
//! interval, as RabbitMQ's. Pure: the server decides when to sample.

use std::collections::BTreeMap;

/// Objects of one kind with rates, at most; further ones have rates of 0. Idle queues take nothing.
pub const OBJECTS_MAX: usize = 65_536;

/// The counts of one object, and the change of each in the last interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pace<const N: usize> {
    counts: [u64; N],
    changes: [i32; N],
}

/// Rates of one object, in changes per second.
pub type Rates<const N: usize> = [f64; N];

/// The last sample of the objects of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample<K, const N: usize> {
    /// Time since the last sample, in milliseconds; none: this is the first one.
    interval_ms: Option<u32>,
    paces: BTreeMap<K, Pace<N>>,
}

impl<K: Ord, const N: usize> Default for Sample<K, N> {
    fn default() -> Self {
        Self::new(None)
    }
}

impl<K: Ord, const N: usize> Sample<K, N> {
    /// Begins a sample, at this time after the one before.
    pub const fn new(interval_ms: Option<u32>) -> Self {
        Self {
            interval_ms,
            paces: BTreeMap::new(),
        }
    }

    /// Adds the counts of an object. An object that is not in `before` had counts of 0, unless this
    /// is the first sample.
    pub fn add(&mut self, before: &Self, key: K, counts: [u64; N]) {
        if counts == [0; N] && !before.paces.contains_key(&key) {
            return;
        }
        if self.paces.len() >= OBJECTS_MAX {
            return;
        }
        let known = before.paces.get(&key);
        let is_guess = known.is_none() && before.paces.len() >= OBJECTS_MAX;
        let changes = if self.interval_ms.is_none() || is_guess {
            [0; N]
        } else {
            let earlier = known.map_or([0; N], |pace| pace.counts);
            std::array::from_fn(|at| change(earlier.get(at), counts.get(at)))
        };
        self.paces.insert(key, Pace { counts, changes });
    }

    /// The rates of an object, 0 if it is not in the sample.
    pub fn of(&self, key: &K) -> Rates<N> {
        let (Some(pace), Some(interval_ms)) = (self.paces.get(key), self.interval_ms) else {
            return [0.0; N];
        };
        let interval_s = f64::from(interval_ms.max(1)) / 1000.0;
        pace.changes.map(|change| f64::from(change) / interval_s)
    }
}

/// The change of a count, in 32 bits: two thousand million in an interval at most.
fn change(earlier: Option<&u64>, later: Option<&u64>) -> i32 {
    let (earlier, later) = (earlier.copied().unwrap_or(0), later.copied().unwrap_or(0));
    let far = i32::try_from(later.abs_diff(earlier)).unwrap_or(i32::MAX);
    if later < earlier { -far } else { far }
}

/// The sum of both rates.
#[must_use]
pub fn plus<const N: usize>(mut rates: Rates<N>, others: Rates<N>) -> Rates<N> {
    for (rate, other) in rates.iter_mut().zip(others) {
        *rate += other;
    }
    rates
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "whole numbers and exact quotients")]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_change_of_the_last_interval() {
        let mut first = Sample::default();
        first.add(&Sample::default(), 1, [100, 7]);
        assert_eq!(first.of(&1), [0.0, 0.0], "nobody knows how long that took");
        let mut second = Sample::new(Some(5_000));
        second.add(&first, 1, [150, 2]);
        second.add(&first, 2, [10, 0]);
        assert_eq!(second.of(&1), [10.0, -1.0]);
        assert_eq!(second.of(&2), [2.0, 0.0], "a new object began with nothing");
        assert_eq!(second.of(&3), [0.0, 0.0]);
        let mut third = Sample::new(Some(5_000));
        third.add(&second, 1, [150, 2]);
        assert_eq!(third.of(&1), [0.0, 0.0]);
        assert_eq!(third.of(&2), [0.0, 0.0], "it is gone");
    }

    #[test]
    fn what_never_counted_anything_is_not_kept() {
        let mut sample = Sample::new(Some(1));
        sample.add(&Sample::default(), 1, [0, 0]);
        assert!(sample.paces.is_empty());
        sample.add(&Sample::default(), 1, [u64::MAX, 0]);
        assert_eq!(sample.of(&1), [f64::from(i32::MAX) * 1000.0, 0.0]);
    }

    #[test]
    fn objects_beyond_the_bound_are_left_out() {
        let mut sample = Sample::new(Some(1_000));
        for key in 0..=OBJECTS_MAX {
            sample.add(&Sample::default(), key, [1]);
        }
        assert_eq!(sample.paces.len(), OBJECTS_MAX);
        assert_eq!(sample.of(&0), [1.0]);
        assert_eq!(sample.of(&OBJECTS_MAX), [0.0]);
    }
}
