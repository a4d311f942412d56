//! Writing encoded values one by one, in the most compact encoding that fits. [AMQP 1.6]
//!
//! Compound values are begun, and ended when their elements are written, so that no size needs to
//! be known before:
//!
//! ```text
//! let compound = begin_map(out);
//! write_symbol(out, "x-exchange"); write_string(out, "");
//! end(out, compound, 2);
//! ```

use super::codes;

/// Writes the value null.
#[inline]
pub fn write_null(out: &mut Vec<u8>) {
    out.push(codes::NULL);
}

/// Writes a value with the function for its type, or null.
#[inline]
pub fn write_or_null<T>(out: &mut Vec<u8>, value: Option<T>, write: fn(&mut Vec<u8>, T)) {
    match value {
        Some(value) => write(out, value),
        None => write_null(out),
    }
}

/// Writes a text as a string, or as a binary: see
/// [`Fields::string_or_binary`](super::Fields::string_or_binary).
pub fn write_string_or_binary(out: &mut Vec<u8>, (text, is_binary): (&str, bool)) {
    if is_binary {
        write_binary(out, text.as_bytes());
    } else {
        write_string(out, text);
    }
}

/// Writes a boolean.
#[inline]
pub fn write_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { codes::TRUE } else { codes::FALSE });
}

/// Writes a ubyte.
#[inline]
pub fn write_ubyte(out: &mut Vec<u8>, value: u8) {
    out.extend_from_slice(&[codes::UBYTE, value]);
}

/// Writes a ushort.
pub fn write_ushort(out: &mut Vec<u8>, value: u16) {
    let [a, b] = value.to_be_bytes();
    out.extend_from_slice(&[codes::USHORT, a, b]);
}

/// Writes a uint.
#[inline]
pub fn write_uint(out: &mut Vec<u8>, value: u32) {
    match u8::try_from(value) {
        Ok(0) => out.push(codes::UINT_0),
        Ok(small) => out.extend_from_slice(&[codes::SMALL_UINT, small]),
        Err(_) => {
            let [a, b, c, d] = value.to_be_bytes();
            out.extend_from_slice(&[codes::UINT, a, b, c, d]);
        }
    }
}

/// Number of bytes that [`write_uint`] writes for a value.
pub const fn uint_len(value: u32) -> u8 {
    match value {
        0 => 1,
        1..=0xff => 2,
        _ => 5,
    }
}

/// Writes a ulong.
#[inline]
pub fn write_ulong(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(0) => out.push(codes::ULONG_0),
        Ok(small) => out.extend_from_slice(&[codes::SMALL_ULONG, small]),
        Err(_) => write_eight(out, codes::ULONG, value.to_be_bytes()),
    }
}

/// Writes an int.
pub fn write_int(out: &mut Vec<u8>, value: i32) {
    if let Ok(small) = i8::try_from(value) {
        out.push(codes::SMALL_INT);
        out.extend_from_slice(&small.to_be_bytes());
    } else {
        out.push(codes::INT);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes a long.
pub fn write_long(out: &mut Vec<u8>, value: i64) {
    if let Ok(small) = i8::try_from(value) {
        out.push(codes::SMALL_LONG);
        out.extend_from_slice(&small.to_be_bytes());
    } else {
        out.push(codes::LONG);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes a timestamp, in milliseconds since 1970.
#[inline]
pub fn write_timestamp(out: &mut Vec<u8>, value_ms: i64) {
    write_eight(out, codes::TIMESTAMP, value_ms.to_be_bytes());
}

/// Writes a code and its eight bytes in one step: each step checks the capacity.
#[inline]
fn write_eight(out: &mut Vec<u8>, code: u8, value: [u8; 8]) {
    let mut bytes = [code; 9];
    let [_, rest @ ..] = &mut bytes;
    *rest = value;
    out.extend_from_slice(&bytes);
}

/// Writes a string.
#[inline]
pub fn write_string(out: &mut Vec<u8>, value: &str) {
    write_variable(out, codes::STRING_8, codes::STRING_32, value.as_bytes());
}

/// Writes a symbol. The text must be ASCII, or readers will refuse it.
#[inline]
pub fn write_symbol(out: &mut Vec<u8>, value: &str) {
    write_variable(out, codes::SYMBOL_8, codes::SYMBOL_32, value.as_bytes());
}

/// Writes a binary.
#[inline]
pub fn write_binary(out: &mut Vec<u8>, value: &[u8]) {
    write_variable(out, codes::BINARY_8, codes::BINARY_32, value);
}

/// Writes a binary with the bytes that `write` appends.
pub fn write_binary_of(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[codes::BINARY_8, 0]);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    if let Ok(length) = u8::try_from(length) {
        if let Some(place) = out.get_mut(start - 1) {
            *place = length;
        }
        return;
    }
    let [first, rest @ ..] = size_u32(length).to_be_bytes();
    out.splice(
        start - 2..start,
        [codes::BINARY_32, first].into_iter().chain(rest),
    );
}

#[inline]
fn write_variable(out: &mut Vec<u8>, code_8: u8, code_32: u8, bytes: &[u8]) {
    if let Ok(len) = u8::try_from(bytes.len()) {
        out.extend_from_slice(&[code_8, len]);
    } else {
        out.push(code_32);
        out.extend_from_slice(&size_u32(bytes.len()).to_be_bytes());
    }
    out.extend_from_slice(bytes);
}

/// Writes the constructor of a described value with a ulong descriptor; the value must follow.
pub fn write_descriptor(out: &mut Vec<u8>, descriptor: u64) {
    out.push(codes::DESCRIBED);
    write_ulong(out, descriptor);
}

/// A compound value that was begun and is not ended yet.
#[derive(Debug)]
#[must_use = "a value that was begun must be finished with `end`"]
pub struct OpenCompound {
    /// Offset of its type code in the output.
    start: usize,
}

/// Begins a list; write its elements, then call [`end`].
pub fn begin_list(out: &mut Vec<u8>) -> OpenCompound {
    begin(out, codes::LIST_8)
}

/// Begins a map; write its keys and values alternately, then call [`end`] with their number (two
/// for each pair).
pub fn begin_map(out: &mut Vec<u8>) -> OpenCompound {
    begin(out, codes::MAP_8)
}

/// Begins an array of strings; write its elements with [`write_array_string`], then call [`end`].
pub fn begin_string_array(out: &mut Vec<u8>) -> OpenCompound {
    let compound = begin(out, codes::ARRAY_8);
    out.push(codes::STRING_32);
    compound
}

/// Writes an element of an array begun with [`begin_string_array`].
pub fn write_array_string(out: &mut Vec<u8>, value: &str) {
    write_array_bytes(out, value.as_bytes());
}

/// Writes an element of an array of strings, symbols or binaries with four-byte lengths.
pub(super) fn write_array_bytes(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&size_u32(value.len()).to_be_bytes());
    out.extend_from_slice(value);
}

/// Begins an array of maps; write its elements with [`begin_array_element`], then call [`end`].
pub fn begin_map_array(out: &mut Vec<u8>) -> OpenCompound {
    let compound = begin(out, codes::ARRAY_8);
    out.push(codes::MAP_32);
    compound
}

/// Begins one element of an array of maps; finish it with [`end_array_element`].
pub fn begin_array_element(out: &mut Vec<u8>) -> OpenCompound {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    OpenCompound { start }
}

/// Finishes an element of an array of maps with the number of its keys and values.
#[allow(
    clippy::needless_pass_by_value,
    reason = "a mark is used up: no value is finished twice"
)]
pub fn end_array_element(out: &mut [u8], compound: OpenCompound, count: usize) {
    let start = compound.start;
    let size = size_u32(out.len() - start - 4);
    patch(out, start, &size.to_be_bytes());
    patch(out, start + 4, &size_u32(count).to_be_bytes());
}

pub(super) fn begin(out: &mut Vec<u8>, code_8: u8) -> OpenCompound {
    let start = out.len();
    out.extend_from_slice(&[code_8, 0, 0]);
    OpenCompound { start }
}

/// Ends a list, map or array with the number of its elements: in the one-byte form if it fits,
/// otherwise its content moves six bytes to make room for the four-byte form.
#[allow(
    clippy::needless_pass_by_value,
    reason = "a mark is used up: no value is finished twice"
)]
pub fn end(out: &mut Vec<u8>, compound: OpenCompound, count: usize) {
    let start = compound.start;
    let content = out.len() - start - 3;
    if let (Ok(size), Ok(count)) = (u8::try_from(content + 1), u8::try_from(count)) {
        patch(out, start + 1, &[size, count]);
        return;
    }
    out.extend_from_slice(&[0; 6]);
    out.copy_within(start + 3..start + 3 + content, start + 9);
    if let Some(code) = out.get_mut(start) {
        *code += codes::LIST_32 - codes::LIST_8;
    }
    patch(out, start + 1, &size_u32(content + 4).to_be_bytes());
    patch(out, start + 5, &size_u32(count).to_be_bytes());
}

fn patch(out: &mut [u8], at: usize, bytes: &[u8]) {
    let hole = out.get_mut(at..at + bytes.len());
    assert!(hole.is_some(), "a mark points at bytes that were written");
    if let Some(hole) = hole {
        hole.copy_from_slice(bytes);
    }
}

/// Sizes of encoded values are four bytes; messages are far smaller.
fn size_u32(size: usize) -> u32 {
    let size = u32::try_from(size);
    assert!(size.is_ok(), "no encoded value reaches 4 GiB");
    size.unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{write_binary, write_binary_of};

    #[test]
    fn a_binary_written_in_its_place_is_as_one_that_is_copied() {
        for length in [0, 1, 255, 256, 70_000] {
            let bytes = vec![7; length];
            let (mut copied, mut written) = (vec![1], vec![1]);
            write_binary(&mut copied, &bytes);
            write_binary_of(&mut written, |out| out.extend_from_slice(&bytes));
            assert_eq!(copied, written, "{length} bytes");
        }
    }
}
