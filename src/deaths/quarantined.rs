//! The part of a history that only a message in the quarantine has: why it is there, and the queues
//! of its cycle. [evidence part 4]

use std::sync::Arc;

use super::History;
use crate::base::Name;

/// Why a dead letter is kept in the quarantine rather than moved on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QuarantineCause {
    /// The queue has no dead-letter exchange, and was set to quarantine its dead letters all the
    /// same.
    NoDeadLetterExchange,
    /// The dead-letter exchange does not exist.
    ExchangeMissing,
    /// The dead-letter exchange routes it to no queue.
    Unroutable,
    /// Every target refused it.
    TargetFull,
    /// It was in that queue before and was not rejected since.
    Cycle,
    /// Its history has no room for the name of one more queue.
    HistoryFull,
    /// It waited for a target, and its queue lost its dead-letter exchange.
    PendingAbandoned,
}

impl QuarantineCause {
    /// All causes, in the order of declaration.
    pub const ALL: [Self; 7] = [
        Self::NoDeadLetterExchange,
        Self::ExchangeMissing,
        Self::Unroutable,
        Self::TargetFull,
        Self::Cycle,
        Self::HistoryFull,
        Self::PendingAbandoned,
    ];

    /// The word for it in annotations, metrics and the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoDeadLetterExchange => "no_dead_letter_exchange",
            Self::ExchangeMissing => "exchange_missing",
            Self::Unroutable => "unroutable",
            Self::TargetFull => "target_full",
            Self::Cycle => "cycle",
            Self::HistoryFull => "history_full",
            Self::PendingAbandoned => "pending_abandoned",
        }
    }

    /// The cause that a word names, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

/// The part that the quarantine adds to a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quarantined {
    /// Why the message is there.
    pub cause: QuarantineCause,
    /// The queue in which its cycle would have closed, if it was one.
    pub closes_at: Option<Name>,
}

/// The last message that was put into the quarantine: messages with the same history and cause
/// share the resulting history, too.
#[derive(Debug, Default)]
pub struct RecentlyQuarantined(Option<Made>);

#[derive(Debug)]
struct Made {
    of: Arc<History>,
    why: Quarantined,
    history: Arc<History>,
}

impl RecentlyQuarantined {
    /// The history of a message that is put into the quarantine.
    pub fn of(&mut self, history: &Arc<History>, why: Quarantined) -> Arc<History> {
        if let Some(made) = &self.0
            && Arc::ptr_eq(&made.of, history)
            && made.why == why
        {
            return Arc::clone(&made.history);
        }
        let quarantined = Arc::new(history.quarantined_for(why.clone()));
        self.0 = Some(Made {
            of: Arc::clone(history),
            why,
            history: Arc::clone(&quarantined),
        });
        quarantined
    }
}
