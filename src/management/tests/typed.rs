//! The typed JSON of the recordings as values, and messages from their sections.

use serde_json::Value as Json;

use crate::wire::{
    Array, PropertyField, SectionKind, Value, ValueKind, encode_value, write_descriptor,
};

/// Reads `{"t": type, "v": value}`.
pub(super) fn value(json: &Json) -> Value {
    let v = &json["v"];
    let list = || v.as_array().unwrap().iter();
    match json["t"].as_str().unwrap() {
        "null" => Value::Null,
        "boolean" => Value::Bool(v.as_bool().unwrap()),
        "ubyte" => Value::Ubyte(number(v)),
        "uint" => Value::Uint(number(v)),
        "ulong" => Value::Ulong(v.as_u64().unwrap()),
        "int" => Value::Int(number(v)),
        "long" => Value::Long(v.as_i64().unwrap()),
        "double" => Value::Double(v.as_f64().unwrap().to_bits()),
        "string" => Value::string(v.as_str().unwrap()),
        "symbol" => Value::symbol(v.as_str().unwrap()),
        "binary" => Value::Binary(bytes(v.as_str().unwrap()).into()),
        "uuid" => {
            let digits = v.as_str().unwrap().replace('-', "");
            Value::Uuid(bytes(&digits).try_into().unwrap())
        }
        "list" => Value::List(list().map(value).collect()),
        "map" => Value::Map(
            list()
                .map(|pair| (value(&pair[0]), value(&pair[1])))
                .collect(),
        ),
        "array" if json["of"] == "string" => {
            let elements = list().map(value).collect();
            Value::Array(Array::new(ValueKind::String, elements).unwrap())
        }
        other => panic!("type {other} in {json}"),
    }
}

fn number<T: TryFrom<i64>>(json: &Json) -> T {
    T::try_from(json.as_i64().unwrap()).ok().unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// The message with these sections.
pub(super) fn message(sections: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    let mut section = |kind: SectionKind, value: &Value| {
        write_descriptor(&mut out, kind.code());
        encode_value(value, &mut out);
    };
    if let Some(header) = sections.get("header") {
        section(
            SectionKind::Header,
            &Value::List(vec![value(&header["durable"])]),
        );
    }
    if let Some(properties) = sections.get("properties") {
        let field = |name: &str| properties.get(name).map_or(Value::Null, value);
        let mut fields = vec![Value::Null; PropertyField::ReplyTo as usize + 1];
        fields[PropertyField::MessageId as usize] = field("message-id");
        fields[PropertyField::To as usize] = field("to");
        fields[PropertyField::Subject as usize] = field("subject");
        fields[PropertyField::ReplyTo as usize] = field("reply-to");
        section(SectionKind::Properties, &Value::List(fields));
    }
    if let Some(pairs) = sections.get("application-properties") {
        let map = serde_json::json!({"t": "map", "v": pairs});
        section(SectionKind::ApplicationProperties, &value(&map));
    }
    for part in sections["body"].as_array().unwrap() {
        let kind = match part["section"].as_str().unwrap() {
            "data" => SectionKind::Data,
            "amqp-value" => SectionKind::Value,
            other => panic!("section {other}"),
        };
        section(kind, &value(&part["value"]));
    }
    out
}
