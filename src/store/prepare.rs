//! Preparation of segments before they are needed, and the state when the disk has no room for one.

use super::buffer::Payload;
use super::contract::StoreState;
use super::disk::{Disk, DiskFile};
use super::error::{DiskError, DiskErrorKind};
use super::format::HEADER_BYTES;
use super::options::ROOM_FAILURES_MAX;
use super::writer::Writer;

/// A blank segment whose space is reserved.
#[derive(Debug)]
pub(super) struct Prepared<F> {
    pub id: u64,
    pub file: F,
}

/// A dead segment, under its old name until it is prepared again.
#[derive(Debug)]
pub(super) struct Recycled<F> {
    pub name: String,
    pub file: F,
}

impl<P: Payload, D: Disk> Writer<P, D> {
    /// Prepares segments until enough are reserved, or the disk is full.
    pub(super) fn prepare_segments(&mut self) {
        while !self.no_room && self.prepared.len() < self.options.reserved_segments {
            self.prepare_one();
        }
    }

    /// Prepares one segment. A failure changes the state to full and leaves no file behind.
    pub(super) fn prepare_one(&mut self) {
        let id = self.next_id;
        let name = segment_name(id);
        let (disk, bytes) = (&self.shared.disk, self.options.segment_bytes);
        let prepared = match self.recycled.pop() {
            Some(old) => prepare_again(disk, old, &name, bytes),
            None => prepare(disk, &name, bytes),
        };
        match prepared {
            Ok(file) => {
                self.next_id += 1;
                self.no_room = false;
                self.room_failures = 0;
                self.prepared.push_back(Prepared { id, file });
                self.have_room();
            }
            Err(error) => {
                // A leftover is found blank at the next start, and removed then.
                let _ = self.shared.disk.remove(&name);
                self.no_room = true;
                self.lack_room(&error);
            }
        }
    }

    /// Notes that the disk gave no room for what is to be written. If it is full, that passes; a
    /// disk that fails each time for another reason counts as failed, and waiting for room on it
    /// ends.
    pub(super) fn lack_room(&mut self, error: &DiskError) {
        if error.kind == DiskErrorKind::Full {
            self.room_failures = 0;
        } else {
            self.room_failures += 1;
            if self.room_failures >= ROOM_FAILURES_MAX {
                self.poison(error.clone());
                return;
            }
        }
        if self.shared.state() == StoreState::Open {
            self.shared.set_state(StoreState::Full);
            tracing::warn!(%error, "no room for another journal segment: publishers stop");
        }
    }

    /// Notes that there was room, and whether all that is to be reserved is.
    pub(super) fn have_room(&self) {
        if self.prepared.len() >= self.options.reserved_segments
            && self.shared.state() == StoreState::Full
        {
            self.shared.set_state(StoreState::Open);
            tracing::info!("there is room for the journal again: publishers go on");
        }
    }

    /// Notes that there may be room again: the next [`Writer::maintain`] tries. To be called now
    /// and then while the state is full.
    pub fn retry_room(&mut self) {
        self.no_room = false;
    }
}

fn prepare<D: Disk>(disk: &D, name: &str, bytes: u32) -> Result<D::File, DiskError> {
    let file = disk.create(name)?;
    file.preallocate(u64::from(bytes))?;
    file.sync()?;
    disk.sync_directory()?;
    Ok(file)
}

/// Makes a dead segment a prepared one. A reader of its old content finds frames with wrong
/// checksums, as in a file that was cut.
fn prepare_again<D: Disk>(
    disk: &D,
    old: Recycled<D::File>,
    name: &str,
    bytes: u32,
) -> Result<D::File, DiskError> {
    let blank = || {
        // Its old name must be gone before its header is.
        disk.sync_directory()?;
        old.file.write_at(0, &[0; HEADER_BYTES])?;
        old.file.preallocate(u64::from(bytes))?;
        old.file.sync()?;
        old.file.drop_cache();
        disk.rename(&old.name, name)?;
        disk.sync_directory()
    };
    if let Err(error) = blank() {
        // A leftover is removed at the next start.
        let _ = disk.remove(&old.name);
        return Err(error);
    }
    Ok(old.file)
}

/// The file name of a segment.
pub(super) fn segment_name(id: u64) -> String {
    format!("{id:016x}{SEGMENT_SUFFIX}")
}

/// The file name of a segment while it is rewritten.
pub(super) fn temporary_name(id: u64) -> String {
    format!("{id:016x}{TEMPORARY_SUFFIX}")
}

/// The id in the file name of a segment; none if it is not one.
pub(super) fn segment_id(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != 16 || !digits.bytes().all(lower) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Suffix of the names of segments.
pub(super) const SEGMENT_SUFFIX: &str = ".seg";
/// Suffix of the names of segments that are being rewritten.
pub(super) const TEMPORARY_SUFFIX: &str = ".tmp";
