//! Why a message is refused.

use thiserror::Error;

use crate::base::KeyError;
use crate::base::limits::{CC_BYTES_MAX, CC_KEYS_MAX};
use crate::wire::DecodeError;

/// Why a received message is none, or one that is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Its bytes are no message. (`amqp:decode-error`)
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An annotation key that `strict` mode refuses. (`amqp:invalid-field`)
    #[error(
        "annotation key {key} is refused: in strict mode keys are symbols that begin with 'x-'"
    )]
    AnnotationKey {
        /// The key with its type.
        key: String,
    },
    /// An `x-cc` annotation with more keys than [`CC_KEYS_MAX`]. (`amqp:invalid-field`)
    #[error("annotation x-cc has {keys} keys, at most {CC_KEYS_MAX} are allowed")]
    CcKeys {
        /// How many.
        keys: usize,
    },
    /// An `x-cc` annotation with more bytes than [`CC_BYTES_MAX`]. (`amqp:invalid-field`)
    #[error("annotation x-cc has {bytes} bytes, at most {CC_BYTES_MAX} are allowed")]
    CcBytes {
        /// How many.
        bytes: usize,
    },
    /// A key in an `x-cc` annotation that is too long or has too many words. (`amqp:invalid-field`)
    #[error("a key of annotation x-cc has {0}")]
    CcKey(KeyError),
    /// An `x-cc` annotation that is no list of strings. (`amqp:invalid-field`)
    #[error("annotation x-cc must be a list of strings, found {found}")]
    Cc {
        /// What it is.
        found: String,
    },
}

/// A stored message that cannot be read: damage, or a newer version.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StoredMessageError {
    /// Of another origin format, or written by a newer version.
    #[error("stored message has unknown format {0}")]
    Format(u8),
    /// A part that this version does not know.
    #[error("stored message has unknown part {0}")]
    Part(u64),
    /// Bytes that no version wrote.
    #[error("stored message is damaged: {0}")]
    Damaged(#[from] DecodeError),
    /// A history that no version wrote.
    #[error("stored message is damaged: {0}")]
    History(#[from] crate::deaths::HistoryError),
    /// Values that no version wrote.
    #[error("stored message is damaged: bad {0}")]
    Field(&'static str),
}
