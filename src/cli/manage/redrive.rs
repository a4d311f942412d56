//! Commands for redrives: jobs that move dead letters back.

use std::io::{IsTerminal, Write, stderr, stdin};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Task, confirm};
use crate::cli::api::{Api, Path};
use crate::cli::dead_letters::FilterFlags;
use crate::cli::deaths::local_time;
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::{Output, pick, print_json, printable};

/// How often a redrive that is waited for is asked how far it came.
const POLL: Duration = Duration::from_millis(300);

/// Moves the dead letters of a queue back to where they failed, and waits until it is over
///
/// Without --to-queue, --to-exchange and the like each goes back to the queue in which a consumer
/// rejected it last, as it came there the first time. Ends with 65 if the redrive stopped because
/// messages died again. Ctrl-C leaves it running. docs/REDRIVE.md tells what it counts and waits for.
#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "these are flags of a command line"
)]
pub(super) struct Redrive {
    /// Queue with the dead letters
    #[arg(id = "source", value_name = "QUEUE")]
    queue: String,
    #[command(flatten)]
    only: FilterFlags,
    /// Id of the redrive: the same again is no second run [default: made from the time]
    #[arg(long)]
    id: Option<String>,
    /// To the queue of the first death of each
    #[arg(long, group = "where")]
    to_first: bool,
    /// To exchange and keys of the first death of each: every subscriber gets it again
    #[arg(long, group = "where")]
    to_original: bool,
    /// To this queue
    #[arg(long, group = "where", value_name = "QUEUE")]
    to_queue: Option<String>,
    /// To this exchange
    #[arg(long, group = "where", value_name = "EXCHANGE")]
    to_exchange: Option<String>,
    /// Routing key with --to-exchange
    #[arg(long, requires = "to_exchange", value_name = "KEY")]
    to_key: Option<String>,
    /// Drops them for good; needs --note, and asks for their number unless --yes
    #[arg(long, group = "where", requires = "note")]
    discard: bool,
    /// Messages a second
    #[arg(long)]
    rate: Option<f64>,
    /// Messages at most
    #[arg(long)]
    max: Option<u64>,
    /// Begins with batches of 1, 2, 4 and so on, each once what became of the last is known
    /// [default: if the target has consumers]
    #[arg(long, value_name = "true|false")]
    ramp: Option<bool>,
    /// Does not stop when moved messages die again
    #[arg(long)]
    no_stop: bool,
    /// Stops when more than this number died again, and more than --stop-share
    #[arg(long, value_name = "NUMBER", conflicts_with = "no_stop")]
    stop_deaths: Option<u64>,
    /// The share that goes with it, from 0 to 1
    #[arg(long, value_name = "SHARE", conflicts_with = "no_stop")]
    stop_share: Option<f64>,
    /// Why it is done, for whoever looks at it later
    #[arg(long)]
    note: Option<String>,
    /// Also from a durable queue to one that is not
    #[arg(long)]
    r#unsafe: bool,
    /// Only says what would be done
    #[arg(long)]
    dry_run: bool,
    /// Goes on where a dry run said that it looked no further
    #[arg(long, value_name = "PLACE", requires = "dry_run")]
    from: Option<String>,
    /// Does not wait
    #[arg(long)]
    detach: bool,
    /// Asks nothing
    #[arg(short = 'y', long)]
    yes: bool,
}

impl Redrive {
    fn target(&self) -> Value {
        if self.to_first {
            return json!({ "kind": "first" });
        }
        if self.to_original {
            return json!({ "kind": "original" });
        }
        if self.discard {
            return json!({ "kind": "discard" });
        }
        if let Some(queue) = &self.to_queue {
            return json!({ "kind": "queue", "queue": queue });
        }
        if let Some(exchange) = &self.to_exchange {
            let key = self.to_key.as_deref().unwrap_or_default();
            return json!({ "kind": "exchange", "exchange": exchange, "routing_key": key });
        }
        json!({ "kind": "origin" })
    }

    fn body(&self) -> Value {
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                body.insert(name.to_owned(), value);
            }
        };
        put("queue", json!(self.queue));
        put("target", self.target());
        let filter = self.only.body();
        if !filter.is_empty() {
            put("filter", Value::Object(filter));
        }
        put("rate", json!(self.rate));
        put("max", json!(self.max));
        put("ramp", json!(self.ramp));
        put("note", json!(self.note));
        if self.r#unsafe {
            put("unsafe", json!(true));
        }
        if self.stop_deaths.is_some() || self.stop_share.is_some() {
            let mut stop = Map::new();
            if let Some(deaths) = self.stop_deaths {
                stop.insert("deaths".to_owned(), json!(deaths));
            }
            if let Some(share) = self.stop_share {
                stop.insert("share".to_owned(), json!(share));
            }
            put("stop", Value::Object(stop));
        }
        if self.no_stop {
            body.insert("stop".to_owned(), Value::Null);
        }
        Value::Object(body)
    }

    /// Asks for the number of messages that are about to be dropped.
    fn ask_before_discarding(&self, api: &Api, body: &Value) -> Result<(), Failure> {
        let dry = api.post(&dry_run_path(api), body)?;
        let count = number(&dry, "discarded");
        let count = self.max.map_or(count, |max| count.min(max));
        // There may be more than a dry run looks at.
        let is_all = pick(&dry, "next").is_none_or(Value::is_null);
        let at_least = if is_all { "" } else { "at least " };
        if !stdin().is_terminal() {
            let what = format!(
                "{at_least}{count} messages of '{}' would be dropped",
                self.queue
            );
            return Err(Failure::usage(what).advise("with --yes nothing is asked"));
        }
        let mut err = stderr().lock();
        let asked = write!(
            err,
            "{at_least}{count} messages of '{}' will be dropped for good. Type their number to go on: ",
            printable(&self.queue)
        );
        asked.and_then(|()| err.flush()).ok();
        drop(err);
        let mut typed = String::new();
        stdin().read_line(&mut typed).ok();
        if typed.trim() == count.to_string() {
            return Ok(());
        }
        Err(Failure::new(FailureKind::Data, "nothing was dropped"))
    }
}

fn dry_run_path(api: &Api) -> Path {
    Path::of(&["redrives", api.vhost(), "dry-run"])
}

fn job_path(api: &Api, id: &str) -> Path {
    Path::of(&["redrives", api.vhost(), id])
}

fn number(value: &Value, path: &str) -> u64 {
    pick(value, path).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    pick(value, path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// What a dry run found, in lines.
fn foreseen(dry: &Value) -> String {
    let targets = dry["targets"].as_array().map_or(&[][..], Vec::as_slice);
    let movable: u64 = targets.iter().map(|to| number(to, "messages")).sum();
    let discarded = number(dry, "discarded");
    let (matched, scanned) = (number(dry, "matched"), number(dry, "scanned"));
    let seen = if dry["complete"] == json!(true) {
        format!("{matched} of {scanned} messages match")
    } else {
        format!("{matched} of {scanned} messages match, and there are more")
    };
    let what = if discarded > 0 {
        "would be dropped"
    } else {
        "would be moved"
    };
    let mut lines = vec![format!(
        "{seen}, {} {what}; nothing was done",
        movable + discarded
    )];
    for to in targets {
        let room = match to["room"].as_u64() {
            Some(room) => format!(", room for {room}"),
            None => String::new(),
        };
        lines.push(format!(
            "  to {:<24} {:>9}   {} consumers{room}",
            text(to, "queue"),
            number(to, "messages"),
            number(to, "consumers"),
        ));
    }
    for (field, why) in [
        (
            "skipped.held",
            "held by a consumer, or waiting for a target",
        ),
        ("skipped.no_target", "without a target"),
        ("skipped.not_allowed", "not allowed"),
        ("skipped.same_queue", "they would stay where they are"),
    ] {
        let count = number(dry, field);
        if count > 0 {
            lines.push(format!("  {:<27} {count:>9}   {why}", "left out"));
        }
    }
    if let Some(next) = dry["next"].as_str() {
        lines.push(format!("--from {next} looks at those behind them"));
    }
    let warnings = dry["warnings"].as_array().into_iter().flatten();
    lines.extend(warnings.map(|warning| format!("warning: {}", warning.as_str().unwrap_or(""))));
    lines.join("\n")
}

/// How far a job came, in one line.
fn progress(job: &Value) -> String {
    let state = text(job, "state");
    let cause = match text(job, "cause") {
        "" => String::new(),
        cause => format!(" ({cause})"),
    };
    let moved = number(job, "counts.moved");
    let done = match text(job, "target.kind") {
        "discard" => "dropped",
        _ => "moved",
    };
    let id = text(job, "id");
    let mut parts = vec![format!("{id}: {state}{cause}: {moved} {done}")];
    for (path, word) in [
        ("outcome.accepted", "accepted"),
        ("outcome.died_again", "died again"),
        ("outcome.outstanding", "outstanding"),
        ("outcome.gone", "gone"),
        ("counts.skipped_held", "held"),
        ("counts.skipped_no_target", "without a target"),
        ("counts.skipped_not_allowed", "not allowed"),
        ("counts.skipped_changed", "gone before"),
        ("counts.left", "left"),
    ] {
        let count = number(job, path);
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts.join(", ")
}

/// What a job was asked for, by whom, and how far it came, in lines.
fn told(job: &Value) -> String {
    let filter = pick(job, "filter").and_then(Value::as_object);
    let filter = filter.into_iter().flatten().map(|(name, value)| {
        let values = match value {
            Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" or "),
            value => plain(value),
        };
        format!(", {name} {values}")
    });
    let mut lines = vec![progress(job)];
    let from = printable(text(job, "queue"));
    lines.push(format!("  from {from}{}", filter.collect::<String>()));
    let targets = pick(job, "targets").and_then(Value::as_array);
    for to in targets.into_iter().flatten() {
        let (queue, moved) = (printable(text(to, "queue")), number(to, "moved"));
        lines.push(format!("  to {queue}: {moved}"));
    }
    let at = |name: &str| pick(job, name).and_then(Value::as_i64).map(local_time);
    let begun = at("created_at").unwrap_or_default();
    let over = at("ended_at").map(|at| format!(", over at {at}"));
    let by = printable(text(job, "by"));
    lines.push(format!(
        "  asked for by {by} at {begun}{}",
        over.unwrap_or_default()
    ));
    let note = text(job, "note");
    if !note.is_empty() {
        lines.push(format!("  note: {}", printable(note)));
    }
    lines.join("\n")
}

/// A value in a line of text.
fn plain(value: &Value) -> String {
    printable(
        &value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned),
    )
}

/// Waits until a job is over, and draws a line of progress for people.
fn wait(api: &Api, id: &str, out: Output) -> Result<Value, Failure> {
    let draws = !out.is_quiet() && !out.is_json() && stderr().is_terminal();
    loop {
        let job = api.get(&job_path(api, id))?;
        if draws {
            let line = printable(&progress(&job));
            let mut err = stderr().lock();
            write!(err, "\r\u{1b}[K{line}")
                .and_then(|()| err.flush())
                .ok();
        }
        let is_over = pick(&job, "ended_at").is_some_and(|at| !at.is_null());
        if is_over || text(&job, "state") == "paused" {
            if draws {
                writeln!(stderr().lock(), "\r\u{1b}[K").ok();
            }
            return Ok(job);
        }
        pause();
    }
}

fn pause() {
    let (_never, told) = mpsc::channel::<()>();
    told.recv_timeout(POLL).ok();
}

/// An id that no other redrive of this user has.
#[allow(
    clippy::disallowed_methods,
    reason = "the command line makes an id from the time"
)]
fn new_id() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!("redrive-{}", since.map_or(0, |since| since.as_millis()))
}

impl Task for Redrive {
    const NAME: &'static str = "redrive";
    const EXAMPLES: &'static [&'static str] = &[
        "redrive orders.dlq --dry-run",
        "redrive orders.dlq --condition app:timeout --rate 50 --note 'fixed in 2.14.1' --id fix-timeout",
        "redrive orders.dlq --to-queue orders.again --max 10",
        "redrive orders.dlq --discard --note 'test orders' --yes",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let body = self.body();
        if self.dry_run {
            let mut body = body;
            if let (Value::Object(fields), Some(from)) = (&mut body, &self.from) {
                fields.insert("from".to_owned(), json!(from));
            }
            let dry = api.post(&dry_run_path(api), &body)?;
            return if out.is_json() {
                print_json(&dry)
            } else {
                out.done(foreseen(&dry))
            };
        }
        if self.discard && !self.yes {
            self.ask_before_discarding(api, &body)?;
        }
        let id = self.id.unwrap_or_else(new_id);
        api.put(&job_path(api, &id), &body)?;
        if self.detach {
            let follow =
                format_args!("redrive '{id}' runs; 'coroner redrive_status {id}' follows it");
            return confirm(out, &Value::Null, follow);
        }
        let job = wait(api, &id, out)?;
        if out.is_json() {
            print_json(&job)?;
        } else {
            out.done(progress(&job))?;
        }
        match text(&job, "state") {
            "completed" => Ok(()),
            state => {
                let what = format!("redrive '{id}' is {state}: {}", text(&job, "cause"));
                let failure = Failure::new(FailureKind::Data, what);
                Err(match (state, text(&job, "cause")) {
                    ("paused", _) => {
                        failure.advise(format!("'coroner resume_redrive {id}' goes on"))
                    }
                    (_, "died_again") => failure.advise(format!(
                        "'coroner deaths {} --redriven true --count 1' says why they died again",
                        self.queue
                    )),
                    _ => failure,
                })
            }
        }
    }
}

/// Shows what a redrive did, and what became of the messages
#[derive(Args)]
pub(super) struct RedriveStatus {
    /// Id of the redrive
    id: String,
}

impl Task for RedriveStatus {
    const NAME: &'static str = "redrive_status";
    const EXAMPLES: &'static [&'static str] = &["redrive_status fix-timeout --format json"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let job = api.get(&job_path(api, &self.id))?;
        if out.is_json() || out.is_separated() {
            return out.fields(&job);
        }
        out.done(told(&job))
    }
}

macro_rules! steering {
    ($(#[$about:meta])* $task:ident, $name:literal, $verb:literal, $done:literal) => {
        $(#[$about])*
        #[derive(Args)]
        pub(super) struct $task {
            /// Id of the redrive
            id: String,
        }

        impl Task for $task {
            const NAME: &'static str = $name;
            const EXAMPLES: &'static [&'static str] = &[concat!($name, " fix-timeout")];

            fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
                let path = Path::of(&["redrives", api.vhost(), &self.id, $verb]);
                let answer = api.post(&path, &json!({}))?;
                confirm(out, &answer, format_args!("redrive '{}' {}", self.id, $done))
            }
        }
    };
}

steering!(
    /// Pauses a redrive until it is resumed
    PauseRedrive,
    "pause_redrive",
    "pause",
    "is paused"
);
steering!(
    /// Resumes a redrive that was paused
    ResumeRedrive,
    "resume_redrive",
    "resume",
    "goes on"
);
steering!(
    /// Cancels a redrive; what is moved stays moved
    CancelRedrive,
    "cancel_redrive",
    "cancel",
    "is cancelled"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_has_what_is_there_to_say() {
        let job = json!({
            "id": "fix", "state": "stopped", "cause": "died_again",
            "counts": {"moved": 63, "skipped_held": 2, "left": 349},
            "outcome": {"accepted": 46, "died_again": 6, "outstanding": 11, "gone": 0},
        });
        assert_eq!(
            progress(&job),
            "fix: stopped (died_again): 63 moved, 46 accepted, 6 died again, 11 outstanding, 2 held, \
             349 left"
        );
    }

    #[test]
    fn the_status_of_a_redrive_says_what_was_asked_for_and_by_whom() {
        let job = json!({
            "id": "fix", "queue": "orders.dlq", "state": "completed", "cause": null, "by": "alice",
            "note": "fixed in 2.14.1", "created_at": 1_763_744_920_000_i64, "ended_at": null,
            "counts": {"moved": 63}, "outcome": {"accepted": 63}, "target": {"kind": "origin"},
            "filter": {"group": ["1:9c2e41aa", "1:07d1f3b2"], "redriven": false},
            "targets": [{"queue": "orders", "moved": 63}],
        });
        let told = told(&job);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "fix: completed: 63 moved, 63 accepted");
        assert_eq!(
            lines[1],
            "  from orders.dlq, group 1:9c2e41aa or 1:07d1f3b2, redriven false"
        );
        assert_eq!(lines[2], "  to orders: 63");
        assert!(lines[3].starts_with("  asked for by alice at 20"), "{told}");
        assert!(!lines[3].contains("over at"), "{told}");
        assert_eq!(lines[4], "  note: fixed in 2.14.1");
        let dropped = json!({"id": "d", "state": "completed", "counts": {"moved": 5},
                             "target": {"kind": "discard"}});
        assert_eq!(progress(&dropped), "d: completed: 5 dropped");
    }

    #[test]
    fn a_dry_run_is_told_in_lines() {
        let dry = json!({
            "matched": 414, "scanned": 1_530, "complete": true, "discarded": 0,
            "targets": [{"queue": "orders", "messages": 412, "consumers": 3, "room": 99_588}],
            "skipped": {"held": 2, "no_target": 0, "not_allowed": 0, "same_queue": 0},
            "warnings": ["look out"],
        });
        let told = foreseen(&dry);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines[0],
            "414 of 1530 messages match, 412 would be moved; nothing was done"
        );
        assert!(lines[1].contains("to orders") && lines[1].contains("room for 99588"));
        assert!(lines[2].contains("held by a consumer"), "{}", lines[2]);
        assert_eq!(lines[3], "warning: look out");
    }
}
