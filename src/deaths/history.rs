//! The types of a history. CONTRACT (helper A fills in the behaviour, may split files):
//!
//! - `History::record(previous: Option<&History>, death: &Death) -> History`
//! - `History::is_cycle(&self, target_queue: &str) -> bool` : part 4 of dead-lettering.md (the caller
//!   asks only for deaths that are not `rejected`; the history given already contains this death)
//! - `History::cycle_path(&self, target) -> Vec<Name>` for the log line
//! - `History::annotation_count()` and `History::write_annotations(&self, Encoding, &mut Vec<u8>)`:
//!   writes the encoded key/value pairs (no map header) of x-opt-deaths and x-first/last-death-*;
//!   with `Encoding::None` x-opt-deaths is left out, first/last stay
//! - `History::encode/decode`: own compact, versioned binary form for the journal (with evidence)

use crate::base::{Name, Timestamp};

/// Why a message died. [dead-lettering part 1]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// Settled with `rejected`, or `modified` with undeliverable-here.
    Rejected,
    /// Its time to live ended.
    Expired,
    /// Pushed out, or refused with `reject-publish-dlx`, by a length limit.
    Maxlen,
    /// Failed more often than the queue's delivery limit allows.
    DeliveryLimit,
}

/// One death, as the core sees it happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Death {
    /// Queue it died in.
    pub queue: Name,
    /// Why.
    pub reason: Reason,
    /// When, on the wall clock.
    pub time: Timestamp,
    /// Exchange it had been published to before this death.
    pub exchange: Name,
    /// Routing keys it had then, CC included.
    pub routing_keys: Vec<Name>,
    /// Header ttl it had then, in milliseconds.
    pub ttl: Option<u32>,
    /// The consumer's error and identity; carried and stored, not yet shown.
    pub evidence: Option<Box<Evidence>>,
}

/// What a consumer said when it rejected, and who it was. [dead-lettering part 10]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    /// `rejected.error.condition`.
    pub condition: Option<Name>,
    /// `rejected.error.description`.
    pub description: Option<Name>,
    /// `rejected.error.info`, the encoded map as received.
    pub info: Option<bytes::Bytes>,
    /// Container id of the consumer's connection.
    pub container: Option<Name>,
    /// Name of its link.
    pub link: Option<Name>,
    /// Its user.
    pub user: Option<Name>,
}

/// One entry of `x-opt-deaths`: all deaths in one queue for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Queue it died in.
    pub queue: Name,
    /// Why.
    pub reason: Reason,
    /// How often, at least 1.
    pub count: u64,
    /// First death of this entry.
    pub first_time: Timestamp,
    /// Latest death of this entry.
    pub last_time: Timestamp,
    /// Exchange before the first death of this entry.
    pub exchange: Name,
    /// Routing keys before the first death of this entry.
    pub routing_keys: Vec<Name>,
    /// Header ttl at the first death of this entry, in milliseconds.
    pub ttl: Option<u32>,
    /// Evidence of the latest death of this entry.
    pub evidence: Option<Box<Evidence>>,
}

/// Where and why a first or latest death was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// Queue it died in.
    pub queue: Name,
    /// Why.
    pub reason: Reason,
    /// Exchange it had been published to before that death.
    pub exchange: Name,
}

/// All deaths of one message, compressed by (queue, reason).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    entries: Vec<Entry>,
    first: Point,
    last: Point,
}

/// How a receiver wants `x-opt-deaths` (attach property `x-opt-deaths-encoding`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Encoding {
    /// An array of maps, as RabbitMQ 4 writes it.
    #[default]
    Array,
    /// A list of maps, for clients that cannot decode an array of maps.
    List,
    /// Left out.
    None,
}
