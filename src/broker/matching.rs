//! Which policies apply to one name, found in pieces: there may be many, each a regular expression that
//! may take long over a name.

use std::ops::Bound;
use std::sync::Arc;

use super::arguments::{QueueArguments, QueueType};
use super::policy::{ApplyTo, EffectiveSettings, Policies, Policy};
use crate::base::{Meter, Name};

/// What a policy takes that is not matched, since it is for other objects or cannot win, in nanoseconds.
const PASSED_NS: u64 = 20;

/// A name, and the policies found for it so far.
#[derive(Debug)]
pub struct Matching {
    name: Name,
    /// Its type, if it is a queue; else it is an exchange.
    queue_type: Option<QueueType>,
    user: Search,
    operator: Search,
}

/// A search through the policies, or the operator policies.
#[derive(Debug, Default)]
struct Search {
    best: Option<Arc<Policy>>,
    /// The last policy that was looked at.
    after: Option<Name>,
    is_done: bool,
}

impl Matching {
    /// For a queue of this name.
    pub fn of_queue(name: Name, queue_type: QueueType) -> Self {
        Self {
            name,
            queue_type: Some(queue_type),
            user: Search::default(),
            operator: Search::default(),
        }
    }

    /// For an exchange of this name, which operator policies do not apply to.
    pub fn of_exchange(name: Name) -> Self {
        Self {
            name,
            queue_type: None,
            user: Search::default(),
            operator: Search {
                is_done: true,
                ..Search::default()
            },
        }
    }

    /// Whether it is for an exchange, or a queue of this type, of this name.
    pub fn is_for(&self, name: &Name, queue_type: Option<QueueType>) -> bool {
        self.name == *name && self.queue_type == queue_type
    }

    /// Looks for the policies until all were looked at or the meter says so much; whether all were. The
    /// policies must be the same from call to call.
    pub fn go_on(&mut self, policies: &Policies, meter: &mut Meter, enough_ns: u64) -> bool {
        let queue_type = self.queue_type;
        let covers = |apply_to: ApplyTo| match queue_type {
            Some(queue_type) => apply_to.covers_queue(queue_type),
            None => apply_to.covers_exchanges(),
        };
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
                // Of equal priorities the first name wins, so that the choice is stable.
                let best = search.best.as_ref();
                let may_win = best.is_none_or(|best| policy.priority > best.priority);
                if !may_win || !covers(policy.apply_to) {
                    meter.charge_ns(PASSED_NS);
                    continue;
                }
                meter.charge_ns(policy.pattern.match_ns(&self.name));
                if policy.pattern.matches(&self.name) {
                    search.best = Some(Arc::clone(policy));
                }
            }
            search.is_done = true;
        }
        true
    }

    /// What applies to the queue in the end.
    pub fn settings(&self, arguments: &QueueArguments) -> EffectiveSettings {
        let (user, operator) = (self.user.best.as_deref(), self.operator.best.as_deref());
        EffectiveSettings::of(arguments, user, operator)
    }

    /// The alternate exchange that the policy gives to the exchange; its argument beats it.
    pub fn alternate_exchange(&self) -> Option<&Name> {
        let policy = self.user.best.as_ref()?;
        policy.definition.alternate_exchange.as_ref()
    }
}
