//! Conversion of AMQP values to JSON and back.
//!
//! Recursion follows values whose depth was bounded when they were decoded
//! (`limits::VALUE_DEPTH_MAX`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value as Json, json};

use crate::base::Name;
use crate::base::limits::VALUE_DEPTH_MAX;
use crate::filter::uuid_text;
use crate::wire::Value;

/// Converts a value to JSON: texts and symbols to texts, numbers to numbers while JSON has them,
/// maps to objects, arrays and lists to arrays, binary to base64. Types without a form in JSON
/// become texts; a described value becomes the value without its descriptor.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => json!(truth),
        Value::Ubyte(n) => json!(n),
        Value::Ushort(n) => json!(n),
        Value::Uint(n) => json!(n),
        Value::Ulong(n) => json!(n),
        Value::Byte(n) => json!(n),
        Value::Short(n) => json!(n),
        Value::Int(n) => json!(n),
        Value::Long(n) => json!(n),
        Value::String(text) | Value::Symbol(text) => json!(text),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Array(array) => array.elements().iter().map(to_json).collect(),
        Value::Map(pairs) => {
            let pairs = pairs.iter();
            let fields = pairs.map(|(key, value)| (key_text(key), to_json(value)));
            Json::Object(fields.collect())
        }
        other => scalar(other),
    }
}

/// Converts arguments to an object.
pub fn arguments(arguments: &[(Name, Value)]) -> Json {
    let fields = arguments.iter();
    let fields = fields.map(|(name, value)| (name.to_string(), to_json(value)));
    Json::Object(fields.collect::<Map<String, Json>>())
}

/// Converts JSON to a value: integers to long, other numbers to double, texts to string (as
/// RabbitMQ).
///
/// Errors: deeper than `limits::VALUE_DEPTH_MAX`, or an integer beyond 64 bits.
pub fn from_json(json: &Json) -> Result<Value, &'static str> {
    from_json_within(json, VALUE_DEPTH_MAX)
}

fn from_json_within(json: &Json, depth: usize) -> Result<Value, &'static str> {
    let Some(below) = depth.checked_sub(1) else {
        return Err("this is nested too deeply");
    };
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::String(text) => Value::String(text.clone()),
        Json::Number(number) => self::number(number)?,
        Json::Array(items) => {
            let items = items.iter().map(|item| from_json_within(item, below));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Json::Object(fields) => {
            let pairs = fields
                .iter()
                .map(|(key, value)| Ok((Value::string(key), from_json_within(value, below)?)));
            Value::Map(pairs.collect::<Result<_, &'static str>>()?)
        }
    })
}

fn number(number: &Number) -> Result<Value, &'static str> {
    if let Some(number) = number.as_i64() {
        return Ok(Value::Long(number));
    }
    if number.is_u64() {
        return Err("this number is beyond 64 bits");
    }
    let double = number.as_f64().unwrap_or(f64::NAN);
    Ok(Value::Double(double.to_bits()))
}

fn key_text(key: &Value) -> String {
    match to_json(key) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

fn scalar(value: &Value) -> Json {
    match value {
        Value::Float(bits) => json!(f32::from_bits(*bits)),
        Value::Double(bits) => json!(f64::from_bits(*bits)),
        Value::Timestamp(ms) => json!(ms),
        Value::Char(code) => char::from_u32(*code).map_or_else(|| json!(code), |c| json!(c)),
        Value::Uuid(bytes) => json!(uuid_text(bytes)),
        Value::Binary(bytes) => json!(STANDARD.encode(bytes)),
        Value::Described(described) => to_json(&described.1),
        other => json!(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_becomes_the_types_that_rabbitmq_takes_it_for() {
        let check = |text: &str, expect: Value| {
            let json: Json = serde_json::from_str(text).unwrap();
            assert_eq!(from_json(&json), Ok(expect), "{text}");
        };
        check("5", Value::Long(5));
        check("-1", Value::Long(-1));
        check("0.5", Value::Double(0.5_f64.to_bits()));
        check("\"a\"", Value::string("a"));
        check("[1]", Value::List(vec![Value::Long(1)]));
        check(
            r#"{"k":true}"#,
            Value::Map(vec![(Value::string("k"), Value::Bool(true))]),
        );
    }

    #[test]
    fn what_is_too_deep_or_too_large_is_refused() {
        let nested = |depth: usize| -> Json {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            serde_json::from_str(&text).unwrap()
        };
        assert!(from_json(&nested(32)).is_ok());
        assert!(from_json(&nested(33)).is_err());
        assert!(from_json(&json!(u64::MAX)).is_err());
    }

    #[test]
    fn every_type_has_a_form_in_json() {
        let check = |value: Value, expect: Json| assert_eq!(to_json(&value), expect, "{value}");
        check(Value::Null, Json::Null);
        check(Value::symbol("s"), json!("s"));
        check(Value::Ulong(u64::MAX), json!(u64::MAX));
        check(Value::Timestamp(5), json!(5));
        check(Value::Char(0x41), json!("A"));
        check(Value::Double(f64::NAN.to_bits()), Json::Null);
        check(Value::Binary(vec![1, 2].into()), json!("AQI="));
        check(
            Value::Uuid([0x11; 16]),
            json!("11111111-1111-1111-1111-111111111111"),
        );
        let pair = (Value::symbol("d"), Value::Uint(1));
        check(Value::Described(Box::new(pair)), json!(1));
        check(
            Value::Map(vec![(Value::Ulong(1), Value::Bool(true))]),
            json!({"1": true}),
        );
    }
}
