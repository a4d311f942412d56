//! `cargo +nightly fuzz run journal`: see `coroner::store::fuzz_recovery`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coroner::store::fuzz_recovery(data));
