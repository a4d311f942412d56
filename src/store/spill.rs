//! Transient messages beyond the memory budget: files without a name, never synced, gone with the
//! process. Their LSNs have the highest bit set and are read and released like others.
//!
//! ```text
//!  LSN = 1 | file number (31 bits) | offset (32 bits)      at the offset: length (4), CRC (4), bytes
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;

use super::buffer::Payload;
use super::disk::{Disk, DiskFile, read_range};
use super::error::{DiskError, ReadError};
use super::format::Cursor;
use super::journal::DiskJournal;
use crate::base::Lsn;

/// Begin of the names of spill files, for the moment until they are unlinked.
pub(super) const SPILL_PREFIX: &str = "spill-";
const SPILL_FLAG: u64 = 1 << 63;
const HEAD_BYTES: usize = 8;
/// A spill file takes so many bytes, or one message.
const SPILL_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Whether an LSN names spilled bytes.
pub const fn is_spilled(lsn: Lsn) -> bool {
    lsn.0 & SPILL_FLAG != 0
}

/// All spill files.
#[derive(Debug)]
pub(super) struct Spill<F> {
    state: Mutex<State<F>>,
}

impl<F> Default for Spill<F> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                files: BTreeMap::new(),
                current: 0,
            }),
        }
    }
}

#[derive(Debug)]
struct State<F> {
    files: BTreeMap<u32, SpillFile<F>>,
    /// The number of the file that is written; 0 before the first.
    current: u32,
}

#[derive(Debug)]
struct SpillFile<F> {
    file: Arc<F>,
    size: u64,
    live: u64,
}

impl<P: Payload, D: Disk> DiskJournal<P, D> {
    /// Puts bytes on disk that need not survive the process. Not under the core's lock.
    pub fn spill(&self, bytes: &[u8]) -> Result<Lsn, DiskError> {
        let mut record = Vec::with_capacity(HEAD_BYTES + bytes.len());
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
        record.extend_from_slice(bytes);
        let (file, number, offset) = self.reserve_spill(record.len() as u64)?;
        let written = file.write_at(u64::from(offset), &record);
        let lsn = Lsn(SPILL_FLAG | u64::from(number) << 32 | u64::from(offset));
        match written {
            Ok(()) => Ok(lsn),
            Err(error) => {
                self.release_spilled(lsn, record.len() as u64);
                Err(error)
            }
        }
    }

    /// Lets spilled bytes go; `size_bytes` as they were given to [`DiskJournal::spill`]. The file goes
    /// with its last bytes.
    pub fn unspill(&self, lsn: Lsn, size_bytes: usize) {
        self.release_spilled(lsn, (size_bytes + HEAD_BYTES) as u64);
    }

    fn reserve_spill(&self, bytes: u64) -> Result<(Arc<D::File>, u32, u32), DiskError> {
        let mut state = self.shared.spill.state.lock();
        let current = state.current;
        let fits = |file: &SpillFile<D::File>| file.size + bytes <= SPILL_FILE_BYTES;
        if !state.files.get(&current).is_some_and(fits) {
            let number = (current + 1) & (u32::MAX >> 1);
            let name = format!("{SPILL_PREFIX}{number}");
            let file = self.shared.disk.create(&name)?;
            self.shared.disk.remove(&name)?;
            state.files.retain(|_, file| file.live > 0);
            state.current = number;
            state.files.insert(
                number,
                SpillFile {
                    file: Arc::new(file),
                    size: 0,
                    live: 0,
                },
            );
        }
        let number = state.current;
        let Some(file) = state.files.get_mut(&number) else {
            unreachable!("the current file was found or made just now");
        };
        let offset = u32::try_from(file.size).unwrap_or(u32::MAX);
        file.size += bytes;
        file.live += 1;
        self.shared
            .spilled_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        Ok((Arc::clone(&file.file), number, offset))
    }

    fn release_spilled(&self, lsn: Lsn, bytes: u64) {
        let (number, _) = split(lsn);
        let mut state = self.shared.spill.state.lock();
        let current = state.current;
        if let Some(file) = state.files.get_mut(&number) {
            file.live = file.live.saturating_sub(1);
            self.shared
                .spilled_bytes
                .fetch_sub(bytes, Ordering::Relaxed);
            if file.live == 0 && number != current {
                state.files.remove(&number);
            }
        }
    }

    pub(super) fn read_spilled(&self, lsn: Lsn) -> Result<Bytes, ReadError> {
        let (number, offset) = split(lsn);
        let file = {
            let state = self.shared.spill.state.lock();
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

fn split(lsn: Lsn) -> (u32, u32) {
    let number = (lsn.0 & !SPILL_FLAG) >> 32;
    let offset = lsn.0 & u64::from(u32::MAX);
    let half = |half: u64| u32::try_from(half).unwrap_or(u32::MAX);
    (half(number), half(offset))
}
