//! `cargo +nightly fuzz run deaths`: see `coroner::deaths::fuzz_deaths`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coroner::deaths::fuzz_deaths(data));
