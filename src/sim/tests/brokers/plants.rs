//! Faults, planted one by one: the simulator finds each of them.

use super::run::run;
use super::trial::{Fault, Trial};
use crate::base::plant::{Plant, plant};

/// Worlds until each planted fault is found, at most.
const WORLDS: u64 = 300;

#[test]
fn each_planted_fault_is_found_within_three_hundred_worlds() {
    let mut missed = Vec::new();
    for fault in Plant::ALL {
        plant(Some(fault));
        let trial = |seed| match fault {
            Plant::PiecesReleased => Trial::of(seed).with(Fault::Large),
            Plant::MovedStays | Plant::OnDiskNotLearned | Plant::ProgressNotTold => {
                Trial::of(seed).with(Fault::Redrives)
            }
            Plant::FrontForgotten
            | Plant::RestElsewhere
            | Plant::OutcomesForgotten
            | Plant::HeldNotKept => Trial::of(seed).with(Fault::Resume),
            Plant::DecidedApart
            | Plant::CheckpointForgetsLinks
            | Plant::CheckpointForgetsAcquired
            | Plant::SentBeforeAcquired
            | Plant::StartForgetsHeld => Trial::of(seed).with(Fault::Resume).with(Fault::Crash),
            Plant::GroupShared => Trial::of(seed).with(Fault::Groups).without(Fault::Timeouts),
            Plant::SelectorIgnored => Trial::of(seed).with(Fault::Selectors),
            Plant::CommitInParts => Trial::of(seed).with(Fault::Transactions),
            _ => Trial::of(seed),
        };
        let found = (1..=WORLDS).find_map(|seed| run(trial(seed)).err());
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
