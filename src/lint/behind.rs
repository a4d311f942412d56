//! What lies behind each exchange: the exchanges that messages get to from it, by bindings between
//! exchanges and as alternate exchanges, and the queues that are bound to those. Which of them a message
//! reaches is asked of the router; this says which it can reach at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::limits::{LINT_BEHIND_MAX, LINT_TARGETS_MAX};
use crate::base::order::sort_and_dedup;
use crate::base::{ExchangeId, Name, QueueId};
use crate::broker::binding::ResolvedDestination;
use crate::broker::exchange::{Exchange, ExchangeKind};
use crate::broker::router::{DEFAULT_EXCHANGE, Router};

/// What is next to each exchange.
#[derive(Debug)]
pub(super) struct Leads {
    below: BTreeMap<ExchangeId, Vec<ExchangeId>>,
    /// Some of them if they are very many.
    queues: BTreeMap<ExchangeId, Vec<QueueId>>,
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
    /// Queues by their names, as the default exchange is among the alternates; or the exchanges are too
    /// many to be looked at.
    pub(super) has_others: bool,
}

impl Leads {
    pub(super) fn of(router: &Router) -> Self {
        let mut leads = Self {
            below: BTreeMap::new(),
            queues: BTreeMap::new(),
        };
        for exchange in router.exchanges() {
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
            leads.below.insert(exchange.id, below);
            leads.queues.insert(exchange.id, queues);
        }
        leads
    }

    /// What lies behind an exchange.
    pub(super) fn behind(&self, router: &Router, exchange: ExchangeId) -> Behind {
        let mut exchanges = vec![exchange];
        let mut seen = BTreeSet::from([exchange]);
        let (mut queues, mut varies, mut has_others) = (Vec::new(), false, false);
        let mut next = 0;
        while let Some(at) = exchanges.get(next).copied() {
            next += 1;
            has_others |= at == DEFAULT_EXCHANGE;
            let found = router.exchange(at);
            varies |= found.is_some_and(|found| found.spec.kind.varies());
            let bound = self.queues.get(&at).into_iter().flatten();
            queues.extend(bound.take(LINT_TARGETS_MAX.saturating_sub(queues.len())));
            for below in self.below.get(&at).into_iter().flatten() {
                if exchanges.len() >= LINT_BEHIND_MAX {
                    // Nothing is claimed of what was not looked at.
                    (varies, has_others) = (true, true);
                    break;
                }
                if seen.insert(*below) {
                    exchanges.push(*below);
                }
            }
        }
        sort_and_dedup(&mut queues);
        Behind {
            exchanges,
            queues: queues.into(),
            varies,
            has_others,
        }
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
