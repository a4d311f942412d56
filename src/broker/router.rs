//! Exchanges and bindings of one vhost, and the way of a message through them. Pure.

use crate::base::{ExchangeId, Name, QueueId, Seed};
use crate::message::{Message, Route};
use crate::wire::Value;

use super::binding::Binding;
use super::exchange::{Exchange, ExchangeSpec};
use super::headers::{Attributes, OnItsWay};
use super::{Destination, Error};

/// The default exchange: routes to the queue named by the key. Always there, cannot be bound.
pub const DEFAULT_EXCHANGE: ExchangeId = ExchangeId(0);

/// What a declaration found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Declared {
    /// The exchange.
    pub id: ExchangeId,
    /// Whether it is new.
    pub created: bool,
}

/// What went because something else went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// Whether the thing asked for was there.
    pub existed: bool,
    /// Auto-delete exchanges that lost their last binding, in the order they went.
    pub exchanges: Vec<Name>,
}

/// The routing state of one vhost. Also knows the queues by name, for the default exchange.
#[derive(Debug)]
pub struct Router {
    generation: u64,
}

impl Router {
    /// A vhost's router with its predeclared exchanges.
    pub fn new(seed: Seed) -> Self {
        let _ = seed;
        Self { generation: 0 }
    }

    /// Raised by every change of topology: a route found under the same number still holds.
    /// (Routes through a headers exchange depend on the message, too: [`Router::depends_on_message`].)
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the way from this exchange depends on more than the keys: a headers exchange is
    /// reachable from it.
    pub fn depends_on_message(&self, exchange: ExchangeId) -> bool {
        let _ = exchange;
        false
    }

    /// Makes a queue known, for the default exchange and for bindings.
    pub fn queue_added(&mut self, name: Name, queue: QueueId) {
        let _ = (name, queue);
    }

    /// Forgets a queue and its bindings.
    pub fn queue_removed(&mut self, name: &Name) -> Removed {
        let _ = name;
        Removed::default()
    }

    /// The queue of this name.
    pub fn queue(&self, name: &str) -> Option<QueueId> {
        let _ = name;
        None
    }

    /// Declares an exchange.
    ///
    /// Errors: `Reserved` (default exchange, new name beginning with `amq.`), `Inequivalent`,
    /// `BadArgument` (alternate-exchange no text), `BadRequest` (name too long, with line breaks).
    pub fn declare(&mut self, spec: ExchangeSpec) -> Result<Declared, Error> {
        let _ = spec;
        Ok(Declared {
            id: DEFAULT_EXCHANGE,
            created: false,
        })
    }

    /// Deletes an exchange and the bindings from and to it.
    ///
    /// Errors: `Reserved` (predeclared), `NotIdle` (`if_unused` and there are bindings from it).
    pub fn delete(&mut self, name: &Name, if_unused: bool) -> Result<Removed, Error> {
        let _ = (name, if_unused);
        Ok(Removed::default())
    }

    /// The exchange of this name.
    pub fn exchange_named(&self, name: &str) -> Option<&Exchange> {
        let _ = name;
        None
    }

    /// The exchange of this id.
    pub fn exchange(&self, id: ExchangeId) -> Option<&Exchange> {
        let _ = id;
        None
    }

    /// All exchanges, sorted by name, the default exchange first.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        std::iter::empty()
    }

    /// Sets the alternate exchange that a policy gives (an argument beats it).
    pub fn set_policy_alternate(&mut self, id: ExchangeId, alternate: Option<Name>) {
        let _ = (id, alternate);
    }

    /// Adds a binding; whether it is new.
    ///
    /// Errors: `NotFound` (source or destination), `Reserved` (default exchange), `BadArgument`
    /// (x-match on a headers exchange).
    pub fn bind(
        &mut self,
        source: &Name,
        destination: &Destination,
        key: &Name,
        arguments: &[(Name, Value)],
    ) -> Result<bool, Error> {
        let _ = (source, destination, key, arguments);
        Ok(false)
    }

    /// Removes a binding, if it is there.
    ///
    /// Errors: `Reserved` (default exchange).
    pub fn unbind(
        &mut self,
        source: &Name,
        destination: &Destination,
        key: &Name,
        arguments: &[(Name, Value)],
    ) -> Result<Removed, Error> {
        let _ = (source, destination, key, arguments);
        Ok(Removed::default())
    }

    /// Bindings sorted by source, destination, key and arguments; `None` matches everything.
    pub fn bindings(
        &self,
        source: Option<&Name>,
        destination: Option<&Destination>,
        key: Option<&Name>,
    ) -> Vec<Binding> {
        let _ = (source, destination, key);
        Vec::new()
    }

    /// Appends the queues that a message reaches from `exchange` by the keys of its route, each
    /// once, to `out`, which must be empty. Nothing for an exchange that is gone.
    pub fn route(
        &self,
        exchange: ExchangeId,
        route: &Route,
        message: &Message,
        out: &mut Vec<QueueId>,
    ) {
        self.route_by(exchange, &route.keys, &OnItsWay { message, route }, out);
    }

    /// [`Router::route`] for anything with attributes.
    pub fn route_by(
        &self,
        exchange: ExchangeId,
        keys: &[Name],
        attributes: &impl Attributes,
        out: &mut Vec<QueueId>,
    ) {
        let _ = (exchange, keys, attributes, out);
    }
}
