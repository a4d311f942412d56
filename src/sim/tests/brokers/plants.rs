//! Faults, planted one by one: the simulator finds each of them.

use super::run::run;
use super::trial::{Fault, Trial};
use crate::base::plant::{Plant, plant};

/// Worlds until each planted fault is found, at most, from the seed on that found it last.
const WORLDS: u64 = 300;

#[test]
fn each_planted_fault_is_found_within_three_hundred_worlds() {
    let mut missed = Vec::new();
    for fault in Plant::ALL {
        plant(Some(fault));
        let (first, kind) = found_before(fault);
        let trial = |seed| kind.map_or_else(|| Trial::of(seed), |kind| with(seed, kind));
        let found = (first..first + WORLDS).find_map(|seed| run(trial(seed)).err());
        plant(None);
        match found {
            Some(found) => {
                let what = found.what.lines().next().unwrap_or_default();
                let (seed, step) = (found.trial.seed, found.step);
                eprintln!("| `{fault:?}` | {seed} | {step} | {what:.100} |");
            }
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// A trial with a kind of fault that not all worlds have, and with the crashes that some need. Who has which
/// group is checked where no delivery times out.
fn with(seed: u64, (kind, crashes): (Fault, bool)) -> Trial {
    let trial = Trial::of(seed).with(kind);
    match kind {
        Fault::Groups => trial.without(Fault::Timeouts),
        _ if crashes => trial.with(Fault::Crash),
        _ => trial,
    }
}

/// The first seed that finds a planted fault, as docs/SIMULATION.md has it, and what its worlds must have.
const fn found_before(fault: Plant) -> (u64, Option<(Fault, bool)>) {
    match fault {
        // The last of these is found by the simulator of single cores.
        Plant::OutcomeTwice
        | Plant::DeadLetterStays
        | Plant::ExpiryNotCounted
        | Plant::CycleNotForeseen => (1, None),
        Plant::WakeBeforeDurable => (2, None),
        Plant::TokenReused | Plant::SpilledForgotten | Plant::AnsweredBeforeDurable => (4, None),
        Plant::RoomNotGivenBack | Plant::FailureNotCounted | Plant::CopyForgotten => (5, None),
        Plant::DurableBeforeSync => (7, None),
        Plant::NamedBodyReleased => (11, None),
        Plant::GoodbyeLost => (13, None),
        Plant::CheckpointForgetsHeld => (14, None),
        Plant::RestForgotten => (18, None),
        Plant::PiecesReleased => (59, Some((Fault::Large, false))),
        Plant::MovedStays => (1, Some((Fault::Redrives, false))),
        Plant::ProgressNotTold => (5, Some((Fault::Redrives, false))),
        Plant::OnDiskNotLearned => (80, Some((Fault::Redrives, false))),
        Plant::OutcomesForgotten => (13, Some((Fault::Resume, false))),
        Plant::RestElsewhere => (41, Some((Fault::Resume, false))),
        Plant::HeldNotKept => (56, Some((Fault::Resume, false))),
        Plant::FrontForgotten => (85, Some((Fault::Resume, false))),
        Plant::StartForgetsHeld | Plant::CheckpointForgetsAcquired => {
            (6, Some((Fault::Resume, true)))
        }
        Plant::CheckpointForgetsLinks => (56, Some((Fault::Resume, true))),
        Plant::DecidedApart | Plant::SentBeforeAcquired => (61, Some((Fault::Resume, true))),
        Plant::GroupShared => (4, Some((Fault::Groups, false))),
        Plant::SelectorIgnored => (1, Some((Fault::Selectors, false))),
        Plant::CommitInParts => (23, Some((Fault::Transactions, false))),
    }
}
