//! Shorthands for fields, and for the types of `fe2o3-amqp-types`.

use bytes::Bytes;

use super::{Error, ErrorCondition, FieldArray, FieldValue, Fields, Role, Symbol};
use crate::wire::DecodeError;

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
