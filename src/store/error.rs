//! What can go wrong, and whose fault it is.

use std::fmt;

use thiserror::Error;

use crate::base::Lsn;

/// What the disk was asked to do when it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOperation {
    /// Making or opening the data directory, or taking its lock.
    Enter,
    /// Listing it.
    List,
    /// Making a file.
    Create,
    /// Opening a file.
    Open,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Reserving space.
    Preallocate,
    /// Cutting a file.
    Truncate,
    /// Writing.
    Write,
    /// Reading.
    Read,
    /// Waiting until data is on the device.
    Sync,
    /// The same for directory entries.
    SyncDirectory,
}

impl fmt::Display for DiskOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enter => "enter",
            Self::List => "list",
            Self::Create => "make",
            Self::Open => "open",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Preallocate => "reserve space for",
            Self::Truncate => "cut",
            Self::Write => "write",
            Self::Read => "read",
            Self::Sync => "sync",
            Self::SyncDirectory => "sync the directory of",
        })
    }
}

/// Why the disk failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskErrorKind {
    /// No space left (ENOSPC, EDQUOT).
    Full,
    /// There is no such file.
    NotFound,
    /// Not permitted, or a read-only file system.
    Denied,
    /// Another process holds the directory.
    InUse,
    /// Anything else; most of all EIO.
    Failed,
}

/// A failed disk operation.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("cannot {operation} {name}: {message}")]
pub struct DiskError {
    /// What was tried.
    pub operation: DiskOperation,
    /// On which file.
    pub name: String,
    /// What class of failure.
    pub kind: DiskErrorKind,
    /// In the words of the system.
    pub message: String,
}

/// Why the store cannot go on, or cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process uses the directory. (operator)
    #[error("data directory {directory} is in use by another process")]
    InUse {
        /// Which directory.
        directory: String,
    },
    /// It was written by a newer version. (operator)
    #[error("{name} has store format {found}, this program reads up to {supported}")]
    NewerVersion {
        /// Which file.
        name: String,
        /// Its version.
        found: u32,
        /// Ours.
        supported: u32,
    },
    /// A node of a cluster wrote it, which only newer versions have. (operator)
    #[error(
        "{name} was written by a node of a cluster (record {record}), which this program is not"
    )]
    OfCluster {
        /// Which file.
        name: String,
        /// The first record that says so.
        record: Lsn,
    },
    /// The directory cannot be written. (operator)
    #[error("data directory is not writable: {0}")]
    NotWritable(DiskError),
    /// The disk failed. (disk)
    #[error(transparent)]
    Disk(DiskError),
    /// A write or sync failed before: nothing is confirmed any more. (disk)
    #[error("the store stopped after an error: {0}")]
    Poisoned(DiskError),
    /// A record is larger than offsets in a segment can tell, 4 GiB. (ourselves)
    #[error("record of {bytes} bytes exceeds what any segment can hold")]
    RecordTooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
}

impl From<DiskError> for StoreError {
    /// What the operator can repair is told apart from a failing disk.
    fn from(error: DiskError) -> Self {
        match error.kind {
            DiskErrorKind::InUse => Self::InUse {
                directory: error.name,
            },
            DiskErrorKind::Denied => Self::NotWritable(error),
            DiskErrorKind::Full | DiskErrorKind::NotFound | DiskErrorKind::Failed => {
                Self::Disk(error)
            }
        }
    }
}

/// Why a record was not read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReadError {
    /// Nothing of that LSN is kept.
    #[error("no record {0}")]
    Unknown(Lsn),
    /// It was given out but not written yet: its bytes are still with whoever appended it.
    #[error("record {0} is not written yet")]
    NotWritten(Lsn),
    /// Its bytes do not check.
    #[error("record {0} is damaged")]
    Damaged(Lsn),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}
