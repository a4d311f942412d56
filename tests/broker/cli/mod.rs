//! The command line as others run it: the real binary, against a recording stand-in for the HTTP
//! API (each command line makes exactly these requests) and against a broker.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes, threads and sockets"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod broker;
mod exits;
mod pages;
mod recorder;
mod requests;

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs `coroner` with these arguments and this on its standard input, apart from whatever the
/// environment says.
fn coroner(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coroner"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CORONER") {
            command.env_remove(name);
        }
    }
    let mut process = command
        .args(arguments)
        .env("HOME", "/nonexistent")
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = process.stdin.take().expect("piped");
    // A command that reads nothing may have ended by now.
    stdin.write_all(input.as_bytes()).ok();
    drop(stdin);
    process.wait_with_output().expect("the binary ends")
}

/// What a command printed, as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
