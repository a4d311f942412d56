//! The commands that find dead letters among many: groups of them, discarding one, and the flags
//! that choose them.

mod discard;
mod filter;
mod groups;

pub(super) use discard::DiscardMessage;
pub(super) use filter::FilterFlags;
pub(super) use groups::DeadLetterGroups;
