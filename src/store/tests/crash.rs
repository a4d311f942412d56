//! The crash matrix: whatever the moment, what was confirmed is there, once, and whole.

use super::*;
use crate::store::sim_disk::Crash;

/// Runs beyond the usual ones: `CORONER_CRASH_SEEDS`.
fn more_seeds() -> u64 {
    let seeds = std::env::var("CORONER_CRASH_SEEDS");
    seeds.ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(0)
}

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
    for seed in 0..more_seeds() {
        matrix(10_000 + seed, 150);
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

/// Segments with few live records, and one with nothing but settlements.
fn sparse(disk: &SimDisk) -> World {
    let mut world = World::open(disk, options(), 3).unwrap();
    let keys: Vec<u32> = (0..40)
        .map(|_| {
            let key = world.publish(200);
            world.commit().unwrap();
            key
        })
        .collect();
    world.publish_large(2, 300);
    for key in keys.iter().filter(|key| **key % 8 != 1) {
        world.settle(*key);
        world.commit().unwrap();
        world.maintain_all().unwrap();
    }
    for _ in 0..60 {
        // Settled before, so nothing but facts.
        world.record(fact(b'S', &[1_000]));
        world.commit().unwrap();
        world.maintain_all().unwrap();
    }
    world
}

/// A checkpoint, and then everything that it allows to be removed and rewritten.
fn clean_up(world: &mut World) -> Result<(), StoreError> {
    for _ in 0..2 {
        world.checkpoint()?;
        world.maintain_all()?;
    }
    Ok(())
}

#[test]
fn a_crash_in_any_step_of_checkpoint_rewriting_and_removal_loses_nothing() {
    let disk = SimDisk::default();
    let mut world = sparse(&disk);
    disk.set_faults(Faults::default());
    clean_up(&mut world).unwrap();
    let stats = world.journal.stats();
    assert!(stats.segments_rewritten > 2, "{stats:?}");
    assert!(stats.segments_removed > 0, "{stats:?}");
    for operation in 1..=disk.operations() {
        let disk = SimDisk::default();
        let mut world = sparse(&disk);
        disk.set_faults(Faults {
            off_at_operation: Some(operation),
            ..Faults::default()
        });
        // The disk goes off somewhere in it, perhaps where nobody has to know.
        let _ = clean_up(&mut world);
        for (number, crash) in [(0, Crash::Process), (1, Crash::Power), (2, Crash::Power)] {
            let context = format!("operation {operation}, {crash:?} {number}");
            check_crash(&disk, Some(&world), crash, operation * 3 + number, &context);
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
    for seed in (100..140 + more_seeds() * 10).chain([5006]) {
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
