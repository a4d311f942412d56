//! Large messages in memory: they stay in the fragments that they arrived in, so that no step
//! copies or frees many bytes at once.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::storage::{Parts, Storage};
use super::{BareLengths, KeyRule, Message, MessageError};
use crate::base::limits::STREAMING_HEAD_BYTES_MAX;
use crate::wire::{BodyWalk, walk_head};

impl Message {
    /// Makes a large message from the fragments of a transfer's payload, without joining them. None
    /// if they have to be joined to be decoded: its body does not consist of bytes, more than
    /// `limits::STREAMING_HEAD_BYTES_MAX` bytes are in front of that, or they are not a message.
    ///
    /// As [`Message::from_transfer`], for the sections in front of the body.
    pub fn from_parts(parts: &[Bytes], keys: KeyRule) -> Result<Option<Self>, MessageError> {
        let mut head = Vec::new();
        for part in parts {
            let room = STREAMING_HEAD_BYTES_MAX - head.len();
            head.extend_from_slice(part.get(..room).unwrap_or(part));
        }
        let Some(index) = walk_head(&head) else {
            return Ok(None);
        };
        head.truncate(index.body.start as usize);
        let rest = behind(parts, head.len());
        let bare_head = head.len() as u64 - u64::from(index.bare);
        let Some(lengths) = lengths(&rest, bare_head) else {
            return Ok(None);
        };
        let storage = |kept: &[u8], length| {
            Storage::Parts(Arc::new(Parts {
                head: kept.into(),
                rest,
                length,
            }))
        };
        Self::headed(&head, &index, lengths, keys, storage).map(Some)
    }

    /// The fragments behind [`Message::bare`], of a message that is in memory in parts; empty for
    /// others.
    pub fn rest(&self) -> &[Bytes] {
        self.storage.rest()
    }

    /// The bare message and the footer, as received, as far as they are in memory: those of a
    /// message in parts are joined for it.
    pub fn whole(&self) -> Cow<'_, [u8]> {
        if self.rest().is_empty() {
            return Cow::Borrowed(self.bare());
        }
        let mut joined = Vec::with_capacity(self.bare_len());
        joined.extend_from_slice(self.bare());
        for part in self.rest() {
            joined.extend_from_slice(part);
        }
        Cow::Owned(joined)
    }
}

/// The fragments behind this many bytes.
fn behind(parts: &[Bytes], mut skipped: usize) -> Vec<Bytes> {
    let mut rest = Vec::with_capacity(parts.len());
    for part in parts {
        let mut part = part.clone();
        let here = skipped.min(part.len());
        part.advance(here);
        skipped -= here;
        if !part.is_empty() {
            rest.push(part);
        }
    }
    rest
}

/// The ends of body and message, if the body consists of bytes.
fn lengths(rest: &[Bytes], bare_head: u64) -> Option<BareLengths> {
    let mut walk = BodyWalk::default();
    for part in rest {
        walk.push(part).ok()?;
    }
    let whole: usize = rest.iter().map(Bytes::len).sum();
    Some(BareLengths {
        body: u32::try_from(walk.finish().ok()? + bare_head).ok()?,
        whole: u32::try_from(whole as u64 + bare_head).ok()?,
    })
}
