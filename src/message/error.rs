//! Why a message is refused.

use thiserror::Error;

use crate::base::KeyError;
use crate::base::limits::{CC_BYTES_MAX, CC_KEYS_MAX};
use crate::wire::DecodeError;

/// Why received bytes are not a message, or a message is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Its bytes are not a message. (`amqp:decode-error`)
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An annotation key is refused in `strict` mode. (`amqp:invalid-field`)
    #[error(
        "annotation key {key} is refused: in strict mode keys are symbols that begin with 'x-'"
    )]
    AnnotationKey {
        /// The key with its type.
        key: String,
    },
    /// An `x-cc` annotation has more keys than [`CC_KEYS_MAX`]. (`amqp:invalid-field`)
    #[error("annotation x-cc has {keys} keys, at most {CC_KEYS_MAX} are allowed")]
    CcKeys {
        /// Number of keys.
        keys: usize,
    },
    /// An `x-cc` annotation has more bytes than [`CC_BYTES_MAX`]. (`amqp:invalid-field`)
    #[error("annotation x-cc has {bytes} bytes, at most {CC_BYTES_MAX} are allowed")]
    CcBytes {
        /// Number of bytes of all keys.
        bytes: usize,
    },
    /// A key in an `x-cc` annotation is too long or has too many words. (`amqp:invalid-field`)
    #[error("a key of annotation x-cc has {0}")]
    CcKey(KeyError),
    /// An `x-cc` annotation is not a list of strings. (`amqp:invalid-field`)
    #[error("annotation x-cc must be a list of strings, found {found}")]
    Cc {
        /// The kind of value that it is.
        found: String,
    },
    /// An `x-opt-delivery-time` annotation names no instant. (`amqp:invalid-field`)
    #[error(
        "annotation x-opt-delivery-time must be a timestamp or an integer of milliseconds since 1970, found {found}"
    )]
    DeliveryTime {
        /// The kind of value that it is.
        found: String,
    },
    /// An `x-opt-delivery-delay` annotation is no duration. (`amqp:invalid-field`)
    #[error("annotation x-opt-delivery-delay must be an integer of milliseconds, found {found}")]
    DeliveryDelay {
        /// The kind of value that it is.
        found: String,
    },
}

/// Why a stored message cannot be read: damage, or a newer version.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StoredMessageError {
    /// It has this origin format, or was written in this newer version.
    #[error("stored message has unknown format {0}")]
    Format(u8),
    /// It has a part of this kind, which this version does not know.
    #[error("stored message has unknown part {0}")]
    Part(u64),
    /// Its bytes are damaged.
    #[error("stored message is damaged: {0}")]
    Damaged(#[from] DecodeError),
    /// Its death history cannot be read.
    #[error("stored message is damaged: {0}")]
    History(#[from] crate::deaths::HistoryError),
    /// A field has a value that is never written; its name.
    #[error("stored message is damaged: bad {0}")]
    Field(&'static str),
}
