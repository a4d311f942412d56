//! Handles of sessions and links: never valid again once their session or link is gone.

/// One session of a [`super::Connection`]. A stale handle finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionHandle {
    /// Our channel.
    pub(super) channel: u16,
    /// Distinguishes sessions that had the same channel one after the other.
    pub(super) generation: u32,
}

impl SessionHandle {
    /// Our channel.
    pub const fn channel(self) -> u16 {
        self.channel
    }
}

/// One link of a [`super::Connection`]. A stale handle finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkHandle {
    /// Our channel.
    pub(super) channel: u16,
    /// Our handle.
    pub(super) handle: u32,
    /// Distinguishes links that had the same channel and handle one after the other.
    pub(super) generation: u32,
}

impl LinkHandle {
    /// Our handle.
    pub const fn handle(self) -> u32 {
        self.handle
    }
}
