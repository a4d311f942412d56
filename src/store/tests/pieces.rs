//! Bodies that are streamed in pieces.

use std::sync::Arc;

use super::*;

/// A body of two pieces and its own bytes, durable.
fn body(world: &mut World) -> Lsn {
    let pieces = [&b"one "[..], b"two "].map(|bytes| {
        let bytes = Bytes::from_static(bytes);
        world.journal.append_piece(bytes).0
    });
    let last = Bytes::from_static(b"three");
    let (body, _) = world.journal.append_body(Box::from(pieces), last);
    world.commit().unwrap();
    body
}

#[test]
fn a_body_is_read_whole_and_piece_by_piece() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    let body = body(&mut world);
    assert_eq!(world.journal.read(body).unwrap(), "one two three");
    let read = |number| world.journal.read_piece(body, number).unwrap();
    let pieces: Vec<_> = (0..).map_while(read).collect();
    assert_eq!(pieces, ["one ", "two ", "three"]);
    assert!(world.journal.is_in_pieces(body));
    let key = world.publish(5);
    world.commit().unwrap();
    assert!(!world.journal.is_in_pieces(world.entries[&key]));
    let unwritten = Lsn(1 << 40);
    assert!(world.journal.read_piece(unwritten, 0).is_err());
}

/// Live records of the journal.
fn live_bytes(world: &mut World) -> u64 {
    world.commit().unwrap();
    world.writer.maintain(usize::MAX).unwrap();
    world.journal.stats().live_bytes
}

#[test]
fn a_body_goes_with_its_pieces_once_nobody_reads_it() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    let before = live_bytes(&mut world);
    let body = body(&mut world);
    let readers = [Arc::new(body), Arc::new(body)];
    for reader in &readers {
        world.journal.pin(reader);
    }
    world.journal.release(body, body);
    for reader in readers {
        assert!(live_bytes(&mut world) > before);
        assert_eq!(world.journal.read(body).unwrap(), "one two three");
        drop(reader);
    }
    assert_eq!(live_bytes(&mut world), before);
}

#[test]
fn pieces_of_a_body_that_is_never_finished_go() {
    let disk = SimDisk::default();
    let mut world = World::open(&disk, options(), 1).unwrap();
    let before = live_bytes(&mut world);
    let piece = |world: &World| world.journal.append_piece(Bytes::from_static(b"piece")).0;
    let (first, _left) = (piece(&world), piece(&world));
    world.commit().unwrap();
    world.journal.release(first, first);
    assert!(live_bytes(&mut world) > before);
    // What was not let go is forgotten by the next start: nothing names it.
    drop(world);
    let mut world = World::open(&disk, options(), 1).unwrap();
    assert_eq!(live_bytes(&mut world), 0);
}
