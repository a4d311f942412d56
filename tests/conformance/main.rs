//! The real binary against the recordings of RabbitMQ 4.0.5 in `interop/vectors`.
//!
//! Everything goes through a socket. The scenario runner and the two replayers are Python 3
//! programs that use its standard library only; each starts from nothing and ends by itself.
//! `CORONER_VECTORS` names another folder of vectors to judge with.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read files and start processes"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod differences;
mod recordings;
mod vectors;
