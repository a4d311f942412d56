//! The file `DURABLE`: part 8 of `docs/STORE_FORMAT.md`. It has the last durable LSN beside the
//! log, so that the loss of confirmed records at the end of the log is noticed as damage.

use super::disk::{Disk, DiskFile, read_range};
use super::error::{DiskError, StoreError};
use super::format::Cursor;
use crate::base::{Lsn, Timestamp};

pub(super) const NAME: &str = "DURABLE";
const MAGIC: [u8; 8] = *b"CORONDUR";
const BYTES: usize = 32;
/// Shortest interval between two writes of the file, by the wall clock, in milliseconds.
const EVERY_MS: u64 = 1_000;

/// Writes the file. It is never synced: it may be late, it never promises too much.
#[derive(Debug)]
pub(super) struct DurableLsnFile<F> {
    file: Option<F>,
    written: Lsn,
    at: Option<Timestamp>,
}

impl<F> Default for DurableLsnFile<F> {
    fn default() -> Self {
        Self {
            file: None,
            written: Lsn(0),
            at: None,
        }
    }
}

impl<F: DiskFile> DurableLsnFile<F> {
    /// Whether it is time to write that the log is durable up to a record.
    pub(super) fn is_due(&self, durable: Lsn, wall: Timestamp) -> bool {
        let waited = self
            .at
            .is_none_or(|at| (wall.0 - at.0).unsigned_abs() >= EVERY_MS);
        durable > self.written && waited
    }

    /// Writes the LSN. A failed write is repeated the next time.
    pub(super) fn write<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        durable: Lsn,
        wall: Timestamp,
    ) -> Result<(), DiskError> {
        (self.written, self.at) = (durable, Some(wall));
        let file = match self.file.take() {
            Some(file) => file,
            None => disk.create(NAME)?,
        };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&durable.0.to_le_bytes());
        bytes.extend_from_slice(&wall.0.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        file.write_at(0, &bytes)?;
        self.file = Some(file);
        Ok(())
    }
}

/// The last durable LSN according to the file, 0 if there is none or it cannot be read.
pub(super) fn read<D: Disk>(disk: &D) -> Result<Lsn, StoreError> {
    if !disk.list()?.iter().any(|name| name == NAME) {
        return Ok(Lsn(0));
    }
    let bytes = read_range(&disk.open(NAME)?, 0, BYTES)?;
    Ok(decode(&bytes).unwrap_or_default())
}

fn decode(bytes: &[u8]) -> Option<Lsn> {
    let (written, crc) = bytes.split_last_chunk::<4>()?;
    let mut reader = Cursor(written);
    let whole = bytes.len() == BYTES && crc32c::crc32c(written) == u32::from_le_bytes(*crc);
    let known = reader.take(8)? == MAGIC;
    let durable = Lsn(reader.u64()?);
    (whole && known).then_some(durable)
}
