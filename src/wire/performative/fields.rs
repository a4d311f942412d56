//! Shorthands for fields.

use bytes::Bytes;

use super::composite::write_fields;
use super::{Error, Fields, Role, Symbol, Value, codes};
use crate::wire::{DecodeError, Descriptor};

/// An error with a description of what was wrong. [AMQP 2.8.14]
pub fn error(condition: impl Into<Symbol>, description: impl Into<String>) -> Error {
    Error::new(condition, Some(description.into()), None)
}

/// A map with symbol keys, such as the properties of an open.
pub fn fields<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Fields {
    let pairs = pairs.into_iter();
    pairs
        .map(|(key, value)| (Symbol::from(key), value))
        .collect()
}

/// A field that holds several symbols; absent if there is none. [AMQP 1.4]
pub fn symbols(symbols: &[Symbol]) -> Option<Vec<Symbol>> {
    (!symbols.is_empty()).then(|| symbols.to_vec())
}

/// A map of fields, encoded.
pub fn encode_fields(fields: &Fields) -> Bytes {
    let mut out = Vec::new();
    write_fields(&mut out, fields);
    Bytes::from(out)
}

/// Whether a value is the lifetime policy delete-on-close. [AMQP 3.5.10]
pub fn is_delete_on_close(value: &Value) -> bool {
    described(value).is_some_and(|(code, _)| code == codes::DELETE_ON_CLOSE)
}

/// A filter of a kind that is applied.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Filter<'a> {
    /// The text of a selector.
    Selector(&'a str),
    /// The text of an SQL filter. [AMQP Filter Expressions 6]
    Sql(&'a str),
    /// References for fields of the properties. [AMQP Filter Expressions 4.2.4]
    Properties(&'a [(Value, Value)]),
    /// References for application properties. [AMQP Filter Expressions 4.2.5]
    ApplicationProperties(&'a [(Value, Value)]),
}

/// The filter that a value is; none if it is of another kind, or its value of another type.
pub fn filter(value: &Value) -> Option<Filter<'_>> {
    Some(match described(value)? {
        (codes::SELECTOR_FILTER, Value::String(text)) => Filter::Selector(text),
        (codes::SQL_FILTER, Value::String(text)) => Filter::Sql(text),
        (codes::PROPERTIES_FILTER, Value::Map(pairs)) => Filter::Properties(pairs),
        (codes::APPLICATION_PROPERTIES_FILTER, Value::Map(pairs)) => {
            Filter::ApplicationProperties(pairs)
        }
        _ => return None,
    })
}

/// The map of filters of a source with these, each under the name of its descriptor; none: it has
/// none. `no_local` adds the filter that leaves out what its own connection sends.
pub fn filter_fields<'a>(
    filters: impl Iterator<Item = Filter<'a>>,
    no_local: bool,
) -> Option<Fields> {
    let pairs = filters.map(|filter| match filter {
        Filter::Selector(text) => (codes::SELECTOR_FILTER, Value::string(text)),
        Filter::Sql(text) => (codes::SQL_FILTER, Value::string(text)),
        Filter::Properties(pairs) => (codes::PROPERTIES_FILTER, Value::Map(pairs.to_vec())),
        Filter::ApplicationProperties(pairs) => {
            let pairs = Value::Map(pairs.to_vec());
            (codes::APPLICATION_PROPERTIES_FILTER, pairs)
        }
    });
    let no_local = no_local.then(|| (codes::NO_LOCAL_FILTER, Value::List(Vec::new())));
    let pairs = pairs.chain(no_local).map(|(code, value)| {
        let value = Value::Described(Box::new((Value::Ulong(code), value)));
        (Symbol::from(codes::symbol(code)), value)
    });
    let fields: Fields = pairs.collect();
    (fields.iter().len() > 0).then_some(fields)
}

/// The number of a value's descriptor, and the value without it.
fn described(value: &Value) -> Option<(u64, &Value)> {
    let Value::Described(described) = value else {
        return None;
    };
    let (descriptor, value) = &**described;
    let descriptor = match descriptor {
        Value::Symbol(name) => Descriptor::Symbol(name),
        code => Descriptor::Code(code.as_u64()?),
    };
    Some((codes::number(descriptor), value))
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
