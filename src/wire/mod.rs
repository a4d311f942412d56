//! Layer 1: encoding and decoding of AMQP 1.0. The only module that knows type codes. [AMQP 1, 2.3]
//!
//! Promises: nothing here panics, recurses on a peer's data without a bound, or allocates more than
//! the input justifies. Never: no IO, no state between calls, no meaning beyond the encoding.

mod body_walk;
mod check;
mod codes;
mod decode;
mod encode;
mod error;
mod fast_path;
mod fields;
pub mod frame;
#[cfg(feature = "internals")]
mod fuzz;
mod header;
pub mod performative;
mod plain;
mod reader;
pub mod sasl;
mod sections;
mod value;
mod writer;

pub use body_walk::{BodyWalk, walk_head};
pub use check::{check_annotations, check_structure, check_values, value_len};
pub use decode::decode_value;
pub use encode::{encode_answer, encode_value};
pub use error::DecodeError;
pub use fields::{Fields, Pair, Pairs};
#[cfg(feature = "internals")]
pub use fuzz::{fuzz_sections, fuzz_value};
pub use header::{HeaderFields, write_header};
pub use plain::PlainMessage;
pub use reader::{Described, Descriptor, Reader};
pub use sections::{
    PropertyField, Section, SectionIndex, SectionKind, begin_message_annotations, first_section,
    resume_point, walk, without_leading_null,
};
pub use value::{Array, Value, ValueKind};
pub use writer::{
    OpenCompound, begin_array_element, begin_list, begin_map, begin_map_array, begin_string_array,
    end, end_array_element, uint_len, write_array_string, write_binary, write_binary_of,
    write_bool, write_descriptor, write_int, write_long, write_null, write_or_null, write_string,
    write_string_or_binary, write_symbol, write_timestamp, write_ubyte, write_uint, write_ulong,
    write_ushort,
};

#[cfg(test)]
mod tests;
