//! A seeded mutation test over the corpora in `fuzz/corpus`: what cargo-fuzz does at length, on any
//! toolchain and within a bounded time.
//!
//! `CORONER_MUTATION_SECONDS` (default 1) is the time for each target, `CORONER_MUTATION_SEED`
//! (default 1) the seed. A failure prints the input; put it into the corpus when it is fixed.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read files, the environment and a clock"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "support/mutator.rs"]
mod mutator;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mutator::{Mutator, corpus};

/// Inputs between two looks at the clock.
const BATCH: usize = 64;

#[test]
fn mutated_values_break_no_invariant() {
    check("value", coroner::wire::fuzz_value);
}

#[test]
fn mutated_sections_break_no_invariant() {
    check("sections", coroner::wire::fuzz_sections);
}

#[test]
fn mutated_messages_keep_their_bare_bytes_through_storage_and_delivery() {
    check("sections", coroner::message::fuzz_message);
}

#[test]
fn mutated_death_histories_break_no_invariant() {
    check("deaths", coroner::deaths::fuzz_deaths);
}

#[test]
fn mutated_frames_break_no_invariant() {
    check("frame", coroner::link::fuzz_frame);
}

#[test]
fn mutated_conversations_break_no_invariant() {
    check("connection", coroner::link::fuzz_connection);
}

#[test]
fn mutated_journals_restore_the_same_twice() {
    check("journal", coroner::store::fuzz_recovery);
}

#[test]
fn mutated_records_are_read_as_they_are_written() {
    check("record", coroner::record::fuzz_record);
}

/// Runs the target on the whole corpus, then on mutations of it until the time is up.
fn check(target: &str, run: fn(&[u8])) {
    let corpus = corpus(target);
    for input in &corpus {
        run_one(target, run, input);
    }
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a whole number"))
    };
    let budget = Duration::from_secs(number("CORONER_MUTATION_SECONDS").unwrap_or(1));
    let seed = number("CORONER_MUTATION_SEED").unwrap_or(1);
    let mut mutator = Mutator::new(seed, &corpus);
    let start = Instant::now();
    while start.elapsed() < budget {
        for _ in 0..BATCH {
            run_one(target, run, &mutator.input());
        }
    }
}

fn run_one(target: &str, run: fn(&[u8]), input: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(input)));
    assert!(outcome.is_ok(), "{target} broke on {input:02x?}");
}
