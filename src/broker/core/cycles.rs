//! Cycles without a rejection that a declaration or a policy closes, found beforehand: a made-up
//! dead letter is sent round by the functions that send real ones, and nothing is enacted.
//! [evidence part 9, DL004]

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::Core;
use super::death::{Letter, after_death};
use super::quarantine::Resort;
use super::routed::Routed;
use crate::base::limits::{CYCLE_DEATHS_MAX, CYCLE_KEYS_MAX, CYCLE_QUEUES_MAX, CYCLE_WARNINGS_MAX};
use crate::base::{Lsn, Meter, Millis, Name, Position, QueueId, Step, Timestamp};
use crate::broker::arguments::Overflow;
use crate::broker::dead_letter::{SendResult, Verdict, plan, verdict};
use crate::broker::exchange::ExchangeKind;
use crate::broker::policy::{EffectiveSettings, Rule};
use crate::broker::queue::{MessageState, Queue};
use crate::broker::warning::ClosedCycle;
use crate::broker::{DropCause, Policy, Warning};
use crate::deaths::{self, Reason, Recent};
use crate::message::{KeyRule, Message, Route};

/// The progress of a search for the cycles that a policy closes.
#[derive(Debug, Default)]
pub struct CycleSearch {
    /// The last queue whose dead letters were followed.
    after: Option<Name>,
    /// Number of queues looked at so far.
    looked_at: usize,
    /// The queues of each cycle found, in the order of their ids.
    known: BTreeSet<Vec<QueueId>>,
    found: Vec<Warning>,
}

impl CycleSearch {
    /// One warning for each cycle found.
    pub fn into_warnings(self) -> Vec<Warning> {
        self.found
    }
}

/// A made-up message on its way, in the last queue of its path.
struct Wanderer {
    message: Arc<Message>,
    route: Arc<Route>,
    path: Vec<QueueId>,
}

/// The reasons for which messages die in a queue with these settings though no consumer rejects
/// them; a time to live of their own aside.
fn unrejected(settings: &EffectiveSettings) -> impl Iterator<Item = Reason> {
    let is_limited = settings.max_length.is_some() || settings.max_length_bytes.is_some();
    let dead_letters = settings.overflow != Overflow::RejectPublish;
    [
        (settings.message_ttl_ms.is_some(), Reason::Expired),
        (is_limited && dead_letters, Reason::Maxlen),
        (settings.delivery_limit.is_some(), Reason::DeliveryLimit),
    ]
    .into_iter()
    .filter_map(|(dies, reason)| dies.then_some(reason))
}

/// A key that a binding lets pass: its own, with a word for each wildcard of a topic.
pub fn example_key(kind: ExchangeKind, key: &Name) -> Name {
    if kind != ExchangeKind::Topic || !key.contains(['*', '#']) {
        return key.clone();
    }
    let word = |word: &str| match word {
        "*" | "#" => "any".to_owned(),
        word => word.to_owned(),
    };
    Name::from(key.split('.').map(word).collect::<Vec<_>>().join("."))
}

impl Core {
    /// The cycle that the dead letters of a queue would close, if there is one.
    pub(super) fn cycle_through(&self, queue: &Queue, meter: &mut Meter) -> Option<Warning> {
        let mut left = CYCLE_DEATHS_MAX;
        let cycle = self.cycle_from(queue, &mut left, meter)?;
        cycle.contains(&queue.id).then_some(())?;
        self.cycle_warning(&self.ending_in(cycle, queue.id, meter))
    }

    /// Looks for the cycles that a policy or operator policy closes, until the meter is used up;
    /// whether the search is over. It does not begin while the policy is still being applied.
    /// `search` has the progress.
    pub fn find_cycles(
        &self,
        (operator, name): (bool, &Name),
        search: &mut CycleSearch,
        meter: &mut Meter,
    ) -> bool {
        let Some(policy) = self.policies.get(operator, name) else {
            return true; // deleted meanwhile
        };
        if !policy.may_close_a_cycle() {
            return true;
        }
        if self.policy_pass.is_some() {
            return false;
        }
        let after = search.after.take();
        let mut last = after.as_ref();
        for (name, id) in self.names_after(after.as_ref()) {
            if search.looked_at == CYCLE_QUEUES_MAX || search.found.len() == CYCLE_WARNINGS_MAX {
                return true;
            }
            if meter.is_used_up() {
                search.after = last.cloned();
                return false;
            }
            last = Some(name);
            search.looked_at += 1;
            meter.charge(Step::Object, 1);
            if let Some(queue) = self.queues.get(id) {
                self.look_from(queue, (operator, policy), search, meter);
            }
        }
        true
    }

    /// Follows the dead letters of one queue into a cycle that the policy has part in.
    fn look_from(
        &self,
        queue: &Queue,
        (operator, policy): (bool, &Policy),
        search: &mut CycleSearch,
        meter: &mut Meter,
    ) {
        let mut left = CYCLE_DEATHS_MAX;
        let Some(cycle) = self.cycle_from(queue, &mut left, meter) else {
            return;
        };
        let mut members = cycle.clone();
        members.sort_unstable();
        if !search.known.insert(members) {
            return;
        }
        let queues = cycle.iter().filter_map(|id| self.queues.get(id));
        let queues = queues.map(|queue| &**queue);
        let touched = |queue: &&Queue| {
            meter.charge_ns(policy.pattern.match_ns(&queue.name));
            policy.sets_deaths_of(operator, &queue.name, &queue.settings)
        };
        let touched: Vec<_> = queues.filter(touched).collect();
        let expires = |queue: &&&Queue| queue.settings.message_ttl_ms.is_some();
        let Some(last) = touched.iter().find(expires).or_else(|| touched.first()) else {
            return;
        };
        let cycle = self.ending_in(cycle, last.id, meter);
        search.found.extend(self.cycle_warning(&cycle));
    }

    /// The same cycle as it is passed by messages that first die in the queue behind `last`, if
    /// they pass it, too: their keys may be others.
    fn ending_in(&self, cycle: Vec<QueueId>, last: QueueId, meter: &mut Meter) -> Vec<QueueId> {
        let mut around = cycle.iter().cycle().skip_while(|id| **id != last);
        let first = around.nth(1).and_then(|id| self.queues.get(id));
        let mut left = CYCLE_DEATHS_MAX;
        let turned = first.and_then(|first| self.cycle_from(first, &mut left, meter));
        let is_same = |turned: &Vec<QueueId>| {
            turned.len() == cycle.len()
                && turned.last() == Some(&last)
                && turned.iter().all(|id| cycle.contains(id))
        };
        turned.filter(is_same).unwrap_or(cycle)
    }

    /// The first cycle that messages close which come to this queue by its name or by one of its
    /// bindings, and die without a rejection; in the order in which they pass its queues.
    fn cycle_from(
        &self,
        queue: &Queue,
        left: &mut usize,
        meter: &mut Meter,
    ) -> Option<Vec<QueueId>> {
        queue.settings.dead_letter_exchange.as_ref()?;
        unrejected(&queue.settings).next()?;
        let by_name = (Name::default(), queue.name.clone());
        let bound = self.router.some_bindings_to(&queue.name, CYCLE_KEYS_MAX);
        let by_binding = bound.map(|(kind, binding)| {
            let key = example_key(kind, &binding.key);
            (binding.source.clone(), key)
        });
        let mut ways = std::iter::once(by_name).chain(by_binding);
        ways.find_map(|(exchange, key)| {
            let keys = Arc::from([key]);
            let route = Arc::new(Route { exchange, keys });
            self.cycle_by(queue.id, route, left, meter)
        })
    }

    /// Sends a made-up message from queue to queue, of several first to those that were found
    /// last, until it is lost in a cycle or `left` deaths are used up.
    fn cycle_by(
        &self,
        from: QueueId,
        route: Arc<Route>,
        left: &mut usize,
        meter: &mut Meter,
    ) -> Option<Vec<QueueId>> {
        let message = Message::from_transfer(Bytes::from_static(NULL), KeyRule::Specification);
        let mut pending = vec![Wanderer {
            message: Arc::new(message.ok()?),
            route,
            path: vec![from],
        }];
        while let Some(wanderer) = pending.pop() {
            if *left == 0 || meter.is_used_up() {
                return None;
            }
            *left -= 1;
            meter.charge(Step::Command, 1);
            let Some((letter, asked)) = self.letter_of(&wanderer, meter) else {
                continue; // it does not die there, or has no way
            };
            let mut sent = SendResult::default();
            meter.charge(Step::Object, asked.len());
            let (skipped, mut entered): (Vec<QueueId>, Vec<QueueId>) = asked
                .into_iter()
                .partition(|target| self.closed_cycle(&letter, *target).is_some());
            (sent.cycled, sent.accepted) = (skipped.len(), entered.len());
            if verdict(&sent, letter.strategy, false) == Verdict::Drop(DropCause::Cycle) {
                let first = skipped.first()?;
                let place = wanderer.path.iter().position(|id| id == first)?;
                return Some(wanderer.path.split_at_checked(place)?.1.to_vec());
            }
            entered.truncate(left.saturating_sub(pending.len()));
            pending.extend(entered.into_iter().map(|target| Wanderer {
                message: Arc::clone(&letter.message),
                route: Arc::clone(&letter.route),
                path: wanderer.path.iter().copied().chain([target]).collect(),
            }));
        }
        None
    }

    /// The dead letter that it becomes where it is, and the queues that this is sent to. See
    /// [`Core::die`].
    fn letter_of(&self, wanderer: &Wanderer, meter: &mut Meter) -> Option<(Letter, Vec<QueueId>)> {
        let queue = self.queues.get(wanderer.path.last()?)?;
        let reason = unrejected(&queue.settings).next()?;
        let (message, route) = (&wanderer.message, &wanderer.route);
        let way = plan(&queue.settings, route, &mut None)?;
        let dying = deaths::Dying {
            queue: &queue.name,
            reason,
            time: Timestamp(0),
            exchange: &route.exchange,
            routing_keys: &route.keys,
            ttl: None,
            evidence: None,
        };
        let before = message.history();
        let recorded = Recent::default().record(before, &dying);
        let (history, stuck) = after_death(recorded, before, true)?;
        let letter = Letter {
            source: queue.id,
            position: Position(0),
            from: MessageState::Dying,
            reason,
            arrived: Millis::default(),
            message: Arc::new(message.died(history, 0)),
            route: way,
            strategy: queue.settings.dead_letter_strategy,
            durable: false,
            body: Lsn(0),
            waited: None,
        };
        let (mut routed, mut sent) = (Routed::default(), SendResult::default());
        let targets = match stuck {
            None => self.find_targets(meter, &letter, &mut routed, &mut sent),
            Some(_) => &[],
        };
        let targets = targets.to_vec();
        Some((letter, targets))
    }

    /// The warning about a cycle; none if nothing dies in it but by a consumer's doing.
    fn cycle_warning(&self, cycle: &[QueueId]) -> Option<Warning> {
        let queues: Vec<&Queue> = cycle
            .iter()
            .map(|id| self.queues.get(id).map(|queue| &**queue))
            .collect::<Option<_>>()?;
        let (first, last) = (queues.first()?, queues.last()?);
        let turns = |queue: &&Queue| {
            let mut reasons = unrejected(&queue.settings);
            reasons.any(|reason| reason != Reason::DeliveryLimit)
        };
        queues.iter().any(turns).then_some(())?;
        let resort = self.last_resort(last.id, DropCause::Cycle, 0);
        Some(Warning::Cycle(Box::new(ClosedCycle {
            path: queues.iter().map(|queue| queue.name.clone()).collect(),
            reasons: unrejected(&first.settings).collect(),
            is_quarantined: resort == Resort::Quarantine,
        })))
    }
}

impl Policy {
    /// Whether it sets where dead letters go, or something that messages die of without a
    /// rejection.
    pub fn may_close_a_cycle(&self) -> bool {
        let definition = &self.definition;
        self.apply_to.covers_queues()
            && (definition.dead_letter_exchange.is_some()
                || definition.dead_letter_routing_key.is_some()
                || definition.message_ttl_ms.is_some()
                || definition.max_length.is_some()
                || definition.max_length_bytes.is_some()
                || definition.delivery_limit.is_some())
    }

    /// Whether the queue of this name has one of those settings from this policy.
    fn sets_deaths_of(&self, operator: bool, name: &Name, settings: &EffectiveSettings) -> bool {
        if !self.apply_to.covers_queue(settings.queue_type) || !self.pattern.matches(name) {
            return false;
        }
        let definition = &self.definition;
        let rule = match settings.dead_letter_rule.as_ref() {
            Some(Rule::OperatorPolicy(rule)) => operator && *rule == self.name,
            Some(Rule::Policy(rule)) => !operator && *rule == self.name,
            _ => false,
        };
        let is = |given: Option<u64>, counts: Option<u64>| given.is_some() && given == counts;
        let key = &definition.dead_letter_routing_key;
        rule || key.is_some() && *key == settings.dead_letter_routing_key
            || is(definition.message_ttl_ms, settings.message_ttl_ms)
            || is(definition.max_length, settings.max_length)
            || is(definition.max_length_bytes, settings.max_length_bytes)
            || definition.delivery_limit.is_some()
                && definition.delivery_limit == settings.delivery_limit.map(i64::from)
    }
}

/// The payload of a message with a null body and nothing else.
const NULL: &[u8] = &[0x00, 0x53, 0x77, 0x40];
