//! One AMQP value of any type. [AMQP 1.6]

use bytes::Bytes;

/// Any AMQP value, exact to its type. Floats and decimals are kept as bits, so that values compare
/// and hash exactly and pass through unchanged.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
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
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Array {
    /// The element constructor's type code, kept so that an empty array keeps its type.
    pub code: u8,
    /// The descriptor in the constructor, if elements are described (elements then hold bare values).
    pub descriptor: Option<Box<Value>>,
    /// The elements, all of one type.
    pub elements: Vec<Value>,
}
