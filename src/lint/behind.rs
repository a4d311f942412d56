//! What lies behind each exchange: the exchanges that messages get to from it, by bindings between
//! exchanges and as alternate exchanges, and the queues that are bound to those. Which of them a message
//! reaches is asked of the router; this says which it can reach at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::budget::{Budget, Part};
use crate::base::limits::{LINT_BEHIND_MAX, LINT_TARGETS_MAX};
use crate::base::order::sort_and_dedup;
use crate::base::{ExchangeId, Name, QueueId};
use crate::broker::binding::ResolvedDestination;
use crate::broker::exchange::{Exchange, ExchangeKind};
use crate::broker::router::{DEFAULT_EXCHANGE, Router};

/// What is next to each exchange.
#[derive(Debug)]
pub(super) struct Leads {
    near: BTreeMap<ExchangeId, Near>,
}

/// What is next to one exchange.
#[derive(Debug)]
struct Near {
    below: Vec<ExchangeId>,
    /// Some of them if they are very many.
    queues: Vec<QueueId>,
    ignores_keys: bool,
}

/// What lies behind one exchange.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    /// The exchanges, itself the first.
    pub(super) exchanges: Vec<ExchangeId>,
    /// The queues, some of them if they are very many.
    pub(super) queues: Arc<[QueueId]>,
    /// More than its keys may say where a message goes.
    pub(super) varies: bool,
    /// Messages with all keys go the same way.
    pub(super) ignores_keys: bool,
    /// Queues by their names, as the default exchange is among the alternates; or the exchanges are too
    /// many to be looked at.
    pub(super) has_others: bool,
}

impl Near {
    fn of(router: &Router, exchange: &Exchange) -> Self {
        let (mut below, mut queues) = (Vec::new(), Vec::new());
        for place in exchange.bindings().values() {
            match place {
                ResolvedDestination::Exchange(to) => below.push(*to),
                ResolvedDestination::Queue(queue) if queues.len() < LINT_TARGETS_MAX => {
                    if !queues.contains(queue) {
                        queues.push(*queue);
                    }
                }
                ResolvedDestination::Queue(_) => {}
            }
        }
        let alternate = alternate(exchange).and_then(|name| router.id_of(name));
        below.extend(alternate);
        sort_and_dedup(&mut below);
        Self {
            below,
            queues,
            ignores_keys: ignores_keys(exchange),
        }
    }
}

impl Leads {
    pub(super) fn of(router: &Router) -> Self {
        let exchanges = router.exchanges();
        let near = exchanges.map(|exchange| (exchange.id, Near::of(router, exchange)));
        Self {
            near: near.collect(),
        }
    }

    /// These exchanges, and all behind them.
    pub(super) fn all_behind(&self, mut open: Vec<ExchangeId>) -> BTreeSet<ExchangeId> {
        let mut seen: BTreeSet<ExchangeId> = open.iter().copied().collect();
        while let Some(at) = open.pop() {
            let below = self.near.get(&at).into_iter().flat_map(|near| &near.below);
            open.extend(below.copied().filter(|below| seen.insert(*below)));
        }
        seen
    }

    /// What lies behind an exchange. Where that takes too long, nothing is claimed.
    pub(super) fn behind(&self, router: &Router, exchange: ExchangeId, budget: &Budget) -> Behind {
        let mut behind = Behind {
            exchanges: vec![exchange],
            queues: Arc::from([]),
            varies: false,
            ignores_keys: true,
            has_others: false,
        };
        let mut seen = BTreeSet::from([exchange]);
        let (mut queues, mut next) = (Vec::new(), 0);
        while let Some(at) = behind.exchanges.get(next).copied() {
            next += 1;
            behind.has_others |= at == DEFAULT_EXCHANGE;
            let found = router.exchange(at);
            behind.varies |= found.is_some_and(|found| found.spec.kind.varies());
            let Some(near) = self.near.get(&at) else {
                continue;
            };
            behind.ignores_keys &= near.ignores_keys;
            let bound = near.queues.iter().copied();
            queues.extend(bound.take(LINT_TARGETS_MAX.saturating_sub(queues.len())));
            for below in &near.below {
                let may_look = budget.take(Part::Behind, 1);
                if may_look && seen.contains(below) {
                    continue;
                }
                if !may_look || behind.exchanges.len() >= LINT_BEHIND_MAX {
                    budget.cut(Part::Behind);
                    (behind.varies, behind.has_others) = (true, true);
                    break;
                }
                seen.insert(*below);
                behind.exchanges.push(*below);
            }
        }
        sort_and_dedup(&mut queues);
        behind.queues = queues.into();
        behind
    }
}

/// Whether an exchange sends messages with all keys the same way.
fn ignores_keys(exchange: &Exchange) -> bool {
    match exchange.spec.kind {
        ExchangeKind::Fanout | ExchangeKind::Headers | ExchangeKind::LocalRandom => true,
        ExchangeKind::Topic => exchange.bindings().keys().all(|one| &*one.key == "#"),
        // By the default exchange each queue has a key.
        ExchangeKind::Direct => exchange.id != DEFAULT_EXCHANGE && exchange.bindings().is_empty(),
    }
}

/// The alternate exchange, if there can be messages that no binding of the exchange takes.
pub(super) fn alternate(exchange: &Exchange) -> Option<&Name> {
    let mut keys = exchange.bindings().keys().map(|binding| &binding.key);
    let takes_all = match exchange.spec.kind {
        ExchangeKind::Fanout | ExchangeKind::LocalRandom => keys.next().is_some(),
        ExchangeKind::Topic => keys.any(|key| &**key == "#"),
        ExchangeKind::Direct | ExchangeKind::Headers => false,
    };
    exchange.alternate().filter(|_| !takes_all)
}
