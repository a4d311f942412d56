//! Tests of the pure part of the HTTP API.

mod access;
mod fields;
mod paging;
mod routes;
