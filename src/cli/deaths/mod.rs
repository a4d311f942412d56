//! `deaths`: the dead letters of a queue, each with its history as a story.
//!
//! Promises: our broker is asked by a look that changes nothing. A RabbitMQ has none: there,
//! messages are taken and put back, and that is said.
//!
//! Read [`story`] first.

mod story;

use clap::Args;
use serde_json::{Value, json};

use super::api::{Api, Path};
use super::exit::{Failure, FailureKind};
use super::manage::Task;
use super::output::{Output, pick, print, print_json};
use story::Letter;
pub(super) use story::{Death, Folded, journey};

/// Bytes of a body that a story shows, unless told otherwise.
const BODY_BYTES: u64 = 200;

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
    #[arg(short = 'c', long, default_value_t = 50)]
    count: u64,
    /// Bytes of each body to show
    #[arg(long, value_name = "BYTES", default_value_t = BODY_BYTES)]
    body: u64,
}

impl Task for Deaths {
    const NAME: &'static str = "deaths";
    const EXAMPLES: &'static [&'static str] = &[
        "deaths orders.dlq",
        "deaths -p shop orders.dlq --count 5 --format json",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let messages = match self.look(api) {
            Err(failure) if failure.kind == FailureKind::NotFound => {
                // Either there is no such queue, or the broker cannot be asked like this.
                api.get(&Path::of(&["queues", api.vhost(), &self.queue]))?;
                super::complain(
                    &"this broker has no look at messages that changes nothing: they \
                                  are taken and put back",
                );
                self.take_and_put_back(api)?
            }
            looked => looked?,
        };
        let letters = messages.iter().map(Letter::read);
        if out.is_json() {
            return print_json(&letters.map(|letter| letter.json(&self.queue)).collect());
        }
        let stories: Vec<String> = letters
            .enumerate()
            .map(|(index, letter)| letter.story(index + 1, &self.queue))
            .collect();
        if stories.is_empty() {
            return out.done(format_args!("no messages in queue '{}'", self.queue));
        }
        print(&stories.join("\n"))
    }
}

impl Deaths {
    /// Looks at the messages, slice after slice.
    fn look(&self, api: &Api) -> Result<Vec<Value>, Failure> {
        let mut found: Vec<Value> = Vec::new();
        let mut from = Some(0);
        while let Some(position) = from {
            let missing = self.count.saturating_sub(found.len() as u64);
            if missing == 0 {
                break;
            }
            let path = Path::of(&["queues", api.vhost(), &self.queue, "messages"])
                .query("from", &position.to_string())
                .query("count", &missing.to_string())
                .query("truncate", &self.body.to_string());
            let mut slice = api.get(&path)?;
            let messages = slice.get_mut("messages").map(Value::take);
            let Some(Value::Array(messages)) = messages else {
                return Err(Failure::new(
                    FailureKind::Protocol,
                    "the answer holds no messages",
                ));
            };
            let is_last = messages.is_empty();
            found.extend(messages);
            from = pick(&slice, "next")
                .and_then(Value::as_u64)
                .filter(|_| !is_last);
        }
        Ok(found)
    }

    fn take_and_put_back(&self, api: &Api) -> Result<Vec<Value>, Failure> {
        let body = json!({
            "count": self.count,
            "ackmode": "ack_requeue_true",
            "encoding": "auto",
            "truncate": self.body,
        });
        match api.post(
            &Path::of(&["queues", api.vhost(), &self.queue, "get"]),
            &body,
        )? {
            Value::Array(messages) => Ok(messages),
            _ => Err(Failure::new(
                FailureKind::Protocol,
                "the answer holds no messages",
            )),
        }
    }
}
