//! Bindings of deleted exchanges and queues: they route and list nothing from the moment of
//! deletion, and are removed in slices.
//!
//! A binding lives as long as both its ends: its source exchange and its destination. Ids are never
//! reused, so a later exchange or queue of the same name is not mistaken for the deleted one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Router;
use crate::base::{ExchangeId, Name, uncount};
use crate::broker::Destination;
use crate::broker::binding::{Binding, ResolvedDestination};
use crate::broker::exchange::Exchange;

/// The bindings of a deleted queue or exchange that are not removed yet.
#[derive(Debug)]
pub(super) struct Leaving {
    place: ResolvedDestination,
    /// The deleted exchange, with the remaining bindings from it; none: it was a queue.
    exchange: Option<Exchange>,
    /// The remaining bindings to it, with their sources.
    incoming: BTreeMap<Arc<Binding>, ExchangeId>,
}

impl Leaving {
    fn is_empty(&self) -> bool {
        let outgoing = self.exchange.as_ref();
        self.incoming.is_empty() && outgoing.is_none_or(|gone| gone.bindings().is_empty())
    }
}

/// Bindings that are removed at once with their exchange or queue.
const AT_ONCE_MAX: usize = 64;

impl Router {
    /// Whether bindings of deleted objects remain.
    pub fn is_forgetting(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Removes up to `count` such bindings; returns the auto-delete exchanges that lost their last
    /// one.
    pub fn forget_some(&mut self, count: usize) -> Vec<Name> {
        let Some(leaving) = self.leaving.pop_front() else {
            return Vec::new();
        };
        let sources = self.forget(leaving, count);
        self.delete_unused(sources)
    }

    /// Whether a destination exists and is not deleted.
    pub(super) fn is_live(&self, place: ResolvedDestination) -> bool {
        self.gone.is_empty() || !self.gone.contains(&place)
    }

    /// Removes a queue or an exchange with its bindings; returns the exchanges that lost a binding
    /// to it so far.
    pub(super) fn let_go(
        &mut self,
        destination: &Destination,
        place: ResolvedDestination,
        exchange: Option<Exchange>,
    ) -> BTreeSet<Name> {
        let incoming = self.by_destination.remove(destination).unwrap_or_default();
        let leaving = Leaving {
            place,
            exchange,
            incoming,
        };
        // While the journal is read no lock is waited for, and no later slice would be done.
        let count = if self.keep_unused {
            usize::MAX
        } else {
            AT_ONCE_MAX
        };
        self.forget(leaving, count)
    }

    /// Removes up to `count` bindings and keeps the rest for later; returns their sources.
    fn forget(&mut self, mut leaving: Leaving, count: usize) -> BTreeSet<Name> {
        let mut sources = BTreeSet::new();
        for _ in 0..count {
            if let Some(exchange) = &mut leaving.exchange
                && let Some(binding) = exchange.pop()
            {
                self.remove_from_destination(&binding, exchange.id);
            } else if let Some((binding, _)) = leaving.incoming.pop_first() {
                if self.remove_from_source(&binding, leaving.place) {
                    sources.insert(binding.source.clone());
                }
            } else {
                break;
            }
        }
        if leaving.is_empty() {
            self.gone.remove(&leaving.place);
        } else {
            self.gone.insert(leaving.place);
            self.leaving.push_back(leaving);
        }
        sources
    }

    /// Deletes the auto-delete exchanges among these that have no binding left, and others that
    /// lose their last binding by that; returns what was deleted.
    pub(super) fn delete_unused(&mut self, mut sources: BTreeSet<Name>) -> Vec<Name> {
        let mut gone = Vec::new();
        while let Some(name) = sources.pop_first() {
            let unused = !self.keep_unused
                && self.exchange_named(&name).is_some_and(|exchange| {
                    exchange.spec.auto_delete && exchange.bindings().is_empty()
                });
            if unused {
                sources.extend(self.remove_exchange(&name));
                gone.push(name);
            }
        }
        gone
    }

    /// Removes an exchange and its bindings; returns the exchanges that lost a binding to it.
    pub(super) fn remove_exchange(&mut self, name: &Name) -> BTreeSet<Name> {
        let id = self.names.remove(name);
        let Some(mut exchange) = id.and_then(|id| self.exchanges.remove(&id)) else {
            return BTreeSet::new();
        };
        self.generation += 1;
        self.owners.remove(&exchange.id);
        if exchange.spec.kind.varies() {
            uncount!(
                self.varying_bindings,
                exchange.bindings().len(),
                "bindings that look at messages were counted"
            );
        }
        exchange.retire();
        let place = ResolvedDestination::Exchange(exchange.id);
        let destination = Destination::Exchange(name.clone());
        self.let_go(&destination, place, Some(exchange))
    }

    /// Removes a binding to this destination; false if there is none, or it leads to another one.
    pub(super) fn remove_from_source(
        &mut self,
        binding: &Binding,
        place: ResolvedDestination,
    ) -> bool {
        let id = self.names.get(&binding.source);
        let Some(exchange) = id.and_then(|id| self.exchanges.get_mut(id)) else {
            return false;
        };
        if !exchange.remove(binding, place) {
            return false;
        }
        uncount!(
            self.varying_bindings,
            usize::from(exchange.spec.kind.varies()),
            "bindings that look at messages were counted"
        );
        self.generation += 1;
        true
    }

    /// Removes a binding from the index by destination, unless it is of a later exchange of the
    /// same name.
    pub(super) fn remove_from_destination(&mut self, binding: &Binding, source: ExchangeId) {
        if let Some(bound) = self.by_destination.get_mut(&binding.destination)
            && bound.get(binding) == Some(&source)
        {
            bound.remove(binding);
            if bound.is_empty() {
                self.by_destination.remove(&binding.destination);
            }
        }
    }
}
