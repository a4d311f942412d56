//! Bodies of requests: JSON objects, every field known by name and type.

use serde_json::error::Category;
use serde_json::{Map, Value as Json};

use super::failure::Failure;
use super::json::reading;
use super::json::value::from_json;
use crate::base::limits::HTTP_JSON_VALUES_MAX;
use crate::base::{Charge, Gauge, Name, nearest};
use crate::wire::Value;

/// Parses a body of at most `values_max` values; none if it is empty. Its memory is added to the
/// charge.
pub fn read_body(
    body: &[u8],
    values_max: usize,
    kept: &mut Charge,
) -> Result<Option<Json>, Failure> {
    if body.is_empty() {
        return Ok(None);
    }
    let read = reading::read(body, values_max, kept).map_err(|error| match error.classify() {
        Category::Data => Failure::bad_request(error.to_string()),
        _ => Failure::bad_request("not_json"),
    });
    read.map(Some)
}

/// The fields of a body.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fields(Map<String, Json>);

impl Fields {
    /// Parses a body; an empty one has no fields.
    pub fn parse(body: &[u8]) -> Result<Self, Failure> {
        let mut kept = Gauge::default().charge(0);
        Self::of_body(read_body(body, HTTP_JSON_VALUES_MAX, &mut kept)?)
    }

    /// The fields of a parsed body; none: no fields.
    pub fn of_body(body: Option<Json>) -> Result<Self, Failure> {
        match body {
            None => Ok(Self::default()),
            Some(Json::Object(fields)) => Ok(Self(fields)),
            Some(Json::String(_)) => Err(Failure::bad_request(
                "the body is a JSON text; is an object in it encoded twice?",
            )),
            Some(_) => Err(Failure::bad_request("not_json")),
        }
    }

    /// Fields that are parsed already.
    pub const fn from_map(fields: Map<String, Json>) -> Self {
        Self(fields)
    }

    /// A field as it is; null counts as absent.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A field as it is, null included.
    pub fn given(&self, name: &str) -> Option<&Json> {
        self.0.get(name)
    }

    /// Refuses a body in which one of these fields is missing; the failure names all of them.
    pub fn require(&self, names: &[&str]) -> Result<(), Failure> {
        let missing = names.iter().filter(|name| self.get(name).is_none());
        let missing: Vec<String> = missing
            .map(|name| format!("{{key_missing,{name}}}"))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Failure::bad_request(format!("[{}]", missing.join(","))))
    }

    /// Refuses a field that is none of these; the failure names it.
    pub fn allow(&self, names: &[&str]) -> Result<(), Failure> {
        match self.0.keys().find(|name| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let meant = nearest(name, names.iter().copied());
                let meant =
                    meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
                Err(Failure::bad_request(format!(
                    "the field '{name}' is not known; known are {}{meant}",
                    names.join(", ")
                )))
            }
        }
    }

    /// Refuses a field whose name is one of these, mistyped; the failure names both. RabbitMQ's clients
    /// send fields that its routes ignore, so others pass.
    pub fn refuse_mistyped(&self, known: &[&str]) -> Result<(), Failure> {
        let mut meant = self.0.keys().filter_map(|name| {
            let meant = nearest(name, known.iter().copied())?;
            Some((name, meant))
        });
        meant.next().map_or(Ok(()), |(name, meant)| {
            Err(Failure::bad_request(format!(
                "the field '{name}' is not known; did you mean '{meant}'?"
            )))
        })
    }

    /// The names of all fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A boolean; also as a text (as RabbitMQ).
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Failure> {
        match self.get(name) {
            None => Ok(default),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(Json::String(text)) if text == "true" => Ok(true),
            Some(Json::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(wrong_type(name, "boolean", other)),
        }
    }

    /// A text, if the field is present.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(name, "string", other)),
        }
    }

    /// Words: an array of texts, or one text with commas between them.
    pub fn words(&self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        let words = match self.get(name) {
            None => return Ok(None),
            Some(Json::String(text)) => {
                text.split(',').map(|word| word.trim().to_owned()).collect()
            }
            Some(Json::Array(items)) => {
                let words = items.iter().map(|item| match item {
                    Json::String(word) => Ok(word.clone()),
                    other => Err(wrong_type(name, "array of strings", other)),
                });
                words.collect::<Result<Vec<_>, _>>()?
            }
            Some(other) => return Err(wrong_type(name, "array of strings", other)),
        };
        Ok(Some(
            words.into_iter().filter(|word| !word.is_empty()).collect(),
        ))
    }

    /// An integer; also as a text (as RabbitMQ).
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let number = match value {
            Json::Number(number) => number.as_i64(),
            Json::String(text) => text.parse().ok(),
            _ => None,
        };
        number
            .map(Some)
            .ok_or_else(|| wrong_type(name, "integer", value))
    }

    /// An object of arguments, as AMQP values; an empty array counts as an empty object (as
    /// RabbitMQ).
    pub fn arguments(&self, name: &str) -> Result<Vec<(Name, Value)>, Failure> {
        let pairs = match self.get(name) {
            None => return Ok(Vec::new()),
            Some(Json::Array(items)) if items.is_empty() => return Ok(Vec::new()),
            Some(Json::Object(pairs)) => pairs,
            Some(other) => return Err(wrong_type(name, "object", other)),
        };
        let read = pairs.iter().map(|(key, value)| {
            let value = from_json(value).map_err(|why| {
                Failure::bad_request(format!("the field '{name}', '{key}': {why}"))
            })?;
            Ok((Name::from(key.as_str()), value))
        });
        read.collect()
    }
}

fn wrong_type(name: &str, expected: &str, found: &Json) -> Failure {
    let mut found: String = found.to_string().chars().take(SHOWN_CHARS_MAX).collect();
    if found.len() >= SHOWN_CHARS_MAX {
        found.push_str("...");
    }
    Failure::bad_request(format!(
        "the field '{name}' must be of type {expected}, not {found}"
    ))
}

/// Characters of a value that a failure repeats, at most.
const SHOWN_CHARS_MAX: usize = 64;
