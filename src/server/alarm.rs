//! The task that checks memory and disk, for the alarms that stop publishers.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::yielding::either;
use super::{BrokerDisk, Pager};
use crate::node::alarm::{Limits, Watch};

/// Interval of the checks while anything happens.
const INTERVAL: Duration = Duration::from_millis(100);
/// Checks without a change after which the broker counts as idle.
const STILL_LOOKS: u32 = 20;
/// Interval of the checks while nothing happens: other programs may fill the disk.
const IDLE: Duration = Duration::from_secs(4);
/// Growth of memory that ends an idle pause at once, in bytes.
const GROWTH_BYTES: u64 = 1024 * 1024;

/// Checks again and again, until the broker ends, and calls `look` each time for what else takes memory
/// until its time is over.
pub(super) async fn watch(
    watch: Watch<BrokerDisk>,
    pager: Arc<Pager>,
    limits: impl Fn() -> Limits + Send,
    look: impl Fn() + Send,
) {
    let (mut last, mut still) = (None, 0);
    loop {
        if still < STILL_LOOKS {
            tokio::time::sleep(INTERVAL).await;
        } else {
            let kept = watch.board.connections();
            let above = kept.bytes().saturating_add(GROWTH_BYTES);
            let grown = poll_fn(|context| kept.poll_above(context, above));
            let grown = either(pager.grown_by(GROWTH_BYTES), grown);
            if tokio::time::timeout(IDLE, grown).await.is_ok() {
                still = 0;
            }
        }
        look();
        let seen = watch.look(limits());
        let is_new = seen.is_alarm || last.replace(seen) != Some(seen);
        still = if is_new { 0 } else { still.saturating_add(1) };
    }
}
