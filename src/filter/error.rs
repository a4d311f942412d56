//! Errors in selectors.

use thiserror::Error;

/// Why a text is not a selector. Positions count characters from 1.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SelectorError {
    /// The text is too long.
    #[error("the selector has {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The greatest length in bytes.
        max: usize,
    },
    /// Parentheses, signs and NOT are nested too deeply.
    #[error("the selector is nested deeper than {max} at character {at}")]
    TooDeep {
        /// The greatest depth.
        max: usize,
        /// Position of the first that is too deep.
        at: usize,
    },
    /// There are too many names and constants.
    #[error("the selector has more than {max} names and constants at character {at}")]
    TooManyValues {
        /// The greatest number.
        max: usize,
        /// Position of the first beyond it.
        at: usize,
    },
    /// A pattern of LIKE is too long.
    #[error("a LIKE pattern has {chars} characters, at most {max} are allowed")]
    PatternTooLong {
        /// Its length in characters.
        chars: usize,
        /// The greatest length in characters.
        max: usize,
    },
    /// A string has no closing quote.
    #[error("the string that begins at character {at} has no end")]
    OpenString {
        /// Position of its opening quote.
        at: usize,
    },
    /// A number cannot be read.
    #[error("'{text}' at character {at} is not a number")]
    Number {
        /// The number as written.
        text: String,
        /// Position of the number.
        at: usize,
    },
    /// A character has no meaning in selectors.
    #[error("unexpected character '{found}' at character {at}")]
    Character {
        /// The character as written.
        found: char,
        /// Position of the character.
        at: usize,
    },
    /// A word is not allowed where it is.
    #[error("expected {expected} at character {at}, found {found}")]
    Unexpected {
        /// The words that are allowed there.
        expected: &'static str,
        /// The word that is there.
        found: String,
        /// Position of the word.
        at: usize,
    },
    /// A name in brackets has no closing bracket.
    #[error("the name that begins at character {at} has no ], or one [ that is not doubled")]
    OpenName {
        /// Position of its opening bracket.
        at: usize,
    },
    /// A reserved word of SQL filters is written in small letters.
    #[error(
        "'{word}' at character {at} is a reserved word: operators are written in upper case, a \
         property of that name as [{word}]"
    )]
    Reserved {
        /// The word as written.
        word: String,
        /// Position of the word.
        at: usize,
    },
    /// A function that SQL filters do not offer.
    #[error("the function {name} at character {at} is not offered")]
    Function {
        /// Its name, as it was written.
        name: String,
        /// Position of the name.
        at: usize,
    },
    /// SQL filters cannot name this section of a message.
    #[error(
        "'{section}' at character {at} is none of the sections header (h), properties (p) and \
         application_properties (a)"
    )]
    Section {
        /// The section as written.
        section: String,
        /// Position of the section.
        at: usize,
    },
    /// SQL filters cannot name this field of a section.
    #[error("the section '{section}' at character {at} has no field '{name}' for filters")]
    Member {
        /// The section as written.
        section: String,
        /// The field as written.
        name: String,
        /// Position of the section.
        at: usize,
    },
    /// A property filter has no field, or too many.
    #[error("a property filter has {count} fields, from 1 to {max} are allowed")]
    FieldCount {
        /// The number of its fields.
        count: usize,
        /// The greatest number.
        max: usize,
    },
    /// The name of a field in a property filter is neither a symbol nor a string.
    #[error("the name of a field in a property filter is neither a symbol nor a string")]
    FieldName,
    /// There is no such field.
    #[error("the properties of a message have no field '{name}'")]
    Field {
        /// The name as written.
        name: String,
    },
    /// A reference begins with `&`, but with no known modifier.
    #[error("the reference for '{name}' begins with & but with none of &p:, &s: and &&")]
    Modifier {
        /// The name of the field.
        name: String,
    },
    /// A reference is a list, map, array or described value.
    #[error("the reference for '{name}' is no simple value")]
    Compound {
        /// The name of the field.
        name: String,
    },
    /// The escape character of LIKE precedes a character other than itself, `%` or `_`.
    #[error("the LIKE pattern '{pattern}' escapes nothing, or an ordinary character")]
    Escape {
        /// The pattern as written.
        pattern: String,
    },
}
