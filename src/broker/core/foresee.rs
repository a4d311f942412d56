//! Foresight: what would become of a message, without doing it. The decisions are those of dying,
//! settling and admission themselves: their functions are asked, and nothing is enacted.

use std::sync::Arc;

use super::Core;
use super::admission::{Admission, size_bytes};
use super::death::{Letter, after_death, cause_without_exchange};
use super::quarantine::Resort;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Meter, Name, Now, Position, QueueId, Step};
use crate::broker::DropCause;
use crate::broker::dead_letter::{SendResult, Verdict, plan, verdict};
use crate::broker::foresight::{Becomes, Event, ForeseenTarget, Foresight, Skipped};
use crate::broker::names::QUARANTINE;
use crate::broker::policy::Rule;
use crate::broker::queue::{DiskRef, MessageState, Pending, Queue};
use crate::deaths::{self, Evidence, Reason, Recent};
use crate::message::{Message, Route};

/// A message in its queue, wherever its bytes are.
struct Subject<'a> {
    queue: &'a Queue,
    position: Position,
    kept: DiskRef,
    message: &'a Arc<Message>,
    route: &'a Arc<Route>,
}

/// A death that is foreseen.
struct Death {
    reason: Reason,
    /// Failed deliveries, that of which it dies included.
    failures: u32,
    evidence: Option<Arc<Evidence>>,
}

impl Core {
    /// What would become of a message at this moment if this happened to it. Work that is still
    /// on the worklist, such as other messages that are about to die, is not looked at: see
    /// [`Core::has_work`]. `content` is the message if its bytes are on disk, or as its consumer
    /// changes it; none: as it is in memory. The result is none if there is no such message, or
    /// its bytes are neither in memory nor given.
    pub fn foresee(
        &self,
        now: Now,
        (id, position): (QueueId, Position),
        event: &Event,
        content: Option<(&Arc<Message>, &Arc<Route>)>,
        meter: &mut Meter,
    ) -> Option<Foresight> {
        let queue = self.queues.get(&id)?;
        let kept = queue.messages.disk_ref(position)?;
        let slot = queue.messages.slot(position);
        let (message, route) = content.or_else(|| slot.map(|slot| (&slot.message, &slot.route)))?;
        let subject = Subject {
            queue,
            position,
            kept,
            message,
            route,
        };
        let failures = |failed| subject.kept.failures.saturating_add(u32::from(failed));
        let death = match event {
            Event::Accepted => return Some(Foresight::without_death(Becomes::Gone)),
            Event::Redriven(rights) => {
                let is_ready = queue.messages.is(position, MessageState::Ready);
                let seen = (&**message, subject.kept.size_bytes);
                return Some(self.foresee_redriven((queue, is_ready), seen, rights, meter));
            }
            Event::Retried => {
                let pending = queue.pending.entry(position)?;
                return Some(self.foresee_retry(&subject, pending, meter));
            }
            Event::Dies(reason) => Death {
                reason: *reason,
                failures: failures(false),
                evidence: None,
            },
            Event::Rejected { failed, evidence } => Death {
                reason: Reason::Rejected,
                failures: failures(*failed),
                evidence: evidence.clone(),
            },
            Event::Returned { failed, evidence } => {
                let failures = failures(*failed);
                let deadline = queue.deadline(subject.kept.arrived, subject.kept.deadline);
                let dies = queue.dies_on_return(now, (*failed, failures), Some(deadline));
                let Some(reason) = dies else {
                    return Some(Foresight::without_death(Becomes::Requeued));
                };
                // Expiry is not attributed to a consumer.
                let evidence = evidence.clone();
                let evidence = evidence.filter(|_| reason == Reason::DeliveryLimit);
                Death {
                    reason,
                    failures,
                    evidence,
                }
            }
        };
        self.foresee_death(now, &subject, &death, meter)
    }

    /// See [`Core::die`].
    fn foresee_death(
        &self,
        now: Now,
        subject: &Subject<'_>,
        death: &Death,
        meter: &mut Meter,
    ) -> Option<Foresight> {
        let &Subject {
            queue,
            message,
            route,
            ..
        } = subject;
        let reason = death.reason;
        if !queue.settings.keeps_dead() {
            let cause = cause_without_exchange(queue, reason);
            let dropped = Foresight::without_death(Becomes::Dropped(cause));
            let reason = Some(reason);
            return Some(Foresight { reason, ..dropped });
        }
        let way = plan(&queue.settings, route, &mut queue.last_way.clone());
        let rule = queue.settings.dead_letter_rule.as_ref();
        let ruled = |rule: &Rule| {
            Arc::new(Evidence::with_rule(
                death.evidence.as_deref(),
                &rule.words(),
            ))
        };
        let evidence = rule.map(ruled).or_else(|| death.evidence.clone());
        let dying = deaths::Dying {
            queue: &queue.name,
            reason,
            time: now.wall,
            exchange: &route.exchange,
            routing_keys: &route.keys,
            ttl: message.ttl_ms(),
            evidence: evidence.as_ref(),
        };
        let before = message.history();
        let recorded = Recent::default().record(before, &dying);
        let (history, stuck) = after_death(recorded, before, way.is_some())?;
        let carried = message.carried_delivery_count();
        let count = carried.saturating_add(death.failures);
        let dead = Arc::new(message.died(history, count));
        let letter = subject.letter((reason, None), dead, way.as_ref());
        Some(match stuck {
            None => self.foresee_sending(&letter, meter),
            Some(cause) => self.foresee_last_resort(&letter, cause),
        })
    }

    /// See [`Core::retry`].
    fn foresee_retry(
        &self,
        subject: &Subject<'_>,
        pending: &Pending,
        meter: &mut Meter,
    ) -> Foresight {
        let queue = subject.queue;
        let way = plan(&queue.settings, subject.route, &mut queue.last_way.clone());
        let waited = (pending.reason, Some(pending));
        let letter = subject.letter(waited, Arc::clone(subject.message), way.as_ref());
        if way.is_none() {
            return self.foresee_last_resort(&letter, DropCause::PendingAbandoned);
        }
        self.foresee_sending(&letter, meter)
    }

    /// See [`Core::send`] and [`Core::forward`].
    fn foresee_sending(&self, letter: &Letter, meter: &mut Meter) -> Foresight {
        let mut sent = SendResult::default();
        let mut routed = self.routed_dead.clone().unwrap_or_default();
        let waited = letter.waited.as_ref();
        let waited = waited.and_then(|pending| pending.targets.as_deref());
        let asked = match waited {
            Some(waited) => waited,
            None => self.find_targets(meter, letter, &mut routed, &mut sent),
        };
        meter.charge(Step::Object, asked.len());
        let (mut targets, mut skipped) = (Vec::new(), Vec::new());
        for &id in asked {
            let Some(queue) = self.queues.get(&id) else {
                sent.gone += 1;
                skipped.push((id, Skipped::Gone));
                continue;
            };
            if self.foresees_cycle(letter, id) {
                sent.cycled += 1;
                skipped.push((id, Skipped::Cycle));
                continue;
            }
            let size_bytes = size_bytes(&letter.message);
            let admission = if id == letter.source
                && matches!(letter.from, MessageState::Ready | MessageState::Delayed)
            {
                self.foresee_readmission(id, (letter.from, size_bytes))
            } else {
                self.foresee_admission(id, size_bytes)
            };
            if admission == Admission::Refuse {
                sent.refused.push(id);
                skipped.push((id, Skipped::Full));
                continue;
            }
            sent.accepted += 1;
            targets.push(ForeseenTarget {
                id: Some(id),
                queue: queue.name.clone(),
                dies: admission == Admission::RefuseAndDie,
            });
        }
        let narrowed = waited.is_some();
        let (becomes, waits) = match verdict(&sent, letter.strategy, narrowed) {
            Verdict::Moved { .. } => (Becomes::DeadLettered, false),
            Verdict::Wait { .. } if targets.is_empty() => (Becomes::DeadPending, true),
            Verdict::Wait { .. } => (Becomes::DeadLettered, true),
            Verdict::Drop(cause) => {
                let resort = self.foresee_last_resort(letter, cause);
                return Foresight { skipped, ..resort };
            }
        };
        Foresight {
            becomes,
            reason: Some(letter.reason),
            way: Some(Arc::clone(&letter.route)),
            targets,
            skipped,
            waits,
        }
    }

    fn foresees_cycle(&self, letter: &Letter, target: QueueId) -> bool {
        #[cfg(test)]
        if is_planted(Plant::CycleNotForeseen) {
            return false;
        }
        self.closed_cycle(letter, target).is_some()
    }

    /// See [`Core::give_up`].
    fn foresee_last_resort(&self, letter: &Letter, cause: DropCause) -> Foresight {
        let size_bytes = size_bytes(&letter.message);
        let (becomes, targets) = match self.last_resort(letter.source, cause, size_bytes) {
            Resort::Drop(cause) => (Becomes::Dropped(cause), Vec::new()),
            Resort::Quarantine => {
                let quarantine = ForeseenTarget {
                    id: self.names.get(QUARANTINE).copied(),
                    queue: Name::from(QUARANTINE),
                    dies: false,
                };
                (Becomes::Quarantined(cause), vec![quarantine])
            }
        };
        let has_way = !matches!(
            cause,
            DropCause::NoDeadLetterExchange | DropCause::PendingAbandoned
        );
        Foresight {
            becomes,
            reason: Some(letter.reason),
            way: has_way.then(|| Arc::clone(&letter.route)),
            targets,
            skipped: Vec::new(),
            waits: false,
        }
    }
}

impl Subject<'_> {
    /// The dead letter that the message would be; `waited`: how it waited before, if it did.
    fn letter(
        &self,
        (reason, waited): (Reason, Option<&Pending>),
        message: Arc<Message>,
        way: Option<&Arc<Route>>,
    ) -> Letter {
        let messages = &self.queue.messages;
        let states = [
            MessageState::Ready,
            MessageState::Held,
            MessageState::Delayed,
        ];
        let mut states = states.into_iter();
        let from = states.find(|state| messages.is(self.position, *state));
        Letter {
            source: self.queue.id,
            position: self.position,
            from: from.unwrap_or(MessageState::Dying),
            reason,
            arrived: self.kept.arrived,
            message,
            route: Arc::clone(way.unwrap_or(self.route)),
            strategy: self.queue.settings.dead_letter_strategy,
            durable: self.kept.durable,
            body: self.kept.body,
            waited: waited.cloned(),
        }
    }
}
