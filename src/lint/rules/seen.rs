//! What is said of dead-letter exchanges: each is looked at once, for all queues that have it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::listed;
use crate::base::limits::LINT_BEHIND_MAX;
use crate::base::{ExchangeId, Name};
use crate::broker::binding::ResolvedDestination;
use crate::broker::exchange::{Exchange, ExchangeKind};
use crate::broker::{Core, NoAttributes};
use crate::lint::behind::alternate;
use crate::lint::budget::Part;
use crate::lint::keys::{is_pattern, with_words_of};
use crate::lint::map::Map;

/// What is known of exchanges so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Exchanges behind which there is one that this broker does not have.
    strangers: BTreeMap<ExchangeId, bool>,
    keys: BTreeMap<ExchangeId, Arc<Keys>>,
    told_apart_by_patterns: BTreeMap<ExchangeId, bool>,
    words: BTreeMap<ExchangeId, Arc<str>>,
    /// By exchange and key, see [`Seen::is_lost_alive`].
    lost_alive: BTreeMap<(ExchangeId, Name), bool>,
    /// Bindings that were looked at.
    #[cfg(test)]
    bindings: usize,
}

/// The keys by which one exchange is bound.
#[derive(Debug)]
struct Keys {
    /// Some of them, in words.
    listed: String,
    /// How many different ones there are.
    count: usize,
    /// Those by which it tells messages apart take more keys than one each.
    are_patterns: bool,
    /// The exchanges that get messages whatever their key is, and the alternate.
    passed_on: Vec<ExchangeId>,
}

impl Keys {
    fn of(core: &Core, exchange: &Exchange) -> Self {
        let (mut keys, mut passed_on, mut are_patterns) = (BTreeSet::new(), Vec::new(), true);
        for (binding, place) in exchange.bindings() {
            keys.insert(&binding.key);
            let takes_all = match exchange.spec.kind {
                ExchangeKind::Fanout => true,
                ExchangeKind::Topic => &*binding.key == "#",
                ExchangeKind::Direct | ExchangeKind::Headers | ExchangeKind::LocalRandom => false,
            };
            match place {
                ResolvedDestination::Exchange(to) if takes_all => passed_on.push(*to),
                _ => are_patterns &= takes_all || is_pattern(&binding.key),
            }
        }
        passed_on.extend(alternate(exchange).and_then(|name| core.router().id_of(name)));
        Self {
            listed: listed(keys.iter().copied()),
            count: keys.len(),
            are_patterns,
            passed_on,
        }
    }
}

impl Seen {
    /// Whether dead letters may pass an exchange of a kind that this broker does not have.
    pub(super) fn meets_a_stranger(&mut self, core: &Core, map: &Map, id: ExchangeId) -> bool {
        let known = self.strangers.entry(id);
        *known.or_insert_with(|| {
            let behind = map.behind(id).into_iter();
            let behind = behind.flat_map(|behind| &behind.exchanges);
            let mut behind = behind.filter_map(|id| core.router().exchange(*id));
            behind.any(|exchange| map.strangers.has_exchange(&exchange.spec.name))
        })
    }

    fn keys(&mut self, core: &Core, id: ExchangeId) -> Option<Arc<Keys>> {
        if let Some(known) = self.keys.get(&id) {
            return Some(Arc::clone(known));
        }
        let exchange = core.router().exchange(id)?;
        let keys = Arc::new(Keys::of(core, exchange));
        #[cfg(test)]
        {
            self.bindings += exchange.bindings().len();
        }
        self.keys.insert(id, Arc::clone(&keys));
        Some(keys)
    }

    /// Whether letters are told apart by patterns only: by the dead-letter exchange, or by those to which it
    /// passes on whatever comes.
    pub(super) fn is_told_apart_by_patterns(&mut self, core: &Core, id: ExchangeId) -> bool {
        if let Some(known) = self.told_apart_by_patterns.get(&id) {
            return *known;
        }
        let (mut open, mut passed) = (vec![id], BTreeSet::from([id]));
        let mut are_patterns = true;
        while let Some(at) = open.pop() {
            let Some(keys) = self.keys(core, at) else {
                continue;
            };
            are_patterns &= keys.are_patterns;
            let further = keys.passed_on.iter().copied();
            open.extend(further.filter(|to| passed.len() < LINT_BEHIND_MAX && passed.insert(*to)));
        }
        self.told_apart_by_patterns.insert(id, are_patterns);
        are_patterns
    }

    /// Whether an exchange is bound with several keys.
    pub(super) fn has_several_keys(&mut self, core: &Core, id: ExchangeId) -> bool {
        self.keys(core, id).is_some_and(|keys| keys.count > 1)
    }

    /// `is bound with: order.new; behind it: parking`.
    pub(super) fn bound_words(&mut self, core: &Core, map: &Map, id: ExchangeId) -> Arc<str> {
        if let Some(known) = self.words.get(&id) {
            return Arc::clone(known);
        }
        let router = core.router();
        let is_fanout = router
            .exchange(id)
            .is_some_and(|exchange| exchange.spec.kind == ExchangeKind::Fanout);
        let keys = self.keys(core, id);
        let mut words = match keys {
            _ if is_fanout => "takes all keys".to_owned(),
            Some(keys) if keys.count > 0 => format!("is bound with: {}", keys.listed),
            Some(_) | None => "is bound with nothing".to_owned(),
        };
        let behind = map.behind(id).into_iter();
        let behind = behind.flat_map(|behind| &behind.exchanges);
        let behind = behind.filter(|behind| **behind != id);
        let behind = behind.filter_map(|id| router.exchange(*id));
        let mut behind = behind.map(|exchange| &exchange.spec.name).peekable();
        if behind.peek().is_some() {
            words = format!("{words}; behind it: {}", listed(behind));
        }
        let words: Arc<str> = Arc::from(words);
        self.words.insert(id, Arc::clone(&words));
        words
    }

    /// Whether an exchange does not take live messages with the made-up words of a key either: those that
    /// come to it from other exchanges differ from this one in words that the bindings name. Whoever
    /// publishes uses the words that it knows, then. No where that takes too long to tell.
    pub(super) fn is_lost_alive(
        &mut self,
        core: &Core,
        map: &Map,
        (id, exchange): (ExchangeId, &Name),
        key: &Name,
    ) -> bool {
        let known = self.lost_alive.entry((id, key.clone()));
        *known.or_insert_with(|| {
            let patterns = map.fed.get(exchange).into_iter().flatten();
            let words = |pattern: &Name| pattern.split('.').count() + key.split('.').count();
            let patterns =
                patterns.take_while(|pattern| map.budget.take(Part::Words, words(pattern)));
            let mut alive = patterns.filter_map(|pattern| with_words_of(pattern, key));
            alive.any(|alive| {
                let mut queues = Vec::new();
                let keys = std::slice::from_ref(&alive);
                let router = core.router();
                router.route_by(id, keys, &NoAttributes, 0, &mut queues);
                let may_claim = map.budget.take(Part::Routes, queues.len() + 1);
                may_claim && alive != *key && queues.is_empty()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::arguments::OnUndeliverable;
    use crate::lint::budget::Budget;
    use crate::lint::tests::{binding, exchange, queue};
    use crate::lint::{Finding, Target, Topology};
    use serde_json::json;

    /// For each queue that loses something all bindings of its dead-letter exchange were read anew.
    #[test]
    fn the_bindings_of_a_dead_letter_exchange_are_read_once_for_all_queues_that_lose_something() {
        let count = 50;
        let names = || (0..count).map(|n| format!("q{n}"));
        let dead = |name: String| queue(&name, json!({"x-dead-letter-exchange": "dead"}));
        let live = names().map(|name| binding("shop", &name, &format!("lost.{name}")));
        let bound = names().map(|name| binding("dead", &name, &format!("kept.{name}")));
        let definitions = json!({
            "queues": names().map(dead).collect::<Vec<_>>(),
            "exchanges": [exchange("shop", "direct"), exchange("dead", "direct")],
            "bindings": live.chain(bound).collect::<Vec<_>>(),
        });
        let topology = Topology::read(&definitions, None, OnUndeliverable::Drop).unwrap();
        let sandbox = topology.vhosts.values().next().unwrap();
        let map = Map::draw(sandbox, Target::Coroner, Budget::default());
        let core = sandbox.core();
        let (mut seen, mut findings): (Seen, Vec<Finding>) = (Seen::default(), Vec::new());
        for queue in core.queues() {
            let (map, findings) = ((&map, Target::Coroner), &mut findings);
            super::super::ways::look(core, map, queue, &mut seen, findings);
        }
        assert_eq!((findings.len(), seen.bindings), (count, count));
    }
}
