//! Whole messages through the broker without sockets and threads: bytes in, link engine, gateway,
//! core, journal on a disk of memory, bytes out.
//!
//! `cargo bench -p message_path` prints nanoseconds a message of each path. `benches/instructions`
//! runs one path at a time under callgrind and counts what is done in [`broker::counted_turn`] and
//! [`broker::counted_commit`], so the client's own work is not in it.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark reads a clock, prints, and may fail loudly"
)]
#![allow(missing_docs, reason = "a benchmark")]

mod broker;
mod client;
mod memory_disk;
mod paths;

use std::time::Instant;

use paths::{PATHS, run};

/// The allocator of the binary: the same instructions on every machine.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Messages of a path in `cargo bench`.
const MESSAGES: u64 = 200_000;

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--list-paths"] => PATHS.iter().for_each(|path| println!("{}", path.name)),
        [name, messages] => {
            let path = PATHS.iter().find(|path| path.name == *name);
            let messages = messages.parse().expect("a number of messages");
            run(path.expect("a path of --list-paths"), messages);
        }
        _ => PATHS.iter().for_each(|path| {
            let start = Instant::now();
            run(path, MESSAGES);
            let nanoseconds = start.elapsed().as_nanos() / u128::from(MESSAGES);
            println!("{}: {nanoseconds} ns a message, client included", path.name);
        }),
    }
}
