//! Failing, full and decaying disks.

use super::*;
use crate::store::format::{
    Agreed, COMMIT_RECORD_BYTES, CommitRecord, HEADER_BYTES, Header, RecordKind, begin_frame,
    end_frame,
};
use crate::store::options::ROOM_FAILURES_MAX;
use crate::store::prepare::segment_name;
use crate::store::sim_disk::Crash;

#[test]
fn a_failed_write_or_sync_poisons_and_is_never_tried_again() {
    let (mut failed, mut operation) = (0, 0);
    loop {
        operation += 1;
        let disk = SimDisk::default();
        let mut world = World::open(&disk, options(), 1).unwrap();
        world.writer.maintain(0).unwrap();
        disk.set_faults(Faults {
            fail_operation: Some((operation, DiskErrorKind::Failed)),
            ..Faults::default()
        });
        world.publish(10);
        if world.commit().is_ok() {
            break;
        }
        failed += 1;
        assert_eq!(world.journal.state(), StoreState::Poisoned);
        let durable = world.journal.durable_lsn();
        let operations = disk.operations();
        assert!(matches!(world.commit(), Err(StoreError::Poisoned(_))));
        assert!(matches!(
            world.writer.maintain(1),
            Err(StoreError::Poisoned(_))
        ));
        assert_eq!(disk.operations(), operations);
        assert_eq!(world.journal.durable_lsn(), durable);
        let image = disk.crash(Crash::Power, &mut Random(operation));
        world.reopen(&image, "after poison");
    }
    assert_eq!(failed, 2);
}

#[test]
fn a_full_disk_is_drained_to_empty_and_recovers_by_itself() {
    let disk = SimDisk::default();
    disk.set_faults(Faults {
        capacity_bytes: Some(64 * 1024),
        ..Faults::default()
    });
    let mut world = World::open(&disk, options(), 1).unwrap();
    for round in 0..10_000 {
        world.publish(300);
        world.commit().unwrap();
        world.writer.maintain(4096).unwrap();
        if round % 20 == 0 && world.journal.state() == StoreState::Open {
            world.checkpoint().unwrap();
        }
        if world.journal.state() == StoreState::Full {
            break;
        }
    }
    assert_eq!(world.journal.state(), StoreState::Full);
    assert!(world.entries.len() > 100);
    // Publishers have stopped; consumers go on with what is reserved.
    let keys: Vec<u32> = world.entries.keys().copied().collect();
    for (number, key) in keys.iter().enumerate() {
        world.settle(*key);
        world.commit().unwrap();
        world.writer.maintain(4096).unwrap();
        if number % 20 == 19 {
            world.checkpoint().unwrap();
            world.maintain_all().unwrap();
        }
    }
    world.writer.retry_room();
    world.maintain_all().unwrap();
    assert!(world.entries.is_empty());
    assert_eq!(world.journal.state(), StoreState::Open);
    world.publish(300);
    world.commit().unwrap();
    world.reopen(&disk, "drained");
}

/// A disk that was gone when a segment was prepared read as full, which ends by itself: nobody was told to
/// stop the broker and repair it, and `/health` spoke of room.
#[test]
fn a_disk_that_is_gone_while_a_segment_is_prepared_poisons_and_one_that_failed_for_a_moment_does_not()
 {
    for (faults, lasts) in [("gone", true), ("failed for a moment", false)] {
        let disk = SimDisk::default();
        let mut world = World::open(&disk, options(), 1).unwrap();
        disk.set_faults(if lasts {
            Faults {
                off_at_operation: Some(1),
                ..Faults::default()
            }
        } else {
            Faults {
                fail_operation: Some((1, DiskErrorKind::Failed)),
                ..Faults::default()
            }
        });
        world.writer.maintain(0).unwrap();
        assert_eq!(world.journal.state(), StoreState::Full, "{faults}");
        for _ in 1..ROOM_FAILURES_MAX {
            assert_ne!(world.journal.state(), StoreState::Poisoned, "{faults}");
            world.writer.retry_room();
            world.writer.maintain(0).unwrap();
        }
        let state = if lasts {
            StoreState::Poisoned
        } else {
            StoreState::Open
        };
        assert_eq!(world.journal.state(), state, "{faults}");
        world.publish(10);
        assert_eq!(world.commit().is_err(), lasts, "{faults}");
    }
}

/// However often it is tried.
#[test]
fn a_full_disk_is_never_taken_for_one_that_is_gone() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    let full = Faults {
        capacity_bytes: Some(0),
        ..Faults::default()
    };
    disk.set_faults(full);
    for _ in 0..=ROOM_FAILURES_MAX {
        world.writer.retry_room();
        world.writer.maintain(0).unwrap();
        assert_eq!(world.journal.state(), StoreState::Full);
    }
    disk.set_faults(Faults::default());
    world.writer.retry_room();
    world.writer.maintain(0).unwrap();
    assert_eq!(world.journal.state(), StoreState::Open);
}

#[test]
fn without_any_room_records_wait_and_nothing_is_confirmed() {
    let disk = SimDisk::default();
    disk.set_faults(Faults {
        capacity_bytes: Some(9000),
        ..Faults::default()
    });
    let mut world = World::open(&disk, options(), 1).unwrap();
    for _ in 0..40 {
        world.publish(300);
    }
    let wrote = world.writer.write(Timestamp(1)).unwrap();
    world.writer.sync().unwrap();
    assert!(wrote.stalled);
    assert!(world.writer.has_work());
    let confirmed = world.journal.durable_lsn();
    assert!(confirmed > Lsn(0) && confirmed < *world.history.keys().next_back().unwrap());
    world.reopen(&disk.crash(Crash::Power, &mut Random(1)), "stalled");
    disk.set_faults(Faults::default());
    world.writer.retry_room();
    world.commit().unwrap();
    assert!(world.journal.durable_lsn() >= *world.history.keys().next_back().unwrap());
    world.reopen(&disk, "room again");
}

/// A record that tells all of the one in front of it is written for both: what is confirmed of the first
/// must wait for the second.
#[test]
fn what_a_later_record_tells_is_not_confirmed_while_that_has_no_room() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    world.publish(10);
    world.commit().unwrap();
    disk.set_faults(Faults {
        capacity_bytes: Some(9000),
        ..Faults::default()
    });
    let told = |length| Raw(vec![b'T'; length]);
    let [first, second] = [10, 20_000].map(|length| world.journal.append(told(length)).0);
    let wrote = world.writer.write(Timestamp(1)).unwrap();
    world.writer.sync().unwrap();
    assert!(wrote.stalled);
    assert!(world.journal.durable_lsn() < first);
    disk.set_faults(Faults::default());
    world.writer.retry_room();
    world.commit().unwrap();
    assert!(world.journal.durable_lsn() >= second);
    let mut found = Vec::new();
    open::<Raw, _>(disk, options(), 1, |restored| {
        if let Restored::Facts { lsn, .. } = restored {
            found.push(lsn);
        }
    })
    .unwrap();
    assert!(
        found.contains(&second) && !found.contains(&first),
        "{found:?}"
    );
}

/// The directory could not be synced after a rewritten segment had taken the name of the old one, whose
/// file the table kept: it was recycled under the name of the other file, and what was written to it was
/// synced elsewhere. A power cut lost what was confirmed. World 8001495 of the simulation.
#[test]
fn a_fault_while_segments_are_rewritten_or_prepared_again_loses_nothing() {
    for at in 1..=40 {
        let disk = SimDisk::default();
        let options = StoreOptions {
            recycled_segments: 2,
            ..options()
        };
        let mut world = World::open(&disk, options, 1).unwrap();
        let keys: Vec<u32> = (0..60).map(|_| world.publish(200)).collect();
        world.commit().unwrap();
        for key in keys.iter().filter(|key| **key % 4 != 1) {
            world.settle(*key);
        }
        world.commit().unwrap();
        world.checkpoint().unwrap();
        disk.set_faults(Faults {
            fail_operation: Some((at, DiskErrorKind::Failed)),
            ..Faults::default()
        });
        let maintained = world.maintain_all();
        disk.set_faults(Faults::default());
        if maintained.is_ok() {
            for key in world.entries.keys().copied().collect::<Vec<_>>() {
                world.settle(key);
            }
            world.checkpoint().unwrap();
            world.maintain_all().unwrap();
            for _ in 0..60 {
                world.publish(200);
                world.commit().unwrap();
            }
        }
        for seed in 1..=4 {
            let left = disk.crash(Crash::Power, &mut Random(seed));
            world.reopen(&left, &format!("operation {at} failed, seed {seed}"));
        }
        world.reopen(&disk.crash(Crash::Process, &mut Random(1)), "killed");
    }
}

#[test]
fn a_bad_record_in_the_middle_costs_only_itself() {
    let disk = SimDisk::default();
    let world = World::filled(&disk);
    let files = disk.files();
    for (name, content) in files.iter().filter(|(name, _)| is_segment(name)) {
        for offset in (70..content.len().min(3500)).step_by(37) {
            if content[offset..].iter().all(|byte| *byte == 0) {
                break;
            }
            let image = disk.crash(Crash::Process, &mut Random(0));
            image.damage(name, offset, 0x10);
            let found = World::open(&image, options(), 1).unwrap();
            let lost = world.entries.len() - found.entries.len();
            assert!(lost <= 1, "{name} {offset}: {lost} lost");
            let reported = found.recovery.damage.len() + usize::from(found.recovery.cut.is_some());
            assert!(reported <= 1, "{name} {offset}");
            assert!(lost == 0 || reported == 1, "{name} {offset}");
            found.check_bodies(&world.bodies, name);
        }
    }
}

#[test]
fn damage_below_the_checkpoint_is_found_when_it_is_read() {
    let disk = SimDisk::default();
    let mut world = World::filled(&disk);
    world.checkpoint().unwrap();
    let name = disk.list().unwrap().into_iter().min().unwrap();
    assert!(is_segment(&name), "{name}");
    disk.damage(&name, 120, 1);
    let found = World::open(&disk, options(), 1).unwrap();
    assert_eq!(found.entries, world.entries);
    let first = *found.entries.values().next().unwrap();
    assert_eq!(found.journal.read(first), Err(ReadError::Damaged(first)));
    assert_eq!(found.journal.stats().damaged, 1);
}

#[test]
fn a_newer_version_is_refused() {
    let disk = SimDisk::default();
    disk.put("FORMAT", b"coroner store\nversion 2\n");
    let error = World::open(&disk, options(), 1).err().unwrap();
    let expected = StoreError::NewerVersion {
        name: "FORMAT".to_owned(),
        found: 2,
        supported: 1,
    };
    assert_eq!(error, expected);
}

/// A segment of one commit: a message, then a record of this kind.
fn commit(kind: RecordKind, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        id: 1,
        base: Lsn(1),
        continues: Lsn(0),
        wall: Timestamp(0),
        seed: 7,
        generation: 0,
    };
    let (bytes, crc) = header.encode();
    let mut bytes = bytes.to_vec();
    assert_eq!(bytes.len(), HEADER_BYTES);
    let message = [fact(b'P', &[1]), b"body".to_vec()].concat();
    for (delta, (kind, payload)) in (0..).zip([(RecordKind::Facts, &*message), (kind, payload)]) {
        let start = begin_frame(&mut bytes);
        bytes.extend_from_slice(payload);
        end_frame(&mut bytes, start, crc, delta, kind, 0);
    }
    bytes
}

fn commit_record(agreed: Agreed) -> Vec<u8> {
    let (wall, durable) = (Timestamp(1), Lsn(1));
    let commit_record = CommitRecord {
        wall,
        durable,
        agreed,
    };
    let mut bytes = Vec::new();
    commit_record.encode(0, &mut bytes);
    assert_eq!(bytes.len(), COMMIT_RECORD_BYTES);
    assert_eq!(CommitRecord::decode(&bytes), Some(commit_record));
    assert_eq!(
        CommitRecord::decode(&bytes[..COMMIT_RECORD_BYTES - 1]),
        None
    );
    bytes
}

#[test]
fn what_a_node_of_a_cluster_wrote_is_refused_and_left_as_it_is() {
    let (term, leader, index) = (3, 0, 0);
    let in_term = Agreed {
        term,
        leader,
        index,
    };
    let led = Agreed {
        leader: 9,
        ..Agreed::default()
    };
    let placed = Agreed {
        index: 4,
        ..Agreed::default()
    };
    for (kind, payload, refused) in [
        (
            RecordKind::CommitRecord,
            commit_record(Agreed::default()),
            false,
        ),
        (RecordKind::CommitRecord, commit_record(in_term), true),
        (RecordKind::CommitRecord, commit_record(led), true),
        (RecordKind::CommitRecord, commit_record(placed), true),
        (RecordKind::Consensus, b"blank".to_vec(), true),
    ] {
        let disk = SimDisk::default();
        // A torn tail that a start would cut.
        let segment = [commit(kind, &payload), b"torn    ".to_vec()].concat();
        disk.put(&segment_name(1), &segment);
        let before = disk.files();
        let opened = World::open(&disk, options(), 1).err();
        let expected = StoreError::OfCluster {
            name: segment_name(1),
            record: Lsn(2),
        };
        assert_eq!(opened, refused.then_some(expected), "{payload:?}");
        assert_eq!(disk.files() == before, refused, "{payload:?}");
    }
}
