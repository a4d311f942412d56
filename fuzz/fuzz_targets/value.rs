//! `cargo +nightly fuzz run value`: see `coroner::wire::fuzz_value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coroner::wire::fuzz_value(data));
