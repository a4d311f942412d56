//! Single behaviours.

use super::*;

#[test]
fn what_is_durable_is_read_back_by_its_lsn() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    for length in 0..40 {
        world.publish(length * 7);
    }
    let unwritten = world.entries.values().next_back().copied().unwrap();
    assert_eq!(
        world.journal.read(unwritten),
        Err(ReadError::NotWritten(unwritten))
    );
    world.publish_large(3, 500);
    world.commit().unwrap();
    assert!(world.journal.durable_lsn() >= *world.history.keys().next_back().unwrap());
    let bodies = world.bodies.clone();
    world.check_bodies(&bodies, "live");
    let mut shuffled: Vec<Lsn> = world.entries.values().rev().copied().collect();
    shuffled.push(Lsn(1 << 40));
    shuffled.insert(3, Lsn(0));
    let read = world.journal.read_batch(&shuffled);
    assert_eq!(read[3], Err(ReadError::Unknown(Lsn(0))));
    for (lsn, read) in shuffled.iter().zip(read) {
        if let Some(body) = bodies.get(lsn) {
            assert_eq!(&read.unwrap()[..], &body[..]);
        }
    }
    world.reopen(&disk, "reopened");
}

#[test]
fn what_is_withdrawn_is_never_written() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    let mut last = Lsn(0);
    for _ in 0..100 {
        let key = world.publish(50);
        last = world.entries[&key];
        world.settle(key);
    }
    world.commit().unwrap();
    let stats = world.journal.stats();
    assert_eq!(
        (stats.records, stats.elided, stats.written_bytes),
        (0, 100, 0)
    );
    assert!(world.journal.durable_lsn() >= last);
}

#[test]
fn what_a_running_checkpoint_saw_is_not_withdrawn() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    world.begin_checkpoint();
    let key = world.publish(5);
    let lsn = world.entries[&key];
    world.to_copy = Some(vec![key / BLOCK_KEYS]);
    world.copy_slice();
    assert_eq!(world.journal.withdraw(lsn), None);
    let later = world.publish(5);
    assert!(world.journal.withdraw(world.entries[&later]).is_some());
}

#[test]
fn spilled_bytes_are_read_back_and_leave_no_file() {
    let disk = SimDisk::default();
    let world = World::open(&disk, options(), 1).unwrap();
    let lsns: Vec<Lsn> = (0..20u8)
        .map(|n| world.journal.spill(&[n; 100]).unwrap())
        .collect();
    for (n, lsn) in lsns.iter().enumerate() {
        assert_eq!(
            world.journal.read(*lsn).unwrap(),
            vec![u8::try_from(n).unwrap(); 100]
        );
    }
    assert_eq!(world.journal.stats().spilled_bytes, 20 * 108);
    assert!(
        disk.list()
            .unwrap()
            .iter()
            .all(|name| !name.starts_with("spill"))
    );
    for lsn in lsns {
        world.journal.unspill(lsn, 100);
    }
    assert_eq!(world.journal.stats().spilled_bytes, 0);
}

#[test]
fn an_orderly_stop_is_told() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    world.publish(5);
    world.writer.close(Timestamp(77)).unwrap();
    let world = world.reopen(&disk, "after close");
    assert!(world.recovery.closed);
    assert_eq!(world.recovery.stamp, Some(Timestamp(77)));
}

#[test]
fn without_a_sync_per_commit_a_write_is_what_counts() {
    for sync in [SyncPolicy::Never, SyncPolicy::Interval { every_ms: 10 }] {
        let disk = SimDisk::default();
        let options = Options { sync, ..options() };
        let mut world = World::open(&disk, options, 1).unwrap();
        world.publish(5);
        let wrote = world.writer.write(Timestamp(1)).unwrap();
        assert!(wrote.unsynced);
        assert!(world.journal.durable_lsn() > Lsn(0));
        assert_eq!(world.journal.stats().syncs, 0);
    }
}
