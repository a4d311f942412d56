//! Housekeeping of the writer between commits: preparing segments, applying releases, completing
//! checkpoints, removing and rewriting segments.

use std::sync::Arc;

use super::buffer::{Payload, Running, Slot};
use super::disk::Disk;
use super::error::{DiskError, StoreError};
use super::prepare::{Recycled, segment_name, temporary_name};
use super::segments::{Near, Segment};
use super::stats::Counters;
use super::writer::{Current, Writer};
use crate::base::Lsn;

/// Free space of a disk with plenty of room, in segments.
const PLENTY_SEGMENTS: u64 = 32;
/// Releases applied in one step: readers wait meanwhile.
const RELEASES_AT_ONCE: usize = 4_096;
/// Such steps in one call at most: together as many releases as messages are settled in a second.
const RELEASES_TIMES_MAX: usize = 64;

/// What [`Writer::maintain`] leaves to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maintained {
    /// Nothing until something is written or released.
    Idle,
    /// More: call it again soon.
    More,
}

impl<P: Payload, D: Disk> Writer<P, D> {
    /// Does one step of housekeeping; to be called after each commit and now and then. Rewriting
    /// reads and writes about `io_bytes` at most.
    pub fn maintain(&mut self, io_bytes: usize) -> Result<Maintained, StoreError> {
        self.check()?;
        self.spare_room();
        self.prepare_segments();
        let released_all = self.apply_releases();
        let checkpoint_waits = self.advance_checkpoint()?;
        let removed = self.remove_dead();
        let rewriting = self.rewrite_step(io_bytes);
        let more = !released_all || checkpoint_waits || removed || rewriting;
        Ok(if more {
            Maintained::More
        } else {
            Maintained::Idle
        })
    }

    /// Applies the releases that are durable. False if some of those are left.
    fn apply_releases(&mut self) -> bool {
        let synced = self.progress.synced;
        for _ in 0..RELEASES_TIMES_MAX {
            let (due, all) = {
                let mut buffer = self.shared.buffer.lock();
                buffer.due_releases(synced, RELEASES_AT_ONCE)
            };
            if !due.is_empty() {
                let mut segments = self.shared.segments.write();
                // A dead letter lets go of two records, that of its death and that of its publish:
                // each is near the one before the last.
                let (mut near, mut other) = (Near::default(), Near::default());
                for body in due {
                    segments.release_near(body, &mut near);
                    std::mem::swap(&mut near, &mut other);
                }
            }
            if all {
                return true;
            }
        }
        false
    }

    /// Appends the end record of a checkpoint when the log is durable past all that the checkpoint
    /// has read, and puts it in force when the end record is durable. True if there is something to
    /// write or sync for it.
    fn advance_checkpoint(&mut self) -> Result<bool, StoreError> {
        let waits = {
            let buffer = self.shared.buffer.lock();
            buffer
                .running
                .as_ref()
                .is_some_and(|running| running.copied)
        };
        if !waits {
            return Ok(false);
        }
        // Whatever the policy: what replaces records must be on the device before they are removed.
        if self.is_unsynced() {
            self.sync()?;
        }
        let synced = self.progress.synced;
        let done = {
            let mut buffer = self.shared.buffer.lock();
            let Some(running) = &mut buffer.running else {
                return Ok(false);
            };
            match running.end {
                None if running.checkpoint.seen <= synced => {
                    running.checkpoint.previous = self.current.end;
                    let checkpoint = running.checkpoint.clone();
                    let (end, _) = buffer.push(Slot::End(checkpoint));
                    if let Some(running) = &mut buffer.running {
                        running.end = Some(end);
                    }
                    None
                }
                Some(end) if end <= synced => buffer.running.take(),
                _ => None,
            }
        };
        let Some(running) = done else {
            return Ok(true);
        };
        self.put_in_force(running);
        Ok(false)
    }

    fn put_in_force(&mut self, running: Running) {
        let new = Current {
            end: running.end.unwrap_or_default(),
            checkpoint: running.checkpoint,
            newest_end: self.current.newest_end,
        };
        let old = std::mem::replace(&mut self.current, new);
        let mut kept: Vec<Lsn> = self.current.checkpoint.blocks.clone();
        kept.sort_unstable();
        let mut segments = self.shared.segments.write();
        for block in old.checkpoint.blocks {
            if kept.binary_search(&block).is_err() {
                segments.release(block);
            }
        }
        segments.release(old.end);
        Counters::add(&self.shared.counters.checkpoints, 1);
    }

    /// Facts below this LSN are covered by the checkpoint in force.
    pub(super) fn covered(&self) -> Lsn {
        self.current.checkpoint.begin
    }

    /// Removes dead segments. True if there were any.
    fn remove_dead(&mut self) -> bool {
        let covered = self.covered();
        if !self.has_dead(covered) {
            return false;
        }
        let mut dead: Vec<Segment<D::File>> = Vec::new();
        {
            let mut segments = self.shared.segments.write();
            dead.extend(
                segments
                    .list
                    .extract_if(.., |segment| segment.is_dead(covered)),
            );
        }
        for segment in dead {
            if self
                .rewrite
                .as_ref()
                .is_some_and(|rewrite| rewrite.id() == segment.id)
            {
                self.abandon_rewrite();
            }
            // If it stays or reappears, the next start finds it dead again.
            if let Err(error) = self.recycle_or_remove(segment) {
                tracing::warn!(%error, "a dead journal segment was not removed");
            }
            Counters::add(&self.shared.counters.segments_removed, 1);
        }
        self.no_room = false;
        true
    }

    /// Keeps a dead segment for reuse, if it has the regular size, nobody reads it just now, not
    /// too many are kept, and the disk has plenty of room; otherwise removes it.
    fn recycle_or_remove(&mut self, segment: Segment<D::File>) -> Result<(), DiskError> {
        let name = segment_name(segment.id);
        let most = self.options.segment_bytes;
        let is_full_enough = (most / 2..=most).contains(&segment.data_end);
        if is_full_enough
            && self.has_plenty()
            && self.recycled.len() < self.options.recycled_segments
            && let Ok(file) = Arc::try_unwrap(segment.file)
        {
            let new = temporary_name(segment.id);
            self.shared.disk.rename(&name, &new)?;
            self.recycled.push(Recycled { name: new, file });
            return Ok(());
        }
        self.shared.disk.remove(&name)
    }

    /// Whether the disk has so much room that dead segments may stay for reuse.
    fn has_plenty(&self) -> bool {
        let plenty = u64::from(self.options.segment_bytes) * PLENTY_SEGMENTS;
        let free = self.shared.disk.free_bytes();
        free.is_ok_and(|free_bytes| free_bytes >= plenty)
    }

    /// Removes segments kept for reuse as soon as the room may be needed.
    fn spare_room(&mut self) {
        if self.recycled.is_empty() || self.has_plenty() {
            return;
        }
        for old in std::mem::take(&mut self.recycled) {
            // If it stays, the next start removes it.
            let _ = self.shared.disk.remove(&old.name);
        }
    }

    fn has_dead(&self, covered: Lsn) -> bool {
        let segments = self.shared.segments.read();
        segments.list.iter().any(|segment| segment.is_dead(covered))
    }
}
