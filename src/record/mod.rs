//! Layer 7: journal records: encoding and decoding of the facts of one vhost, or of the registry,
//! and elision of those that need not be written.
//!
//! Promises: what was encoded is decoded to the same facts; bytes that no version wrote are an
//! error, never a panic, and never allocate more than they justify. Never: no IO, no order of
//! records, no knowledge of what facts do but that a removal undoes an insertion.
//!
//! Read first: [`Stored`], [`decode()`], [`append()`], and the layout in `docs/STORE_FORMAT.md`, part 6.
#![deny(clippy::wildcard_enum_match_arm)]

mod checkpointed;
mod consumer_links;
mod deaths;
mod decode;
mod elide;
mod encode;
mod error;
#[cfg(feature = "internals")]
mod fuzz;
mod kind;
mod memos;
mod paging;
mod publisher_links;
mod redrives;
mod registry;
#[cfg(test)]
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "what a test leaves out is not lost"
)]
mod tests;

pub use decode::{body_of, decode, decode_block};
pub use elide::append;
pub use encode::Stored;
pub use error::RecordError;
#[cfg(feature = "internals")]
pub use fuzz::fuzz_record;
pub use paging::{RecordRead, encode_spill, loaded, records_of};

/// The version that is written. Never 0: a bare message begins with that.
const VERSION: u8 = 1;

/// Codes for the place of a body, as in an insertion.
mod place {
    pub(super) const NAMED: u8 = 1;
    pub(super) const CARRIED: u8 = 2;
    pub(super) const AT: u8 = 3;
}
