//! The map of a topology: how messages reach each queue, and where they go when they die there.
//!
//! ```text
//!   arrival (queue, exchange, key) --reason--> arrivals, by the route of its dead letter
//!     ^ live: by a binding, or by the queue's name
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::behind::{Behind, Leads, alternate};
use super::finding::Witness;
use super::keys::{Example, is_pattern};
use super::sandbox::{Sandbox, Strangers};
use crate::base::limits::{
    LINT_ARRIVALS_IN_ALL_MAX, LINT_ARRIVALS_MAX, LINT_KEYS_MET_MAX, LINT_KEYS_TRIED_MAX,
    LINT_ROUTED_MAX, LINT_SOURCES_MAX, LINT_TARGETS_MAX, LINT_WORDS_COMPARED_MAX,
};
use crate::base::{ExchangeId, Name, QueueId};
use crate::broker::arguments::Overflow;
use crate::broker::binding::Binding;
use crate::broker::exchange::ExchangeKind;
use crate::broker::queue::Queue;
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::{Core, Destination, NoAttributes, dead_letter_route};
use crate::deaths::Reason;
use crate::message::Route;

/// How a message came to a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// A client publishes it to an exchange.
    Exchange,
    /// A client publishes it to the queue itself.
    Name,
    /// It died after this arrival, of this.
    Death(usize, Reason),
}

/// Messages of one kind: they are in this queue, and came with this exchange and key.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) queue: QueueId,
    pub(super) route: Arc<Route>,
    pub(super) by: By,
    /// More than its key said where it went: another message may go elsewhere.
    pub(super) varies: bool,
    /// It may be that none comes this way.
    pub(super) perhaps: bool,
    /// A word of its key is one that a wildcard takes and no binding names.
    pub(super) made_up: bool,
}

/// Where the dead letters of one kind of messages go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// There is no dead-letter exchange.
    NoExchange,
    /// It does not exist.
    Missing,
    /// No queue is reached.
    Nowhere,
    /// It depends on more than the key. They may arrive there, as far as they are followed.
    Varies(Arc<[usize]>),
    /// They arrive there, as far as they are followed.
    Arrives(Arc<[usize]>),
}

/// One death of one kind of messages.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The arrival that it follows.
    pub(super) from: usize,
    pub(super) reason: Reason,
    /// Exchange and key of the dead letter; none without a dead-letter exchange.
    pub(super) way: Option<Arc<Route>>,
    pub(super) fate: Fate,
    /// A word of the dead letter's key is one that a wildcard takes and no binding names.
    pub(super) made_up: bool,
    /// The queues that they reach, or may reach, followed or not; some of them if they are very many.
    pub(super) reached: Arc<[QueueId]>,
}

/// See the documentation of the module.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) steps: Vec<Step>,
    /// The steps of each arrival.
    pub(super) steps_of: Vec<Vec<usize>>,
    /// The arrivals in each queue.
    pub(super) in_queue: BTreeMap<QueueId, Vec<usize>>,
    /// The exchanges that dead letters are sent to, and those behind them.
    dead: BTreeSet<Name>,
    /// What lies behind those that dead letters are sent to.
    behind: BTreeMap<ExchangeId, Behind>,
    /// What the core has only stand-ins for.
    pub(super) strangers: Arc<Strangers>,
    /// Those among them that live messages pass, too, from other exchanges: with the patterns by which
    /// they come.
    pub(super) fed: BTreeMap<Name, Vec<Name>>,
}

/// Where keys lead, each found once: many queues are asked about the same ones.
struct Routed {
    leads: Leads,
    /// Whether more than the key decides behind an exchange.
    varying: BTreeMap<ExchangeId, bool>,
    known: BTreeMap<(ExchangeId, Name), Vec<QueueId>>,
    /// Queues in all lists.
    queues: usize,
    /// Comparisons of words to find keys that two patterns take.
    comparisons_left: usize,
}

impl Routed {
    fn varies(&mut self, core: &Core, exchange: ExchangeId) -> bool {
        let router = core.router();
        if !router.depends_on_message(exchange) {
            return false;
        }
        let known = self.varying.entry(exchange);
        *known.or_insert_with(|| self.leads.behind(router, exchange).varies)
    }

    /// Whether a message with this key reaches a queue from an exchange; no once very many queues were
    /// reached by others.
    fn leads(&mut self, core: &Core, (exchange, key): (ExchangeId, &Name), queue: QueueId) -> bool {
        let way = (exchange, key.clone());
        if !self.known.contains_key(&way) {
            if self.queues > LINT_ROUTED_MAX {
                return false;
            }
            let mut queues = Vec::new();
            let keys = std::slice::from_ref(key);
            core.router()
                .route_by(exchange, keys, &NoAttributes, 0, &mut queues);
            queues.sort_unstable();
            self.queues += queues.len() + 1;
            self.known.insert(way.clone(), queues);
        }
        let known = self.known.get(&way);
        known.is_some_and(|queues| queues.binary_search(&queue).is_ok())
    }
}

/// What is above a queue.
#[derive(Default)]
struct Above {
    /// The exchanges, nearest first.
    sources: Vec<Name>,
    /// Examples of keys by which their bindings lead here.
    keys: BTreeSet<Example>,
    /// Keys of bindings that take more keys than one.
    patterns: BTreeSet<Name>,
    /// A binding takes more keys than one.
    takes_many: bool,
}

/// The queues that a dead letter reaches, by exchange and key: those of many queues go the same way.
type Reached = BTreeMap<(ExchangeId, Name), Arc<[QueueId]>>;

/// What leads where.
#[derive(Default)]
struct Bound {
    /// Bindings by where they lead.
    to: BTreeMap<Destination, Vec<Binding>>,
    /// Exchanges, by the alternate exchange that gets what they do not route.
    alternate_of: BTreeMap<Name, Vec<Name>>,
}

impl Bound {
    fn of(core: &Core) -> Self {
        let mut bound = Self::default();
        for binding in core.router().bindings(None, None, None) {
            let list = bound.to.entry(binding.destination.clone()).or_default();
            list.push(binding);
        }
        for exchange in core.router().exchanges() {
            if let Some(alternate) = alternate(exchange) {
                let list = bound.alternate_of.entry(alternate.clone()).or_default();
                list.push(exchange.spec.name.clone());
            }
        }
        bound
    }

    fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.to.values().flatten()
    }
}

impl Map {
    /// Draws the map of a topology.
    pub(super) fn draw(sandbox: &Sandbox) -> Self {
        let core = sandbox.core();
        let router = core.router();
        let leads = Leads::of(router);
        let named = core.queues();
        let named = named.filter_map(|queue| queue.settings.dead_letter_exchange.clone());
        let mut dead: BTreeSet<Name> = named.collect();
        let ids = dead.iter().filter_map(|name| router.id_of(name));
        let ids = ids.filter(|id| *id != DEFAULT_EXCHANGE);
        let behind: BTreeMap<ExchangeId, Behind> =
            ids.map(|id| (id, leads.behind(router, id))).collect();
        let further = behind.values().flat_map(|behind| &behind.exchanges);
        let further = further.filter_map(|id| router.exchange(*id));
        dead.extend(further.map(|exchange| exchange.spec.name.clone()));
        let mut map = Self {
            arrivals: Vec::new(),
            steps: Vec::new(),
            steps_of: Vec::new(),
            in_queue: BTreeMap::new(),
            dead,
            behind,
            strangers: Arc::clone(sandbox.strangers()),
            fed: BTreeMap::new(),
        };
        let bound = Bound::of(core);
        map.feed(core, &bound);
        let dead_keys = map.dead_keys(core, &bound);
        let mut routed = Routed {
            leads,
            varying: BTreeMap::new(),
            known: BTreeMap::new(),
            queues: 0,
            comparisons_left: LINT_WORDS_COMPARED_MAX,
        };
        for queue in core.queues() {
            let above = map.above(core, queue, &bound);
            map.arrive_alive(core, queue, (above, &dead_keys), &mut routed);
        }
        // Clients publish to a queue's name if no exchange leads there; but not to one that dead
        // letters are aimed at, unless they do not reach it.
        let aimed_at = map.aimed_at(core, &bound);
        let mut reached = Reached::new();
        for queue in core.queues() {
            if !aimed_at.contains(&queue.name) {
                map.arrive_by_name(queue);
            }
        }
        map.let_die(core, &mut reached);
        // An exchange may take what is published beside what comes back to it: two queues that are each bound
        // to the dead-letter exchange of the other, one of which waits. Clients publish to the one that does not.
        let is_new = |map: &Self, queue: &Queue| !map.in_queue.contains_key(&queue.id);
        for queue in core.queues() {
            if queue.settings.message_ttl_ms.is_none() && is_new(&map, queue) {
                let above = above(core, queue, &bound, |_| true);
                map.arrive_alive(core, queue, (above, &dead_keys), &mut routed);
            }
        }
        map.let_die(core, &mut reached);
        for queue in core.queues() {
            map.arrive_by_name(queue);
        }
        map.let_die(core, &mut reached);
        map
    }

    /// Finds the dead-letter exchanges that live messages pass, from exchanges that are none.
    fn feed(&mut self, core: &Core, bound: &Bound) {
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
        let mut fed: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
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
    fn is_only_for_the_dead(&self, exchange: &Name) -> bool {
        self.dead.contains(exchange) && !self.fed.contains_key(exchange)
    }

    /// What lies behind a dead-letter exchange; none: it does not exist, or is the default exchange.
    pub(super) fn behind(&self, exchange: ExchangeId) -> Option<&Behind> {
        self.behind.get(&exchange)
    }

    /// The queues that are bound to a dead-letter exchange, or named by a dead-letter routing key.
    fn aimed_at(&self, core: &Core, bound: &Bound) -> BTreeSet<Name> {
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

    fn arrive(&mut self, arrival: Arrival) -> Option<usize> {
        let known = self.in_queue.entry(arrival.queue).or_default();
        let same = |index: &&usize| {
            let other = self.arrivals.get(**index);
            other.is_some_and(|other| same_way(&other.route, &arrival.route))
        };
        if let Some(index) = known.iter().find(same) {
            if let Some(known) = self.arrivals.get_mut(*index) {
                known.made_up &= arrival.made_up;
                known.perhaps &= arrival.perhaps;
            }
            return Some(*index);
        }
        if known.len() >= LINT_ARRIVALS_MAX || self.arrivals.len() >= LINT_ARRIVALS_IN_ALL_MAX {
            return None;
        }
        let index = self.arrivals.len();
        known.push(index);
        self.arrivals.push(arrival);
        Some(index)
    }

    /// Whether a message reaches a queue for sure, in one of the ways that are followed.
    fn is_reached(&self, queue: &Queue) -> bool {
        let arrivals = self.in_queue.get(&queue.id).into_iter().flatten();
        let mut arrivals = arrivals.filter_map(|index| self.arrivals.get(*index));
        arrivals.any(|arrival| !arrival.perhaps)
    }

    /// An arrival in a queue by its name, if there is none yet that is sure.
    fn arrive_by_name(&mut self, queue: &Queue) {
        if self.is_reached(queue) {
            return;
        }
        self.arrive(Arrival {
            queue: queue.id,
            route: route(&Name::from(""), &queue.name),
            by: By::Name,
            varies: false,
            perhaps: false,
            made_up: false,
        });
    }

    /// The ways by which clients' messages reach a queue through its bindings: examples of keys, each
    /// tried. Bindings of dead-letter exchanges are for the dead.
    fn arrive_alive(
        &mut self,
        core: &Core,
        queue: &Queue,
        (above, dead_keys): (Above, &[Example]),
        routed: &mut Routed,
    ) {
        let router = core.router();
        let met = self.keys_met(core, queue, &above, &mut routed.comparisons_left);
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
            let varies = routed.varies(core, exchange.id);
            let keys = if varies { &[&nothing] } else { keys.as_slice() };
            for Example { key, made_up } in keys {
                let known = self.in_queue.get(&queue.id).map_or(0, Vec::len);
                // The dead need some, too.
                if known >= LINT_ARRIVALS_MAX / 2 {
                    return;
                }
                if varies || routed.leads(core, (exchange.id, key), queue.id) {
                    self.arrive(Arrival {
                        queue: queue.id,
                        route: route(&exchange.spec.name, key),
                        by: By::Exchange,
                        varies,
                        perhaps: false,
                        made_up: *made_up,
                    });
                }
            }
        }
    }

    /// The exchanges above a queue that live messages pass, and examples of the keys of the bindings between.
    fn above(&self, core: &Core, queue: &Queue, bound: &Bound) -> Above {
        let is_alive = |source: &Name| !self.is_only_for_the_dead(source);
        above(core, queue, bound, is_alive)
    }

    /// Keys by which dead-letter exchanges tell messages apart.
    fn dead_keys(&self, core: &Core, bound: &Bound) -> Vec<Example> {
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
        comparisons_left: &mut usize,
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
        let bindings = topics.flat_map(|exchange| exchange.bindings().keys());
        let bindings = bindings.filter(|binding| is_pattern(&binding.key));
        for binding in bindings.take(LINT_KEYS_TRIED_MAX) {
            for pattern in &above.patterns {
                if met.len() >= LINT_KEYS_MET_MAX || *comparisons_left == 0 {
                    return met;
                }
                met.extend(Example::of_both(pattern, &binding.key, comparisons_left));
            }
        }
        met
    }

    /// Follows the dead letters of all arrivals that were not followed yet. Of whatever they died, they
    /// go the same way.
    fn let_die(&mut self, core: &Core, known: &mut Reached) {
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
                ..arrival
            };
            let mut followed = None;
            for reason in reasons(queue) {
                let (fate, reached) = followed.get_or_insert_with(|| {
                    self.follow(core, (from, &arrival, reason), way.as_ref(), known)
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
                    made_up: arrival.made_up,
                    reached,
                });
            }
        }
    }

    fn follow(
        &mut self,
        core: &Core,
        (from, arrival, reason): (usize, &Arrival, Reason),
        way: Option<&Arc<Route>>,
        known: &mut Reached,
    ) -> (Fate, Arc<[QueueId]>) {
        let nothing = || Arc::from([]);
        let Some(way) = way else {
            return (Fate::NoExchange, nothing());
        };
        let router = core.router();
        let Some(exchange) = router.id_of(&way.exchange) else {
            return (Fate::Missing, nothing());
        };
        let keyed = way.keys.first().is_some_and(|key| !key.is_empty());
        let behind = self.behind.get(&exchange);
        let varies = behind.is_some_and(|behind| behind.varies);
        if varies || (arrival.varies && !keyed) {
            let possible = behind.map_or_else(nothing, |behind| Arc::clone(&behind.queues));
            let arrives = self.arrive_dead(&possible, (from, arrival, reason), way, true);
            return (Fate::Varies(arrives), possible);
        }
        let Some(key) = way.keys.first() else {
            return (Fate::Nowhere, nothing());
        };
        let targets = known.entry((exchange, key.clone()));
        let targets = Arc::clone(targets.or_insert_with(|| reached(core, exchange, key)));
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
                varies: arrival.varies || perhaps,
                perhaps: arrival.perhaps || perhaps,
                made_up: arrival.made_up,
            })
        });
        arrives.collect()
    }

    /// The steps from the arrivals in a queue.
    pub(super) fn steps_in(&self, queue: QueueId) -> impl Iterator<Item = &Step> {
        let arrivals = self.in_queue.get(&queue).into_iter().flatten();
        arrivals.flat_map(|arrival| self.steps_from(*arrival))
    }

    /// The queues that a step leads to, each with its arrival.
    pub(super) fn targets(&self, step: &Step) -> impl Iterator<Item = (usize, QueueId)> {
        let arrives = match &step.fate {
            Fate::Arrives(arrives) => &**arrives,
            _ => &[],
        };
        self.of_queues(arrives)
    }

    fn of_queues(&self, arrivals: &[usize]) -> impl Iterator<Item = (usize, QueueId)> {
        let arrivals = arrivals.iter();
        arrivals.filter_map(|index| Some((*index, self.arrivals.get(*index)?.queue)))
    }

    /// The queues that a step leads to, or may lead to, each with its arrival.
    fn possible_targets(&self, step: &Step) -> impl Iterator<Item = (usize, QueueId)> {
        let arrives = match &step.fate {
            Fate::Arrives(arrives) | Fate::Varies(arrives) => &**arrives,
            _ => &[],
        };
        self.of_queues(arrives)
    }

    /// Whether what dies in a queue may come to another one, over however many deaths.
    pub(super) fn leads_to(&self, from: QueueId, to: QueueId) -> bool {
        let starts = self.in_queue.get(&from).cloned().unwrap_or_default();
        let mut seen: BTreeSet<usize> = starts.iter().copied().collect();
        let mut open = starts;
        while let Some(arrival) = open.pop() {
            let steps = self.steps_from(arrival);
            for (next, queue) in steps.flat_map(|step| self.possible_targets(step)) {
                if queue == to {
                    return true;
                }
                if seen.len() < LINT_ARRIVALS_IN_ALL_MAX / 100 && seen.insert(next) {
                    open.push(next);
                }
            }
        }
        false
    }

    /// The steps from one arrival.
    pub(super) fn steps_from(&self, arrival: usize) -> impl Iterator<Item = &Step> {
        let steps = self.steps_of.get(arrival).into_iter().flatten();
        steps.filter_map(|step| self.steps.get(*step))
    }

    /// Whether only dead letters reach a queue.
    pub(super) fn is_for_the_dead(&self, queue: QueueId) -> bool {
        let arrivals = self.in_queue.get(&queue).into_iter().flatten();
        let arrivals = arrivals.filter_map(|index| self.arrivals.get(*index));
        // By its name anybody may publish to a queue.
        let mut others = arrivals.filter(|arrival| arrival.by != By::Name).peekable();
        others.peek().is_some() && others.all(|arrival| matches!(arrival.by, By::Death(..)))
    }

    /// A message that arrives so, and dies of this there.
    pub(super) fn witness(
        &self,
        core: &Core,
        from: usize,
        reason: Option<Reason>,
    ) -> Option<Witness> {
        let name = |queue: QueueId| Some(core.queue_by_id(queue)?.name.clone());
        let mut arrival = self.arrivals.get(from)?;
        let mut deaths = Vec::new();
        if let Some(reason) = reason {
            deaths.push((name(arrival.queue)?, reason));
        }
        while let By::Death(before, reason) = arrival.by {
            if arrival.varies {
                return None;
            }
            arrival = self.arrivals.get(before)?;
            deaths.push((name(arrival.queue)?, reason));
        }
        deaths.reverse();
        if arrival.varies {
            return None;
        }
        Some(Witness {
            exchange: arrival.route.exchange.clone(),
            key: arrival.route.keys.first()?.clone(),
            deaths,
            outcome: None,
        })
    }
}

fn route(exchange: &Name, key: &Name) -> Arc<Route> {
    Arc::new(Route {
        exchange: exchange.clone(),
        keys: Arc::from([key.clone()]),
    })
}

fn same_way(a: &Route, b: &Route) -> bool {
    a.exchange == b.exchange && a.keys == b.keys
}

/// The queues that a message with this key reaches, some of them if they are very many.
fn reached(core: &Core, exchange: ExchangeId, key: &Name) -> Arc<[QueueId]> {
    let mut queues = Vec::new();
    let keys = std::slice::from_ref(key);
    core.router()
        .route_by(exchange, keys, &NoAttributes, 0, &mut queues);
    queues.truncate(LINT_TARGETS_MAX);
    queues.into()
}

/// The reasons of which messages can die in a queue as it is set up.
fn reasons(queue: &Queue) -> Vec<Reason> {
    let settings = &queue.settings;
    let mut reasons = vec![Reason::Rejected];
    if settings.message_ttl_ms.is_some() {
        reasons.push(Reason::Expired);
    }
    if is_bounded(queue) && settings.overflow != Overflow::RejectPublish {
        reasons.push(Reason::Maxlen);
    }
    if settings.delivery_limit.is_some() {
        reasons.push(Reason::DeliveryLimit);
    }
    reasons
}

/// Whether the queue has a length limit.
pub(super) const fn is_bounded(queue: &Queue) -> bool {
    queue.settings.max_length.is_some() || queue.settings.max_length_bytes.is_some()
}

/// The exchanges above a queue that count, and examples of the keys of the bindings between.
fn above(core: &Core, queue: &Queue, bound: &Bound, counts: impl Fn(&Name) -> bool) -> Above {
    let mut above = Above::default();
    let mut below = vec![Destination::Queue(queue.name.clone())];
    while let Some(destination) = below.pop() {
        for binding in bound.to.get(&destination).into_iter().flatten() {
            if !counts(&binding.source) {
                continue;
            }
            if let Some(source) = core.router().exchange_named(&binding.source)
                && above.keys.len() < LINT_KEYS_TRIED_MAX
            {
                let example = Example::of(source.spec.kind, &binding.key);
                above.takes_many |= example.made_up || source.spec.kind == ExchangeKind::Fanout;
                if example.made_up {
                    above.patterns.insert(binding.key.clone());
                }
                above.keys.insert(example);
            }
            let sources = &mut above.sources;
            if sources.len() < LINT_SOURCES_MAX && !sources.contains(&binding.source) {
                sources.push(binding.source.clone());
                below.push(Destination::Exchange(binding.source.clone()));
            }
        }
        let alternates = match &destination {
            Destination::Exchange(exchange) => bound.alternate_of.get(exchange),
            Destination::Queue(_) => None,
        };
        for source in alternates.into_iter().flatten().filter(|name| counts(name)) {
            // Some key or other that the exchange does not route itself.
            above.takes_many = true;
            above.keys.insert(Example::any());
            let sources = &mut above.sources;
            if sources.len() < LINT_SOURCES_MAX && !sources.contains(source) {
                sources.push(source.clone());
                below.push(Destination::Exchange(source.clone()));
            }
        }
    }
    above
}
