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
    /// A message as the slice that it came in.
    Shared(Bytes),
    /// A large message in the frames that it came in.
    Parts(Arc<Parts>),
    /// Not here: only how many bytes there are elsewhere.
    Absent(u32),
    /// Streamed to the journal before its message: here is only what stands in front of its body.
    Blob {
        /// Annotation pairs, properties, application-properties.
        head: Arc<[u8]>,
        /// Bytes of all of it, those in `head` included.
        length: u32,
        /// What names the bare message in the journal. Held as long as somebody may read it.
        body: Arc<Lsn>,
    },
}

/// A large message that is not joined.
#[derive(Debug)]
pub(super) struct Parts {
    /// Annotation pairs, properties, application-properties.
    pub(super) head: Box<[u8]>,
    /// Body and footer.
    pub(super) rest: Vec<Bytes>,
    /// Bytes of all of it.
    pub(super) length: u32,
}

/// Bytes in front of what is kept, at most, that stay with a received message: its header, as a rule.
const FRONT_BYTES_MAX: usize = 64;

/// What is in front may stay as a part of what is kept, as a divisor.
const FRONT_PART: usize = 16;

impl Storage {
    /// Keeps what comes from byte `start` on of a message that arrived.
    pub(super) fn received(mut bytes: Bytes, start: usize) -> Self {
        if start > FRONT_BYTES_MAX {
            return Self::new(bytes, start);
        }
        bytes.advance(start.min(bytes.len()));
        Self::Shared(bytes)
    }

    /// Keeps what comes from byte `start` on.
    pub(super) fn new(mut bytes: Bytes, start: usize) -> Self {
        bytes.advance(start.min(bytes.len()));
        if bytes.len() <= MESSAGE_COPY_BYTES_MAX {
            Self::Copied(Arc::from(&*bytes))
        } else if start > bytes.len() / FRONT_PART {
            // What is in front (delivery annotations, forged ones) would stay in memory with it.
            Self::Shared(Bytes::copy_from_slice(&bytes))
        } else {
            Self::Shared(bytes)
        }
    }

    /// The bytes, as far as they are here.
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) | Self::Blob { head: bytes, .. } => bytes,
            Self::Shared(bytes) => bytes,
            Self::Parts(parts) => &parts.head,
            Self::Absent(_) => &[],
        }
    }

    /// Bytes that are here, behind those of [`as_slice`](Self::as_slice).
    pub(super) fn rest(&self) -> &[Bytes] {
        match self {
            Self::Parts(parts) => &parts.rest,
            _ => &[],
        }
    }

    /// Number of bytes, here or elsewhere.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Absent(length) | Self::Blob { length, .. } => *length as usize,
            Self::Parts(parts) => parts.length as usize,
            here => here.as_slice().len(),
        }
    }

    /// The bytes from `start` on as a shared slice: a copy of a small message or of one in parts, else
    /// the same bytes.
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
