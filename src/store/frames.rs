//! Reading the frames of a segment in pieces: a start takes little memory, however large segments
//! are.

use super::disk::{DiskFile, read_range};
use super::error::DiskError;
use super::format::HEADER_BYTES;
use super::scan::{Ending, Scanned, Scanner, is_blank};

/// Bytes of one read, unless a frame or what is left behind bad bytes is longer.
const READ_BYTES: u64 = 1024 * 1024;

/// Visits what a [`Scanner`] would find in the bytes of a segment behind its header and before
/// `end`. Returns how many bytes were read.
pub(super) fn each_found<F: DiskFile>(
    file: &F,
    segment_crc: u32,
    (end, ending): (u64, Ending),
    mut take: impl FnMut(Scanned<'_>),
) -> Result<u64, DiskError> {
    let mut from = HEADER_BYTES as u64;
    let mut length = READ_BYTES;
    let mut last = None;
    let mut read_bytes = 0;
    while from < end {
        let wanted = length.min(end - from);
        let bytes = read_range(file, from, usize::try_from(wanted).unwrap_or(usize::MAX))?;
        let count = bytes.len() as u64;
        read_bytes += count;
        let is_rest = count < wanted || from + count >= end;
        let ending_here = if is_rest { ending } else { Ending::Torn };
        let mut good_bytes = 0;
        for found in Scanner::new(&bytes, segment_crc, 0, ending_here).behind(last) {
            if let Scanned::Frame { offset, frame, .. } = found {
                good_bytes = (offset + frame.span()) as u64;
                last = Some(frame.delta);
            }
            take(found.moved(from));
        }
        if is_rest {
            break;
        }
        from += good_bytes;
        length = if good_bytes > 0 {
            READ_BYTES
        } else {
            length.saturating_mul(2)
        };
        if good_bytes == 0 && ending == Ending::Blank && is_blank_between(file, from, end)? {
            break;
        }
    }
    Ok(read_bytes)
}

/// Whether the file has only zeros between two offsets.
fn is_blank_between<F: DiskFile>(file: &F, from: u64, end: u64) -> Result<bool, DiskError> {
    let mut from = from;
    while from < end {
        let wanted = READ_BYTES.min(end - from);
        let bytes = read_range(file, from, usize::try_from(wanted).unwrap_or(usize::MAX))?;
        if !is_blank(&bytes) {
            return Ok(false);
        }
        if bytes.is_empty() {
            break;
        }
        from += bytes.len() as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::Disk;
    use crate::store::format::{RecordKind, begin_frame, end_frame};
    use crate::store::sim_disk::SimDisk;

    const CRC: u32 = 0x1234_5678;

    /// A header's worth of bytes, and frames with payloads so long.
    fn segment(payloads: &[usize]) -> Vec<u8> {
        let mut bytes = vec![1; HEADER_BYTES];
        for (delta, length) in (0..).zip(payloads) {
            let start = begin_frame(&mut bytes);
            bytes.resize(bytes.len() + length, 7);
            end_frame(&mut bytes, start, CRC, delta, RecordKind::Facts, 0);
        }
        bytes
    }

    fn check(bytes: &[u8], ending: Ending) {
        let disk = SimDisk::default();
        let file = disk.create("segment").unwrap();
        file.write_at(0, bytes).unwrap();
        let mut found = Vec::new();
        let end = (bytes.len() as u64, ending);
        each_found(&file, CRC, end, |one| found.push(format!("{one:?}"))).unwrap();
        let at_once = Scanner::new(bytes, CRC, HEADER_BYTES, ending);
        let at_once: Vec<_> = at_once.map(|one| format!("{one:?}")).collect();
        assert!(
            found == at_once,
            "{} instead of {}",
            found.len(),
            at_once.len()
        );
    }

    #[test]
    fn what_is_read_in_pieces_is_what_is_read_at_once() {
        let mebibyte = usize::try_from(READ_BYTES).unwrap();
        let many = segment(&[100_000; 40]);
        let long = segment(&[10, 3 * mebibyte, 10, mebibyte, 10]);
        for mut bytes in [many, long] {
            check(&bytes, Ending::Exact);
            check(&bytes, Ending::Blank);
            let middle = bytes.len() / 2;
            let torn = bytes.len() - 5;
            check(&bytes[..torn], Ending::Exact);
            for changed in [middle, torn, HEADER_BYTES] {
                bytes[changed] ^= 0x40;
                check(&bytes, Ending::Exact);
                bytes[changed] ^= 0x40;
            }
            bytes.resize(bytes.len() + 3 * mebibyte, 0);
            check(&bytes, Ending::Blank);
            check(&bytes, Ending::Exact);
            let garbage = bytes.len() - 100;
            bytes[garbage] = 1;
            check(&bytes, Ending::Blank);
        }
        check(&segment(&[]), Ending::Blank);
    }
}
