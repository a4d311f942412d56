//! Tests of the pure part of the HTTP API.

mod access;
mod event_messages;
mod fields;
mod filter;
mod messages;
mod paging;
mod routes;
