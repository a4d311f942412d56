//! Where the bytes of a message live.

use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::base::Lsn;
use crate::base::limits::MESSAGE_COPY_BYTES_MAX;

/// The kept bytes of a message: shared by its dead letters, never changed.
#[derive(Clone, Debug)]
pub(super) enum Storage {
    /// A small message in one allocation of its own, so that it holds no read buffer.
    Copied(Arc<[u8]>),
    /// A large message as the slice that it came in.
    Shared(Bytes),
    /// Not here: only how many bytes there are elsewhere.
    Absent(u32),
    /// Written ahead of the message: here is only what stands in front of its body.
    Ahead {
        /// Annotation pairs, properties, application-properties.
        head: Arc<[u8]>,
        /// Bytes of all of it, those in `head` included.
        length: u32,
        /// What names the bare message in the journal. Held as long as somebody may read it.
        body: Arc<Lsn>,
    },
}

impl Storage {
    /// Keeps what comes from byte `start` on.
    pub(super) fn new(mut bytes: Bytes, start: usize) -> Self {
        bytes.advance(start.min(bytes.len()));
        if bytes.len() <= MESSAGE_COPY_BYTES_MAX {
            Self::Copied(Arc::from(&*bytes))
        } else {
            Self::Shared(bytes)
        }
    }

    /// The bytes, as far as they are here.
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) | Self::Ahead { head: bytes, .. } => bytes,
            Self::Shared(bytes) => bytes,
            Self::Absent(_) => &[],
        }
    }

    /// Number of bytes, here or elsewhere.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Absent(length) | Self::Ahead { length, .. } => *length as usize,
            here => here.as_slice().len(),
        }
    }

    /// The bytes from `start` on as a shared slice: a copy of a small message, else the same bytes.
    pub(super) fn bytes_from(&self, start: usize) -> Bytes {
        match self {
            Self::Copied(bytes) | Self::Ahead { head: bytes, .. } => {
                Bytes::copy_from_slice(bytes.get(start..).unwrap_or_default())
            }
            Self::Shared(bytes) => bytes.slice(start.min(bytes.len())..),
            Self::Absent(_) => Bytes::new(),
        }
    }
}
