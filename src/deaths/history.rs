//! The types of a history and how deaths are recorded in it.

use std::sync::Arc;

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
    pub routing_keys: Arc<[Name]>,
    /// Header ttl it had then, in milliseconds.
    pub ttl: Option<u32>,
    /// The consumer's error and identity; carried and stored, not yet shown.
    pub evidence: Option<Arc<Evidence>>,
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
    pub routing_keys: Arc<[Name]>,
    /// Header ttl at the first death of this entry, in milliseconds.
    pub ttl: Option<u32>,
    /// Evidence of the latest death of this entry.
    pub evidence: Option<Arc<Evidence>>,
}

/// Where and why a first or latest death was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point<'a> {
    /// Queue it died in.
    pub queue: &'a Name,
    /// Why.
    pub reason: Reason,
    /// Exchange it had been published to before that death.
    pub exchange: &'a Name,
}

/// All deaths of one message, compressed by (queue, reason).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// Newest first; never empty.
    entries: Vec<Entry>,
    /// Place of the first death's entry: an entry keeps what its own first death wrote.
    first: usize,
    /// Exchange before the latest death; its queue and reason are those of the newest entry.
    last_exchange: Name,
}

impl History {
    /// The history after one more death.
    #[must_use]
    pub fn record(previous: Option<&Self>, death: &Death) -> Self {
        let _ = (previous, death);
        Self {
            entries: Vec::new(),
            first: 0,
            last_exchange: Name::default(),
        }
    }

    /// The entries, newest first; never empty.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The first death.
    pub fn first(&self) -> Point<'_> {
        unreachable!()
    }

    /// The latest death.
    pub fn last(&self) -> Point<'_> {
        unreachable!()
    }

    /// Whether a message with this history, not `rejected` just now, would turn in a loop by itself
    /// if it went to `target` once more: the target stands in the history and neither its entry nor
    /// any newer one is `rejected`. [dead-lettering part 4]
    pub fn is_cycle(&self, target: &str) -> bool {
        let _ = target;
        false
    }

    /// The queues of the loop that ends in `target`, in the order in which they were passed,
    /// `target` first and last. Empty if the target does not stand in the history.
    pub fn cycle_path(&self, target: &str) -> Vec<Name> {
        let _ = target;
        Vec::new()
    }

    /// Number of annotations that [`History::write_annotations`] writes (pairs).
    pub fn annotation_count(&self, encoding: Encoding) -> usize {
        let _ = encoding;
        7
    }

    /// Writes the death annotations as encoded keys and values, without a map around them.
    pub fn write_annotations(&self, encoding: Encoding, out: &mut Vec<u8>) {
        let _ = (encoding, out);
    }

    /// Writes the journal form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Reads the journal form; all of `input` must belong to it.
    pub fn decode(input: &[u8]) -> Result<Self, HistoryError> {
        let _ = input;
        Err(HistoryError::Version(0))
    }
}

/// A journal form that cannot be read: damage, or a newer version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// Written by a newer version.
    #[error("history has unknown version {0}")]
    Version(u8),
    /// Bytes that no version wrote.
    #[error("history is damaged at byte {0}")]
    Damaged(usize),
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

impl Reason {
    /// The word in annotations, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Maxlen => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
