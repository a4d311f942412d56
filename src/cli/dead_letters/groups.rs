//! The command `dead_letter_groups`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use super::filter::{FilterFlags, StateFlag};
use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::manage::Task;
use crate::cli::output::{Column, Output, pick, print_json};

/// Messages that are taken from a RabbitMQ and put back.
const TAKEN_MAX: u64 = 10_000;

/// Counts the dead letters of a queue by what they have in common; changes nothing
///
/// A group is one condition, one type of exception and one text without what varies from message to
/// message: URLs, ids, times, quoted texts, numbers. Its key means the same in every queue and
/// later on; other commands take it as --group. A RabbitMQ cannot show messages without handing
/// them out: there they are put back, marked as redelivered, and grouped by reason and queue.
#[derive(Args)]
pub(in crate::cli) struct DeadLetterGroups {
    /// Name of the queue, usually one that dead letters go to
    #[arg(value_name = "DEAD_LETTER_QUEUE")]
    name: String,
    /// What to group by
    #[arg(
        long,
        default_value = "group",
        value_parser = ["group", "reason", "queue", "condition", "exchange", "container", "user", "cause"]
    )]
    by: String,
    /// Begins at this position of the queue
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    from: u64,
    #[command(flatten)]
    state: StateFlag,
    #[command(flatten)]
    filter: FilterFlags,
}

impl Task for DeadLetterGroups {
    const NAME: &'static str = "dead_letter_groups";
    const EXAMPLES: &'static [&'static str] = &[
        "dead_letter_groups orders.dlq",
        "dead_letter_groups orders.dlq --by condition --queue orders",
        "dead_letter_groups orders.dlq --group 1:9c2e41aa --by container --format json",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let path = Path::of(&["queues", api.vhost(), &self.name, "groups"])
            .query("by", &self.by)
            .query("from", &self.from.to_string());
        let answer = match api.get(&self.filter.ask(self.state.ask(path))) {
            Err(failure) if api.is_not_known(&failure) => {
                // Either there is no such queue, or the broker does not have this request.
                api.get(&Path::of(&["queues", api.vhost(), &self.name]))?;
                self.take_and_put_back(api)?
            }
            answered => answered?,
        };
        self.show(&answer, out)
    }
}

impl DeadLetterGroups {
    fn show(&self, answer: &Value, out: Output) -> Result<(), Failure> {
        if out.is_json() {
            return print_json(answer);
        }
        let now = pick(answer, "as_of").and_then(Value::as_i64);
        let groups = pick(answer, "groups").and_then(Value::as_array);
        let rows = groups.into_iter().flatten().map(|group| {
            let newest = group.get("newest").and_then(Value::as_i64);
            let newest = match (newest, now) {
                (Some(newest), Some(now)) if !out.is_separated() => json!(ago(now - newest)),
                (newest, _) => json!(newest),
            };
            json!({
                "group": group.get("key"),
                "count": group.get("count"),
                "newest": newest,
                "what": group.get("label"),
                "note": pick(group, "note.text"),
            })
        });
        let columns = [
            (self.by.as_str(), "group"),
            ("count", "count"),
            ("newest", "newest"),
            ("what", "what"),
        ];
        let rows: Vec<Value> = rows.collect();
        let has_note = |row: &Value| row.get("note").is_some_and(Value::is_string);
        let note = rows.iter().any(has_note).then_some(("note", "note"));
        let columns = columns.into_iter().chain(note);
        let columns: Vec<Column> = columns
            .map(|(shown, path)| Column {
                shown: shown.to_owned(),
                path: path.to_owned(),
            })
            .collect();
        if rows.is_empty() && !out.is_separated() {
            let which = if self.filter.is_any() { "such " } else { "" };
            return out.done(format_args!("no {which}messages in queue '{}'", self.name));
        }
        out.objects(rows, &columns, true)?;
        tell_rest(answer, out)
    }

    /// The same of a broker without this request.
    fn take_and_put_back(&self, api: &Api) -> Result<Value, Failure> {
        if self.filter.is_any() || self.from > 0 || self.by != "group" {
            return Err(Failure::usage(
                "this broker has no groups: --by, --from and filters are for a Coroner",
            ));
        }
        crate::cli::complain(
            &"this broker has no look at messages that changes nothing: they are taken and put \
              back, and grouped by reason and queue",
        );
        let body = json!({
            "count": TAKEN_MAX, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 0,
        });
        let path = Path::of(&["queues", api.vhost(), &self.name, "get"]);
        let Value::Array(messages) = api.post(&path, &body)? else {
            return Err(Failure::new(
                FailureKind::Protocol,
                "the answer holds no messages",
            ));
        };
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for message in &messages {
            let death = pick(message, "properties.headers.x-death");
            let death = death.and_then(|deaths| deaths.get(0));
            let text = |name: &str| death.and_then(|death| death.get(name)?.as_str());
            let label = match (text("reason"), text("queue")) {
                (Some(reason), Some(queue)) => format!("{reason} in {queue}"),
                _ => "never died".to_owned(),
            };
            *counts.entry(label).or_default() += 1;
        }
        let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let groups = counts.into_iter();
        let groups = groups.map(|(label, count)| json!({ "label": label, "count": count }));
        Ok(json!({ "by": "group", "groups": groups.collect::<Vec<_>>() }))
    }
}

/// Tells what is not in the table.
fn tell_rest(answer: &Value, out: Output) -> Result<(), Failure> {
    let number = |path: &str| pick(answer, path).and_then(Value::as_u64);
    if let Some(others @ 1..) = number("other.count") {
        let groups = number("other.groups");
        let groups = groups.map_or_else(|| "many".to_owned(), |groups| groups.to_string());
        out.done(format_args!(
            "{others} more messages in {groups} other groups"
        ))?;
    }
    if let Some(next) = pick(answer, "next").and_then(Value::as_str) {
        let scanned = number("scanned").unwrap_or_default();
        out.done(format_args!(
            "{scanned} messages were looked at; --from {next} goes on behind them"
        ))?;
    }
    Ok(())
}

/// A time that has passed, in words.
fn ago(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s ago"),
        (0, 0, minutes) => format!("{minutes} min ago"),
        (0, hours, _) => format!("{hours} h ago"),
        (days, ..) => format!("{days} d ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::ago;

    #[test]
    fn a_time_is_told_in_its_largest_unit() {
        let check = |ms: i64, text: &str| assert_eq!(ago(ms), text);
        check(-5, "0 s ago");
        check(59_999, "59 s ago");
        check(60_000, "1 min ago");
        check(7_199_999, "1 h ago");
        check(90_000_000, "1 d ago");
    }
}
