//! Memos: what a vhost remembers for its operators, beside queues and messages: how far their imports
//! came, their notes on groups of dead letters, and which numbers their events have. [evidence parts
//! 8, 10, 11]

use crate::base::{Name, QueueId, Timestamp};

/// How far an import came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportMark {
    /// The id, chosen by whoever imports.
    pub id: Name,
    /// The queue that it fills: another one of the same name is not meant.
    pub queue: QueueId,
    /// The number of the last line whose message is in the queue, from 1.
    pub line: u64,
    /// Wall-clock time of that line.
    pub at: Timestamp,
}

/// A line of an import that can be sent again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportLine {
    /// The id of the import.
    pub id: Name,
    /// The number of the line, from 1.
    pub line: u64,
}

/// What somebody wrote about a group of dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupNote {
    /// The queue that holds them: another one of the same name has no notes.
    pub queue: QueueId,
    /// The fingerprint of the group.
    pub key: Name,
    /// The text, of at most `limits::GROUP_NOTE_BYTES_MAX`.
    pub text: Name,
    /// The user who wrote it; empty: the program that embeds the broker.
    pub by: Name,
    /// Wall-clock time of writing.
    pub at: Timestamp,
    /// Wall-clock time of the first look, of an unbroken run of them, that found no message of the
    /// group; none: the last look found one, or none was taken yet.
    pub empty_since: Option<Timestamp>,
}

/// A change of a memo that the journal keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemoFact {
    /// A line of an import was put into its queue: in the record that inserts the message.
    Imported(ImportMark),
    /// An import is not known any more.
    ImportForgotten {
        /// The id that was chosen for it.
        id: Name,
    },
    /// A note was written, or the look at its group told something new.
    NoteSet(Box<GroupNote>),
    /// A note is gone.
    NoteCleared {
        /// The queue of its group.
        queue: QueueId,
        /// The fingerprint of its group.
        key: Name,
    },
    /// Numbers of events below this one may be in use: those behind a restart begin there.
    EventNumbers {
        /// The first number that is not in use.
        below: u64,
    },
}
