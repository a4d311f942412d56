//! The crash matrix: whatever the moment, what was confirmed is there, once, and whole.

use super::*;
use crate::store::sim_disk::Crash;

/// Runs a world until the disk goes off or the steps are done.
fn run(seed: u64, faults: Faults, steps: usize) -> (SimDisk, Option<World>) {
    let disk = SimDisk::default();
    disk.set_faults(faults);
    let Ok(mut world) = World::open(&disk, options(), seed) else {
        return (disk, None);
    };
    for _ in 0..steps {
        if world.step().is_err() {
            break;
        }
    }
    (disk, Some(world))
}

fn check_crash(disk: &SimDisk, world: Option<&World>, crash: Crash, seed: u64, context: &str) {
    let mut random = Random(seed);
    let image = disk.crash(crash, &mut random);
    let Some(world) = world else {
        let world = World::open(&image, options(), seed).unwrap();
        assert!(world.entries.is_empty(), "{context}");
        return;
    };
    let mut world = world.reopen(&image, context);
    // It goes on from there, and crashes once more, perhaps while it recovers.
    for _ in 0..30 {
        world.step().unwrap();
    }
    world.checkpoint().unwrap();
    let image = image.crash(Crash::Power, &mut random);
    let again = image.crash(Crash::Process, &mut random);
    again.set_faults(Faults {
        off_at_operation: Some(1 + random.below(12)),
        ..Faults::default()
    });
    let _ = World::open(&again, options(), seed);
    let again = again.crash(Crash::Power, &mut random);
    world.reopen(&image, context);
    world.reopen(&again, context);
}

fn matrix(seed: u64, steps: usize) {
    let (disk, _) = run(seed, Faults::default(), steps);
    for operation in 1..=disk.operations() {
        let faults = Faults {
            off_at_operation: Some(operation),
            ..Faults::default()
        };
        let (disk, world) = run(seed, faults, steps);
        for (number, crash) in [Crash::Process, Crash::Power, Crash::Power]
            .iter()
            .enumerate()
        {
            let context = format!("seed {seed}, operation {operation}, {crash:?} {number}");
            let crash_seed = seed * 1_000_003 + operation * 7 + number as u64;
            check_crash(&disk, world.as_ref(), *crash, crash_seed, &context);
        }
    }
}

#[test]
fn a_crash_at_any_operation_loses_nothing_confirmed() {
    // 1004: an end record torn in a segment whose trailer survived hid the checkpoint before it.
    for seed in [1, 2, 3, 4, 5, 1004] {
        matrix(seed, 150);
    }
}

/// A scenario with every kind of record, in few bytes.
fn every_kind(disk: &SimDisk) -> (Option<World>, Result<(), StoreError>) {
    let Ok(mut world) = World::open(disk, options(), 7) else {
        return (None, Ok(()));
    };
    let result = (|| {
        let first = world.publish(10);
        let second = world.publish_large(2, 20);
        world.commit()?;
        world.move_to_new_key(first);
        world.commit()?;
        world.checkpoint()?;
        let third = world.publish(5);
        world.commit()?;
        world.settle(third);
        world.settle(second);
        world.commit()?;
        world.maintain_all()?;
        world.writer.close(Timestamp(9))
    })();
    (Some(world), result)
}

#[test]
fn the_journal_cut_after_any_byte_keeps_what_was_confirmed() {
    let disk = SimDisk::default();
    every_kind(&disk).1.unwrap();
    for bytes in 0..=disk.bytes_written() {
        let disk = SimDisk::default();
        disk.set_faults(Faults {
            off_after_bytes: Some(bytes),
            ..Faults::default()
        });
        let (world, _) = every_kind(&disk);
        for crash in [Crash::Process, Crash::Power] {
            let context = format!("byte {bytes}, {crash:?}");
            check_crash(&disk, world.as_ref(), crash, bytes, &context);
        }
    }
}

#[test]
fn a_crash_while_recovering_changes_nothing() {
    let (disk, world) = run(11, Faults::default(), 200);
    let world = world.unwrap();
    let image = disk.crash(Crash::Power, &mut Random(3));
    let count = image.crash(Crash::Process, &mut Random(0));
    let found = World::open(&count, options(), 1).unwrap().entries;
    for operation in 1..=count.operations() {
        let disk = image.crash(Crash::Process, &mut Random(0));
        disk.set_faults(Faults {
            off_at_operation: Some(operation),
            ..Faults::default()
        });
        assert!(World::open(&disk, options(), 1).is_err());
        for seed in 0..4 {
            let disk = disk.crash(Crash::Power, &mut Random(operation * 100 + seed));
            let again = world.reopen(&disk, &format!("operation {operation}, seed {seed}"));
            assert_eq!(again.entries, found, "operation {operation}, seed {seed}");
        }
    }
}

#[test]
fn a_power_cut_in_a_long_life_loses_nothing_confirmed() {
    for seed in (100..140).chain([5006]) {
        let disk = SimDisk::default();
        let mut world = World::open(&disk, options(), seed).unwrap();
        for life in 0..6 {
            let steps = 20 + world.random.below_usize(300);
            for _ in 0..steps {
                world.step().unwrap();
            }
            let crash = if world.random.below(3) == 0 {
                Crash::Process
            } else {
                Crash::Power
            };
            let image = world.disk.crash(crash, &mut Random(seed * 10 + life));
            world = world.reopen(&image, &format!("seed {seed}, life {life}"));
        }
    }
}
