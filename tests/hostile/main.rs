//! Hostile peers against the real binary: nothing panics, memory stays bounded, other connections
//! are served, and what can be answered is answered with the right error.
//!
//! The large ones take an optimised build:
//! `cargo test --profile profiling --test hostile -- --ignored --nocapture --test-threads 1`.
#![allow(
    clippy::disallowed_methods,
    reason = "tests open sockets, start threads and read clocks"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its figures"
)]

#[path = "../support/mod.rs"]
mod support;

mod canary;
mod garbage;
mod protocol;
mod slow;

use canary::Canary;
use support::RunningBroker;

/// Runs `attack` against a broker of its own with the canary beside it. Returns the most memory the
/// broker ever had, in MiB.
fn under_attack(arguments: &[&str], attack: impl FnOnce(&RunningBroker)) -> u64 {
    let mut broker = RunningBroker::start(&[&["--in-memory"], arguments].concat());
    let canary = Canary::start(broker.port);
    attack(&broker);
    canary.check();
    assert!(broker.is_alive(), "the broker died");
    let peak = peak_memory_mib(broker.process_id());
    println!("the broker had at most {peak} MiB");
    peak
}

/// The most resident memory a process ever had.
fn peak_memory_mib(process_id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status"));
    let status = status.expect("a running process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("a number of KiB") / 1024
}
