//! Examination of a data directory: which checkpoint is valid, where the tail is cut, what is
//! damage. Part 8 of `docs/STORE_FORMAT.md`. Changes nothing.

use std::collections::BTreeSet;
use std::fmt;

use super::disk::DiskFile;
use super::error::DiskError;
use super::format::Checkpoint;
use super::load::{Directory, Loaded};
use super::prepare::segment_name;
use crate::base::{Lsn, Timestamp};

/// What was lost to damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// A stretch of a segment that is not records.
    Stretch,
    /// The end of a segment, or whole segments, before the file that is named.
    Before,
    /// The end record of a checkpoint: an earlier one is used, or none, and more is replayed.
    Checkpoint,
    /// A block of the checkpoint: the messages or names in it.
    Block,
    /// The end of the log, behind all that is left.
    End,
}

/// Records that were durable and cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// What was lost.
    pub lost: Lost,
    /// The file with the damage; empty if no file is left that would have it.
    pub file: String,
    /// Offset at which the damage begins, in bytes.
    pub from: u64,
    /// Offset at which the damage ends, in bytes.
    pub to: u64,
    /// The LSN of the last good record before it.
    pub after: Lsn,
    /// The LSN of the first good record behind it, if it is known.
    pub before: Option<Lsn>,
}

impl Damage {
    /// A record that is referred to and does not exist.
    pub(super) fn record<F>(segments: &[Loaded<F>], lost: Lost, lsn: Lsn) -> Self {
        let mut holds = segments.iter();
        let holds = holds.find(|segment| segment.header.base <= lsn && lsn <= segment.last);
        Self {
            lost,
            file: holds.map_or_else(String::new, |segment| segment_name(segment.header.id)),
            from: 0,
            to: 0,
            after: Lsn(lsn.0.saturating_sub(1)),
            before: Some(Lsn(lsn.0.saturating_add(1))),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        let file = if self.file.is_empty() {
            "a file that is gone"
        } else {
            &self.file
        };
        match self.lost {
            Lost::Stretch => write!(f, "{file}, bytes {from} to {to}: ")?,
            Lost::Before => write!(f, "missing before {file}: ")?,
            Lost::Checkpoint => write!(f, "the end of a checkpoint in {file}: ")?,
            Lost::Block => write!(f, "a block of the checkpoint in {file}: ")?,
            Lost::End => write!(f, "the log ends too early, in {file}: ")?,
        }
        write!(f, "what came after record {}", self.after.0)?;
        if let Some(before) = self.before {
            write!(f, " and before record {}", before.0)?;
        }
        write!(f, " had been durable and is lost")
    }
}

/// Where the log is cut because what follows was never confirmed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The file with the cut.
    pub file: String,
    /// Offset of the cut, in bytes.
    pub offset: u64,
    /// The LSN of the last record that stays.
    pub after: Lsn,
    /// Index of the segment in LSN order.
    pub(super) segment: usize,
}

/// The result of the examination.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// The end record of the valid checkpoint; 0: none.
    pub end: Lsn,
    pub checkpoint: Checkpoint,
    pub damage: Vec<Damage>,
    pub cut: Option<Cut>,
    /// The LSN up to which the disk is known to have been durable.
    pub durable: Lsn,
    /// The LSN of the last record that stays.
    pub last: Lsn,
    /// The highest LSN found anywhere, cut off or not.
    pub seen: Lsn,
    /// The last wall-clock time in the log.
    pub stamp: Option<Timestamp>,
    /// Whether the log ends with an orderly stop.
    pub closed: bool,
}

/// Finds the newest valid checkpoint, and the log that follows it.
pub(super) fn examine<F: DiskFile>(directory: &mut Directory<F>) -> Result<Verdict, DiskError> {
    let mut unreadable = Vec::new();
    let mut candidates: BTreeSet<Lsn> = BTreeSet::new();
    for segment in &directory.segments {
        let trailer = segment.trailer.iter();
        candidates.extend(trailer.flat_map(|trailer| [trailer.newest_end, trailer.end_in_force]));
        candidates.extend(segment.scan.iter().flat_map(|scan| &scan.ends));
    }
    while let Some(end) = candidates.pop_last().filter(|end| *end > Lsn(0)) {
        let Some(checkpoint) = directory.checkpoint(end)? else {
            unreadable.push(end);
            continue;
        };
        directory.scan_from(checkpoint.begin)?;
        let mut verdict = judge(directory, checkpoint.begin);
        if verdict.cut.as_ref().is_some_and(|cut| cut.after < end) {
            candidates.insert(checkpoint.previous);
            continue;
        }
        verdict.end = end;
        verdict.checkpoint = checkpoint;
        verdict.note_ends(&directory.segments, &unreadable);
        return Ok(verdict);
    }
    directory.scan_from(Lsn(0))?;
    let mut verdict = judge(directory, Lsn(0));
    verdict.note_ends(&directory.segments, &unreadable);
    Ok(verdict)
}

impl Verdict {
    /// Checks that the log reaches as far as it was durable; otherwise its end is damage.
    fn note_end<F>(&mut self, directory: &Directory<F>) {
        let told = |damage: &Damage| damage.after == self.last && damage.before.is_none();
        if directory.recorded_durable <= self.last || self.damage.last().is_some_and(told) {
            return;
        }
        let last = directory.segments.last();
        let end = last.map_or(0, |segment| segment.data_end).into();
        self.damage.push(Damage {
            lost: Lost::End,
            file: last.map_or_else(String::new, |segment| segment_name(segment.header.id)),
            from: end,
            to: end,
            after: self.last,
            before: None,
        });
    }

    /// An end record that cannot be read is damage, unless it was cut off with the tail.
    fn note_ends<F>(&mut self, segments: &[Loaded<F>], unreadable: &[Lsn]) {
        for end in unreadable.iter().filter(|end| **end <= self.last) {
            self.damage
                .push(Damage::record(segments, Lost::Checkpoint, *end));
        }
    }
}

/// Tells damage from the tail in all that was scanned.
fn judge<F: DiskFile>(directory: &Directory<F>, begin: Lsn) -> Verdict {
    let (segments, recorded_durable) = (&*directory.segments, directory.recorded_durable);
    let durable = known_durable(segments).max(recorded_durable);
    let mut verdict = Verdict {
        durable,
        seen: highest(segments).max(recorded_durable),
        ..Verdict::default()
    };
    for (number, segment) in segments.iter().enumerate() {
        let header = &segment.header;
        let previous = verdict.last;
        // Segments that a checkpoint covers may have been removed on purpose.
        if header.continues > previous && header.continues >= begin {
            if durable <= previous {
                verdict.cut = Some(cut_at(segments, number, 0, previous));
                return verdict;
            }
            verdict.damage.push(Damage {
                lost: Lost::Before,
                file: segment_name(header.id),
                from: 0,
                to: 0,
                after: previous,
                before: Some(header.base),
            });
        }
        if let Some(scan) = &segment.scan {
            for bad in &scan.bad {
                let covered = bad.next.is_some_and(|next| next <= begin);
                if durable <= bad.after && header.generation == 0 && !covered {
                    let offset = bad.offset.into();
                    verdict.cut = Some(cut_at(segments, number, offset, bad.after));
                    verdict.last = bad.after;
                    return verdict;
                }
                verdict.damage.push(Damage {
                    lost: Lost::Stretch,
                    file: segment_name(header.id),
                    from: bad.offset.into(),
                    to: bad.end.into(),
                    after: bad.after,
                    before: bad.next,
                });
            }
            verdict.stamp = scan.stamp.or(verdict.stamp);
            verdict.closed = scan.closed;
        }
        verdict.last = segment.last.max(verdict.last);
    }
    verdict.note_end(directory);
    verdict
}

fn known_durable<F>(segments: &[Loaded<F>]) -> Lsn {
    let trailers = segments
        .iter()
        .filter_map(|segment| segment.trailer.as_ref())
        .map(|trailer| trailer.durable);
    let commit_records = segments
        .iter()
        .filter_map(|segment| segment.scan.as_ref())
        .map(|scan| scan.durable);
    trailers.chain(commit_records).max().unwrap_or_default()
}

fn highest<F>(segments: &[Loaded<F>]) -> Lsn {
    let lasts = segments.iter().flat_map(|segment| {
        let scanned = segment.scan.as_ref().map(|scan| scan.last);
        [Some(segment.last), scanned, Some(segment.header.base)]
    });
    lasts.flatten().max().unwrap_or_default()
}

fn cut_at<F>(segments: &[Loaded<F>], number: usize, offset: u64, after: Lsn) -> Cut {
    Cut {
        file: segments
            .get(number)
            .map_or_else(String::new, |segment| segment_name(segment.header.id)),
        offset,
        after,
        segment: number,
    }
}
