//! Checkpoints keep the copies of blocks that did not change, and hold the same all the same.

use std::collections::BTreeMap;

use super::{STEPS, World};
use crate::base::{Lsn, Name, Now, Seed};
use crate::broker::{Core, CoreOptions, Fact, Record, Restoring};
use crate::sim::durable_state;
use crate::sim::paging::BLOCK_SHIFT;

/// Names of copies, far from those of records.
const FIRST: u64 = 1 << 50;

/// The copies of all checkpoints so far.
#[derive(Default)]
struct Copies {
    facts: BTreeMap<Lsn, Vec<Fact>>,
    kept: usize,
    written: usize,
}

impl Copies {
    /// Copies a core; the names of the copies, in order.
    fn checkpoint(&mut self, core: &mut Core, now: Now, trusted: Lsn) -> Vec<Lsn> {
        let mut names = Vec::new();
        let mut snapshot = core.begin_snapshot(trusted);
        while let Some(slice) = core.snapshot_slice(now, &mut snapshot) {
            self.kept += slice.kept.len();
            names.extend(slice.kept);
            if slice.facts.is_empty() {
                continue;
            }
            let name = Lsn(FIRST + self.facts.len() as u64);
            names.push(name);
            self.facts.insert(name, slice.facts);
            if let Some(block) = slice.block {
                core.note_copied(block, name);
                self.written += 1;
            }
        }
        names
    }

    fn restore(&self, names: &[Lsn], now: Now, block_shift: u32) -> Restoring {
        let options = CoreOptions {
            block_shift,
            ..CoreOptions::new(Name::from("sim"), Seed(1))
        };
        let mut restoring = Restoring::new(options, now, now.wall, u64::MAX);
        for name in names {
            restoring.checkpoint(&Record {
                lsn: *name,
                wall: now.wall,
                facts: self.facts[name].clone().into(),
                named: true,
            });
        }
        restoring
    }
}

#[test]
fn what_is_kept_and_what_is_copied_anew_is_all_there_is() {
    let (mut kept, mut written) = (0, 0);
    for seed in 1..=30 {
        let paged = seed % 2 == 0;
        let mut world = if paged {
            World::paged(seed)
        } else {
            World::new(seed)
        };
        let mut copies = Copies::default();
        for step in 1..=STEPS {
            world.step().unwrap();
            if step % 10 > 0 {
                continue;
            }
            let now = world.now;
            let names = copies.checkpoint(&mut world.core, now, Lsn(0));
            let restored = copies.restore(&names, now, BLOCK_SHIFT);
            let there = durable_state(&world.core, &world.archive).at(now.wall);
            let found = durable_state(restored.core(), &world.archive).at(now.wall);
            let differences = there.differences(&found);
            assert!(
                differences.is_empty(),
                "seed {seed}, step {step}: {differences:?}"
            );
        }
        (kept, written) = (kept + copies.kept, written + copies.written);
    }
    assert!(kept > written, "most was kept: {kept}, {written}");
}

#[test]
fn copies_of_blocks_of_another_size_are_not_kept_for_more_than_they_hold() {
    for seed in 1..20 {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step().unwrap();
        }
        let now = world.now;
        let mut copies = Copies::default();
        let mut names = copies.checkpoint(&mut world.core, now, Lsn(0));
        for block_shift in [9, 0, 2, 1] {
            let mut core = copies.restore(&names, now, block_shift).finish();
            names = copies.checkpoint(&mut core, now, Lsn(0));
            let restored = copies.restore(&names, now, block_shift);
            let there = durable_state(&world.core, &world.archive).at(now.wall);
            let found = durable_state(restored.core(), &world.archive).at(now.wall);
            let differences = there.differences(&found);
            assert!(
                differences.is_empty(),
                "seed {seed}, {block_shift}: {differences:?}"
            );
        }
    }
}

#[test]
fn a_start_knows_which_copies_still_hold_and_none_is_trusted_that_came_to_nothing() {
    let mut all = 0;
    for seed in 1..20 {
        all += start(seed);
    }
    assert!(all > 20, "{all}");
}

/// Blocks that were copied at the end of a run.
fn start(seed: u64) -> usize {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step().unwrap();
    }
    let now = world.now;
    let mut copies = Copies::default();
    let names = copies.checkpoint(&mut world.core, now, Lsn(0));
    let written = copies.written;
    let mut core = copies.restore(&names, now, BLOCK_SHIFT).finish();
    copies.checkpoint(&mut core, now, Lsn(0));
    assert_eq!((copies.kept, copies.written), (written, written));
    let newest = Lsn(FIRST + copies.facts.len() as u64);
    copies.checkpoint(&mut core, now, newest);
    assert_eq!((copies.kept, copies.written), (written, 2 * written));
    written
}
