//! `cargo +nightly fuzz run frame`: see `coroner::link::fuzz_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coroner::link::fuzz_frame(data));
