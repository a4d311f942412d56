//! Options of a store.

/// When written data is synced, and what a confirmation promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncPolicy {
    /// Confirmed means on the device: survives a power cut. The default.
    #[default]
    Always,
    /// Confirmed means with the operating system, and on the device within the interval. Survives
    /// the death of the process; a power cut may lose the last interval.
    Interval {
        /// Interval of syncs, in milliseconds.
        every_ms: u64,
    },
    /// Confirmed means with the operating system, on the device at some time. Survives the death of
    /// the process. Checkpoints are synced all the same, so a power cut never loses more than what
    /// came after the last one.
    Never,
}

/// Sizes and policies of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreOptions {
    /// Size of a segment, in bytes. A larger record gets a segment of its own. Default: 32 MiB.
    pub segment_bytes: u32,
    /// Segments kept prepared, so that settlements can be written on a full disk. Default: 2.
    pub reserved_segments: usize,
    /// Dead segments kept for reuse: syncs of blocks that were written before are much faster.
    /// Default: 4.
    pub recycled_segments: usize,
    /// Smallest unit that the device writes, in bytes: a small commit is padded to the end of its
    /// block when the next of its size would touch two. A power of 2. Default: 4 KiB.
    pub device_block_bytes: u32,
    /// When to sync. Default: always.
    pub sync: SyncPolicy,
    /// A sealed segment with less than this percentage of live bytes is rewritten. Default: 40. 0:
    /// never.
    pub rewrite_below_percent: u32,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 32 * 1024 * 1024,
            reserved_segments: 2,
            recycled_segments: 4,
            device_block_bytes: 4096,
            sync: SyncPolicy::Always,
            rewrite_below_percent: 40,
        }
    }
}

/// Bytes above which a body is streamed, in pieces of at most this size.
pub const PIECE_BYTES_MAX: usize = 256 * 1024;
/// Bytes that must wait before a commit begins, unless much more arrives at this moment.
pub const COMMIT_BYTES: usize = 32 * 1024;
/// Waiting bytes at which a commit begins at once.
pub const COMMIT_BYTES_MAX: usize = 512 * 1024;
/// Bytes of one write, at most (about).
pub const WRITE_BYTES_MAX: usize = 512 * 1024;
/// Times in a row that a disk which is not full may fail to give room for a segment; then it counts
/// as failed. Room is tried ten times in a second.
pub const ROOM_FAILURES_MAX: u32 = 20;
