//! Hostile peers against the real binary: nothing panics, memory stays bounded, other connections
//! are served, and what can be answered is answered with the right error.
//!
//! The large ones take an optimised program, which `CORONER_TEST_PROGRAM` names:
//! `CORONER_TEST_PROGRAM=target/release/coroner cargo test --test hostile -- --ignored --nocapture --test-threads 1`.
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
mod consumers;
mod cost;
mod garbage;
mod http;
mod links;
mod memory;
mod protocol;
mod slow;
mod work;

use canary::Canary;
use cost::{Cost, Meter};
use support::RunningBroker;

/// Runs `attack` against a broker of its own with the canary beside it, and prints what it cost as a
/// row of the table in docs/PERFORMANCE.md.
fn under_attack<Attack: FnOnce(&RunningBroker)>(arguments: &[&str], attack: Attack) -> Cost {
    let mut broker = RunningBroker::start(arguments);
    let canary = Canary::start(broker.port);
    let meter = Meter::start(&broker);
    attack(&broker);
    let cost = meter.stop();
    let slowest = canary.stop();
    assert!(broker.is_alive(), "the broker died");
    let cost = Cost { slowest, ..cost };
    let name = std::any::type_name::<Attack>().replace("::{{closure}}", "");
    let name = name.split_once("::").map_or(&*name, |(_, name)| name);
    println!("| `{name}` | {cost} |");
    cost.check_canary();
    cost
}
