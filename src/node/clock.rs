//! The clock of a node.

use std::fmt::Debug;
use std::sync::Arc;

use crate::base::Now;
#[cfg(test)]
use crate::base::locks::{RankedMutex, rank};

/// The clock of a node. The server reads that of the machine, the simulator has its own.
pub(crate) trait Clock: Debug + Send + Sync {
    /// The monotonic and the wall-clock time.
    fn now(&self) -> Now;

    /// Nanoseconds since some fixed moment, for measuring. Never falls.
    fn elapsed_ns(&self) -> u64;
}

/// The clock, shared by the parts of a node.
pub(crate) type SharedClock = Arc<dyn Clock>;

/// A clock that shows the time it is set to.
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
