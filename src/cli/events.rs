//! The command `events`.

use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::api::{Api, Path};
use super::complain;
use super::exit::{Failure, FailureKind, written};
use super::manage::Task;
use super::output::{Output, pick, printable, printable_json};

/// Time after which a broker that went away is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// Tells what happened lately: deaths, drops, redrives, consumers that hold deliveries too long
///
/// The last 10,000 events of a vhost are kept. With --follow it goes on until it is ended (Ctrl-C);
/// where the connection is cut, it goes on behind the last event as soon as the broker is there
/// again. A line says so where events are missing. Docs: docs/EVENTS.md.
#[derive(Args)]
pub(in crate::cli) struct Events {
    /// Goes on with what happens from then on
    #[arg(long)]
    follow: bool,
    /// Only events of this type
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_parser = [
            "death", "dead-lettered", "dropped", "quarantined", "redriven", "redrive", "consumer-timeout",
        ]
    )]
    kind: Option<String>,
    /// Only events in this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only deaths for this reason
    #[arg(long, value_parser = ["rejected", "expired", "maxlen", "delivery_limit"])]
    reason: Option<String>,
    /// Only events behind the one of this id or number
    #[arg(long, value_name = "ID")]
    since: Option<String>,
}

impl Task for Events {
    const NAME: &'static str = "events";
    const EXAMPLES: &'static [&'static str] = &[
        "events --follow",
        "events --type death --queue orders --reason rejected",
        "events --follow --format json",
    ];

    fn run(mut self, api: &Api, out: Output) -> Result<(), Failure> {
        let mut is_away = false;
        loop {
            let asked = api.stream(&self.path(api));
            let told = match asked {
                Ok(lines) => {
                    let begun = std::mem::take(&mut is_away);
                    if begun {
                        complain(&"the broker is there again");
                    }
                    self.tell(BufReader::new(lines), out)
                }
                Err(failure) => Err(failure),
            };
            match told {
                Ok(()) if !self.follow => return Ok(()),
                Err(failure) if !self.goes_on_after(&failure) => return Err(failure),
                told => {
                    if let Err(failure) = told
                        && !std::mem::replace(&mut is_away, true)
                    {
                        complain(&format_args!("{failure}; trying again"));
                    }
                    nap();
                }
            }
        }
    }
}

/// Lets the broker come back.
fn nap() {
    let (_never, told) = mpsc::channel::<()>();
    told.recv_timeout(RETRY).ok();
}

impl Events {
    /// The events that are still to be told.
    fn path(&self, api: &Api) -> Path {
        let mut path = Path::of(&["events"]).query("vhost", api.vhost());
        for (name, value) in [
            ("type", &self.kind),
            ("queue", &self.queue),
            ("reason", &self.reason),
            ("since", &self.since),
        ] {
            if let Some(value) = value {
                path = path.query(name, value);
            }
        }
        if self.follow {
            path = path.query("follow", "true");
        }
        path
    }

    /// Whether it is asked again after this: the broker is away, or was told something before.
    fn goes_on_after(&self, failure: &Failure) -> bool {
        self.follow && self.since.is_some() && failure.kind == FailureKind::Unavailable
    }

    /// Tells what the broker tells, until it ends.
    fn tell(&mut self, mut lines: impl BufRead, out: Output) -> Result<(), Failure> {
        let mut line = String::new();
        loop {
            line.clear();
            let read = lines.read_line(&mut line);
            let count = read.map_err(|error| {
                let what = format!("the events ended ({error})");
                Failure::new(FailureKind::Unavailable, what)
            })?;
            if count == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                continue; // a sign of life
            }
            let event: Value = serde_json::from_str(&line).map_err(|error| {
                let what = format!("what the broker told is no event ({error})");
                Failure::new(FailureKind::Protocol, what)
            })?;
            let text = if out.is_json() {
                printable_json(line.trim_end())
            } else {
                said(&event)
            };
            written(writeln!(std::io::stdout().lock(), "{text}"))?;
            let id = event.get("id").and_then(Value::as_str);
            let is_of_stream = pick(&event, "source").is_some_and(|it| *it == "/api/events");
            if let Some(id) = id.filter(|_| !is_of_stream) {
                self.since = Some(id.to_owned());
            }
        }
    }
}

/// An event in one line.
fn said(event: &Value) -> String {
    let text = |path: &str| match pick(event, path) {
        Some(Value::String(text)) => Some(printable(text)),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let kind = text("type").unwrap_or_default();
    let kind = kind.strip_prefix("coroner.").unwrap_or(&kind);
    let kind = kind.strip_suffix(".v1").unwrap_or(kind);
    let mut line = format!("{}  {kind}", text("time").unwrap_or_default());
    for path in ["data.reason", "data.queue"] {
        if let Some(text) = text(path) {
            line = format!("{line}  {text}");
        }
    }
    let targets = pick(event, "data.targets").and_then(Value::as_array);
    let targets = targets.into_iter().flatten().filter_map(Value::as_str);
    let targets: Vec<String> = targets.map(printable).collect();
    if !targets.is_empty() {
        line = format!("{line} -> {}", targets.join(", "));
    }
    for (word, path) in [
        ("", "data.outcome"),
        ("", "data.state"),
        ("", "data.cause"),
        ("messages ", "data.messages"),
        ("missed ", "data.missed"),
        ("events ", "data.events"),
        ("redrive ", "data.redrive"),
        ("message ", "data.message_id"),
        ("position ", "data.position"),
        ("condition ", "data.error.condition"),
        ("by ", "data.by.container"),
    ] {
        if let Some(text) = text(path) {
            line = format!("{line}  {word}{text}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::said;

    #[test]
    fn an_event_is_one_line_that_cannot_steer_a_terminal() {
        let event = json!({
            "type": "coroner.death.v1", "time": "2026-11-23T20:00:00.000Z",
            "data": {
                "queue": "or\nders", "reason": "rejected", "outcome": "dead_lettered",
                "targets": ["dead", "\u{1b}[2J"], "message_id": "m1", "position": 7,
                "error": {"condition": "app:bad"},
            },
        });
        assert_eq!(
            said(&event),
            "2026-11-23T20:00:00.000Z  death  rejected  or\\nders -> dead, \\u{1b}[2J  dead_lettered  \
             message m1  position 7  condition app:bad"
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let gap = json!({
            "type": "coroner.gap.v1", "time": "t", "data": {"cause": "behind", "missed": 7},
        });
        assert_eq!(said(&gap), "t  gap  behind  missed 7");
    }
}
