//! Argument values: reading, comparing, showing in errors, and converting to the types RabbitMQ
//! echoes.
//!
//! Recursion follows values whose depth was bounded when they were decoded
//! (`limits::VALUE_DEPTH_MAX`).

use super::Error;
use crate::base::limits::ARGUMENTS_BYTES_MAX;
use crate::base::{Name, shared_text_bytes};
use crate::wire::Value;

/// The text of a string or symbol.
pub fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) | Value::Symbol(text) => Some(text),
        _ => None,
    }
}

/// The number of an integer of any width.
pub fn integer(value: &Value) -> Option<i128> {
    Some(match *value {
        Value::Ubyte(n) => n.into(),
        Value::Ushort(n) => n.into(),
        Value::Uint(n) => n.into(),
        Value::Ulong(n) => n.into(),
        Value::Byte(n) => n.into(),
        Value::Short(n) => n.into(),
        Value::Int(n) => n.into(),
        Value::Long(n) => n.into(),
        _ => return None,
    })
}

/// Whether two values mean the same: integers by number, texts by text, all else exactly.
pub fn same(a: &Value, b: &Value) -> bool {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => return a == b,
        (None, None) => {}
        _ => return false,
    }
    match (text(a), text(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// The value as an error text shows it; a long text is cut after 64 characters.
pub fn show(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "none".to_owned();
    };
    if let Some(number) = integer(value) {
        return number.to_string();
    }
    if let Some(text) = text(value) {
        let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        return format!("'{shown}'");
    }
    match value {
        Value::Bool(truth) => truth.to_string(),
        other => format!("a value of type {}", other.kind()),
    }
}

/// Characters of a text that an error repeats at most; the rest is cut.
const SHOWN_CHARS_MAX: usize = 64;

/// Converts a value to the types that RabbitMQ echoes: ulong becomes long (while it fits), symbol
/// becomes string, the text keys of maps become symbols.
pub fn echoed(value: &Value) -> Value {
    match value {
        Value::Ulong(n) => i64::try_from(*n).map_or(Value::Ulong(*n), Value::Long),
        Value::Symbol(text) => Value::String(text.clone()),
        Value::List(items) => Value::List(items.iter().map(echoed).collect()),
        Value::Map(pairs) => Value::Map(
            pairs
                .iter()
                .map(|(key, value)| (map_key(key), echoed(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn map_key(key: &Value) -> Value {
    text(key).map_or_else(|| echoed(key), |text| Value::Symbol(text.to_owned()))
}

/// Converts arguments to the types that are echoed, in the order given.
pub fn echoed_arguments(given: &[(Name, Value)]) -> Vec<(Name, Value)> {
    given
        .iter()
        .map(|(name, value)| (name.clone(), echoed(value)))
        .collect()
}

/// Estimates the size of arguments in bytes, as `limits::ARGUMENTS_BYTES_MAX` counts. Counting
/// stops a little beyond that limit.
pub fn weight(arguments: &[(Name, Value)]) -> usize {
    let mut bytes = 0;
    for (name, value) in arguments {
        bytes += VALUE_BYTES + name.len();
        add_weight(value, &mut bytes);
        if bytes > ARGUMENTS_BYTES_MAX {
            break;
        }
    }
    bytes
}

/// Estimates the memory that arguments take while they are kept, in bytes.
pub fn kept_bytes(arguments: &[(Name, Value)]) -> u64 {
    let pair = size_of::<(Name, Value)>() as u64;
    let each = arguments.iter().map(|(name, value)| {
        pair + shared_text_bytes(name.len()) + value_bytes(value).next_multiple_of(16)
    });
    each.sum()
}

/// Estimates the heap memory of a value, without the `Value` itself, in bytes.
pub fn value_bytes(value: &Value) -> u64 {
    let item = size_of::<Value>() as u64;
    match value {
        Value::String(text) | Value::Symbol(text) => text.len() as u64,
        Value::Binary(binary) => binary.len() as u64,
        Value::List(items) => items.iter().map(|it| item + value_bytes(it)).sum(),
        Value::Array(array) => {
            let elements = array.elements().iter();
            elements.map(|it| item + value_bytes(it)).sum()
        }
        Value::Map(pairs) => {
            let pairs = pairs.iter();
            let each = pairs.map(|(key, it)| 2 * item + value_bytes(key) + value_bytes(it));
            each.sum()
        }
        _ => 0,
    }
}

/// Checks that arguments are small enough to be copied often.
///
/// Errors: [`Error::BadRequest`].
pub fn check_weight(arguments: &[(Name, Value)]) -> Result<(), Error> {
    if weight(arguments) <= ARGUMENTS_BYTES_MAX {
        return Ok(());
    }
    let why = format!("the arguments have more than {ARGUMENTS_BYTES_MAX} bytes together");
    Err(Error::BadRequest { why })
}

fn add_weight(value: &Value, bytes: &mut usize) {
    *bytes += VALUE_BYTES;
    if *bytes > ARGUMENTS_BYTES_MAX {
        return;
    }
    match value {
        Value::String(text) | Value::Symbol(text) => *bytes += text.len(),
        Value::Binary(binary) => *bytes += binary.len(),
        Value::List(items) => items.iter().for_each(|item| add_weight(item, bytes)),
        Value::Array(array) => {
            let elements = array.elements().iter();
            elements.for_each(|item| add_weight(item, bytes));
        }
        Value::Map(pairs) => pairs.iter().for_each(|(key, value)| {
            add_weight(key, bytes);
            add_weight(value, bytes);
        }),
        Value::Described(described) => {
            add_weight(&described.0, bytes);
            add_weight(&described.1, bytes);
        }
        _ => {}
    }
}

/// Bytes that a name or value counts in addition to its text.
const VALUE_BYTES: usize = 8;

/// The argument of this name.
pub fn find<'a>(arguments: &'a [(Name, Value)], name: &str) -> Option<&'a Value> {
    arguments
        .iter()
        .find_map(|(key, value)| (key == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    #[test]
    fn integers_of_any_width_and_texts_of_both_types_are_the_same() {
        assert!(same(&Value::Ubyte(5), &Value::Long(5)));
        assert!(same(&Value::Symbol("a".to_owned()), &string("a")));
        assert!(!same(&Value::Int(-1), &Value::Ulong(u64::MAX)));
        assert!(!same(&Value::Uint(1), &string("1")));
        assert!(!same(&Value::Bool(true), &Value::Uint(1)));
    }

    #[test]
    fn arguments_have_a_bound_in_bytes_and_in_values() {
        let check = |value: Value, fits: bool| {
            let arguments = [(Name::from("a"), value)];
            assert_eq!(check_weight(&arguments).is_ok(), fits);
        };
        check(string(&"t".repeat(32_000)), true);
        check(string(&"t".repeat(33_000)), false);
        check(Value::List(vec![Value::Null; 4_000]), true);
        check(Value::List(vec![Value::Null; 5_000]), false);
        let pairs = vec![(Value::Uint(1), string(&"t".repeat(400))); 100];
        check(Value::Map(pairs), false);
        let many = vec![(Name::from("a"), Value::Null); 10_000];
        assert!(check_weight(&many).is_err());
    }

    #[test]
    fn values_are_shown_in_few_words() {
        let check = |value: Value, expect: &str| assert_eq!(show(Some(&value)), expect);
        check(Value::Ubyte(5), "5");
        check(string("a"), "'a'");
        check(Value::Bool(true), "true");
        check(Value::List(Vec::new()), "a value of type list");
        check(
            string(&"\u{e4}".repeat(100)),
            &format!("'{}...'", "\u{e4}".repeat(64)),
        );
        assert_eq!(show(None), "none");
    }

    #[test]
    fn values_are_echoed_in_the_types_of_the_recordings() {
        let given = Value::Map(vec![(string("k"), Value::Ulong(1))]);
        let echo = Value::Map(vec![(Value::Symbol("k".to_owned()), Value::Long(1))]);
        assert_eq!(echoed(&given), echo);
        assert_eq!(echoed(&Value::Symbol("s".to_owned())), string("s"));
        assert_eq!(echoed(&Value::Ulong(u64::MAX)), Value::Ulong(u64::MAX));
        assert_eq!(echoed(&Value::Ubyte(5)), Value::Ubyte(5));
        let list = Value::List(vec![Value::Uint(1), string("z")]);
        assert_eq!(echoed(&list), list);
    }
}
