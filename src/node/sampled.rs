//! The last sample of counters, for rates.

use std::sync::Arc;

use crate::base::Millis;
use crate::base::locks::{RankedMutex, rank};

/// A sample, and when it was begun.
#[derive(Debug)]
struct TimedSample<T> {
    at: Option<Millis>,
    sample: Arc<T>,
}

impl<T: Default> Default for TimedSample<T> {
    fn default() -> Self {
        Self {
            at: None,
            sample: Arc::default(),
        }
    }
}

/// Keeps the last sample until the next is made.
#[derive(Debug)]
pub(crate) struct Sampled<T>(RankedMutex<rank::Sample, TimedSample<T>>);

impl<T: Default> Default for Sampled<T> {
    fn default() -> Self {
        Self(RankedMutex::default())
    }
}

impl<T> Sampled<T> {
    /// The last sample.
    pub(crate) fn last(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().sample)
    }

    /// Milliseconds since the last sample was begun; none if there was none.
    pub(crate) fn interval_ms(&self, now: Millis) -> Option<u32> {
        let at = self.0.lock().at?;
        Some(u32::try_from(now.since(at)).unwrap_or(u32::MAX))
    }

    /// Replaces the last sample.
    pub(crate) fn put(&self, at: Millis, sample: T) {
        let (at, sample) = (Some(at), Arc::new(sample));
        *self.0.lock() = TimedSample { at, sample };
    }
}
