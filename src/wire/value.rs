//! AMQP values of any type. [AMQP 1.6]

use std::fmt;

use bytes::Bytes;

use super::encode::encode_value;

/// Any AMQP value, exact to its type. Floats and decimals are kept as bits, so that values compare
/// and hash exactly and pass through unchanged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    /// The null value. [AMQP 1.6.1]
    Null,
    /// A boolean. [AMQP 1.6.2]
    Bool(bool),
    /// An unsigned integer of 8 bits. [AMQP 1.6.3]
    Ubyte(u8),
    /// An unsigned integer of 16 bits. [AMQP 1.6.4]
    Ushort(u16),
    /// An unsigned integer of 32 bits. [AMQP 1.6.5]
    Uint(u32),
    /// An unsigned integer of 64 bits. [AMQP 1.6.6]
    Ulong(u64),
    /// A signed integer of 8 bits. [AMQP 1.6.7]
    Byte(i8),
    /// A signed integer of 16 bits. [AMQP 1.6.8]
    Short(i16),
    /// A signed integer of 32 bits. [AMQP 1.6.9]
    Int(i32),
    /// A signed integer of 64 bits. [AMQP 1.6.10]
    Long(i64),
    /// A float, as IEEE 754 bits. [AMQP 1.6.11]
    Float(u32),
    /// A double, as IEEE 754 bits. [AMQP 1.6.12]
    Double(u64),
    /// A decimal32, as its bytes. [AMQP 1.6.13]
    Decimal32([u8; 4]),
    /// A decimal64, as its bytes. [AMQP 1.6.14]
    Decimal64([u8; 8]),
    /// A decimal128, as its bytes. [AMQP 1.6.15]
    Decimal128([u8; 16]),
    /// A character, as UTF-32. [AMQP 1.6.16]
    Char(u32),
    /// A timestamp, in milliseconds since 1970. [AMQP 1.6.17]
    Timestamp(i64),
    /// A UUID, as its bytes. [AMQP 1.6.18]
    Uuid([u8; 16]),
    /// A sequence of bytes. [AMQP 1.6.19]
    Binary(Bytes),
    /// A text in UTF-8. [AMQP 1.6.20]
    String(String),
    /// A name from a registry, in ASCII. [AMQP 1.6.21]
    Symbol(String),
    /// A list of values of any types. [AMQP 1.6.22]
    List(Vec<Self>),
    /// A map, in wire order; a key twice is refused when decoding. [AMQP 1.6.23]
    Map(Vec<(Self, Self)>),
    /// An array of values of one type. [AMQP 1.6.24]
    Array(Array),
    /// A described value: descriptor, value. [AMQP 1.2.1]
    Described(Box<(Self, Self)>),
}

/// An array: one constructor for all elements. [AMQP 1.6.24]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Array {
    /// The type of all elements, also when there are none.
    kind: ValueKind,
    /// The descriptor in the constructor, if elements are described (they are then stored without
    /// it).
    descriptor: Option<Box<Value>>,
    elements: Vec<Value>,
}

impl Array {
    /// An array of elements of one type; none if one is of another type, or described.
    pub fn new(kind: ValueKind, elements: Vec<Value>) -> Option<Self> {
        let alike =
            kind != ValueKind::Described && elements.iter().all(|value| value.kind() == kind);
        alike.then_some(Self {
            kind,
            descriptor: None,
            elements,
        })
    }

    /// The same array with this descriptor for its elements.
    #[must_use]
    pub fn described_by(self, descriptor: Value) -> Self {
        Self {
            descriptor: Some(Box::new(descriptor)),
            ..self
        }
    }

    /// The type of the elements (under their descriptor).
    pub const fn kind(&self) -> ValueKind {
        self.kind
    }

    /// The descriptor of all elements, if they are described.
    pub fn descriptor(&self) -> Option<&Value> {
        self.descriptor.as_deref()
    }

    /// The elements, all of one type.
    pub fn elements(&self) -> &[Value] {
        &self.elements
    }
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum ValueKind {
    Null,
    Boolean,
    Ubyte,
    Ushort,
    Uint,
    Ulong,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    Decimal32,
    Decimal64,
    Decimal128,
    Char,
    Timestamp,
    Uuid,
    Binary,
    String,
    Symbol,
    List,
    Map,
    Array,
    Described,
}

impl ValueKind {
    /// The type's name in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Ubyte => "ubyte",
            Self::Ushort => "ushort",
            Self::Uint => "uint",
            Self::Ulong => "ulong",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal32 => "decimal32",
            Self::Decimal64 => "decimal64",
            Self::Decimal128 => "decimal128",
            Self::Char => "char",
            Self::Timestamp => "timestamp",
            Self::Uuid => "uuid",
            Self::Binary => "binary",
            Self::String => "string",
            Self::Symbol => "symbol",
            Self::List => "list",
            Self::Map => "map",
            Self::Array => "array",
            Self::Described => "described value",
        }
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Value {
    /// A value of type string.
    pub fn string(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    /// A value of type symbol.
    pub fn symbol(text: impl Into<String>) -> Self {
        Self::Symbol(text.into())
    }

    /// The text, if it is a string or symbol.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is an integer of any type and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Ubyte(n) => Some(n.into()),
            Self::Ushort(n) => Some(n.into()),
            Self::Uint(n) => Some(n.into()),
            Self::Ulong(n) => Some(n),
            _ => self.as_i64().and_then(|n| u64::try_from(n).ok()),
        }
    }

    /// The number, if it is an integer of any type and fits.
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

    /// The type of the value.
    pub const fn kind(&self) -> ValueKind {
        match self {
            Self::Null => ValueKind::Null,
            Self::Bool(_) => ValueKind::Boolean,
            Self::Ubyte(_) => ValueKind::Ubyte,
            Self::Ushort(_) => ValueKind::Ushort,
            Self::Uint(_) => ValueKind::Uint,
            Self::Ulong(_) => ValueKind::Ulong,
            Self::Byte(_) => ValueKind::Byte,
            Self::Short(_) => ValueKind::Short,
            Self::Int(_) => ValueKind::Int,
            Self::Long(_) => ValueKind::Long,
            Self::Float(_) => ValueKind::Float,
            Self::Double(_) => ValueKind::Double,
            Self::Decimal32(_) => ValueKind::Decimal32,
            Self::Decimal64(_) => ValueKind::Decimal64,
            Self::Decimal128(_) => ValueKind::Decimal128,
            Self::Char(_) => ValueKind::Char,
            Self::Timestamp(_) => ValueKind::Timestamp,
            Self::Uuid(_) => ValueKind::Uuid,
            Self::Binary(_) => ValueKind::Binary,
            Self::String(_) => ValueKind::String,
            Self::Symbol(_) => ValueKind::Symbol,
            Self::List(_) => ValueKind::List,
            Self::Map(_) => ValueKind::Map,
            Self::Array(_) => ValueKind::Array,
            Self::Described(_) => ValueKind::Described,
        }
    }

    /// Whether the type is one of the eight integer types.
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::Ulong(_)) || self.as_i64().is_some()
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The elements, if it is a list or an array.
    pub fn as_elements(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) | Self::Array(Array { elements, .. }) => Some(elements),
            _ => None,
        }
    }

    /// Length of its encoding, in bytes; found by encoding it.
    pub fn encoded_bytes(&self) -> usize {
        let mut encoded = Vec::new();
        encode_value(self, &mut encoded);
        encoded.len()
    }

    /// The pairs, if it is a map.
    pub fn as_map(&self) -> Option<&[(Self, Self)]> {
        match self {
            Self::Map(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// The value of a string or symbol key, if it is a map and has the key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let pairs = self.as_map()?;
        pairs
            .iter()
            .find(|(k, _)| k.as_str() == Some(key))
            .map(|(_, value)| value)
    }
}

/// Writes type and value for error messages: `string 'abc'`, `long 5`, `list of 3`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        match self {
            Self::Null | Self::Described(_) => Ok(()),
            Self::Bool(b) => write!(f, " {b}"),
            Self::Ubyte(_)
            | Self::Ushort(_)
            | Self::Uint(_)
            | Self::Byte(_)
            | Self::Short(_)
            | Self::Int(_)
            | Self::Long(_) => write!(f, " {}", self.as_i64().unwrap_or_default()),
            Self::Ulong(n) => write!(f, " {n}"),
            Self::Timestamp(n) => write!(f, " {n}"),
            Self::Float(bits) => write!(f, " {}", f32::from_bits(*bits)),
            Self::Double(bits) => write!(f, " {}", f64::from_bits(*bits)),
            Self::Decimal32(bytes) => write_hex(f, bytes),
            Self::Decimal64(bytes) => write_hex(f, bytes),
            Self::Decimal128(bytes) | Self::Uuid(bytes) => write_hex(f, bytes),
            Self::Char(n) => write!(f, " U+{n:04X}"),
            Self::Binary(bytes) => write!(f, " of {} bytes", bytes.len()),
            Self::String(text) | Self::Symbol(text) => write_text(f, text),
            Self::List(elements) => write!(f, " of {}", elements.len()),
            Self::Map(pairs) => write!(f, " of {}", pairs.len()),
            Self::Array(array) => write!(f, " of {} {}", array.elements.len(), array.kind),
        }
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str(" ")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Writes text in quotes, cut so that an error message stays readable.
fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    match text.char_indices().nth(TEXT_SHOWN_CHARS_MAX) {
        Some((end, _)) => write!(f, " '{}...'", text.get(..end).unwrap_or_default()),
        None => write!(f, " '{text}'"),
    }
}

/// Characters of a text shown in an error message, at most.
const TEXT_SHOWN_CHARS_MAX: usize = 100;
