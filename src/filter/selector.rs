//! Selectors, parsed once and evaluated often.

use super::SelectorError;
use super::evaluate::{self, Operand};
use super::parser;
use super::program::Program;
use super::references::References;
use crate::base::Meter;
use crate::base::limits::SELECTOR_BYTES_MAX;
use crate::message::Message;
use crate::wire::Value;

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

/// The filters that a consumer or subscription asks for, one of each kind at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilterParts<'a> {
    /// The text of a selector.
    pub selector: Option<&'a str>,
    /// The pairs of an `amqp:properties-filter`.
    pub properties: Option<&'a [(Value, Value)]>,
    /// The pairs of an `amqp:application-properties-filter`.
    pub application_properties: Option<&'a [(Value, Value)]>,
}

impl FilterParts<'_> {
    /// What they want together; none: everything.
    ///
    /// The name of the filter that is wrong, and what is wrong with it.
    pub fn compile(self) -> Result<Option<Selector>, (&'static str, SelectorError)> {
        let wrong = |kind| move |error| (kind, error);
        let selector = self.selector.map(Selector::parse).transpose();
        let selector = selector.map_err(wrong("selector"))?;
        let mut references = References::default();
        if let Some(pairs) = self.properties {
            let added = references.add_properties(pairs);
            added.map_err(wrong("amqp:properties-filter"))?;
        }
        if let Some(pairs) = self.application_properties {
            let added = references.add_application_properties(pairs);
            added.map_err(wrong("amqp:application-properties-filter"))?;
        }
        Ok(match selector {
            _ if references.is_empty() => selector,
            Some(selector) => Some(selector.and(references)),
            None => Some(Selector::of_references(references)),
        })
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
