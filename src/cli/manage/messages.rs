//! Commands for messages of a queue, through the API.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::Task;
use crate::cli::api::{Api, Path};
use crate::cli::deaths::Body;
use crate::cli::exit::Failure;
use crate::cli::output::{Column, Output};

/// Gets messages from the front of a queue, to look at them
///
/// By default they go back to their places: their redelivered flag is set then, and a RabbitMQ
/// counts it towards a delivery limit. 'deaths' shows dead letters without touching them.
#[derive(Args)]
pub(super) struct GetMessages {
    /// Name of the queue, or queue=NAME
    #[arg(required = true, num_args = 1..)]
    queue: Vec<String>,
    /// How many at most
    #[arg(short = 'c', long, default_value_t = 1)]
    count: u64,
    /// What becomes of them
    #[arg(long, value_enum, default_value = "ack_requeue_true")]
    ackmode: AckMode,
    /// How bodies are shown: as text where they are text, or all in Base64
    #[arg(long, value_parser = ["auto", "base64"], default_value = "auto")]
    encoding: String,
    /// Bytes of each body at most
    #[arg(long, value_name = "BYTES", default_value_t = 50_000)]
    truncate: u64,
}

/// What becomes of a message that was shown.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum AckMode {
    /// It goes back to its place
    AckRequeueTrue,
    /// It is accepted and gone
    AckRequeueFalse,
    /// It is rejected and goes back to its place
    RejectRequeueTrue,
    /// It is rejected: dead-lettered, or gone where there is no dead-letter exchange
    RejectRequeueFalse,
}

impl GetMessages {
    /// Accepts `count=5` and the like, as in rabbitmqadmin.
    fn take_pairs(&mut self) -> Result<String, Failure> {
        let mut queue = None;
        for text in std::mem::take(&mut self.queue) {
            match text.split_once('=') {
                Some(("queue", name)) => queue = Some(name.to_owned()),
                Some(("count", count)) => {
                    self.count = count
                        .parse()
                        .map_err(|_| Failure::usage(format!("count is no number: {count}")))?;
                }
                Some(("ackmode", mode)) => {
                    self.ackmode = AckMode::from_str(mode, true).map_err(Failure::usage)?;
                }
                Some(("encoding", encoding)) => encoding.clone_into(&mut self.encoding),
                _ if queue.is_none() => queue = Some(text),
                _ => return Err(Failure::usage(format!("'{text}' is one argument too many"))),
            }
        }
        queue.ok_or_else(|| Failure::usage("no queue was named"))
    }
}

const COLUMNS: [&str; 6] = [
    "exchange",
    "routing_key",
    "redelivered",
    "properties",
    "payload_bytes",
    "payload",
];

impl Task for GetMessages {
    const NAME: &'static str = "get";
    const EXAMPLES: &'static [&'static str] = &[
        "get orders.dlq --count 10 --format json",
        "get queue=orders.dlq ackmode=ack_requeue_false",
    ];

    fn run(mut self, api: &Api, out: Output) -> Result<(), Failure> {
        let queue = self.take_pairs()?;
        let mode = self.ackmode.to_possible_value();
        let body = json!({
            "count": self.count,
            "ackmode": mode.as_ref().map(PossibleValue::get_name),
            "encoding": self.encoding,
            "truncate": self.truncate,
        });
        let path = Path::of(&["queues", api.vhost(), &queue, "get"]);
        let Value::Array(messages) = api.post(&path, &body)? else {
            return Ok(());
        };
        let columns = COLUMNS.map(|name| Column {
            shown: name.to_owned(),
            path: name.to_owned(),
        });
        let messages = messages.into_iter().map(tidied);
        if out.is_json() {
            return out.objects(messages.collect(), &columns, false);
        }
        out.objects(messages.map(with_value).collect(), &columns, false)
    }
}

/// The message with its AMQP value instead of the Base64 of its section.
fn with_value(mut message: Value) -> Value {
    let value = match Body::read(&message) {
        body @ (Body::Value(..) | Body::Sequences(_)) => body.value(),
        Body::Text(_) | Body::Bytes(_) => return message,
    };
    if let Some(fields) = message.as_object_mut() {
        fields.insert("payload".to_owned(), value);
    }
    message
}

/// Replaces properties that are an empty list, as an Erlang program writes an empty object.
fn tidied(mut message: Value) -> Value {
    if let Some(properties) = message.get_mut("properties")
        && properties.as_array().is_some_and(Vec::is_empty)
    {
        *properties = Value::Object(Map::new());
    }
    message
}
