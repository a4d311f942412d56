//! One binding: what leads from an exchange to a queue or to another exchange.

use crate::base::Name;
use crate::wire::Value;

use super::Destination;

/// A binding; two with different arguments are two bindings.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Binding {
    /// The exchange that messages come from.
    pub source: Name,
    /// Where they go.
    pub destination: Destination,
    /// The key (or the pattern, on a topic exchange).
    pub key: Name,
    /// Arguments in the types that are echoed back, sorted by name.
    pub arguments: Vec<(Name, Value)>,
}
