//! Random eviction and paging-in, with maps for a disk.

use super::Random;
use super::durable::Archive;
use crate::base::Lsn;
use crate::broker::{Command, Core, Effects, PageIn, UpkeepCommand};
use crate::record;

/// Blocks of two messages, so that small queues have many.
pub(super) const BLOCK_SHIFT: u32 = 1;
/// LSNs of spilled pieces have the highest bit set.
const SPILLED: u64 = 1 << 63;

/// Decides what is evicted, and answers the core's requests.
#[derive(Debug)]
pub(super) struct Paging {
    random: Random,
    is_on: bool,
    pieces: u64,
    /// Requested and not answered yet.
    loads: Vec<PageIn>,
}

impl Paging {
    pub(super) fn new(seed: u64, is_on: bool) -> Self {
        Self {
            random: Random::new(seed ^ 0x5eed),
            is_on,
            pieces: 0,
            loads: Vec::new(),
        }
    }

    /// A command that evicts messages, now and then.
    pub(super) fn page_out(&mut self, core: &Core) -> Option<Command> {
        if !self.is_on || !self.random.one_in(2) {
            return None;
        }
        Some(Command::Upkeep(UpkeepCommand::PageOut {
            bytes: self.random.below(2_000),
            written: Lsn(core.last_lsn().0),
            spill: !self.random.one_in(4),
        }))
    }

    /// Spills a block, or fails to.
    pub(super) fn spill(
        &mut self,
        archive: &mut Archive,
        (core, effects): (&Core, &mut Effects),
    ) -> Option<Command> {
        let spill = effects.spills.pop()?;
        let lsn = if self.random.one_in(5) {
            Lsn(0)
        } else {
            self.pieces += 1;
            Lsn(SPILLED + self.pieces)
        };
        if lsn > Lsn(0) {
            archive.add_bytes(lsn, record::encode_spill(&spill).into());
        }
        Some(Command::Upkeep(UpkeepCommand::Spilled {
            queue: spill.queue,
            block: spill.block,
            lsn,
            written: core.last_lsn(),
        }))
    }

    /// Reads one of the requested blocks back: late, in any order, and not all of it. At the end,
    /// at once.
    pub(super) fn answer(
        &mut self,
        archive: &Archive,
        effects: &mut Effects,
        is_end: bool,
    ) -> Option<Command> {
        self.loads.append(&mut effects.loads);
        if !is_end && !self.random.one_in(3) {
            return None;
        }
        let count = u64::try_from(self.loads.len()).unwrap_or(0);
        if count == 0 {
            return None;
        }
        let at = usize::try_from(self.random.below(count)).unwrap_or(0);
        let mut loaded = archive.load(&self.loads.swap_remove(at));
        if self.random.one_in(20) {
            loaded.messages.pop();
        }
        Some(Command::Upkeep(UpkeepCommand::PagedIn(loaded)))
    }
}
