//! The commands that find dead letters among many: groups of them, discarding one, taking them
//! elsewhere, and the flags that choose them.

mod discard;
mod export;
mod filter;
mod groups;
mod import;
mod notes;

pub(super) use discard::DiscardMessage;
pub(super) use export::ExportMessages;
pub(super) use filter::{FilterFlags, STATES, StateFlag};
pub(super) use groups::DeadLetterGroups;
pub(super) use import::ImportMessages;
pub(super) use notes::{ClearGroupNote, SetGroupNote};
