//! Selectors, parsed once and evaluated often.

use super::SelectorError;
use super::evaluate::{self, Operand};
use super::parser;
use super::program::Program;
use super::references::References;
use crate::base::Meter;
use crate::base::limits::SELECTOR_BYTES_MAX;
use crate::message::Message;

/// The filter of a consumer for messages. [JMS 2.0 3.8.1, AMQP Filter Expressions 4]
///
/// ```
/// # use coroner::filter::Selector;
/// assert!(Selector::parse("colour = 'red' AND weight > 2500").is_ok());
/// assert!(Selector::parse("colour =").is_err());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Selector {
    /// The parsed text; none: there are references only.
    program: Option<Program>,
    /// References that have to match, too; none: there are none.
    references: Option<Box<References>>,
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
        let program = Some(parser::parse(text)?);
        Ok(Self {
            program,
            references: None,
        })
    }

    /// A selector that is true for messages that match all of these references.
    pub fn of_references(references: References) -> Self {
        Self {
            program: None,
            references: Some(Box::new(references)),
        }
    }

    /// The same, for messages that also match all of these references.
    #[must_use]
    pub fn and(self, references: References) -> Self {
        Self {
            references: Some(Box::new(references)),
            ..self
        }
    }

    /// Whether it is true for a message with this many failed deliveries in its queue. False if it
    /// is unknown, and if evaluating would take longer than one hold of the core's lock may.
    pub fn asks(&self, message: &Message, failures: u32) -> Answer {
        let mut meter = Meter::default();
        let is_true = |program| {
            let result = evaluate::run(program, message, failures, &mut meter);
            result == Some(Operand::Bool(true))
        };
        let mut matches = self.program.as_ref().is_none_or(is_true);
        if matches && let Some(references) = &self.references {
            matches = references.match_all(message, &mut meter);
        }
        Answer {
            matches,
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
