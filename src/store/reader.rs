//! Reading records back by LSN, on the caller's thread.

use bytes::Bytes;

use super::buffer::Payload;
use super::disk::{Disk, read_range};
use super::error::ReadError;
use super::format::{Cursor, RecordKind};
use super::journal::DiskJournal;
use super::scan::{Ending, Scanned, Scanner};
use super::segments::RecordLocation;
use super::spill::is_spilled;
use super::stats::Counters;
use crate::base::Lsn;

/// Distance between two records up to which they are read with one read, in bytes.
const GAP_BYTES: u32 = 64 * 1024;
/// Bytes of one read at most, unless one block is larger.
const READ_BYTES_MAX: u32 = 1024 * 1024;

/// A record found in the file, before its pieces are joined.
struct Raw {
    kind: RecordKind,
    payload: Bytes,
}

impl<P: Payload, D: Disk> DiskJournal<P, D> {
    /// Reads one record: the payload of facts or a block, or a whole body; spilled bytes too.
    pub fn read(&self, lsn: Lsn) -> Result<Bytes, ReadError> {
        let mut all = self.read_many(&[lsn]);
        all.pop().unwrap_or(Err(ReadError::Unknown(lsn)))
    }

    /// Whether a body was streamed in pieces.
    pub fn is_in_pieces(&self, body: Lsn) -> bool {
        self.pieces_of(body)
            .is_some_and(|pieces| !pieces.is_empty())
    }

    /// Reads the piece of this number of a body, from 0 on; the bytes of its own record come last.
    /// None behind that.
    ///
    /// When it cannot be read, is not written yet, or was released.
    pub fn read_piece(&self, body: Lsn, number: usize) -> Result<Option<Bytes>, ReadError> {
        let pieces = self.pieces_of(body).unwrap_or_default();
        if let Some(piece) = pieces.get(number) {
            return self.read(*piece).map(Some);
        }
        if number > pieces.len() {
            return Ok(None);
        }
        let mut raw = self.read_raw(&[body]);
        let raw = raw.pop().unwrap_or(Err(ReadError::Unknown(body)))?;
        let mut reader = Cursor(&raw.payload);
        if raw.kind != RecordKind::Body || reader.list().is_none() {
            return Err(ReadError::Damaged(body));
        }
        Ok(Some(raw.payload.slice_ref(reader.0)))
    }

    /// The LSNs of a body's pieces before its own record.
    fn pieces_of(&self, body: Lsn) -> Option<Box<[Lsn]>> {
        let segments = self.shared.segments.read();
        let segment = segments.find(body)?;
        Some(segment.index.pieces(segment.delta(body)?).into())
    }

    pub(super) fn read_many(&self, lsns: &[Lsn]) -> Vec<Result<Bytes, ReadError>> {
        let raw = self.read_raw(lsns);
        let joined = lsns.iter().zip(raw).map(|(lsn, raw)| {
            let payload = raw.and_then(|raw| self.join(*lsn, raw));
            if matches!(payload, Err(ReadError::Damaged(_))) {
                Counters::add(&self.shared.counters.damaged, 1);
            }
            payload
        });
        joined.collect()
    }

    fn read_raw(&self, lsns: &[Lsn]) -> Vec<Result<Raw, ReadError>> {
        let mut answers: Vec<Result<Raw, ReadError>> = lsns
            .iter()
            .map(|lsn| Err(ReadError::Unknown(*lsn)))
            .collect();
        let mut wanted = Vec::with_capacity(lsns.len());
        {
            let segments = self.shared.segments.read();
            let last = segments.list.last().map_or(Lsn(0), |segment| segment.last);
            for ((number, lsn), answer) in lsns.iter().enumerate().zip(&mut answers) {
                if is_spilled(*lsn) {
                    continue;
                }
                match segments.place(*lsn) {
                    Some(place) => wanted.push((number, *lsn, place)),
                    None if *lsn > last => *answer = Err(ReadError::NotWritten(*lsn)),
                    None => {}
                }
            }
        }
        for (lsn, answer) in lsns.iter().zip(&mut answers) {
            if is_spilled(*lsn) {
                *answer = self.shared.spill.read(*lsn).map(|payload| Raw {
                    kind: RecordKind::Facts,
                    payload,
                });
            }
        }
        wanted.sort_by_key(|(_, lsn, _)| *lsn);
        let mut rest = wanted.as_slice();
        while let Some((group, after)) = rest.split_at_checked(group_length(rest)) {
            if group.is_empty() {
                break;
            }
            for (number, answer) in read_group(group) {
                if let Some(place) = answers.get_mut(number) {
                    *place = answer;
                }
            }
            rest = after;
        }
        answers
    }

    /// The body of a record, its pieces joined.
    fn join(&self, lsn: Lsn, raw: Raw) -> Result<Bytes, ReadError> {
        if raw.kind != RecordKind::Body {
            return Ok(raw.payload);
        }
        let mut reader = Cursor(&raw.payload);
        let pieces = reader.list().ok_or(ReadError::Damaged(lsn))?;
        let own = raw.payload.slice_ref(reader.0);
        if pieces.is_empty() {
            return Ok(own);
        }
        let mut whole = Vec::new();
        for piece in self.read_raw(&pieces) {
            match piece {
                Ok(piece) => whole.extend_from_slice(&piece.payload),
                Err(ReadError::Disk(error)) => return Err(error.into()),
                Err(_) => return Err(ReadError::Damaged(lsn)),
            }
        }
        whole.extend_from_slice(&own);
        Ok(whole.into())
    }
}

type Wanted<F> = (usize, Lsn, RecordLocation<F>);

/// How many of the first locations are read with one read.
fn group_length<F>(wanted: &[Wanted<F>]) -> usize {
    let Some((_, _, first)) = wanted.first() else {
        return 0;
    };
    let mut end = first.to;
    let mut length = 0;
    for (_, _, place) in wanted {
        let near = place.segment == first.segment
            && place.crc == first.crc
            && place.from <= end.saturating_add(GAP_BYTES)
            && place.to.saturating_sub(first.from) <= READ_BYTES_MAX;
        if !near && length > 0 {
            break;
        }
        end = end.max(place.to);
        length += 1;
    }
    length
}

/// Reads neighbouring locations with one read.
fn read_group<F: super::disk::DiskFile>(
    group: &[Wanted<F>],
) -> Vec<(usize, Result<Raw, ReadError>)> {
    let Some((_, _, first)) = group.first() else {
        return Vec::new();
    };
    let from = first.from;
    let end = group.iter().map(|(_, _, place)| place.to).max();
    let length = end.unwrap_or(from).saturating_sub(from) as usize;
    let bytes = match read_range(&*first.file, u64::from(from), length) {
        Ok(bytes) => Bytes::from(bytes),
        Err(error) => {
            let fail = |wanted: &Wanted<F>| (wanted.0, Err(ReadError::Disk(error.clone())));
            return group.iter().map(fail).collect();
        }
    };
    let mut answers: Vec<_> = group
        .iter()
        .map(|(number, lsn, _)| (*number, Err(ReadError::Damaged(*lsn))))
        .collect();
    let mut next = 0;
    let mut copied = Vec::new();
    for found in Scanner::new(&bytes, first.crc, 0, Ending::Exact) {
        let Scanned::Frame { frame, payload, .. } = found else {
            continue;
        };
        while group
            .get(next)
            .is_some_and(|(_, _, place)| place.delta < frame.delta)
        {
            next += 1;
        }
        while let Some((_, _, place)) = group.get(next)
            && place.delta == frame.delta
        {
            if let Some((_, answer)) = answers.get_mut(next) {
                *answer = Ok(Raw {
                    kind: frame.kind,
                    payload: bytes.slice_ref(payload),
                });
                copied.push(payload.len());
            }
            next += 1;
        }
    }
    // A slice keeps all bytes of the read alive: only worth it if most of them are wanted.
    if copied.iter().sum::<usize>() < bytes.len() / 2 {
        for (_, answer) in &mut answers {
            if let Ok(raw) = answer {
                raw.payload = Bytes::copy_from_slice(&raw.payload);
            }
        }
    }
    answers
}
