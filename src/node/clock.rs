//! Where a node's times come from.

use std::fmt::Debug;
use std::sync::Arc;

use crate::base::Now;
#[cfg(test)]
use crate::base::locks::{RankedMutex, rank};

/// The clocks of a node. The server reads those of the machine, the simulator its own.
pub(crate) trait Clock: Debug + Send + Sync {
    /// Both times.
    fn now(&self) -> Now;

    /// Nanoseconds since some moment, for what is to be measured. Never falls.
    fn elapsed_ns(&self) -> u64;
}

/// The clock that the parts of a node share.
pub(crate) type SharedClock = Arc<dyn Clock>;

/// A clock that shows what it is told.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct ManualClock {
    now: RankedMutex<rank::ManualClock, Option<Now>>,
    elapsed_ns: std::sync::atomic::AtomicU64,
}

#[cfg(test)]
impl Clock for ManualClock {
    fn now(&self) -> Now {
        use crate::base::{Millis, Timestamp};
        self.now
            .lock()
            .unwrap_or_else(|| Now::new(Millis(0), Timestamp(0)))
    }

    fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns.load(std::sync::atomic::Ordering::Relaxed)
    }
}
