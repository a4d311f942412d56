//! Messages whose bare bytes were streamed to the journal before the message was complete: only the
//! sections in front of the body are in memory.

use std::sync::Arc;

use bytes::Bytes;

use super::annotations;
use super::message::Ends;
use super::storage::Storage;
use super::{KeyRule, Message, MessageError};
use crate::base::Lsn;
use crate::wire::SectionIndex;

/// The ends of a streamed message: offsets in bytes, from the beginning of its bare message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BareLengths {
    /// The end of its body.
    pub body: u32,
    /// The end of the message, footer included.
    pub whole: u32,
}

impl Message {
    /// Makes a message whose bare bytes are in the journal under the LSN `body`. `head` has the
    /// sections in front of its body, `index` what [`walk_head`](crate::wire::walk_head) found in
    /// it.
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

    /// Makes a message whose body is not in memory in one piece. `storage` keeps it, given the
    /// sections in front of its body and the number of all its bytes.
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
            redrives: None,
        })
    }

    /// The LSN of its bare message in the journal if that was streamed: then [`Message::bare`] has
    /// only the sections in front of the body.
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

    /// This message, with its bare bytes in the journal under the LSN `body`.
    pub fn with_blob(&self, body: Arc<Lsn>) -> Option<Self> {
        self.with_own_annotations()
            .filled_with_blob(self.bare(), body)
    }

    /// Bytes in front of its body, annotations included.
    pub fn head_bytes(&self) -> usize {
        self.bare as usize + self.ends.application_properties as usize
    }

    /// Whether there is something in front of its body, and not more than `bytes_max`.
    #[inline]
    pub fn has_head(&self, bytes_max: usize) -> bool {
        let edited = self.edited.as_ref().map_or(0, |edited| edited.pairs.len());
        (1..=bytes_max).contains(&(self.head_bytes() + edited))
    }

    /// What is in front of its body, without that and its history; none if there is nothing, or more than
    /// `bytes_max`.
    pub fn head(&self, bytes_max: usize) -> Option<Self> {
        if !self.has_head(bytes_max) {
            return None;
        }
        let head = self.storage.as_slice().get(..self.head_bytes())?;
        let (properties, all) = (self.ends.properties, self.ends.application_properties);
        Some(Self {
            storage: Storage::Copied(Arc::from(head)),
            bare: self.bare,
            ends: Ends {
                properties,
                application_properties: all,
                body: all,
            },
            annotation_count: self.annotation_count,
            edited: self.edited.clone(),
            history: None,
            last_failure: None,
            durable: self.durable,
            priority: self.priority,
            ttl_ms: self.ttl_ms,
            carried_delivery_count: self.carried_delivery_count,
            redrives: None,
        })
    }

    /// A hollow message whose bare bytes are in the journal in pieces, with the sections in front
    /// of its body taken from the `beginning` of them; none if that is too short.
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
