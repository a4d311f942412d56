//! Checkpoints: all durable state of all vhosts, copied in slices while they go on.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use super::store::Store;
use super::vhost::{Failed, Vhost};
use crate::base::Lsn;

/// How often it is looked whether one is due.
const INTERVAL: Duration = Duration::from_millis(200);
/// Slices copied before it is waited until they are written: what waits takes memory.
const SLICES_AHEAD: u32 = 32;

/// Writes a checkpoint whenever so many bytes were written since the last.
pub(super) async fn write(shared: Arc<Shared>, store: Arc<Store>, after_bytes: u64) {
    // What was copied for a checkpoint that was given up is gone.
    let mut trusted = Lsn(0);
    loop {
        tokio::time::sleep(INTERVAL).await;
        if store.journal().checkpoint_runs()
            || !store.is_checkpoint_due(after_bytes)
            || !store.journal().begin_checkpoint()
        {
            continue;
        }
        if copy(&shared, &store, trusted).await.is_ok() {
            store.ring(store.journal().end_checkpoint(), Lsn(0));
        } else {
            trusted = store.journal().abandon_checkpoint();
        }
    }
}

async fn copy(shared: &Shared, store: &Store, trusted: Lsn) -> Result<(), Failed> {
    // First, so that a vhost is known before what is in it.
    shared.copy_registry(store);
    for vhost in shared.vhosts.all() {
        if let Err(failed) = copy_vhost(&vhost, store, trusted).await
            && !vhost.is_deleted()
        {
            return Err(failed);
        }
    }
    Ok(())
}

async fn copy_vhost(vhost: &Vhost, store: &Store, trusted: Lsn) -> Result<(), Failed> {
    let mut snapshot = vhost.begin_snapshot(trusted)?;
    let mut slices = 0;
    while let Some(copy) = vhost.copy_slice(store, &mut snapshot)? {
        slices += u32::from(copy > Lsn(0));
        if slices >= SLICES_AHEAD {
            store.until_durable(copy).await;
            slices = 0;
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}
