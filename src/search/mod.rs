//! Layer 5: finding dead letters among many: filters of them, and the fingerprint that puts those
//! with one cause into one group. [evidence parts 6, 8]
//!
//! ```text
//!   parts (name, value) --> DeathFilter --> verdict(candidate): matches, differs, needs its body
//!   message --> texts of its error --> without variable parts --> SHA-256 --> Fingerprint
//! ```
//!
//! Promises: a verdict and a fingerprint take a bounded time, linear in what they look at, whatever
//! the message. Never: no queue, no disk; the body of a message that was streamed is handed in. Read
//! first: [`DeathFilter`], [`Fingerprint`].

mod candidate;
mod contains;
mod dates;
mod death_filter;
mod error;
mod fingerprint;
mod groups;
mod networks;
mod parts;
mod stack_trace;
mod variable_parts;

pub use candidate::{Candidate, NO_CAUSE, message_id_text, property_text};
pub use death_filter::{DeathFilter, Judged, Verdict};
pub use error::FilterError;
pub use fingerprint::{Fingerprint, NEVER_DIED};
pub use groups::{By, Counted, Group, Groups};
pub use parts::PARTS;

#[cfg(test)]
mod tests;
