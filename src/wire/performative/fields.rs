//! Shorthands for fields, and for the types of `fe2o3-amqp-types`.

use bytes::Bytes;

use serde_amqp::descriptor::Descriptor as FieldDescriptor;

use super::{Error, ErrorCondition, FieldArray, FieldValue, Fields, Role, Symbol, codes};
use crate::wire::{DecodeError, Descriptor};

/// An error with a description that says what was wrong. [AMQP 2.8.14]
pub fn error(condition: impl Into<ErrorCondition>, description: impl Into<String>) -> Error {
    Error::new(condition, description.into(), None)
}

/// A map with symbol keys, such as the properties of an open.
pub fn fields<'a>(pairs: impl IntoIterator<Item = (&'a str, FieldValue)>) -> Fields {
    let pairs = pairs.into_iter();
    pairs
        .map(|(key, value)| (Symbol::from(key), value))
        .collect()
}

/// A field that holds several symbols; absent if there is none. [AMQP 1.4]
pub fn symbols(symbols: &[Symbol]) -> Option<FieldArray<Symbol>> {
    (!symbols.is_empty()).then(|| FieldArray::from(symbols.to_vec()))
}

/// The symbol of a condition. [AMQP 2.8.14]
pub fn condition_symbol(condition: &ErrorCondition) -> Symbol {
    match condition {
        ErrorCondition::AmqpError(error) => Symbol::from(error),
        ErrorCondition::ConnectionError(error) => Symbol::from(error),
        ErrorCondition::SessionError(error) => Symbol::from(error),
        ErrorCondition::LinkError(error) => Symbol::from(error),
        ErrorCondition::TransactionError(error) => Symbol::from(error),
        ErrorCondition::Custom(symbol) => symbol.clone(),
    }
}

/// A map of fields, encoded; nothing if it cannot be.
pub fn encode_fields(fields: &Fields) -> Option<Bytes> {
    serde_amqp::to_vec(fields).ok().map(Bytes::from)
}

/// Whether a value is the lifetime policy delete-on-close. [AMQP 3.5.10]
pub fn is_delete_on_close(value: &FieldValue) -> bool {
    described(value).is_some_and(|(code, _)| code == codes::DELETE_ON_CLOSE)
}

/// The text of a selector filter; nothing if the value is another filter, or no text.
pub fn selector_text(value: &FieldValue) -> Option<&str> {
    match described(value)? {
        (codes::SELECTOR_FILTER, FieldValue::String(text)) => Some(text),
        _ => None,
    }
}

/// The number of a value's descriptor, and the value without it.
fn described(value: &FieldValue) -> Option<(u64, &FieldValue)> {
    let FieldValue::Described(described) = value else {
        return None;
    };
    let descriptor = match &described.descriptor {
        FieldDescriptor::Code(code) => Descriptor::Code(*code),
        FieldDescriptor::Name(name) => Descriptor::Symbol(name.as_str()),
    };
    Some((codes::number(descriptor), &described.value))
}

/// The value of a mandatory field.
pub(super) fn required<T>(value: Option<T>, expected: &'static str) -> Result<T, DecodeError> {
    value.ok_or(DecodeError::Type {
        at: 0,
        expected,
        found: "null",
    })
}

/// The role that a boolean stands for. [AMQP 2.8.1]
pub(super) fn role(value: Option<bool>, expected: &'static str) -> Result<Role, DecodeError> {
    let receiver = required(value, expected)?;
    Ok(if receiver {
        Role::Receiver
    } else {
        Role::Sender
    })
}
