//! The task that drives the timers of a vhost, and its sliced work.

use std::sync::Arc;
use std::time::Duration;

use super::Vhost;
use super::clock::SystemClock;
use super::yielding::{Turns, either};

/// Wait of a vhost's work for the journal to catch up, each time.
const JOURNAL_MOMENT: Duration = Duration::from_millis(1);

/// Does what is due in a vhost, and its sliced work.
pub(super) async fn run(vhost: Arc<Vhost>, clock: SystemClock) {
    let mut turns = Turns::default();
    while let Ok(due) = vhost.tick() {
        if due <= clock.now().mono {
            turns.pass();
            tokio::task::yield_now().await;
            while vhost.pager().is_journal_behind(|| true) && !vhost.is_deleted() {
                tokio::time::sleep(JOURNAL_MOMENT).await;
            }
            continue;
        }
        let due = tokio::time::sleep_until(clock.instant(due));
        either(due, vhost.earlier()).await;
    }
}
