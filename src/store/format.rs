//! Encoding of segment header, frames, index and trailer: parts 3 and 4 of `docs/STORE_FORMAT.md`.

use crate::base::{Lsn, Timestamp, invariant};

/// The format version that this program writes, and the newest that it reads.
pub const VERSION: u16 = 1;
/// Bytes of a segment header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a frame in front of its payload.
pub const FRAME_BYTES: usize = 16;
/// Bytes of a trailer.
pub const TRAILER_BYTES: usize = 56;
/// Payload bytes of a commit record before its padding.
pub const COMMIT_RECORD_BYTES: usize = 40;
/// Frames begin at multiples of this, in bytes.
pub const ALIGNMENT: usize = 8;
/// Frame flag: the record is kept until it is released.
pub const FLAG_NAMED: u8 = 1;
/// Frame flag: the commit record of an orderly stop.
pub const FLAG_CLOSED: u8 = 2;

/// Bytes of a frame's head that its half CRC covers, behind the whole CRC.
const VOUCHED_BYTES: usize = 10;
const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];
const HEADER_MAGIC: [u8; 8] = *b"CORONSEG";
const TRAILER_MAGIC: [u8; 8] = *b"CORONEND";
const HEADER_FLAG_REWRITTEN: u32 = 1;

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// It closes a commit.
    CommitRecord,
    /// Facts, perhaps with a body.
    Facts,
    /// A streamed body, or the last piece of one.
    Body,
    /// A piece of a body, except the last.
    Piece,
    /// A slice of a checkpoint.
    Block,
    /// The end of a complete checkpoint.
    End,
    /// An entry of a cluster's consensus: no version of this program writes one yet, and none reads it.
    Consensus,
}

impl RecordKind {
    /// The byte for it in a frame.
    pub const fn code(self) -> u8 {
        match self {
            Self::CommitRecord => 1,
            Self::Facts => 2,
            Self::Body => 3,
            Self::Piece => 4,
            Self::Block => 5,
            Self::End => 6,
            Self::Consensus => 7,
        }
    }

    /// The kind that a byte stands for; none: no kind.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::CommitRecord),
            2 => Some(Self::Facts),
            3 => Some(Self::Body),
            4 => Some(Self::Piece),
            5 => Some(Self::Block),
            6 => Some(Self::End),
            7 => Some(Self::Consensus),
            _ => None,
        }
    }
}

/// The header of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The segment's id, which is also the file's name.
    pub id: u64,
    /// The LSN from which frames count theirs.
    pub base: Lsn,
    /// LSN of the last record before this segment.
    pub continues: Lsn,
    /// Wall-clock time at which it was opened.
    pub wall: Timestamp,
    /// A random number, part of every CRC, by which old frames in a reused file are recognised.
    pub seed: u32,
    /// Number of times it was rewritten.
    pub generation: u32,
}

/// Why a header was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// All zeros, or no bytes at all: a prepared segment.
    Blank,
    /// The checksum is wrong.
    Damaged,
    /// It has this version, which is newer than this program's.
    Newer(u16),
}

impl Header {
    /// The bytes, and the CRC from which every other CRC of the segment continues.
    pub fn encode(&self) -> ([u8; HEADER_BYTES], u32) {
        let flags = if self.generation > 0 {
            HEADER_FLAG_REWRITTEN
        } else {
            0
        };
        let mut bytes = [0; HEADER_BYTES];
        let mut out = Filler(&mut bytes);
        out.put(&HEADER_MAGIC);
        out.put(&VERSION.to_le_bytes());
        out.put(&HEADER_LENGTH.to_le_bytes());
        out.put(&flags.to_le_bytes());
        out.put(&self.id.to_le_bytes());
        out.put(&self.base.0.to_le_bytes());
        out.put(&self.continues.0.to_le_bytes());
        out.put(&self.wall.0.to_le_bytes());
        out.put(&self.seed.to_le_bytes());
        out.put(&self.generation.to_le_bytes());
        out.put(&[0; 4]);
        let (covered, _) = bytes.split_at(HEADER_BYTES - 4);
        let crc = crc32c::crc32c(covered);
        Filler(&mut bytes[HEADER_BYTES - 4..]).put(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// Reads a header from the beginning of a segment; returns its CRC too.
    pub fn decode(input: &[u8]) -> Result<(Self, u32), HeaderError> {
        let Some(head) = input.get(..HEADER_BYTES) else {
            let blank = input.iter().all(|byte| *byte == 0);
            return Err(if blank {
                HeaderError::Blank
            } else {
                HeaderError::Damaged
            });
        };
        if head.iter().all(|byte| *byte == 0) {
            return Err(HeaderError::Blank);
        }
        let mut reader = Cursor(head);
        let read = Self::read(&mut reader).ok_or(HeaderError::Damaged)?;
        let (covered, _) = head.split_at(HEADER_BYTES - 4);
        let crc = crc32c::crc32c(covered);
        let (header, version, found) = read;
        if found != crc {
            return Err(HeaderError::Damaged);
        }
        if version > VERSION {
            return Err(HeaderError::Newer(version));
        }
        Ok((header, crc))
    }

    fn read(reader: &mut Cursor<'_>) -> Option<(Self, u16, u32)> {
        if reader.take(8)? != HEADER_MAGIC {
            return None;
        }
        let version = reader.u16()?;
        let _length_and_flags = reader.take(6)?;
        let header = Self {
            id: reader.u64()?,
            base: Lsn(reader.u64()?),
            continues: Lsn(reader.u64()?),
            wall: Timestamp(reader.i64()?),
            seed: reader.u32()?,
            generation: reader.u32()?,
        };
        let _reserved = reader.u32()?;
        Some((header, version, reader.u32()?))
    }
}

const HEADER_LENGTH: u16 = 64;

/// The head of a frame, in front of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// LSN minus the segment's base.
    pub delta: u32,
    /// The kind of record.
    pub kind: RecordKind,
    /// [`FLAG_NAMED`], [`FLAG_CLOSED`], or 0.
    pub flags: u8,
    /// Bytes of the payload.
    pub length: u32,
    crc: u32,
}

impl Frame {
    /// Bytes it takes in the file: head, payload, padding.
    pub const fn span(&self) -> usize {
        frame_span(self.length as usize)
    }

    /// Reads the head of a frame; none if there is none whose checksum is right.
    pub fn decode(segment_crc: u32, input: &[u8]) -> Option<Self> {
        let head = input.get(..FRAME_BYTES)?;
        let kind = RecordKind::from_code(*head.get(12)?)?;
        let mut reader = Cursor(head);
        let crc = reader.u32()?;
        let length = reader.u32()?;
        let delta = reader.u32()?;
        let flags = *reader.take(2)?.get(1)?;
        let check = reader.u16()?;
        let trusted = low_half(crc32c::crc32c_append(segment_crc, head.get(4..14)?)) == check;
        trusted.then_some(Self {
            delta,
            kind,
            flags,
            length,
            crc,
        })
    }

    /// The payload behind the head at the beginning of `input`, if its checksum is right.
    pub fn payload<'a>(&self, segment_crc: u32, input: &'a [u8]) -> Option<&'a [u8]> {
        let covered = input.get(4..FRAME_BYTES + self.length as usize)?;
        if crc32c::crc32c_append(segment_crc, covered) != self.crc {
            return None;
        }
        covered.get(FRAME_BYTES - 4..)
    }
}

/// Bytes that a frame with this payload takes in the file.
pub const fn frame_span(payload_bytes: usize) -> usize {
    (FRAME_BYTES + payload_bytes).next_multiple_of(ALIGNMENT)
}

/// Appends an empty head of a frame to `out`; [`end_frame`] fills it in.
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_BYTES]);
    start
}

/// Closes the frame that began at `start`, whose payload is now behind it.
pub fn end_frame(
    out: &mut Vec<u8>,
    start: usize,
    segment_crc: u32,
    delta: u32,
    kind: RecordKind,
    flags: u8,
) {
    invariant!(
        out.len() >= start + FRAME_BYTES,
        "a record that ends has a head"
    );
    let length = out.len().saturating_sub(start + FRAME_BYTES);
    assert!(
        u32::try_from(length).is_ok(),
        "a record is limited by its segment, which is below 4 GiB"
    );
    let length = length as u64;
    if let Some(frame) = out.get_mut(start..) {
        write_head(frame, length, segment_crc, delta, [kind.code(), flags]);
    }
    let padding = out.len().next_multiple_of(ALIGNMENT) - out.len();
    out.extend_from_slice(ZEROS.get(..padding).unwrap_or_default());
}

/// Fills in the head of a frame whose payload is complete.
fn write_head(frame: &mut [u8], length: u64, segment_crc: u32, delta: u32, kind: [u8; 2]) {
    let Some((crc_place, covered)) = frame.split_at_mut_checked(4) else {
        return;
    };
    let Some((vouched, rest)) = covered.split_at_mut_checked(VOUCHED_BYTES) else {
        return;
    };
    let mut fill = Filler(vouched);
    fill.put(&length.to_le_bytes()[..4]);
    fill.put(&delta.to_le_bytes());
    fill.put(&kind);
    let crc = crc32c::crc32c_append(segment_crc, vouched);
    Filler(rest).put(&low_half(crc).to_le_bytes());
    // The whole CRC continues from the half: no byte is read twice.
    let crc = crc32c::crc32c_append(crc, rest);
    Filler(crc_place).put(&crc.to_le_bytes());
}

/// The payload of a commit record, which closes a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitRecord {
    /// Wall-clock time of the commit.
    pub wall: Timestamp,
    /// The LSN up to which the disk was known to be durable before.
    pub durable: Lsn,
    /// The entry of a cluster's consensus; all 0 without a cluster.
    pub agreed: Agreed,
}

/// The entry of a cluster's consensus that a commit is. All 0: this node stood alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreed {
    /// The term of the entry.
    pub term: u64,
    /// The node that led in that term.
    pub leader: u64,
    /// The index of the entry in the consensus log.
    pub index: u64,
}

impl CommitRecord {
    /// Appends its payload, and `padding` zeros.
    pub fn encode(self, padding: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.wall.0.to_le_bytes());
        out.extend_from_slice(&self.durable.0.to_le_bytes());
        let Agreed {
            term,
            leader,
            index,
        } = self.agreed;
        for number in [term, leader, index] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.resize(out.len() + padding, 0);
    }

    /// Reads the payload, whatever padding it has; none if fields are missing.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = Cursor(payload);
        Some(Self {
            wall: Timestamp(reader.i64()?),
            durable: Lsn(reader.u64()?),
            agreed: Agreed {
                term: reader.u64()?,
                leader: reader.u64()?,
                index: reader.u64()?,
            },
        })
    }
}

/// The payload of an end record: a complete checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checkpoint {
    /// Facts from this LSN on are replayed over the blocks.
    pub begin: Lsn,
    /// The highest LSN assigned when its last block was copied.
    pub seen: Lsn,
    /// The end record of the checkpoint before; 0: none.
    pub previous: Lsn,
    /// Its blocks, in the order in which they are restored.
    pub blocks: Vec<Lsn>,
}

impl Checkpoint {
    /// Appends its payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.begin.0.to_le_bytes());
        out.extend_from_slice(&self.seen.0.to_le_bytes());
        out.extend_from_slice(&self.previous.0.to_le_bytes());
        encode_list(&self.blocks, out);
    }

    /// Reads the payload; none if it is not one.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = Cursor(payload);
        Some(Self {
            begin: Lsn(reader.u64()?),
            seen: Lsn(reader.u64()?),
            previous: Lsn(reader.u64()?),
            blocks: reader.list()?,
        })
    }
}

/// Appends a list of LSNs with its length in front.
pub fn encode_list(list: &[Lsn], out: &mut Vec<u8>) {
    let count = u32::try_from(list.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&count.to_le_bytes());
    for lsn in list.iter().take(count as usize) {
        out.extend_from_slice(&lsn.0.to_le_bytes());
    }
}

/// The trailer, at the end of a sealed segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trailer {
    /// LSN of the segment's last record.
    pub last: Lsn,
    /// The newest checkpoint end up to there; not known to be durable.
    pub newest_end: Lsn,
    /// The end of the checkpoint that was in force when the segment was sealed; durable.
    pub end_in_force: Lsn,
    /// The LSN known durable when the segment was sealed.
    pub durable: Lsn,
    /// Offset at which the index begins, in bytes.
    pub data_end: u32,
    /// CRC of the index.
    pub index_crc: u32,
}

impl Trailer {
    /// The encoded trailer.
    pub fn encode(&self, segment_crc: u32) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        let mut out = Filler(&mut bytes);
        out.put(&TRAILER_MAGIC);
        out.put(&self.last.0.to_le_bytes());
        out.put(&self.newest_end.0.to_le_bytes());
        out.put(&self.end_in_force.0.to_le_bytes());
        out.put(&self.durable.0.to_le_bytes());
        out.put(&self.data_end.to_le_bytes());
        out.put(&[0; 4]);
        out.put(&self.index_crc.to_le_bytes());
        let (covered, _) = bytes.split_at(TRAILER_BYTES - 4);
        let crc = crc32c::crc32c_append(segment_crc, covered);
        Filler(&mut bytes[TRAILER_BYTES - 4..]).put(&crc.to_le_bytes());
        bytes
    }

    /// Reads the last bytes of a file; none if it is not sealed.
    pub fn decode(segment_crc: u32, input: &[u8]) -> Option<Self> {
        let mut reader = Cursor(input);
        if reader.take(8)? != TRAILER_MAGIC {
            return None;
        }
        let last = Lsn(reader.u64()?);
        let newest_end = Lsn(reader.u64()?);
        let end_in_force = Lsn(reader.u64()?);
        let durable = Lsn(reader.u64()?);
        let data_end = reader.u32()?;
        let _reserved = reader.u32()?;
        let index_crc = reader.u32()?;
        let crc = crc32c::crc32c_append(segment_crc, input.get(..TRAILER_BYTES - 4)?);
        (reader.u32()? == crc).then_some(Self {
            last,
            newest_end,
            end_in_force,
            durable,
            data_end,
            index_crc,
        })
    }
}

/// Reads numbers from the front of a slice; each method returns none at its end.
#[derive(Debug)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    /// The next number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// The next number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// The next signed number of eight bytes.
    pub fn i64(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A list of LSNs with its length in front; the length is believed only as far as there are
    /// bytes.
    pub fn list(&mut self) -> Option<Vec<Lsn>> {
        let count = self.u32()? as usize;
        let bytes = self.take(count.checked_mul(8)?)?;
        let numbers = bytes.chunks_exact(8).filter_map(|n| n.try_into().ok());
        Some(numbers.map(|n| Lsn(u64::from_le_bytes(n))).collect())
    }
}

/// Fills a fixed buffer from its front.
struct Filler<'a>(&'a mut [u8]);

impl Filler<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let buffer = std::mem::take(&mut self.0);
        if let Some((place, rest)) = buffer.split_at_mut_checked(bytes.len()) {
            place.copy_from_slice(bytes);
            self.0 = rest;
        }
    }
}

fn low_half(crc: u32) -> u16 {
    let [low, high, ..] = crc.to_le_bytes();
    u16::from_le_bytes([low, high])
}
