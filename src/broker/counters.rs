//! Counters of queues and vhosts. Metrics and management read snapshots of them.

use crate::base::Millis;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::broker::DropCause;
use crate::broker::death_counts::Conditions;
use crate::broker::redrive::Learned;
use crate::deaths::Reason;

/// What was counted in one queue since it was declared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueCounters {
    /// Messages that entered, dead letters included.
    pub entered: u64,
    /// Dead letters among them.
    pub dead_entered: u64,
    /// Messages refused because the queue was full.
    pub refused: u64,
    /// Deliveries to consumers.
    pub delivered: u64,
    /// Deliveries settled as accepted, or sent settled.
    pub accepted: u64,
    /// Deliveries of messages that a consumer had before.
    pub redelivered: u64,
    /// Deliveries that were requeued because a consumer held them for too long.
    pub timed_out: u64,
    /// Deaths, by reason.
    pub dead: ByReason,
    /// Dead letters that left for at least one target, by reason.
    pub dead_lettered: ByReason,
    /// Dead letters that were moved to the quarantine, by the cause for which they would have been
    /// dropped.
    pub quarantined: Drops,
    /// Deaths, by the condition that the consumer gave.
    pub conditions: Conditions,
    /// Messages dropped, by reason of their death, if they died, and cause.
    pub drops: Drops,
}

/// What was counted in a vhost since the core was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Messages published by clients.
    pub published: u64,
    /// Of these, accepted.
    pub accepted: u64,
    /// Messages published that were sent settled.
    pub presettled: u64,
    /// Messages accepted that no subscriber of their topic wanted.
    pub unheard: u64,
    /// Messages published that reached no queue.
    pub unroutable: u64,
    /// Unroutable messages that were sent settled: dropped without an answer.
    pub unroutable_presettled: u64,
    /// Messages published that a full queue refused.
    pub refused: u64,
    /// Refused messages that were sent settled.
    pub refused_presettled: u64,
    /// Deliveries to consumers.
    pub delivered: u64,
    /// Deliveries of messages that a consumer had before.
    pub redelivered: u64,
    /// Deliveries that were requeued because a consumer held them for too long.
    pub timed_out: u64,
    /// Deliveries by the outcome that consumers gave.
    pub settled: Settled,
    /// Deaths, by reason.
    pub dead: ByReason,
    /// Dead letters that left for at least one target, by reason.
    pub dead_lettered: ByReason,
    /// Dead letters that were moved to the quarantine, by the cause for which they would have been
    /// dropped.
    pub quarantined: Drops,
    /// Deaths with a condition.
    pub with_condition: u64,
    /// Copies of dead letters that one target refused while others took theirs.
    pub copies_refused: u64,
    /// Annotations of `modified` that were ignored: the message would have had too many bytes of them.
    pub annotations_ignored: u64,
    /// Messages dropped, by reason of death and cause.
    pub drops: Drops,
    /// Messages that redrives moved, and what became of them.
    pub redriven: Redriven,
    /// Queues declared, created and deleted.
    pub queues: QueueChurn,
    /// Sessions begun since the core was made.
    pub sessions: u64,
}

/// Messages that redrives moved since the core was made, and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Redriven {
    /// Messages that were moved to a queue or several.
    pub moved: u64,
    /// Messages that were discarded.
    pub discarded: u64,
    /// Messages that were passed: held, without a target, or not allowed.
    pub skipped: u64,
    /// Moved messages that a consumer accepted.
    pub accepted: u64,
    /// Moved messages that died before that.
    pub died_again: u64,
    /// Moved messages that were removed otherwise.
    pub gone: u64,
}

impl Redriven {
    pub(super) const fn learn(&mut self, learned: Learned, count: u64) {
        match learned {
            Learned::Accepted => self.accepted += count,
            Learned::DiedAgain => self.died_again += count,
            Learned::Gone => self.gone += count,
        }
    }
}

/// Declarations and deletions of queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueChurn {
    /// Declarations, those of queues that existed included.
    pub declared: u64,
    /// Declarations that created a queue.
    pub created: u64,
    /// Queues deleted, for whatever reason.
    pub deleted: u64,
}

impl QueueChurn {
    /// The sum of both, field by field.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            declared: self.declared + other.declared,
            created: self.created + other.created,
            deleted: self.deleted + other.deleted,
        }
    }
}

/// Deliveries by their outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settled {
    /// Deliveries that were accepted.
    pub accepted: u64,
    /// Deliveries that were released.
    pub released: u64,
    /// Deliveries that were rejected.
    pub rejected: u64,
    /// Deliveries that were modified, with whatever fields.
    pub modified: u64,
    /// Deliveries that were sent settled, so that no outcome follows.
    pub presettled: u64,
}

/// One count for each reason of death.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByReason {
    /// Deaths for [`Reason::Rejected`].
    pub rejected: u64,
    /// Deaths for [`Reason::Expired`].
    pub expired: u64,
    /// Deaths for [`Reason::Maxlen`].
    pub maxlen: u64,
    /// Deaths for [`Reason::DeliveryLimit`].
    pub delivery_limit: u64,
}

impl ByReason {
    /// None at all.
    pub const NONE: Self = Self {
        rejected: 0,
        expired: 0,
        maxlen: 0,
        delivery_limit: 0,
    };

    const fn of_mut(&mut self, reason: Reason) -> &mut u64 {
        match reason {
            Reason::Rejected => &mut self.rejected,
            Reason::Expired => &mut self.expired,
            Reason::Maxlen => &mut self.maxlen,
            Reason::DeliveryLimit => &mut self.delivery_limit,
        }
    }

    /// Counts some deaths.
    pub(crate) const fn add_some(&mut self, reason: Reason, count: u64) {
        *self.of_mut(reason) += count;
    }

    /// Takes a number where it is higher.
    pub(crate) fn raise(&mut self, reason: Reason, count: u64) {
        let known = self.of_mut(reason);
        *known = (*known).max(count);
    }

    /// Counts one death.
    pub fn add(&mut self, reason: Reason) {
        #[cfg(test)]
        if reason == Reason::Expired && is_planted(Plant::ExpiryNotCounted) {
            return;
        }
        match reason {
            Reason::Rejected => self.rejected += 1,
            Reason::Expired => self.expired += 1,
            Reason::Maxlen => self.maxlen += 1,
            Reason::DeliveryLimit => self.delivery_limit += 1,
        }
    }

    /// The count for one reason.
    pub const fn of(&self, reason: Reason) -> u64 {
        match reason {
            Reason::Rejected => self.rejected,
            Reason::Expired => self.expired,
            Reason::Maxlen => self.maxlen,
            Reason::DeliveryLimit => self.delivery_limit,
        }
    }

    /// The sum over all reasons.
    pub const fn total(&self) -> u64 {
        self.rejected + self.expired + self.maxlen + self.delivery_limit
    }
}

/// Dropped messages by reason of death (if they died) and cause. Few kinds ever occur in one
/// queue, so they are kept as a short list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    kinds: Vec<DropCount>,
}

/// How many messages were dropped for one reason and cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropCount {
    /// The reason of the death; none: the messages did not die, they were purged for example.
    pub reason: Option<Reason>,
    /// Why the messages could not be kept.
    pub cause: DropCause,
    /// Messages dropped since the queue was declared.
    pub count: u64,
    /// Messages of `count` that no log line has reported yet.
    unlogged: u64,
    /// The earliest time of the next log line.
    log_again: Millis,
}

/// When a log line reports a drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DropLine {
    /// Now, with this number of messages.
    Now(u64),
    /// Not before this time: see [`Drops::take_untold`].
    At(Millis),
}

/// Minimum time between two log lines of one queue, reason and cause, in milliseconds.
const LOG_EVERY_MS: u64 = 1_000;

impl Drops {
    /// Counts dropped messages; returns when the log reports them, and how many.
    pub(crate) fn add(
        &mut self,
        now: Millis,
        reason: Option<Reason>,
        cause: DropCause,
        count: u64,
    ) -> DropLine {
        let at = self
            .kinds
            .iter()
            .position(|kind| kind.reason == reason && kind.cause == cause);
        let at = at.unwrap_or_else(|| {
            let (unlogged, log_again) = (0, Millis::default());
            self.kinds.push(DropCount {
                reason,
                cause,
                count: 0,
                unlogged,
                log_again,
            });
            self.kinds.len() - 1
        });
        let Some(kind) = self.kinds.get_mut(at) else {
            return DropLine::Now(count);
        };
        kind.count += count;
        kind.unlogged += count;
        if now < kind.log_again {
            return DropLine::At(kind.log_again);
        }
        kind.log_again = now.plus(LOG_EVERY_MS);
        DropLine::Now(std::mem::take(&mut kind.unlogged))
    }

    /// Takes a number where it is higher; the log was told.
    pub(crate) fn raise(&mut self, reason: Option<Reason>, cause: DropCause, count: u64) {
        let known = self.of_kind(reason, cause);
        if count > known {
            self.add(Millis::default(), reason, cause, count - known);
            for kind in &mut self.kinds {
                (kind.unlogged, kind.log_again) = (0, Millis::default());
            }
        }
    }

    /// Drops of one kind.
    pub fn of_kind(&self, reason: Option<Reason>, cause: DropCause) -> u64 {
        let mut kinds = self.kinds.iter();
        let found = kinds.find(|kind| kind.reason == reason && kind.cause == cause);
        found.map_or(0, |kind| kind.count)
    }

    /// What no log line has told yet and may now be told; the next line about it comes a second later.
    pub(crate) fn take_untold(&mut self, now: Millis) -> Vec<(Option<Reason>, DropCause, u64)> {
        let due = |kind: &&mut DropCount| kind.unlogged > 0 && kind.log_again <= now;
        let due = self.kinds.iter_mut().filter(due);
        due.map(|kind| {
            kind.log_again = now.plus(LOG_EVERY_MS);
            let count = std::mem::take(&mut kind.unlogged);
            (kind.reason, kind.cause, count)
        })
        .collect()
    }

    /// Every pair of reason and cause that occurred, in order of first occurrence.
    pub fn kinds(&self) -> &[DropCount] {
        &self.kinds
    }

    /// The count for one reason of death, whatever the cause.
    pub fn of_reason(&self, reason: Reason) -> u64 {
        let kinds = self.kinds.iter();
        let of_reason = kinds.filter(|kind| kind.reason == Some(reason));
        of_reason.map(|kind| kind.count).sum()
    }

    /// The number of dropped messages, whatever the reason and cause.
    pub fn total(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.count).sum()
    }

    /// Drops of one cause, whatever the reason.
    pub fn of(&self, cause: DropCause) -> u64 {
        self.kinds
            .iter()
            .filter(|kind| kind.cause == cause)
            .map(|kind| kind.count)
            .sum()
    }
}
