//! Bodies of management requests: maps with string keys, every field known by name and type.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::Name;
use crate::broker::Destination;
use crate::wire::Value;

use super::refusal::Refusal;

/// The body of a queue's declaration. Absent fields: durable, not exclusive, not auto-delete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueBody {
    /// The queue survives a restart.
    pub durable: bool,
    /// The queue belongs to the connection.
    pub exclusive: bool,
    /// The queue is deleted when its last consumer detaches.
    pub auto_delete: bool,
    /// The arguments, each name once.
    pub arguments: Vec<(Name, Value)>,
}

/// The body of an exchange's declaration. Absent fields: direct, durable, neither auto-delete nor
/// internal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangeBody {
    /// The exchange's type, `topic` for example.
    pub kind: Name,
    /// The exchange survives a restart.
    pub durable: bool,
    /// The exchange is deleted when its last binding is removed.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// The arguments, each name once.
    pub arguments: Vec<(Name, Value)>,
}

/// The body of a new binding. No field may be absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BindingBody {
    /// The exchange that messages come from.
    pub source: Name,
    /// The queue or exchange that it leads to.
    pub destination: Destination,
    /// The binding key, may be empty.
    pub key: Name,
    /// The arguments, each name once.
    pub arguments: Vec<(Name, Value)>,
}

impl QueueBody {
    /// Reads the body of `PUT /queues/:queue`.
    pub fn parse(body: &Value) -> Result<Self, Refusal> {
        let fields = Fields::parse(body, &["durable", "exclusive", "auto_delete", "arguments"])?;
        Ok(Self {
            durable: fields.flag("durable", true)?,
            exclusive: fields.flag("exclusive", false)?,
            auto_delete: fields.flag("auto_delete", false)?,
            arguments: fields.arguments()?.unwrap_or_default(),
        })
    }
}

impl ExchangeBody {
    /// Reads the body of `PUT /exchanges/:exchange`.
    pub fn parse(body: &Value) -> Result<Self, Refusal> {
        let known = ["type", "durable", "auto_delete", "internal", "arguments"];
        let fields = Fields::parse(body, &known)?;
        Ok(Self {
            kind: fields.text("type")?.unwrap_or_else(|| Name::from("direct")),
            durable: fields.flag("durable", true)?,
            auto_delete: fields.flag("auto_delete", false)?,
            internal: fields.flag("internal", false)?,
            arguments: fields.arguments()?.unwrap_or_default(),
        })
    }
}

impl BindingBody {
    /// Reads the body of `POST /bindings`.
    pub fn parse(body: &Value) -> Result<Self, Refusal> {
        const QUEUE: &str = "destination_queue";
        const EXCHANGE: &str = "destination_exchange";
        let known = ["source", QUEUE, EXCHANGE, "binding_key", "arguments"];
        let fields = Fields::parse(body, &known)?;
        let destination = match (fields.text(QUEUE)?, fields.text(EXCHANGE)?) {
            (Some(queue), None) => Destination::Queue(queue),
            (None, Some(exchange)) => Destination::Exchange(exchange),
            _ => {
                let why = format!("a binding takes one of the fields '{QUEUE}' and '{EXCHANGE}'");
                return Err(Refusal::bad_request(why));
            }
        };
        Ok(Self {
            source: required("source", fields.text("source")?)?,
            destination,
            key: required("binding_key", fields.text("binding_key")?)?,
            arguments: required("arguments", fields.arguments()?)?,
        })
    }
}

fn required<T>(name: &str, field: Option<T>) -> Result<T, Refusal> {
    field.ok_or_else(|| Refusal::bad_request(format!("the field '{name}' is missing")))
}

/// The fields of a body, by name.
struct Fields<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Fields<'a> {
    fn parse(body: &'a Value, known: &[&str]) -> Result<Self, Refusal> {
        let Value::Map(pairs) = body else {
            let why = format!(
                "the body must be a map, not a value of type {}",
                body.kind()
            );
            return Err(Refusal::bad_request(why));
        };
        let mut fields = BTreeMap::new();
        for (key, value) in pairs {
            let Value::String(name) = key else {
                let why = format!("field names must be strings, not of type {}", key.kind());
                return Err(Refusal::bad_request(why));
            };
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                let why = format!("unknown field '{name}'; known are {known}");
                return Err(Refusal::bad_request(why));
            }
            fields.insert(name.as_str(), value);
        }
        Ok(Self(fields))
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        match self.0.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wrong_type(name, "boolean", other)),
        }
    }

    fn text(&self, name: &str) -> Result<Option<Name>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(Name::from(text.as_str()))),
            Some(other) => Err(wrong_type(name, "string", other)),
        }
    }

    fn arguments(&self) -> Result<Option<Vec<(Name, Value)>>, Refusal> {
        let pairs = match self.0.get("arguments") {
            None => return Ok(None),
            Some(Value::Map(pairs)) => pairs,
            Some(other) => return Err(wrong_type("arguments", "map", other)),
        };
        let mut names = BTreeSet::new();
        let mut arguments = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let name = key.as_str().ok_or_else(|| {
                let kind = key.kind();
                let why = format!("argument names must be strings or symbols, not of type {kind}");
                Refusal::bad_request(why)
            })?;
            // A string and a symbol of the same text are two keys of a map.
            if !names.insert(name) {
                let why = format!("the argument '{name}' is given twice");
                return Err(Refusal::bad_request(why));
            }
            arguments.push((Name::from(name), value.clone()));
        }
        Ok(Some(arguments))
    }
}

fn wrong_type(name: &str, expected: &str, found: &Value) -> Refusal {
    let found = found.kind();
    Refusal::bad_request(format!(
        "the field '{name}' must be a {expected}, not a {found}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, Value)]) -> Value {
        let pairs = pairs.iter();
        Value::Map(
            pairs
                .map(|(key, value)| (Value::string(*key), value.clone()))
                .collect(),
        )
    }

    #[test]
    fn absent_fields_have_their_defaults() {
        let queue = QueueBody::parse(&map(&[])).unwrap();
        assert!(queue.durable && !queue.exclusive && !queue.auto_delete);
        assert!(queue.arguments.is_empty());
        let exchange = ExchangeBody::parse(&map(&[])).unwrap();
        assert_eq!(exchange.kind, "direct");
        assert!(exchange.durable && !exchange.auto_delete && !exchange.internal);
    }

    #[test]
    fn unknown_and_ill_typed_fields_are_refused() {
        let bad = |body: Value| assert!(QueueBody::parse(&body).is_err(), "{body:?}");
        bad(Value::Null);
        bad(Value::List(Vec::new()));
        bad(map(&[("passive", Value::Bool(true))]));
        bad(map(&[("durable", Value::string("true"))]));
        bad(Value::Map(vec![(
            Value::symbol("durable"),
            Value::Bool(true),
        )]));
        bad(map(&[("arguments", Value::List(Vec::new()))]));
        let number_key = Value::Map(vec![(Value::Ulong(1), Value::string("v"))]);
        bad(map(&[("arguments", number_key)]));
        let twice = vec![
            (Value::string("a"), Value::Uint(1)),
            (Value::symbol("a"), Value::Uint(1)),
        ];
        bad(map(&[("arguments", Value::Map(twice))]));
        let symbol_type = map(&[("type", Value::symbol("direct"))]);
        assert!(ExchangeBody::parse(&symbol_type).is_err());
    }

    #[test]
    fn a_binding_needs_every_field_and_one_destination() {
        let fields = [
            ("source", Value::string("x")),
            ("binding_key", Value::string("k")),
            ("arguments", map(&[])),
            ("destination_queue", Value::string("q")),
        ];
        assert!(BindingBody::parse(&map(&fields)).is_ok());
        for left_out in 0..fields.len() {
            let mut fields = fields.to_vec();
            fields.remove(left_out);
            assert!(BindingBody::parse(&map(&fields)).is_err(), "{fields:?}");
        }
        let mut both = fields.to_vec();
        both.push(("destination_exchange", Value::string("e")));
        assert!(BindingBody::parse(&map(&both)).is_err());
    }
}
