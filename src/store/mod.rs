//! Layer 4: the journal of opaque records.
//!
//! Promises: what [`Journal::durable_lsn`] covers is on the device (under the default policy), in
//! order, whole, whatever crashes; a record can be read by its LSN until it is released; a start is
//! never refused for damage. Never: no knowledge of what a record means, no clock, no thread, no
//! retry of a failed write or sync.
//!
//! Read first: `docs/STORE_FORMAT.md`; then [`Journal`] (the interface of a journal) and
//! [`DiskJournal`] (the handle of the one on disk), [`Writer`] (its one thread's part), [`open`]
//! (from a directory to both), [`Disk`] (the interface to the files).

mod append;
mod buffer;
mod contract;
mod disk;
mod durable_lsn_file;
mod error;
mod examine;
mod file_disk;
mod format;
mod format_file;
mod frames;
#[cfg(feature = "internals")]
mod fuzz;
mod group_commit;
mod index;
mod inspect;
mod journal;
mod load;
mod maintain;
mod options;
mod outgoing;
mod prepare;
mod random;
mod reader;
mod recovery;
mod rewrite;
mod scan;
mod segments;
#[cfg(feature = "internals")]
pub mod sim_disk;
mod spill;
mod stats;
mod writer;

#[cfg(test)]
mod tests;

pub use buffer::{Amended, Appending, Backlog, Body, Payload, Reservation, Wake};
pub use contract::{Journal, StoreState};
pub use disk::{Disk, DiskFile};
pub use error::{DiskError, DiskErrorKind, DiskOperation, ReadError, StoreError};
pub use examine::{Cut, Damage, Lost};
pub use file_disk::{FileDisk, Missing, StoreFile, has_store, keep_private};
#[cfg(feature = "internals")]
pub use fuzz::fuzz_recovery;
pub use group_commit::{CommitBacklog, Due, GroupCommit};
pub use inspect::{Depth, Inspection, SegmentReport, StoreReport};
pub use journal::DiskJournal;
pub use maintain::Maintained;
pub use options::{COMMIT_BYTES, PIECE_BYTES_MAX, StoreOptions, SyncPolicy};
pub use random::Random;
pub use recovery::{Recovery, Restored, Restoring, Unopened, open, read};
pub use spill::{Spill, is_spilled};
pub use stats::{SYNC_BUCKETS_US, StoreStats};
pub use writer::{Writer, Wrote};
