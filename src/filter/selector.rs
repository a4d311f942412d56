//! Selectors, parsed once and evaluated often.

use super::SelectorError;
use super::evaluate::{self, Operand};
use super::parser;
use super::program::Program;
use crate::base::Meter;
use crate::base::limits::SELECTOR_BYTES_MAX;
use crate::message::Message;

/// The filter of a consumer for messages. [JMS 2.0 3.8.1]
///
/// ```
/// # use coroner::filter::Selector;
/// assert!(Selector::parse("colour = 'red' AND weight > 2500").is_ok());
/// assert!(Selector::parse("colour =").is_err());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Selector {
    program: Program,
}

impl Selector {
    /// Parses a selector.
    ///
    /// When it is longer than 16 KiB, has more than 1,024 values, is nested deeper than 32, or is
    /// not a selector.
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

    /// Whether it is true for a message with this many failed deliveries in its queue. False if it
    /// is unknown, and if evaluating would take longer than one hold of the core's lock may.
    pub fn asks(&self, message: &Message, failures: u32) -> Answer {
        let mut meter = Meter::default();
        let result = evaluate::run(&self.program, message, failures, &mut meter);
        Answer {
            matches: result == Some(Operand::Bool(true)),
            spent_ns: meter.spent_ns(),
        }
    }

    /// Whether it is true for a message: [`Selector::asks`] without the cost.
    pub fn matches(&self, message: &Message, failures: u32) -> bool {
        self.asks(message, failures).matches
    }
}

/// The result of evaluating a selector for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Whether the message is wanted.
    pub matches: bool,
    /// Estimated cost of the evaluation, in nanoseconds.
    pub spent_ns: u64,
}
