//! Long work beside messages, and how it yields the processor; waiting for one of two futures.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Yields to other threads where there are more of them than processors. The system would otherwise
/// let this one run for milliseconds, as it does with threads that never wait, and messages would
/// wait that long. To be called after each slice of long work.
pub(super) fn give_way() {
    std::thread::yield_now();
}

/// Yields after every few slices that follow one another, for short slices.
#[derive(Debug, Default)]
pub(super) struct Turns(u32);

impl Turns {
    /// Slices between two yields: a vhost's take about 100 us each.
    const ON_END: u32 = 8;

    /// Notes that a slice was done, and that the next follows at once.
    pub(super) fn pass(&mut self) {
        self.0 = (self.0 + 1) % Self::ON_END;
        if self.0 == 0 {
            give_way();
        }
    }
}

/// Ready when one of the two futures is.
pub(super) async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        other.as_mut().poll(context)
    })
    .await;
}
