//! What was wrong with bytes that should have been AMQP.

use thiserror::Error;

/// Bytes that are no AMQP value or no AMQP message: always the peer's fault, `amqp:decode-error`.
/// Offsets count from the first byte that was given to the failing function.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ends inside a value.
    #[error("input ends inside a value at byte {at}")]
    Truncated {
        /// Where more bytes were needed.
        at: usize,
    },
    /// A type code that AMQP 1.0 does not define. [AMQP 1.2]
    #[error("unknown type code 0x{code:02x} at byte {at}")]
    UnknownCode {
        /// Where.
        at: usize,
        /// The code.
        code: u8,
    },
    /// A length that goes beyond the enclosing value.
    #[error("value at byte {at} goes beyond the value around it")]
    BeyondParent {
        /// Where the inner value begins.
        at: usize,
    },
    /// A compound value that has bytes left after its last element.
    #[error("value has bytes left after its last element at byte {at}")]
    BytesLeft {
        /// Where the first of them is.
        at: usize,
    },
    /// More elements than bytes allow.
    #[error("count of {count} elements at byte {at} is more than the bytes allow")]
    Count {
        /// Where the value begins.
        at: usize,
        /// The count.
        count: u32,
    },
    /// More values than are taken here.
    #[error("more than {max} values")]
    TooManyValues {
        /// How many are taken.
        max: usize,
    },
    /// Nested deeper than `limits::VALUE_DEPTH_MAX`.
    #[error("value at byte {at} is nested too deep")]
    TooDeep {
        /// Where.
        at: usize,
    },
    /// A map with a key but no value. [AMQP 1.6.23]
    #[error("map at byte {at} has an odd number of elements")]
    OddMap {
        /// Where.
        at: usize,
    },
    /// A map with the same key twice. [AMQP 1.6.23]
    #[error("map at byte {at} has a key twice")]
    DuplicateKey {
        /// Where.
        at: usize,
    },
    /// A string that is not UTF-8. [AMQP 1.6.20]
    #[error("string at byte {at} is not UTF-8")]
    NotUtf8 {
        /// Where its type code is (in an array: where the element begins).
        at: usize,
    },
    /// A symbol that is not ASCII. [AMQP 1.6.21]
    #[error("symbol at byte {at} is not ASCII")]
    NotAscii {
        /// Where its type code is (in an array: where the element begins).
        at: usize,
    },
    /// A boolean byte other than 0 and 1, or a char that is not Unicode. [AMQP 1.6.2, 1.6.16]
    #[error("value at byte {at} is no {expected}")]
    Invalid {
        /// Where.
        at: usize,
        /// What it should have been.
        expected: &'static str,
    },
    /// A value of another type than the place asks for.
    #[error("expected {expected} at byte {at}, found {found}")]
    Type {
        /// Where.
        at: usize,
        /// What the place asks for.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A message without any section.
    #[error("message is empty")]
    EmptyMessage,
    /// A section that is no message section. [AMQP 3.2]
    #[error("byte {at} begins no message section")]
    NoSection {
        /// Where.
        at: usize,
    },
    /// A section after one that must follow it, or twice. [AMQP 3.2]
    #[error("section {section} at byte {at} comes too late or twice")]
    SectionOrder {
        /// Where.
        at: usize,
        /// Its name.
        section: &'static str,
    },
    /// An annotation key that is neither symbol nor ulong. [AMQP 3.2.10]
    #[error("annotation key at byte {at} is a {found}, not a symbol")]
    AnnotationKey {
        /// Where.
        at: usize,
        /// Its type.
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
