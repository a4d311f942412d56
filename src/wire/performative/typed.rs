//! The one door to `serde_amqp`, and what stands before it.
//!
//! Version 0.18 of it cannot decode an empty array, nor one whose elements are lists, maps, arrays or
//! described values: it loses its place in the bytes, and may then panic or believe any count. Such
//! arrays are legal, so they must neither reach it nor cost a peer its connection: they read as null.
//! (`docs/upstream` has the reproduction.)

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Error, PerformativeError, codes};
use crate::wire::codes::{DESCRIBED, Shape, shape};
use crate::wire::{self, DecodeError, Reader, Value};

/// Decodes the described list at the front of `bytes`, after the structural check: every length
/// inside its parent, counts no larger than bytes, depth bounded.
///
/// When it cannot be read, it is read again with the `droppable` fields (by index) set to null: those
/// say nothing that the engine needs.
pub(in crate::wire) fn typed<T: DeserializeOwned>(
    bytes: &[u8],
    performative: &'static str,
    droppable: &[u32],
) -> Result<T, PerformativeError> {
    let used = wire::check_structure(bytes)?;
    let mut bytes = Cow::Borrowed(bytes.get(..used).unwrap_or(bytes));
    if !is_readable(&bytes)? {
        let (value, _) = wire::decode_value(&bytes)?;
        let mut out = Vec::with_capacity(bytes.len());
        wire::encode_value(&readable(value), &mut out);
        bytes = Cow::Owned(out);
    }
    let field = |error: serde_amqp::Error| PerformativeError::Field {
        performative,
        text: error.to_string(),
    };
    serde_amqp::from_slice(&bytes).or_else(|_| {
        let without = without(&bytes, droppable)?;
        serde_amqp::from_slice(&without).map_err(field)
    })
}

/// Decodes an error; an `info` that cannot be read is left out.
pub(super) fn read_error(bytes: &[u8]) -> Result<Error, DecodeError> {
    typed(bytes, "error", &[2]).map_err(|error| match error {
        PerformativeError::Decode(error) => error,
        _ => DecodeError::Invalid {
            at: 0,
            expected: "error",
        },
    })
}

/// Whether all arrays in a checked value have elements, of fixed or variable width. Constructors are
/// passed one after the other; only what is variable or an array has bytes to be skipped.
fn is_readable(bytes: &[u8]) -> Result<bool, DecodeError> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.rest().first().copied().and_then(shape) {
            Some(Shape::Described) => {
                reader.byte()?;
            }
            Some(Shape::Compound(width)) => {
                reader.byte()?;
                reader.take(2 * width)?;
            }
            Some(Shape::Array(width)) => {
                let array = reader.raw()?;
                let count = array.get(1 + width..1 + 2 * width).unwrap_or_default();
                let element = array.get(1 + 2 * width).copied().unwrap_or(DESCRIBED);
                let flat = matches!(shape(element), Some(Shape::Fixed(_) | Shape::Variable(_)));
                if !flat || count.iter().all(|byte| *byte == 0) {
                    return Ok(false);
                }
            }
            _ => {
                reader.raw()?;
            }
        }
    }
    Ok(true)
}

/// The value with null in place of each array that `serde_amqp` cannot read. It was checked before,
/// so it is no deeper than 32.
fn readable(value: Value) -> Value {
    match value {
        Value::Array(array) if array.descriptor().is_some() => Value::Null,
        Value::Array(array) => match array.elements().first() {
            None | Some(Value::List(_) | Value::Map(_) | Value::Array(_) | Value::Described(_)) => {
                Value::Null
            }
            Some(_) => Value::Array(array),
        },
        Value::List(values) => Value::List(values.into_iter().map(readable).collect()),
        Value::Map(pairs) => {
            let pairs = pairs.into_iter();
            Value::Map(
                pairs
                    .map(|(key, value)| (readable(key), readable(value)))
                    .collect(),
            )
        }
        Value::Described(described) => {
            let (descriptor, value) = *described;
            Value::Described(Box::new((descriptor, readable(value))))
        }
        value => value,
    }
}

/// The described list in `bytes` with some of its fields set to null.
fn without(bytes: &[u8], fields: &[u32]) -> Result<Vec<u8>, DecodeError> {
    let mut described = Reader::new(bytes).described()?;
    let mut list = described.value.list()?;
    let mut out = Vec::with_capacity(bytes.len());
    wire::write_descriptor(&mut out, codes::number(described.descriptor));
    let compound = wire::begin_list(&mut out);
    let count = list.left();
    for index in 0..count {
        match list.raw()? {
            Some(raw) if !fields.contains(&index) => out.extend_from_slice(raw),
            _ => wire::write_null(&mut out),
        }
    }
    wire::end(&mut out, compound, count as usize);
    Ok(out)
}

/// Appends a value of a type that `serde_amqp` knows. Encoding into memory fails only for values
/// beyond 4 GiB, which nothing here comes near; null then, which the peer refuses.
pub(in crate::wire) fn write_typed<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    match serde_amqp::to_vec(value) {
        Ok(bytes) => out.extend_from_slice(&bytes),
        Err(_) => wire::write_null(out),
    }
}
