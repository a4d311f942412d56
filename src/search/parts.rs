//! The parts of a filter as names and values: from requests, to answers and journal records.

use super::candidate::NO_CAUSE;
use super::contains::Needle;
use super::death_filter::Names;
use super::{DeathFilter, FilterError, Fingerprint};
use crate::base::limits::{
    FILTER_BYTES_MAX, FILTER_VALUE_BYTES_MAX, FILTER_VALUES_MAX, SELECTOR_BYTES_MAX,
};
use crate::base::{Name, Timestamp};
use crate::deaths::{QuarantineCause, Reason};
use crate::filter::Selector;
use crate::wire::Value;

/// The names of all parts, in the order in which they are written.
pub const PARTS: [&str; 16] = [
    "reason",
    "queue",
    "condition",
    "group",
    "container",
    "user",
    "cause",
    "exchange",
    "routing_key",
    "message_id",
    "position",
    "died_after",
    "died_before",
    "redriven",
    "selector",
    "body_contains",
];

impl DeathFilter {
    /// Reads the parts of a filter: lists of strings or one string, for `position` also of numbers;
    /// times in milliseconds since 1970; numbers and booleans also as texts. Null and an empty list are
    /// refused: nobody would mean all messages by them.
    pub fn of_parts<'a>(
        parts: impl IntoIterator<Item = (&'a str, &'a Value)>,
    ) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        let mut seen = 0_u32;
        let mut bytes = 0;
        for (name, value) in parts {
            let place = PARTS.iter().position(|part| *part == name);
            let known = place.and_then(|place| Some((place, *PARTS.get(place)?)));
            let Some((place, part)) = known else {
                let part = name.chars().take(64).collect();
                return Err(FilterError::Unknown { part });
            };
            if seen & (1 << place) != 0 {
                return Err(FilterError::Twice { part });
            }
            seen |= 1 << place;
            if *value == Value::Null {
                return Err(FilterError::Null { part });
            }
            bytes += value.encoded_bytes();
            filter.set(part, value)?;
        }
        if bytes > FILTER_BYTES_MAX {
            let max = FILTER_BYTES_MAX;
            return Err(FilterError::TooLarge { bytes, max });
        }
        if let (Some(after), Some(before)) = (filter.died_after, filter.died_before)
            && after >= before
        {
            return Err(FilterError::NoTime {
                after: after.0,
                before: before.0,
            });
        }
        Ok(filter)
    }

    /// Reads a filter from a map with its parts, see [`DeathFilter::value`].
    pub fn of_value(value: &Value) -> Result<Self, FilterError> {
        let Some(pairs) = value.as_map() else {
            let found = value.to_string();
            return Err(FilterError::NoMap { found });
        };
        let named = pairs.iter().map(|(name, value)| match name.as_str() {
            Some(name) => Ok((name, value)),
            None => Err(FilterError::Unknown {
                part: name.to_string(),
            }),
        });
        Self::of_parts(named.collect::<Result<Vec<_>, _>>()?)
    }

    /// The filter as a map of symbols to values; equal filters have equal ones.
    pub fn value(&self) -> Value {
        let parts = self.parts().into_iter();
        Value::Map(
            parts
                .map(|(name, value)| (Value::symbol(name), value))
                .collect(),
        )
    }

    /// The parts that are given, in the order of [`PARTS`]: lists are sorted and have each value
    /// once.
    pub fn parts(&self) -> Vec<(&'static str, Value)> {
        let names = |names: &Names| {
            let names = names.0.iter();
            Value::List(names.map(|name| Value::string(name.as_str())).collect())
        };
        let reasons = self.reasons.iter().map(|it| Value::string(it.as_str()));
        let positions = self.positions.iter().map(|at| Value::Ulong(*at));
        let time = |time: Option<Timestamp>| time.map_or(Value::Null, |at| Value::Long(at.0));
        let text = |text: Option<&str>| text.map_or(Value::Null, Value::string);
        let values = [
            Value::List(reasons.collect()),
            names(&self.queues),
            names(&self.conditions),
            names(&self.groups),
            names(&self.containers),
            names(&self.users.names),
            names(&self.causes),
            names(&self.exchanges),
            names(&self.routing_keys),
            names(&self.message_ids),
            Value::List(positions.collect()),
            time(self.died_after),
            time(self.died_before),
            self.redriven.map_or(Value::Null, Value::Bool),
            text(self.selector.as_ref().map(|(text, _)| &**text)),
            text(self.body_contains.as_ref().map(|(text, _)| &**text)),
        ];
        let is_given = |value: &Value| match value {
            Value::Null => false,
            Value::List(items) => !items.is_empty(),
            _ => true,
        };
        let parts = PARTS.into_iter().zip(values);
        parts.filter(|(_, value)| is_given(value)).collect()
    }

    fn set(&mut self, part: &'static str, value: &Value) -> Result<(), FilterError> {
        let names = || names(part, value);
        match part {
            "reason" => self.reasons = reasons(part, value)?,
            "queue" => self.queues = names()?,
            "condition" => self.conditions = names()?,
            "group" => self.groups = groups(part, value)?,
            "container" => self.containers = names()?,
            "user" => self.users.names = names()?,
            "cause" => self.causes = causes(part, value)?,
            "exchange" => self.exchanges = names()?,
            "routing_key" => self.routing_keys = names()?,
            "message_id" => self.message_ids = names()?,
            "position" => self.positions = positions(part, value)?,
            "died_after" => self.died_after = Some(time(part, value)?),
            "died_before" => self.died_before = Some(time(part, value)?),
            "redriven" => self.redriven = Some(flag(part, value)?),
            "selector" => {
                let text = text(part, value, SELECTOR_BYTES_MAX)?;
                self.selector = Some((text.into(), Selector::parse(text)?));
            }
            _ => {
                let text = text(part, value, FILTER_VALUE_BYTES_MAX)?;
                if text.is_empty() {
                    return Err(FilterError::Empty { part });
                }
                self.body_contains = Some((text.into(), Needle::new(text)));
            }
        }
        Ok(())
    }
}

/// The values of a part: the elements of a list, or one value alone.
fn values<'a>(part: &'static str, value: &'a Value) -> Result<&'a [Value], FilterError> {
    let values = value.as_elements();
    let values = values.unwrap_or_else(|| std::slice::from_ref(value));
    if values.is_empty() {
        return Err(FilterError::NoValue { part });
    }
    if values.len() > FILTER_VALUES_MAX {
        return Err(FilterError::TooMany {
            part,
            count: values.len(),
            max: FILTER_VALUES_MAX,
        });
    }
    Ok(values)
}

fn text<'a>(part: &'static str, value: &'a Value, max: usize) -> Result<&'a str, FilterError> {
    let Some(text) = value.as_str() else {
        return Err(wrong_type(part, "a text", value));
    };
    if text.len() > max {
        return Err(FilterError::TooLong {
            part,
            bytes: text.len(),
            max,
        });
    }
    Ok(text)
}

fn texts<'a>(part: &'static str, value: &'a Value) -> Result<Vec<&'a str>, FilterError> {
    let texts = values(part, value)?.iter().map(|value| {
        if value.as_str().is_none() {
            return Err(wrong_type(part, "a list of texts", value));
        }
        text(part, value, FILTER_VALUE_BYTES_MAX)
    });
    texts.collect()
}

fn names(part: &'static str, value: &Value) -> Result<Names, FilterError> {
    let texts = texts(part, value)?;
    Ok(Names::new(texts.into_iter().map(Name::from).collect()))
}

fn reasons(part: &'static str, value: &Value) -> Result<Vec<Reason>, FilterError> {
    let known = || Reason::ALL.map(Reason::as_str).join(", ");
    let reasons = texts(part, value)?.into_iter().map(|word| {
        Reason::from_word(word).ok_or_else(|| FilterError::Word {
            part,
            found: word.to_owned(),
            known: known(),
        })
    });
    let mut reasons = reasons.collect::<Result<Vec<_>, _>>()?;
    reasons.sort_unstable();
    reasons.dedup();
    Ok(reasons)
}

fn causes(part: &'static str, value: &Value) -> Result<Names, FilterError> {
    for word in texts(part, value)? {
        if word != NO_CAUSE && QuarantineCause::from_word(word).is_none() {
            let known = QuarantineCause::ALL.map(QuarantineCause::as_str).join(", ");
            return Err(FilterError::Word {
                part,
                found: word.to_owned(),
                known: format!("{known}, {NO_CAUSE}"),
            });
        }
    }
    names(part, value)
}

fn groups(part: &'static str, value: &Value) -> Result<Names, FilterError> {
    match texts(part, value)?
        .into_iter()
        .find(|key| !Fingerprint::is_key(key))
    {
        None => names(part, value),
        Some(other) => Err(FilterError::Group {
            found: other.to_owned(),
        }),
    }
}

fn positions(part: &'static str, value: &Value) -> Result<Box<[u64]>, FilterError> {
    let positions = values(part, value)?.iter().map(|value| {
        let number = value.as_u64();
        let number = number.or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        number.ok_or_else(|| wrong_type(part, "a list of positions, numbers from 0 on", value))
    });
    let mut positions = positions.collect::<Result<Vec<u64>, _>>()?;
    positions.sort_unstable();
    positions.dedup();
    Ok(positions.into())
}

fn time(part: &'static str, value: &Value) -> Result<Timestamp, FilterError> {
    let number = match value {
        Value::Timestamp(ms) => Some(*ms),
        other => other.as_i64(),
    };
    let number = number.or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    let wrong = || wrong_type(part, "a number of milliseconds since 1970", value);
    number.map(Timestamp).ok_or_else(wrong)
}

fn flag(part: &'static str, value: &Value) -> Result<bool, FilterError> {
    let flag = match value.as_str() {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => value.as_bool(),
    };
    flag.ok_or_else(|| wrong_type(part, "true or false", value))
}

fn wrong_type(part: &'static str, expected: &'static str, value: &Value) -> FilterError {
    FilterError::Type {
        part,
        expected,
        found: value.to_string(),
    }
}
