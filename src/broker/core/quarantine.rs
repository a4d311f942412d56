//! Dead letters without a target: kept in the quarantine of the vhost, or dropped. [evidence part
//! 4]

use std::sync::Arc;

use super::admission::{Arrival, Offered, size_bytes};
use super::death::Letter;
use super::drops::Fate;
use super::{Core, Turn};
use crate::base::limits::{QUARANTINE_BYTES_DEFAULT, QUARANTINE_LENGTH_DEFAULT};
use crate::base::{Name, QueueId, invariant};
use crate::broker::DropCause;
use crate::broker::arguments::{OnUndeliverable, Overflow, QueueArguments, QueueProperties};
use crate::broker::death_counts::DeathOutcome;
use crate::broker::event::{EventKind, EventTargets};
use crate::broker::names::QUARANTINE;
use crate::broker::policy::EffectiveSettings;
use crate::deaths::Quarantined;
use crate::message::Message;

/// What happens to dead letters without a target, unless their queue sets it, and the limits of the
/// quarantine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undeliverable {
    /// The choice for queues that have a dead-letter exchange.
    pub choice: OnUndeliverable,
    /// Limit of messages in the quarantine; the oldest are dropped first.
    pub length_max: u64,
    /// Limit of the bytes of bare messages in the quarantine.
    pub bytes_max: u64,
}

/// The behaviour of `RabbitMQ`.
impl Default for Undeliverable {
    fn default() -> Self {
        Self {
            choice: OnUndeliverable::Drop,
            length_max: QUARANTINE_LENGTH_DEFAULT,
            bytes_max: QUARANTINE_BYTES_DEFAULT,
        }
    }
}

/// What becomes of a dead letter without a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resort {
    /// It moves to the quarantine.
    Quarantine,
    /// It is dropped, for this cause.
    Drop(DropCause),
}

/// The properties of the quarantine: a declaration by a client must have the same.
const DECLARED: QueueProperties = QueueProperties {
    durable: true,
    exclusive: false,
    auto_delete: false,
};

impl Core {
    /// Handles a dead letter without a target: it moves to the quarantine if its queue, or else the
    /// setting, says so, and in any case if its history is full. Otherwise it is dropped.
    /// `closes_at` is the queue at which its cycle would have closed.
    pub(super) fn give_up(
        &mut self,
        turn: &mut Turn<'_>,
        letter: &Letter,
        cause: DropCause,
        closes_at: Option<QueueId>,
    ) {
        let (id, position, from) = (letter.source, letter.position, letter.from);
        let resort = self.last_resort(id, cause, size_bytes(&letter.message));
        if let Resort::Drop(cause) = resort {
            return self.drop_letter(turn, letter, cause);
        }
        if self.quarantine(turn, letter, cause, closes_at) {
            let why = (Some(letter.reason), cause);
            let durable = self.remove(id, position, from);
            self.note(turn, id, Fate::Quarantined, why, 1);
            let outcome = DeathOutcome::Quarantined(cause);
            self.write_outcome(turn.now, id, (letter.reason, durable), outcome);
            let (reason, targets) = (letter.reason, EventTargets::default());
            let news = if letter.waited.is_none() {
                let outcome = Some(outcome);
                EventKind::Death {
                    reason,
                    outcome,
                    targets,
                }
            } else {
                EventKind::Quarantined { reason, cause }
            };
            self.tell_of(turn, letter, news);
        } else {
            self.drop_letter(turn, letter, DropCause::QuarantineFull);
        }
    }

    /// Drops a dead letter.
    fn drop_letter(&mut self, turn: &mut Turn<'_>, letter: &Letter, cause: DropCause) {
        let place = (letter.source, letter.position);
        let reason = letter.reason;
        self.drop_one(turn, place, letter.from, (Some(reason), cause));
        let news = if letter.waited.is_none() {
            EventKind::Death {
                reason,
                outcome: Some(DeathOutcome::Dropped(cause)),
                targets: EventTargets::default(),
            }
        } else {
            EventKind::Dropped {
                reason: Some(reason),
                cause,
                messages: 1,
            }
        };
        self.tell_of(turn, letter, news);
    }

    /// What becomes of a dead letter of this size that no target takes.
    pub(super) fn last_resort(&self, source: QueueId, cause: DropCause, size_bytes: u32) -> Resort {
        let Some(source) = self.queues.get(&source) else {
            // It was its own target, and expired when it was asked for room.
            return Resort::Drop(cause);
        };
        let choice = source.settings.on_undeliverable;
        let choice = choice.unwrap_or(self.options.undeliverable.choice);
        if choice == OnUndeliverable::Drop && cause != DropCause::HistoryFull {
            Resort::Drop(cause)
        } else if self.quarantine_fits(size_bytes) {
            Resort::Quarantine
        } else {
            Resort::Drop(DropCause::QuarantineFull)
        }
    }

    /// Puts a dead letter into the quarantine; false if the quarantine does not take it.
    fn quarantine(
        &mut self,
        turn: &mut Turn<'_>,
        letter: &Letter,
        cause: DropCause,
        closes_at: Option<QueueId>,
    ) -> bool {
        let closes_at = closes_at.and_then(|id| self.queues.get(&id));
        let closes_at = closes_at.map(|queue| queue.name.clone());
        let Some(message) = self.with_cause(&letter.message, cause, closes_at) else {
            return false;
        };
        let id = self.quarantine_queue(turn);
        let arrival = Arrival {
            // As durable as it was.
            durable: letter.durable || letter.message.durable(),
            ..Arrival::dead(message, Arc::clone(&letter.route))
        };
        let mut insertion = self.insertion(letter.body);
        let offered = self.offer(turn, id, arrival, &mut insertion);
        self.record(insertion);
        let is_taken = matches!(offered, Offered::Taken { .. });
        invariant!(is_taken, "the quarantine takes what fits");
        is_taken
    }

    /// The message with its history as it is in the quarantine, which has the cause.
    fn with_cause(
        &mut self,
        message: &Arc<Message>,
        cause: DropCause,
        closes_at: Option<Name>,
    ) -> Option<Arc<Message>> {
        let (Some(cause), Some(history)) = (cause.of_quarantine(), message.history()) else {
            invariant!(broken, "what is quarantined died, and for a cause of that");
            return None;
        };
        let history = self
            .quarantined
            .of(history, Quarantined { cause, closes_at });
        let count = message.carried_delivery_count();
        Some(Arc::new(message.died(history, count)))
    }

    /// The quarantine, declared if it does not exist. Policies are applied to it in slices
    /// afterwards, as when they change: there may be many, and they were not matched in advance.
    fn quarantine_queue(&mut self, turn: &mut Turn<'_>) -> QueueId {
        if let Some(id) = self.names.get(QUARANTINE) {
            return *id;
        }
        let name = Name::from(QUARANTINE);
        let arguments = QueueArguments::parse(&name, DECLARED, &[]).unwrap_or_default();
        let settings = EffectiveSettings::of(&arguments, None, None);
        let settings = self.options.undeliverable.settings_of(&name, settings);
        let given = (arguments, settings);
        let id = self.add_queue(turn, None, &name, DECLARED, given, &[]);
        self.counters.queues.created += 1;
        if !self.policies.is_empty() {
            self.policies_changed();
        }
        id
    }

    /// Whether the quarantine takes a message of this size at all: one that it does not take would
    /// push out all others and then be dropped itself.
    fn quarantine_fits(&self, size_bytes: u32) -> bool {
        let max = match self.names.get(QUARANTINE) {
            Some(id) => {
                let quarantine = self.queues.get(id);
                quarantine.and_then(|queue| queue.settings.max_length_bytes)
            }
            None => Some(self.options.undeliverable.bytes_max),
        };
        max.is_none_or(|max| u64::from(size_bytes) <= max)
    }

    /// Sets what happens to dead letters without a target from now on.
    pub(super) fn set_undeliverable(&mut self, undeliverable: Undeliverable) {
        if self.options.undeliverable != undeliverable {
            self.options.undeliverable = undeliverable;
            if self.names.contains_key(QUARANTINE) {
                self.policies_changed();
            }
        }
    }

    /// Number of queues that count towards the limit of the vhost: all but the quarantine.
    pub(super) fn counted_queues(&self) -> u64 {
        let quarantine = u64::from(self.names.contains_key(QUARANTINE));
        self.names.len() as u64 - quarantine
    }
}

impl Undeliverable {
    /// The settings of a queue, given those from arguments and policies: only the quarantine has
    /// rules of its own. Messages that die in it are dropped, and its limits are those of the
    /// settings.
    pub(super) fn settings_of(self, name: &Name, settings: EffectiveSettings) -> EffectiveSettings {
        if *name != QUARANTINE {
            return settings;
        }
        let smaller = |max: Option<u64>, own: u64| Some(max.map_or(own, |max| max.min(own)));
        EffectiveSettings {
            dead_letter_exchange: None,
            dead_letter_rule: None,
            dead_letter_routing_key: None,
            on_undeliverable: Some(OnUndeliverable::Drop),
            overflow: Overflow::DropHead,
            max_length: smaller(settings.max_length, self.length_max),
            max_length_bytes: smaller(settings.max_length_bytes, self.bytes_max),
            ..settings
        }
    }
}
