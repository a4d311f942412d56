//! Errors of the store, and whose fault each is.

use std::fmt;

use thiserror::Error;

use crate::base::Lsn;

/// The disk operation that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOperation {
    /// Creating or opening the data directory, or taking its lock.
    Enter,
    /// Listing the directory.
    List,
    /// Creating a file.
    Create,
    /// Opening a file.
    Open,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Reserving space for a file.
    Preallocate,
    /// Changing the length of a file.
    Truncate,
    /// Writing to a file.
    Write,
    /// Reading from a file.
    Read,
    /// Waiting until the data of a file is on the device.
    Sync,
    /// Waiting until directory entries are on the device.
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

/// The class of a disk failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskErrorKind {
    /// No space left (ENOSPC, EDQUOT).
    Full,
    /// There is no such file.
    NotFound,
    /// Not permitted, or a read-only file system.
    Denied,
    /// Another process holds the lock of the directory.
    InUse,
    /// Anything else; most of all EIO.
    Failed,
}

/// A failed disk operation.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("cannot {operation} {name}: {message}")]
pub struct DiskError {
    /// The operation that failed.
    pub operation: DiskOperation,
    /// The name of the file, or the path of the directory.
    pub name: String,
    /// The class of the failure.
    pub kind: DiskErrorKind,
    /// The error text of the operating system.
    pub message: String,
}

/// Why the store cannot go on, or cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process uses the directory. (operator)
    #[error("data directory {directory} is in use by another process")]
    InUse {
        /// The path of the directory.
        directory: String,
    },
    /// The directory was written by a newer version. (operator)
    #[error("{name} has store format {found}, this program reads up to {supported}")]
    NewerVersion {
        /// The file that says so.
        name: String,
        /// The version in the file.
        found: u32,
        /// The newest version that this program reads.
        supported: u32,
    },
    /// A node of a cluster wrote it, which only newer versions have. (operator)
    #[error(
        "{name} was written by a node of a cluster (record {record}), which this program is not"
    )]
    OfCluster {
        /// The file with that record.
        name: String,
        /// The LSN of the first such record.
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
    /// A record is larger than offsets in a segment can express, 4 GiB. (ourselves)
    #[error("record of {bytes} bytes exceeds what any segment can hold")]
    RecordTooLarge {
        /// The record's size in bytes.
        bytes: usize,
    },
}

impl From<DiskError> for StoreError {
    /// Tells failures that the operator can repair from a failing disk.
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
    /// There is no record with this LSN, or it was released.
    #[error("no record {0}")]
    Unknown(Lsn),
    /// The record is not written yet: its bytes are still in the buffer.
    #[error("record {0} is not written yet")]
    NotWritten(Lsn),
    /// The record's checksum is wrong.
    #[error("record {0} is damaged")]
    Damaged(Lsn),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}
