//! The redrives of a message, read from JSON and told in words.

use serde_json::Value;

use super::story::{local_time, named};
use crate::cli::output::printable;

/// The redrives of a message, newest first, as its annotation `x-opt-redrives` has them.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Redrives(Vec<Value>);

impl Redrives {
    /// Reads the annotation.
    pub(super) fn read(redrives: &Value) -> Option<Self> {
        let redrives = redrives.as_array().filter(|list| !list.is_empty())?;
        Some(Self(redrives.clone()))
    }

    /// The redrives for programs, with times in words and in milliseconds.
    pub(super) fn json(&self) -> Value {
        let redrives = self.0.iter().cloned().map(|mut redrive| {
            let time = redrive.get("time").and_then(Value::as_i64);
            if let Some(fields) = redrive.as_object_mut() {
                fields.insert("time".to_owned(), time.map(local_time).into());
                fields.insert("time_ms".to_owned(), time.into());
            }
            redrive
        });
        redrives.collect()
    }

    /// How often, and the latest one.
    pub(super) fn sentence(&self) -> String {
        let latest = self.0.first();
        let text = |name: &str| latest.and_then(|latest| latest.get(name)?.as_str());
        let number = |name: &str| latest.and_then(|latest| latest.get(name)?.as_i64());
        let times = match number("number") {
            Some(times @ 2..) => format!("{times} times: last"),
            _ => "once:".to_owned(),
        };
        let by = text("by").filter(|by| !by.is_empty());
        let by = by.map_or_else(|| "the program".to_owned(), printable);
        let at = number("time").map(local_time).unwrap_or_default();
        let job = printable(text("job").unwrap_or_default());
        let from = named(text("from").unwrap_or_default());
        format!("redriven {times} by {by} at {at}, job {job}, from {from}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn how_often_a_message_was_redriven_is_told_with_the_latest_time() {
        let redrive = |number: u64, by: &str| {
            json!({
                "number": number, "job": "fix-price", "by": by, "from": "orders.dlq",
                "to": "orders", "time": 5_000, "deaths": number,
            })
        };
        let check = |redrives: Value, told: &str| {
            let redrives = Redrives::read(&redrives).unwrap();
            assert_eq!(redrives.sentence(), told);
            assert_eq!(redrives.json()[0]["time_ms"], 5_000);
        };
        let at = local_time(5_000);
        check(
            json!([redrive(1, "alice")]),
            &format!("redriven once: by alice at {at}, job fix-price, from orders.dlq"),
        );
        check(
            json!([redrive(12, ""), redrive(11, "alice")]),
            &format!(
                "redriven 12 times: last by the program at {at}, job fix-price, from orders.dlq"
            ),
        );
        assert_eq!(Redrives::read(&json!([])), None);
    }
}
