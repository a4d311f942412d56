//! Why a record cannot be read.

use thiserror::Error;

use crate::deaths::HistoryError;
use crate::message::StoredMessageError;
use crate::wire::DecodeError;

/// A record that cannot be read: damage, or a newer version.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It was written in this newer version.
    #[error("record has unknown version {0}")]
    Version(u8),
    /// It has a fact of this kind, which this version does not know.
    #[error("record has unknown fact {0}")]
    Fact(u8),
    /// Its bytes are damaged.
    #[error("record is damaged: {0}")]
    Damaged(#[from] DecodeError),
    /// A message in it cannot be read.
    #[error("record is damaged: {0}")]
    Message(#[from] StoredMessageError),
    /// A field has a value that is never written; its name.
    #[error("record is damaged: bad {0}")]
    Field(&'static str),
}

impl RecordError {
    /// Whether a newer version wrote it: then it is intact, and must not be thrown away.
    pub const fn is_of_newer_version(&self) -> bool {
        matches!(
            self,
            Self::Version(_)
                | Self::Fact(_)
                | Self::Message(
                    StoredMessageError::Format(_)
                        | StoredMessageError::Part(_)
                        | StoredMessageError::History(
                            HistoryError::Version(_) | HistoryError::Part(_)
                        )
                )
        )
    }
}
