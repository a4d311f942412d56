//! Checkpoints: all durable state of all vhosts, copied in slices while they go on.

use std::sync::Arc;
use std::time::Duration;

use super::store::Store;
use super::vhost::{Failed, Vhost};
use super::vhosts::Vhosts;

/// How often it is looked whether one is due.
const INTERVAL: Duration = Duration::from_millis(200);

/// Writes a checkpoint whenever so many bytes were written since the last.
pub(super) async fn write(store: Arc<Store>, vhosts: Arc<Vhosts>, after_bytes: u64) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        if store.journal().checkpoint_runs()
            || !store.is_checkpoint_due(after_bytes)
            || !store.journal().begin_checkpoint()
        {
            continue;
        }
        if copy(&store, &vhosts.all()).await.is_ok() {
            store.ring(store.journal().end_checkpoint());
        } else {
            store.journal().abandon_checkpoint();
        }
    }
}

async fn copy(store: &Store, vhosts: &[Arc<Vhost>]) -> Result<(), Failed> {
    for vhost in vhosts {
        let mut snapshot = vhost.begin_snapshot(store)?;
        while vhost.copy_slice(store, &mut snapshot)? {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
