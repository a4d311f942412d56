//! The bound on messages that are arriving, over all connections.
//!
//! A connection may hold [`PARTIAL_FREE_BYTES`] of unfinished messages as it likes. Beyond that it needs one
//! of a few permits and is not read until it has one: so memory is bounded however many peers send
//! large messages at once, and those that are let in finish.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::outbox::Outbox;
use crate::base::ConnectionId;
use crate::base::limits::PARTIAL_BYTES_MAX;
#[cfg(doc)]
use crate::base::limits::PARTIAL_FREE_BYTES;

/// Time in which a permit has to be of use while others wait, in milliseconds: a peer that never
/// finishes a message must not keep the others out. Who is idle longest comes to its end first.
pub(crate) const KEEP_MS: u64 = 1_000;
/// What has to arrive in that time, in bytes.
pub(crate) const KEEP_BYTES: u64 = 16 * 1024;

/// The permits.
#[derive(Debug)]
pub(crate) struct Partials {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    free: usize,
    /// Messages take too much memory: nobody who only publishes gets a permit.
    alarm: bool,
    waiting: VecDeque<(ConnectionId, Arc<Outbox>)>,
}

impl Partials {
    /// As many permits as messages of the largest size fit into [`PARTIAL_BYTES_MAX`], at least one.
    pub(crate) fn new(message_bytes_max: u64) -> Self {
        let permits = (PARTIAL_BYTES_MAX / message_bytes_max.max(1)).clamp(1, 1024);
        let free = usize::try_from(permits).unwrap_or(1);
        Self {
            inner: Mutex::new(Inner {
                free,
                alarm: false,
                waiting: VecDeque::new(),
            }),
        }
    }

    /// Takes a permit, or notes who is to be called when there may be one. A peer that also consumes
    /// gets one in spite of an alarm: what it settles is what ends the alarm.
    pub(crate) fn take(
        self: &Arc<Self>,
        id: ConnectionId,
        outbox: &Arc<Outbox>,
        consumes: bool,
    ) -> Option<Permit> {
        let mut inner = self.inner.lock();
        inner.waiting.retain(|(waiting, _)| *waiting != id);
        if inner.free == 0 || (inner.alarm && !consumes) {
            inner.waiting.push_back((id, Arc::clone(outbox)));
            return None;
        }
        inner.free -= 1;
        Some(Permit {
            partials: Arc::clone(self),
        })
    }

    /// Whether more wait for a permit than there are.
    pub(crate) fn is_short(&self) -> bool {
        let inner = self.inner.lock();
        inner.free < inner.waiting.len()
    }

    /// A connection is gone.
    pub(crate) fn forget(&self, id: ConnectionId) {
        self.inner
            .lock()
            .waiting
            .retain(|(waiting, _)| *waiting != id);
        self.call();
    }

    pub(crate) fn set_alarm(&self, raised: bool) {
        self.inner.lock().alarm = raised;
        self.call();
    }

    /// Lets as many try again as there are permits.
    fn call(&self) {
        let called: Vec<_> = {
            let mut inner = self.inner.lock();
            let count = inner.free.min(inner.waiting.len());
            inner.waiting.drain(..count).collect()
        };
        for (_, outbox) in called {
            outbox.call();
        }
    }
}

/// The right to hold unfinished messages; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    partials: Arc<Partials>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.partials.inner.lock().free += 1;
        self.partials.call();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn called(outbox: &Outbox) -> bool {
        outbox
            .poll_ready(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn who_waits_is_called_when_a_permit_comes_back() {
        let partials = Arc::new(Partials::new(PARTIAL_BYTES_MAX));
        let outbox = Arc::new(Outbox::default());
        let permit = partials.take(ConnectionId(1), &outbox, false).unwrap();
        assert!(!partials.is_short());
        assert!(partials.take(ConnectionId(2), &outbox, false).is_none());
        assert!(partials.is_short() && !called(&outbox));
        drop(permit);
        assert!(called(&outbox));
        assert!(partials.take(ConnectionId(2), &outbox, false).is_some());
    }

    #[test]
    fn alarm_lets_only_consumers_in() {
        let partials = Arc::new(Partials::new(1));
        let outbox = Arc::new(Outbox::default());
        partials.set_alarm(true);
        assert!(partials.take(ConnectionId(1), &outbox, false).is_none());
        assert!(partials.take(ConnectionId(2), &outbox, true).is_some());
        partials.set_alarm(false);
        assert!(partials.take(ConnectionId(1), &outbox, false).is_some());
    }
}
