//! Entry point for fuzzing of recovery: any bytes in a data directory, opened, used and opened
//! again.

use super::buffer::{Body, Payload};
use super::contract::Journal;
use super::error::StoreError;
use super::format::{Header, RecordKind, begin_frame, end_frame};
use super::options::StoreOptions;
use super::prepare::segment_name;
use super::recovery::{Restored, open};
use super::sim_disk::SimDisk;
use crate::base::{Lsn, Timestamp};

const SEGMENT_BYTES: u32 = 64 * 1024;
/// Longest input, in bytes; more adds nothing but time.
const INPUT_BYTES_MAX: usize = 256 * 1024;

struct Opaque(Vec<u8>);

impl Payload for Opaque {
    fn size_hint(&self) -> usize {
        self.0.len()
    }

    fn body(&self) -> Body {
        Body::Carried
    }

    type Before = ();

    fn encode_after(&self, (): &mut (), out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// Opens a directory made of `data`: must not panic, must restore the same twice, and must be able
/// to go on. The first byte chooses between raw bytes as a segment and frames with right checksums
/// and hostile content, as written by an attacker who knows the format.
pub fn fuzz_recovery(data: &[u8]) {
    let data = data.get(..INPUT_BYTES_MAX).unwrap_or(data);
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    let disk = SimDisk::default();
    if mode & 1 == 0 {
        disk.put(&segment_name(1), rest);
    } else {
        for (id, part) in (1..).zip(rest.split(|byte| *byte == b'|').take(4)) {
            disk.put(&segment_name(id), &forged_segment(id, part));
        }
    }
    let Some(first) = restored(&disk) else {
        return;
    };
    let second = restored(&disk);
    assert_eq!(
        second.as_ref(),
        Some(&first),
        "opening twice restores the same"
    );
    assert_eq!(use_it(&disk), Ok(()), "what was opened can be used");
    let third = restored(&disk);
    let kept = third.is_some_and(|third| first.iter().all(|fact| third.contains(fact)));
    assert!(kept, "what was restored stays");
}

type Facts = Vec<(Lsn, Vec<u8>)>;

/// The restored facts; none if the directory is refused (a newer version).
fn restored(disk: &SimDisk) -> Option<Facts> {
    let mut facts = Facts::new();
    let opened = open::<Opaque, _>(disk.clone(), options(), 1, |restored| match restored {
        Restored::Stamp(_) => {}
        Restored::Block { lsn, payload } | Restored::Facts { lsn, payload } => {
            facts.push((lsn, payload.to_vec()));
        }
    });
    match opened {
        Ok(_) => Some(facts),
        Err(_) => None,
    }
}

/// Reads every named record, and writes another one.
fn use_it(disk: &SimDisk) -> Result<(), StoreError> {
    let mut lsns = Vec::new();
    let mut restoring = open::<Opaque, _>(disk.clone(), options(), 2, |restored| match restored {
        Restored::Stamp(_) => {}
        Restored::Block { lsn, .. } | Restored::Facts { lsn, .. } => lsns.push(lsn),
    })?;
    for lsn in &lsns {
        restoring.retain(*lsn);
    }
    let (journal, mut writer) = restoring.start();
    let _ = journal.read_batch(&lsns);
    let (lsn, _) = journal.append(Opaque(b"fuzz".to_vec()));
    writer.write(Timestamp(1))?;
    writer.sync()?;
    writer.maintain(usize::MAX)?;
    assert!(journal.durable_lsn() >= lsn, "a commit makes durable");
    assert!(
        journal.read_batch(&[lsn]).iter().all(Result::is_ok),
        "it is read back"
    );
    writer.close(Timestamp(2))
}

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: SEGMENT_BYTES,
        ..StoreOptions::default()
    }
}

/// Frames with good CRCs from: kind (1), flags (1), LSN step (1), length (1), payload.
fn forged_segment(id: u64, recipe: &[u8]) -> Vec<u8> {
    let (head, mut rest) = recipe.split_at_checked(3).unwrap_or((recipe, &[]));
    let byte = |at: usize| u64::from(head.get(at).copied().unwrap_or(0));
    let header = Header {
        id,
        base: Lsn(byte(0) * id),
        continues: Lsn(byte(1)),
        wall: Timestamp(0),
        seed: 7,
        generation: u32::from(byte(2) > 200),
    };
    let (bytes, crc) = header.encode();
    let mut out = bytes.to_vec();
    let mut delta = 0;
    while let [kind, flags, step, length, after @ ..] = rest {
        let (payload, after) = after
            .split_at_checked((*length).into())
            .unwrap_or((after, &[]));
        let start = begin_frame(&mut out);
        out.extend_from_slice(payload);
        let kind = RecordKind::from_code(*kind % 8).unwrap_or(RecordKind::Facts);
        end_frame(&mut out, start, crc, delta, kind, *flags);
        delta += u32::from(*step);
        rest = after;
    }
    out
}
