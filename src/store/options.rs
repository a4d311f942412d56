//! What can be set about a store.

/// When what was written is synced, and what a confirmation is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncPolicy {
    /// Confirmed means: on the device. Survives a power cut.
    #[default]
    Always,
    /// Confirmed means: with the operating system, and on the device within the interval. Survives
    /// the death of the process; a power cut may take the last interval.
    Interval {
        /// How often, in milliseconds.
        every_ms: u64,
    },
    /// Confirmed means: with the operating system, on the device when it likes. Survives the death
    /// of the process. Checkpoints are synced all the same, so a power cut never takes more than
    /// what came after the last one.
    Never,
}

/// Sizes and rules of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreOptions {
    /// Bytes of a segment. A record that is larger gets one of its own. Default: 32 MiB.
    pub segment_bytes: u32,
    /// Segments kept prepared, so that settlements can be written on a full disk. Default: 2.
    pub reserved_segments: usize,
    /// Segments nobody needs that are kept to be prepared again: syncs of blocks that were written
    /// before are much faster. Default: 4.
    pub recycled_segments: usize,
    /// What the device writes at least: a small commit is padded to the end of its block when the
    /// next of its size would touch two. A power of 2. Default: 4 KiB.
    pub device_block_bytes: u32,
    /// When to sync. Default: always.
    pub sync: SyncPolicy,
    /// A sealed segment with less than this share of live bytes is rewritten, in percent.
    /// Default: 40. 0: never.
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

/// Bodies above this are streamed in pieces of at most this size, in bytes.
pub const PIECE_BYTES_MAX: usize = 256 * 1024;
/// A commit begins when so many bytes wait, unless much more arrives at this moment.
pub const COMMIT_BYTES: usize = 32 * 1024;
/// A commit begins at once when so many bytes wait.
pub const COMMIT_BYTES_MAX: usize = 512 * 1024;
/// One write takes about so many bytes at most.
pub const WRITE_BYTES_MAX: usize = 512 * 1024;
/// Times in a row that a disk, which is not full, may fail to give room for a segment; then it counts
/// as gone. It is tried ten times in a second.
pub const ROOM_FAILURES_MAX: u32 = 20;
