//! What is above a queue: the exchanges from which messages come to it, by bindings and as alternates.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::Name;
use crate::base::limits::{LINT_KEYS_TRIED_MAX, LINT_SOURCES_MAX};
use crate::broker::binding::Binding;
use crate::broker::exchange::ExchangeKind;
use crate::broker::queue::Queue;
use crate::broker::{Core, Destination};
use crate::lint::behind::alternate;
use crate::lint::keys::Example;

/// What is above a queue.
#[derive(Default)]
pub(super) struct Above {
    /// The exchanges, nearest first.
    pub(super) sources: Vec<Name>,
    /// Examples of keys by which their bindings lead here.
    pub(super) keys: BTreeSet<Example>,
    /// Keys of bindings that take more keys than one.
    pub(super) patterns: BTreeSet<Name>,
    /// A binding takes more keys than one.
    pub(super) takes_many: bool,
}

/// What leads where.
#[derive(Default)]
pub(super) struct Bound {
    /// Bindings by where they lead.
    pub(super) to: BTreeMap<Destination, Vec<Binding>>,
    /// Exchanges, by the alternate exchange that gets what they do not route.
    pub(super) alternate_of: BTreeMap<Name, Vec<Name>>,
}

/// The sources of a list that is sorted by them.
#[derive(Default)]
struct Sources {
    last: Option<Name>,
    /// How often the last one came.
    times: usize,
    /// How many there were, of dead letters only and others.
    counts: (usize, usize),
}

impl Sources {
    /// How often this source came so far; none: there were too many others.
    fn count(&mut self, source: &Name, is_dead: impl Fn(&Name) -> bool) -> Option<usize> {
        let count = if is_dead(source) {
            &mut self.counts.0
        } else {
            &mut self.counts.1
        };
        if self.last.as_ref() != Some(source) {
            self.last = Some(source.clone());
            self.times = 0;
            *count += 1;
        }
        self.times += 1;
        (*count <= LINT_SOURCES_MAX).then_some(self.times)
    }
}

impl Bound {
    pub(super) fn of(core: &Core) -> Self {
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

    /// Leaves what [`above`] looks at of each destination: of those exchanges that have dead letters only, and
    /// of the others, the first, and of each the first bindings. Many queues may lie below one exchange that
    /// many lead to.
    pub(super) fn thin(&mut self, is_dead: impl Fn(&Name) -> bool) {
        for bindings in self.to.values_mut() {
            let mut seen = Sources::default();
            bindings.retain(|binding| {
                let bindings = seen.count(&binding.source, &is_dead);
                bindings.is_some_and(|bindings| bindings <= LINT_KEYS_TRIED_MAX)
            });
        }
        for sources in self.alternate_of.values_mut() {
            let mut seen = Sources::default();
            sources.retain(|source| seen.count(source, &is_dead).is_some());
        }
    }

    pub(super) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.to.values().flatten()
    }
}

/// The exchanges above a queue that count, and examples of the keys of the bindings between.
pub(super) fn above(
    core: &Core,
    queue: &Queue,
    bound: &Bound,
    counts: impl Fn(&Name) -> bool,
) -> Above {
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
