//! Errors in bytes that should be AMQP.

use thiserror::Error;

/// Bytes that are not an AMQP value or an AMQP message: always the peer's fault,
/// `amqp:decode-error`. Offsets count from the first byte that was given to the failing function.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ends inside a value.
    #[error("input ends inside a value at byte {at}")]
    Truncated {
        /// Offset at which more bytes were needed.
        at: usize,
    },
    /// A type code that AMQP 1.0 does not define. [AMQP 1.2]
    #[error("unknown type code 0x{code:02x} at byte {at}")]
    UnknownCode {
        /// Offset of the code.
        at: usize,
        /// The undefined code.
        code: u8,
    },
    /// A length that goes beyond the enclosing value.
    #[error("value at byte {at} goes beyond the value around it")]
    BeyondParent {
        /// Offset at which the inner value begins.
        at: usize,
    },
    /// A compound value that has bytes left after its last element.
    #[error("value has bytes left after its last element at byte {at}")]
    BytesLeft {
        /// Offset of the first of them.
        at: usize,
    },
    /// A count of elements that the bytes do not allow.
    #[error("count of {count} elements at byte {at} is more than the bytes allow")]
    Count {
        /// Offset at which the value begins.
        at: usize,
        /// The count as encoded.
        count: u32,
    },
    /// There are more values than allowed here.
    #[error("more than {max} values")]
    TooManyValues {
        /// Number of values that are allowed.
        max: usize,
    },
    /// A value is nested deeper than `limits::VALUE_DEPTH_MAX`.
    #[error("value at byte {at} is nested too deep")]
    TooDeep {
        /// Offset of the innermost value.
        at: usize,
    },
    /// A map with a key but no value. [AMQP 1.6.23]
    #[error("map at byte {at} has an odd number of elements")]
    OddMap {
        /// Offset of the map.
        at: usize,
    },
    /// A map with the same key twice. [AMQP 1.6.23]
    #[error("map at byte {at} has a key twice")]
    DuplicateKey {
        /// Offset of the second key.
        at: usize,
    },
    /// A string that is not UTF-8. [AMQP 1.6.20]
    #[error("string at byte {at} is not UTF-8")]
    NotUtf8 {
        /// Offset of its type code (in an array: of the element).
        at: usize,
    },
    /// A symbol that is not ASCII. [AMQP 1.6.21]
    #[error("symbol at byte {at} is not ASCII")]
    NotAscii {
        /// Offset of its type code (in an array: of the element).
        at: usize,
    },
    /// A boolean byte other than 0 and 1, or a char that is not Unicode. [AMQP 1.6.2, 1.6.16]
    #[error("value at byte {at} is no {expected}")]
    Invalid {
        /// Offset of the value.
        at: usize,
        /// The values that are valid there.
        expected: &'static str,
    },
    /// A value has another type than required.
    #[error("expected {expected} at byte {at}, found {found}")]
    Type {
        /// Offset of the value.
        at: usize,
        /// The type that is required.
        expected: &'static str,
        /// The type that the value has.
        found: &'static str,
    },
    /// A message without any section.
    #[error("message is empty")]
    EmptyMessage,
    /// A section that is not a message section. [AMQP 3.2]
    #[error("byte {at} begins no message section")]
    NoSection {
        /// Offset of the section.
        at: usize,
    },
    /// A section after one that must follow it, or twice. [AMQP 3.2]
    #[error("section {section} at byte {at} comes too late or twice")]
    SectionOrder {
        /// Offset of the section.
        at: usize,
        /// The section's name.
        section: &'static str,
    },
    /// An annotation key that is neither symbol nor ulong. [AMQP 3.2.10]
    #[error("annotation key at byte {at} is a {found}, not a symbol")]
    AnnotationKey {
        /// Offset of the key.
        at: usize,
        /// The key's type.
        found: &'static str,
    },
    /// A message of 4 GiB or more.
    #[error("message is longer than 4 GiB")]
    TooLong,
}

impl DecodeError {
    /// The same error for bytes that begin `offset` bytes later in a larger input.
    #[must_use]
    pub fn moved_by(mut self, offset: usize) -> Self {
        match &mut self {
            Self::Truncated { at }
            | Self::UnknownCode { at, .. }
            | Self::BeyondParent { at }
            | Self::BytesLeft { at }
            | Self::Count { at, .. }
            | Self::TooDeep { at }
            | Self::OddMap { at }
            | Self::DuplicateKey { at }
            | Self::NotUtf8 { at }
            | Self::NotAscii { at }
            | Self::Invalid { at, .. }
            | Self::Type { at, .. }
            | Self::NoSection { at }
            | Self::SectionOrder { at, .. }
            | Self::AnnotationKey { at, .. } => *at += offset,
            Self::EmptyMessage | Self::TooLong | Self::TooManyValues { .. } => {}
        }
        self
    }
}
