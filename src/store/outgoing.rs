//! The buffer of records on their way into a segment, in whole blocks of the device.
//!
//! ```text
//!  | lead | written before | fresh ............ | zeros |
//!         ^ at a block of file and memory               ^ at a block
//! ```
//!
//! A write begins and ends at a block, so that the system can pass it to the device as it is. The
//! last block is usually not full: it is written again, with what follows.

use super::format::{RecordKind, begin_frame, end_frame};
use super::options::WRITE_BYTES_MAX;

/// The end of one file, as far as it is not written or not in a whole block.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// Bytes in front of those that belong to the file, so that these begin at a block of memory.
    lead: usize,
    /// Of the bytes behind the lead, how many are in the file already.
    written: usize,
    /// Offset in the file of the bytes behind the lead: at a block.
    offset: usize,
    block: usize,
}

impl Outgoing {
    /// An empty buffer; `block` is a power of 2.
    pub fn new(block: u32) -> Self {
        Self {
            bytes: Vec::new(),
            lead: 0,
            written: 0,
            offset: 0,
            block: block as usize,
        }
    }

    /// Starts again with the first byte of a file.
    pub fn begin(&mut self) {
        self.bytes.truncate(self.lead);
        (self.offset, self.written) = (0, 0);
    }

    /// Offset in the file of the next byte.
    pub fn end(&self) -> usize {
        self.offset + self.bytes.len() - self.lead
    }

    /// Number of bytes that are not in the file yet.
    pub fn fresh_bytes(&self) -> usize {
        self.bytes.len() - self.lead - self.written
    }

    /// Appends bytes to the file's end.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a frame whose head is not filled in yet; returns its offset in the file, and the
    /// bytes of its payload.
    pub fn begin_frame(&mut self, payload: impl FnOnce(&mut Vec<u8>)) -> (usize, usize) {
        let begin = self.end();
        begin_frame(&mut self.bytes);
        let before = self.bytes.len();
        payload(&mut self.bytes);
        (begin, self.bytes.len() - before)
    }

    /// Fills in the head of the last frame, which begins at offset `begin`.
    pub fn end_frame(&mut self, begin: usize, crc: u32, delta: u32, kind: RecordKind, flags: u8) {
        let start = self.index(begin);
        end_frame(&mut self.bytes, start, crc, delta, kind, flags);
    }

    /// Removes what is at offset `end` and behind it.
    pub fn cut(&mut self, end: usize) {
        self.bytes.truncate(self.index(end));
    }

    /// The offset and the bytes of the next write: whole blocks, with zeros behind the end, but
    /// nothing behind `room` except what must be.
    pub fn blocks(&mut self, room: usize) -> (usize, &[u8]) {
        let end = self.end();
        let padded = end.next_multiple_of(self.block).min(room.max(end));
        self.align();
        self.bytes.resize(self.index(padded), 0);
        (self.offset, self.bytes.get(self.lead..).unwrap_or_default())
    }

    /// Notes that the blocks are written, and that their valid bytes end at `end`: the last block
    /// is kept, unless it is full.
    pub fn wrote(&mut self, end: usize) {
        let start = end - end % self.block;
        let kept = self.index(start)..self.index(end);
        self.written = kept.len();
        self.bytes.copy_within(kept, self.lead);
        self.bytes.truncate(self.lead + self.written);
        self.bytes.shrink_to(2 * WRITE_BYTES_MAX);
        self.offset = start;
    }

    /// The index in the buffer of an offset in the file.
    const fn index(&self, offset: usize) -> usize {
        offset - self.offset + self.lead
    }

    /// Moves the bytes that belong to the file to a block of memory, if they are not at one.
    fn align(&mut self) {
        // Capacity for a lead and for zeros, so that nothing moves once it is aligned.
        self.bytes.reserve(2 * self.block);
        let lead = self.bytes.as_ptr().align_offset(self.block) % self.block;
        if lead == self.lead {
            return;
        }
        let length = self.bytes.len() - self.lead;
        self.bytes.resize(self.bytes.len().max(lead + length), 0);
        self.bytes.copy_within(self.lead..self.lead + length, lead);
        self.bytes.truncate(lead + length);
        self.lead = lead;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 4_096;

    /// Appends pieces of these lengths, each written at once, and gives what is then in the file, and
    /// the bytes of each write.
    fn write(lengths: &[usize], room: usize) -> (Vec<u8>, Vec<usize>) {
        let (mut file, mut writes) = (Vec::new(), Vec::new());
        let mut out = Outgoing::new(u32::try_from(BLOCK).unwrap());
        out.begin();
        for (number, length) in (1..).zip(lengths) {
            out.extend(&vec![number; *length]);
            let end = out.end();
            let (offset, bytes) = out.blocks(room);
            assert_eq!(offset % BLOCK, 0, "a write begins at a block");
            assert_eq!(bytes.as_ptr().align_offset(BLOCK), 0, "of memory, too");
            file.resize(file.len().max(offset + bytes.len()), 0xff);
            file[offset..offset + bytes.len()].copy_from_slice(bytes);
            writes.push(bytes.len());
            out.wrote(end);
            assert_eq!((out.end(), out.fresh_bytes()), (end, 0));
        }
        (file, writes)
    }

    #[test]
    fn what_was_appended_stands_in_the_file_in_whole_blocks() {
        let lengths = [1, 4_095, 1, 10_000, 3_000_000, 77, 4_096, 200_000];
        let (file, writes) = write(&lengths, usize::MAX);
        let pieces = (1u8..).zip(lengths);
        let expect: Vec<u8> = pieces.flat_map(|(number, n)| vec![number; n]).collect();
        let (content, zeros) = file.split_at(expect.len());
        assert!(content == expect && zeros.iter().all(|byte| *byte == 0));
        assert!(writes.iter().all(|length| length % BLOCK == 0));
        assert_eq!(
            writes[..3],
            [BLOCK, BLOCK, BLOCK],
            "one block is enough for these"
        );
    }

    #[test]
    fn zeros_do_not_go_beyond_the_room_and_bytes_do() {
        assert_eq!(write(&[5_000], 6_000).1, [6_000]);
        assert_eq!(write(&[7_000], 6_000).1, [7_000]);
    }

    #[test]
    fn a_frame_that_is_taken_back_leaves_nothing() {
        let mut out = Outgoing::new(u32::try_from(BLOCK).unwrap());
        out.extend(&[1; 100]);
        let (begin, length) = out.begin_frame(|bytes| bytes.extend_from_slice(&[2; 50]));
        assert_eq!((begin, length), (100, 50));
        out.cut(begin);
        assert_eq!((out.end(), out.fresh_bytes()), (100, 100));
    }
}
