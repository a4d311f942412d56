//! The command `explain`: the life of one message, where it is, and what would happen next.
//!
//! Read [`story`] first.

#[cfg(test)]
mod stories_tests;
mod story;

use clap::Args;
use serde_json::{Value, json};

use super::api::{Api, Path};
use super::dead_letters::STATES;
use super::exit::{Failure, FailureKind};
use super::manage::Task;
use super::output::{Column, Output, pick, print};

/// Tells the life of one message, where it is, and what would become of it next; changes nothing
///
/// What it foretells comes from the functions by which the broker decides when it really happens:
/// settings with the rule each came from, routes, the rule against cycles, room in the targets. It
/// holds for this moment: a target may fill up. Positions are shown by 'deaths' with '--format
/// csv'.
#[derive(Args)]
pub(super) struct Explain {
    /// Name of the queue
    queue: String,
    /// The message's position in the queue
    #[arg(required_unless_present = "message_id", conflicts_with = "message_id")]
    position: Option<u64>,
    /// The message with this message-id instead: the first one from the front
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// What would become of it if a consumer gave an error with this condition
    #[arg(long, value_name = "CONDITION")]
    condition: Option<String>,
    /// The description of that error
    #[arg(long, value_name = "TEXT", requires = "condition")]
    description: Option<String>,
}

/// The columns of the table: one row for each thing that may happen next.
const COLUMNS: [&str; 8] = [
    "if", "verdict", "reason", "cause", "targets", "exchange", "skipped", "rule",
];

impl Task for Explain {
    const NAME: &'static str = "explain";
    const EXAMPLES: &'static [&'static str] = &[
        "explain orders.dlq 17",
        "explain orders --message-id order-4711",
        "explain orders 3 --condition app:timeout --format json",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let position = match (self.position, &self.message_id) {
            (Some(position), _) => position,
            (None, Some(id)) => self.find(api, id)?,
            (None, None) => return Err(Failure::usage("no message was named")),
        };
        let position = position.to_string();
        let parts = [
            "queues",
            api.vhost(),
            &self.queue,
            "messages",
            &position,
            "explain",
        ];
        let mut path = Path::of(&parts);
        for (name, value) in [
            ("condition", &self.condition),
            ("description", &self.description),
        ] {
            if let Some(value) = value {
                path = path.query(name, value);
            }
        }
        let explained = api.get(&path);
        let explained = explained.map_err(|failure| self.or_missing(api, failure))?;
        if out.is_json() || out.is_separated() {
            let columns = COLUMNS.map(|name| Column {
                shown: name.to_owned(),
                path: name.to_owned(),
            });
            return if out.is_json() {
                super::output::print_json(&explained)
            } else {
                out.objects(rows(&explained), &columns, true)
            };
        }
        print(&story::tell(&explained))
    }
}

impl Explain {
    /// The position of the first message with this id, in any state.
    fn find(&self, api: &Api, id: &str) -> Result<u64, Failure> {
        let quoted = id.replace('\'', "''");
        // Ids that are numbers and UUIDs read like this in selectors.
        let selector = format!(
            "amqp.message_id IN ('{quoted}', 'ID:AMQP_ULONG:{quoted}', 'ID:AMQP_UUID:{quoted}')"
        );
        for state in STATES {
            let mut from = Some(0);
            while let Some(position) = from {
                let path = Path::of(&["queues", api.vhost(), &self.queue, "messages"])
                    .query("state", state)
                    .query("selector", &selector)
                    .query("from", &position.to_string())
                    .query("count", "1")
                    .query("truncate", "0");
                let slice = api.get(&path);
                let slice = slice.map_err(|failure| self.or_missing(api, failure))?;
                let found = pick(&slice, "messages.0.position").or_else(|| {
                    let messages = slice.get("messages")?.as_array()?;
                    messages.first()?.get("position")
                });
                if let Some(found) = found.and_then(number) {
                    return Ok(found);
                }
                let next = pick(&slice, "next").and_then(number);
                from = next.filter(|next| *next > position);
            }
        }
        let what = format!("queue '{}' has no message with the id '{id}'", self.queue);
        Err(Failure::new(FailureKind::NotFound, what))
    }

    /// Tells a broker without this request from a message or a queue that is not there.
    fn or_missing(&self, api: &Api, failure: Failure) -> Failure {
        if failure.says("message_not_found") || !api.is_not_known(&failure) {
            return failure;
        }
        if let Err(no_queue) = api.get(&Path::of(&["queues", api.vhost(), &self.queue])) {
            return no_queue;
        }
        let what = "this broker explains no messages: a RabbitMQ keeps neither who rejected a \
                    message and why, nor the rule that sent it on, and has no request that says \
                    what would become of one";
        let advice = format!(
            "'coroner deaths {}' shows what it knows of deaths",
            self.queue
        );
        Failure::new(FailureKind::NotFound, what).advise(advice)
    }
}

/// A position: a number, or a text where numbers of this size would be rounded.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn rows(explained: &Value) -> Vec<Value> {
    let steps = explained.get("next").and_then(Value::as_array);
    let queues = |step: &Value, path: &str| {
        let queues = pick(step, path).and_then(Value::as_array);
        let queues = queues.into_iter().flatten();
        let names = queues.filter_map(|queue| queue.get("queue")?.as_str());
        names.collect::<Vec<_>>().join(" ")
    };
    let row = |step: &Value| {
        let field = |path| pick(step, path).cloned().unwrap_or_default();
        json!({
            "if": field("if"),
            "verdict": field("then.verdict"),
            "reason": field("then.reason"),
            "cause": field("then.cause"),
            "targets": queues(step, "then.targets"),
            "exchange": field("then.way.exchange"),
            "skipped": queues(step, "then.skipped"),
            "rule": field("rule"),
        })
    };
    steps.into_iter().flatten().map(row).collect()
}
