//! Selectors, parsed once and evaluated often.

use super::SelectorError;
use super::evaluate::{self, Operand};
use super::parser;
use super::program::{Dialect, Op, Program, SqlOp};
use super::references::References;
use crate::base::limits::SELECTOR_BYTES_MAX;
use crate::base::{Meter, Timestamp};
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
    /// The parsed texts, all of which have to be true; none: there are references only.
    programs: Vec<Program>,
    /// References that have to match, too; none: there are none.
    references: Option<Box<References>>,
}

impl Selector {
    /// Parses a JMS selector.
    ///
    /// When it is longer than 16 KiB, has more than 1,024 values, is nested deeper than 32, or is
    /// not a selector.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Self::parse_as(text, Dialect::Jms)
    }

    /// Parses an SQL filter, with the same bounds. [AMQP Filter Expressions 6]
    ///
    /// ```
    /// # use coroner::filter::Selector;
    /// assert!(Selector::parse_sql("p.subject LIKE 'inv%' AND weight % 2 = 0").is_ok());
    /// assert!(Selector::parse_sql("footer.checksum = 1").is_err());
    /// ```
    pub fn parse_sql(text: &str) -> Result<Self, SelectorError> {
        Self::parse_as(text, Dialect::Sql)
    }

    fn parse_as(text: &str, dialect: Dialect) -> Result<Self, SelectorError> {
        if text.len() > SELECTOR_BYTES_MAX {
            return Err(SelectorError::TooLong {
                bytes: text.len(),
                max: SELECTOR_BYTES_MAX,
            });
        }
        Ok(Self {
            programs: vec![parser::parse(text, dialect)?],
            references: None,
        })
    }

    /// A selector that is true for messages that match all of these references.
    pub fn of_references(references: References) -> Self {
        Self {
            programs: Vec::new(),
            references: Some(Box::new(references)),
        }
    }

    /// A selector that is true where both are.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.programs.extend(other.programs);
        self.references = match (self.references, other.references) {
            (Some(mut ours), Some(theirs)) => {
                ours.append(*theirs);
                Some(ours)
            }
            (ours, theirs) => ours.or(theirs),
        };
        self
    }

    /// Whether it asks for the time.
    pub fn asks_for_time(&self) -> bool {
        let mut ops = self.programs.iter().flat_map(|program| &program.ops);
        ops.any(|op| *op == Op::Sql(SqlOp::Utc))
    }

    /// Whether it is true for a message with this many failed deliveries in its queue. False if it
    /// is unknown, and if evaluating would take longer than one hold of the core's lock may.
    pub fn asks(&self, now: Timestamp, message: &Message, failures: u32) -> Answer {
        let mut meter = Meter::default();
        let mut matches = self.programs.iter().all(|program| {
            let result = evaluate::run(now, program, message, failures, &mut meter);
            result == Some(Operand::Bool(true))
        });
        if matches && let Some(references) = &self.references {
            matches = references.match_all(message, &mut meter);
        }
        Answer {
            matches,
            spent_ns: meter.spent_ns(),
        }
    }

    /// Whether it is true for a message: [`Selector::asks`] without the cost.
    pub fn matches(&self, now: Timestamp, message: &Message, failures: u32) -> bool {
        self.asks(now, message, failures).matches
    }
}

/// The filters that a consumer or subscription asks for, one of each kind at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilterParts<'a> {
    /// The text of a selector.
    pub selector: Option<&'a str>,
    /// The text of an `amqp:sql-filter`.
    pub sql: Option<&'a str>,
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
        let sql = self.sql.map(Selector::parse_sql).transpose();
        let sql = sql.map_err(wrong("amqp:sql-filter"))?;
        let mut references = References::default();
        if let Some(pairs) = self.properties {
            let added = references.add_properties(pairs);
            added.map_err(wrong("amqp:properties-filter"))?;
        }
        if let Some(pairs) = self.application_properties {
            let added = references.add_application_properties(pairs);
            added.map_err(wrong("amqp:application-properties-filter"))?;
        }
        let references = (!references.is_empty()).then(|| Selector::of_references(references));
        let all = [selector, sql, references].into_iter().flatten();
        Ok(all.reduce(Selector::and))
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
