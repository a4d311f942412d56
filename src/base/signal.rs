//! A signal that wakes one task.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use crate::base::locks::{RankedMutex, before_waking, rank};

/// Wakes one task; a wake-up that comes while the task does not wait is remembered.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    inner: RankedMutex<rank::Signal, Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    woken: bool,
    waker: Option<Waker>,
}

impl Signal {
    /// Wakes the waiting task, or the next one that waits.
    pub(crate) fn wake(&self) {
        before_waking::<rank::Core>();
        let waker = {
            let mut inner = self.inner.lock();
            inner.woken = true;
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready once after each wake-up; several before that count as one.
    pub(crate) fn poll_woken(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.woken) {
            return Poll::Ready(());
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits for a wake-up.
    pub(crate) async fn woken(&self) {
        poll_fn(|context| self.poll_woken(context)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_is_remembered_until_somebody_waits_and_several_are_one() {
        let signal = Signal::default();
        let mut context = Context::from_waker(Waker::noop());
        assert!(signal.poll_woken(&mut context).is_pending());
        signal.wake();
        signal.wake();
        assert!(signal.poll_woken(&mut context).is_ready());
        assert!(signal.poll_woken(&mut context).is_pending());
    }
}
