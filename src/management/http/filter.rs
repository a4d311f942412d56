//! Filters of dead letters in requests and answers.

use serde_json::{Map, Value as Json};

use super::failure::Failure;
use super::json::value::{from_json, to_json};
use super::query::Query;
use crate::search::{DeathFilter, FilterError, PARTS};
use crate::wire::Value;

impl From<FilterError> for Failure {
    fn from(error: FilterError) -> Self {
        Self::bad_request(error.to_string())
    }
}

/// Reads a filter from the JSON of a body, where null counts as a filter without parts; a part that is null is
/// refused.
pub fn filter_of_json(json: &Json) -> Result<DeathFilter, Failure> {
    let fields = match json {
        Json::Null => return Ok(DeathFilter::default()),
        Json::Object(fields) => fields,
        other => {
            let found = other.to_string().chars().take(64).collect();
            return Err(FilterError::NoMap { found }.into());
        }
    };
    let read = fields.iter().map(|(name, value)| {
        let value = from_json(value).map_err(|why| {
            let name: String = name.chars().take(64).collect();
            Failure::bad_request(format!("the filter's '{name}': {why}"))
        })?;
        Ok((name.as_str(), value))
    });
    let read = read.collect::<Result<Vec<_>, Failure>>()?;
    let parts = read.iter().map(|(name, value)| (*name, value));
    Ok(DeathFilter::of_parts(parts)?)
}

/// Reads a filter from the parameters of a query: one that is there several times has several
/// values. Parameters that are neither a part of it nor one of `others` are refused.
pub fn filter_of_query(query: &Query, others: &[&str]) -> Result<DeathFilter, Failure> {
    let mut given: Vec<(&str, Vec<Value>)> = Vec::new();
    for (name, value) in query.pairs() {
        if others.contains(&name) {
            continue;
        }
        if !PARTS.contains(&name) {
            let name: String = name.chars().take(64).collect();
            let known: Vec<&str> = others.iter().chain(&PARTS).copied().collect();
            return Err(Failure::bad_request(format!(
                "the parameter '{name}' is not known; known are {}",
                known.join(", ")
            )));
        }
        let value = Value::string(value);
        match given.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => given.push((name, vec![value])),
        }
    }
    let mut parts = Vec::with_capacity(given.len());
    for (name, values) in given {
        let value = match <[Value; 1]>::try_from(values) {
            Ok([value]) => value,
            Err(values) => Value::List(values),
        };
        parts.push((name, value));
    }
    let parts = parts.iter().map(|(name, value)| (*name, value));
    Ok(DeathFilter::of_parts(parts)?)
}

/// The JSON of a filter: the parts that are given. Positions are texts, since they may be beyond
/// the integers that JSON has in every language.
pub fn filter_json(filter: &DeathFilter) -> Json {
    let fields = filter.parts().into_iter().map(|(name, value)| {
        let json = match (name, value) {
            ("position", Value::List(positions)) => {
                let positions = positions.iter().filter_map(Value::as_u64);
                positions
                    .map(|position| Json::String(position.to_string()))
                    .collect()
            }
            (_, value) => to_json(&value),
        };
        (name.to_owned(), json)
    });
    Json::Object(fields.collect::<Map<String, Json>>())
}
