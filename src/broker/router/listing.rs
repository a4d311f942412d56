//! Paged listings of bindings: one page takes a bounded time, however many there are.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::Router;
use crate::base::limits::{EXPLAIN_BINDINGS_MAX, LISTING_SLICE, LISTING_SLICE_BYTES};
use crate::base::{Account, Gauge, Name, Steps};
use crate::broker::argument_value::weight;
use crate::broker::binding::{Binding, ResolvedDestination};
use crate::broker::exchange::{Exchange, ExchangeKind};
use crate::broker::{Attributes, Destination};
use crate::message::Route;

/// A filter for bindings; an absent field matches everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BindingsOf {
    /// Only bindings from this exchange.
    pub source: Option<Name>,
    /// Only bindings to this queue or exchange.
    pub destination: Option<Destination>,
    /// Only bindings with this key. An index only helps where source and destination are given,
    /// too.
    pub key: Option<Name>,
}

/// A page of bindings, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BindingSlice {
    /// The bindings that match.
    pub found: Vec<Binding>,
    /// There may be more behind this one, which may be deleted by then; none: the page is the last.
    pub after: Option<Binding>,
}

impl BindingsOf {
    fn matches(&self, binding: &Binding) -> bool {
        self.source
            .as_ref()
            .is_none_or(|source| *source == binding.source)
            && self
                .destination
                .as_ref()
                .is_none_or(|destination| *destination == binding.destination)
            && self.key.as_ref().is_none_or(|key| *key == binding.key)
    }

    /// A binding that sorts in front of all that match.
    fn first(&self) -> Binding {
        let destination = self.destination.clone();
        Binding {
            source: self.source.clone().unwrap_or_default(),
            destination: destination.unwrap_or_else(|| Destination::Queue(Name::default())),
            key: self.key.clone().unwrap_or_default(),
            arguments: Vec::new(),
            account: Account::default(),
        }
    }

    /// Whether no match can follow behind this one. Bindings are sorted by source and then by
    /// destination, so the equal prefix decides.
    fn ends_before(&self, binding: &Binding) -> bool {
        let Some(source) = &self.source else {
            return false;
        };
        if *source != binding.source {
            return true;
        }
        let Some(destination) = &self.destination else {
            return false;
        };
        *destination != binding.destination
            || self.key.as_ref().is_some_and(|key| *key != binding.key)
    }
}

/// A page being gathered.
struct Gathering<'a> {
    of: &'a BindingsOf,
    slice: BindingSlice,
    /// Bindings and exchanges that may still be examined.
    left: usize,
    left_bytes: usize,
}

impl Gathering<'_> {
    /// Examines one more binding; false at the end of the page.
    fn look(&mut self, binding: &Binding, is_live: bool) -> bool {
        if is_live && self.of.matches(binding) {
            let bytes = weight(&binding.arguments);
            self.left_bytes = self.left_bytes.saturating_sub(bytes);
            self.slice.found.push(binding.clone());
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || self.left_bytes == 0 {
            self.slice.after = Some(binding.clone());
            return false;
        }
        true
    }
}

impl Router {
    /// The next bindings behind `after` that match, sorted by source, destination, key and
    /// arguments: at most [`LISTING_SLICE`] are examined, and [`LISTING_SLICE_BYTES`] of arguments
    /// copied. Those of the default exchange are listed only when it is asked for together with a
    /// queue.
    pub fn bindings_slice(&self, of: &BindingsOf, after: Option<&Binding>) -> BindingSlice {
        let is_default = of.source.as_ref().is_some_and(|source| source.is_empty());
        if is_default {
            return self.implied_slice(of);
        }
        let gathering = Gathering {
            of,
            slice: BindingSlice::default(),
            left: LISTING_SLICE,
            left_bytes: LISTING_SLICE_BYTES,
        };
        let first = of.first();
        let start = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(&first),
        };
        match (&of.destination, &of.source) {
            (Some(destination), _) => self.gather_to(gathering, destination, start),
            (None, Some(source)) => self.gather_from(gathering, source, start),
            (None, None) => self.gather_all(gathering, after),
        }
    }

    /// The implied binding of the default exchange to a queue.
    fn implied_slice(&self, of: &BindingsOf) -> BindingSlice {
        let Some(Destination::Queue(queue)) = &of.destination else {
            return BindingSlice::default();
        };
        let is_there = self.queues.contains_key(queue);
        let is_wanted = of.key.as_ref().is_none_or(|key| key == queue);
        let found = (is_there && is_wanted).then(|| Binding::implied(queue));
        BindingSlice {
            found: found.into_iter().collect(),
            after: None,
        }
    }

    fn gather_to(
        &self,
        mut gathering: Gathering<'_>,
        destination: &Destination,
        start: Bound<&Binding>,
    ) -> BindingSlice {
        let bound = self.by_destination.get(destination).into_iter();
        let bound = bound.flat_map(|bound| bound.range::<Binding, _>((start, Bound::Unbounded)));
        for (binding, source) in bound {
            if gathering.of.ends_before(binding)
                || !gathering.look(binding, self.exchanges.contains_key(source))
            {
                break;
            }
        }
        gathering.slice
    }

    fn gather_from(
        &self,
        mut gathering: Gathering<'_>,
        source: &Name,
        start: Bound<&Binding>,
    ) -> BindingSlice {
        let exchange = self.exchange_named(source).into_iter();
        let bound = exchange.flat_map(|exchange| {
            exchange
                .bindings()
                .range::<Binding, _>((start, Bound::Unbounded))
        });
        for (binding, place) in bound {
            if !gathering.look(binding, self.is_live(*place)) {
                break;
            }
        }
        gathering.slice
    }

    fn gather_all(&self, mut gathering: Gathering<'_>, after: Option<&Binding>) -> BindingSlice {
        let first = after.map_or(Bound::Unbounded, |after| Bound::Included(&after.source));
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (name, id) in self.names.range::<Name, _>((first, Bound::Unbounded)) {
            if gathering.left == 0 {
                // No binding is equal to this: it only says at which exchange to go on.
                let of = BindingsOf {
                    source: Some(name.clone()),
                    ..BindingsOf::default()
                };
                gathering.slice.after = Some(of.first());
                break;
            }
            let Some(exchange) = self.exchanges.get(id) else {
                continue;
            };
            let bound = exchange.bindings();
            for (binding, place) in bound.range::<Binding, _>((start, Bound::Unbounded)) {
                if !gathering.look(binding, self.is_live(*place)) {
                    return gathering.slice;
                }
            }
            gathering.left = gathering.left.saturating_sub(1);
        }
        gathering.slice
    }

    /// All bindings that match, at once: for tests and for a core without a lock.
    pub fn bindings(
        &self,
        source: Option<&Name>,
        destination: Option<&Destination>,
        key: Option<&Name>,
    ) -> Vec<Binding> {
        let of = BindingsOf {
            source: source.cloned(),
            destination: destination.cloned(),
            key: key.cloned(),
        };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let slice = self.bindings_slice(&of, after.as_ref());
            all.extend(slice.found);
            after = slice.after;
            if after.is_none() {
                return all;
            }
        }
    }

    /// The first binding by which a message with this route goes straight from its exchange to a
    /// queue; none for the default exchange, which has none. Only some bindings are looked at, and
    /// none is found behind those.
    pub fn binding_between(
        &self,
        route: &Route,
        queue: &Name,
        attributes: &impl Attributes,
    ) -> Option<Arc<Binding>> {
        let id = self.queue(queue)?;
        let exchange = self.exchange_named(&route.exchange)?;
        let place = ResolvedDestination::Queue(id);
        let bound = self
            .by_destination
            .get(&Destination::Queue(queue.clone()))?;
        let bound = bound.iter().filter(|(_, source)| **source == exchange.id);
        let mut bound = bound.take(EXPLAIN_BINDINGS_MAX).map(|(binding, _)| binding);
        let leads = |binding: &&Arc<Binding>| {
            // The only binding of an exchange that is otherwise the same.
            let lone = (self.seed, &Gauge::default());
            let Ok(mut lone) = Exchange::new(exchange.id, exchange.spec.clone(), lone) else {
                return false;
            };
            lone.add(binding, place);
            let (steps, mut is_found) = (Steps::default(), false);
            let pick = |places: &[ResolvedDestination]| places.first().copied();
            let _ = lone.matching(&route.keys, attributes, &steps, pick, |_| {
                is_found = true;
                ControlFlow::Break(())
            });
            is_found
        };
        bound.find(leads).cloned()
    }

    /// The first bindings to a queue, this many at most, each with the type of its exchange.
    pub fn some_bindings_to(
        &self,
        queue: &Name,
        count: usize,
    ) -> impl Iterator<Item = (ExchangeKind, &Arc<Binding>)> {
        let bound = self.by_destination.get(&Destination::Queue(queue.clone()));
        bound
            .into_iter()
            .flatten()
            .take(count)
            .filter_map(|(binding, source)| Some((self.exchanges.get(source)?.spec.kind, binding)))
    }

    /// Bindings from an exchange whose destination exists.
    pub(super) fn live_bindings<'a>(
        &'a self,
        exchange: &'a Exchange,
    ) -> impl Iterator<Item = &'a Arc<Binding>> {
        let bindings = exchange.bindings().iter();
        let live = bindings.filter(|(_, place)| self.is_live(**place));
        live.map(|(binding, _)| binding)
    }
}
