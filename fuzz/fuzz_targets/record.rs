//! `cargo +nightly fuzz run record`: see `coroner::record::fuzz_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coroner::record::fuzz_record(data));
