//! Claims about reading and writing filters.

use proptest::prelude::*;
use rstest::rstest;

use super::{filter, texts};
use crate::base::limits::{FILTER_VALUE_BYTES_MAX, FILTER_VALUES_MAX};
use crate::search::{DeathFilter, PARTS};
use crate::wire::Value;

fn refused(parts: &[(&str, Value)]) -> String {
    let parts = parts.iter().map(|(name, value)| (*name, value));
    DeathFilter::of_parts(parts).unwrap_err().to_string()
}

#[rstest]
#[case("conditon", texts(&["x"]), "has no part 'conditon'; it may have reason, queue, condition")]
#[case("reason", texts(&["died"]), "'reason' cannot be 'died'; it may be rejected, expired, maxlen")]
#[case("cause", texts(&["x"]), "'cause' cannot be 'x'; it may be no_dead_letter_exchange")]
#[case("group", texts(&["1:9C2E41AA"]), "'group' cannot be '1:9C2E41AA'; a group is '1:' and 8")]
#[case("queue", Value::Long(5), "'queue' must be a list of texts, not long 5")]
#[case("position", texts(&["-1"]), "'position' must be a list of positions")]
#[case(
    "died_after",
    Value::string("today"),
    "'died_after' must be a number of milliseconds"
)]
#[case(
    "redriven",
    Value::string("yes"),
    "'redriven' must be true or false, not string 'yes'"
)]
#[case(
    "selector",
    Value::string("kind ="),
    "'selector' is no selector: expected"
)]
#[case("position", Value::Null, "'position' is null: leave it out")]
#[case(
    "position",
    Value::List(Vec::new()),
    "'position' is an empty list: no message can have one of its values"
)]
#[case(
    "body_contains",
    Value::string(""),
    "'body_contains' must not be empty"
)]
fn a_bad_part_is_refused_by_name(#[case] part: &str, #[case] value: Value, #[case] expected: &str) {
    let error = refused(&[(part, value)]);
    assert!(error.contains(expected), "{error}");
}

#[test]
fn the_bounds_of_a_filter_are_told() {
    let many = Value::List(vec![Value::string("x"); FILTER_VALUES_MAX + 1]);
    let error = refused(&[("queue", many)]);
    assert_eq!(
        error,
        "the filter's 'queue' has 257 values, at most 256 are allowed"
    );
    let long = Value::string("x".repeat(FILTER_VALUE_BYTES_MAX + 1));
    let error = refused(&[("container", long)]);
    assert!(
        error.contains("'container' has a value of 1025 bytes, at most 1024"),
        "{error}"
    );
    let full = Value::List(vec![Value::string("x".repeat(1_000)); 40]);
    let error = refused(&[("queue", full.clone()), ("exchange", full)]);
    assert!(
        error.contains("together, at most 65536 are allowed"),
        "{error}"
    );
    let error = refused(&[
        ("died_after", Value::Long(5)),
        ("died_before", Value::Long(5)),
    ]);
    assert!(
        error.contains("no death is after 5 and before 5"),
        "{error}"
    );
    let error = refused(&[("queue", texts(&["a"])), ("queue", texts(&["a"]))]);
    assert_eq!(error, "the filter has the part 'queue' twice");
}

#[test]
fn equal_filters_are_written_alike() {
    let one = filter(&[
        (
            "position",
            Value::List(vec![Value::Ulong(5), Value::string("3"), Value::Long(5)]),
        ),
        ("reason", texts(&["maxlen", "rejected"])),
        ("queue", Value::string("b")),
    ]);
    let other = filter(&[
        ("reason", texts(&["rejected", "maxlen", "rejected"])),
        ("queue", texts(&["b"])),
        (
            "position",
            Value::List(vec![Value::Ulong(3), Value::Ulong(5)]),
        ),
    ]);
    assert_eq!(one, other);
    assert_eq!(one.value(), other.value());
    assert_eq!(one.positions(), Some(&[3, 5][..]));
    assert!(!one.is_empty());
    assert!(filter(&[]).is_empty());
    let names: Vec<&str> = one.parts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["reason", "queue", "position"]);
}

/// Any value that each part may have.
fn given() -> impl Strategy<Value = Vec<Value>> {
    let list = || prop::collection::vec("[a-z.]{0,6}", 1..4);
    let names = prop::collection::vec(list(), 8);
    let numbers = prop::collection::vec(any::<u64>(), 1..4);
    (names, numbers, 0..50_i64, any::<bool>()).prop_map(|(names, numbers, at, redriven)| {
        let names: Vec<Value> = names
            .into_iter()
            .map(|names| Value::List(names.into_iter().map(Value::String).collect()))
            .collect();
        let [queue, condition, container, user, exchange, key, id, _] = names.try_into().unwrap();
        vec![
            texts(&["expired", "delivery_limit"]),
            queue,
            condition,
            texts(&["1:0123abcd", "none"]),
            container,
            user,
            texts(&["cycle", "none"]),
            exchange,
            key,
            id,
            Value::List(numbers.into_iter().map(Value::Ulong).collect()),
            Value::Long(at),
            Value::Long(at + 1),
            Value::Bool(redriven),
            Value::string("a = 1"),
            Value::string("x"),
        ]
    })
}

proptest! {
    #[test]
    fn a_filter_is_read_as_it_was_written(values in given(), wanted in any::<u16>()) {
        let parts = PARTS.into_iter().zip(&values).enumerate();
        let parts = parts.filter(|(place, _)| wanted & (1 << place) != 0);
        let read = DeathFilter::of_parts(parts.map(|(_, part)| part)).unwrap();
        prop_assert_eq!(DeathFilter::of_value(&read.value()).unwrap(), read);
    }
}
