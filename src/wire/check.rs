//! The structural check that stands before any decoding.

use super::DecodeError;

/// Checks the value at the front of `input` and returns how many bytes it takes.
pub fn check_structure(input: &[u8]) -> Result<usize, DecodeError> {
    value_len(input)
}

/// How many bytes the value at the front of `input` takes, without looking inside.
pub fn value_len(input: &[u8]) -> Result<usize, DecodeError> {
    Err(DecodeError::Truncated { at: input.len() })
}

/// Checks that `input` is exactly one annotation map (keys symbols or ulongs). [AMQP 3.2.10]
pub fn check_annotations(input: &[u8]) -> Result<(), DecodeError> {
    check_structure(input).map(|_| ())
}
