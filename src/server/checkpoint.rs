//! Checkpoints: all durable state of all vhosts, copied in slices while they go on.

use std::sync::Arc;
use std::time::Duration;

use super::broker::Shared;
use super::store::Store;
use super::vhost::{Failed, Vhost};
use crate::base::Lsn;

/// How often it is looked whether one is due.
const INTERVAL: Duration = Duration::from_millis(200);

/// Writes a checkpoint whenever so many bytes were written since the last.
pub(super) async fn write(shared: Arc<Shared>, store: Arc<Store>, after_bytes: u64) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        if store.journal().checkpoint_runs()
            || !store.is_checkpoint_due(after_bytes)
            || !store.journal().begin_checkpoint()
        {
            continue;
        }
        if copy(&shared, &store).await.is_ok() {
            store.ring(store.journal().end_checkpoint(), Lsn(0));
        } else {
            store.journal().abandon_checkpoint();
        }
    }
}

async fn copy(shared: &Shared, store: &Store) -> Result<(), Failed> {
    // First, so that a vhost is known before what is in it.
    shared.copy_registry(store);
    for vhost in shared.vhosts.all() {
        if let Err(failed) = copy_vhost(&vhost, store).await
            && !vhost.is_deleted()
        {
            return Err(failed);
        }
    }
    Ok(())
}

async fn copy_vhost(vhost: &Vhost, store: &Store) -> Result<(), Failed> {
    let mut snapshot = vhost.begin_snapshot()?;
    while vhost.copy_slice(store, &mut snapshot)? {
        tokio::task::yield_now().await;
    }
    Ok(())
}
