//! Spill files, for transient messages beyond the memory budget: files without a name, never
//! synced, gone with the process. Their LSNs have the highest bit set and are read and released
//! like others.
//!
//! ```text
//!  LSN = 1 | file number (31 bits) | offset (32 bits)      at the offset: length (4), CRC (4), bytes
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::buffer::Payload;
use super::disk::{Disk, DiskFile, read_range};
use super::error::{DiskError, ReadError};
use super::format::Cursor;
use super::journal::DiskJournal;
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Lsn, uncount_atomic};
use bytes::Bytes;

/// Prefix of the names of spill files, for the moment until they are unlinked.
pub(super) const SPILL_PREFIX: &str = "spill-";
const SPILL_FLAG: u64 = 1 << 63;
const HEAD_BYTES: usize = 8;
/// Size at which a spill file is full, in bytes; a larger message has one of its own.
const SPILL_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Whether an LSN names spilled bytes.
pub const fn is_spilled(lsn: Lsn) -> bool {
    lsn.0 & SPILL_FLAG != 0
}

/// All spill files of one owner.
#[derive(Debug)]
pub(super) struct SpillFiles<F> {
    /// Part of the names, so that several owners may use one directory.
    tag: u64,
    state: RankedMutex<rank::SpillFiles, SpillState<F>>,
    bytes: AtomicU64,
}

impl<F> SpillFiles<F> {
    pub(super) fn new(tag: u64) -> Self {
        Self {
            tag,
            state: RankedMutex::new(SpillState {
                files: BTreeMap::new(),
                current: 0,
            }),
            bytes: AtomicU64::new(0),
        }
    }

    /// Bytes that are not released.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct SpillState<F> {
    files: BTreeMap<u32, SpillFile<F>>,
    /// The number of the file that is written; 0 before the first.
    current: u32,
}

#[derive(Debug)]
struct SpillFile<F> {
    file: Arc<F>,
    size: u64,
    /// What is not released: number of bytes, by offset.
    live: BTreeMap<u32, u64>,
}

impl<F: DiskFile> SpillFiles<F> {
    fn spill(&self, disk: &impl Disk<File = F>, bytes: &[u8]) -> Result<Lsn, DiskError> {
        let mut record = Vec::with_capacity(HEAD_BYTES + bytes.len());
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
        record.extend_from_slice(bytes);
        let (file, number, offset) = self.reserve(disk, record.len() as u64)?;
        let written = file.write_at(u64::from(offset), &record);
        let lsn = Lsn(SPILL_FLAG | u64::from(number) << 32 | u64::from(offset));
        match written {
            Ok(()) => Ok(lsn),
            Err(error) => {
                self.release(lsn);
                Err(error)
            }
        }
    }

    fn reserve(
        &self,
        disk: &impl Disk<File = F>,
        bytes: u64,
    ) -> Result<(Arc<F>, u32, u32), DiskError> {
        let mut state = self.state.lock();
        let current = state.current;
        let fits = |file: &SpillFile<F>| file.size + bytes <= SPILL_FILE_BYTES;
        if !state.files.get(&current).is_some_and(fits) {
            let number = (current + 1) & (u32::MAX >> 1);
            let name = format!("{SPILL_PREFIX}{:x}-{number}", self.tag);
            let file = disk.create(&name)?;
            disk.remove(&name)?;
            state.files.retain(|_, file| !file.live.is_empty());
            state.current = number;
            state.files.insert(
                number,
                SpillFile {
                    file: Arc::new(file),
                    size: 0,
                    live: BTreeMap::new(),
                },
            );
        }
        let number = state.current;
        let Some(file) = state.files.get_mut(&number) else {
            unreachable!("the current file was found or made just now");
        };
        let offset = u32::try_from(file.size).unwrap_or(u32::MAX);
        file.size += bytes;
        file.live.insert(offset, bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok((Arc::clone(&file.file), number, offset))
    }

    fn release(&self, lsn: Lsn) {
        let (number, offset) = split(lsn);
        let mut state = self.state.lock();
        let current = state.current;
        let Some(file) = state.files.get_mut(&number) else {
            return;
        };
        if let Some(bytes) = file.live.remove(&offset) {
            uncount_atomic!(
                self.bytes,
                bytes,
                Ordering::Relaxed,
                "bytes that are released were counted"
            );
        }
        if file.live.is_empty() && number != current {
            let file = state.files.remove(&number);
            drop(state);
            drop(file); // the file system frees its space, which takes a while
        }
    }

    pub(super) fn read(&self, lsn: Lsn) -> Result<Bytes, ReadError> {
        let (number, offset) = split(lsn);
        let file = {
            let state = self.state.lock();
            let file = state.files.get(&number);
            Arc::clone(&file.ok_or(ReadError::Unknown(lsn))?.file)
        };
        let head = read_range(&*file, u64::from(offset), HEAD_BYTES)?;
        let mut reader = Cursor(&head);
        let (Some(length), Some(crc)) = (reader.u32(), reader.u32()) else {
            return Err(ReadError::Damaged(lsn));
        };
        let at = u64::from(offset) + HEAD_BYTES as u64;
        let size = file.size()?.saturating_sub(at);
        if u64::from(length) > size {
            return Err(ReadError::Damaged(lsn));
        }
        let bytes = read_range(&*file, at, length as usize)?;
        if bytes.len() < length as usize || crc32c::crc32c(&bytes) != crc {
            return Err(ReadError::Damaged(lsn));
        }
        Ok(bytes.into())
    }
}

impl<P: Payload, D: Disk> DiskJournal<P, D> {
    /// Writes bytes to disk that need not survive the process. Not to be called under the core's
    /// lock.
    pub fn spill(&self, bytes: &[u8]) -> Result<Lsn, DiskError> {
        self.shared.spill.spill(&self.shared.disk, bytes)
    }

    /// Releases spilled bytes. The file is removed with its last bytes. Not to be called under the
    /// core's lock.
    pub fn unspill(&self, lsn: Lsn) {
        self.shared.spill.release(lsn);
    }
}

/// Spill files of a broker without a journal.
#[derive(Debug)]
pub struct Spill<D: Disk> {
    disk: D,
    files: SpillFiles<D::File>,
}

impl<D: Disk> Spill<D> {
    /// No files yet. `tag` is part of their names while they have one: random, where others use the
    /// same directory.
    pub fn new(disk: D, tag: u64) -> Self {
        let files = SpillFiles::new(tag);
        Self { disk, files }
    }

    /// Writes bytes to disk that need not survive the process.
    pub fn spill(&self, bytes: &[u8]) -> Result<Lsn, DiskError> {
        self.files.spill(&self.disk, bytes)
    }

    /// Reads spilled bytes back.
    pub fn read(&self, lsn: Lsn) -> Result<Bytes, ReadError> {
        self.files.read(lsn)
    }

    /// Releases spilled bytes. The file is removed with its last bytes.
    pub fn unspill(&self, lsn: Lsn) {
        self.files.release(lsn);
    }

    /// Bytes that are not released.
    pub fn bytes(&self) -> u64 {
        self.files.bytes()
    }
}

fn split(lsn: Lsn) -> (u32, u32) {
    let number = (lsn.0 & !SPILL_FLAG) >> 32;
    let offset = lsn.0 & u64::from(u32::MAX);
    let half = |half: u64| u32::try_from(half).unwrap_or(u32::MAX);
    (half(number), half(offset))
}
