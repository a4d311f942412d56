//! Reading encoded values in place, without allocation.
//!
//! The reader checks what it reads, so it is safe on any bytes; [`super::check_structure`] checks a
//! whole value in advance.

use super::codes::{self, Shape, shape};
use super::{DecodeError, Fields, Pairs, Value, ValueKind, decode_value};

/// A cursor over encoded values. Offsets in errors count from the first byte of the outermost reader.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The bytes from the first one of the outermost reader to the end of what this one may read.
    bytes: &'a [u8],
    at: usize,
}

/// The descriptor of a described value. [AMQP 1.2.1]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Descriptor<'a> {
    /// The number, for a ulong.
    Code(u64),
    /// The name, for a symbol.
    Symbol(&'a str),
}

/// A described value, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The descriptor of the value.
    pub descriptor: Descriptor<'a>,
    /// Reads the value under it (and nothing beyond).
    pub value: Reader<'a>,
}

impl<'a> Reader<'a> {
    /// Reads from the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads from byte `at`; offsets go on counting from the first byte.
    pub const fn starting_at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Offset of the next byte.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The type of the next value; none at the end or before an unknown type code.
    pub fn kind(&self) -> Option<ValueKind> {
        self.bytes.get(self.at).and_then(|code| codes::kind(*code))
    }

    /// Whether null is next.
    pub(super) fn next_is_null(&self) -> bool {
        self.bytes.get(self.at) == Some(&codes::NULL)
    }

    /// The name of the next value's type, for error messages.
    pub fn type_name(&self) -> &'static str {
        self.bytes
            .get(self.at)
            .map_or("nothing", |code| codes::type_name(*code))
    }

    /// The encoded bytes of the next value; the cursor moves behind it.
    pub fn raw(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = self.at;
        let mut values = 1_u32;
        while values > 0 {
            values -= 1;
            let at = self.at;
            let code = self.byte()?;
            match shape(code).ok_or(DecodeError::UnknownCode { at, code })? {
                Shape::Fixed(width) => self.take(width).map(drop)?,
                Shape::Variable(width) | Shape::Compound(width) | Shape::Array(width) => {
                    let len = self.number(width)?;
                    self.take(len)?;
                }
                // Each descriptor takes at least one byte, so this cannot overflow.
                Shape::Described => values += 2,
            }
        }
        Ok(self.bytes.get(start..self.at).unwrap_or_default())
    }

    /// Reads a boolean. [AMQP 1.6.2]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        let at = self.at;
        match self.byte()? {
            codes::TRUE => Ok(true),
            codes::FALSE => Ok(false),
            codes::BOOLEAN => Ok(self.byte()? != 0),
            code => Err(wrong_type(at, "boolean", code)),
        }
    }

    /// Reads a ubyte. [AMQP 1.6.3]
    pub fn ubyte(&mut self) -> Result<u8, DecodeError> {
        let at = self.at;
        match self.byte()? {
            codes::UBYTE => self.byte(),
            code => Err(wrong_type(at, "ubyte", code)),
        }
    }

    /// Reads a ushort. [AMQP 1.6.4]
    pub fn ushort(&mut self) -> Result<u16, DecodeError> {
        let at = self.at;
        match self.byte()? {
            codes::USHORT => self.array().map(u16::from_be_bytes),
            code => Err(wrong_type(at, "ushort", code)),
        }
    }

    /// Reads a uint. [AMQP 1.6.5]
    pub fn uint(&mut self) -> Result<u32, DecodeError> {
        let at = self.at;
        match self.byte()? {
            codes::UINT_0 => Ok(0),
            codes::SMALL_UINT => self.byte().map(u32::from),
            codes::UINT => self.array().map(u32::from_be_bytes),
            code => Err(wrong_type(at, "uint", code)),
        }
    }

    /// Reads a ulong. [AMQP 1.6.6]
    pub fn ulong(&mut self) -> Result<u64, DecodeError> {
        let at = self.at;
        match self.byte()? {
            codes::ULONG_0 => Ok(0),
            codes::SMALL_ULONG => self.byte().map(u64::from),
            codes::ULONG => self.array().map(u64::from_be_bytes),
            code => Err(wrong_type(at, "ulong", code)),
        }
    }

    /// Reads a timestamp, in milliseconds since 1970. [AMQP 1.6.17]
    pub fn timestamp(&mut self) -> Result<i64, DecodeError> {
        let at = self.at;
        match self.byte()? {
            codes::TIMESTAMP => self.array().map(i64::from_be_bytes),
            code => Err(wrong_type(at, "timestamp", code)),
        }
    }

    /// Reads a binary. [AMQP 1.6.19]
    pub fn binary(&mut self) -> Result<&'a [u8], DecodeError> {
        self.variable("binary", codes::BINARY_8, codes::BINARY_32)
    }

    /// Reads a string. [AMQP 1.6.20]
    pub fn string(&mut self) -> Result<&'a str, DecodeError> {
        let at = self.at;
        let bytes = self.string_bytes()?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8 { at })
    }

    /// Reads the bytes of a string, which are not checked. [AMQP 1.6.20]
    pub fn string_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        self.variable("string", codes::STRING_8, codes::STRING_32)
    }

    /// Reads a symbol. [AMQP 1.6.21]
    pub fn symbol(&mut self) -> Result<&'a str, DecodeError> {
        let at = self.at;
        let bytes = self.variable("symbol", codes::SYMBOL_8, codes::SYMBOL_32)?;
        match std::str::from_utf8(bytes) {
            Ok(text) if text.is_ascii() => Ok(text),
            _ => Err(DecodeError::NotAscii { at }),
        }
    }

    /// Reads a value of any type.
    pub fn value(&mut self) -> Result<Value, DecodeError> {
        let (value, used) = decode_value(self.rest())?;
        self.at += used;
        Ok(value)
    }

    /// The fields of a list; the cursor moves behind it. [AMQP 1.6.22]
    pub fn list(&mut self) -> Result<Fields<'a>, DecodeError> {
        let at = self.at;
        match self.byte()? {
            codes::LIST_0 => Ok(Fields {
                reader: *self,
                left: 0,
            }),
            code @ (codes::LIST_8 | codes::LIST_32) => {
                let (reader, left) = self.compound(code)?;
                Ok(Fields { reader, left })
            }
            code => Err(wrong_type(at, "list", code)),
        }
    }

    /// The pairs of a map; the cursor moves behind it. [AMQP 1.6.23]
    pub fn map(&mut self) -> Result<Pairs<'a>, DecodeError> {
        let at = self.at;
        match self.byte()? {
            code @ (codes::MAP_8 | codes::MAP_32) => {
                let (reader, left) = self.compound(code)?;
                Ok(Pairs { reader, left })
            }
            code => Err(wrong_type(at, "map", code)),
        }
    }

    /// A described list at the front of `bytes` in its most common form, with a number of one byte
    /// as descriptor and a size of one byte: the number, the fields, and the offset of their end.
    /// None if it has another form or is invalid: [`Reader::described`] reports why.
    pub fn short_list(bytes: &'a [u8]) -> Option<(u64, Fields<'a>, usize)> {
        let &[
            codes::DESCRIBED,
            codes::SMALL_ULONG,
            descriptor,
            codes::LIST_8,
            size,
            count,
            ..,
        ] = bytes
        else {
            return None;
        };
        let end = 5 + usize::from(size);
        let reader = Self {
            bytes: bytes.get(..end)?,
            at: 6,
        };
        let left = count.into();
        (size > 0).then_some((descriptor.into(), Fields { reader, left }, end))
    }

    /// A described value; the cursor moves behind it. [AMQP 1.2.1]
    pub fn described(&mut self) -> Result<Described<'a>, DecodeError> {
        let descriptor = self.descriptor()?;
        let at = self.at;
        self.raw()?;
        let bytes = self.bytes.get(..self.at).unwrap_or_default();
        Ok(Described {
            descriptor,
            value: Self { bytes, at },
        })
    }

    /// The descriptor of a described value; the cursor stands before the value. The descriptor must
    /// be a ulong or a symbol, other types are reserved. [AMQP 1.2.1]
    pub fn descriptor(&mut self) -> Result<Descriptor<'a>, DecodeError> {
        let at = self.at;
        let code = self.byte()?;
        if code != codes::DESCRIBED {
            return Err(wrong_type(at, "described value", code));
        }
        match self.kind() {
            Some(ValueKind::Symbol) => self.symbol().map(Descriptor::Symbol),
            _ => self.ulong().map(Descriptor::Code),
        }
    }

    /// Enters a list or map behind its type code: a reader of its elements, and their number.
    fn compound(&mut self, code: u8) -> Result<(Self, u32), DecodeError> {
        let width = if matches!(code, codes::LIST_8 | codes::MAP_8) {
            1
        } else {
            4
        };
        let size = self.number(width)?;
        let start = self.at;
        self.take(size)?;
        let mut inner = Self {
            bytes: self.bytes.get(..self.at).unwrap_or_default(),
            at: start,
        };
        let count = inner.number(width)?;
        Ok((inner, u32::try_from(count).unwrap_or(u32::MAX)))
    }

    fn variable(
        &mut self,
        expected: &'static str,
        code_8: u8,
        code_32: u8,
    ) -> Result<&'a [u8], DecodeError> {
        let at = self.at;
        let code = self.byte()?;
        let len = if code == code_8 {
            self.number(1)?
        } else if code == code_32 {
            self.number(4)?
        } else {
            return Err(wrong_type(at, expected, code));
        };
        self.take(len)
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let at = self.at;
        let bytes = self
            .rest()
            .first_chunk::<N>()
            .ok_or(DecodeError::Truncated { at })?;
        self.at += N;
        Ok(*bytes)
    }

    /// Reads a length, size or count of one or four bytes.
    pub(super) fn number(&mut self, width: usize) -> Result<usize, DecodeError> {
        if width == 1 {
            Ok(self.byte()? as usize)
        } else {
            Ok(u32::from_be_bytes(self.array()?) as usize)
        }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let at = self.at;
        let taken = self
            .rest()
            .get(..len)
            .ok_or(DecodeError::Truncated { at })?;
        self.at += len;
        Ok(taken)
    }
}

fn wrong_type(at: usize, expected: &'static str, code: u8) -> DecodeError {
    DecodeError::Type {
        at,
        expected,
        found: codes::type_name(code),
    }
}
