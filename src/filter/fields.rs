//! The fields of a message that selectors can name.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::evaluate::Operand;
use super::program::Field;
use crate::message::Message;
use crate::wire::{PropertyField, Reader, Value, ValueKind, decode_value};

/// Priority of a message without one. [AMQP 3.2.1]
const PRIORITY_DEFAULT: u8 = 4;

/// Reads one field of a message; `failures`: its failed deliveries in its queue.
pub(super) fn read<'a>(field: &Field, message: &'a Message, failures: u32) -> Operand<'a> {
    let property = |field| message.property(field);
    let value = match field {
        Field::DeliveryMode => {
            return text(if message.durable() {
                "PERSISTENT"
            } else {
                "NON_PERSISTENT"
            });
        }
        Field::Durable => return Operand::Bool(message.durable()),
        Field::Priority => {
            let priority = message.priority().unwrap_or(PRIORITY_DEFAULT);
            return Operand::Exact(i64::from(priority));
        }
        Field::DeliveryCount => {
            let carried = message.carried_delivery_count();
            return Operand::Exact(i64::from(carried) + i64::from(failures) + 1);
        }
        Field::To => return message.to().map_or(Operand::Unknown, text),
        Field::ReplyTo => return message.reply_to().map_or(Operand::Unknown, text),
        Field::Subject => return message.subject().map_or(Operand::Unknown, text),
        Field::UserId => {
            let user = message.user_id().and_then(|user| str::from_utf8(user).ok());
            return user.map_or(Operand::Unknown, text);
        }
        Field::MessageId => property(PropertyField::MessageId),
        Field::CorrelationId => property(PropertyField::CorrelationId),
        Field::CreationTime => property(PropertyField::CreationTime),
        Field::AbsoluteExpiryTime => property(PropertyField::AbsoluteExpiryTime),
        Field::ContentType => property(PropertyField::ContentType),
        Field::ContentEncoding => property(PropertyField::ContentEncoding),
        Field::GroupId => property(PropertyField::GroupId),
        Field::GroupSequence => property(PropertyField::GroupSequence),
        Field::ReplyToGroupId => property(PropertyField::ReplyToGroupId),
        // Properties are in a table, see `evaluate`.
        Field::Property(_) => None,
    };
    value.map_or(Operand::Unknown, |value| operand(value, is_id(field)))
}

/// Reads the value of an application property, in place.
pub(super) fn property(encoded: &[u8]) -> Operand<'_> {
    let mut reader = Reader::new(encoded);
    match reader.kind() {
        Some(ValueKind::String) => reader.string().map_or(Operand::Unknown, text),
        Some(ValueKind::Symbol) => reader.symbol().map_or(Operand::Unknown, text),
        // Selectors do not have these types, and they may be large.
        Some(
            ValueKind::Binary
            | ValueKind::List
            | ValueKind::Map
            | ValueKind::Array
            | ValueKind::Described,
        )
        | None => Operand::Unknown,
        Some(_) => {
            decode_value(encoded).map_or(Operand::Unknown, |(value, _)| operand(value, false))
        }
    }
}

const fn is_id(field: &Field) -> bool {
    matches!(field, Field::MessageId | Field::CorrelationId)
}

fn text(text: &str) -> Operand<'_> {
    Operand::Text(Cow::Borrowed(text))
}

/// A value with its type in selectors. Ids that are not strings read as JMS clients show them.
pub(super) fn operand(value: Value, is_id: bool) -> Operand<'static> {
    let owned = |text: String| Operand::Text(Cow::Owned(text));
    match value {
        Value::Ulong(id) if is_id => owned(format!("ID:AMQP_ULONG:{id}")),
        Value::Uuid(id) if is_id => owned(format!("ID:AMQP_UUID:{}", uuid_text(&id))),
        Value::Binary(id) if is_id => owned(format!("ID:AMQP_BINARY:{}", hex_text(&id))),
        Value::Bool(value) => Operand::Bool(value),
        Value::String(text) | Value::Symbol(text) => owned(text),
        Value::Ubyte(number) => Operand::Exact(number.into()),
        Value::Ushort(number) => Operand::Exact(number.into()),
        Value::Uint(number) => Operand::Exact(number.into()),
        Value::Byte(number) => Operand::Exact(number.into()),
        Value::Short(number) => Operand::Exact(number.into()),
        Value::Int(number) => Operand::Exact(number.into()),
        Value::Long(number) | Value::Timestamp(number) => Operand::Exact(number),
        Value::Ulong(number) => match i64::try_from(number) {
            Ok(number) => Operand::Exact(number),
            #[allow(
                clippy::cast_precision_loss,
                reason = "beyond the exact numbers of selectors it is taken approximately"
            )]
            Err(_) => Operand::Approximate(number as f64),
        },
        Value::Float(bits) => Operand::Approximate(f32::from_bits(bits).into()),
        Value::Double(bits) => Operand::Approximate(f64::from_bits(bits)),
        _ => Operand::Unknown,
    }
}

fn hex_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// The text form of a UUID. [RFC 9562 4]
pub fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = hex_text(bytes).to_ascii_lowercase();
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    text
}
