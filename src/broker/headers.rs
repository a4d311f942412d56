//! Matching of headers exchanges.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::Name;
use crate::message::Message;
use crate::wire::Value;

use super::argument_value::{find, integer, show, text};
use super::binding::{Binding, Place};

/// What a headers exchange looks at in a message.
pub trait Attributes {
    /// An application property. [AMQP 3.2.5]
    fn application_property(&self, key: &str) -> Option<Value>;
    /// A message annotation, those of the latest death included. [AMQP 3.2.3]
    fn annotation(&self, key: &str) -> Option<Value>;
}

impl Attributes for Message {
    fn application_property(&self, key: &str) -> Option<Value> {
        Self::application_property(self, key)
    }

    fn annotation(&self, key: &str) -> Option<Value> {
        Self::annotation(self, key)
    }
}

/// A message without any.
#[derive(Clone, Copy, Debug)]
pub struct NoAttributes;

impl Attributes for NoAttributes {
    fn application_property(&self, _: &str) -> Option<Value> {
        None
    }

    fn annotation(&self, _: &str) -> Option<Value> {
        None
    }
}

/// How many of a binding's arguments must be found, and whether those that begin with `x-` count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XMatch {
    /// All; names beginning with `x-` are not looked at. The default.
    All,
    /// One; names beginning with `x-` are not looked at.
    Any,
    /// All; names may also be those of message annotations.
    AllWithX,
    /// One; names may also be those of message annotations.
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

    /// Reads the argument `x-match` of a binding; the error says which words are right.
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
#[derive(Debug, Default)]
pub struct HeadersTable {
    bindings: BTreeMap<Arc<Binding>, (XMatch, Place)>,
}

impl HeadersTable {
    /// Adds a binding.
    pub fn add(&mut self, binding: Arc<Binding>, place: Place) {
        // Bindings are checked before they come here; a word that is none would be the default.
        let x_match = XMatch::read(&binding.arguments).unwrap_or(XMatch::All);
        self.bindings.insert(binding, (x_match, place));
    }

    /// Removes a binding.
    pub fn remove(&mut self, binding: &Binding) {
        self.bindings.remove(binding);
    }

    /// Every place whose binding matches; a place may come more than once.
    pub fn matching(&self, attributes: &impl Attributes, mut visit: impl FnMut(Place)) {
        let mut looked_up = LookedUp {
            attributes,
            found: BTreeMap::new(),
        };
        for (binding, (x_match, place)) in &self.bindings {
            if matches(*x_match, &binding.arguments, &mut looked_up) {
                visit(*place);
            }
        }
    }
}

/// Attributes, each searched for once however many bindings ask.
struct LookedUp<'a, A> {
    attributes: &'a A,
    found: BTreeMap<(&'a str, bool), Option<Value>>,
}

impl<'a, A: Attributes> LookedUp<'a, A> {
    fn value(&mut self, name: &'a str, with_x: bool) -> Option<&Value> {
        let attributes = self.attributes;
        let found = self.found.entry((name, with_x)).or_insert_with(|| {
            let property = attributes.application_property(name);
            property.or_else(|| attributes.annotation(name).filter(|_| with_x))
        });
        found.as_ref()
    }
}

fn matches<'a, A: Attributes>(
    x_match: XMatch,
    arguments: &'a [(Name, Value)],
    attributes: &mut LookedUp<'a, A>,
) -> bool {
    let mut relevant = arguments
        .iter()
        .filter(|(name, _)| name != X_MATCH && (x_match.with_x() || !name.starts_with("x-")));
    let mut is_there = |(name, wanted): &'a (Name, Value)| {
        let found = attributes.value(name, x_match.with_x());
        found.is_some_and(|found| *wanted == Value::Null || equal(wanted, found))
    };
    if x_match.any() {
        relevant.any(is_there)
    } else {
        relevant.all(&mut is_there)
    }
}

/// Whether a header has the value that a binding asks for: numbers of any width are equal by number,
/// strings, symbols and binaries by their bytes, all else exactly.
fn equal(wanted: &Value, found: &Value) -> bool {
    if let (Some(wanted), Some(found)) = (number(wanted), number(found)) {
        return wanted == found;
    }
    match (bytes(wanted), bytes(found)) {
        (Some(wanted), Some(found)) => wanted == found,
        _ => wanted == found,
    }
}

fn number(value: &Value) -> Option<i128> {
    match value {
        Value::Timestamp(ms) => Some((*ms).into()),
        other => integer(other),
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Binary(bytes) => Some(bytes),
        other => text(other).map(str::as_bytes),
    }
}

const X_MATCH: &str = "x-match";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::QueueId;
    use crate::broker::Destination;

    /// Application properties and annotations.
    struct Given(Vec<(&'static str, Value)>, Vec<(&'static str, Value)>);

    impl Attributes for Given {
        fn application_property(&self, key: &str) -> Option<Value> {
            let found = self.0.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| value.clone())
        }

        fn annotation(&self, key: &str) -> Option<Value> {
            let found = self.1.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| value.clone())
        }
    }

    fn string(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    fn check(arguments: &[(&'static str, Value)], expect: bool) {
        let message = Given(
            vec![
                ("kind", string("a")),
                ("n", Value::Uint(3)),
                ("x-p", Value::Bool(true)),
            ],
            vec![
                ("x-first-death-queue", string("src")),
                ("kind", string("hidden")),
            ],
        );
        let named = arguments
            .iter()
            .map(|(name, value)| (Name::from(*name), value.clone()));
        let binding = Binding {
            source: Name::from("hx"),
            destination: Destination::Queue(Name::from("q")),
            key: Name::default(),
            arguments: named.collect(),
        };
        let mut table = HeadersTable::default();
        table.add(Arc::new(binding.clone()), Place::Queue(QueueId(1)));
        let mut matched = false;
        table.matching(&message, |_| matched = true);
        assert_eq!(matched, expect, "{arguments:?}");
        table.remove(&binding);
        table.matching(&message, |_| panic!("removed"));
    }

    #[test]
    fn headers_match_as_x_match_says() {
        let (a, b) = (("kind", string("a")), ("kind", string("b")));
        let n = ("n", Value::Long(3));
        let x_match = |word: &str| ("x-match", string(word));
        let death = ("x-first-death-queue", string("src"));
        check(&[], true);
        check(std::slice::from_ref(&a), true);
        check(&[a.clone(), n.clone()], true);
        check(&[b.clone(), n.clone()], false);
        check(&[x_match("any"), b.clone(), n.clone()], true);
        check(&[x_match("any"), b.clone()], false);
        check(&[x_match("any")], false);
        check(&[x_match("all"), a.clone(), death.clone()], true);
        check(&[x_match("any"), death.clone()], false);
        check(&[x_match("any-with-x"), death.clone()], true);
        check(&[x_match("all-with-x"), a.clone(), death.clone()], true);
        check(
            &[x_match("all-with-x"), a, ("x-other", string("src"))],
            false,
        );
        check(&[x_match("all-with-x"), death, b], false);
        check(&[x_match("any-with-x"), ("x-p", Value::Bool(true))], true);
    }

    #[test]
    fn values_are_equal_across_widths_and_text_types_only() {
        check(&[("n", Value::Ubyte(3))], true);
        check(&[("n", Value::Ubyte(4))], false);
        check(&[("n", string("3"))], false);
        check(&[("n", Value::Double(3.0_f64.to_bits()))], false);
        check(&[("n", Value::Null)], true);
        check(&[("absent", Value::Null)], false);
        check(&[("kind", Value::Symbol("a".to_owned()))], true);
        check(
            &[("kind", Value::Binary(bytes::Bytes::from_static(b"a")))],
            true,
        );
    }

    #[test]
    fn other_words_for_x_match_are_refused() {
        let read = |value| XMatch::read(&[(Name::from("x-match"), value)]);
        assert_eq!(read(string("all-with-x")), Ok(XMatch::AllWithX));
        assert!(read(string("some")).is_err());
        assert!(read(Value::Uint(1)).is_err());
        assert_eq!(XMatch::read(&[]), Ok(XMatch::All));
    }
}
