//! Which blocks leave memory.

use super::scenario::Scenario;
use crate::base::{Lsn, Name, Position, Seed};
use crate::broker::*;

/// Four messages a block.
const BLOCK_SHIFT: u32 = 2;
const BLOCKS: u64 = 8;

/// Blocks of `q` that are not in memory, counted from the oldest.
fn out(s: &Scenario) -> Vec<u64> {
    let queue = s.core.queue(&Name::from("q")).unwrap();
    let first = |block: &u64| Position(block << BLOCK_SHIFT);
    let blocks = (0..BLOCKS).filter(|block| queue.messages.is_out(first(block)));
    blocks.collect()
}

#[test]
fn the_newest_blocks_leave_first_as_soon_as_they_are_written() {
    let mut s = Scenario::with(Options {
        block_shift: BLOCK_SHIFT,
        ..Options::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[]);
    let mut written = Vec::new();
    for _ in 0..BLOCKS {
        for _ in 0..1 << BLOCK_SHIFT {
            s.publish_all("q", &["a"]);
        }
        written.push(s.core.last_lsn());
    }
    let page_out = |s: &mut Scenario, written: Lsn| {
        s.apply(Command::Upkeep(UpkeepCommand::PageOut {
            bytes: 1,
            written,
            spill: false,
        }));
        out(s)
    };
    assert_eq!(page_out(&mut s, Lsn(0)), [0; 0], "none is written");
    assert_eq!(page_out(&mut s, written[4]), [4]);
    // The last block takes more messages.
    assert_eq!(page_out(&mut s, written[7]), [4, 6]);
    assert_eq!(page_out(&mut s, written[7]), [4, 5, 6]);
    assert_eq!(page_out(&mut s, written[7]), [3, 4, 5, 6]);
}
