//! `cargo +nightly fuzz run connection`: see `coroner::link::fuzz_connection`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coroner::link::fuzz_connection(data));
