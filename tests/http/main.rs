//! The HTTP API of the real binary.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and open sockets"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod api;
mod delays;
mod description;
mod door;
mod event_readers;
mod events;
mod explain;
mod export;
mod folder;
mod foretold;
mod graph;
mod groups;
mod imports;
mod lint;
mod message_groups;
mod messages;
mod objects;
mod others;
mod page;
mod page_steps;
mod parameters;
mod quarantine;
mod rates;
mod redrives;
mod rights;
mod settings;
mod subscriptions;
#[path = "../support/mod.rs"]
mod support;
mod timeouts;
mod websocket;
