//! The command `deaths`: the dead letters of a queue, each with its history in words.
//!
//! Promises: Coroner is asked by browsing, which changes nothing. A RabbitMQ has no such request:
//! there, messages are taken and requeued, and the output says that.
//!
//! Read [`story`] first.

mod body;
mod redrives;
mod story;

use clap::{Args, value_parser};
use serde_json::{Value, json};

use super::api::{Api, Path};
use super::dead_letters::{FilterFlags, StateFlag};
use super::exit::{Failure, FailureKind};
use super::manage::Task;
use super::output::{Column, Output, pick, print, print_json, whole_number};
pub(super) use body::Body;
use story::Letter;
pub(super) use story::{Death, Folded, journey, local_time};

/// Bytes of a body that are shown, by default.
const BODY_BYTES: u64 = 200;
/// Messages that are taken and requeued at once when few of them may match.
const TAKEN_MAX: u64 = 10_000;

/// Shows the messages of a queue with the story of their deaths; changes nothing
///
/// For each message: where it was published, where, why, how often and when it died, and what it
/// carries. Times are local, with their offset from UTC. A RabbitMQ cannot show messages without
/// handing them out: there they are put back, marked as redelivered, and a quorum queue counts it
/// towards its delivery limit.
#[derive(Args)]
pub(super) struct Deaths {
    /// Name of the queue, usually one that dead letters go to
    queue: String,
    /// How many messages at most, from the front
    #[arg(short = 'c', long, default_value_t = 50, value_parser = value_parser!(u64).range(1..))]
    count: u64,
    /// Bytes of each body to show
    #[arg(long, value_name = "BYTES", default_value_t = BODY_BYTES)]
    body: u64,
    #[command(flatten)]
    state: StateFlag,
    #[command(flatten)]
    only: FilterFlags,
    /// Begins at this position of the queue
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    from: u64,
}

impl Task for Deaths {
    const NAME: &'static str = "deaths";
    const EXAMPLES: &'static [&'static str] = &[
        "deaths orders.dlq",
        "deaths -p shop orders.dlq --count 5 --format json",
        "deaths orders.dlq --reason rejected --queue orders --format csv",
        "deaths orders.dlq --selector \"customer = 'c1'\"",
        "deaths orders.dlq --group 1:9c2e41aa --count 1",
        "deaths orders.dlq --body-contains 4711",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (letters, more) = match self.look(api) {
            Err(failure) if api.is_not_known(&failure) => {
                // Either there is no such queue, or the broker does not have this request.
                api.get(&Path::of(&["queues", api.vhost(), &self.queue]))?;
                if self.only.asks_for_more() || self.state.is_given() || self.from > 0 {
                    return Err(Failure::usage(
                        "this broker has no look at messages that takes more than --reason, \
                         --queue and --condition",
                    ));
                }
                super::complain(
                    &"this broker has no look at messages that changes nothing: they \
                                  are taken and put back",
                );
                (self.take_and_put_back(api)?, None)
            }
            looked => looked?,
        };
        if out.is_json() {
            let letters = letters.iter().map(|letter| letter.json(&self.queue));
            return print_json(&letters.collect());
        }
        if out.is_separated() {
            let rows = letters.iter().map(|letter| letter.row(&self.queue));
            let columns = story::COLUMNS.map(|name| Column {
                shown: name.to_owned(),
                path: name.to_owned(),
            });
            return out.objects(rows.collect(), &columns, true);
        }
        let is_part = self.is_narrowed() || self.from > 0;
        let stories = letters.iter().enumerate();
        let stories: Vec<String> = stories
            .map(|(index, letter)| {
                // The number says nothing of the place where messages are left out.
                let place = letter.position().filter(|_| is_part);
                letter.story((index + 1, place), &self.queue, self.body)
            })
            .collect();
        if stories.is_empty() {
            let which = if self.is_narrowed() { "such " } else { "" };
            return out.done(format_args!("no {which}messages in queue '{}'", self.queue));
        }
        print(&stories.join("\n"))?;
        match more {
            Some(position) if stories.len() as u64 >= self.count => out.done(format_args!(
                "\n{} shown, as many as --count; --from {position} goes on behind them",
                stories.len()
            )),
            _ => Ok(()),
        }
    }
}

impl Deaths {
    /// Whether not all messages of the queue are meant.
    fn is_narrowed(&self) -> bool {
        self.only.is_any() || self.state.is_given()
    }

    /// Browses the messages, page by page; also returns the position behind the last one.
    fn look(&self, api: &Api) -> Result<(Vec<Letter>, Option<u64>), Failure> {
        let mut found: Vec<Letter> = Vec::new();
        let mut from = Some(self.from);
        while let Some(position) = from {
            let missing = self.count.saturating_sub(found.len() as u64);
            if missing == 0 {
                break;
            }
            let path = Path::of(&["queues", api.vhost(), &self.queue, "messages"])
                .query("from", &position.to_string())
                .query("count", &missing.to_string())
                .query("truncate", &self.body.to_string());
            let mut slice = api.get(&self.only.ask(self.state.ask(path)))?;
            let messages = slice.get_mut("messages").map(Value::take);
            let Some(Value::Array(messages)) = messages else {
                return Err(Failure::new(
                    FailureKind::Protocol,
                    "the answer holds no messages",
                ));
            };
            let next = pick(&slice, "next").and_then(whole_number);
            from = next.filter(|next| *next > position);
            for message in &messages {
                let letter = Letter::read(message);
                let behind = letter.behind();
                found.push(letter);
                if found.len() as u64 >= self.count {
                    from = behind.or(from);
                    break;
                }
            }
        }
        Ok((found, from))
    }

    fn take_and_put_back(&self, api: &Api) -> Result<Vec<Letter>, Failure> {
        let is_wanted = |letter: &Letter| !self.only.is_any() || self.only.means(letter.latest());
        let count = if self.only.is_any() {
            TAKEN_MAX
        } else {
            self.count
        };
        let body = json!({
            "count": count,
            "ackmode": "ack_requeue_true",
            "encoding": "auto",
            "truncate": self.body,
        });
        match api.post(
            &Path::of(&["queues", api.vhost(), &self.queue, "get"]),
            &body,
        )? {
            Value::Array(messages) => {
                let letters = messages.iter().map(Letter::read);
                let letters = letters.filter(is_wanted);
                Ok(letters
                    .take(usize::try_from(self.count).unwrap_or(usize::MAX))
                    .collect())
            }
            _ => Err(Failure::new(
                FailureKind::Protocol,
                "the answer holds no messages",
            )),
        }
    }
}
