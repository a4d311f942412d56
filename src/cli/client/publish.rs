//! The command `publish`: sends messages to any AMQP 1.0 broker.

use std::future::Future;
use std::io::{BufRead, Read, stdin};
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use clap::Args;
use fe2o3_amqp::Sender;
use fe2o3_amqp::link::SendError;
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Body, Data, Header, Message, MessageAnnotations, Outcome, Properties,
};
use fe2o3_amqp::types::primitives::{OrderedMap, SimpleValue, Symbol, Value};
use serde_json::json;

use super::options::To;
use super::{
    ClientConnection, Login, condition, late, link_state, refused, sender_attach, wires, within,
};
use crate::cli::api::Settings;
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::{Output, print_json};
use crate::cli::warn;

/// Examples for the help.
pub(super) const EXAMPLES: &[&str] = &[
    "publish --queue orders 'hello' --durable --message-id 1",
    "publish --exchange shop --key orders.new --property 'tries:=3' < order.json",
    "publish --queue orders --lines < many.txt",
    "publish --url amqp://broker.example --address q1 x --count 1000 --rate 100",
];

/// Publishes messages and prints what became of them
///
/// Works with any AMQP 1.0 broker. Ends with 65 unless every message was accepted.
#[derive(Args)]
pub(super) struct Publish {
    #[command(flatten)]
    to: To,
    /// Body [default: read from standard input]
    #[arg(conflicts_with_all = ["body-file", "lines"])]
    body: Option<String>,
    /// Reads the body from this file
    #[arg(long = "body-file", id = "body-file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Publishes each line of the input as a message
    #[arg(long)]
    lines: bool,
    /// Sends the body as an AMQP string, not as binary data
    #[arg(long)]
    text: bool,
    /// How often to publish it
    #[arg(short = 'c', long, default_value_t = 1)]
    count: u64,
    /// Messages a second at most
    #[arg(long)]
    rate: Option<f64>,
    /// Durable
    #[arg(long)]
    durable: bool,
    /// Priority, 0 to 255
    #[arg(long)]
    priority: Option<u8>,
    /// Time to live in milliseconds
    #[arg(long, value_name = "MILLISECONDS")]
    ttl: Option<u32>,
    /// Property message-id
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// Property correlation-id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Property subject
    #[arg(long)]
    subject: Option<String>,
    /// Property reply-to
    #[arg(long, value_name = "ADDRESS")]
    reply_to: Option<String>,
    /// Property content-type
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Property content-encoding
    #[arg(long, value_name = "ENCODING")]
    content_encoding: Option<String>,
    /// Property group-id
    #[arg(long, value_name = "ID")]
    group_id: Option<String>,
    /// Application property, NAME=TEXT or NAME:=NUMBER; repeatable
    #[arg(long = "property", value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// Message annotation, NAME=TEXT or NAME:=NUMBER; repeatable
    #[arg(long = "annotation", value_name = "NAME=VALUE")]
    annotations: Vec<String>,
    #[command(flatten)]
    login: Login,
}

/// The outcomes of the messages.
#[derive(Default)]
struct Outcomes {
    accepted: u64,
    released: u64,
    rejected: u64,
    modified: u64,
    /// Why the first one was not accepted.
    first_refusal: Option<String>,
}

impl Outcomes {
    fn add(&mut self, outcome: &Outcome) {
        let refusal = match outcome {
            Outcome::Accepted(_) => {
                self.accepted += 1;
                return;
            }
            Outcome::Released(_) => {
                self.released += 1;
                "released: no queue took it".to_owned()
            }
            Outcome::Rejected(rejected) => {
                self.rejected += 1;
                let why = rejected.error.as_ref().map(condition);
                format!(
                    "rejected: {}",
                    why.as_deref().unwrap_or("no reason was given")
                )
            }
            _ => {
                self.modified += 1;
                "modified: it was not taken".to_owned()
            }
        };
        self.first_refusal.get_or_insert(refusal);
    }

    fn report(self, out: Output) -> Result<(), Failure> {
        let (accepted, released) = (self.accepted, self.released);
        let (rejected, modified) = (self.rejected, self.modified);
        if out.is_json() {
            print_json(&json!({
                "accepted": accepted, "released": released,
                "rejected": rejected, "modified": modified,
                "first_refusal": self.first_refusal,
            }))?;
        } else {
            let counts = [
                (accepted, "accepted"),
                (released, "released"),
                (rejected, "rejected"),
                (modified, "modified"),
            ];
            let told = counts.iter().filter(|(count, _)| *count > 0);
            let words: Vec<String> = told
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            if !words.is_empty() {
                out.done(words.join(", "))?;
            }
        }
        match self.first_refusal {
            None => Ok(()),
            Some(why) => Err(Failure::new(
                FailureKind::Data,
                format!("not every message was accepted; the first one was {why}"),
            )),
        }
    }
}

/// Runs the command `publish`.
pub(super) async fn run(task: Publish, settings: Settings, out: Output) -> Result<(), Failure> {
    let address = task.to.address()?;
    let interval = interval(task.rate)?;
    let draft = task.draft()?;
    let mut peer = ClientConnection::connect(&settings, task.login).await?;
    let attached = Sender::attach(&mut peer.session, "coroner-publish", address.as_str());
    let mut sender = within(peer.timeout, "attaching", attached)
        .await?
        .map_err(|error| refused(&address, &sender_attach(&error)))?;
    let (mut outcomes, mut has_told) = (Outcomes::default(), false);
    let begun = now();
    let mut sent: u32 = 0;
    let mut bodies = task.bodies()?;
    while let Some(body) = bodies.next_body()? {
        for _ in 0..task.count {
            if let Some(interval) = interval {
                let due = interval.saturating_mul(sent);
                tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
            }
            let message = draft.message(body.clone(), task.text)?;
            let sending = sender.send(message);
            let outcome = told_to_wait(peer.timeout, &mut has_told, sending).await?;
            let outcome = outcome.map_err(|error| match &error {
                SendError::LinkStateError(error) => refused(&address, &link_state(error)),
                error => refused(&address, error),
            })?;
            outcomes.add(&outcome);
            sent = sent.saturating_add(1);
        }
    }
    // A link that the broker has closed meanwhile has nothing left to lose.
    within(peer.timeout, "detaching", sender.close())
        .await?
        .ok();
    peer.close().await?;
    outcomes.report(out)
}

/// Waits for an outcome; a long wait is explained once.
async fn told_to_wait<T>(
    timeout: Duration,
    has_told: &mut bool,
    sending: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut sending = pin!(sending);
    let first = tokio::time::timeout(TELL_AFTER.min(timeout), sending.as_mut());
    if let Ok(outcome) = first.await {
        return Ok(outcome);
    }
    if !std::mem::replace(has_told, true) {
        warn(&format!(
            "the broker has taken no message for {} s: it gives no credit while an alarm stands \
             (memory, disk: `coroner check_alarms` tells) or its queues' messages leave too slowly; \
             waiting",
            TELL_AFTER.as_secs()
        ));
    }
    let left = timeout.saturating_sub(TELL_AFTER);
    let waited = tokio::time::timeout(left, sending).await;
    waited.map_err(|_| late(timeout, "an outcome"))
}

/// Time after which a wait is explained.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// The interval between two messages.
fn interval(rate: Option<f64>) -> Result<Option<Duration>, Failure> {
    let interval = rate.map(|rate| Duration::try_from_secs_f64(1.0 / rate));
    interval
        .transpose()
        .map_err(|_| Failure::usage("--rate takes a number above 0"))
}

/// All parts of a message except its body.
struct Draft {
    header: Header,
    properties: Option<Properties>,
    application_properties: Option<ApplicationProperties>,
    annotations: Option<MessageAnnotations>,
}

impl Publish {
    fn draft(&self) -> Result<Draft, Failure> {
        let properties = Properties {
            message_id: self.message_id.clone().map(Into::into),
            correlation_id: self.correlation_id.clone().map(Into::into),
            subject: self.subject.clone(),
            reply_to: self.reply_to.clone(),
            content_type: self.content_type.clone().map(Symbol::from),
            content_encoding: self.content_encoding.clone().map(Symbol::from),
            group_id: self.group_id.clone(),
            ..Properties::default()
        };
        let mut application_properties = OrderedMap::new();
        for text in &self.properties {
            let (name, value) = wires::pair(text)?;
            let simple = SimpleValue::try_from(value);
            let simple = simple.map_err(|_| Failure::usage(format!("'{text}' is too much")))?;
            application_properties.insert(name, simple);
        }
        let mut annotations = OrderedMap::new();
        for text in &self.annotations {
            let (name, value) = wires::pair(text)?;
            annotations.insert(wires::annotation_key(name), value);
        }
        let is_given = properties != Properties::default();
        Ok(Draft {
            header: Header {
                durable: self.durable,
                priority: self.priority.map(Into::into).unwrap_or_default(),
                ttl: self.ttl,
                ..Header::default()
            },
            properties: is_given.then_some(properties),
            application_properties: (!self.properties.is_empty())
                .then_some(ApplicationProperties(application_properties)),
            annotations: (!self.annotations.is_empty()).then_some(MessageAnnotations(annotations)),
        })
    }

    fn bodies(&self) -> Result<Bodies, Failure> {
        if self.lines {
            return Ok(Bodies::Lines);
        }
        let unreadable = |what: &str, error: std::io::Error| {
            Failure::new(
                FailureKind::NotFound,
                format!("cannot read {what}: {error}"),
            )
        };
        let bytes = match (&self.body, &self.file) {
            (Some(body), _) => body.clone().into_bytes(),
            (None, Some(file)) => {
                #[allow(
                    clippy::disallowed_methods,
                    reason = "the command line reads its input"
                )]
                let read = std::fs::read(file);
                read.map_err(|error| unreadable(&file.display().to_string(), error))?
            }
            (None, None) => {
                let mut bytes = Vec::new();
                let read = stdin().lock().read_to_end(&mut bytes);
                read.map_err(|error| unreadable("standard input", error))?;
                bytes
            }
        };
        Ok(Bodies::One(Some(bytes)))
    }
}

/// The source of the bodies.
enum Bodies {
    One(Option<Vec<u8>>),
    Lines,
}

impl Bodies {
    fn next_body(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self {
            Self::One(body) => Ok(body.take()),
            Self::Lines => {
                let mut line = Vec::new();
                let read = stdin().lock().read_until(b'\n', &mut line);
                read.map_err(|error| {
                    Failure::new(
                        FailureKind::NotFound,
                        format!("cannot read standard input: {error}"),
                    )
                })?;
                let is_whole = line.last() == Some(&b'\n');
                if is_whole {
                    line.pop();
                }
                Ok((is_whole || !line.is_empty()).then_some(line))
            }
        }
    }
}

impl Draft {
    fn message(&self, body: Vec<u8>, is_text: bool) -> Result<Message<Body<Value>>, Failure> {
        let body = if is_text {
            let text = String::from_utf8(body)
                .map_err(|_| Failure::new(FailureKind::Data, "the body is no text of UTF-8"))?;
            Body::Value(fe2o3_amqp::types::messaging::AmqpValue(Value::String(text)))
        } else {
            Body::Data(vec![Data(body.into())].into())
        };
        Ok(Message {
            header: Some(self.header.clone()),
            delivery_annotations: None,
            message_annotations: self.annotations.clone(),
            properties: self.properties.clone(),
            application_properties: self.application_properties.clone(),
            body,
            footer: None,
        })
    }
}

#[allow(clippy::disallowed_methods, reason = "the command line keeps a rate")]
fn now() -> Instant {
    Instant::now()
}
