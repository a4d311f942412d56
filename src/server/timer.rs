//! The time of a vhost: what is due in it, and its long work.

use std::sync::Arc;
use std::time::Duration;

use super::Vhost;
use super::clock::SystemClock;
use super::yielding::{Turns, either};

/// How long the work of a vhost waits each time for the journal to catch up.
const JOURNAL_MOMENT: Duration = Duration::from_millis(1);

/// Fires what is due in a vhost, and does its long work in slices.
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
