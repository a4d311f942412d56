//! Checkpoints, deletion and rewriting.

use super::*;

/// What stood in a segment that was prepared again is nothing to the next start.
#[test]
fn a_segment_prepared_again_holds_nothing_of_what_it_held() {
    let disk = SimDisk::default();
    let options = StoreOptions {
        recycled_segments: 2,
        ..options()
    };
    let mut world = World::open(&disk, options.clone(), 1).unwrap();
    for _ in 0..6 {
        let keys: Vec<u32> = (0..30).map(|_| world.publish(200)).collect();
        world.commit().unwrap();
        for key in keys {
            world.settle(key);
        }
        world.commit().unwrap();
        world.checkpoint().unwrap();
        world.maintain_all().unwrap();
    }
    let last = world.publish(100);
    world.commit().unwrap();
    let used = |(_, content): &(String, Vec<u8>)| {
        let (head, rest) = content.split_at(content.len() / 2);
        head.first() == Some(&0) && rest.iter().any(|byte| *byte != 0)
    };
    assert!(
        disk.files().iter().any(used),
        "prepared from one that was used"
    );
    let next = world.reopen(&disk, "killed");
    assert!(next.entries.contains_key(&last) && next.entries.len() == 1);
    assert_eq!(next.recovery.damage, []);
}
use crate::store::sim_disk::Crash;

fn filled(messages: usize) -> World {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    for _ in 0..messages {
        world.publish(200);
        world.commit().unwrap();
    }
    world
}

#[test]
fn nothing_is_removed_before_a_checkpoint_covers_it() {
    let mut world = filled(60);
    for key in world.entries.keys().copied().collect::<Vec<_>>() {
        world.settle(key);
    }
    world.commit().unwrap();
    world.maintain_all().unwrap();
    assert_eq!(world.journal.stats().segments_removed, 0);
    world.checkpoint().unwrap();
    world.maintain_all().unwrap();
    let stats = world.journal.stats();
    assert!(stats.segments <= 2, "{stats:?}");
    assert!(stats.segments_removed >= 3, "{stats:?}");
    world.reopen(&world.disk, "emptied");
}

/// Settlements in a segment of their own must not go before the publishes they settle, or those
/// come back.
#[test]
fn a_segment_of_nothing_but_settlements_is_kept_until_covered() {
    let mut world = filled(40);
    let keys: Vec<u32> = world.entries.keys().copied().collect();
    // One message of each earlier segment stays, so that its segment does.
    for key in keys.iter().filter(|key| **key % 10 != 1) {
        for _ in 0..3 {
            world.settle(*key);
        }
        world.commit().unwrap();
        world.maintain_all().unwrap();
    }
    let again = world.reopen(&world.disk.crash(Crash::Power, &mut Random(1)), "before");
    assert_eq!(again.entries.len(), 4);
    world.checkpoint().unwrap();
    world.maintain_all().unwrap();
    let again = world.reopen(&world.disk.crash(Crash::Power, &mut Random(2)), "after");
    assert_eq!(again.entries.len(), 4);
}

#[test]
fn sparse_segments_are_rewritten_under_the_same_lsns() {
    let mut world = filled(100);
    let large = world.publish_large(3, 300);
    world.commit().unwrap();
    for key in world.entries.keys().copied().collect::<Vec<_>>() {
        if key % 5 != 0 && key != large {
            world.settle(key);
        }
    }
    world.commit().unwrap();
    world.checkpoint().unwrap();
    world.maintain_all().unwrap();
    let stats = world.journal.stats();
    assert!(stats.segments_rewritten > 0, "{stats:?}");
    assert!(stats.live_bytes * 2 > stats.segment_bytes, "{stats:?}");
    let bodies = world.bodies.clone();
    world.check_bodies(&bodies, "live");
    let mut again = world.reopen(&world.disk, "reopened");
    let later = again.journal.stats();
    assert!(later.live_bytes <= stats.live_bytes * 11 / 10, "{later:?}");
    // All of it can still be let go, pieces too.
    for key in again.entries.keys().copied().collect::<Vec<_>>() {
        again.settle(key);
    }
    again.commit().unwrap();
    again.checkpoint().unwrap();
    again.checkpoint().unwrap();
    again.maintain_all().unwrap();
    assert!(again.journal.stats().segments <= 2);
}

#[test]
fn unchanged_blocks_are_not_written_again() {
    let mut world = filled(64);
    world.checkpoint().unwrap();
    let before = world.journal.stats().records;
    let key = *world.entries.keys().next().unwrap();
    world.settle(key);
    world.checkpoint().unwrap();
    // The settlement, its block, the end.
    assert_eq!(world.journal.stats().records - before, 3);
    world.reopen(&world.disk, "second checkpoint");
}

#[test]
fn kept_blocks_outlive_what_lies_around_them() {
    let mut world = filled(64);
    world.checkpoint().unwrap();
    for _ in 0..3 {
        let passing: Vec<u32> = (0..40).map(|_| world.publish(200)).collect();
        world.commit().unwrap();
        for key in passing {
            world.settle(key);
        }
        world.checkpoint().unwrap();
        world.maintain_all().unwrap();
    }
    assert!(world.journal.stats().segments_removed > 3);
    let again = world.reopen(&world.disk, "reopened");
    assert_eq!(again.entries.len(), 64);
    assert_eq!(again.recovery.blocks, 9);
}

#[test]
fn an_abandoned_checkpoint_leaves_the_one_before() {
    let mut world = filled(20);
    world.checkpoint().unwrap();
    world.publish(5);
    world.begin_checkpoint();
    world.copy_slice();
    world.journal.abandon_checkpoint();
    assert!(!world.journal.checkpoint_runs());
    world.commit().unwrap();
    world.maintain_all().unwrap();
    let again = world.reopen(&world.disk, "abandoned");
    assert_eq!(again.entries.len(), 21);
}

#[test]
fn a_start_reads_the_log_from_the_checkpoint_only() {
    let mut world = filled(400);
    world.checkpoint().unwrap();
    world.publish(5);
    world.commit().unwrap();
    let total = world.journal.stats().segment_bytes;
    let again = world.reopen(&world.disk, "reopened");
    assert_eq!(again.recovery.facts, 1);
    assert!(
        again.recovery.bytes_read < total / 4,
        "{:?} of {total}",
        again.recovery
    );
}
