//! Runs of the simulator. `CORONER_SIM_SECONDS` makes them longer, `CORONER_SIM_SEED` repeats one,
//! `CORONER_CRASH_SEEDS` adds so many to the crash matrix, and with `CORONER_EVERY_BYTE` it tries each byte.

mod brokers;
mod committing;
mod copies;
mod crash;
mod deaths;
mod failures;
mod histories;
mod importing;
mod noting;
mod quarantining;
mod redriving;
mod registry;
mod waiting;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::{Foreseen, World};
use crate::base::plant::{Plant, plant};
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

/// What there was in a world after its run, and how it agreed with the model, which it is compared with at each
/// step.
struct Seen {
    timed_out: u64,
    settled_late: u64,
    retried: u64,
    quarantined: BTreeSet<&'static str>,
    had_a_full_quarantine: bool,
    /// With a redrive at its end.
    foreseen: Result<Foreseen, String>,
}

/// Worlds that several tests look at, each of which is run once.
fn world(seed: u64) -> &'static Seen {
    static SEEN: [OnceLock<Seen>; 61] = [const { OnceLock::new() }; 61];
    SEEN[usize::try_from(seed).unwrap()].get_or_init(|| {
        let mut world = run(seed);
        let counters = world.core.counters();
        let quarantined = counters.quarantined.kinds();
        Seen {
            timed_out: world.model.timed_out,
            settled_late: world.model.settled_late,
            retried: world.model.retried,
            quarantined: quarantined.iter().map(|kind| kind.cause.as_str()).collect(),
            had_a_full_quarantine: counters.drops.of(DropCause::QuarantineFull) > 0,
            foreseen: world.redrive_as_foreseen().map(|()| world.foreseen),
        }
    })
}

#[test]
fn worlds_time_deliveries_out_and_settle_them_late() {
    let told = (1..=40).map(|seed| (world(seed).timed_out, world(seed).settled_late));
    let (timed_out, late): (Vec<u64>, Vec<u64>) = told.unzip();
    let all = (timed_out.iter().sum::<u64>(), late.iter().sum::<u64>());
    let worlds = timed_out.iter().filter(|count| **count > 0).count();
    assert!(all.0 > 30 && all.1 > 10 && worlds > 10, "{all:?} {worlds}");
}

/// A full history needs more queues than these worlds have.
#[test]
fn worlds_quarantine_for_every_other_cause_and_fill_their_quarantines() {
    let mut missing: BTreeSet<_> = QuarantineCause::ALL.map(QuarantineCause::as_str).into();
    missing.remove(QuarantineCause::HistoryFull.as_str());
    let mut is_full = false;
    for seed in 1..=60 {
        let world = world(seed);
        missing.retain(|cause| !world.quarantined.contains(cause));
        is_full |= world.had_a_full_quarantine;
        if missing.is_empty() && is_full {
            return;
        }
    }
    panic!("no world had {missing:?}; one was full: {is_full}");
}

#[test]
fn what_is_foreseen_before_each_settlement_and_each_death_is_what_happens() {
    let mut foreseen = Foreseen::default();
    for seed in 1..=30 {
        let other = world(seed).foreseen.as_ref().unwrap();
        let add = |sums: &mut [u64], more: &[u64]| {
            sums.iter_mut()
                .zip(more)
                .for_each(|(sum, more)| *sum += more);
        };
        add(&mut foreseen.compared, &other.compared);
        add(&mut foreseen.skipped, &other.skipped);
        add(&mut foreseen.redriven, &other.redriven);
        foreseen.unsure += other.unsure;
    }
    let compared: u64 = foreseen.compared.iter().sum();
    let [cycles, full, _] = foreseen.skipped;
    let is_each = foreseen.compared.iter().all(|count| *count > 20);
    assert!(is_each && cycles > 20 && full > 20, "{foreseen:?}");
    assert!(
        foreseen.redriven.iter().all(|count| *count > 5),
        "{foreseen:?}"
    );
    assert!(foreseen.unsure * 50 < compared, "{foreseen:?}");
}

/// A redrive ends a run, as the model knows none: so runs are ended after any number of their steps.
#[test]
fn where_a_redrive_is_foreseen_to_lead_it_leads_after_whatever_step() {
    let (mut redriven, mut steps) = ([0_u64; 3], 7);
    for seed in 1..=50 {
        steps = (steps + 61) % STEPS;
        let mut world = World::new(seed);
        for _ in 0..steps {
            if let Err(failure) = world.step() {
                panic!("{failure}");
            }
        }
        if let Err(what) = world.redrive_as_foreseen() {
            panic!("after {steps} steps: {what}");
        }
        for (sum, more) in redriven.iter_mut().zip(world.foreseen.redriven) {
            *sum += more;
        }
    }
    assert!(redriven.iter().all(|count| *count > 10), "{redriven:?}");
}

#[test]
fn worlds_make_delayed_messages_ready_before_their_time() {
    // From behind, since others begin at the first one.
    let retried = (1..=40).rev().map(|seed| world(seed).retried);
    let retried: Vec<u64> = retried.collect();
    let worlds = retried.iter().filter(|count| **count > 0).count();
    assert!(worlds > 5, "{retried:?}");
}

#[test]
fn foresight_without_the_cycle_rule_is_noticed() {
    plant(Some(Plant::CycleNotForeseen));
    let mut found = (1..=20).map(|seed| {
        let mut world = World::new(seed);
        (0..STEPS).find_map(|_| world.step().err())
    });
    let found = found.find_map(|failure| failure);
    plant(None);
    let what = found.map(|failure| failure.what).unwrap_or_default();
    assert!(what.contains("was foreseen as"), "{what}");
}

#[test]
fn one_seed_gives_one_run() {
    assert_eq!(run(42).summary(), run(42).summary());
}
