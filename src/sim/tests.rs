//! Runs of the simulator. `CORONER_SIM_SECONDS` makes them longer, `CORONER_SIM_SEED` repeats one,
//! `CORONER_CRASH_SEEDS` adds so many to the crash matrix.

mod brokers;
mod copies;
mod crash;
mod deaths;
mod failures;
mod histories;
mod quarantining;
mod registry;
mod waiting;

use std::collections::BTreeSet;

use super::World;
use crate::broker::DropCause;
use crate::deaths::QuarantineCause;

/// Steps of one run: enough for queues to fill, policies to change and connections to go.
const STEPS: u64 = 400;

fn run(seed: u64) -> World {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        if let Err(failure) = world.step() {
            panic!("{failure}");
        }
    }
    world
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the length of a test run is in real time"
)]
fn every_message_is_in_one_place_or_counted_and_facts_rebuild_the_core() {
    if let Some(seed) = variable("CORONER_SIM_SEED") {
        eprintln!("{}", run(seed).summary());
        return;
    }
    let seconds = variable("CORONER_SIM_SECONDS").unwrap_or(3);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut seed = 1;
    while std::time::Instant::now() < end {
        run(seed);
        seed += 1;
    }
}

#[test]
fn messages_that_leave_memory_and_come_back_late_or_damaged_are_in_one_place_or_counted() {
    let seeds = match variable("CORONER_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + 40 * variable("CORONER_SIM_SECONDS").unwrap_or(1),
    };
    let mut loads = 0;
    for seed in seeds {
        let mut world = World::paged(seed);
        for _ in 0..STEPS {
            if let Err(failure) = world.step() {
                panic!("{failure}");
            }
        }
        if let Err(failure) = world.end() {
            panic!("{failure}");
        }
        loads += world.core.memory().loads;
    }
    assert!(loads > 0, "some came back");
}

/// A full history needs more queues than these worlds have.
#[test]
fn worlds_quarantine_for_every_other_cause_and_fill_their_quarantines() {
    let mut missing: BTreeSet<_> = QuarantineCause::ALL.map(QuarantineCause::as_str).into();
    missing.remove(QuarantineCause::HistoryFull.as_str());
    let mut is_full = false;
    for seed in 1..=60 {
        let world = run(seed);
        let counters = world.core.counters();
        for kind in counters.quarantined.kinds() {
            missing.remove(kind.cause.as_str());
        }
        is_full |= counters.drops.of(DropCause::QuarantineFull) > 0;
        if missing.is_empty() && is_full {
            return;
        }
    }
    panic!("no world had {missing:?}; one was full: {is_full}");
}

#[test]
fn one_seed_gives_one_run() {
    assert_eq!(run(42).summary(), run(42).summary());
}
