//! Matching of headers exchanges.
//!
//! Bindings are indexed by the pairs they ask for, so that a message is compared only with bindings
//! that may match, however many others there are:
//!
//! ```text
//!   candidates: hash of (name, value) -> bindings with that pair      any: under each of its pairs
//!               hash of (name, void)  -> bindings that want the name  all: under one of them
//!   always:     all without a pair
//! ```

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::base::{Map, Name, Seed, Step, Steps, uncount};
use crate::message::Message;
use crate::wire::Value;

use super::argument_value::{find, integer, show, text};
use super::binding::{Binding, ResolvedDestination};

/// The properties of a message that a headers exchange compares.
pub trait Attributes {
    /// Visits the application properties whose name is wanted; returns how many were passed. [AMQP
    /// 3.2.5]
    fn application_properties<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        found: impl FnMut(&'a str, Value),
    ) -> usize;

    /// Visits the message annotations whose name is wanted, those of the latest death first;
    /// returns how many were passed. [AMQP 3.2.3]
    fn annotations<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        found: impl FnMut(&'a str, Value),
    ) -> usize;
}

impl Attributes for Message {
    fn application_properties<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        found: impl FnMut(&'a str, Value),
    ) -> usize {
        self.visit_application_properties(is_wanted, found)
    }

    fn annotations<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        found: impl FnMut(&'a str, Value),
    ) -> usize {
        self.visit_annotations(is_wanted, found)
    }
}

/// A message without properties and annotations.
#[derive(Clone, Copy, Debug)]
pub struct NoAttributes;

impl Attributes for NoAttributes {
    fn application_properties<'a>(
        &'a self,
        _: impl Fn(&str) -> bool,
        _: impl FnMut(&'a str, Value),
    ) -> usize {
        0
    }

    fn annotations<'a>(&'a self, _: impl Fn(&str) -> bool, _: impl FnMut(&'a str, Value)) -> usize {
        0
    }
}

/// How many of a binding's arguments must be found, and whether those that begin with `x-` count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XMatch {
    /// All must match; names beginning with `x-` are ignored. The default.
    All,
    /// One must match; names beginning with `x-` are ignored.
    Any,
    /// All must match; names may also be those of message annotations.
    AllWithX,
    /// One must match; names may also be those of message annotations.
    AnyWithX,
}

impl XMatch {
    const ALL: [Self; 4] = [Self::All, Self::Any, Self::AllWithX, Self::AnyWithX];

    const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Any => "any",
            Self::AllWithX => "all-with-x",
            Self::AnyWithX => "any-with-x",
        }
    }

    /// Reads the argument `x-match` of a binding; the error lists the accepted words.
    pub fn read(arguments: &[(Name, Value)]) -> Result<Self, String> {
        let Some(value) = find(arguments, X_MATCH) else {
            return Ok(Self::All);
        };
        let all = Self::ALL.into_iter();
        let found = text(value).and_then(|text| all.clone().find(|word| word.as_str() == text));
        found.ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str).join(", ");
            format!("must be one of {words}, not {}", show(Some(value)))
        })
    }

    const fn with_x(self) -> bool {
        matches!(self, Self::AllWithX | Self::AnyWithX)
    }

    const fn any(self) -> bool {
        matches!(self, Self::Any | Self::AnyWithX)
    }
}

/// The bindings of a headers exchange.
#[derive(Debug)]
pub struct HeadersTable {
    seed: Seed,
    /// Bindings that ask for nothing and match every message.
    always: Candidates,
    /// Bindings by the hash of a pair they ask for. Two pairs with the same hash share an entry;
    /// the comparison tells them apart.
    by_pair: Map<u64, Candidates>,
    /// The number of indexed pairs with each name.
    names: Map<Name, usize>,
    /// The number of bindings that also compare annotations.
    with_x: usize,
}

impl HeadersTable {
    /// A table without bindings.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            always: Candidates::default(),
            by_pair: Map::with_hasher(seed.hasher()),
            names: Map::with_hasher(seed.hasher()),
            with_x: 0,
        }
    }

    /// Adds a binding that does not exist yet; returns the memory it took, estimated in bytes.
    pub fn add(&mut self, binding: &Arc<Binding>, place: ResolvedDestination) -> u64 {
        // Bindings are checked before they come here; a word that is none would be the default.
        let x_match = XMatch::read(&binding.arguments).unwrap_or(XMatch::All);
        self.with_x += usize::from(x_match.with_x());
        let mut hashes = Vec::new();
        for (name, wanted) in relevant(x_match, &binding.arguments) {
            hashes.push(self.hash(name, &Meaning::wanted(wanted)));
            *self.names.entry(name.clone()).or_insert(0) += 1;
        }
        if !x_match.any() {
            let is_always = hashes.is_empty();
            let count = |hash: &u64| self.by_pair.get(hash).map_or(0, Candidates::len);
            let rarest = hashes.into_iter().min_by_key(count);
            hashes = rarest.into_iter().collect();
            if is_always {
                self.always.add(binding, x_match, place);
            }
        }
        for hash in hashes {
            let candidates = self.by_pair.entry(hash).or_default();
            candidates.add(binding, x_match, place);
        }
        table_bytes(x_match, binding)
    }

    /// Removes an existing binding; returns the memory it freed, estimated in bytes.
    pub fn remove(&mut self, binding: &Binding) -> u64 {
        let x_match = XMatch::read(&binding.arguments).unwrap_or(XMatch::All);
        uncount!(
            self.with_x,
            usize::from(x_match.with_x()),
            "a binding that looks at annotations was counted"
        );
        self.always.remove(binding);
        for (name, wanted) in relevant(x_match, &binding.arguments) {
            let hash = self.hash(name, &Meaning::wanted(wanted));
            if let Some(candidates) = self.by_pair.get_mut(&hash) {
                candidates.remove(binding);
                if candidates.len() == 0 {
                    self.by_pair.remove(&hash);
                }
            }
            if let Some(pairs) = self.names.get_mut(name) {
                uncount!(*pairs, 1, "a pair of a binding was counted");
                if *pairs == 0 {
                    self.names.remove(name);
                }
            }
        }
        table_bytes(x_match, binding)
    }

    /// Visits the destination of every binding that matches; one may be visited more than once.
    /// Each property and binding that is examined is a step; breaks off when there are too many, or
    /// when `visit` does.
    pub fn matching(
        &self,
        attributes: &impl Attributes,
        steps: &Steps,
        mut visit: impl FnMut(ResolvedDestination) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let given = Given::of(self, attributes);
        steps.take(Step::Pair, given.passed)?;
        self.always.try_for_each(|_, _, place| visit(place))?;
        let mut look_up = |name: &str, meaning: Meaning<'_>| {
            let Some(candidates) = self.by_pair.get(&self.hash(name, &meaning)) else {
                return ControlFlow::Continue(());
            };
            steps.take(Step::Pair, candidates.len())?;
            candidates.try_for_each(|binding, x_match, place| {
                if matches(x_match, &binding.arguments, &given) {
                    return visit(place);
                }
                ControlFlow::Continue(())
            })
        };
        for (name, value) in given.properties.iter().chain(&given.annotations) {
            look_up(name, Meaning::Void)?;
            look_up(name, Meaning::found(value))?;
        }
        ControlFlow::Continue(())
    }

    fn hash(&self, name: &str, meaning: &Meaning<'_>) -> u64 {
        self.seed.hasher().hash_one((name, meaning))
    }
}

/// Estimated memory of a binding in the table, in bytes: one of `any` is indexed under each of its
/// pairs.
fn table_bytes(x_match: XMatch, binding: &Binding) -> u64 {
    let pairs = relevant(x_match, &binding.arguments).count();
    let places = if x_match.any() { pairs.max(1) } else { 1 };
    (places * CANDIDATE_BYTES) as u64
}

/// Estimated memory of one candidate in the table, in bytes.
const CANDIDATE_BYTES: usize = 80;

/// Bindings that share a pair. Nearly always there is one, so that one costs no allocation.
#[derive(Debug)]
enum Candidates {
    One(Arc<Binding>, XMatch, ResolvedDestination),
    Many(BTreeMap<Arc<Binding>, (XMatch, ResolvedDestination)>),
}

impl Default for Candidates {
    fn default() -> Self {
        Self::Many(BTreeMap::new())
    }
}

impl Candidates {
    fn len(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::Many(bindings) => bindings.len(),
        }
    }

    fn add(&mut self, binding: &Arc<Binding>, x_match: XMatch, place: ResolvedDestination) {
        let mut bindings = match std::mem::take(self) {
            Self::Many(bindings) if bindings.is_empty() => {
                *self = Self::One(Arc::clone(binding), x_match, place);
                return;
            }
            Self::Many(bindings) => bindings,
            Self::One(only, x_match, place) => BTreeMap::from([(only, (x_match, place))]),
        };
        bindings.insert(Arc::clone(binding), (x_match, place));
        *self = Self::Many(bindings);
    }

    fn remove(&mut self, binding: &Binding) {
        match self {
            Self::One(only, ..) if **only == *binding => *self = Self::default(),
            Self::One(..) => {}
            Self::Many(bindings) => {
                bindings.remove(binding);
            }
        }
    }

    fn try_for_each(
        &self,
        mut visit: impl FnMut(&Binding, XMatch, ResolvedDestination) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Self::One(binding, x_match, place) => visit(binding, *x_match, *place),
            Self::Many(bindings) => bindings
                .iter()
                .try_for_each(|(binding, (x_match, place))| visit(binding, *x_match, *place)),
        }
    }
}

/// The properties of a message that some binding asks for. Of two with the same name the first
/// counts.
#[derive(Debug, Default)]
struct Given<'a> {
    properties: BTreeMap<&'a str, Value>,
    annotations: BTreeMap<&'a str, Value>,
    /// Properties passed while looking for them.
    passed: usize,
}

impl<'a> Given<'a> {
    fn of(table: &HeadersTable, attributes: &'a impl Attributes) -> Self {
        let mut given = Self::default();
        let is_wanted = |name: &str| table.names.contains_key(name);
        if !table.names.is_empty() {
            given.passed += attributes.application_properties(is_wanted, |name, value| {
                given.properties.entry(name).or_insert(value);
            });
        }
        if table.with_x > 0 {
            given.passed += attributes.annotations(is_wanted, |name, value| {
                given.annotations.entry(name).or_insert(value);
            });
        }
        given
    }

    fn value(&self, name: &str, with_x: bool) -> Option<&Value> {
        let annotation = || self.annotations.get(name).filter(|_| with_x);
        self.properties.get(name).or_else(annotation)
    }
}

/// The arguments of a binding that ask for something.
fn relevant(x_match: XMatch, arguments: &[(Name, Value)]) -> impl Iterator<Item = &(Name, Value)> {
    let counts = move |name: &str| x_match.with_x() || !name.starts_with("x-");
    let pairs = arguments.iter();
    pairs.filter(move |(name, _)| name != X_MATCH && counts(name))
}

fn matches(x_match: XMatch, arguments: &[(Name, Value)], given: &Given<'_>) -> bool {
    let is_there = |(name, wanted): &(Name, Value)| {
        let wanted = Meaning::wanted(wanted);
        let found = given.value(name, x_match.with_x());
        found.is_some_and(|found| wanted == Meaning::Void || wanted == Meaning::found(found))
    };
    if x_match.any() {
        relevant(x_match, arguments).any(is_there)
    } else {
        relevant(x_match, arguments).all(is_there)
    }
}

/// The compared form of a value: integers of any width are equal by number and so are
/// floating-point numbers (but not one with the other), strings, symbols and binaries by their
/// bytes, all else exactly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Meaning<'a> {
    /// The binding only wants the name to be there.
    Void,
    Number(i128),
    /// A floating-point number, as the bits of a double.
    Double(u64),
    Bytes(&'a [u8]),
    Other(&'a Value),
}

impl<'a> Meaning<'a> {
    /// The compared form of a binding's argument; `RabbitMQ` keeps a timestamp there in seconds.
    fn wanted(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Void,
            Value::Timestamp(ms) => Self::Number(i128::from(*ms / 1000)),
            other => Self::found(other),
        }
    }

    /// The compared form of a message's value; a timestamp there is in milliseconds.
    fn found(value: &'a Value) -> Self {
        match value {
            Value::Timestamp(ms) => Self::Number((*ms).into()),
            Value::Char(code) => Self::Number((*code).into()),
            Value::Double(bits) => Self::Double(*bits),
            Value::Float(bits) => Self::Double(f64::from(f32::from_bits(*bits)).to_bits()),
            Value::Binary(bytes) => Self::Bytes(bytes),
            other => {
                let number = integer(other).map(Self::Number);
                let number_or_text =
                    number.or_else(|| text(other).map(|t| Self::Bytes(t.as_bytes())));
                number_or_text.unwrap_or(Self::Other(other))
            }
        }
    }
}

const X_MATCH: &str = "x-match";

#[cfg(test)]
#[path = "tests/headers.rs"]
mod tests;
