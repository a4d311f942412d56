//! The type codes of AMQP 1.0 and their shapes. [AMQP 1.2, 1.6]

use super::ValueKind;

pub(crate) const DESCRIBED: u8 = 0x00;
pub(crate) const NULL: u8 = 0x40;
pub(crate) const TRUE: u8 = 0x41;
pub(crate) const FALSE: u8 = 0x42;
pub(crate) const UINT_0: u8 = 0x43;
pub(crate) const ULONG_0: u8 = 0x44;
pub(crate) const LIST_0: u8 = 0x45;
pub(crate) const UBYTE: u8 = 0x50;
pub(crate) const BYTE: u8 = 0x51;
pub(crate) const SMALL_UINT: u8 = 0x52;
pub(crate) const SMALL_ULONG: u8 = 0x53;
pub(crate) const SMALL_INT: u8 = 0x54;
pub(crate) const SMALL_LONG: u8 = 0x55;
pub(crate) const BOOLEAN: u8 = 0x56;
pub(crate) const USHORT: u8 = 0x60;
pub(crate) const SHORT: u8 = 0x61;
pub(crate) const UINT: u8 = 0x70;
pub(crate) const INT: u8 = 0x71;
pub(crate) const FLOAT: u8 = 0x72;
pub(crate) const CHAR: u8 = 0x73;
pub(crate) const DECIMAL32: u8 = 0x74;
pub(crate) const ULONG: u8 = 0x80;
pub(crate) const LONG: u8 = 0x81;
pub(crate) const DOUBLE: u8 = 0x82;
pub(crate) const TIMESTAMP: u8 = 0x83;
pub(crate) const DECIMAL64: u8 = 0x84;
pub(crate) const DECIMAL128: u8 = 0x94;
pub(crate) const UUID: u8 = 0x98;
pub(crate) const BINARY_8: u8 = 0xa0;
pub(crate) const STRING_8: u8 = 0xa1;
pub(crate) const SYMBOL_8: u8 = 0xa3;
pub(crate) const BINARY_32: u8 = 0xb0;
pub(crate) const STRING_32: u8 = 0xb1;
pub(crate) const SYMBOL_32: u8 = 0xb3;
pub(crate) const LIST_8: u8 = 0xc0;
pub(crate) const MAP_8: u8 = 0xc1;
pub(crate) const LIST_32: u8 = 0xd0;
pub(crate) const MAP_32: u8 = 0xd1;
pub(crate) const ARRAY_8: u8 = 0xe0;
pub(crate) const ARRAY_32: u8 = 0xf0;

/// The layout of the bytes after a type code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// A descriptor and a value follow.
    Described,
    /// This many bytes follow.
    Fixed(usize),
    /// A length of this many bytes (1 or 4), then as many bytes as it says.
    Variable(usize),
    /// A size and a count of this many bytes each, then elements with their own codes.
    Compound(usize),
    /// A size and a count of this many bytes each, one constructor, then elements without codes.
    Array(usize),
}

/// The shape of a type code; none if AMQP 1.0 does not define it.
pub(crate) const fn shape(code: u8) -> Option<Shape> {
    Some(match code {
        DESCRIBED => Shape::Described,
        NULL | TRUE | FALSE | UINT_0 | ULONG_0 | LIST_0 => Shape::Fixed(0),
        UBYTE | BYTE | SMALL_UINT | SMALL_ULONG | SMALL_INT | SMALL_LONG | BOOLEAN => {
            Shape::Fixed(1)
        }
        USHORT | SHORT => Shape::Fixed(2),
        UINT | INT | FLOAT | CHAR | DECIMAL32 => Shape::Fixed(4),
        ULONG | LONG | DOUBLE | TIMESTAMP | DECIMAL64 => Shape::Fixed(8),
        DECIMAL128 | UUID => Shape::Fixed(16),
        BINARY_8 | STRING_8 | SYMBOL_8 => Shape::Variable(1),
        BINARY_32 | STRING_32 | SYMBOL_32 => Shape::Variable(4),
        LIST_8 | MAP_8 => Shape::Compound(1),
        LIST_32 | MAP_32 => Shape::Compound(4),
        ARRAY_8 => Shape::Array(1),
        ARRAY_32 => Shape::Array(4),
        _ => return None,
    })
}

/// The type that a code begins; none if AMQP 1.0 does not define it.
pub(crate) const fn kind(code: u8) -> Option<ValueKind> {
    Some(match code {
        DESCRIBED => ValueKind::Described,
        NULL => ValueKind::Null,
        TRUE | FALSE | BOOLEAN => ValueKind::Boolean,
        UBYTE => ValueKind::Ubyte,
        USHORT => ValueKind::Ushort,
        UINT_0 | SMALL_UINT | UINT => ValueKind::Uint,
        ULONG_0 | SMALL_ULONG | ULONG => ValueKind::Ulong,
        BYTE => ValueKind::Byte,
        SHORT => ValueKind::Short,
        SMALL_INT | INT => ValueKind::Int,
        SMALL_LONG | LONG => ValueKind::Long,
        FLOAT => ValueKind::Float,
        DOUBLE => ValueKind::Double,
        DECIMAL32 => ValueKind::Decimal32,
        DECIMAL64 => ValueKind::Decimal64,
        DECIMAL128 => ValueKind::Decimal128,
        CHAR => ValueKind::Char,
        TIMESTAMP => ValueKind::Timestamp,
        UUID => ValueKind::Uuid,
        BINARY_8 | BINARY_32 => ValueKind::Binary,
        STRING_8 | STRING_32 => ValueKind::String,
        SYMBOL_8 | SYMBOL_32 => ValueKind::Symbol,
        LIST_0 | LIST_8 | LIST_32 => ValueKind::List,
        MAP_8 | MAP_32 => ValueKind::Map,
        ARRAY_8 | ARRAY_32 => ValueKind::Array,
        _ => return None,
    })
}

/// The name of the type that a code begins, for error messages.
pub(crate) const fn type_name(code: u8) -> &'static str {
    match kind(code) {
        Some(kind) => kind.name(),
        None => "unknown type",
    }
}
