//! When messages leave, and when publishers wait for it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use super::*;
use crate::broker::queue::Usage;
use crate::store::sim_disk::SimDisk;

/// What so many messages of 1,000 bytes take in memory, and so many on disk.
fn memory(resident: u64, evicted: u64) -> Memory {
    let usage = |messages| Usage {
        messages,
        bytes: messages * 1_000,
    };
    Memory {
        resident: usage(resident),
        evicted: usage(evicted),
        shared_bytes: 0,
        loads: 0,
    }
}

fn pager(budget_bytes: u64) -> Pager<SimDisk> {
    let disk = SimDisk::default();
    Pager::new(
        SpillTarget::Spilled(store::Spill::new(disk, 1)),
        budget_bytes,
    )
}

#[test]
fn publishers_wait_while_more_arrives_than_leaves_and_are_called_when_it_has_left() {
    let pager = pager(memory(100, 0).bytes());
    let outbox = Arc::new(Outbox::default());
    let mut context = Context::from_waker(Waker::noop());
    pager.used(Memory::default(), memory(105, 0)).wake();
    assert!(!pager.is_crowded(&outbox), "a little too much may be");
    pager.used(memory(105, 0), memory(130, 0)).wake();
    assert!(pager.is_crowded(&outbox) && pager.is_crowded(&outbox));
    assert!(outbox.poll_ready(&mut context).is_pending());
    let unblocked = pager.used(memory(130, 0), memory(90, 40));
    assert!(!pager.is_crowded(&outbox));
    assert!(
        outbox.poll_ready(&mut context).is_pending(),
        "nobody is woken under a lock"
    );
    unblocked.wake();
    assert!(outbox.poll_ready(&mut context).is_ready());
}

#[test]
fn publishers_go_on_when_nothing_can_leave() {
    let pager = pager(memory(100, 0).bytes());
    let outbox = Arc::new(Outbox::default());
    pager.used(Memory::default(), memory(200, 0)).wake();
    assert!(pager.is_crowded(&outbox));
    pager.begin_look();
    let (is_stuck, unblocked) = pager.end_look(false);
    assert!(is_stuck);
    unblocked.wake();
    assert!(!pager.is_crowded(&outbox));
}

#[test]
fn what_is_kept_of_messages_on_disk_counts_up_to_a_part_of_the_budget() {
    let budget = memory(100, 0).bytes();
    let pager = pager(budget);
    pager.used(Memory::default(), memory(0, 10)).wake();
    assert_eq!(pager.limit_bytes(), budget - memory(0, 10).bytes());
    pager.used(memory(0, 10), memory(0, 1_000_000)).wake();
    assert_eq!(pager.limit_bytes(), budget / LEAST_PART);
}

#[test]
fn who_waits_for_growth_is_not_woken_under_the_lock_of_the_core_that_grew() {
    // `used` is called with the core locked: a task that is woken there may run at once and wait for it.
    let pager = pager(memory(100, 0).bytes());
    let mut context = Context::from_waker(Waker::noop());
    let mut grown = pin!(pager.grown_by(1_000));
    assert!(grown.as_mut().poll(&mut context).is_pending());
    let wakes = pager.used(Memory::default(), memory(200, 0));
    assert!(grown.as_mut().poll(&mut context).is_pending());
    assert!(pager.evictions.try_next().is_none());
    wakes.wake();
    assert!(grown.as_mut().poll(&mut context).is_ready());
    assert!(matches!(
        pager.evictions.try_next(),
        Some(EvictionJob::Look)
    ));
}
