//! The form in which a message is stored.
//!
//! ```text
//! origin format: u8 = 1 (AMQP 1.0), then encoded AMQP values one behind the other (the envelope):
//! durable: boolean or null, priority: ubyte or null, ttl: uint or null, delivery-count: uint,
//! ends of properties, application-properties, body: uint,
//! number of annotation keys and values: uint, their pairs: binary, history: binary or null
//! then the bare message, unless it is stored apart (a dead letter shares that of what died)
//! ```

use std::sync::Arc;

use bytes::Bytes;

use super::annotations::Edited;
use super::message::Ends;
use super::storage::Storage;
use super::{Message, StoredMessageError};
use crate::deaths::History;
use crate::wire::{
    Fields, write_binary, write_bool, write_null, write_or_null, write_ubyte, write_uint,
};

/// The origin format that is written: AMQP 1.0, first version.
const AMQP_1_0: u8 = 1;

impl Message {
    /// Appends the stored form, the bare message included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_envelope(out);
        out.extend_from_slice(self.bare());
    }

    /// Reads the stored form, the bare message included.
    pub fn decode(stored: &Bytes) -> Result<Self, StoredMessageError> {
        let (message, used) = decode_envelope(stored, |used| stored.slice(used..))?;
        assert!(used <= stored.len(), "an envelope ends inside its bytes");
        Ok(message)
    }

    /// Appends the envelope: all but the bare message.
    pub fn encode_envelope(&self, out: &mut Vec<u8>) {
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
        let history = self.history.as_ref().map(|history| {
            let mut encoded = Vec::new();
            history.encode(&mut encoded);
            encoded
        });
        match history {
            Some(history) => write_binary(out, &history),
            None => write_null(out),
        }
    }

    /// Puts an envelope and a bare message that were stored apart together again.
    pub fn decode_envelope(envelope: &[u8], bare: Bytes) -> Result<Self, StoredMessageError> {
        let (message, used) = decode_envelope(envelope, |_| bare)?;
        if used < envelope.len() {
            return Err(StoredMessageError::Field("length"));
        }
        Ok(message)
    }
}

/// Reads an envelope; `bare` gives the bare message, told where the envelope ends.
fn decode_envelope(
    stored: &[u8],
    bare: impl FnOnce(usize) -> Bytes,
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
    let used = 1 + fields.at();
    let bare = bare(used);
    let in_order = ends.properties <= ends.application_properties
        && ends.application_properties <= ends.body
        && ends.body as usize <= bare.len();
    if !in_order {
        return Err(StoredMessageError::Field("ends of sections"));
    }
    let message = Message {
        storage: Storage::new(bare, 0),
        bare: 0,
        ends,
        annotation_count: 0,
        edited: (count > 0).then(|| Edited {
            pairs: pairs.into(),
            count,
        }),
        history: history.map(Arc::new),
        durable,
        priority,
        ttl_ms,
        carried_delivery_count,
    };
    Ok((message, used))
}
