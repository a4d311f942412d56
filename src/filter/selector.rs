//! A selector, parsed once and asked often.

use super::SelectorError;
use super::evaluate::{self, Operand};
use super::parser;
use super::program::Op;
use crate::message::Message;

/// Longest selector, in bytes.
const SELECTOR_BYTES_MAX: usize = 16 * 1024;

/// Which messages a consumer wants. [JMS 2.0 3.8.1]
///
/// ```
/// # use coroner::filter::Selector;
/// assert!(Selector::parse("colour = 'red' AND weight > 2500").is_ok());
/// assert!(Selector::parse("colour =").is_err());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Selector {
    program: Vec<Op>,
}

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// When it is longer than 16 KiB, nested deeper than 32, or no selector.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > SELECTOR_BYTES_MAX {
            return Err(SelectorError::TooLong {
                bytes: text.len(),
                max: SELECTOR_BYTES_MAX,
            });
        }
        let program = parser::parse(text)?;
        Ok(Self { program })
    }

    /// Whether it is true of a message that failed so often in its queue. Not if it is unknown.
    pub fn matches(&self, message: &Message, failures: u32) -> bool {
        evaluate::run(&self.program, message, failures) == Operand::Bool(true)
    }
}
