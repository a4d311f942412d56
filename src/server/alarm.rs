//! Looks after memory and disk, for the alarms that stop publishers.

use std::time::Duration;

use super::BrokerDisk;
use crate::node::alarm::{Limits, Watch};

/// How often memory and disk are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Looks again and again, until the broker ends.
pub(super) async fn watch(watch: Watch<BrokerDisk>, limits: impl Fn() -> Limits + Send) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        watch.look(limits());
    }
}
