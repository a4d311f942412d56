//! Ends the seconds of logs that write so many lines in each: the rest is told.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;

/// How long such a second is.
const SECOND: Duration = Duration::from_secs(1);

/// Tells the rest of each second in which anything was written, until the broker ends. While nothing is,
/// it sleeps.
pub(super) async fn tell_rest(shared: Arc<Shared>) {
    let environment = &shared.node.environment;
    loop {
        environment.audit.begun().await;
        tokio::time::sleep(SECOND).await;
        environment.tell_rest();
    }
}
