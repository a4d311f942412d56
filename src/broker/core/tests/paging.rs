//! Which blocks are evicted.

use std::sync::Arc;

use super::scenario::{CONNECTION, SESSION, Scenario, draft};
use crate::base::{Lsn, Name, Position, Seed};
use crate::broker::*;
use crate::message::Route;

/// Four messages a block.
const BLOCK_SHIFT: u32 = 2;
const BLOCKS: u64 = 8;

/// Blocks of `q` that are not in memory, counted from the oldest.
fn out(s: &Scenario) -> Vec<u64> {
    let queue = s.core.queue(&Name::from("q")).unwrap();
    let first = |block: &u64| Position(block << BLOCK_SHIFT);
    let blocks = (0..BLOCKS).filter(|block| queue.messages.is_evicted(first(block)));
    blocks.collect()
}

#[test]
fn the_newest_blocks_leave_first_as_soon_as_they_are_written() {
    let mut s = Scenario::with(CoreOptions {
        block_shift: BLOCK_SHIFT,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[]);
    let mut written = Vec::new();
    for _ in 0..BLOCKS {
        for _ in 0..1 << BLOCK_SHIFT {
            s.publish_all("q", &["a"]);
        }
        written.push(s.core.last_lsn());
    }
    let page_out = |s: &mut Scenario, written: Lsn| {
        s.apply(Command::Upkeep(UpkeepCommand::PageOut {
            bytes: 1,
            written,
            spill: false,
        }));
        out(s)
    };
    assert_eq!(page_out(&mut s, Lsn(0)), [0; 0], "none is written");
    assert_eq!(page_out(&mut s, written[4]), [4]);
    // The last block takes more messages.
    assert_eq!(page_out(&mut s, written[7]), [4, 6]);
    assert_eq!(page_out(&mut s, written[7]), [4, 5, 6]);
    assert_eq!(page_out(&mut s, written[7]), [3, 4, 5, 6]);
}

/// How the last block of a queue lost its messages while its queue was being read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Emptied {
    /// They expired before a consumer came.
    Before,
    /// They expired after it was asked for.
    Expired,
    /// They were purged after it was asked for, and a message of an earlier block came back then.
    Purged,
}

/// A core that starts on the records of another one: no message is in memory.
fn restarted(s: &Scenario) -> Scenario {
    let options = CoreOptions {
        block_shift: BLOCK_SHIFT,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    };
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    for record in &s.records {
        restoring.record(record);
    }
    let mut next = Scenario::new();
    next.core = restoring.finish();
    next.connect(CONNECTION, SESSION);
    next
}

/// What the journal gives for these loads, where every message says `x`.
fn answer(s: &mut Scenario, loads: Vec<PageIn>) {
    for load in loads {
        let read = |wanted: Wanted| {
            let route = Route {
                exchange: Name::from(""),
                keys: [Name::from("q")].into(),
            };
            (
                wanted.position,
                Arc::new(draft("x").build()),
                Arc::new(route),
            )
        };
        s.apply(Command::Upkeep(UpkeepCommand::PagedIn(PagedIn {
            queue: load.queue,
            block: load.block,
            messages: load.wanted.into_iter().map(read).collect(),
        })));
    }
}

/// A queue's last block, which a start leaves on disk, was asked for; its messages went meanwhile, others
/// came into it, and it left memory. It counted as being read back for good, so that its messages stood
/// there beside a consumer with credit; and what was read of the former ones could arrive then: those
/// that were not among it were dropped as damaged.
#[test]
fn what_comes_into_a_block_that_is_being_read_back_is_neither_stuck_nor_taken_for_damaged() {
    for emptied in [Emptied::Before, Emptied::Expired, Emptied::Purged] {
        let mut s = Scenario::new();
        s.queue("q", &[]);
        s.publish_all("q", &["x"; 4]);
        s.publish("q", &draft("x").ttl(10));
        let mut s = restarted(&s);
        if emptied == Emptied::Before {
            s.pass(20);
        }
        let consumer = s.consumer(1, "q");
        s.credit(consumer, 1);
        let mut loads = std::mem::take(&mut s.effects.loads);
        let mut left = 4;
        match emptied {
            Emptied::Before => {}
            Emptied::Expired => s.pass(20),
            Emptied::Purged => {
                let first = loads.remove(0);
                answer(&mut s, vec![first]);
                let taken = s.taken(consumer);
                s.apply(Command::Queue(QueueCommand::Purge {
                    connection: None,
                    name: Name::from("q"),
                    with_dead_pending: false,
                }));
                s.settle(&taken[0], Outcome::Released);
                left = 1;
            }
        }
        s.publish_all("q", &["x"; 9]);
        s.detach(consumer);
        s.apply(Command::Upkeep(UpkeepCommand::PageOut {
            bytes: u64::MAX,
            written: s.core.last_lsn(),
            spill: false,
        }));
        answer(&mut s, loads);
        let consumer = s.consumer(2, "q");
        s.credit(consumer, 100);
        for _ in 0..BLOCKS {
            let loads = std::mem::take(&mut s.effects.loads);
            answer(&mut s, loads);
        }
        assert_eq!(s.dropped("q", DropCause::Damaged), 0, "{emptied:?}");
        assert_eq!(s.taken(consumer).len(), left + 9, "{emptied:?}");
    }
}

/// For each block that came, one that waited was asked for, or none if its queue was gone by then: those behind
/// enough of these were never asked for, and stood there beside consumers with credit. Found by the simulation.
#[test]
fn blocks_that_wait_behind_those_of_deleted_queues_are_read_back() {
    const COUNT: usize = 40;
    let mut s = Scenario::new();
    let queues = |kind| (0..COUNT).map(move |number| format!("{kind}{number}"));
    let names: Vec<String> = queues("first").chain(queues("gone")).collect();
    for name in names.iter().map(String::as_str).chain(["q"]) {
        s.queue(name, &[]);
        s.publish(name, &draft("x"));
    }
    let mut s = restarted(&s);
    for (id, name) in (1..).zip(names.iter().map(String::as_str).chain(["q"])) {
        let consumer = s.consumer(id, name);
        s.credit(consumer, 1);
    }
    let loads = std::mem::take(&mut s.effects.loads);
    assert!(loads.len() < COUNT, "the others wait");
    for name in queues("gone") {
        s.apply(Command::Queue(QueueCommand::Delete {
            connection: None,
            name: Name::from(name.as_str()),
            if_unused: false,
            if_empty: false,
        }));
    }
    let mut loads = loads;
    while !loads.is_empty() {
        answer(&mut s, loads);
        loads = std::mem::take(&mut s.effects.loads);
    }
    assert_eq!(s.counts("q"), (0, 1, 0), "its consumer has it");
}
