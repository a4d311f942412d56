//! Messages whose bare bytes were written to the journal before the message was whole: in memory is
//! what stands in front of the body.

use std::sync::Arc;

use bytes::Bytes;

use super::annotations;
use super::message::Ends;
use super::storage::Storage;
use super::{KeyRule, Message, MessageError};
use crate::base::Lsn;
use crate::wire::SectionIndex;

/// Where a message ends that was streamed: lengths in bytes, from the beginning of its bare
/// message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BareLengths {
    /// Where its body ends.
    pub body: u32,
    /// Where all of it ends, footer included.
    pub whole: u32,
}

impl Message {
    /// Takes a message whose bare bytes are in the journal under the name `body`. `head` is what
    /// stands in front of its body, `index` what [`walk_head`](crate::wire::walk_head) found in it.
    ///
    /// # Errors
    /// As [`Message::from_transfer`].
    pub fn from_head(
        head: &Bytes,
        index: &SectionIndex,
        lengths: BareLengths,
        body: Arc<Lsn>,
        keys: KeyRule,
    ) -> Result<Self, MessageError> {
        let storage = |kept: &[u8], length| Storage::Blob {
            head: Arc::from(kept),
            length,
            body,
        };
        Self::headed(head, index, lengths, keys, storage)
    }

    /// Takes a message whose body is not at hand as one piece. `storage` keeps it, told what stands in
    /// front of its body and how many bytes that and all the rest are.
    pub(super) fn headed(
        head: &[u8],
        index: &SectionIndex,
        lengths: BareLengths,
        keys: KeyRule,
        storage: impl FnOnce(&[u8], u32) -> Storage,
    ) -> Result<Self, MessageError> {
        let header = index.read_header(head)?;
        let annotations = annotations::take(head, index, keys)?;
        let kept = head.get(annotations.start..).unwrap_or_default();
        Ok(Self {
            bare: annotations.length,
            ends: Ends {
                body: lengths.body,
                ..Ends::of(index)
            },
            storage: storage(kept, annotations.length.saturating_add(lengths.whole)),
            annotation_count: annotations.count,
            edited: annotations.edited,
            history: None,
            last_failure: None,
            durable: header.durable,
            priority: header.priority,
            ttl_ms: header.ttl_ms,
            carried_delivery_count: 0,
            _room: 0,
        })
    }

    /// What names its bare message in the journal if that was streamed: then
    /// [`Message::bare`] is only what stands in front of the body.
    pub const fn blob(&self) -> Option<&Arc<Lsn>> {
        match &self.storage {
            Storage::Blob { body, .. } => Some(body),
            _ => None,
        }
    }

    /// Bytes of its bare message that are not in memory.
    pub fn apart_bytes(&self) -> usize {
        if self.is_hollow() {
            self.storage.len() - self.storage.as_slice().len()
        } else {
            0
        }
    }

    /// This message, its bare bytes being in the journal now under the name `body`.
    pub fn with_blob(&self, body: Arc<Lsn>) -> Option<Self> {
        self.with_own_annotations()
            .filled_with_blob(self.bare(), body)
    }

    /// Bytes that stand in front of its body, annotations and all.
    pub fn head_bytes(&self) -> usize {
        self.bare as usize + self.ends.application_properties as usize
    }

    /// A hollow message whose bare bytes are in the journal in pieces, with what stands in front of
    /// its body, taken from the `beginning` of them; nothing if that is too short.
    pub fn filled_with_blob(&self, beginning: &[u8], body: Arc<Lsn>) -> Option<Self> {
        let head = beginning.get(..self.ends.application_properties as usize)?;
        let length = u32::try_from(self.bare_len()).ok()?;
        Some(Self {
            storage: Storage::Blob {
                head: Arc::from(head),
                length,
                body,
            },
            bare: 0,
            ..self.clone()
        })
    }
}
