//! The task that ends the seconds of rate-limited logs: left-out lines are logged as a number.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;

/// Length of such a second.
const SECOND: Duration = Duration::from_secs(1);

/// Logs the left-out lines of each second in which anything was written, until the broker ends. It
/// sleeps while nothing is written.
pub(super) async fn tell_rest(shared: Arc<Shared>) {
    let environment = &shared.node.environment;
    loop {
        environment.audit.begun().await;
        tokio::time::sleep(SECOND).await;
        environment.tell_rest();
    }
}
