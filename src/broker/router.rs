//! The router of one vhost: exchanges, bindings, and the route of a message through them. Pure.

mod forgetting;
mod listing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use crate::base::limits::ROUTED_QUEUES_MAX;
use crate::base::{
    ConnectionId, ExchangeId, Gauge, Map, Name, QueueId, Seed, Set, Step, Steps, invariant,
};
use crate::message::{Message, Route};
use crate::wire::Value;

use self::forgetting::Leaving;
pub use self::listing::{BindingSlice, BindingsOf};
use super::argument_value::echoed_arguments;
use super::binding::{Binding, ResolvedDestination};
use super::exchange::{Exchange, ExchangeKind, ExchangeSpec, Passed};
use super::headers::{Attributes, NoAttributes, XMatch};
use super::names::{EVENT_EXCHANGE, RESERVED_PREFIX, check_key, check_new_name, is_temporary};
use super::subscription::{Filter, NoLocal};
use super::{Destination, Error, ObjectKind};

/// The default exchange: routes to the queue named by the key. Always there, cannot be bound.
pub const DEFAULT_EXCHANGE: ExchangeId = ExchangeId(0);

/// The result of declaring an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Declared {
    /// The exchange's id.
    pub id: ExchangeId,
    /// Whether the declaration created it.
    pub created: bool,
}

/// What a removal deleted in addition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// Whether the object to remove existed.
    pub existed: bool,
    /// Auto-delete exchanges that lost their last binding, in order of deletion.
    pub exchanges: Vec<Name>,
}

/// The routing state of one vhost. Also knows the queues by name, for the default exchange.
#[derive(Debug)]
pub struct Router {
    generation: u64,
    keep_unused: bool,
    next_exchange: u64,
    exchanges: Map<ExchangeId, Exchange>,
    names: BTreeMap<Name, ExchangeId>,
    queues: Map<Name, QueueId>,
    /// Bindings by destination, each with its source exchange.
    by_destination: Map<Destination, BTreeMap<Arc<Binding>, ExchangeId>>,
    /// Deleted objects with bindings that are not removed yet.
    leaving: VecDeque<Leaving>,
    /// The ids of the objects in `leaving`.
    gone: Set<ResolvedDestination>,
    /// Number of bindings from exchanges that route by more than the key.
    varying_bindings: usize,
    /// Which messages the queues of subscriptions take that do not take all.
    filters: BTreeMap<QueueId, Filter>,
    /// The connections that temporary topics belong to.
    owners: BTreeMap<ExchangeId, ConnectionId>,
    /// Counts of the default exchange: most messages pass through it, and need no lookup in the
    /// table.
    passed_default: Passed,
    /// Queues that one message may be routed to.
    queues_max: u32,
    seed: Seed,
    /// The gauge that the memory of exchanges and bindings is charged to.
    kept: Gauge,
}

impl Router {
    /// A router with the predeclared exchanges.
    pub fn new(seed: Seed) -> Self {
        Self::counted(seed, Gauge::default())
    }

    /// The same, with the memory of its exchanges and bindings charged to a gauge.
    pub fn counted(seed: Seed, kept: Gauge) -> Self {
        let mut router = Self {
            kept,
            generation: 0,
            keep_unused: false,
            next_exchange: DEFAULT_EXCHANGE.0,
            exchanges: Map::with_hasher(seed.hasher()),
            names: BTreeMap::new(),
            queues: Map::with_hasher(seed.hasher()),
            by_destination: Map::with_hasher(seed.hasher()),
            leaving: VecDeque::new(),
            gone: Set::with_hasher(seed.hasher()),
            varying_bindings: 0,
            filters: BTreeMap::new(),
            owners: BTreeMap::new(),
            passed_default: Passed::default(),
            queues_max: ROUTED_QUEUES_MAX,
            seed,
        };
        for (name, kind) in PREDECLARED {
            let inserted = router.insert(ExchangeSpec::plain(name, kind));
            assert!(inserted.is_ok(), "predeclared exchanges have no arguments");
        }
        router
    }

    /// The same, for messages that may be routed to this many queues each.
    #[must_use]
    pub const fn leading_to(mut self, queues_max: u32) -> Self {
        self.queues_max = queues_max;
        self
    }

    /// The queues that one message may be routed to: whoever routes it sees to that.
    pub const fn queues_max(&self) -> u32 {
        self.queues_max
    }

    /// Keeps auto-delete exchanges without bindings while the journal is read: they are deleted
    /// only by a fact, since transient bindings, which the journal does not have, may have kept
    /// them.
    pub const fn keep_unused(&mut self, keep: bool) {
        self.keep_unused = keep;
    }

    /// Raised by every change of topology: a route found under the same number still holds, unless
    /// it [depends on the message](Self::depends_on_message).
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether routing from this exchange may depend on more than the keys, because an exchange
    /// [that varies](ExchangeKind::varies) may be reached. May be true where it does not, never
    /// false where it does.
    pub fn depends_on_message(&self, exchange: ExchangeId) -> bool {
        self.varying_bindings > 0
            && self.exchanges.get(&exchange).is_some_and(|exchange| {
                exchange.spec.kind.varies() || exchange.leads_to_exchanges()
            })
    }

    /// Adds a queue, as a destination and for the default exchange.
    pub fn queue_added(&mut self, name: Name, queue: QueueId) {
        self.generation += 1;
        self.queues.insert(name, queue);
    }

    /// Removes a queue and its bindings.
    pub fn queue_removed(&mut self, name: &Name) -> Removed {
        let Some(queue) = self.queues.remove(name) else {
            return Removed::default();
        };
        self.generation += 1;
        self.filters.remove(&queue);
        let destination = Destination::Queue(name.clone());
        let sources = self.let_go(&destination, ResolvedDestination::Queue(queue), None);
        Removed {
            existed: true,
            exchanges: self.delete_unused(sources),
        }
    }

    /// The queue of this name.
    pub fn queue(&self, name: &str) -> Option<QueueId> {
        self.queues.get(name).copied()
    }

    /// Declares an exchange.
    ///
    /// Errors: `Reserved` (default exchange, new name beginning with `amq.`), `Inequivalent`,
    /// `BadArgument` (alternate-exchange no text), `BadRequest` (name too long, with line breaks).
    pub fn declare(&mut self, mut spec: ExchangeSpec) -> Result<Declared, Error> {
        refuse_default(&spec.name)?;
        spec.arguments = echoed_arguments(&spec.arguments);
        if let Some(known) = self.exchange_named(&spec.name) {
            known.spec.check_equivalent(&spec)?;
            return Ok(Declared {
                id: known.id,
                created: false,
            });
        }
        check_new_name(ObjectKind::Exchange, &spec.name)?;
        let id = self.insert(spec)?;
        Ok(Declared { id, created: true })
    }

    /// Declares the exchange of a temporary topic, which belongs to a connection.
    ///
    /// Errors: `Reserved` (no name of a temporary topic), `Inequivalent` (the name is taken).
    pub fn declare_temporary(
        &mut self,
        owner: ConnectionId,
        name: &Name,
    ) -> Result<Declared, Error> {
        let spec = ExchangeSpec {
            durable: false,
            ..ExchangeSpec::plain(name, ExchangeKind::Fanout)
        };
        if !is_temporary(name) || self.exchange_named(name).is_some() {
            return self.declare(spec);
        }
        let id = self.insert(spec)?;
        self.owners.insert(id, owner);
        Ok(Declared { id, created: true })
    }

    /// The connection that a temporary topic belongs to; none of other exchanges.
    pub fn owner_of(&self, exchange: &str) -> Option<ConnectionId> {
        self.owners.get(self.names.get(exchange)?).copied()
    }

    /// Declares the exchange of events, if it is not there: it belongs to the broker, and only that
    /// publishes to it.
    pub fn declare_event_exchange(&mut self) {
        if self.exchange_named(EVENT_EXCHANGE).is_none() {
            let inserted = self.insert(ExchangeSpec {
                internal: true,
                ..ExchangeSpec::plain(EVENT_EXCHANGE, ExchangeKind::Topic)
            });
            invariant!(inserted.is_ok(), "the exchange of events has no arguments");
        }
    }

    fn insert(&mut self, spec: ExchangeSpec) -> Result<ExchangeId, Error> {
        let id = ExchangeId(self.next_exchange);
        let name = spec.name.clone();
        self.exchanges
            .insert(id, Exchange::new(id, spec, (self.seed, &self.kept))?);
        self.names.insert(name, id);
        self.next_exchange += 1;
        self.generation += 1;
        Ok(id)
    }

    /// Deletes an exchange and the bindings from and to it.
    ///
    /// Errors: `Reserved` (predeclared), `NotIdle` (`if_unused` and there are bindings from it).
    pub fn delete(&mut self, name: &Name, if_unused: bool) -> Result<Removed, Error> {
        refuse_default(name)?;
        if name.starts_with(RESERVED_PREFIX) && !is_temporary(name) {
            return Err(reserved(name, "predeclared exchanges cannot be deleted"));
        }
        let Some(exchange) = self.exchange_named(name) else {
            return Ok(Removed::default());
        };
        if if_unused && self.live_bindings(exchange).next().is_some() {
            return Err(Error::NotIdle {
                kind: ObjectKind::Exchange,
                name: name.clone(),
                state: "in use",
            });
        }
        let sources = self.remove_exchange(name);
        Ok(Removed {
            existed: true,
            exchanges: self.delete_unused(sources),
        })
    }

    /// The exchange of this name.
    pub fn exchange_named(&self, name: &str) -> Option<&Exchange> {
        self.exchanges.get(self.names.get(name)?)
    }

    /// The id of the exchange of this name.
    pub fn id_of(&self, name: &str) -> Option<ExchangeId> {
        if name.is_empty() {
            return Some(DEFAULT_EXCHANGE);
        }
        self.names.get(name).copied()
    }

    /// The exchange of this id.
    pub fn exchange(&self, id: ExchangeId) -> Option<&Exchange> {
        self.exchanges.get(&id)
    }

    /// Counts a message that was published to an exchange and routed to this number of queues.
    #[inline]
    pub fn count(&mut self, id: ExchangeId, queues: usize) {
        if id == DEFAULT_EXCHANGE {
            self.passed_default.count(queues);
        } else if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.passed.count(queues);
        }
    }

    /// Counts of messages that clients published through an exchange.
    pub fn passed(&self, exchange: &Exchange) -> Passed {
        if exchange.id == DEFAULT_EXCHANGE {
            self.passed_default
        } else {
            exchange.passed
        }
    }

    /// All exchanges, sorted by name, the default exchange first.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        let ids = self.names.values();
        ids.filter_map(|id| self.exchanges.get(id))
    }

    /// The number of exchanges, the default one included.
    pub fn exchange_count(&self) -> usize {
        self.names.len()
    }

    /// Exchanges behind `after`, sorted by name: for paged listings.
    pub fn exchanges_after(&self, after: Option<&Name>) -> impl Iterator<Item = &Exchange> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let ids = self.names.range::<Name, _>((start, Bound::Unbounded));
        ids.filter_map(|(_, id)| self.exchanges.get(id))
    }

    /// Sets an exchange's alternate exchange from its policy; an argument takes precedence.
    pub fn set_policy_alternate(&mut self, name: &Name, alternate: Option<Name>) {
        let exchange = self
            .names
            .get(name)
            .and_then(|id| self.exchanges.get_mut(id));
        if let Some(exchange) = exchange {
            self.generation += u64::from(exchange.set_policy_alternate(alternate));
        }
    }

    /// Whether any message can be routed from this exchange to a queue; with a key, whether one
    /// with that key can. May be true where it depends on more than the key.
    pub fn leads_anywhere(&self, exchange: ExchangeId, key: Option<&Name>) -> bool {
        let Some(found) = self.exchanges.get(&exchange) else {
            return false;
        };
        let Some(key) = key.filter(|_| !self.depends_on_message(exchange)) else {
            let has_ways = !found.bindings().is_empty() || found.alternate().is_some();
            return exchange == DEFAULT_EXCHANGE || has_ways;
        };
        let mut queues = Vec::new();
        let keys = std::slice::from_ref(key);
        let steps = self.route_by(exchange, keys, &NoAttributes, 0, &mut queues);
        !queues.is_empty() || steps.are_used_up()
    }

    /// Checks that this exchange can be bound, and with this key.
    pub fn check_binding(source: &Name, key: &Name) -> Result<(), Error> {
        refuse_default(source)?;
        check_key(key)
    }

    /// Adds a binding; whether it is new.
    ///
    /// Errors: `NotFound` (source or destination), `Reserved` (default exchange), `BadArgument`
    /// (x-match on a headers exchange), `BadRequest` (key too long).
    pub fn bind(
        &mut self,
        source: &Name,
        destination: &Destination,
        key: &Name,
        arguments: &[(Name, Value)],
    ) -> Result<bool, Error> {
        Self::check_binding(source, key)?;
        let place = self.place(destination)?;
        let Some(exchange) = self.exchange_named(source) else {
            return Err(not_found(ObjectKind::Exchange, source));
        };
        let (id, kind) = (exchange.id, exchange.spec.kind);
        let own = self.own_name(destination);
        let binding = Binding::new(&exchange.spec.name, &own, key, arguments);
        let binding = Arc::new(binding);
        if kind == ExchangeKind::Headers {
            XMatch::read(&binding.arguments).map_err(|why| Error::BadArgument {
                kind: ObjectKind::Exchange,
                name: source.clone(),
                argument: Name::from("x-match"),
                why,
            })?;
        }
        match exchange.bindings().get(&binding).copied() {
            Some(known) if known == place => return Ok(false),
            // It led to a deleted queue or exchange of the same name.
            Some(gone) => {
                self.remove_from_source(&binding, gone);
            }
            None => {}
        }
        binding.charge(&self.kept);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.add(&binding, place);
        }
        self.varying_bindings += usize::from(kind.varies());
        let bound = self.by_destination.entry(own);
        bound.or_default().insert(binding, id);
        self.generation += 1;
        Ok(true)
    }

    /// Removes a binding, if it exists.
    ///
    /// Errors: `Reserved` (default exchange).
    pub fn unbind(
        &mut self,
        source: &Name,
        destination: &Destination,
        key: &Name,
        arguments: &[(Name, Value)],
    ) -> Result<Removed, Error> {
        refuse_default(source)?;
        let Ok(place) = self.place(destination) else {
            return Ok(Removed::default());
        };
        let binding = Binding::new(source, destination, key, arguments);
        let Some(exchange) = self.names.get(source).copied() else {
            return Ok(Removed::default());
        };
        if !self.remove_from_source(&binding, place) {
            return Ok(Removed::default());
        }
        self.remove_from_destination(&binding, exchange);
        Ok(Removed {
            existed: true,
            exchanges: self.delete_unused(BTreeSet::from([source.clone()])),
        })
    }

    /// Appends the queues that a message reaches from `exchange` by the keys of its route, each
    /// once, to `out`, which must be empty. A deleted exchange adds none. `draw` is any number, new
    /// for each message, by which random exchanges pick. Returns the cost, estimated in
    /// nanoseconds, which is 0 for the common case of one key in one exchange.
    pub fn route(
        &self,
        exchange: ExchangeId,
        route: &Route,
        message: &Message,
        draw: u64,
        out: &mut Vec<QueueId>,
    ) -> Steps {
        self.route_by(exchange, &route.keys, message, draw, out)
    }

    /// [`Router::route`] for anything that has attributes.
    pub fn route_by(
        &self,
        exchange: ExchangeId,
        keys: &[Name],
        attributes: &impl Attributes,
        draw: u64,
        out: &mut Vec<QueueId>,
    ) -> Steps {
        let steps = Steps::default();
        // A search that breaks off has used up its steps.
        let _ = self.walk(exchange, (keys, attributes), draw, &steps, out);
        if out.len() > 1 {
            out.sort_unstable();
            out.dedup();
        }
        steps
    }

    /// Sets which messages a queue takes; none: all.
    pub fn set_filter(&mut self, queue: QueueId, filter: Option<Filter>) {
        self.generation += 1;
        match filter {
            Some(filter) => {
                self.filters.insert(queue, filter);
            }
            None => {
                self.filters.remove(&queue);
            }
        }
    }

    /// Leaves only those of the queues that take a message; whether there were filters to ask. The
    /// steps are used up if asking them takes too long.
    pub fn retain_takers(
        &self,
        queues: &mut Vec<QueueId>,
        message: &Message,
        is_local: impl Fn(&NoLocal) -> bool,
        steps: &Steps,
    ) -> bool {
        if self.filters.is_empty() {
            return false;
        }
        let mut is_filtered = false;
        queues.retain(|queue| {
            let Some(filter) = self.filters.get(queue) else {
                return true;
            };
            is_filtered = true;
            if steps.are_used_up() {
                return false;
            }
            let (takes, spent_ns) = filter.takes(message, &is_local);
            let pairs = usize::try_from(spent_ns / Step::Pair.ns()).unwrap_or(usize::MAX);
            let goes_on = steps.take(Step::Pair, pairs + 1).is_continue();
            takes && goes_on
        });
        is_filtered
    }

    /// Visits the queues that a message reaches, some of them more than once. There may be more
    /// paths than queues and exchanges: each that is examined is a step, and steps are bounded.
    fn walk(
        &self,
        exchange: ExchangeId,
        (keys, attributes): (&[Name], &impl Attributes),
        draw: u64,
        steps: &Steps,
        out: &mut Vec<QueueId>,
    ) -> ControlFlow<()> {
        steps.take(Step::Key, keys.len().saturating_sub(1))?;
        let mut seen = Set::with_hasher(self.seed.hasher());
        let mut pending = Vec::new();
        let mut next = Some(exchange);
        while let Some(id) = next {
            if id == DEFAULT_EXCHANGE {
                out.extend(keys.iter().filter_map(|key| self.queues.get(key)));
            } else if let Some(exchange) = self.exchanges.get(&id) {
                let mut is_wanted = false;
                let mut go_on = |to| {
                    // The set is only touched (and allocated) when a second exchange appears.
                    if seen.is_empty() {
                        seen.insert(id);
                    }
                    if seen.insert(to) {
                        pending.push(to);
                    }
                };
                let pick = |places: &[ResolvedDestination]| self.pick(places, draw);
                exchange.matching(keys, attributes, steps, pick, |place| {
                    if !self.is_live(place) {
                        return steps.take(Step::Pair, 1);
                    }
                    if std::mem::replace(&mut is_wanted, true) {
                        steps.take(Step::Pair, 1)?;
                    }
                    match place {
                        ResolvedDestination::Queue(queue) => out.push(queue),
                        ResolvedDestination::Exchange(to) => go_on(to),
                    }
                    ControlFlow::Continue(())
                })?;
                if !is_wanted
                    && let Some(alternate) = exchange.alternate().and_then(|n| self.names.get(n))
                {
                    go_on(*alternate);
                }
            }
            next = pending.pop();
            if next.is_some() {
                steps.take(Step::Key, keys.len())?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Picks one of these destinations by the draw.
    fn pick(&self, places: &[ResolvedDestination], draw: u64) -> Option<ResolvedDestination> {
        let first = draw.checked_rem(places.len() as u64)?;
        let (before, from) = places.split_at_checked(usize::try_from(first).ok()?)?;
        let mut places = from.iter().chain(before);
        places.find(|place| self.is_live(**place)).copied()
    }

    /// The destination with the `Name` that the router already holds: bindings share that
    /// allocation.
    fn own_name(&self, destination: &Destination) -> Destination {
        match destination {
            Destination::Queue(name) => {
                let known = self.queues.get_key_value(name);
                Destination::Queue(known.map_or(name, |(known, _)| known).clone())
            }
            Destination::Exchange(name) => {
                let known = self.names.get_key_value(name);
                Destination::Exchange(known.map_or(name, |(known, _)| known).clone())
            }
        }
    }

    fn place(&self, destination: &Destination) -> Result<ResolvedDestination, Error> {
        match destination {
            Destination::Queue(name) => {
                let queue = self.queues.get(name).copied();
                let queue = queue.ok_or_else(|| not_found(ObjectKind::Queue, name))?;
                Ok(ResolvedDestination::Queue(queue))
            }
            Destination::Exchange(name) => {
                refuse_default(name)?;
                let exchange = self.names.get(name).copied();
                let exchange = exchange.ok_or_else(|| not_found(ObjectKind::Exchange, name))?;
                Ok(ResolvedDestination::Exchange(exchange))
            }
        }
    }
}

fn refuse_default(name: &Name) -> Result<(), Error> {
    if name.is_empty() {
        return Err(reserved(
            name,
            "the default exchange can be neither declared, deleted nor bound",
        ));
    }
    Ok(())
}

fn reserved(name: &Name, why: &'static str) -> Error {
    Error::Reserved {
        kind: ObjectKind::Exchange,
        name: name.clone(),
        why,
    }
}

fn not_found(kind: ObjectKind, name: &Name) -> Error {
    Error::NotFound {
        kind,
        name: name.clone(),
    }
}

/// The first is the default exchange, so that its id is [`DEFAULT_EXCHANGE`].
const PREDECLARED: [(&str, ExchangeKind); 6] = [
    ("", ExchangeKind::Direct),
    ("amq.direct", ExchangeKind::Direct),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.headers", ExchangeKind::Headers),
    ("amq.match", ExchangeKind::Headers),
    ("amq.topic", ExchangeKind::Topic),
];

#[cfg(test)]
#[path = "tests/router.rs"]
mod tests;
