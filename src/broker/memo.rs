//! Memos: what a vhost remembers for its operators, beside queues and messages: how far their imports
//! came. [evidence part 11]

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
}
