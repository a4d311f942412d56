//! Answers of management as AMQP values and messages.

use crate::base::{Lsn, Name};
use crate::broker::binding::Binding;
use crate::broker::{Destination, QueueInfo, Warning};
use crate::wire::{self, Array, SectionKind, Value, ValueKind, encode_answer, encode_value};

use super::path::BindingPath;
use super::refusal::{Refusal, Status};
use super::token::binding_token;

/// The answer to a successful operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Success {
    /// The status code of the answer.
    pub status: Status,
    /// The body; null with no content.
    pub body: Value,
    /// The answer is held back until this record is durable; 0: it is sent at once.
    pub lsn: Lsn,
    /// What will probably not do what was meant; for clients that ask for warnings.
    pub warnings: Vec<Warning>,
    /// Whether nothing had to be changed.
    pub is_unchanged: bool,
}

impl Success {
    /// An answer with status 200 and a body.
    pub const fn ok(body: Value, lsn: Lsn) -> Self {
        Self {
            status: Status::Ok,
            body,
            lsn,
            warnings: Vec::new(),
            is_unchanged: false,
        }
    }

    /// An answer with status 204, without a body.
    pub const fn no_content(lsn: Lsn) -> Self {
        Self {
            status: Status::NoContent,
            body: Value::Null,
            lsn,
            warnings: Vec::new(),
            is_unchanged: false,
        }
    }

    /// The same answer, marked as one that changed nothing.
    #[must_use]
    pub fn unchanged(self) -> Self {
        Self {
            is_unchanged: true,
            ..self
        }
    }

    /// The same answer with warnings.
    #[must_use]
    pub fn warned(self, warnings: Vec<Warning>) -> Self {
        Self { warnings, ..self }
    }

    /// The answer with the number of messages purged or deleted.
    pub fn messages(count: u64, lsn: Lsn) -> Self {
        let count = (Value::string("message_count"), Value::Ulong(count));
        Self::ok(Value::Map(vec![count]), lsn)
    }
}

/// A queue as RabbitMQ describes it; `messages_dead_pending` is added when dead letters wait in it,
/// `messages_delayed` when messages do that are not ready yet.
pub fn queue(info: &QueueInfo, vhost: &Name, node: &str) -> Value {
    let text = |text: &str| Value::string(text);
    let replicas = Array::new(ValueKind::String, vec![text(node)]);
    let replicas = replicas.map_or(Value::Null, Value::Array);
    let consumers = u32::try_from(info.consumer_count).unwrap_or(u32::MAX);
    let mut pairs = vec![
        ("leader", text(node)),
        ("replicas", replicas),
        ("message_count", Value::Ulong(info.messages_ready)),
        ("consumer_count", Value::Uint(consumers)),
        ("name", text(&info.name)),
        ("vhost", text(vhost)),
        ("durable", Value::Bool(info.durable)),
        ("auto_delete", Value::Bool(info.auto_delete)),
        ("exclusive", Value::Bool(info.exclusive)),
        ("type", text(info.kind)),
        ("arguments", arguments(&info.arguments)),
    ];
    if info.messages_dead_pending > 0 {
        let waiting = Value::Ulong(info.messages_dead_pending);
        pairs.push(("messages_dead_pending", waiting));
    }
    if info.messages_delayed > 0 {
        let delayed = Value::Ulong(info.messages_delayed);
        pairs.push(("messages_delayed", delayed));
    }
    map(pairs)
}

/// A binding with the path by which it can be deleted.
pub fn binding(binding: Binding) -> Value {
    let destination = match &binding.destination {
        Destination::Queue(name) => ("destination_queue", Value::string(name.as_str())),
        Destination::Exchange(name) => ("destination_exchange", Value::string(name.as_str())),
    };
    let pairs = vec![
        ("source", Value::string(binding.source.as_str())),
        destination,
        ("binding_key", Value::string(binding.key.as_str())),
        ("arguments", arguments(&binding.arguments)),
    ];
    let path = BindingPath {
        token: binding_token(&binding.arguments),
        source: binding.source,
        destination: binding.destination,
        key: binding.key,
    };
    let location = ("location", Value::String(path.write()));
    map(pairs.into_iter().chain([location]))
}

fn arguments(arguments: &[(Name, Value)]) -> Value {
    let pairs = arguments.iter();
    map(pairs.map(|(name, value)| (name.as_str(), value.clone())))
}

fn map<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let pairs = pairs.into_iter();
    Value::Map(
        pairs
            .map(|(key, value)| (Value::string(key), value))
            .collect(),
    )
}

/// Writes the message of an answer: properties with the status as subject and the request's
/// message-id as correlation-id, the application properties `http:response` and, if the request
/// `wants_warnings` and there are any, [`WARNING`], the body.
pub fn write_message(
    result: Result<Success, Refusal>,
    message_id: Option<&Value>,
    wants_warnings: bool,
) -> Vec<u8> {
    let mut properties = vec![("http:response", Value::string("1.1"))];
    let (status, body) = match result {
        Ok(success) => {
            let warnings: Vec<String> = success.warnings.iter().map(Warning::to_string).collect();
            if wants_warnings && !warnings.is_empty() {
                properties.push((WARNING, Value::String(warnings.join("\n"))));
            }
            (success.status, success.body)
        }
        Err(refusal) => {
            let why = refusal.why.chars().take(WHY_CHARS_MAX).collect();
            (refusal.status, Value::String(why))
        }
    };
    let mut out = Vec::with_capacity(256);
    wire::write_descriptor(&mut out, SectionKind::Properties.code());
    let fields = [
        Value::Null, // message-id
        Value::Null, // user-id
        Value::Null, // to
        Value::String(status.code().to_string()),
        Value::Null, // reply-to
        message_id.cloned().unwrap_or(Value::Null),
    ];
    encode_value(&Value::List(fields.to_vec()), &mut out);
    wire::write_descriptor(&mut out, SectionKind::ApplicationProperties.code());
    encode_value(&map(properties), &mut out);
    wire::write_descriptor(&mut out, SectionKind::Value.code());
    encode_answer(&body, &mut out);
    out
}

/// The application property by which a request asks for warnings (with `true`), and which has them
/// in the answer, one on each line. Without the request there are none: clients know RabbitMQ's
/// answers.
pub const WARNING: &str = "http:warning";

/// Characters of a refusal's text, at most: it may repeat the request, which may be large.
const WHY_CHARS_MAX: usize = 1024;
