//! Many connections, many queues, many messages: what they take, and what happens when there is no
//! room for more.
//!
//! What needs an optimised program, which `CORONER_TEST_PROGRAM` names, or many connections is ignored otherwise:
//! `CORONER_TEST_PROGRAM=target/release/coroner cargo test --test scale -- --include-ignored --nocapture --test-threads 1`
//! prints every figure.
#![allow(
    clippy::disallowed_methods,
    reason = "tests open sockets, start processes and read clocks"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its figures"
)]

#[path = "../support/mod.rs"]
mod support;

mod connections;
mod memory;

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::raw::{
    AMQP_HEADER, OPEN, Raw, SASL_HEADER, binary, frame, performative, symbol, text,
};

/// How soon something must have happened.
const SOON: Duration = Duration::from_mins(1);

/// A connection that is open and does nothing; none if the broker closes it at once.
fn try_open(port: u16) -> Option<Raw> {
    let mut raw = Raw::connect(port);
    raw.send(&opening());
    // What it says first, if it says anything, are its mechanisms.
    raw.next(SOON)?;
    raw.wait_for(OPEN);
    Some(raw)
}

/// The same where there must be room.
fn open(port: u16) -> Raw {
    try_open(port).expect("there is room")
}

/// All that a client says until it is open, as guest.
fn opening() -> Vec<u8> {
    let init = performative(0x41, &[symbol("PLAIN"), binary(b"\0guest\0guest")]);
    let open = performative(OPEN, &[text("scale"), text("localhost")]);
    let parts = [
        SASL_HEADER,
        &frame(1, 0, &init),
        AMQP_HEADER,
        &frame(0, 0, &open),
    ];
    parts.concat()
}

/// Lets this process have as many files open as the system allows it. Returns how many.
fn allow_open_files() -> u64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("up to the hard limit");
    maximum.unwrap_or(u64::MAX)
}
