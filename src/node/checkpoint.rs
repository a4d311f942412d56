//! Checkpoints: all durable state of all vhosts, copied in slices while they go on.

use std::sync::Arc;

use super::store::Store;
use super::vhost::{Failed, Vhost};
use crate::base::Lsn;
use crate::broker::Snapshot;
use crate::store::Disk;

/// Slices copied before waiting until they are written: waiting slices take memory.
const SLICES_AHEAD: u32 = 32;

/// Writes checkpoints, one slice in each step.
#[derive(Debug)]
pub(crate) struct Checkpointer<D: Disk> {
    store: Arc<Store<D>>,
    /// Bytes written since the last checkpoint after which the next one is due.
    after_bytes: u64,
    /// Copies with lower LSNs are not kept: they were made for a checkpoint that was abandoned, and
    /// are released.
    trusted: Lsn,
    running: Option<Running<D>>,
}

/// A checkpoint that is being copied.
#[derive(Debug)]
struct Running<D: Disk> {
    /// Vhosts that are not copied yet, the next one last.
    vhosts: Vec<Arc<Vhost<D>>>,
    current: Option<(Arc<Vhost<D>>, Snapshot)>,
    /// Slices copied since the last wait.
    slices: u32,
}

/// When to take the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckpointStep {
    /// No checkpoint is due.
    Idle,
    /// Take the next step at once.
    More,
    /// Take the next step once this LSN is durable.
    After(Lsn),
}

impl<D: Disk> Checkpointer<D> {
    pub(crate) const fn new(store: Arc<Store<D>>, after_bytes: u64) -> Self {
        Self {
            store,
            after_bytes,
            trusted: Lsn(0),
            running: None,
        }
    }

    /// The journal that checkpoints are written to.
    pub(crate) const fn store(&self) -> &Arc<Store<D>> {
        &self.store
    }

    /// Begins a checkpoint if one is due, or continues it. `begin` copies the registry and returns
    /// the vhosts: in this order, so that a vhost is in the checkpoint before its content.
    pub(crate) fn step(
        &mut self,
        begin: impl FnOnce(&Store<D>) -> Vec<Arc<Vhost<D>>>,
    ) -> CheckpointStep {
        let Some(mut running) = self.running.take() else {
            return self.begin(begin);
        };
        match self.copy(&mut running) {
            Ok(Some(step)) => {
                self.running = Some(running);
                step
            }
            Ok(None) => {
                let wake = self.store.journal().end_checkpoint();
                self.store.wake(wake, Lsn(0));
                CheckpointStep::Idle
            }
            Err(Failed) => {
                self.trusted = self.store.journal().abandon_checkpoint();
                CheckpointStep::Idle
            }
        }
    }

    fn begin(&mut self, begin: impl FnOnce(&Store<D>) -> Vec<Arc<Vhost<D>>>) -> CheckpointStep {
        let journal = self.store.journal();
        if journal.checkpoint_runs()
            || !self.store.is_checkpoint_due(self.after_bytes)
            || !journal.begin_checkpoint()
        {
            return CheckpointStep::Idle;
        }
        let mut vhosts = begin(&self.store);
        vhosts.reverse();
        self.running = Some(Running {
            vhosts,
            current: None,
            slices: 0,
        });
        CheckpointStep::More
    }

    /// Copies one slice; none when all is copied.
    fn copy(&self, running: &mut Running<D>) -> Result<Option<CheckpointStep>, Failed> {
        let Some((vhost, mut snapshot)) = running.current.take() else {
            let Some(vhost) = running.vhosts.pop() else {
                return Ok(None);
            };
            match vhost.begin_snapshot(self.trusted) {
                Ok(snapshot) => running.current = Some((vhost, snapshot)),
                // A deleted vhost is left out.
                Err(Failed) if vhost.is_deleted() => {}
                Err(failed) => return Err(failed),
            }
            return Ok(Some(CheckpointStep::More));
        };
        match vhost.copy_slice(&self.store, &mut snapshot) {
            Ok(Some(copy)) => {
                running.current = Some((vhost, snapshot));
                running.slices += u32::from(copy > Lsn(0));
                if running.slices >= SLICES_AHEAD {
                    running.slices = 0;
                    return Ok(Some(CheckpointStep::After(copy)));
                }
            }
            Ok(None) => {}
            Err(Failed) if vhost.is_deleted() => {}
            Err(failed) => return Err(failed),
        }
        Ok(Some(CheckpointStep::More))
    }
}
