//! A binding, and the counted destinations of bindings that share a key.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;

use crate::base::limits::BINDING_OVERHEAD_BYTES;
use crate::base::{Account, ExchangeId, Gauge, Name, QueueId, shared_text_bytes, uncount};
use crate::wire::Value;

use super::Destination;
use super::argument_value::{echoed_arguments, kept_bytes};

/// A binding; two with different arguments are two bindings.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binding {
    /// The exchange that messages come from.
    pub source: Name,
    /// The queue or exchange that messages go to.
    pub destination: Destination,
    /// The key (or the pattern, on a topic exchange).
    pub key: Name,
    /// Arguments in the types that are echoed back, sorted by name.
    pub arguments: Vec<(Name, Value)>,
    /// The gauge that its memory is charged to, once an exchange has it.
    pub account: Account,
}

/// Shows what defines the binding, without the account of its memory.
impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            destination,
            key,
            arguments,
            account: _,
        } = self;
        f.debug_struct("Binding")
            .field("source", source)
            .field("destination", destination)
            .field("key", key)
            .field("arguments", arguments)
            .finish()
    }
}

impl Binding {
    /// A binding whose arguments may still be in the order and the types given.
    pub fn new(
        source: &Name,
        destination: &Destination,
        key: &Name,
        arguments: &[(Name, Value)],
    ) -> Self {
        let mut arguments = echoed_arguments(arguments);
        arguments.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            source: source.clone(),
            destination: destination.clone(),
            key: key.clone(),
            arguments,
            account: Account::default(),
        }
    }

    /// Charges its memory to the gauge for as long as the binding is referenced.
    pub fn charge(&self, gauge: &Gauge) {
        self.account.open(gauge, || {
            BINDING_OVERHEAD_BYTES + shared_text_bytes(self.key.len()) + kept_bytes(&self.arguments)
        });
    }

    /// The implied binding of the default exchange to this queue: its key is the name of the queue.
    pub fn implied(queue: &Name) -> Self {
        let destination = Destination::Queue(queue.clone());
        Self::new(&Name::default(), &destination, queue, &[])
    }
}

/// The destination of a binding, resolved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResolvedDestination {
    /// A queue, by its id.
    Queue(QueueId),
    /// An exchange, by its id.
    Exchange(ExchangeId),
}

/// Destinations in order, each with the number of bindings that lead there (they differ in
/// arguments). Nearly always there is one, so that one costs no allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Places {
    /// A single destination, and how many bindings lead to it.
    One(ResolvedDestination, u32),
    /// Two or more destinations (or none), each with its number of bindings.
    Many(BTreeMap<ResolvedDestination, u32>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Many(BTreeMap::new())
    }
}

impl Places {
    /// Counts one more binding to this destination.
    pub fn add(&mut self, place: ResolvedDestination) {
        match self {
            Self::One(only, bindings) if *only == place => *bindings += 1,
            Self::One(only, bindings) => {
                *self = Self::Many(BTreeMap::from([(*only, *bindings), (place, 1)]));
            }
            Self::Many(places) if places.is_empty() => *self = Self::One(place, 1),
            Self::Many(places) => *places.entry(place).or_insert(0) += 1,
        }
    }

    /// Counts one binding less to this destination; whether no destination is left.
    pub fn remove(&mut self, place: ResolvedDestination) -> bool {
        let left = match self {
            Self::One(only, bindings) if *only == place => {
                uncount!(*bindings, 1, "a binding to a place was counted");
                *bindings > 0
            }
            Self::One(..) => true,
            Self::Many(places) => {
                if let Some(bindings) = places.get_mut(&place) {
                    uncount!(*bindings, 1, "a binding to a place was counted");
                    if *bindings == 0 {
                        places.remove(&place);
                    }
                }
                !places.is_empty()
            }
        };
        if !left {
            *self = Self::default();
        }
        !left
    }

    /// Visits each destination once, in order, until `visit` breaks off.
    pub fn try_for_each(
        &self,
        mut visit: impl FnMut(ResolvedDestination) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Self::One(place, _) => visit(*place),
            Self::Many(places) => places.keys().copied().try_for_each(visit),
        }
    }

    /// Whether there is no destination.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Many(places) if places.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_stays_until_its_last_binding_goes() {
        let (a, b) = (
            ResolvedDestination::Queue(QueueId(1)),
            ResolvedDestination::Exchange(ExchangeId(1)),
        );
        let listed = |places: &Places| {
            let mut list = Vec::new();
            let whole = places.try_for_each(|place| {
                list.push(place);
                ControlFlow::Continue(())
            });
            assert!(whole.is_continue());
            list
        };
        let mut places = Places::default();
        places.add(a);
        places.add(a);
        assert_eq!(listed(&places), [a]);
        places.add(b);
        assert_eq!(listed(&places), [a, b]);
        assert!(!places.remove(a));
        assert_eq!(listed(&places), [a, b]);
        assert!(!places.remove(a));
        assert_eq!(listed(&places), [b]);
        assert!(places.remove(b));
        assert!(places.is_empty());
        assert!(
            places.remove(b),
            "removing what is not there changes nothing"
        );
    }
}
