//! The real disk, with moods: files of these names in the data directory say how it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::store::{Disk, DiskError, DiskErrorKind, DiskFile, DiskOperation};
use crate::store::{FileDisk, Missing, StoreFile};

/// Every sync of data fails.
pub(in crate::server) const SYNC_FAILS: &str = "mood-sync-fails";
/// Syncs of data wait until this file is gone.
pub(in crate::server) const SYNC_WAITS: &str = "mood-sync-waits";
/// Holds the number of bytes that are free.
pub(in crate::server) const FREE: &str = "mood-free";

/// A [`FileDisk`] that looks at its mood before it does anything.
#[derive(Debug)]
pub(in crate::server) struct MoodyDisk {
    inner: FileDisk,
    mood: Mood,
}

/// A file of one.
#[derive(Debug)]
pub(in crate::server) struct MoodyFile {
    inner: StoreFile,
    mood: Mood,
}

#[derive(Clone, Debug)]
struct Mood {
    directory: PathBuf,
}

impl Mood {
    fn is(&self, name: &str) -> bool {
        self.directory.join(name).exists()
    }

    fn free_bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.directory.join(FREE)).ok()?;
        text.parse().ok()
    }
}

impl MoodyDisk {
    pub(in crate::server) fn enter(directory: &Path, missing: Missing) -> Result<Self, DiskError> {
        let mood = Mood {
            directory: directory.to_owned(),
        };
        FileDisk::enter(directory, missing).map(|inner| Self { inner, mood })
    }

    pub(in crate::server) fn visit(directory: &Path) -> Result<Self, DiskError> {
        let mood = Mood {
            directory: directory.to_owned(),
        };
        FileDisk::visit(directory).map(|inner| Self { inner, mood })
    }

    fn file(&self, inner: StoreFile) -> MoodyFile {
        let mood = self.mood.clone();
        MoodyFile { inner, mood }
    }
}

impl Disk for MoodyDisk {
    type File = MoodyFile;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.inner.list()
    }

    fn create(&self, name: &str) -> Result<MoodyFile, DiskError> {
        self.inner.create(name).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> Result<MoodyFile, DiskError> {
        self.inner.open(name).map(|file| self.file(file))
    }

    fn open_direct(&self, name: &str) -> Result<MoodyFile, DiskError> {
        self.inner.open_direct(name).map(|file| self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.inner.remove(name)
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.inner.sync_directory()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let free_bytes = self.mood.free_bytes().map(Ok);
        free_bytes.unwrap_or_else(|| self.inner.free_bytes())
    }
}

impl DiskFile for MoodyFile {
    fn size(&self) -> Result<u64, DiskError> {
        self.inner.size()
    }

    fn preallocate(&self, size: u64) -> Result<(), DiskError> {
        if self.mood.free_bytes().is_some_and(|free| free < size) {
            return Err(DiskError {
                operation: DiskOperation::Preallocate,
                name: "segment".to_owned(),
                kind: DiskErrorKind::Full,
                message: "no space left".to_owned(),
            });
        }
        self.inner.preallocate(size)
    }

    fn truncate(&self, size: u64) -> Result<(), DiskError> {
        self.inner.truncate(size)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.inner.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.inner.read_at(offset, buffer)
    }

    fn drop_cache(&self) {
        self.inner.drop_cache();
    }

    fn sync(&self) -> Result<(), DiskError> {
        while self.mood.is(SYNC_WAITS) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.mood.is(SYNC_FAILS) {
            return Err(DiskError {
                operation: DiskOperation::Sync,
                name: "segment".to_owned(),
                kind: DiskErrorKind::Failed,
                message: "input/output error".to_owned(),
            });
        }
        self.inner.sync()
    }
}
