//! Layer 4: the selectors of consumers: JMS message selectors, SQL filters, and property filters.
//! [JMS 2.0 3.8.1, AMQP Filter Expressions 4, 6]
//!
//! ```text
//!   text --> tokens --> parser --> program (postfix) --> evaluate(message) --> true, false, unknown
//! Promises: parsing takes time and memory in proportion to the text, nested at most 32 deep;
//! evaluating takes a bounded time, whatever the message; a selector matches only if it is true,
//! never if it is unknown or would take too long. Never: no state, no queue. Read first:
//! [`Selector`].

mod error;
mod evaluate;
mod fields;
mod like;
mod parser;
mod program;
mod references;
mod selector;
mod sql;
mod tokens;

pub use error::SelectorError;
pub use fields::uuid_text;
pub use references::{References, pairs_bytes};
pub use selector::{Answer, FilterParts, Selector};

#[cfg(test)]
mod sql_tests;
#[cfg(test)]
mod tests;
