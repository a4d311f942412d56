//! Counters of the store, read as a snapshot.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the buckets of the sync histogram, in microseconds; the last bucket is open.
pub const SYNC_BUCKETS_US: [u64; 11] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 200_000, 1_000_000,
];

/// A snapshot of a store's counters, since it was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StoreStats {
    /// Bytes of messages appended, those elided before they were written included.
    pub payload_bytes: u64,
    /// Bytes that the device wrote for them, in whole blocks: records, frames, commit records,
    /// indices and checkpoints.
    pub written_bytes: u64,
    /// Bytes written by rewriting sparse segments.
    pub rewritten_bytes: u64,
    /// Number of records written.
    pub records: u64,
    /// Records elided because their messages were settled before they were written.
    pub elided: u64,
    /// Number of commits written.
    pub commits: u64,
    /// Syncs of data.
    pub syncs: u64,
    /// Number of syncs by duration: one count per bucket of `SYNC_BUCKETS_US`, the last for longer
    /// ones.
    pub sync_buckets: [u64; SYNC_BUCKETS_US.len() + 1],
    /// Sum of the durations of all syncs, in microseconds.
    pub sync_us: u64,
    /// Number of checkpoints completed.
    pub checkpoints: u64,
    /// Segments removed because nothing in them was needed.
    pub segments_removed: u64,
    /// Number of segments rewritten.
    pub segments_rewritten: u64,
    /// Records that could not be read back.
    pub damaged: u64,
    /// Number of segments with records now.
    pub segments: u64,
    /// Bytes in these segments now.
    pub segment_bytes: u64,
    /// Estimated bytes of the records in them that are still referred to.
    pub live_bytes: u64,
    /// Number of records waiting to be written now.
    pub waiting_records: u64,
    /// Estimated bytes of these records.
    pub waiting_bytes: u64,
    /// Bytes spilled and not released now.
    pub spilled_bytes: u64,
}

/// The most telling counters, on one line.
impl std::fmt::Display for StoreStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "records={} elided={} syncs={} written-percent={} segments={} segment-bytes={} live-bytes={} \
             waiting-records={} waiting-bytes={} spilled-bytes={} checkpoints={}",
            self.records,
            self.elided,
            self.syncs,
            self.written_percent(),
            self.segments,
            self.segment_bytes,
            self.live_bytes,
            self.waiting_records,
            self.waiting_bytes,
            self.spilled_bytes,
            self.checkpoints,
        )
    }
}

impl StoreStats {
    /// Bytes written, rewriting included, per hundred bytes of payload; 0 before the first.
    pub fn written_percent(&self) -> u64 {
        let written = self.written_bytes + self.rewritten_bytes;
        (written * 100).checked_div(self.payload_bytes).unwrap_or(0)
    }
}

/// The counters behind a snapshot, shared by writer, journal and readers.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub payload_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub rewritten_bytes: AtomicU64,
    pub records: AtomicU64,
    pub elided: AtomicU64,
    pub commits: AtomicU64,
    pub syncs: AtomicU64,
    pub sync_buckets: [AtomicU64; SYNC_BUCKETS_US.len() + 1],
    pub sync_us: AtomicU64,
    pub checkpoints: AtomicU64,
    pub segments_removed: AtomicU64,
    pub segments_rewritten: AtomicU64,
    pub damaged: AtomicU64,
}

impl Counters {
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub fn observe_sync(&self, duration_us: u64) {
        let bucket = SYNC_BUCKETS_US.partition_point(|bound| *bound < duration_us);
        if let Some(bucket) = self.sync_buckets.get(bucket) {
            Self::add(bucket, 1);
        }
        Self::add(&self.sync_us, duration_us);
    }

    pub fn snapshot(&self) -> StoreStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = StoreStats {
            payload_bytes: read(&self.payload_bytes),
            written_bytes: read(&self.written_bytes),
            rewritten_bytes: read(&self.rewritten_bytes),
            records: read(&self.records),
            elided: read(&self.elided),
            commits: read(&self.commits),
            syncs: read(&self.syncs),
            sync_us: read(&self.sync_us),
            checkpoints: read(&self.checkpoints),
            segments_removed: read(&self.segments_removed),
            segments_rewritten: read(&self.segments_rewritten),
            damaged: read(&self.damaged),
            ..StoreStats::default()
        };
        for (to, from) in stats.sync_buckets.iter_mut().zip(&self.sync_buckets) {
            *to = read(from);
        }
        stats
    }
}
