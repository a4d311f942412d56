//! The interface to the disk: one directory of files.

use std::fmt::Debug;

use super::error::DiskError;

/// A directory of files. All access of the store to the disk goes through this trait, so that tests
/// can cut, tear, lose, fail and fill it.
pub trait Disk: Debug + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// The names of all files, in no particular order.
    fn list(&self) -> Result<Vec<String>, DiskError>;
    /// Makes a new empty file for reading and writing, in place of one of the same name.
    fn create(&self, name: &str) -> Result<Self::File, DiskError>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> Result<Self::File, DiskError>;
    /// Opens a file once more for writes that need not stay in the system's cache. They begin at a
    /// multiple of the device's block, in the file and in memory, and end at one or at the end of
    /// the file.
    fn open_direct(&self, name: &str) -> Result<Self::File, DiskError> {
        self.open(name)
    }
    /// Gives a file another name, in place of a file that had it.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;
    /// Removes a name; open handles of the file stay usable.
    fn remove(&self, name: &str) -> Result<(), DiskError>;
    /// Makes all changes of names so far survive a power cut.
    fn sync_directory(&self) -> Result<(), DiskError>;
    /// Bytes that are free for the broker's user.
    fn free_bytes(&self) -> Result<u64, DiskError>;
}

/// An open file, shared between threads.
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// The file's length in bytes.
    fn size(&self) -> Result<u64, DiskError>;
    /// Reserves space for `size` bytes and makes the file that long; what is new reads as zero.
    fn preallocate(&self, size: u64) -> Result<(), DiskError>;
    /// Cuts or extends it to `size` bytes.
    fn truncate(&self, size: u64) -> Result<(), DiskError>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;
    /// Reads into `buffer` from `offset`; fewer bytes only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError>;
    /// Advises that its content need not stay in the system's cache. Where a file was written in
    /// large pieces, each small write would otherwise dirty, and write, a large piece again.
    fn drop_cache(&self);
    /// Makes content and length survive a power cut. After an error nothing is known about what was
    /// written since the last success: it must never be tried again.
    fn sync(&self) -> Result<(), DiskError>;
}

/// Reads `length` bytes at `offset`, fewer if the file ends before.
pub fn read_range<F: DiskFile>(file: &F, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
    let mut bytes = vec![0; length];
    let read = file.read_at(offset, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads a whole file.
pub fn read_all<F: DiskFile>(file: &F) -> Result<Vec<u8>, DiskError> {
    let size = usize::try_from(file.size()?).unwrap_or(usize::MAX);
    read_range(file, 0, size)
}
