//! Errors in filters of dead letters.

use thiserror::Error;

use crate::filter::SelectorError;

/// Why something is not a filter of dead letters. Each names the part that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FilterError {
    /// The filter is not a map.
    #[error("the filter must be an object, not {found}")]
    NoMap {
        /// The value as given.
        found: String,
    },
    /// No part has this name.
    #[error("the filter has no part '{part}'; it may have {}", super::PARTS.join(", "))]
    Unknown {
        /// The name as given.
        part: String,
    },
    /// A part is given twice.
    #[error("the filter has the part '{part}' twice")]
    Twice {
        /// Name of the part.
        part: &'static str,
    },
    /// A value has the wrong type.
    #[error("the filter's '{part}' must be {expected}, not {found}")]
    Type {
        /// Name of the part.
        part: &'static str,
        /// The type that it must have.
        expected: &'static str,
        /// The value as given.
        found: String,
    },
    /// A value is not among those that there are.
    #[error("the filter's '{part}' cannot be '{found}'; it may be {known}")]
    Word {
        /// Name of the part.
        part: &'static str,
        /// The value as given.
        found: String,
        /// All values that there are.
        known: String,
    },
    /// A group is not written as groups are.
    #[error(
        "the filter's 'group' cannot be '{found}'; a group is '1:' and 8 hexadecimal digits, or \
         '{}'",
        super::NEVER_DIED
    )]
    Group {
        /// The value as given.
        found: String,
    },
    /// A part has too many values.
    #[error("the filter's '{part}' has {count} values, at most {max} are allowed")]
    TooMany {
        /// Name of the part.
        part: &'static str,
        /// The number of its values.
        count: usize,
        /// The greatest number.
        max: usize,
    },
    /// A value is too long.
    #[error("the filter's '{part}' has a value of {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// Name of the part.
        part: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The greatest length in bytes.
        max: usize,
    },
    /// All values together are too long.
    #[error("the values of the filter have {bytes} bytes together, at most {max} are allowed")]
    TooLarge {
        /// Their length in bytes.
        bytes: usize,
        /// The greatest length in bytes.
        max: usize,
    },
    /// A text to look for is empty, which every body would contain.
    #[error("the filter's '{part}' must not be empty")]
    Empty {
        /// Name of the part.
        part: &'static str,
    },
    /// A part is null: somebody lacked the value that was to choose.
    #[error("the filter's '{part}' is null: leave it out to choose by other parts")]
    Null {
        /// Name of the part.
        part: &'static str,
    },
    /// A list of values is empty, so that no message could be meant.
    #[error("the filter's '{part}' is an empty list: no message can have one of its values")]
    NoValue {
        /// Name of the part.
        part: &'static str,
    },
    /// No time is both after the one and before the other.
    #[error("no death is after {after} and before {before}: 'died_after' must be the smaller")]
    NoTime {
        /// `died_after`, in milliseconds since 1970.
        after: i64,
        /// `died_before`, in milliseconds since 1970.
        before: i64,
    },
    /// The selector cannot be read.
    #[error("the filter's 'selector' is no selector: {0}")]
    Selector(#[from] SelectorError),
}
