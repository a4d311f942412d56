//! How dead letters come to queues, death by death.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Arrival, By, Fate, Map, Step, reasons, same_way};
use crate::base::limits::{LINT_ARRIVALS_MAX, LINT_TARGETS_MAX};
use crate::base::{ExchangeId, Name, QueueId};
use crate::broker::{Core, NoAttributes, dead_letter_route};
use crate::deaths::Reason;
use crate::lint::budget::{Budget, Part};
use crate::message::Route;

/// The queues that a dead letter reaches, by exchange and key, some of them if they are very many; none: it
/// takes too long to tell.
pub(super) type Reached = BTreeMap<(ExchangeId, Name), Option<Arc<[QueueId]>>>;

impl Map {
    pub(super) fn arrive(&mut self, arrival: Arrival) -> Option<usize> {
        let known = self.in_queue.entry(arrival.queue).or_default();
        let same = |index: &&usize| {
            let other = self.arrivals.get(**index);
            other.is_some_and(|other| {
                other.keyless == arrival.keyless && same_way(&other.route, &arrival.route)
            })
        };
        if let Some(index) = known.iter().find(same).copied() {
            self.learn(index, &arrival);
            return Some(index);
        }
        if known.len() >= LINT_ARRIVALS_MAX || !self.budget.take(Part::Arrivals, 1) {
            return None;
        }
        let index = self.arrivals.len();
        known.push(index);
        self.arrivals.push(arrival);
        Some(index)
    }

    /// Takes over what is known better of an arrival by another way to the same.
    fn learn(&mut self, index: usize, other: &Arrival) {
        let Some(known) = self.arrivals.get_mut(index) else {
            return;
        };
        let is_surer = known.perhaps && !other.perhaps;
        if !is_surer && known.made_up <= other.made_up {
            return;
        }
        known.made_up &= other.made_up;
        if is_surer {
            // All those before it are sure, so that it is not among them.
            if let (By::Death(from, _), By::Name) = (known.by, other.by) {
                known.may_follow = Some(from);
            }
            (known.perhaps, known.by) = (false, other.by);
        }
        if index < self.steps_of.len() {
            self.changed.push(index);
        }
    }

    /// Lets those that follow from arrivals of which more is known know it, too.
    fn pass_on(&mut self) {
        while let Some(index) = self.changed.pop() {
            let Some(arrival) = self.arrivals.get(index).cloned() else {
                continue;
            };
            let steps = self.steps_from(index).cloned();
            for step in steps.collect::<Vec<Step>>() {
                let (targets, perhaps) = match &step.fate {
                    Fate::Arrives(targets) => (targets, false),
                    Fate::Varies(targets) => (targets, true),
                    Fate::NoExchange | Fate::Missing | Fate::Nowhere => continue,
                };
                for target in targets.iter() {
                    let known = Arrival {
                        by: By::Death(index, step.reason),
                        perhaps: arrival.perhaps || perhaps,
                        made_up: arrival.made_up && step.keeps_key,
                        ..arrival.clone()
                    };
                    self.learn(*target, &known);
                }
            }
        }
    }

    /// Follows the dead letters of all arrivals that were not followed yet. Of whatever they died, they
    /// go the same way.
    pub(super) fn let_die(&mut self, core: &Core) {
        while let Some(arrival) = self.arrivals.get(self.steps_of.len()).cloned() {
            let from = self.steps_of.len();
            self.steps_of.push(Vec::new());
            let Some(queue) = core.queue_by_id(arrival.queue) else {
                continue;
            };
            if self.strangers.has_queue(&queue.name) {
                continue; // of what dies there, nothing is known
            }
            let way = dead_letter_route(&queue.settings, &arrival.route);
            let keeps_key = queue.settings.dead_letter_routing_key.is_none();
            let arrival = Arrival {
                made_up: arrival.made_up && keeps_key,
                keyless: arrival.keyless && keeps_key,
                ..arrival
            };
            let mut followed = None;
            for reason in reasons(queue, self.target) {
                let (fate, reached) = followed.get_or_insert_with(|| {
                    self.follow(core, (from, &arrival, reason), way.as_ref())
                });
                let (fate, reached) = (fate.clone(), Arc::clone(reached));
                if let Some(steps) = self.steps_of.get_mut(from) {
                    steps.push(self.steps.len());
                }
                self.steps.push(Step {
                    from,
                    reason,
                    way: way.clone(),
                    fate,
                    keeps_key,
                    reached,
                });
            }
        }
        self.pass_on();
    }

    /// Where the dead letters of an arrival go, which has their key.
    fn follow(
        &mut self,
        core: &Core,
        (from, arrival, reason): (usize, &Arrival, Reason),
        way: Option<&Arc<Route>>,
    ) -> (Fate, Arc<[QueueId]>) {
        let nothing = || Arc::from([]);
        let Some(way) = way else {
            return (Fate::NoExchange, nothing());
        };
        let Some(exchange) = core.router().id_of(&way.exchange) else {
            return (Fate::Missing, nothing());
        };
        let Some(key) = way.keys.first() else {
            return (Fate::Nowhere, nothing());
        };
        let behind = self.behind.get(&exchange);
        let ignores_keys = behind.is_some_and(|behind| behind.ignores_keys);
        let varies = behind.is_some_and(|behind| behind.varies);
        let targets = if varies || (arrival.keyless && !ignores_keys) {
            None
        } else {
            let key = if ignores_keys { &Name::default() } else { key };
            let known = self.reached.entry((exchange, key.clone()));
            let known = known.or_insert_with(|| reached(core, (exchange, key), &self.budget));
            known.as_ref().map(Arc::clone)
        };
        let Some(targets) = targets else {
            let possible = behind.map_or_else(nothing, |behind| Arc::clone(&behind.queues));
            let arrives = self.arrive_dead(&possible, (from, arrival, reason), way, true);
            return (Fate::Varies(arrives), possible);
        };
        if targets.is_empty() {
            return (Fate::Nowhere, targets);
        }
        let arrives = self.arrive_dead(&targets, (from, arrival, reason), way, false);
        (Fate::Arrives(arrives), targets)
    }

    /// The arrivals of dead letters in these queues; `perhaps`: in some of them.
    fn arrive_dead(
        &mut self,
        targets: &[QueueId],
        (from, arrival, reason): (usize, &Arrival, Reason),
        way: &Arc<Route>,
        perhaps: bool,
    ) -> Arc<[usize]> {
        let arrives = targets.iter().filter_map(|queue| {
            self.arrive(Arrival {
                queue: *queue,
                route: Arc::clone(way),
                by: By::Death(from, reason),
                may_follow: None,
                perhaps: arrival.perhaps || perhaps,
                made_up: arrival.made_up,
                keyless: arrival.keyless,
            })
        });
        arrives.collect()
    }

    /// Whether a dead letter with this key reaches a queue; yes where that was not looked at.
    pub(in crate::lint) fn may_reach_any(&self, exchange: ExchangeId, key: &Name) -> bool {
        let behind = self.behind.get(&exchange);
        let key = match behind {
            Some(behind) if behind.ignores_keys => &Name::default(),
            _ => key,
        };
        let known = self.reached.get(&(exchange, key.clone()));
        let known = known.and_then(Option::as_ref);
        known.is_none_or(|queues| !queues.is_empty())
    }
}

/// The queues that a message with this key reaches.
fn reached(
    core: &Core,
    (exchange, key): (ExchangeId, &Name),
    budget: &Budget,
) -> Option<Arc<[QueueId]>> {
    budget.take(Part::Routes, 1).then_some(())?;
    let mut queues = Vec::new();
    let keys = std::slice::from_ref(key);
    let router = core.router();
    let steps = router.route_by(exchange, keys, &NoAttributes, 0, &mut queues);
    let may_go_on = budget.take(Part::Routes, queues.len());
    (may_go_on && !steps.are_used_up()).then_some(())?;
    queues.truncate(LINT_TARGETS_MAX);
    Some(queues.into())
}
