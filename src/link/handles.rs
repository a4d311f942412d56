//! Handles of sessions and links; never valid again once the session or link has ended.

/// One session of a [`super::Connection`]. A stale handle finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionHandle {
    /// The engine's channel number.
    pub(super) channel: u16,
    /// Distinguishes sessions that had the same channel one after the other.
    pub(super) generation: u32,
}

impl SessionHandle {
    /// The engine's channel number.
    pub const fn channel(self) -> u16 {
        self.channel
    }
}

/// One link of a [`super::Connection`]. A stale handle finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct LinkHandle {
    /// The engine's channel number.
    pub(super) channel: u16,
    /// The engine's handle on the wire.
    pub(super) handle: u32,
    /// Distinguishes links that had the same channel and handle one after the other.
    pub(super) generation: u32,
}

impl LinkHandle {
    /// The engine's handle on the wire.
    pub const fn handle(self) -> u32 {
        self.handle
    }
}
