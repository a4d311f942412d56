//! How live messages come to queues: by examples of keys, each tried, and by the names of queues.

use std::collections::{BTreeMap, BTreeSet};

use super::above::{Above, Bound, above};
use super::{Arrival, By, Map, route};
use crate::base::limits::{
    LINT_ARRIVALS_MAX, LINT_KEYS_MET_MAX, LINT_KEYS_TRIED_MAX, LINT_SOURCES_MAX,
};
use crate::base::{ExchangeId, Name, QueueId};
use crate::broker::exchange::{Exchange, ExchangeKind};
use crate::broker::queue::Queue;
use crate::broker::{Core, Destination, NoAttributes};
use crate::lint::behind::Leads;
use crate::lint::budget::{Budget, Part};
use crate::lint::keys::{Example, is_pattern};

/// Where keys lead, each found once: many queues are asked about the same ones.
pub(super) struct Routed {
    leads: Leads,
    /// Whether more than the key decides behind an exchange.
    varying: BTreeMap<ExchangeId, bool>,
    known: BTreeMap<(ExchangeId, Name), Vec<QueueId>>,
    /// The first patterns of topic exchanges.
    patterns: BTreeMap<ExchangeId, Vec<Name>>,
}

impl Routed {
    pub(super) const fn new(leads: Leads) -> Self {
        Self {
            leads,
            varying: BTreeMap::new(),
            known: BTreeMap::new(),
            patterns: BTreeMap::new(),
        }
    }

    fn varies(&mut self, core: &Core, exchange: ExchangeId, budget: &Budget) -> bool {
        let router = core.router();
        if !router.depends_on_message(exchange) {
            return false;
        }
        let known = self.varying.entry(exchange);
        *known.or_insert_with(|| self.leads.behind(router, exchange, budget).varies)
    }

    /// Whether a message with this key reaches a queue from an exchange; no once very many queues were
    /// reached by others.
    fn leads(
        &mut self,
        core: &Core,
        (exchange, key): (ExchangeId, &Name),
        queue: QueueId,
        budget: &Budget,
    ) -> bool {
        let way = (exchange, key.clone());
        if !self.known.contains_key(&way) {
            if !budget.take(Part::Routes, 1) {
                return false;
            }
            let mut queues = Vec::new();
            let keys = std::slice::from_ref(key);
            core.router()
                .route_by(exchange, keys, &NoAttributes, 0, &mut queues);
            queues.sort_unstable();
            budget.take(Part::Routes, queues.len());
            self.known.insert(way.clone(), queues);
        }
        let known = self.known.get(&way);
        known.is_some_and(|queues| queues.binary_search(&queue).is_ok())
    }

    /// The first patterns by which a topic exchange is bound.
    fn patterns(&mut self, exchange: &Exchange) -> &[Name] {
        let known = self.patterns.entry(exchange.id);
        known.or_insert_with(|| {
            let keys = exchange.bindings().keys().map(|binding| &binding.key);
            let patterns = keys.filter(|key| is_pattern(key));
            patterns.take(LINT_KEYS_TRIED_MAX).cloned().collect()
        })
    }
}

impl Map {
    /// Finds the dead-letter exchanges that live messages pass, from exchanges that are none.
    pub(super) fn feed(&mut self, core: &Core, bound: &Bound) {
        let mut leads: BTreeMap<&Name, Vec<(&Name, Option<&Name>)>> = BTreeMap::new();
        for binding in bound.bindings() {
            if let Destination::Exchange(below) = &binding.destination {
                let list = leads.entry(&binding.source).or_default();
                list.push((below, Some(&binding.key)));
            }
        }
        for (alternate, sources) in &bound.alternate_of {
            for source in sources {
                leads.entry(source).or_default().push((alternate, None));
            }
        }
        let exchange = |name: &Name| core.router().exchange_named(name);
        let takes_publishes = |name: &&Name| {
            let is_internal = exchange(name).is_none_or(|exchange| exchange.spec.internal);
            !is_internal && !self.dead.contains(*name)
        };
        let mut open: Vec<&Name> = leads.keys().copied().filter(takes_publishes).collect();
        let mut seen: BTreeSet<&Name> = open.iter().copied().collect();
        let mut fed: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        while let Some(source) = open.pop() {
            let is_topic =
                exchange(source).is_some_and(|source| source.spec.kind == ExchangeKind::Topic);
            for (below, key) in leads.get(source).into_iter().flatten().copied() {
                if self.dead.contains(below) {
                    let keys = fed.entry(below.clone()).or_default();
                    keys.extend(key.filter(|_| is_topic).cloned());
                }
                if seen.insert(below) {
                    open.push(below);
                }
            }
        }
        self.fed = fed;
    }

    /// Whether an exchange is taken to have dead letters only: somebody's dead-letter exchange, or one
    /// behind it, and live messages do not pass it.
    pub(super) fn is_only_for_the_dead(&self, exchange: &Name) -> bool {
        self.dead.contains(exchange) && !self.fed.contains_key(exchange)
    }

    /// The queues that are bound to a dead-letter exchange, or named by a dead-letter routing key.
    pub(super) fn aimed_at(&self, core: &Core, bound: &Bound) -> BTreeSet<Name> {
        let named = core.queues().filter_map(|queue| {
            let settings = &queue.settings;
            let exchange = settings.dead_letter_exchange.as_ref()?;
            let key = settings.dead_letter_routing_key.as_ref()?;
            exchange.is_empty().then(|| key.clone())
        });
        let bindings = bound.bindings();
        let bindings = bindings.filter(|binding| self.is_only_for_the_dead(&binding.source));
        let bindings = bindings.filter_map(|binding| match &binding.destination {
            Destination::Queue(name) => Some(name.clone()),
            Destination::Exchange(_) => None,
        });
        named.chain(bindings).collect()
    }

    /// Whether a message reaches a queue for sure, in one of the ways that are followed.
    fn is_reached(&self, queue: &Queue) -> bool {
        let arrivals = self.in_queue.get(&queue.id).into_iter().flatten();
        let mut arrivals = arrivals.filter_map(|index| self.arrivals.get(*index));
        arrivals.any(|arrival| !arrival.perhaps)
    }

    /// An arrival in a queue by its name, if there is none yet that is sure.
    pub(super) fn arrive_by_name(&mut self, queue: &Queue) {
        if self.is_reached(queue) {
            return;
        }
        self.arrive(Arrival {
            queue: queue.id,
            route: route(&Name::from(""), &queue.name),
            by: By::Name,
            may_follow: None,
            perhaps: false,
            made_up: false,
            keyless: false,
        });
    }

    /// The ways by which clients' messages reach a queue through its bindings: examples of keys, each
    /// tried. Bindings of dead-letter exchanges are for the dead.
    pub(super) fn arrive_alive(
        &mut self,
        core: &Core,
        queue: &Queue,
        (above, dead_keys): (Above, &[Example]),
        routed: &mut Routed,
    ) {
        let router = core.router();
        let met = self.keys_met(core, queue, &above, routed);
        let own = above.keys.iter();
        let dead_keys = if above.takes_many { dead_keys } else { &[] };
        let named = own.chain(dead_keys).take(LINT_KEYS_TRIED_MAX - met.len());
        let keys: Vec<&Example> = named.chain(&met).collect();
        let nothing = Example {
            key: Name::from(""),
            made_up: false,
        };
        let sources = above.sources.iter();
        for exchange in sources.filter_map(|source| router.exchange_named(source)) {
            if exchange.spec.internal {
                continue;
            }
            let varies = routed.varies(core, exchange.id, &self.budget);
            let keys = if varies { &[&nothing] } else { keys.as_slice() };
            for Example { key, made_up } in keys {
                let known = self.in_queue.get(&queue.id).map_or(0, Vec::len);
                // The dead need some, too.
                if known >= LINT_ARRIVALS_MAX / 2 {
                    return;
                }
                if varies || routed.leads(core, (exchange.id, key), queue.id, &self.budget) {
                    self.arrive(Arrival {
                        queue: queue.id,
                        route: route(&exchange.spec.name, key),
                        by: By::Exchange,
                        may_follow: None,
                        perhaps: false,
                        made_up: *made_up,
                        keyless: varies,
                    });
                }
            }
        }
    }

    /// The exchanges above a queue that live messages pass, and examples of the keys of the bindings between.
    pub(super) fn above(&self, core: &Core, queue: &Queue, bound: &Bound) -> Above {
        let is_alive = |source: &Name| !self.is_only_for_the_dead(source);
        above(core, queue, bound, is_alive)
    }

    /// Keys by which dead-letter exchanges tell messages apart.
    pub(super) fn dead_keys(&self, core: &Core, bound: &Bound) -> Vec<Example> {
        let bindings = bound.bindings();
        let bindings = bindings.filter(|binding| self.dead.contains(&binding.source));
        let keys = bindings.filter_map(|binding| {
            let source = core.router().exchange_named(&binding.source)?;
            Some(Example::of(source.spec.kind, &binding.key))
        });
        let keys: BTreeSet<Example> = keys.collect();
        keys.into_iter().take(LINT_KEYS_TRIED_MAX).collect()
    }

    /// Keys by which messages reach a queue and its dead letters get on: of patterns above it and of the
    /// dead-letter exchange, or of exchanges behind that.
    fn keys_met(
        &self,
        core: &Core,
        queue: &Queue,
        above: &Above,
        routed: &mut Routed,
    ) -> Vec<Example> {
        let mut met = Vec::new();
        if above.patterns.is_empty() {
            return met;
        }
        let (router, settings) = (core.router(), &queue.settings);
        let exchange = settings.dead_letter_exchange.as_ref();
        let exchange = exchange.filter(|_| settings.dead_letter_routing_key.is_none());
        let behind = exchange.and_then(|name| self.behind(router.id_of(name)?));
        let exchanges = behind.into_iter().flat_map(|behind| &behind.exchanges);
        let exchanges = exchanges.take(LINT_SOURCES_MAX);
        let exchanges = exchanges.filter_map(|id| router.exchange(*id));
        let topics = exchanges.filter(|exchange| exchange.spec.kind == ExchangeKind::Topic);
        // What names one key is among the keys of the dead already.
        let mut patterns = Vec::new();
        for topic in topics {
            let left = LINT_KEYS_TRIED_MAX.saturating_sub(patterns.len());
            patterns.extend(routed.patterns(topic).iter().take(left).cloned());
        }
        for bound in &patterns {
            for pattern in &above.patterns {
                if met.len() >= LINT_KEYS_MET_MAX || self.budget.is_used_up(Part::Words) {
                    return met;
                }
                met.extend(Example::of_both(pattern, bound, &self.budget));
            }
        }
        met
    }
}
