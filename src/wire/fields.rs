//! The elements of encoded lists and maps, read in place one after the other.

use super::{DecodeError, Described, Reader, Value, ValueKind};

/// The fields of a list, one after the other: absent ones at the end read as null. [AMQP 1.4]
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) left: u32,
}

impl<'a> Fields<'a> {
    /// Reads values one behind the other, without a list around them; reading more than there are
    /// is an error.
    pub const fn bare(values: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(values),
            left: u32::MAX,
        }
    }

    /// Offset of the next field.
    pub const fn at(&self) -> usize {
        self.reader.at()
    }

    /// The bytes of the fields that are left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Whether no byte is left.
    pub const fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }

    /// Number of fields that are left on the wire.
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Skips `count` fields.
    pub fn skip(&mut self, count: u32) -> Result<(), DecodeError> {
        for _ in 0..count.min(self.left) {
            self.raw()?;
        }
        Ok(())
    }

    /// The encoded field; none if it is null or absent.
    pub fn raw(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        self.field(Reader::raw)
    }

    /// Reads a boolean; none if it is null or absent.
    pub fn bool(&mut self) -> Result<Option<bool>, DecodeError> {
        self.field(Reader::bool)
    }

    /// Reads a ubyte; none if it is null or absent.
    pub fn ubyte(&mut self) -> Result<Option<u8>, DecodeError> {
        self.field(Reader::ubyte)
    }

    /// Reads a uint; none if it is null or absent.
    pub fn uint(&mut self) -> Result<Option<u32>, DecodeError> {
        self.field(Reader::uint)
    }

    /// Reads a ulong; none if it is null or absent.
    pub fn ulong(&mut self) -> Result<Option<u64>, DecodeError> {
        self.field(Reader::ulong)
    }

    /// Reads a string; none if it is null or absent.
    pub fn string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        self.field(Reader::string)
    }

    /// Reads a symbol; none if it is null or absent.
    pub fn symbol(&mut self) -> Result<Option<&'a str>, DecodeError> {
        self.field(Reader::symbol)
    }

    /// Reads a binary; none if it is null or absent.
    pub fn binary(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        self.field(Reader::binary)
    }

    /// Reads a text that is a string, or a binary with UTF-8, and whether it is the latter; none if it is null
    /// or absent.
    pub fn string_or_binary(&mut self) -> Result<Option<(&'a str, bool)>, DecodeError> {
        let before = *self;
        if let Ok(text) = self.string() {
            return Ok(text.map(|text| (text, false)));
        }
        *self = before;
        let at = self.at();
        let text = self.binary()?.map(std::str::from_utf8).transpose();
        let text = text.map_err(|_| DecodeError::NotUtf8 { at })?;
        Ok(text.map(|text| (text, true)))
    }

    /// Reads a timestamp, in milliseconds since 1970; none if it is null or absent.
    pub fn timestamp(&mut self) -> Result<Option<i64>, DecodeError> {
        self.field(Reader::timestamp)
    }

    /// Reads a described value; none if it is null or absent.
    pub fn described(&mut self) -> Result<Option<Described<'a>>, DecodeError> {
        self.field(Reader::described)
    }

    /// Reads a value of any type; none if it is null or absent.
    pub fn value(&mut self) -> Result<Option<Value>, DecodeError> {
        self.field(Reader::value)
    }

    fn field<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        if self.reader.next_is_null() {
            self.reader.byte()?;
            return Ok(None);
        }
        read(&mut self.reader).map(Some)
    }
}

/// The pairs of a map, one after the other.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) left: u32,
}

/// One pair of a map, read in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair<'a> {
    /// Offset of the key.
    pub at: usize,
    /// The encoded key.
    pub key: &'a [u8],
    /// The encoded value.
    pub value: &'a [u8],
}

impl<'a> Pair<'a> {
    /// The type of the key.
    pub fn kind_of_key(&self) -> Option<ValueKind> {
        Reader::new(self.key).kind()
    }

    /// The name of the key's type, for error messages.
    pub fn key_type(&self) -> &'static str {
        Reader::new(self.key).type_name()
    }

    /// The key, if it is a symbol.
    pub fn symbol_key(&self) -> Option<&'a str> {
        Reader::new(self.key).symbol().ok()
    }

    /// The key, if it is a string.
    pub fn string_key(&self) -> Option<&'a str> {
        Reader::new(self.key).string().ok()
    }

    /// The key, if it is a ulong.
    pub fn ulong_key(&self) -> Option<u64> {
        Reader::new(self.key).ulong().ok()
    }
}

impl<'a> Pairs<'a> {
    /// Number of keys and values that are left (two for each pair).
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// The encoded pairs that are left, without the map around them.
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Reads pairs that have no map around them.
    pub const fn bare(pairs: &'a [u8], count: u32) -> Self {
        Self {
            reader: Reader::new(pairs),
            left: count,
        }
    }

    fn pair(&mut self) -> Result<Pair<'a>, DecodeError> {
        let at = self.reader.at();
        Ok(Pair {
            at,
            key: self.reader.raw()?,
            value: self.reader.raw()?,
        })
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<Pair<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(2)?;
        let pair = self.pair();
        if pair.is_err() {
            self.left = 0;
        }
        Some(pair)
    }
}
