//! Single behaviours.

use super::*;
use crate::store::sim_disk::Crash;

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
    let stats = world.journal.stats();
    assert!(stats.live_bytes <= stats.segment_bytes, "{stats}");
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

/// Every turn of every connection asks this: it took the lock that all appends and commits take.
#[test]
fn what_waits_is_told_without_the_lock_and_as_the_last_append_and_commit_left_it() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    let of = |world: &World| {
        let buffer = world.journal.shared.buffer.lock();
        let told = world.journal.waiting();
        assert_eq!(told.records, buffer.waiting_records);
        assert_eq!(told.bytes, buffer.waiting_bytes);
        told
    };
    assert_eq!(of(&world).records, 0);
    let key = world.publish(50);
    let other = world.publish(70);
    let two = of(&world);
    assert!(
        two.records == 2 && two.carried_bytes <= two.bytes && two.bytes > 120,
        "{two:?}"
    );
    world.settle(key);
    let one = of(&world);
    assert!(one.records == 1 && one.bytes < two.bytes, "{one:?}");
    let (piece, _) = world.journal.append_piece(Bytes::from_static(b"a piece"));
    assert_eq!(of(&world).carried_bytes, one.carried_bytes + 7);
    world.journal.release(piece, piece);
    world.commit().unwrap();
    let none = of(&world);
    assert_eq!((none.records, none.bytes, none.carried_bytes), (0, 0, 0));
    world.settle(other);
}

#[test]
fn small_commits_touch_one_block_of_the_device_each() {
    let disk = SimDisk::default();
    let options = StoreOptions {
        segment_bytes: 64 * 1024,
        device_block_bytes: 4096,
        ..options()
    };
    let mut world = World::open(&disk, options, 1).unwrap();
    let before = world.journal.stats().written_bytes;
    for _ in 0..40 {
        world.publish(1_100);
        world.commit().unwrap();
    }
    let written = world.journal.stats().written_bytes - before;
    assert_eq!(written, 40 * 4096);
    world.reopen(&disk, "reopened");
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
    assert!(!world.withdraw(lsn));
    let later = world.publish(5);
    assert!(world.withdraw(world.entries[&later]));
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
        world.journal.unspill(lsn);
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
fn the_time_of_the_last_commit_is_that_of_the_last_one_though_an_earlier_clock_was_ahead() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    for wall in [1_000_000_000, 20, 21] {
        world.publish(50); // a segment, or more
        world.writer.write(Timestamp(wall)).unwrap();
    }
    let world = world.reopen(&disk, "after a clock that was ahead");
    assert_eq!(world.recovery.stamp, Some(Timestamp(21)));
}

#[test]
fn without_a_sync_per_commit_a_write_is_what_counts() {
    for sync in [SyncPolicy::Never, SyncPolicy::Interval { every_ms: 10 }] {
        let disk = SimDisk::default();
        let options = StoreOptions { sync, ..options() };
        let mut world = World::open(&disk, options, 1).unwrap();
        world.publish(5);
        let wrote = world.writer.write(Timestamp(1)).unwrap();
        assert!(wrote.unsynced);
        assert!(world.journal.durable_lsn() > Lsn(0));
        assert_eq!(world.journal.stats().syncs, 0);
    }
}

#[test]
fn an_inspection_tells_what_a_start_would_do_and_changes_nothing() {
    let disk = SimDisk::default();
    let mut world = World::filled(&disk);
    world.checkpoint().unwrap();
    world.publish(100);
    world.commit().unwrap();
    let before = disk.files();
    for depth in [Depth::Start, Depth::Everything] {
        let mut inspection = Inspection::new(&disk, depth).unwrap();
        inspection.replay(|_| ()).unwrap();
        for body in world.entries.values() {
            assert!(inspection.retain(*body));
        }
        let report = inspection.report();
        assert_eq!((report.facts, report.version), (1, Some(1)));
        assert_eq!((&report.damage, &report.cut), (&vec![], &None));
        let records: u64 = report.segments.iter().map(|s| s.live_records).sum();
        // The bodies, the blocks, the end.
        assert_eq!(records, 31 + report.checkpoint_blocks as u64 + 1);
    }
    assert!(disk.files() == before);
    let (name, _) = &before[0];
    disk.damage(name, 200, 1);
    let report = |depth| Inspection::new(&disk, depth).unwrap().report();
    assert_eq!(report(Depth::Start).damage.len(), 0);
    assert_eq!(report(Depth::Everything).damage.len(), 1);
}

#[test]
fn recovery_survives_any_bytes() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    for _ in 0..300 {
        world.step().unwrap();
    }
    let mut random = Random(5);
    for (_, content) in disk.files() {
        for _ in 0..8 {
            let mut bytes = vec![u8::try_from(random.below(256)).unwrap()];
            bytes.extend_from_slice(&content);
            for _ in 0..random.below(8) {
                let at = random.below_usize(bytes.len());
                bytes[at] = random.draw().to_le_bytes()[0];
            }
            fuzz_recovery(&bytes);
        }
    }
    for _ in 0..300 {
        let mut bytes = vec![1];
        for _ in 0..random.below(200) {
            // Small numbers make frames that are nearly right.
            let byte = random.draw().to_le_bytes()[0];
            bytes.push(if random.below(3) > 0 { byte % 9 } else { byte });
        }
        fuzz_recovery(&bytes);
    }
}

/// The newest segment with something in it, cut to this part of what it holds.
fn cut_newest(disk: &SimDisk, (part, of): (usize, usize)) -> SimDisk {
    let cut = SimDisk::default();
    let files = disk.files();
    let newest = files
        .iter()
        .filter(|(name, bytes)| is_segment(name) && bytes.iter().any(|byte| *byte != 0));
    let newest = newest.map(|(name, _)| name.clone()).max().unwrap();
    for (name, mut bytes) in files {
        if name == newest {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes.truncate(end * part / of);
        }
        cut.put(&name, &bytes);
    }
    cut
}

#[test]
fn confirmed_records_that_are_cut_off_the_end_are_told_and_what_is_left_stays() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    for _ in 0..8 {
        world.publish(100);
        world.commit().unwrap();
    }
    let durable = world.journal.durable_lsn();
    world.wall += 1_000;
    world.commit().unwrap();
    let report = |part| {
        let cut = cut_newest(&disk, part);
        let report = Inspection::new(&cut, Depth::Everything).unwrap().report();
        (cut, report)
    };
    for part in 20..100 {
        let (_, report) = report((part, 100));
        let [damage] = &report.damage[..] else {
            panic!("cut to {part} of 100: {report:?}");
        };
        assert_eq!(damage.before, None, "cut to {part} of 100: {report:?}");
    }
    let (cut, report) = report((1, 2));

    let mut left = World::open(&cut, options(), 2).unwrap();
    assert_eq!(left.recovery.damage, report.damage);
    assert!(!left.entries.is_empty() && left.entries.len() < 8);
    let is_left = |(key, body): (&u32, &Lsn)| world.entries.get(key) == Some(body);
    assert!(left.entries.iter().all(is_left));
    left.publish(10);
    let newest = left.entries.values().max().unwrap();
    assert!(*newest > durable, "no name is given twice");
    left.commit().unwrap();
    left.commit().unwrap();
    // It was said once: what is there now is whole.
    let again = World::open(&cut, options(), 3).unwrap();
    assert_eq!(again.recovery.damage, []);
    assert_eq!(again.entries, left.entries);
}

#[test]
fn a_tail_that_was_never_confirmed_is_no_damage() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    world.publish(100);
    world.commit().unwrap();
    world.wall += 1_000;
    world.commit().unwrap();
    world.publish(100);
    world.writer.write(Timestamp(world.wall + 1_000)).unwrap();
    let cut = cut_newest(&disk, (9, 10));
    let left = World::open(&cut, options(), 2).unwrap();
    assert_eq!(left.recovery.damage, []);
    assert_eq!(left.entries.len(), 1);
}

/// A message with 15 MB of further routing keys made a record larger than a segment: the journal was
/// poisoned for all vhosts, and again after each restart, when it was read back and moved on.
#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_own() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    for length in [
        10, 3_900, 4_000, 4_096, 5_000, 100_000, 10, 20_000, 9_000, 10,
    ] {
        let key = world.publish(length);
        world.commit().unwrap();
        assert!(world.journal.durable_lsn() >= world.entries[&key]);
        assert_eq!(world.journal.state(), StoreState::Open);
    }
    world.publish_large(3, 7_000);
    world.commit().unwrap();
    let image = disk.crash(Crash::Power, &mut Random(3));
    world.reopen(&image, "after a power cut");
    world.writer.close(Timestamp(9)).unwrap();
    let mut world = world.reopen(&disk, "reopened");
    let keys: Vec<u32> = world.entries.keys().copied().collect();
    for key in &keys[..keys.len() - 2] {
        world.settle(*key);
    }
    world.commit().unwrap();
    world.checkpoint().unwrap();
    world.maintain_all().unwrap();
    let left = world.journal.stats().segment_bytes;
    assert!(
        left < 60_000,
        "{left} bytes: the large ones went with their record"
    );
    world.reopen(&disk, "when most are gone");
}

#[test]
fn a_record_larger_than_the_room_that_is_left_waits_for_it() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    world.publish(10);
    world.commit().unwrap();
    world.maintain_all().unwrap();
    disk.set_faults(Faults {
        capacity_bytes: Some(20_000),
        ..Faults::default()
    });
    let key = world.publish(50_000);
    world.commit().unwrap();
    let lsn = world.entries[&key];
    assert!(world.journal.durable_lsn() < lsn, "nothing is confirmed");
    assert_eq!(world.journal.state(), StoreState::Full);
    world.reopen(&disk, "while it waits");
    disk.set_faults(Faults::default());
    world.writer.retry_room();
    world.commit().unwrap();
    world.maintain_all().unwrap();
    assert!(world.journal.durable_lsn() >= lsn);
    assert_eq!(world.journal.state(), StoreState::Open);
    world.reopen(&disk, "when there was room");
}
