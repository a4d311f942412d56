//! Commands for existing queues: purge, delete, retry what is delayed. `declare` creates them.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Value, json};

use super::{Task, confirm, described};
use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::output::Output;

/// Removes all messages that wait in a queue; they are gone, not dead-lettered
#[derive(Args)]
pub(super) struct PurgeQueue {
    /// Name of the queue, or name=NAME
    queue: String,
}

/// Makes messages ready now that wait in a queue until it is their time, those due first
#[derive(Args)]
pub(super) struct RetryDelayed {
    /// Name of the queue
    queue: String,
    /// How many of them, at most [default: all]
    #[arg(long)]
    count: Option<u64>,
}

/// Deletes a queue with its messages
#[derive(Args)]
pub(super) struct DeleteQueue {
    /// Name of the queue
    queue: String,
    /// Only if no message waits in it
    #[arg(short = 'e', long)]
    if_empty: bool,
    /// Only if it has no consumers
    #[arg(long)]
    if_unused: bool,
}

impl Task for PurgeQueue {
    const NAME: &'static str = "purge_queue";
    const EXAMPLES: &'static [&'static str] = &["purge_queue -p orders orders.dlq"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (queue, vhost) = (named(&self.queue), api.vhost());
        let answer = api.delete(&Path::of(&["queues", vhost, queue, "contents"]))?;
        confirm(
            out,
            &answer,
            format_args!("queue '{queue}' in vhost '{vhost}' purged"),
        )
    }
}

impl Task for RetryDelayed {
    const NAME: &'static str = "retry_delayed";
    const EXAMPLES: &'static [&'static str] = &["retry_delayed -p shop orders --count 10"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (queue, vhost) = (&self.queue, api.vhost());
        let body = self
            .count
            .map_or_else(|| json!({}), |count| json!({ "count": count }));
        let path = Path::of(&["queues", vhost, queue, "retry"]);
        let answer = api.post(&path, &body)?;
        let retried = answer.get("retried").and_then(Value::as_u64);
        let retried = retried.unwrap_or_default();
        confirm(out, &answer, told_retried(retried, queue, vhost))
    }
}

impl Task for DeleteQueue {
    const NAME: &'static str = "delete_queue";
    const EXAMPLES: &'static [&'static str] = &["delete_queue -p orders old --if-empty"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (queue, vhost) = (&self.queue, api.vhost());
        let mut path = Path::of(&["queues", vhost, queue]);
        for (flag, is_given) in [("if-empty", self.if_empty), ("if-unused", self.if_unused)] {
            if is_given {
                path = path.query(flag, "true");
            }
        }
        let answer = api.delete(&path)?;
        confirm(
            out,
            &answer,
            format_args!("queue '{queue}' in vhost '{vhost}' deleted"),
        )
    }
}

/// The name in `name=NAME`, as in rabbitmqadmin, or the text itself.
fn named(text: &str) -> &str {
    text.strip_prefix("name=").unwrap_or(text)
}

/// The command `purge queue`, as in rabbitmqadmin.
pub(super) fn purge_group() -> Command {
    Command::new("purge")
        .about("Removes all messages of a queue: the same as purge_queue")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(described(
            PurgeQueue::augment_args(Command::new("queue")),
            &["purge queue name=orders.dlq"],
        ))
}

/// Runs the command `purge queue`.
pub(super) fn run_purge_group(matches: &ArgMatches, api: &Api, out: Output) -> Result<(), Failure> {
    let (_, matches) = matches
        .subcommand()
        .ok_or_else(|| Failure::usage("purge what? 'purge queue NAME'"))?;
    let task =
        PurgeQueue::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    task.run(api, out)
}

/// How many delayed messages are ready now.
fn told_retried(retried: u64, queue: &str, vhost: &str) -> String {
    let (messages, are) = if retried == 1 {
        ("message", "is")
    } else {
        ("messages", "are")
    };
    format!("{retried} delayed {messages} of queue '{queue}' in vhost '{vhost}' {are} ready now")
}

#[cfg(test)]
mod tests {
    use super::told_retried;

    /// It said "10 delayed messages are of queue 'orders' ...", other than docs/DELAYS.md.
    #[test]
    fn retried_messages_are_told_as_the_documentation_shows() {
        let told = told_retried(10, "orders", "/");
        assert!(include_str!("../../../docs/DELAYS.md").contains(&format!("\n{told}\n")));
        let one = "1 delayed message of queue 'q' in vhost 'v' is ready now";
        assert_eq!(told_retried(1, "q", "v"), one);
    }
}
