//! Conversion between the client's values and JSON: input becomes a value, a received value is
//! shown.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fe2o3_amqp::types::messaging::annotations::OwnedKey;
use fe2o3_amqp::types::primitives::{OrderedMap, Symbol, Value};
use serde_json::{Map, Value as Json, json};

use crate::cli::exit::Failure;
use crate::filter::uuid_text;

/// Depth of nested values that is shown: as deep as the broker accepts them.
const DEPTH_MAX: usize = 32;

/// Parses `name=text` or `name:=JSON`: text, or a number, a boolean, null.
pub(super) fn pair(text: &str) -> Result<(String, Value), Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!("'{text}' {why}")).advise("write NAME=TEXT or NAME:=NUMBER")
    };
    let (name, value) = text.split_once('=').ok_or_else(|| wrong("has no '='"))?;
    let Some(name) = name.strip_suffix(':') else {
        return Ok((name.to_owned(), Value::String(value.to_owned())));
    };
    let json: Json = serde_json::from_str(value).map_err(|_| wrong("has no JSON behind ':='"))?;
    let value = match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::String(value) => Value::String(value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Long(whole),
            (None, Some(real)) => Value::Double(real.into()),
            (None, None) => return Err(wrong("is no number of 64 bits")),
        },
        Json::Array(_) | Json::Object(_) => return Err(wrong("is a list or an object")),
    };
    Ok((name.to_owned(), value))
}

/// A value as JSON. Types that JSON does not have become text: binary as Base64, times as
/// milliseconds since 1970.
pub(super) fn json(value: &Value) -> Json {
    nested(value, DEPTH_MAX)
}

fn nested(value: &Value, depth: usize) -> Json {
    let Some(below) = depth.checked_sub(1) else {
        return json!("...");
    };
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Ubyte(value) => json!(value),
        Value::Ushort(value) => json!(value),
        Value::Uint(value) => json!(value),
        Value::Ulong(value) => json!(value),
        Value::Byte(value) => json!(value),
        Value::Short(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Long(value) => json!(value),
        Value::Float(value) => json!(value.into_inner()),
        Value::Double(value) => json!(value.into_inner()),
        Value::Char(value) => json!(value.to_string()),
        Value::Timestamp(value) => json!(value.milliseconds()),
        Value::Uuid(value) => json!(uuid_text(value.as_inner())),
        Value::Binary(value) => json!(BASE64_STANDARD.encode(value)),
        Value::String(value) => json!(value),
        Value::Symbol(value) => json!(value.as_str()),
        Value::List(values) => values.iter().map(|value| nested(value, below)).collect(),
        Value::Array(values) => values.0.iter().map(|value| nested(value, below)).collect(),
        Value::Map(entries) => entries_as_json(entries, below),
        Value::Described(described) => nested(&described.value, below),
        Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => json!("(decimal)"),
    }
}

fn entries_as_json(entries: &OrderedMap<Value, Value>, depth: usize) -> Json {
    let entry = |(name, value): (&Value, &Value)| (name_of(name), nested(value, depth));
    Json::Object(entries.iter().map(entry).collect::<Map<_, _>>())
}

fn name_of(key: &Value) -> String {
    match json(key) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

/// Annotations as a JSON object.
pub(super) fn annotations<'a>(
    entries: impl Iterator<Item = (&'a OwnedKey, &'a Value)>,
) -> Map<String, Json> {
    let name = |key: &OwnedKey| match key {
        OwnedKey::Symbol(symbol) => symbol.as_str().to_owned(),
        OwnedKey::Ulong(number) => number.to_string(),
    };
    entries
        .map(|(key, value)| (name(key), json(value)))
        .collect()
}

/// The key of an annotation.
pub(super) fn annotation_key(name: String) -> OwnedKey {
    OwnedKey::Symbol(Symbol::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_text_unless_json_is_asked_for() {
        let check = |text: &str, value: Value| assert_eq!(pair(text).unwrap().1, value, "{text}");
        check("a=5", Value::String("5".into()));
        check("a:=5", Value::Long(5));
        check("a:=1.5", Value::Double(1.5.into()));
        check("a:=true", Value::Bool(true));
        check("a=b=c", Value::String("b=c".into()));
        assert_eq!(pair("x:=1").unwrap().0, "x");
        for text in ["a", "a:=x", "a:=[1]"] {
            assert!(pair(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_become_json() {
        let check = |value: Value, expected: Json| assert_eq!(json(&value), expected);
        check(Value::Ulong(u64::MAX), json!(u64::MAX));
        check(Value::Binary(vec![1, 2].into()), json!("AQI="));
        check(Value::Symbol("s".into()), json!("s"));
        let mut deep = Value::Null;
        for _ in 0..100 {
            deep = Value::List(vec![deep]);
        }
        assert!(json(&deep).to_string().contains("..."));
    }
}
