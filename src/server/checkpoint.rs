//! Writes checkpoints beside the traffic.

use std::sync::Arc;
use std::time::Duration;

use super::BrokerDisk;
use super::shared::Shared;
use crate::node::checkpoint::{CheckpointStep, Checkpointer};
use crate::store::StoreState;

/// How often it is looked whether one is due, at most.
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
                // On a full disk one may be due for what was let go.
                if store.state() == StoreState::Open {
                    store.until_commit().await;
                }
            }
        }
    }
}
