//! A call for one task.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Wakes one task, and remembers the call while that does not wait.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    called: bool,
    waker: Option<Waker>,
}

impl Signal {
    /// Wakes who waits, or who waits next.
    pub(crate) fn call(&self) {
        let waker = {
            let mut inner = self.inner.lock();
            inner.called = true;
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready once after each call; calls before that are one.
    pub(crate) fn poll_called(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.called) {
            return Poll::Ready(());
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits for a call.
    pub(crate) async fn called(&self) {
        poll_fn(|context| self.poll_called(context)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_remembered_until_somebody_waits_and_several_are_one() {
        let signal = Signal::default();
        let mut context = Context::from_waker(Waker::noop());
        assert!(signal.poll_called(&mut context).is_pending());
        signal.call();
        signal.call();
        assert!(signal.poll_called(&mut context).is_ready());
        assert!(signal.poll_called(&mut context).is_pending());
    }
}
