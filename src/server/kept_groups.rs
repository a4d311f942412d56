//! Answers about groups of dead letters that are kept for a while.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::base::limits::GROUPS_KEPT_MAX;
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Millis, Name, QueueId};
use crate::broker::QueueCounters;
use crate::broker::queue::Queue;
use crate::search::{By, DeathFilter};

/// Answers about groups, kept for a while as long as their queue does not change.
#[derive(Debug, Default)]
pub(super) struct KeptGroups(RankedMutex<rank::KeptGroups, VecDeque<Kept>>);

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) question: Question,
    pub(super) state: QueueState,
    pub(super) until: Millis,
    pub(super) answer: Arc<Value>,
}

/// Everything that an answer depends on, except the queue's messages.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Question {
    pub(super) vhost: Name,
    pub(super) queue: Name,
    pub(super) by: By,
    pub(super) filter: DeathFilter,
    /// State and position as given.
    pub(super) place: (String, u64),
    /// The user that asks, and whether it is known by a token; none: one that sees all.
    pub(super) user: Option<(Name, bool)>,
}

/// What changes whenever the messages of a queue do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct QueueState {
    id: QueueId,
    /// All that comes, is delivered, or dies is counted.
    counters: QueueCounters,
    /// Ready messages, and those in whatever state: what a redrive takes, or an operator removes, is in
    /// no counter of the queue, but they become fewer.
    ready: u64,
    live: u64,
}

impl QueueState {
    pub(super) fn of(queue: &Queue) -> Self {
        Self {
            id: queue.id,
            counters: queue.counters.clone(),
            ready: queue.messages.ready(),
            live: queue.messages.live(),
        }
    }
}

impl KeptGroups {
    pub(super) fn find(
        &self,
        question: &Question,
        state: &QueueState,
        now: Millis,
    ) -> Option<Arc<Value>> {
        let kept = self.0.lock();
        let mut kept = kept.iter();
        let found = kept
            .find(|kept| kept.until > now && kept.question == *question && kept.state == *state);
        found.map(|kept| Arc::clone(&kept.answer))
    }

    pub(super) fn keep(&self, kept: Kept, now: Millis) {
        let mut all = self.0.lock();
        all.retain(|other| other.until > now && other.question != kept.question);
        if all.len() >= GROUPS_KEPT_MAX {
            all.pop_front();
        }
        all.push_back(kept);
    }
}
