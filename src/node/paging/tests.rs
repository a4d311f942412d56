//! What becomes of messages on disk, and of jobs, when their vhost is deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::*;
use crate::base::{ConnectionId, ConsumerId, Lsn, Name, Now, Seed, SessionId, Signal};
use crate::broker::{Consume, Core, CoreOptions, Memory, QueueCommand};
use crate::message::{KeyRule, Message, Route};
use crate::node::clock::{Clock, ManualClock, SharedClock};
use crate::node::events::Events;
use crate::node::pager::SpillTarget;
use crate::node::vhost::Vhost;
use crate::store::Spill as SpillFiles;
use crate::store::sim_disk::SimDisk;

/// Four messages a block, so there are eight blocks.
const BLOCK_SHIFT: u32 = 2;
const MESSAGES: usize = 32;
const BODY_BYTES: u32 = 1_000;

/// A pager without a journal, whose jobs the tests do.
fn paging(budget_bytes: u64) -> Paging<SimDisk> {
    let files = SpillFiles::new(SimDisk::default(), 1);
    Paging {
        pager: Arc::new(Pager::new(SpillTarget::Spilled(files), budget_bytes)),
        vhosts: Arc::default(),
    }
}

/// A clock that panics once it is broken, as a core may that failed and is freed.
#[derive(Debug, Default)]
struct Breaking {
    clock: ManualClock,
    is_broken: AtomicBool,
}

impl Clock for Breaking {
    fn now(&self) -> Now {
        assert!(!self.is_broken.load(Ordering::Relaxed), "it is broken");
        self.clock.now()
    }

    fn elapsed_ns(&self) -> u64 {
        self.clock.elapsed_ns()
    }
}

/// A new vhost that has a queue with messages.
fn vhost(paging: &Paging<SimDisk>) -> Arc<Vhost<SimDisk>> {
    vhost_with(paging, Arc::new(ManualClock::default()))
}

fn vhost_with(paging: &Paging<SimDisk>, clock: SharedClock) -> Arc<Vhost<SimDisk>> {
    let mut core = Core::new(CoreOptions {
        block_shift: BLOCK_SHIFT,
        journal: false,
        ..CoreOptions::new(Name::from("v"), Seed(1))
    });
    let events = Events::default().ring(&mut core);
    let context = (Seed(1), clock, Arc::new(Signal::default()));
    let surroundings = (None, Arc::clone(&paging.pager), events);
    let vhost = Arc::new(Vhost::new(core, surroundings, context));
    paging.vhosts.add(&vhost, None);
    let command = |command| vhost.command(Command::Queue(command)).unwrap();
    command(QueueCommand::Declare {
        connection: None,
        name: Name::from("q"),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    });
    let mut payload = b"\x00\x53\x75\xb0".to_vec();
    payload.extend(BODY_BYTES.to_be_bytes());
    payload.resize(payload.len() + BODY_BYTES as usize, 0);
    let payload = Bytes::from(payload);
    for _ in 0..MESSAGES {
        let message = Message::from_transfer(payload.clone(), KeyRule::default()).unwrap();
        let route = Route {
            exchange: Name::from(""),
            keys: [Name::from("q")].into(),
        };
        command(QueueCommand::Import {
            name: Name::from("q"),
            message: Arc::new(message),
            route: Arc::new(route),
            line: None,
        });
    }
    vhost
}

/// Does what the evicting thread would do, until it has nothing to do.
fn evict_all(paging: &Paging<SimDisk>) {
    while let Some(job) = paging.pager.evictions.try_next() {
        if paging.evict(0, job) == Worked::Stuck {
            return;
        }
    }
}

/// A consumer that asks for the blocks of the queue.
fn consume(vhost: &Vhost<SimDisk>) {
    let (connection, session) = (ConnectionId(1), SessionId(1));
    vhost.enter(connection, Arc::default());
    let consumer = ConsumerId(1);
    for command in [
        Command::ConnectionOpen {
            connection,
            user: Name::from("guest"),
            client: Name::default(),
            limit_bytes: u64::MAX,
        },
        Command::SessionOpen {
            connection,
            session,
            limit: u64::MAX,
        },
        Command::Consume(Consume {
            connection,
            session,
            consumer,
            queue: Name::from("q"),
            settled: false,
            priority: 0,
            exclusive: false,
            passing: false,
            selector: None,
            timeout_ms: None,
            evidence: None,
            recovery: None,
        }),
        Command::ConsumerFlow {
            consumer,
            limit: 1,
            drain: false,
        },
    ] {
        vhost.command(command).unwrap();
    }
    vhost.tick().unwrap();
}

/// As the node and the server do.
fn delete(paging: &Paging<SimDisk>, vhost: &Vhost<SimDisk>) {
    vhost.delete();
    paging.vhosts.remove(vhost.name());
    while vhost.dissolve(Lsn(0)) {}
}

/// The budget counted the messages of deleted vhosts until a restart, so that those of others left
/// memory early; and their spill files stayed.
#[test]
fn a_deleted_vhost_gives_back_its_share_of_the_budget_and_its_spill_files() {
    let paging = paging(8 * u64::from(BODY_BYTES));
    let vhost = vhost(&paging);
    evict_all(&paging);
    let memory = vhost.memory();
    assert!(memory.evicted.messages > 0 && memory.resident.messages > 0);
    assert!(paging.pager.spilled_bytes() > 0);
    delete(&paging, &vhost);
    assert_eq!(vhost.memory().bytes(), 0);
    evict_all(&paging);
    assert_eq!(paging.pager.spilled_bytes(), 0);
    assert_eq!(paging.pager.used_bytes(), (0, 0));
}

/// A vhost that failed is not freed in order: what it took is given back as a whole.
#[test]
fn a_failed_vhost_that_is_deleted_gives_back_its_share_of_the_budget() {
    let paging = paging(0);
    let vhost = vhost(&paging);
    let failed: Result<(), _> = vhost.work(|_, _, _| panic!("the core fails"));
    assert!(failed.is_err() && paging.pager.used_bytes().0 > 0);
    delete(&paging, &vhost);
    assert_eq!(paging.pager.used_bytes(), (0, 0));
}

/// What its messages refer to is released as of any other: it stayed until the next start.
#[test]
fn a_failed_vhost_that_is_deleted_gives_back_what_its_messages_have_on_disk() {
    let paging = paging(8 * u64::from(BODY_BYTES));
    let vhost = vhost(&paging);
    evict_all(&paging);
    assert!(paging.pager.spilled_bytes() > 0);
    let failed: Result<(), _> = vhost.work(|_, _, _| panic!("the core fails"));
    assert!(failed.is_err());
    delete(&paging, &vhost);
    evict_all(&paging);
    assert_eq!(paging.pager.spilled_bytes(), 0);
    assert_eq!(paging.pager.used_bytes(), (0, 0));
}

/// It is not freed in order, and what it counts is given back as a whole; so often as it is tried, once.
#[test]
fn a_vhost_that_fails_while_it_is_freed_gives_back_its_share_of_the_budget_once() {
    let paging = paging(8 * u64::from(BODY_BYTES));
    let clock = Arc::new(Breaking::default());
    let failing = vhost_with(&paging, Arc::clone(&clock) as _);
    evict_all(&paging);
    let (used, on_disk) = paging.pager.used_bytes();
    assert!(used > 0 && on_disk > 0);
    clock.is_broken.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        delete(&paging, &failing);
        assert!(failing.failed());
        assert_eq!(paging.pager.used_bytes(), (0, 0));
    }
    // The share of another is its own.
    let other = vhost(&paging);
    let used = paging.pager.used_bytes();
    delete(&paging, &failing);
    assert_eq!(paging.pager.used_bytes(), used);
    delete(&paging, &other);
    assert_eq!(paging.pager.used_bytes(), (0, 0));
}

/// A core fails in the middle of a step: what it counted before is not what is there.
#[test]
fn a_vhost_that_counts_more_than_it_has_when_it_failed_gives_all_of_it_back() {
    let paging = paging(u64::MAX);
    let vhost = vhost(&paging);
    let purge = QueueCommand::Purge {
        connection: None,
        name: Name::from("q"),
        with_dead_pending: false,
    };
    let failed: Result<(), _> = vhost.work(|now, core, effects| {
        core.apply(now, Command::Queue(purge), effects);
        panic!("the core fails");
    });
    assert!(failed.is_err() && paging.pager.used_bytes().0 > 0);
    delete(&paging, &vhost);
    assert_eq!(paging.pager.used_bytes(), (0, 0));
}

#[test]
fn a_block_of_a_vhost_that_is_deleted_while_it_waits_to_be_spilled_leaves_nothing_on_disk() {
    let paging = paging(8 * u64::from(BODY_BYTES));
    let vhost = vhost(&paging);
    let (spill, asker) = loop {
        match paging.pager.evictions.try_next().expect("a block leaves") {
            EvictionJob::Spill(asker, spill) => break (spill, asker),
            job => {
                let _ = paging.evict(0, job);
            }
        }
    };
    delete(&paging, &vhost);
    evict_all(&paging);
    assert_eq!(paging.pager.spilled_bytes(), 0);
    // It was being written when the vhost went.
    paging.spill(0, &asker, &spill);
    assert_eq!(paging.pager.spilled_bytes(), 0);
}

/// The new one took the block of the old one for its own, or failed since it had asked for none.
#[test]
fn a_block_that_a_deleted_vhost_asked_for_does_not_reach_a_new_one_of_its_name() {
    let paging = paging(8 * u64::from(BODY_BYTES));
    let old = vhost(&paging);
    evict_all(&paging);
    consume(&old);
    let asked = paging.pager.loads.len();
    assert!(asked > 0);
    delete(&paging, &old);
    let new = vhost(&paging);
    evict_all(&paging);
    consume(&new);
    let before = new.memory();
    assert!(before.evicted.messages > 0);
    for _ in 0..asked {
        let job = paging.pager.loads.try_next().expect("the old one's");
        paging.load(&job);
        assert_eq!(new.memory(), before);
    }
    let job = paging.pager.loads.try_next().expect("its own");
    paging.load(&job);
    assert_eq!(new.memory().loads, before.loads + 1);
    assert_eq!(Memory::default(), old.memory());
}
