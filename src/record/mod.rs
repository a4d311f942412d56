//! Floor 6: journal records: the facts of one vhost, or of the registry, as bytes, and back, and
//! without those that need not be written.
//!
//! Promises: what was encoded is decoded to the same facts; bytes that no version wrote are an
//! error, never a panic, and never allocate more than they justify.
//! Never: no IO, no order of records, no knowledge of what facts do but that a removal undoes an
//! insertion.
//!
//! Read first: [`Stored`], [`decode()`], [`append()`], and the layout in `docs/STORE_FORMAT.md`, part 6.

mod decode;
mod elide;
mod encode;
mod error;
mod fuzz;
mod paging;
mod registry;
mod shelf;
#[cfg(test)]
mod tests;

pub use decode::{body_of, decode, decode_block};
pub use elide::{Renamed, append};
pub use encode::Stored;
pub use error::RecordError;
pub use fuzz::fuzz_record;
pub use paging::{Found, encode_spill, loaded, records_of};

/// The version that is written. Never 0: that is how a bare message begins.
const VERSION: u8 = 1;

/// What a fact is, as its first byte says. The numbers are for ever; those that no name has
/// are given out in groups, see `docs/STORE_FORMAT.md`.
mod tag {
    pub(super) const INSERTED: u8 = 1;
    pub(super) const REMOVED: u8 = 2;
    pub(super) const RETURNED: u8 = 3;
    pub(super) const CHANGED: u8 = 4;
    pub(super) const WAITING: u8 = 5;
    pub(super) const PURGED: u8 = 6;
    pub(super) const SHELVED: u8 = 7;
    pub(super) const QUEUE_DECLARED: u8 = 32;
    pub(super) const QUEUE_DELETED: u8 = 33;
    pub(super) const QUEUE_IDS: u8 = 34;
    pub(super) const EXCHANGE_DECLARED: u8 = 35;
    pub(super) const EXCHANGE_DELETED: u8 = 36;
    pub(super) const BOUND: u8 = 37;
    pub(super) const UNBOUND: u8 = 38;
    pub(super) const POLICY_SET: u8 = 39;
    pub(super) const POLICY_DELETED: u8 = 40;
    pub(super) const VHOST_SET: u8 = 64;
    pub(super) const VHOST_DELETED: u8 = 65;
    pub(super) const USER_SET: u8 = 66;
    pub(super) const USER_DELETED: u8 = 67;
    pub(super) const PERMISSIONS_SET: u8 = 68;
    pub(super) const PERMISSIONS_CLEARED: u8 = 69;
    pub(super) const TOPIC_PERMISSIONS_SET: u8 = 70;
    pub(super) const TOPIC_PERMISSIONS_CLEARED: u8 = 71;
    pub(super) const GLOBAL_PARAMETER_SET: u8 = 72;
    pub(super) const GLOBAL_PARAMETER_CLEARED: u8 = 73;
    pub(super) const IMPORT_PART: u8 = 74;
    pub(super) const IMPORT_BEGUN: u8 = 75;
    pub(super) const IMPORT_ENDED: u8 = 76;
}

/// Where a body is, as an insertion says it.
mod place {
    pub(super) const NAMED: u8 = 1;
    pub(super) const CARRIED: u8 = 2;
    pub(super) const AT: u8 = 3;
}
