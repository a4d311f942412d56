//! One death, and the entries that deaths are compressed to.

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

/// One death, as the core sees it happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Death {
    /// Queue it died in.
    pub queue: Name,
    /// The reason of the death.
    pub reason: Reason,
    /// When, on the wall clock.
    pub time: Timestamp,
    /// Exchange it had been published to before this death.
    pub exchange: Name,
    /// Routing keys it had then, CC included.
    pub routing_keys: Arc<[Name]>,
    /// Header ttl it had then, in milliseconds.
    pub ttl: Option<u32>,
    /// The consumer's error and identity, and what sent the message on.
    pub evidence: Option<Arc<Evidence>>,
}

/// One entry of `x-opt-deaths`: all deaths in one queue for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Queue it died in.
    pub queue: Name,
    /// The reason of the death.
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
    /// The reason of the death.
    pub reason: Reason,
    /// Exchange it had been published to before that death.
    pub exchange: &'a Name,
}

impl Entry {
    /// Bytes of everything in an entry but its names and keys, at most, encoded or in memory.
    const FIXED_BYTES: usize = 176;
    /// Bytes of a text beside its own, at most.
    const TEXT_BYTES: usize = 5;

    /// Bytes of this entry in `x-opt-deaths`, at most; its evidence is not in there.
    pub(super) fn size_bytes(&self) -> usize {
        let keys = self.routing_keys.iter();
        let keys: usize = keys.map(|key| key.len() + Self::TEXT_BYTES).sum();
        Self::FIXED_BYTES + self.queue.len() + self.exchange.len() + keys
    }
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Rejected,
        Self::Expired,
        Self::Maxlen,
        Self::DeliveryLimit,
    ];

    /// The word in annotations, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Maxlen => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
        }
    }

    /// The reason of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
