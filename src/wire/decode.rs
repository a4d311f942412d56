//! Decoding of values.

use bytes::Bytes;

use super::codes;
use super::{Array, DecodeError, Reader, Value, ValueKind, check_structure};

/// Decodes the value at the front of `input`; also returns how many bytes it takes.
///
/// The structure is checked first, so that nothing is allocated which the bytes do not justify and
/// the recursion below is bounded by `limits::VALUE_DEPTH_MAX`. Maps with a key twice are refused.
pub fn decode_value(input: &[u8]) -> Result<(Value, usize), DecodeError> {
    let used = check_structure(input)?;
    let mut reader = Reader::new(input);
    let value = value(&mut reader)?;
    assert!(
        reader.at() == used,
        "the check and the decoder agree where a value ends"
    );
    Ok((value, used))
}

fn value(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    let at = reader.at();
    let code = reader.byte()?;
    if code == codes::DESCRIBED {
        let descriptor = value(reader)?;
        return Ok(Value::Described(Box::new((descriptor, value(reader)?))));
    }
    bare(reader, at, code)
}

/// Decodes the bytes that follow a type code.
fn bare(reader: &mut Reader<'_>, at: usize, code: u8) -> Result<Value, DecodeError> {
    Ok(match code {
        codes::NULL => Value::Null,
        codes::TRUE => Value::Bool(true),
        codes::FALSE => Value::Bool(false),
        codes::BOOLEAN => Value::Bool(reader.byte()? != 0),
        codes::UBYTE => Value::Ubyte(reader.byte()?),
        codes::USHORT => Value::Ushort(u16::from_be_bytes(reader.array()?)),
        codes::UINT_0 => Value::Uint(0),
        codes::SMALL_UINT => Value::Uint(reader.byte()?.into()),
        codes::UINT => Value::Uint(u32::from_be_bytes(reader.array()?)),
        codes::ULONG_0 => Value::Ulong(0),
        codes::SMALL_ULONG => Value::Ulong(reader.byte()?.into()),
        codes::ULONG => Value::Ulong(u64::from_be_bytes(reader.array()?)),
        codes::BYTE => Value::Byte(i8::from_be_bytes(reader.array()?)),
        codes::SHORT => Value::Short(i16::from_be_bytes(reader.array()?)),
        codes::SMALL_INT => Value::Int(i8::from_be_bytes(reader.array()?).into()),
        codes::INT => Value::Int(i32::from_be_bytes(reader.array()?)),
        codes::SMALL_LONG => Value::Long(i8::from_be_bytes(reader.array()?).into()),
        codes::LONG => Value::Long(i64::from_be_bytes(reader.array()?)),
        codes::FLOAT => Value::Float(u32::from_be_bytes(reader.array()?)),
        codes::DOUBLE => Value::Double(u64::from_be_bytes(reader.array()?)),
        codes::DECIMAL32 => Value::Decimal32(reader.array()?),
        codes::DECIMAL64 => Value::Decimal64(reader.array()?),
        codes::DECIMAL128 => Value::Decimal128(reader.array()?),
        codes::CHAR => Value::Char(u32::from_be_bytes(reader.array()?)),
        codes::TIMESTAMP => Value::Timestamp(i64::from_be_bytes(reader.array()?)),
        codes::UUID => Value::Uuid(reader.array()?),
        codes::BINARY_8 => Value::Binary(Bytes::copy_from_slice(variable(reader, 1)?)),
        codes::BINARY_32 => Value::Binary(Bytes::copy_from_slice(variable(reader, 4)?)),
        codes::STRING_8 => Value::String(text(reader, at, 1)?),
        codes::STRING_32 => Value::String(text(reader, at, 4)?),
        codes::SYMBOL_8 => Value::Symbol(text(reader, at, 1)?),
        codes::SYMBOL_32 => Value::Symbol(text(reader, at, 4)?),
        codes::LIST_0 => Value::List(Vec::new()),
        codes::LIST_8 => Value::List(list(reader, 1)?),
        codes::LIST_32 => Value::List(list(reader, 4)?),
        codes::MAP_8 => Value::Map(map(reader, at, 1)?),
        codes::MAP_32 => Value::Map(map(reader, at, 4)?),
        codes::ARRAY_8 => Value::Array(array(reader, 1)?),
        codes::ARRAY_32 => Value::Array(array(reader, 4)?),
        _ => return Err(DecodeError::UnknownCode { at, code }),
    })
}

fn variable<'a>(reader: &mut Reader<'a>, width: usize) -> Result<&'a [u8], DecodeError> {
    let len = reader.number(width)?;
    reader.take(len)
}

fn text(reader: &mut Reader<'_>, at: usize, width: usize) -> Result<String, DecodeError> {
    let text = std::str::from_utf8(variable(reader, width)?);
    text.map(str::to_owned)
        .map_err(|_| DecodeError::NotUtf8 { at })
}

/// Reads size and count; the size was checked.
fn count(reader: &mut Reader<'_>, width: usize) -> Result<usize, DecodeError> {
    reader.number(width)?;
    reader.number(width)
}

fn list(reader: &mut Reader<'_>, width: usize) -> Result<Vec<Value>, DecodeError> {
    let count = count(reader, width)?;
    (0..count).map(|_| value(reader)).collect()
}

fn map(
    reader: &mut Reader<'_>,
    at: usize,
    width: usize,
) -> Result<Vec<(Value, Value)>, DecodeError> {
    let pairs = count(reader, width)? / 2;
    let pairs = (0..pairs).map(|_| Ok((value(reader)?, value(reader)?)));
    let pairs = pairs.collect::<Result<Vec<_>, DecodeError>>()?;
    if has_key_twice(&pairs) {
        Err(DecodeError::DuplicateKey { at })
    } else {
        Ok(pairs)
    }
}

fn has_key_twice(pairs: &[(Value, Value)]) -> bool {
    let mut keys = pairs.iter().map(|(key, _)| key).collect::<Vec<_>>();
    keys.sort_unstable();
    keys.windows(2).any(|two| matches!(two, [a, b] if a == b))
}

fn array(reader: &mut Reader<'_>, width: usize) -> Result<Array, DecodeError> {
    let count = count(reader, width)?;
    let mut at = reader.at();
    let mut code = reader.byte()?;
    let mut descriptor = None;
    if code == codes::DESCRIBED {
        descriptor = Some(value(reader)?);
        at = reader.at();
        code = reader.byte()?;
    }
    let elements = (0..count)
        .map(|_| bare(reader, at, code))
        .collect::<Result<Vec<_>, _>>()?;
    let kind = codes::kind(code).unwrap_or(ValueKind::Null);
    let array = Array::new(kind, elements).ok_or(DecodeError::UnknownCode { at, code })?;
    Ok(match descriptor {
        Some(descriptor) => array.described_by(descriptor),
        None => array,
    })
}
