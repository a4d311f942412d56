//! The whole broker on a disk that fails, fills and waits.
#![allow(
    clippy::disallowed_methods,
    reason = "tests use directories, and a disk that waits sleeps"
)]

pub(super) mod moody_disk;

mod bad_disks;
mod dry_runs;
mod events;
#[cfg(feature = "http")]
mod looking;
mod notes;
