//! The house rules as tests: who imports whom, how long files and functions may be, which words
//! must not stand in the code, which sections of the specification have tests, and that documents name
//! what is there.
//!
//! Everything reads the source as text, formatted by rustfmt.
#![allow(
    clippy::disallowed_methods,
    reason = "a test that reads the source tree"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod documents;
mod features;
mod imports;
mod limits;
mod locks;
mod measures;
mod sections;
mod source;
mod surface;
mod words;
