//! One exchange: its properties and the table it routes by.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::base::limits::EXCHANGE_OVERHEAD_BYTES;
use crate::base::{
    Charge, ExchangeId, Gauge, Map, Name, Seed, Step, Steps, shared_text_bytes, uncount,
};
use crate::wire::Value;

use super::argument_value::{find, kept_bytes, show};
use super::arguments::read_name;
use super::binding::{Binding, Places, ResolvedDestination};
use super::headers::{Attributes, HeadersTable};
use super::topic::TopicTree;
use super::{Destination, Error, ObjectKind};

/// Messages that clients published through an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Messages published to it.
    pub published_in: u64,
    /// Copies of them that were routed to queues, whether those took them or not.
    pub published_out: u64,
}

impl Passed {
    pub(super) const fn count(&mut self, queues: usize) {
        self.published_in += 1;
        self.published_out += queues as u64;
    }
}

/// How an exchange routes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExchangeKind {
    /// Routes by the equal key.
    Direct,
    /// Routes to everything bound.
    Fanout,
    /// Routes by patterns of words.
    Topic,
    /// Routes by application properties.
    Headers,
    /// Routes to one of the bound queues, drawn at random, whatever the key.
    LocalRandom,
}

impl ExchangeKind {
    const ALL: [Self; 5] = [
        Self::Direct,
        Self::Fanout,
        Self::Topic,
        Self::Headers,
        Self::LocalRandom,
    ];

    /// Parses the type's word, `topic` for example.
    ///
    /// Errors: [`Error::BadRequest`] lists the accepted words.
    pub fn parse(word: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == word);
        found.ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str).join(", ");
            let why = format!("unknown exchange type '{word}'; it must be one of {words}");
            Error::BadRequest { why }
        })
    }

    /// The type's word in declarations and listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::LocalRandom => "x-local-random",
        }
    }

    /// Whether two messages with the same keys may be routed to different queues.
    pub const fn varies(self) -> bool {
        matches!(self, Self::Headers | Self::LocalRandom)
    }
}

/// The properties that a declaration gives an exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangeSpec {
    /// The exchange's name; empty for the default exchange only.
    pub name: Name,
    /// The type, which says how it routes.
    pub kind: ExchangeKind,
    /// The exchange survives a restart.
    pub durable: bool,
    /// The exchange is deleted when its last binding is removed.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// Arguments as given by the client.
    pub arguments: Vec<(Name, Value)>,
}

impl ExchangeSpec {
    /// A durable exchange of this name and type, without arguments.
    pub fn plain(name: &str, kind: ExchangeKind) -> Self {
        Self {
            name: Name::from(name),
            kind,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Vec::new(),
        }
    }

    /// The argument `alternate-exchange`.
    ///
    /// Errors: [`Error::BadArgument`] when it is not a name.
    pub fn alternate_exchange(&self) -> Result<Option<Name>, Error> {
        let Some(value) = find(&self.arguments, ALTERNATE_EXCHANGE) else {
            return Ok(None);
        };
        let name = read_name(value).map_err(|why| Error::BadArgument {
            kind: ObjectKind::Exchange,
            name: self.name.clone(),
            argument: Name::from(ALTERNATE_EXCHANGE),
            why,
        })?;
        Ok(Some(name))
    }

    /// Checks that a declaration with `given` describes this exchange.
    ///
    /// Errors: [`Error::Inequivalent`] names the first property that differs.
    pub fn check_equivalent(&self, given: &Self) -> Result<(), Error> {
        let properties = |spec: &Self| {
            [
                ("type", spec.kind.as_str().to_owned()),
                ("durable", spec.durable.to_string()),
                ("auto_delete", spec.auto_delete.to_string()),
                ("internal", spec.internal.to_string()),
                (
                    ALTERNATE_EXCHANGE,
                    show(find(&spec.arguments, ALTERNATE_EXCHANGE)),
                ),
            ]
        };
        for ((field, stored), (_, given)) in properties(self).into_iter().zip(properties(given)) {
            if stored != given {
                return Err(Error::Inequivalent {
                    kind: ObjectKind::Exchange,
                    name: self.name.clone(),
                    field: Name::from(field),
                    stored,
                    given,
                });
            }
        }
        Ok(())
    }
}

/// One exchange of a vhost.
#[derive(Debug)]
pub struct Exchange {
    /// Its id, never reused.
    pub id: ExchangeId,
    /// The properties it was declared with.
    pub spec: ExchangeSpec,
    alternate: Option<Name>,
    policy_alternate: Option<Name>,
    bindings: BTreeMap<Arc<Binding>, ResolvedDestination>,
    bindings_to_exchanges: usize,
    table: Table,
    /// Messages that were published to it and routed by it.
    pub(super) passed: Passed,
    /// The charge for its memory, without its bindings.
    kept: Charge,
}

#[derive(Debug)]
enum Table {
    Direct(Map<Name, Places>),
    Fanout(Places),
    Topic(TopicTree),
    Headers(HeadersTable),
    /// One entry for each binding: a queue that is bound twice is picked twice as often.
    LocalRandom(Vec<ResolvedDestination>),
}

impl Exchange {
    /// An exchange without bindings.
    ///
    /// Errors: those of [`ExchangeSpec::alternate_exchange`].
    pub fn new(
        id: ExchangeId,
        spec: ExchangeSpec,
        (seed, gauge): (Seed, &Gauge),
    ) -> Result<Self, Error> {
        let texts = 2 * shared_text_bytes(spec.name.len()) + kept_bytes(&spec.arguments);
        Ok(Self {
            kept: gauge.charge(EXCHANGE_OVERHEAD_BYTES + texts),
            id,
            alternate: spec.alternate_exchange()?,
            policy_alternate: None,
            bindings: BTreeMap::new(),
            bindings_to_exchanges: 0,
            passed: Passed::default(),
            table: match spec.kind {
                ExchangeKind::Direct => Table::Direct(Map::with_hasher(seed.hasher())),
                ExchangeKind::Fanout => Table::Fanout(Places::default()),
                ExchangeKind::Topic => Table::Topic(TopicTree::new(seed)),
                ExchangeKind::Headers => Table::Headers(HeadersTable::new(seed)),
                ExchangeKind::LocalRandom => Table::LocalRandom(Vec::new()),
            },
            spec,
        })
    }

    /// The exchange for messages that no binding matches: that of the argument, else of the policy.
    pub fn alternate(&self) -> Option<&Name> {
        self.alternate.as_ref().or(self.policy_alternate.as_ref())
    }

    /// Sets the alternate exchange of a policy; whether it differs from the one before.
    pub fn set_policy_alternate(&mut self, alternate: Option<Name>) -> bool {
        let changed = self.policy_alternate != alternate;
        self.policy_alternate = alternate;
        changed
    }

    /// The bindings from it in order, each with its destination. Those to a deleted destination are
    /// there until they are forgotten.
    pub const fn bindings(&self) -> &BTreeMap<Arc<Binding>, ResolvedDestination> {
        &self.bindings
    }

    /// Whether a binding leads from it to another exchange.
    pub fn leads_to_exchanges(&self) -> bool {
        self.bindings_to_exchanges > 0 || self.alternate().is_some()
    }

    /// Adds a binding to `place` that does not exist yet.
    pub fn add(&mut self, binding: &Arc<Binding>, place: ResolvedDestination) {
        self.bindings.insert(Arc::clone(binding), place);
        if matches!(binding.destination, Destination::Exchange(_)) {
            self.bindings_to_exchanges += 1;
        }
        match &mut self.table {
            Table::Direct(keys) => {
                let places = keys.entry(binding.key.clone()).or_default();
                if places.is_empty() {
                    self.kept.grow(DIRECT_KEY_BYTES);
                }
                places.add(place);
            }
            Table::Fanout(places) => places.add(place),
            Table::Topic(tree) => self.kept.grow(tree.add(&binding.key, place)),
            Table::Headers(table) => self.kept.grow(table.add(binding, place)),
            Table::LocalRandom(places) => places.push(place),
        }
    }

    /// Removes a binding to `place`; whether it existed.
    pub fn remove(&mut self, binding: &Binding, place: ResolvedDestination) -> bool {
        if self.bindings.get(binding) != Some(&place) {
            return false;
        }
        self.bindings.remove(binding);
        if matches!(binding.destination, Destination::Exchange(_)) {
            uncount!(
                self.bindings_to_exchanges,
                1,
                "a binding to an exchange was counted"
            );
        }
        match &mut self.table {
            Table::Direct(keys) => {
                let left_empty = keys.get_mut(&binding.key).is_some_and(|p| p.remove(place));
                if left_empty {
                    keys.remove(&binding.key);
                    self.kept.shrink(DIRECT_KEY_BYTES);
                }
            }
            Table::Fanout(places) => {
                places.remove(place);
            }
            Table::Topic(tree) => self.kept.shrink(tree.remove(&binding.key, place)),
            Table::Headers(table) => self.kept.shrink(table.remove(binding)),
            Table::LocalRandom(places) => {
                if let Some(at) = places.iter().position(|known| *known == place) {
                    places.swap_remove(at);
                }
            }
        }
        true
    }

    /// Removes its first binding.
    pub fn pop(&mut self) -> Option<Arc<Binding>> {
        let (binding, place) = self.bindings.first_key_value()?;
        let (binding, place) = (Arc::clone(binding), *place);
        self.remove(&binding, place);
        Some(binding)
    }

    /// Stops routing after deletion: drops the routing tables at once, the bindings follow in
    /// slices.
    pub fn retire(&mut self) {
        if let Table::LocalRandom(places) = &mut self.table {
            places.clear();
        }
    }

    /// Visits every destination of a message with these keys; one may be visited more than once. A
    /// random exchange leaves the choice to `pick`. Breaks off when that takes too many steps, or
    /// when `visit` does.
    pub fn matching(
        &self,
        keys: &[Name],
        attributes: &impl Attributes,
        steps: &Steps,
        pick: impl Fn(&[ResolvedDestination]) -> Option<ResolvedDestination>,
        mut visit: impl FnMut(ResolvedDestination) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &self.table {
            Table::Direct(table) => {
                steps.take(Step::Key, keys.len())?;
                let mut known = keys.iter().filter_map(|key| table.get(key));
                known.try_for_each(|places| places.try_for_each(&mut visit))
            }
            Table::Fanout(places) => places.try_for_each(visit),
            Table::Topic(tree) => tree.matching(keys.iter().map(Name::as_str), steps, visit),
            Table::Headers(table) => table.matching(attributes, steps, visit),
            Table::LocalRandom(places) => pick(places).into_iter().try_for_each(visit),
        }
    }
}

/// Estimated memory of a key in the table of a direct exchange, in bytes.
const DIRECT_KEY_BYTES: u64 = 80;

pub const ALTERNATE_EXCHANGE: &str = "alternate-exchange";
