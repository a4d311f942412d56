//! Matching of policies with one name, in slices: there may be many, each a regular expression that
//! may take long over a name.

use std::ops::Bound;
use std::sync::Arc;

use super::ObjectKind;
use super::arguments::{QueueArguments, QueueType};
use super::policy::{ApplyTo, EffectiveSettings, Policies, Policy};
use crate::base::{Meter, Name};

/// Cost of a policy that needs no matching, since it is for other objects or cannot win, in
/// nanoseconds.
const PASSED_NS: u64 = 20;

/// A name, and the policies found for it so far.
#[derive(Debug)]
pub struct Matching {
    name: Name,
    kind: ObjectKind,
    /// The generation of the policies that are searched.
    generation: u64,
    user: Search,
    operator: Search,
}

/// A search through the policies, or the operator policies.
#[derive(Debug, Default)]
struct Search {
    /// The best policy so far for each of [`USES`].
    best: [Option<Arc<Policy>>; 2],
    /// The name of the last policy that was examined.
    after: Option<Name>,
    is_done: bool,
}

/// The queue types that a policy may apply to: a name is matched before the type is known from the
/// arguments.
const USES: [QueueType; 2] = [QueueType::Classic, QueueType::Quorum];

impl Search {
    /// The best policy for queues of this type; none: for exchanges.
    fn best_for(&self, queue_type: Option<QueueType>) -> Option<&Arc<Policy>> {
        let mut uses = USES.iter().zip(&self.best);
        match queue_type {
            Some(queue_type) => uses.find(|(one, _)| **one == queue_type)?.1.as_ref(),
            None => self.best.first()?.as_ref(),
        }
    }
}

impl Matching {
    /// Begins a search for a queue of this name, of any type, or for an exchange, to which operator
    /// policies do not apply.
    pub fn new(kind: ObjectKind, name: Name) -> Self {
        let operator = Search {
            is_done: kind != ObjectKind::Queue,
            ..Search::default()
        };
        Self {
            name,
            kind,
            generation: 0,
            user: Search::default(),
            operator,
        }
    }

    /// Whether the search is for this object.
    pub fn is_for(&self, kind: ObjectKind, name: &Name) -> bool {
        self.name == *name && self.kind == kind
    }

    /// Searches until all policies were examined or the meter shows `enough_ns`; returns whether
    /// all were. It starts again if the policies have changed since the last call.
    pub fn go_on(&mut self, policies: &Policies, meter: &mut Meter, enough_ns: u64) -> bool {
        if self.generation != policies.generation() {
            *self = Self::new(self.kind, self.name.clone());
            self.generation = policies.generation();
        }
        for (operator, search) in [(false, &mut self.user), (true, &mut self.operator)] {
            if search.is_done {
                continue;
            }
            let start = (search.after.as_ref()).map_or(Bound::Unbounded, Bound::Excluded);
            let mut last: Option<&Name> = None;
            for (name, policy) in policies.range(operator, start) {
                if meter.spent_ns() >= enough_ns {
                    search.after = last.cloned().or_else(|| search.after.take());
                    return false;
                }
                last = Some(name);
                let wins = search.wins(self.kind, policy);
                if wins == [false; 2] {
                    meter.charge_ns(PASSED_NS);
                    continue;
                }
                meter.charge_ns(policy.pattern.match_ns(&self.name));
                if policy.pattern.matches(&self.name) {
                    for (best, _) in search.best.iter_mut().zip(wins).filter(|(_, wins)| *wins) {
                        *best = Some(Arc::clone(policy));
                    }
                }
            }
            search.is_done = true;
        }
        true
    }

    /// The settings of the queue under the policies found.
    pub fn settings(&self, arguments: &QueueArguments) -> EffectiveSettings {
        let best = |search: &'_ Search| search.best_for(Some(arguments.queue_type)).cloned();
        let (user, operator) = (best(&self.user), best(&self.operator));
        EffectiveSettings::of(arguments, user.as_deref(), operator.as_deref())
    }

    /// The alternate exchange that the policy sets; the exchange's argument takes precedence.
    pub fn alternate_exchange(&self) -> Option<&Name> {
        let policy = self.user.best_for(None)?;
        policy.definition.alternate_exchange.as_ref()
    }
}

impl Search {
    /// The uses for which a policy would be the best so far. Of equal priorities the first name
    /// wins, so that the choice is stable.
    fn wins(&self, kind: ObjectKind, policy: &Policy) -> [bool; 2] {
        let covers = |apply_to: ApplyTo, queue_type| match kind {
            ObjectKind::Queue => apply_to.covers_queue(queue_type),
            _ => apply_to.covers_exchanges(),
        };
        let mut wins = [false; 2];
        for ((wins, best), queue_type) in wins.iter_mut().zip(&self.best).zip(USES) {
            *wins = covers(policy.apply_to, queue_type)
                && (best.as_ref()).is_none_or(|best| policy.priority > best.priority);
        }
        wins
    }
}
