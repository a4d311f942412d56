//! Encoding of values.

use super::writer::{self, begin, begin_array_element, end, end_array_element, write_array_bytes};
use super::{Array, Value, ValueKind, codes};

/// Appends a value in the most compact encoding of its type, as `RabbitMQ` and Proton choose it.
pub fn encode_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Uint(n) => writer::write_uint(out, *n),
        Value::Ulong(n) => writer::write_ulong(out, *n),
        Value::Int(n) => writer::write_int(out, *n),
        Value::Long(n) => writer::write_long(out, *n),
        Value::Bool(b) => writer::write_bool(out, *b),
        Value::Binary(bytes) => writer::write_binary(out, bytes),
        Value::String(text) => writer::write_string(out, text),
        Value::Symbol(text) => writer::write_symbol(out, text),
        Value::List(elements) if elements.is_empty() => out.push(codes::LIST_0),
        Value::List(elements) => {
            let compound = begin(out, codes::LIST_8);
            for element in elements {
                encode_value(element, out);
            }
            end(out, compound, elements.len());
        }
        Value::Map(pairs) => {
            let compound = begin(out, codes::MAP_8);
            encode_pairs(pairs, out);
            end(out, compound, 2 * pairs.len());
        }
        Value::Array(array) => encode_array(array, out),
        Value::Described(described) => {
            out.push(codes::DESCRIBED);
            encode_value(&described.0, out);
            encode_value(&described.1, out);
        }
        _ => {
            out.push(full_code(value.kind()));
            encode_bare(value, out);
        }
    }
}

/// Appends a value as [`encode_value`] does, but with each boolean in two bytes, as `RabbitMQ`
/// encodes its answers: some clients return a one-byte boolean as a number.
pub fn encode_answer(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(truth) => out.extend_from_slice(&[codes::BOOLEAN, (*truth).into()]),
        Value::List(elements) if !elements.is_empty() => {
            let compound = begin(out, codes::LIST_8);
            for element in elements {
                encode_answer(element, out);
            }
            end(out, compound, elements.len());
        }
        Value::Map(pairs) => {
            let compound = begin(out, codes::MAP_8);
            for (key, value) in pairs {
                encode_answer(key, out);
                encode_answer(value, out);
            }
            end(out, compound, 2 * pairs.len());
        }
        other => encode_value(other, out),
    }
}

fn encode_pairs(pairs: &[(Value, Value)], out: &mut Vec<u8>) {
    for (key, value) in pairs {
        encode_value(key, out);
        encode_value(value, out);
    }
}

fn encode_array(array: &Array, out: &mut Vec<u8>) {
    let compound = begin(out, codes::ARRAY_8);
    encode_elements(array, out);
    end(out, compound, array.elements().len());
}

/// Writes the constructor and the elements of an array.
fn encode_elements(array: &Array, out: &mut Vec<u8>) {
    if let Some(descriptor) = array.descriptor() {
        out.push(codes::DESCRIBED);
        encode_value(descriptor, out);
    }
    out.push(full_code(array.kind()));
    for element in array.elements() {
        encode_bare(element, out);
    }
}

/// Writes a value without its type code, as it follows [`full_code`].
fn encode_bare(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(b) => out.push((*b).into()),
        Value::Ubyte(n) => out.push(*n),
        Value::Ushort(n) => out.extend_from_slice(&n.to_be_bytes()),
        Value::Uint(n) | Value::Float(n) | Value::Char(n) => {
            out.extend_from_slice(&n.to_be_bytes());
        }
        Value::Ulong(n) | Value::Double(n) => out.extend_from_slice(&n.to_be_bytes()),
        Value::Byte(n) => out.extend_from_slice(&n.to_be_bytes()),
        Value::Short(n) => out.extend_from_slice(&n.to_be_bytes()),
        Value::Int(n) => out.extend_from_slice(&n.to_be_bytes()),
        Value::Long(n) | Value::Timestamp(n) => out.extend_from_slice(&n.to_be_bytes()),
        Value::Decimal32(bytes) => out.extend_from_slice(bytes),
        Value::Decimal64(bytes) => out.extend_from_slice(bytes),
        Value::Decimal128(bytes) | Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::Binary(bytes) => write_array_bytes(out, bytes),
        Value::String(text) | Value::Symbol(text) => write_array_bytes(out, text.as_bytes()),
        Value::List(elements) => {
            let compound = begin_array_element(out);
            for element in elements {
                encode_value(element, out);
            }
            end_array_element(out, compound, elements.len());
        }
        Value::Map(pairs) => {
            let compound = begin_array_element(out);
            encode_pairs(pairs, out);
            end_array_element(out, compound, 2 * pairs.len());
        }
        Value::Array(array) => {
            let compound = begin_array_element(out);
            encode_elements(array, out);
            end_array_element(out, compound, array.elements().len());
        }
        // Never an element: an array has the descriptor of its elements itself.
        Value::Described(described) => {
            encode_value(&described.0, out);
            encode_value(&described.1, out);
        }
    }
}

/// The type code of a type in its widest form, which fits every value.
const fn full_code(kind: ValueKind) -> u8 {
    match kind {
        ValueKind::Null => codes::NULL,
        ValueKind::Boolean => codes::BOOLEAN,
        ValueKind::Ubyte => codes::UBYTE,
        ValueKind::Ushort => codes::USHORT,
        ValueKind::Uint => codes::UINT,
        ValueKind::Ulong => codes::ULONG,
        ValueKind::Byte => codes::BYTE,
        ValueKind::Short => codes::SHORT,
        ValueKind::Int => codes::INT,
        ValueKind::Long => codes::LONG,
        ValueKind::Float => codes::FLOAT,
        ValueKind::Double => codes::DOUBLE,
        ValueKind::Decimal32 => codes::DECIMAL32,
        ValueKind::Decimal64 => codes::DECIMAL64,
        ValueKind::Decimal128 => codes::DECIMAL128,
        ValueKind::Char => codes::CHAR,
        ValueKind::Timestamp => codes::TIMESTAMP,
        ValueKind::Uuid => codes::UUID,
        ValueKind::Binary => codes::BINARY_32,
        ValueKind::String => codes::STRING_32,
        ValueKind::Symbol => codes::SYMBOL_32,
        ValueKind::List => codes::LIST_32,
        ValueKind::Map => codes::MAP_32,
        ValueKind::Array => codes::ARRAY_32,
        ValueKind::Described => codes::DESCRIBED,
    }
}
