//! A death, and the entries into which deaths are compressed.

use std::sync::Arc;

use super::Evidence;
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

/// One death, as the core records it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Death {
    /// The queue it died in.
    pub queue: Name,
    /// The reason of the death.
    pub reason: Reason,
    /// Wall-clock time of the death.
    pub time: Timestamp,
    /// The exchange it had been published to before this death.
    pub exchange: Name,
    /// The routing keys it had then, CC included.
    pub routing_keys: Arc<[Name]>,
    /// The header ttl it had then, in milliseconds; none if it had none.
    pub ttl: Option<u32>,
    /// The consumer's error and identity, and the rule that set the dead-letter exchange; none if
    /// there is nothing to tell.
    pub evidence: Option<Arc<Evidence>>,
}

/// One entry of `x-opt-deaths`: all deaths in one queue for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The queue it died in.
    pub queue: Name,
    /// The reason of the death.
    pub reason: Reason,
    /// Number of these deaths, at least 1.
    pub count: u64,
    /// Wall-clock time of the first of these deaths.
    pub first_time: Timestamp,
    /// Wall-clock time of the latest of these deaths.
    pub last_time: Timestamp,
    /// The exchange it had been published to before the first of them.
    pub exchange: Name,
    /// The routing keys it had before the first of them.
    pub routing_keys: Arc<[Name]>,
    /// The header ttl it had before the first of them, in milliseconds; none if it had none.
    pub ttl: Option<u32>,
    /// The evidence of the latest of them, if there is any.
    pub evidence: Option<Arc<Evidence>>,
}

/// Where and why the first or the latest death happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point<'a> {
    /// The queue it died in.
    pub queue: &'a Name,
    /// The reason of the death.
    pub reason: Reason,
    /// The exchange it had been published to before that death.
    pub exchange: &'a Name,
}

impl Entry {
    /// Bytes of everything in an entry but its names and keys, at most, encoded or in memory.
    const FIXED_BYTES: usize = 176;
    /// Bytes that a text takes in addition to its own, at most.
    const TEXT_BYTES: usize = 5;

    /// Bytes of this entry in `x-opt-deaths`, at most; evidence is not in there.
    pub(super) fn size_bytes(&self) -> usize {
        let keys = self.routing_keys.iter();
        let keys: usize = keys.map(|key| key.len() + Self::TEXT_BYTES).sum();
        Self::FIXED_BYTES + self.queue.len() + self.exchange.len() + keys
    }
}

impl Reason {
    /// All reasons, in the order in which totals are kept.
    pub const ALL: [Self; 4] = [
        Self::Rejected,
        Self::Expired,
        Self::Maxlen,
        Self::DeliveryLimit,
    ];

    /// The place of the reason in [`Reason::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The word for it in annotations, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Maxlen => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
        }
    }

    /// The reason that a word names, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
