//! Records that a later one tells, found out while they wait.

use super::*;
use crate::store::Amended;
use crate::store::sim_disk::Crash;

/// Appends a record of this kind.
fn append(world: &World, kind: u8, length: usize) -> Lsn {
    let reservation = world.journal.reserve();
    let lsn = reservation.first();
    let push = |appending: &mut Appending<'_, Raw>| appending.push(lsn, Raw(vec![kind; length]));
    world.journal.fill_with(reservation, push);
    lsn
}

/// Leaves of a record that waits only what another may tell.
fn strike(world: &World, lsn: Lsn) {
    let change = |raw: &mut Raw| {
        raw.0 = vec![b'T'; 10];
        ((), Amended::Kept)
    };
    let amend = |appending: &mut Appending<'_, Raw>| appending.amend(lsn, change);
    let (amended, _) = world.journal.fill_with(world.journal.reserve(), amend);
    assert!(amended.is_some(), "it does not wait any more");
}

/// The LSNs of the records that are read back.
fn found(disk: &SimDisk) -> Vec<Lsn> {
    let disk = disk.crash(Crash::Power, &mut Random(1));
    let mut found = Vec::new();
    open::<Raw, _>(disk, options(), 1, |restored| {
        if let Restored::Facts { lsn, .. } = restored {
            found.push(lsn);
        }
    })
    .unwrap();
    found
}

fn world(disk: &SimDisk) -> World {
    let mut world = World::open(disk, options(), 1).unwrap();
    world.publish(10);
    world.commit().unwrap();
    world
}

#[test]
fn of_records_that_the_next_tells_only_the_last_is_kept() {
    let disk = SimDisk::default();
    let mut world = world(&disk);
    let lsns: Vec<Lsn> = (0..5).map(|_| append(&world, b'X', 500)).collect();
    let before = world.journal.stats().elided;
    for lsn in lsns.iter().rev() {
        strike(&world, *lsn);
    }
    let waiting = world.journal.waiting();
    assert_eq!((waiting.records, waiting.bytes), (1, 10));
    assert_eq!(world.journal.stats().elided - before, 4);
    let wrote = world.writer.write(Timestamp(1)).unwrap();
    assert_eq!((wrote.records, wrote.elided), (1, 4));
    world.writer.sync().unwrap();
    assert!(world.journal.durable_lsn() >= *lsns.last().unwrap());
    let found = found(&disk);
    assert!(found.contains(lsns.last().unwrap()));
    assert!(!lsns.iter().take(4).any(|lsn| found.contains(lsn)));
}

#[test]
fn one_with_another_record_in_front_of_what_tells_it_is_kept() {
    let disk = SimDisk::default();
    let world = world(&disk);
    let first = append(&world, b'X', 500);
    append(&world, b'X', 500);
    let last = append(&world, b'T', 10);
    strike(&world, first);
    assert_eq!(world.journal.waiting().records, 3);
    strike(&world, last);
    assert_eq!(world.journal.waiting().records, 3, "nothing is behind it");
}

/// What is behind an open reservation is written in a later commit: what is confirmed of a record in front of it
/// must not depend on that.
#[test]
fn one_that_may_be_written_without_what_tells_it_is_kept() {
    let disk = SimDisk::default();
    let mut world = world(&disk);
    let first = append(&world, b'X', 500);
    let open = world.journal.reserve();
    let last = append(&world, b'T', 10);
    strike(&world, first);
    assert_eq!(world.journal.waiting().records, 2);
    world.writer.write(Timestamp(1)).unwrap();
    world.writer.sync().unwrap();
    let durable = world.journal.durable_lsn();
    assert!(durable >= first && durable < last);
    assert!(found(&disk).contains(&first));
    world.journal.fill_with(open, |_| ());
    world.commit().unwrap();
    assert!(found(&disk).contains(&last));
}

#[test]
fn what_was_told_before_it_was_written_is_not_confirmed_while_what_tells_it_has_no_room() {
    let disk = SimDisk::default();
    let mut world = world(&disk);
    disk.set_faults(Faults {
        capacity_bytes: Some(9000),
        ..Faults::default()
    });
    let first = append(&world, b'X', 500);
    let last = append(&world, b'T', 20_000);
    strike(&world, first);
    assert_eq!(world.journal.waiting().records, 1);
    let wrote = world.writer.write(Timestamp(1)).unwrap();
    world.writer.sync().unwrap();
    assert!(wrote.stalled);
    assert!(world.journal.durable_lsn() < first);
    disk.set_faults(Faults::default());
    world.writer.retry_room();
    world.commit().unwrap();
    assert!(world.journal.durable_lsn() >= last);
    let found = found(&disk);
    assert!(
        found.contains(&last) && !found.contains(&first),
        "{found:?}"
    );
}
