//! Long work beside messages: how it leaves them the processor. Waiting for one of two things.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Lets other threads go on where there are more of them than processors. The system would let this one
/// run for milliseconds first, as it does with all that never wait, and messages would wait that long.
/// Call it after each slice of long work.
pub(super) fn give_way() {
    std::thread::yield_now();
}

/// Gives way after every few slices that follow upon each other, for slices that are short.
#[derive(Debug, Default)]
pub(super) struct Turns(u32);

impl Turns {
    /// Slices between: a vhost's take about 100 us each.
    const ON_END: u32 = 8;

    /// A slice was done, and the next follows at once.
    pub(super) fn pass(&mut self) {
        self.0 = (self.0 + 1) % Self::ON_END;
        if self.0 == 0 {
            give_way();
        }
    }
}

/// Ready when one of two is.
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
