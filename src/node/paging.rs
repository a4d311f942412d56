//! The work of the pager: paging messages in, and evicting them. Both may block on the disk, so the
//! owner does them on threads of their own.

use std::sync::Arc;

use super::pager::{EvictionJob, Pager, ReadBack, VhostRef};
use super::vhosts::Vhosts;
use crate::base::Lsn;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::broker::{Command, Spill, UpkeepCommand};
use crate::store::Disk;

/// Bytes that one command evicts at most: the core's lock is held for it.
const STEP_BYTES: u64 = 2 * 1024 * 1024;

/// The result of an item of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Worked {
    /// Continue with the next item.
    On,
    /// Nothing can be evicted at this moment: try again a little later.
    Stuck,
}

/// Carries out the pager's decisions, in all vhosts.
#[derive(Debug)]
pub(crate) struct Paging<D: Disk> {
    pub(crate) pager: Arc<Pager<D>>,
    pub(crate) vhosts: Arc<Vhosts<D>>,
}

impl<D: Disk> Paging<D> {
    /// Reads what a vhost asked for, and tells the vhost. Blocks.
    pub(crate) fn load(&self, (asker, load): &(VhostRef, ReadBack)) {
        let Some(vhost) = self.vhosts.that(asker) else {
            return; // deleted since
        };
        let name = &asker.name;
        let read = match load {
            ReadBack::Block(load) => {
                let loaded = self.pager.read(load, |record, error| {
                    tracing::error!(
                        vhost = %name, record = record.0, %error,
                        "messages cannot be read back and are dropped"
                    );
                });
                UpkeepCommand::PagedIn(loaded)
            }
            ReadBack::Body(look) => UpkeepCommand::BodyLooked {
                job: look.job,
                position: look.position,
                has_text: self.pager.look_into(look),
            },
        };
        // A failed vhost reports that itself.
        let _ = vhost.command(Command::Upkeep(read));
    }

    /// Does one step of eviction. Blocks.
    pub(crate) fn evict(&self, now_ns: u64, job: EvictionJob) -> Worked {
        match job {
            EvictionJob::Spill(asker, spill) => {
                if self.vhosts.that(&asker).is_some() {
                    self.spill(now_ns, &asker, &spill);
                }
                Worked::On
            }
            EvictionJob::Unspill(name) => {
                self.pager.unspill(name);
                Worked::On
            }
            EvictionJob::Look => self.look(self.pager.may_spill(now_ns)),
        }
    }

    /// Spills a block, and tells the vhost. What was written for one that is gone by then is released.
    fn spill(&self, now_ns: u64, asker: &VhostRef, spill: &Spill) {
        let lsn = self.pager.spill(now_ns, spill);
        #[cfg(test)]
        let lsn = Lsn(lsn.0 + u64::from(lsn.0 > 0 && is_planted(Plant::SpilledForgotten)));
        let spilled = Command::Upkeep(UpkeepCommand::Spilled {
            queue: spill.queue,
            block: spill.block,
            lsn,
            written: self.pager.written(),
        });
        let vhost = self.vhosts.that(asker);
        let is_told = vhost.is_some_and(|vhost| vhost.command(spilled).is_ok());
        if !is_told && lsn > Lsn(0) {
            self.pager.unspill(lsn);
        }
    }

    /// Evicts messages while they take more than the budget, the newest first.
    fn look(&self, spill: bool) -> Worked {
        self.pager.begin_look();
        let mut left = false;
        for vhost in self.vhosts.all() {
            let bytes = self.pager.over_bytes();
            if bytes == 0 {
                break;
            }
            let before = vhost.memory().resident.bytes;
            let page_out = Command::Upkeep(UpkeepCommand::PageOut {
                bytes: bytes.min(STEP_BYTES),
                written: self.pager.written(),
                spill,
            });
            let spills = self.pager.evictions.len();
            if vhost.command(page_out).is_ok() {
                left |=
                    vhost.memory().resident.bytes < before || self.pager.evictions.len() > spills;
            }
        }
        let (is_stuck, unblocked) = self.pager.end_look(left);
        unblocked.wake();
        if is_stuck { Worked::Stuck } else { Worked::On }
    }
}

#[cfg(test)]
mod tests;
