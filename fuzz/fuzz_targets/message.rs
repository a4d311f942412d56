//! `cargo +nightly fuzz run message`: see `coroner::message::fuzz_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coroner::message::fuzz_message(data));
