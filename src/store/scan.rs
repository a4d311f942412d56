//! Scanning of a segment's frames, with resynchronisation behind bad bytes.

use super::format::{ALIGNMENT, Frame};

/// One item found in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scanned<'a> {
    /// A frame with right checksums.
    Frame {
        /// Offset at which it begins.
        offset: usize,
        /// The head of the frame.
        frame: Frame,
        /// The payload of the frame.
        payload: &'a [u8],
    },
    /// A stretch of bytes that is not a frame.
    Bad {
        /// Offset at which it begins.
        offset: usize,
        /// Offset at which the next good frame begins, or the bytes end.
        end: usize,
    },
}

impl Scanned<'_> {
    /// The same item, with `by` added to its offsets.
    #[must_use]
    pub fn moved(self, by: u64) -> Self {
        let by = usize::try_from(by).unwrap_or(usize::MAX);
        match self {
            Self::Frame {
                offset,
                frame,
                payload,
            } => Self::Frame {
                offset: offset.saturating_add(by),
                frame,
                payload,
            },
            Self::Bad { offset, end } => Self::Bad {
                offset: offset.saturating_add(by),
                end: end.saturating_add(by),
            },
        }
    }
}

/// The meaning of the end of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The frames must reach it (a sealed segment, or part of one).
    Exact,
    /// Zeros before it are room for more (an open segment).
    Blank,
    /// The segment continues beyond these bytes: the first incomplete frame ends the scan.
    Torn,
}

/// Iterates over the frames of a part of a segment, in order.
#[derive(Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    segment_crc: u32,
    offset: usize,
    last: Option<u32>,
    ending: Ending,
}

impl<'a> Scanner<'a> {
    /// Begins at `offset`, which must be where a frame begins.
    pub const fn new(bytes: &'a [u8], segment_crc: u32, offset: usize, ending: Ending) -> Self {
        Self {
            bytes,
            segment_crc,
            offset,
            last: None,
            ending,
        }
    }

    /// Accepts only records behind this one, where another scan ended.
    #[must_use]
    pub const fn behind(mut self, last: Option<u32>) -> Self {
        self.last = last;
        self
    }

    /// The good frame at `offset`, if there is one behind the last.
    fn frame_at(&self, offset: usize) -> Option<(Frame, &'a [u8])> {
        let rest = self.bytes.get(offset..)?;
        let frame = Frame::decode(self.segment_crc, rest)?;
        if self.last.is_some_and(|last| frame.delta <= last) {
            return None;
        }
        let payload = frame.payload(self.segment_crc, rest)?;
        Some((frame, payload))
    }

    /// The offset of the next good frame after the bad bytes at `offset`.
    fn resume_after(&self, offset: usize) -> usize {
        let head = self
            .bytes
            .get(offset..)
            .and_then(|rest| Frame::decode(self.segment_crc, rest));
        if let Some(head) = head {
            let next = offset + head.span();
            if self.frame_at(next).is_some() {
                return next;
            }
        }
        let mut next = offset + ALIGNMENT;
        while next < self.bytes.len() {
            if self.frame_at(next).is_some() {
                return next;
            }
            next += ALIGNMENT;
        }
        self.bytes.len()
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Scanned<'a>;

    fn next(&mut self) -> Option<Scanned<'a>> {
        let offset = self.offset;
        if offset >= self.bytes.len() {
            return None;
        }
        if let Some((frame, payload)) = self.frame_at(offset) {
            self.offset = offset + frame.span();
            self.last = Some(frame.delta);
            return Some(Scanned::Frame {
                offset,
                frame,
                payload,
            });
        }
        if self.ending == Ending::Torn {
            return None;
        }
        let end = self.resume_after(offset);
        self.offset = end;
        let rest = self.bytes.get(offset..).unwrap_or_default();
        if end == self.bytes.len() && self.ending == Ending::Blank && is_blank(rest) {
            return None;
        }
        Some(Scanned::Bad { offset, end })
    }
}

/// Whether all bytes are zero.
pub fn is_blank(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| *chunk == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::format::{RecordKind, begin_frame, end_frame};

    const CRC: u32 = 0x1234_5678;

    fn frames(count: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for delta in 0..count {
            let start = begin_frame(&mut bytes);
            bytes.extend_from_slice(format!("record {delta}").as_bytes());
            end_frame(&mut bytes, start, CRC, delta, RecordKind::Facts, 0);
        }
        bytes
    }

    fn good(bytes: &[u8], ending: Ending) -> (Vec<u32>, usize) {
        let mut deltas = Vec::new();
        let mut bad = 0;
        for found in Scanner::new(bytes, CRC, 0, ending) {
            match found {
                Scanned::Frame { frame, .. } => deltas.push(frame.delta),
                Scanned::Bad { .. } => bad += 1,
            }
        }
        (deltas, bad)
    }

    #[test]
    fn a_changed_byte_costs_one_record_and_no_other() {
        let clean = frames(5);
        for offset in 0..clean.len() {
            let mut bytes = clean.clone();
            bytes[offset] ^= 0x40;
            let (deltas, bad) = good(&bytes, Ending::Exact);
            assert!(deltas.len() >= 4, "byte {offset}: {deltas:?}");
            assert!(bad <= 1, "byte {offset}");
        }
    }

    #[test]
    fn zeros_end_an_open_segment_and_are_bad_in_a_sealed_one() {
        let mut bytes = frames(2);
        bytes.resize(bytes.len() + 64, 0);
        assert_eq!(good(&bytes, Ending::Blank), (vec![0, 1], 0));
        assert_eq!(good(&bytes, Ending::Exact), (vec![0, 1], 1));
    }

    #[test]
    fn a_hole_of_zeros_before_good_frames_is_bad() {
        let mut bytes = frames(3);
        bytes[24..48].fill(0);
        assert_eq!(good(&bytes, Ending::Blank), (vec![0, 2], 1));
    }

    #[test]
    fn frames_of_another_segment_are_none() {
        let bytes = frames(3);
        let found: Vec<_> = Scanner::new(&bytes, CRC + 1, 0, Ending::Blank).collect();
        assert_eq!(
            found,
            [Scanned::Bad {
                offset: 0,
                end: bytes.len()
            }]
        );
    }
}
