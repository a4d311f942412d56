//! The task that writes checkpoints while the broker runs.

use std::sync::Arc;
use std::time::Duration;

use super::BrokerDisk;
use super::shared::Shared;
use crate::node::checkpoint::{CheckpointStep, Checkpointer};
use crate::store::StoreState;

/// Shortest interval of checks whether one is due.
const INTERVAL: Duration = Duration::from_millis(200);

/// Writes a checkpoint whenever one is due, until the broker ends.
pub(super) async fn write(shared: Arc<Shared>, mut checkpointer: Checkpointer<BrokerDisk>) {
    let store = Arc::clone(checkpointer.store());
    loop {
        let step = checkpointer.step(|store| {
            shared.node.copy_registry(store);
            shared.node.vhosts.all()
        });
        match step {
            CheckpointStep::More => tokio::task::yield_now().await,
            CheckpointStep::After(copied) => store.until_durable(copied).await,
            CheckpointStep::Idle => {
                tokio::time::sleep(INTERVAL).await;
                // On a full disk a checkpoint may be due because records were released.
                if store.state() == StoreState::Open {
                    store.until_commit().await;
                }
            }
        }
    }
}
