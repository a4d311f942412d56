//! Bindings of what is gone: nothing goes along them from that moment, nobody sees them, and they
//! are removed a few at a time.
//!
//! A binding lives as long as both its ends: the exchange it stands in, and the place it leads to.
//! Ids are never used twice, so one of another exchange or queue of the same name is not mistaken
//! for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Router;
use crate::base::{ExchangeId, Name, uncount};
use crate::broker::Destination;
use crate::broker::binding::{Binding, ResolvedDestination};
use crate::broker::exchange::Exchange;

/// What led to something, and from it if that was an exchange.
#[derive(Debug)]
pub(super) struct Leaving {
    place: ResolvedDestination,
    /// With the bindings from it that are left.
    exchange: Option<Exchange>,
    /// Those that are left of the bindings to it.
    incoming: BTreeMap<Arc<Binding>, ExchangeId>,
}

impl Leaving {
    fn is_empty(&self) -> bool {
        let outgoing = self.exchange.as_ref();
        self.incoming.is_empty() && outgoing.is_none_or(|gone| gone.bindings().is_empty())
    }
}

/// Bindings that go at once with their end.
const AT_ONCE_MAX: usize = 64;

impl Router {
    /// Whether bindings are left of something that is gone.
    pub fn is_forgetting(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Removes up to `count` such bindings; the auto-delete exchanges that went with their last.
    pub fn forget_some(&mut self, count: usize) -> Vec<Name> {
        let Some(leaving) = self.leaving.pop_front() else {
            return Vec::new();
        };
        let sources = self.forget(leaving, count);
        self.delete_unused(sources)
    }

    /// Whether a place is still there.
    pub(super) fn is_live(&self, place: ResolvedDestination) -> bool {
        self.gone.is_empty() || !self.gone.contains(&place)
    }

    /// Lets a queue or an exchange go with its bindings; the exchanges that lost one to it so far.
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
        // While the journal is read nobody waits, and nobody would go on.
        let count = if self.keep_unused {
            usize::MAX
        } else {
            AT_ONCE_MAX
        };
        self.forget(leaving, count)
    }

    /// Removes up to `count` bindings and keeps the rest for later; their sources.
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

    /// Deletes those of the exchanges that go with their last binding and have none left, and what
    /// that leaves unused in turn; returns what went.
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

    /// Removes a binding that leads to this place; false if there is none, or to another place.
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

    /// Forgets at the destination a binding from this exchange, and not one from a later exchange of
    /// the same name.
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
