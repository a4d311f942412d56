//! `cargo +nightly fuzz run sections`: see `coroner::wire::fuzz_sections`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coroner::wire::fuzz_sections(data));
