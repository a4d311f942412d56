//! What is wrong with a selector.

use thiserror::Error;

/// Why a text is not a selector. Places count characters from 1.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SelectorError {
    /// The text is too long.
    #[error("the selector has {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        max: usize,
    },
    /// Parentheses, signs and NOT are nested too deep.
    #[error("the selector is nested deeper than {max} at character {at}")]
    TooDeep {
        /// The bound.
        max: usize,
        /// Where.
        at: usize,
    },
    /// More names and constants than are looked at.
    #[error("the selector has more than {max} names and constants at character {at}")]
    TooManyValues {
        /// The bound.
        max: usize,
        /// Where.
        at: usize,
    },
    /// A pattern of LIKE that is too long.
    #[error("a LIKE pattern has {chars} characters, at most {max} are allowed")]
    PatternTooLong {
        /// Its length.
        chars: usize,
        /// The longest.
        max: usize,
    },
    /// A string without an end.
    #[error("the string that begins at character {at} has no end")]
    OpenString {
        /// Where it begins.
        at: usize,
    },
    /// A number that cannot be read.
    #[error("'{text}' at character {at} is not a number")]
    Number {
        /// As written.
        text: String,
        /// Where.
        at: usize,
    },
    /// A character that means nothing here.
    #[error("unexpected character '{found}' at character {at}")]
    Character {
        /// Which.
        found: char,
        /// Where.
        at: usize,
    },
    /// Another word than the grammar asks for.
    #[error("expected {expected} at character {at}, found {found}")]
    Unexpected {
        /// What may stand here.
        expected: &'static str,
        /// What does.
        found: String,
        /// Where.
        at: usize,
    },
    /// The escape character of LIKE stands in front of something else than itself, `%` or `_`.
    #[error("the LIKE pattern '{pattern}' escapes nothing, or an ordinary character")]
    Escape {
        /// The pattern.
        pattern: String,
    },
}
