//! Records that have what earlier ones were to make durable, which were elided while they waited.

use super::*;
use crate::store::Amended;

fn append(world: &World, reservation: Reservation) -> Lsn {
    let lsn = reservation.first();
    let push = |appending: &mut Appending<'_, Raw>| appending.push(lsn, Raw(vec![b'X'; 500]));
    world.journal.fill_with(reservation, push);
    lsn
}

/// Appends a record with the content of an earlier one, as a dead letter has that of its message.
fn carry(world: &World, from: Lsn, length: usize) -> Lsn {
    let reservation = world.journal.reserve();
    let lsn = reservation.first();
    let fill = |appending: &mut Appending<'_, Raw>| {
        let amended = appending.amend(from, |_| ((), Amended::Empty));
        assert!(amended.is_some(), "it does not wait any more");
        appending.carry(from, lsn);
        appending.push(lsn, Raw(vec![b'X'; length]));
    };
    world.journal.fill_with(reservation, fill);
    lsn
}

fn world(disk: &SimDisk) -> World {
    let mut world = World::open(disk, options(), 1).unwrap();
    world.publish(10);
    world.commit().unwrap();
    world
}

fn write(world: &mut World) -> Lsn {
    world.writer.write(Timestamp(1)).unwrap();
    world.writer.sync().unwrap();
    world.journal.durable_lsn()
}

/// A message died before its record was written, and the disk was full when that of its death was: the
/// message was confirmed, and a start after a power cut did not have it. World 7002109 of the simulation.
#[test]
fn what_a_record_carries_is_not_confirmed_while_that_has_no_room() {
    let disk = SimDisk::default();
    let mut world = world(&disk);
    let first = append(&world, world.journal.reserve());
    let between = append(&world, world.journal.reserve());
    let last = carry(&world, first, 20_000);
    disk.set_faults(Faults {
        capacity_bytes: Some(9000),
        ..Faults::default()
    });
    let durable = write(&mut world);
    assert!(durable < first && first < between, "{durable:?}");
    disk.set_faults(Faults::default());
    world.writer.retry_room();
    assert!(write(&mut world) >= last);
}

/// What is behind an open reservation, of another vhost, is written in a later commit.
#[test]
fn what_a_record_carries_is_not_confirmed_while_that_may_not_be_written() {
    let disk = SimDisk::default();
    let mut world = world(&disk);
    let before = append(&world, world.journal.reserve());
    let first = append(&world, world.journal.reserve());
    let open = world.journal.reserve();
    let last = carry(&world, first, 500);
    let durable = write(&mut world);
    assert!(before <= durable && durable < first, "{durable:?}");
    world.journal.fill_with(open, |_| ());
    assert!(write(&mut world) >= last);
}

#[test]
fn what_is_carried_twice_is_confirmed_with_the_last_record_that_has_it() {
    let disk = SimDisk::default();
    let mut world = world(&disk);
    let first = append(&world, world.journal.reserve());
    let second = carry(&world, first, 500);
    let open = world.journal.reserve();
    let last = carry(&world, second, 500);
    let durable = write(&mut world);
    assert!(durable < first, "{durable:?}");
    world.journal.fill_with(open, |_| ());
    assert!(write(&mut world) >= last);
}
