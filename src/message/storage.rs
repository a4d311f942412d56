//! Storage of the bytes of a message.

use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::base::Lsn;
use crate::base::limits::MESSAGE_COPY_BYTES_MAX;

/// The bytes of a message, shared by its dead letters, never changed.
#[derive(Clone, Debug)]
pub(super) enum Storage {
    /// A small message in an allocation of its own, so that it does not keep a read buffer alive.
    Copied(Arc<[u8]>),
    /// A message as the slice that it arrived in.
    Shared(Bytes),
    /// A large message in the fragments that it arrived in.
    Parts(Arc<Parts>),
    /// Elsewhere: only the number of bytes is known.
    Absent(u32),
    /// Streamed to the journal: only the sections in front of its body are in memory.
    Blob {
        /// Annotation pairs, properties, application-properties.
        head: Arc<[u8]>,
        /// Number of all bytes, those in `head` included.
        length: u32,
        /// The LSN of the bare message in the journal. Held as long as it may be read.
        body: Arc<Lsn>,
    },
}

/// A large message in fragments.
#[derive(Debug)]
pub(super) struct Parts {
    /// Annotation pairs, properties, application-properties.
    pub(super) head: Box<[u8]>,
    /// Body and footer.
    pub(super) rest: Vec<Bytes>,
    /// Number of all bytes.
    pub(super) length: u32,
}

/// Bytes in front of those to keep that may stay with a received message, at most: its header,
/// usually.
const FRONT_BYTES_MAX: usize = 64;

/// Divisor: the part of the bytes to keep that the bytes in front may be to stay with them.
const FRONT_PART: usize = 16;

impl Storage {
    /// Keeps the bytes from `start` on of a message that arrived.
    pub(super) fn received(mut bytes: Bytes, start: usize) -> Self {
        if start > FRONT_BYTES_MAX {
            return Self::new(bytes, start);
        }
        bytes.advance(start.min(bytes.len()));
        Self::Shared(bytes)
    }

    /// Keeps the bytes from `start` on.
    pub(super) fn new(mut bytes: Bytes, start: usize) -> Self {
        bytes.advance(start.min(bytes.len()));
        if bytes.len() <= MESSAGE_COPY_BYTES_MAX {
            Self::Copied(Arc::from(&*bytes))
        } else if start > bytes.len() / FRONT_PART {
            // The bytes in front (delivery annotations, forged ones) would stay in memory with the
            // slice.
            Self::Shared(Bytes::copy_from_slice(&bytes))
        } else {
            Self::Shared(bytes)
        }
    }

    /// The bytes, as far as they are in memory in one piece.
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) | Self::Blob { head: bytes, .. } => bytes,
            Self::Shared(bytes) => bytes,
            Self::Parts(parts) => &parts.head,
            Self::Absent(_) => &[],
        }
    }

    /// The fragments in memory behind [`as_slice`](Self::as_slice).
    pub(super) fn rest(&self) -> &[Bytes] {
        match self {
            Self::Parts(parts) => &parts.rest,
            _ => &[],
        }
    }

    /// Number of bytes, in memory or elsewhere.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Absent(length) | Self::Blob { length, .. } => *length as usize,
            Self::Parts(parts) => parts.length as usize,
            here => here.as_slice().len(),
        }
    }

    /// The bytes from `start` on as a shared slice: a copy of a small message or of one in parts,
    /// otherwise the same bytes.
    pub(super) fn bytes_from(&self, start: usize) -> Bytes {
        match self {
            Self::Copied(bytes) | Self::Blob { head: bytes, .. } => {
                Bytes::copy_from_slice(bytes.get(start..).unwrap_or_default())
            }
            Self::Shared(bytes) => bytes.slice(start.min(bytes.len())..),
            Self::Parts(parts) => {
                let mut joined = Vec::with_capacity(parts.length as usize);
                joined.extend_from_slice(parts.head.get(start..).unwrap_or_default());
                for part in &parts.rest {
                    joined.extend_from_slice(part);
                }
                joined.into()
            }
            Self::Absent(_) => Bytes::new(),
        }
    }
}
