//! One AMQP value of any type. [AMQP 1.6]

use bytes::Bytes;

/// Any AMQP value, exact to its type. Floats and decimals are kept as bits, so that values compare
/// and hash exactly and pass through unchanged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    /// null
    Null,
    /// boolean
    Bool(bool),
    /// ubyte
    Ubyte(u8),
    /// ushort
    Ushort(u16),
    /// uint
    Uint(u32),
    /// ulong
    Ulong(u64),
    /// byte
    Byte(i8),
    /// short
    Short(i16),
    /// int
    Int(i32),
    /// long
    Long(i64),
    /// float, as IEEE 754 bits
    Float(u32),
    /// double, as IEEE 754 bits
    Double(u64),
    /// decimal32, as its bytes
    Decimal32([u8; 4]),
    /// decimal64, as its bytes
    Decimal64([u8; 8]),
    /// decimal128, as its bytes
    Decimal128([u8; 16]),
    /// char, as UTF-32
    Char(u32),
    /// timestamp, milliseconds since 1970
    Timestamp(i64),
    /// uuid
    Uuid([u8; 16]),
    /// binary
    Binary(Bytes),
    /// string
    String(String),
    /// symbol
    Symbol(String),
    /// list
    List(Vec<Value>),
    /// map, in wire order; keys may repeat on the wire, which decoding refuses
    Map(Vec<(Value, Value)>),
    /// array
    Array(Array),
    /// described value: descriptor, value
    Described(Box<(Value, Value)>),
}

/// An array: one constructor (type code, after any descriptor) for all elements.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Array {
    /// The element constructor's type code, kept so that an empty array keeps its type.
    pub code: u8,
    /// The descriptor in the constructor, if elements are described (elements then hold bare values).
    pub descriptor: Option<Box<Value>>,
    /// The elements, all of one type.
    pub elements: Vec<Value>,
}

impl Value {
    /// A string.
    pub fn string(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    /// A symbol.
    pub fn symbol(text: impl Into<String>) -> Self {
        Self::Symbol(text.into())
    }

    /// The text of a string or symbol.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// The number of any integer type, if it is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Ubyte(n) => Some(n.into()),
            Self::Ushort(n) => Some(n.into()),
            Self::Uint(n) => Some(n.into()),
            Self::Ulong(n) => Some(n),
            _ => self.as_i64().and_then(|n| u64::try_from(n).ok()),
        }
    }

    /// The number of any integer type, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Ubyte(n) => Some(n.into()),
            Self::Ushort(n) => Some(n.into()),
            Self::Uint(n) => Some(n.into()),
            Self::Ulong(n) => i64::try_from(n).ok(),
            Self::Byte(n) => Some(n.into()),
            Self::Short(n) => Some(n.into()),
            Self::Int(n) => Some(n.into()),
            Self::Long(n) => Some(n),
            _ => None,
        }
    }

    /// Whether the type is one of the eight integer types.
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::Ulong(_)) || self.as_i64().is_some()
    }

    /// The boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The elements of a list or of an array.
    pub fn as_elements(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) | Self::Array(Array { elements, .. }) => Some(elements),
            _ => None,
        }
    }

    /// The pairs of a map.
    pub fn as_map(&self) -> Option<&[(Self, Self)]> {
        match self {
            Self::Map(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// The value of a string or symbol key in a map; nothing if this is no map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let pairs = self.as_map()?;
        pairs
            .iter()
            .find(|(k, _)| k.as_str() == Some(key))
            .map(|(_, value)| value)
    }
}
