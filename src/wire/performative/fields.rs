//! Shorthands for the types of `fe2o3-amqp-types`.

use super::{Error, ErrorCondition, FieldArray, FieldValue, Fields, Symbol};

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
