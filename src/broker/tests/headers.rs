//! What headers exchanges find: by cases, as recorded, and against the definition.

use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::base::{QueueId, Steps};
use crate::broker::Destination;

/// Application properties and annotations.
#[derive(Debug)]
struct Sent(Vec<(&'static str, Value)>, Vec<(&'static str, Value)>);

impl Attributes for Sent {
    fn application_properties<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        mut found: impl FnMut(&'a str, Value),
    ) -> usize {
        let pairs = self.0.iter().filter(|(name, _)| is_wanted(name));
        pairs.for_each(|(name, value)| found(name, value.clone()));
        self.0.len()
    }

    fn annotations<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        mut found: impl FnMut(&'a str, Value),
    ) -> usize {
        let pairs = self.1.iter().filter(|(name, _)| is_wanted(name));
        pairs.for_each(|(name, value)| found(name, value.clone()));
        self.1.len()
    }
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn check(arguments: &[(&'static str, Value)], expect: bool) {
    let message = Sent(
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
    assert_eq!(matched(&message, &[arguments]), [expect], "{arguments:?}");
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

/// What one value wants and another has: as the recordings `more-headers-values-*` say.
#[rstest::rstest]
#[case(Value::Long(5), Value::Timestamp(5), true)]
#[case(Value::Long(97), Value::Char(97), true)]
#[case(Value::Timestamp(5_000), Value::Long(5), true)]
#[case(Value::Timestamp(5_000), Value::Timestamp(5_000), false)]
#[case(Value::Double(1.5_f64.to_bits()), Value::Float(1.5_f32.to_bits()), true)]
#[case(Value::Float(1.5_f32.to_bits()), Value::Double(1.5_f64.to_bits()), true)]
#[case(Value::Double(0.0_f64.to_bits()), Value::Double((-0.0_f64).to_bits()), false)]
#[case(Value::Long(1), Value::Double(1.0_f64.to_bits()), false)]
#[case(Value::Long(1), Value::Bool(true), false)]
#[case(Value::Null, Value::Null, true)]
#[case(Value::Null, Value::Uuid([0; 16]), true)]
fn what_is_wanted_is_compared_by_its_meaning(
    #[case] wanted: Value,
    #[case] found: Value,
    #[case] expect: bool,
) {
    let message = Sent(vec![("p", found)], Vec::new());
    for word in ["all", "any"] {
        let arguments = [("x-match", string(word)), ("p", wanted.clone())];
        assert_eq!(matched(&message, &[&arguments]), [expect], "{arguments:?}");
    }
}

fn binding(number: usize, arguments: &[(&'static str, Value)]) -> Arc<Binding> {
    let named = arguments.iter();
    Arc::new(Binding {
        account: crate::base::Account::default(),
        source: Name::from("hx"),
        destination: Destination::Queue(Name::from(format!("q{number}"))),
        key: Name::default(),
        arguments: named.map(|(n, v)| (Name::from(*n), v.clone())).collect(),
    })
}

/// Which of these bindings a table finds.
fn matched(message: &Sent, bindings: &[&[(&'static str, Value)]]) -> Vec<bool> {
    let mut table = HeadersTable::new(Seed(7));
    for (number, arguments) in bindings.iter().enumerate() {
        let place = ResolvedDestination::Queue(QueueId(number as u64));
        table.add(&binding(number, arguments), place);
    }
    let mut found = vec![false; bindings.len()];
    let whole = table.matching(message, &Steps::default(), |place| match place {
        ResolvedDestination::Queue(QueueId(number)) => {
            found[usize::try_from(number).unwrap()] = true;
            ControlFlow::Continue(())
        }
        ResolvedDestination::Exchange(_) => unreachable!("only queues are bound"),
    });
    assert!(whole.is_continue());
    for (number, arguments) in bindings.iter().enumerate() {
        table.remove(&binding(number, arguments));
    }
    assert!(table.by_pair.is_empty() && table.names.is_empty());
    assert_eq!((table.always.len(), table.with_x), (0, 0));
    found
}

/// Whether a binding matches, by the definition.
fn matches_naively(message: &Sent, arguments: &[(&'static str, Value)]) -> bool {
    let word = arguments.iter().find(|(name, _)| *name == "x-match");
    let word = word.and_then(|(_, word)| text(word)).unwrap_or("all");
    let with_x = word.ends_with("-with-x");
    let mut wanted = arguments
        .iter()
        .filter(|(name, _)| *name != "x-match" && (with_x || !name.starts_with("x-")));
    let has = |(name, wanted): &(&str, Value)| {
        let property = message.0.iter().find(|(key, _)| key == name);
        let annotation = || message.1.iter().find(|(key, _)| with_x && key == name);
        let found = property.or_else(annotation);
        found.is_some_and(|(_, found)| match (wanted, found) {
            (Value::Null, _) => true,
            (Value::Timestamp(ms), found) => found_number(found) == Some((ms / 1000).into()),
            (wanted, found) if found_number(wanted).is_some() => {
                found_number(found) == found_number(wanted)
            }
            (wanted, found) if text(wanted).is_some() => text(found) == text(wanted),
            (wanted, found) => wanted == found,
        })
    };
    if word.starts_with("any") {
        wanted.any(has)
    } else {
        wanted.all(has)
    }
}

fn found_number(value: &Value) -> Option<i128> {
    match value {
        Value::Timestamp(ms) => Some((*ms).into()),
        other => integer(other),
    }
}

const NAMES: [&str; 5] = ["a", "b", "c", "x-a", "x-b"];

fn pairs() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let value = prop_oneof![
        (0..2_u8).prop_map(Value::Ubyte),
        (0..2_i64).prop_map(Value::Long),
        (0..2_i64).prop_map(|s| Value::Timestamp(s * 1000)),
        prop_oneof![Just("s"), Just("t")].prop_map(string),
        Just(Value::Symbol("s".to_owned())),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Null),
    ];
    prop::collection::vec((prop::sample::select(&NAMES[..]), value), 0..4)
}

fn arguments() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let word = prop::option::of(prop::sample::select(&XMatch::ALL[..]));
    (pairs(), word).prop_map(|(mut pairs, word)| {
        pairs.sort_by_key(|(name, _)| *name);
        pairs.dedup_by_key(|(name, _)| *name);
        pairs.extend(word.map(|word| ("x-match", string(word.as_str()))));
        pairs
    })
}

proptest! {
    #[test]
    fn a_table_finds_the_bindings_that_match_and_no_other(
        bindings in prop::collection::vec(arguments(), 0..12),
        properties in pairs(),
        annotations in pairs(),
    ) {
        let message = Sent(properties, annotations);
        let bindings: Vec<_> = bindings.iter().map(Vec::as_slice).collect();
        let naively: Vec<_> =
            bindings.iter().map(|arguments| matches_naively(&message, arguments)).collect();
        prop_assert_eq!(matched(&message, &bindings), naively);
    }
}

#[test]
fn a_message_is_compared_with_few_of_many_bindings() {
    let mut table = HeadersTable::new(Seed(7));
    for number in 0..1_000_u32 {
        let rare = ("id", Value::Uint(number));
        let arguments = [("x-match", string("all")), ("kind", string("a")), rare];
        let binding = binding(number as usize, &arguments);
        table.add(&binding, ResolvedDestination::Queue(QueueId(number.into())));
    }
    let most = table.by_pair.values().map(Candidates::len).max();
    assert!(most < Some(4), "a pair that all share leads to {most:?}");
}

#[test]
fn other_words_for_x_match_are_refused() {
    let read = |value| XMatch::read(&[(Name::from("x-match"), value)]);
    assert_eq!(read(string("all-with-x")), Ok(XMatch::AllWithX));
    assert!(read(string("some")).is_err());
    assert!(read(Value::Uint(1)).is_err());
    assert_eq!(XMatch::read(&[]), Ok(XMatch::All));
}
