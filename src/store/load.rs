//! Loading the content of a data directory, without changing anything.

use std::sync::Arc;

use super::disk::{Disk, DiskFile, read_range};
use super::durable_lsn_file;
use super::error::{DiskError, StoreError};
use super::format::{
    Agreed, Checkpoint, CommitRecord, Cursor, FLAG_CLOSED, HEADER_BYTES, Header, HeaderError,
    RecordKind, TRAILER_BYTES, Trailer, VERSION,
};
use super::frames::each_found;
use super::index::Index;
use super::prepare::{TEMPORARY_SUFFIX, segment_id, segment_name};
use super::scan::{Ending, Scanned, Scanner};
use super::spill::SPILL_PREFIX;
use crate::base::{Lsn, Timestamp};

/// The content of a data directory.
#[derive(Debug)]
pub(super) struct Directory<F> {
    /// Segments with a valid header, by id.
    pub segments: Vec<Loaded<F>>,
    /// Names of segments whose header is damaged, or does not fit its neighbours.
    pub unreadable: Vec<String>,
    /// Names of prepared segments and of leftovers of a crash: to be removed.
    pub leftovers: Vec<String>,
    /// The last durable LSN according to the file `DURABLE`.
    pub recorded_durable: Lsn,
    /// A number above every segment id in use.
    pub next_id: u64,
    /// Bytes read so far.
    pub bytes_read: u64,
}

/// One segment as found.
#[derive(Debug)]
pub(super) struct Loaded<F> {
    pub header: Header,
    pub crc: u32,
    pub file: Arc<F>,
    pub size: u64,
    /// The trailer; none if the segment is not sealed.
    pub trailer: Option<Trailer>,
    /// The index, from the trailer or from a scan.
    pub index: Index,
    pub data_end: u32,
    pub last: Lsn,
    /// The result of a scan; none if it was not scanned.
    pub scan: Option<Scan>,
}

/// What a scan found besides the index.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    pub bad: Vec<Bad>,
    /// The highest "known durable" LSN of its commit records.
    pub durable: Lsn,
    /// The last wall-clock time of its commit records.
    pub stamp: Option<Timestamp>,
    pub ends: Vec<Lsn>,
    pub last: Lsn,
    /// Whether the last record is the commit record of an orderly stop.
    pub closed: bool,
    pub records: u64,
    pub named_bytes: u64,
    /// The LSN of the first record that only a node of a cluster writes.
    pub of_cluster: Option<Lsn>,
}

/// A stretch of bytes that is not a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bad {
    pub offset: u32,
    pub end: u32,
    /// The LSN of the last good record before it.
    pub after: Lsn,
    /// The LSN of the first good record behind it, in this segment.
    pub next: Option<Lsn>,
}

/// Reads headers and indices of all segments, and scans those without an index.
pub(super) fn load<D: Disk>(disk: &D) -> Result<Directory<D::File>, StoreError> {
    let mut directory = Directory {
        segments: Vec::new(),
        unreadable: Vec::new(),
        leftovers: Vec::new(),
        recorded_durable: durable_lsn_file::read(disk)?,
        next_id: 1,
        bytes_read: 0,
    };
    let mut ids = Vec::new();
    for name in disk.list()? {
        if let Some(id) = segment_id(&name) {
            ids.push(id);
        } else if name.ends_with(TEMPORARY_SUFFIX) || name.starts_with(SPILL_PREFIX) {
            directory.leftovers.push(name);
        } else if let Some(id) = name.strip_suffix(DAMAGED_SUFFIX).and_then(segment_id) {
            directory.next_id = directory.next_id.max(id.saturating_add(1));
        }
    }
    ids.sort_unstable();
    for id in ids {
        directory.next_id = directory.next_id.max(id.saturating_add(1));
        directory.load_segment(disk, id)?;
    }
    Ok(directory)
}

impl<F: DiskFile> Directory<F> {
    fn load_segment<D: Disk<File = F>>(&mut self, disk: &D, id: u64) -> Result<(), StoreError> {
        let name = segment_name(id);
        let file = disk.open(&name)?;
        let head = read_range(&file, 0, HEADER_BYTES)?;
        let (header, crc) = match Header::decode(&head) {
            Ok(read) if read.0.id == id => read,
            Ok(_) | Err(HeaderError::Damaged) => {
                self.unreadable.push(name);
                return Ok(());
            }
            // Without its header nothing in it was ever synced, so nothing in it was confirmed.
            Err(HeaderError::Blank) => {
                self.leftovers.push(name);
                return Ok(());
            }
            Err(HeaderError::Newer(found)) => {
                return Err(StoreError::NewerVersion {
                    name,
                    found: found.into(),
                    supported: VERSION.into(),
                });
            }
        };
        let mut loaded = Loaded {
            last: header.continues,
            header,
            crc,
            size: file.size()?,
            file: Arc::new(file),
            trailer: None,
            index: Index::default(),
            data_end: 0,
            scan: None,
        };
        self.bytes_read += HEADER_BYTES as u64;
        match loaded.read_trailer()? {
            Some(bytes) => self.bytes_read += bytes,
            None => self.bytes_read += loaded.scan()?,
        }
        // LSNs rise from segment to segment. One that does not follow was put there from outside.
        let before = self.segments.last().map_or(Lsn(0), |before| before.last);
        if loaded.header.base <= before.max(loaded.header.continues) || loaded.last < before {
            self.unreadable.push(name);
        } else {
            self.segments.push(loaded);
        }
        Ok(())
    }

    /// Scans every segment with LSNs from `begin` on that was not scanned yet.
    pub fn scan_from(&mut self, begin: Lsn) -> Result<(), DiskError> {
        for segment in &mut self.segments {
            if segment.scan.is_none() && segment.last >= begin {
                self.bytes_read += segment.scan()?;
            }
        }
        Ok(())
    }

    /// Fails if a node of a cluster wrote here: what it knew of other nodes would be forgotten.
    pub fn refuse_cluster(&self) -> Result<(), StoreError> {
        let scans = self.segments.iter().filter_map(|segment| {
            let lsn = segment.scan.as_ref()?.of_cluster?;
            Some((segment_name(segment.header.id), lsn))
        });
        match scans.into_iter().next() {
            Some((name, record)) => Err(StoreError::OfCluster { name, record }),
            None => Ok(()),
        }
    }

    /// Reads one record.
    pub fn read(&self, lsn: Lsn) -> Result<Option<(RecordKind, Vec<u8>)>, DiskError> {
        let number = self
            .segments
            .partition_point(|segment| segment.header.base <= lsn);
        let segment = number.checked_sub(1).and_then(|n| self.segments.get(n));
        match segment {
            Some(segment) => segment.read(lsn),
            None => Ok(None),
        }
    }

    /// Reads the end record of a checkpoint.
    pub fn checkpoint(&self, end: Lsn) -> Result<Option<Checkpoint>, DiskError> {
        let record = self.read(end)?;
        Ok(record
            .filter(|(kind, _)| *kind == RecordKind::End)
            .and_then(|(_, payload)| Checkpoint::decode(&payload)))
    }
}

impl<F: DiskFile> Loaded<F> {
    /// Reads trailer and index; returns the number of bytes read, none if there is no valid
    /// trailer.
    fn read_trailer(&mut self) -> Result<Option<u64>, DiskError> {
        let Some(at) = self.size.checked_sub(TRAILER_BYTES as u64) else {
            return Ok(None);
        };
        let tail = read_range(&*self.file, at, TRAILER_BYTES)?;
        let Some(trailer) = Trailer::decode(self.crc, &tail) else {
            return Ok(None);
        };
        let length = at.saturating_sub(u64::from(trailer.data_end));
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        let bytes = read_range(&*self.file, u64::from(trailer.data_end), length)?;
        if crc32c::crc32c_append(self.crc, &bytes) != trailer.index_crc {
            return Ok(None);
        }
        let Some(index) = Index::decode(&bytes) else {
            return Ok(None);
        };
        self.index = index;
        self.last = trailer.last;
        self.data_end = trailer.data_end;
        self.trailer = Some(trailer);
        Ok(Some((length + TRAILER_BYTES) as u64))
    }

    /// Scans all frames; returns the number of bytes read.
    fn scan(&mut self) -> Result<u64, DiskError> {
        let ending = match self.trailer {
            Some(_) => Ending::Exact,
            None => Ending::Blank,
        };
        let mut scan = Scan {
            last: self.header.continues,
            ..Scan::default()
        };
        let mut index = Index::default();
        let mut data_end = HEADER_BYTES;
        let read_bytes = self.each_found(ending, |found| match found {
            Scanned::Frame {
                offset,
                frame,
                payload,
            } => {
                let lsn = self.lsn(frame.delta);
                if let Some(bad) = scan.bad.last_mut() {
                    bad.next.get_or_insert(lsn);
                }
                index.push(frame.delta, u32::try_from(offset).unwrap_or(u32::MAX));
                scan.note(lsn, frame.kind, frame.flags, payload);
                if frame.kind == RecordKind::Body
                    && let Some(pieces) = Cursor(payload).list()
                {
                    index.push_pieces(frame.delta, pieces.into());
                }
                data_end = offset + frame.span();
            }
            Scanned::Bad { offset, end } => scan.bad.push(Bad {
                offset: u32::try_from(offset).unwrap_or(u32::MAX),
                end: u32::try_from(end).unwrap_or(u32::MAX),
                after: scan.last,
                next: None,
            }),
        })?;
        if self.trailer.is_none() {
            self.index = index;
            self.last = scan.last;
            self.data_end = u32::try_from(data_end).unwrap_or(u32::MAX);
        }
        self.scan = Some(scan);
        Ok(read_bytes)
    }

    /// Visits its frames and bad stretches, also behind the frames unless it is known where they
    /// end; returns the number of bytes read.
    pub fn each_found(
        &self,
        ending: Ending,
        take: impl FnMut(Scanned<'_>),
    ) -> Result<u64, DiskError> {
        let end = if self.trailer.is_some() || self.scan.is_some() {
            self.data_end.into()
        } else {
            self.size
        };
        each_found(&*self.file, self.crc, (end, ending), take)
    }

    pub fn lsn(&self, delta: u32) -> Lsn {
        Lsn(self.header.base.0.saturating_add(delta.into()))
    }

    fn read(&self, lsn: Lsn) -> Result<Option<(RecordKind, Vec<u8>)>, DiskError> {
        let delta = lsn.0.checked_sub(self.header.base.0);
        let Some(delta) = delta.and_then(|delta| u32::try_from(delta).ok()) else {
            return Ok(None);
        };
        let Some((from, to)) = self.index.place(delta, self.data_end) else {
            return Ok(None);
        };
        let length = to.saturating_sub(from) as usize;
        let bytes = read_range(&*self.file, from.into(), length)?;
        for found in Scanner::new(&bytes, self.crc, 0, Ending::Exact) {
            if let Scanned::Frame { frame, payload, .. } = found
                && frame.delta == delta
            {
                return Ok(Some((frame.kind, payload.to_vec())));
            }
        }
        Ok(None)
    }

    /// Whether it was written before a crash or a stop and never sealed.
    pub fn is_open(&self) -> bool {
        self.trailer.is_none()
    }
}

impl Scan {
    fn note(&mut self, lsn: Lsn, kind: RecordKind, flags: u8, payload: &[u8]) {
        self.last = lsn;
        self.records += 1;
        self.closed = kind == RecordKind::CommitRecord && flags & FLAG_CLOSED != 0;
        if flags & super::format::FLAG_NAMED != 0 {
            self.named_bytes += payload.len() as u64;
        }
        match kind {
            RecordKind::CommitRecord => {
                if let Some(commit_record) = CommitRecord::decode(payload) {
                    self.durable = self.durable.max(commit_record.durable);
                    // The last one, not the highest: a clock that was ahead may have been set back.
                    self.stamp = Some(commit_record.wall);
                    if commit_record.agreed != Agreed::default() {
                        self.of_cluster.get_or_insert(lsn);
                    }
                }
            }
            RecordKind::End => self.ends.push(lsn),
            RecordKind::Consensus => drop(self.of_cluster.get_or_insert(lsn)),
            RecordKind::Facts | RecordKind::Body | RecordKind::Piece | RecordKind::Block => {}
        }
    }
}

/// Suffix of the names of segments with a damaged header.
pub(super) const DAMAGED_SUFFIX: &str = ".damaged";
