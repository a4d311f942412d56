//! The stored form of a message.
//!
//! ```text
//! origin format: u8 = 1 (AMQP 1.0; 2 is kept for AMQP 0-9-1), then encoded AMQP values one behind the other (the envelope):
//! durable: boolean or null, priority: ubyte or null, ttl: uint or null, delivery-count: uint,
//! ends of properties, application-properties, body: uint,
//! number of annotation keys and values: uint, their pairs: binary, history: binary or null,
//! parts: null or a binary of parts, each a kind: ulong, and its content: binary; kind 1 is the last failure, 2 the redrives
//! then the bare message, unless it is stored apart (a dead letter shares that of what died)
//! ```

use std::sync::Arc;

use bytes::Bytes;

use super::annotations::Edited;
use super::message::Ends;
use super::storage::Storage;
use super::{Message, StoredMessageError};
use crate::deaths::{History, HistoryEncoder, LastFailure, Redrives};
use crate::wire::{
    Fields, write_binary, write_binary_of, write_bool, write_null, write_or_null, write_ubyte,
    write_uint, write_ulong,
};

/// The origin format that is written: AMQP 1.0, first version.
const AMQP_1_0: u8 = 1;
/// The kind of the part with the last failure.
const LAST_FAILURE: u64 = 1;
/// The kind of the part with the redrives.
const REDRIVES: u64 = 2;

impl Message {
    /// Appends the stored form, the bare message included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_envelope(out);
        out.extend_from_slice(&self.whole());
    }

    /// Reads the stored form, the bare message included.
    pub fn decode(stored: &Bytes) -> Result<Self, StoredMessageError> {
        let (message, used) = decode_envelope(stored, |used| Storage::new(stored.clone(), used))?;
        assert!(used <= stored.len(), "an envelope ends inside its bytes");
        Ok(message)
    }

    /// Appends the envelope: everything except the bare message.
    pub fn encode_envelope(&self, out: &mut Vec<u8>) {
        self.encode_envelope_after(&mut HistoryEncoder::default(), out);
    }

    /// Appends the envelope behind those of messages that may have the same history.
    pub fn encode_envelope_after(&self, histories: &mut HistoryEncoder, out: &mut Vec<u8>) {
        out.push(AMQP_1_0);
        write_or_null(out, self.durable, write_bool);
        write_or_null(out, self.priority, write_ubyte);
        write_or_null(out, self.ttl_ms, write_uint);
        write_uint(out, self.carried_delivery_count);
        write_uint(out, self.ends.properties);
        write_uint(out, self.ends.application_properties);
        write_uint(out, self.ends.body);
        let annotations = self.client_annotations();
        write_uint(out, annotations.left());
        write_binary(out, annotations.rest());
        match &self.history {
            Some(history) => histories.write(history, out),
            None => write_null(out),
        }
        if self.last_failure.is_none() && self.redrives.is_none() {
            return write_null(out);
        }
        write_binary_of(out, |out| {
            if let Some(failure) = &self.last_failure {
                write_ulong(out, LAST_FAILURE);
                write_binary_of(out, |out| failure.encode(out));
            }
            if let Some(redrives) = &self.redrives {
                write_ulong(out, REDRIVES);
                write_binary_of(out, |out| redrives.encode(out));
            }
        });
    }

    /// Joins an envelope and a bare message that were stored apart.
    pub fn decode_envelope(envelope: &[u8], bare: Bytes) -> Result<Self, StoredMessageError> {
        let (message, used) = decode_envelope(envelope, |_| Storage::new(bare, 0))?;
        if used < envelope.len() {
            return Err(StoredMessageError::Field("length"));
        }
        Ok(message)
    }

    /// Decodes an envelope whose bare message, of `bare_len` bytes, is elsewhere. Until it is
    /// [`filled`](Message::filled), everything but its length reads as if it were empty.
    pub fn decode_hollow(envelope: &[u8], bare_len: u32) -> Result<Self, StoredMessageError> {
        let (message, used) = decode_envelope(envelope, |_| Storage::Absent(bare_len))?;
        if used < envelope.len() {
            return Err(StoredMessageError::Field("length"));
        }
        Ok(message)
    }

    /// Whether its bare message is elsewhere, except the sections in front of its body.
    pub const fn is_hollow(&self) -> bool {
        matches!(self.storage, Storage::Absent(_) | Storage::Blob { .. })
    }

    /// The same message, with its annotations apart from the bytes that it keeps.
    pub(super) fn with_own_annotations(&self) -> Self {
        let pairs = self.client_annotations();
        let own = || Edited::new(pairs.rest().into(), pairs.left());
        Self {
            edited: Some(self.edited.clone().unwrap_or_else(own)),
            ..self.clone()
        }
    }

    /// A hollow message joined with its bare message; none if those are not its bytes.
    pub fn filled(&self, bare: &Bytes) -> Option<Self> {
        (bare.len() == self.bare_len()).then(|| Self {
            storage: Storage::new(bare.clone(), 0),
            bare: 0,
            ..self.with_own_annotations()
        })
    }

    /// This message; if it is hollow, with the bare message of another one that has the same.
    #[must_use]
    pub fn with_body_of(self: &Arc<Self>, other: &Self) -> Arc<Self> {
        if !self.is_hollow() {
            return Arc::clone(self);
        }
        let nothing = || Edited::new(Box::default(), 0);
        Arc::new(Self {
            storage: other.storage.clone(),
            bare: other.bare,
            edited: Some(self.edited.clone().unwrap_or_else(nothing)),
            ..(**self).clone()
        })
    }
}

/// Decodes an envelope; `storage` returns the bare message, given the offset where the envelope
/// ends.
fn decode_envelope(
    stored: &[u8],
    storage: impl FnOnce(usize) -> Storage,
) -> Result<(Message, usize), StoredMessageError> {
    let values = match stored.split_first() {
        Some((&AMQP_1_0, values)) => values,
        Some((&format, _)) => return Err(StoredMessageError::Format(format)),
        None => return Err(StoredMessageError::Field("format")),
    };
    let mut fields = Fields::bare(values);
    let (durable, priority, ttl_ms) = (fields.bool()?, fields.ubyte()?, fields.uint()?);
    let mut uint = |what| fields.uint()?.ok_or(StoredMessageError::Field(what));
    let carried_delivery_count = uint("delivery-count")?;
    let ends = Ends {
        properties: uint("end of properties")?,
        application_properties: uint("end of application-properties")?,
        body: uint("end of body")?,
    };
    let count = uint("number of annotations")?;
    let pairs = fields
        .binary()?
        .ok_or(StoredMessageError::Field("annotations"))?;
    let history = fields.binary()?.map(History::decode).transpose()?;
    let parts = match fields.binary()? {
        Some(parts) => decode_parts(parts)?,
        None => Parts::default(),
    };
    let used = 1 + fields.at();
    let storage = storage(used);
    let in_order = ends.properties <= ends.application_properties
        && ends.application_properties <= ends.body
        && ends.body as usize <= storage.len();
    if !in_order {
        return Err(StoredMessageError::Field("ends of sections"));
    }
    let message = Message {
        storage,
        bare: 0,
        ends,
        annotation_count: 0,
        edited: (count > 0).then(|| Edited::new(pairs.into(), count)),
        history: history.map(Arc::new),
        last_failure: parts.last_failure.map(Arc::new),
        durable,
        priority,
        ttl_ms,
        carried_delivery_count,
        redrives: parts.redrives.map(Arc::new),
    };
    Ok((message, used))
}

/// The parts behind an envelope, each present only if needed.
#[derive(Default)]
struct Parts {
    last_failure: Option<LastFailure>,
    redrives: Option<Redrives>,
}

/// Reads the parts. An unknown one is an error and not skipped: it may say what must not be
/// overlooked.
fn decode_parts(input: &[u8]) -> Result<Parts, StoredMessageError> {
    let mut fields = Fields::bare(input);
    let mut parts = Parts::default();
    while !fields.is_empty() {
        let kind = fields.ulong()?.ok_or(StoredMessageError::Field("part"))?;
        if !matches!(kind, LAST_FAILURE | REDRIVES) {
            return Err(StoredMessageError::Part(kind));
        }
        let content = fields.binary()?.ok_or(StoredMessageError::Field("part"))?;
        let is_second = if kind == LAST_FAILURE {
            let failure = LastFailure::decode(content)?;
            parts.last_failure.replace(failure).is_some()
        } else {
            let redrives = Redrives::decode(content)?;
            parts.redrives.replace(redrives).is_some()
        };
        if is_second {
            return Err(StoredMessageError::Field("part"));
        }
    }
    Ok(parts)
}
