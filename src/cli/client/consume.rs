//! The command `consume`: shows and settles messages of any AMQP 1.0 broker.

use std::fmt::Write;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, ValueEnum};
use fe2o3_amqp::Receiver;
use fe2o3_amqp::link::RecvError;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::types::definitions::{self, ErrorCondition, Fields};
use fe2o3_amqp::types::messaging::{Body, Message, MessageId, Modified};
use fe2o3_amqp::types::primitives::{Symbol, Timestamp, Value};
use serde_json::{Map, Value as Json, json};

use super::options::From;
use super::{ClientConnection, Login, link_state, receiver_attach, refused, wires, within};
use crate::cli::api::Settings;
use crate::cli::deaths::{Death, Folded, journey};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::{Output, print, print_data, printable, printable_json};

/// Examples for the help.
pub(super) const EXAMPLES: &[&str] = &[
    "consume orders --count 1",
    "consume orders --outcome reject --condition app:schema --description 'no price'",
    "consume orders.dlq --outcome release --count 20 --format json",
    "consume --url amqp://broker.example --address q1 --quiet > bodies",
];

/// Credit at a time, in messages.
const CREDIT_MAX: u32 = 100;

/// Messages that are held until the end, when they are requeued, by default.
const HELD_MAX: u64 = 1000;

/// Consumes messages, shows them and settles them
///
/// Works with any AMQP 1.0 broker. Without --count it ends when nothing has come for a while; with
/// it, it ends with 75 if fewer came. Messages that go back are held until the end, so that none is
/// shown twice.
#[derive(Args)]
pub(super) struct Consume {
    #[command(flatten)]
    from: From,
    /// How many messages [default: all that come; 1000 where they go back]
    #[arg(short = 'c', long)]
    count: Option<u64>,
    /// Seconds to wait for the next message
    #[arg(short = 'w', long, value_name = "SECONDS", default_value_t = 2.0)]
    wait: f64,
    /// What becomes of each message
    #[arg(short = 'o', long, value_enum, default_value = "accept")]
    outcome: Outcome,
    /// With --outcome reject: what is wrong with the message, such as app:schema
    #[arg(long, value_name = "SYMBOL")]
    condition: Option<String>,
    /// With --condition: the same for people
    #[arg(long, value_name = "TEXT", requires = "condition")]
    description: Option<String>,
    /// With --outcome modify: it failed here, which counts towards a delivery limit
    #[arg(long)]
    failed: bool,
    /// With --outcome modify: it shall not come here again; a queue dead-letters it
    #[arg(long)]
    undeliverable_here: bool,
    #[command(flatten)]
    login: Login,
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Outcome {
    /// Done with
    Accept,
    /// Not to be had: dead-lettered, if the queue does that
    Reject,
    /// Goes back as it came
    Release,
    /// Goes back changed, see --failed and --undeliverable-here
    Modify,
}

impl Consume {
    /// Whether messages are requeued at the end.
    fn gives_back(&self) -> bool {
        match self.outcome {
            Outcome::Accept | Outcome::Reject => false,
            Outcome::Release => true,
            Outcome::Modify => !self.undeliverable_here,
        }
    }
}

/// A received message.
#[derive(Default)]
struct ReceivedMessage {
    count: u64,
    /// Deliveries that are requeued at the end.
    held: Vec<DeliveryInfo>,
    /// A delivery that the client cannot decode.
    unreadable: Option<DeliveryInfo>,
}

/// Runs the command `consume`.
pub(super) async fn run(task: Consume, settings: Settings, out: Output) -> Result<(), Failure> {
    let address = task.from.address()?;
    if task.condition.is_some() && !matches!(task.outcome, Outcome::Reject) {
        return Err(Failure::usage("--condition goes with --outcome reject"));
    }
    let wait = Duration::try_from_secs_f64(task.wait)
        .map_err(|_| Failure::usage("--wait takes a number of seconds"))?;
    let mut peer = ClientConnection::connect(&settings, task.login).await?;
    let mut receiver = attach(&mut peer, &address).await?;
    let taken = take(&task, &mut receiver, &address, wait, out).await?;
    for info in taken.held {
        settle(&task, &receiver, info).await?;
    }
    let is_unreadable = taken.unreadable.is_some();
    if let Some(info) = taken.unreadable {
        receiver.release(info).await.ok();
    }
    // A link that the broker has closed meanwhile has nothing left to lose.
    within(peer.timeout, "detaching", receiver.close())
        .await?
        .ok();
    peer.close().await?;
    if is_unreadable {
        let what = "a message cannot be read by this client; it went back";
        return Err(Failure::new(FailureKind::Data, what)
            .advise("a history of deaths from a RabbitMQ does that; coroner deaths shows it"));
    }
    match task.count {
        Some(count) if taken.count < count => {
            let what = format!("{} of {count} messages came", taken.count);
            Err(Failure::new(FailureKind::Timeout, what).advise("--wait SECONDS waits longer"))
        }
        _ => Ok(()),
    }
}

/// Receives messages until there are enough or none comes, shows each, and settles those that are
/// not requeued.
async fn take(
    task: &Consume,
    receiver: &mut Receiver,
    address: &str,
    wait: Duration,
    out: Output,
) -> Result<ReceivedMessage, Failure> {
    let many = if task.gives_back() {
        HELD_MAX
    } else {
        u64::MAX
    };
    let count = task.count.unwrap_or(many);
    let mut taken = ReceivedMessage::default();
    let mut credit = 0;
    while taken.count < count {
        if credit == 0 {
            let missing = u32::try_from(count - taken.count).unwrap_or(u32::MAX);
            credit = missing.min(CREDIT_MAX);
            let given = receiver.set_credit(credit).await;
            given.map_err(|error| refused(address, &error))?;
        }
        let Ok(received) = tokio::time::timeout(wait, receiver.recv::<Body<Value>>()).await else {
            break;
        };
        let (info, message) = match received {
            Ok(delivery) => delivery.into_parts(),
            Err(RecvError::MessageDecode(error)) => {
                taken.unreadable = Some(error.info);
                break;
            }
            Err(RecvError::LinkStateError(error)) => {
                return Err(refused(address, &link_state(&error)));
            }
            Err(error) => return Err(refused(address, &error)),
        };
        credit -= 1;
        taken.count += 1;
        show(&message, taken.count, address, out)?;
        if task.gives_back() {
            taken.held.push(info);
        } else {
            settle(task, receiver, info).await?;
        }
    }
    Ok(taken)
}

/// A receiver that asks for death histories in a form that the client can decode.
async fn attach(peer: &mut ClientConnection, address: &str) -> Result<Receiver, Failure> {
    let mut properties = Fields::new();
    let encoding = Value::Symbol(Symbol::from("list"));
    properties.insert(Symbol::from("x-opt-deaths-encoding"), encoding);
    let attached = Receiver::builder()
        .name("coroner-consume")
        .source(address)
        .properties(properties)
        .credit_mode(CreditMode::Manual)
        .attach(&mut peer.session);
    within(peer.timeout, "attaching", attached)
        .await?
        .map_err(|error| refused(address, &receiver_attach(&error)))
}

impl Consume {
    /// The error for rejected messages.
    fn error(&self) -> Option<definitions::Error> {
        let condition = self.condition.as_deref()?;
        let condition = ErrorCondition::Custom(Symbol::from(condition));
        Some(definitions::Error::new(
            condition,
            self.description.clone(),
            None,
        ))
    }
}

async fn settle(task: &Consume, receiver: &Receiver, info: DeliveryInfo) -> Result<(), Failure> {
    let settled = match task.outcome {
        Outcome::Accept => receiver.accept(info).await,
        Outcome::Reject => receiver.reject(info, task.error()).await,
        Outcome::Release => receiver.release(info).await,
        Outcome::Modify => {
            let modified = Modified {
                delivery_failed: Some(task.failed),
                undeliverable_here: Some(task.undeliverable_here),
                message_annotations: None,
            };
            receiver.modify(info, modified).await
        }
    };
    settled.map_err(|error| refused("settling", &error))
}

fn show(
    message: &Message<Body<Value>>,
    number: u64,
    address: &str,
    out: Output,
) -> Result<(), Failure> {
    let shown = as_json(message);
    if out.is_json() {
        return print(&format!("{}\n", printable_json(&shown.to_string())));
    }
    let body = match shown.get("body") {
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    if out.is_quiet() {
        return print_data(&format!("{body}\n"));
    }
    let mut text = format!("message {number}\n");
    for (name, fields) in shown.as_object().into_iter().flatten() {
        let Some(fields) = fields.as_object().filter(|_| name != "body") else {
            continue;
        };
        let pair = |(name, value): (&String, &Json)| match value {
            Json::String(text) => format!("{}={}", printable(name), printable(text)),
            other => format!("{}={}", printable(name), printable(&other.to_string())),
        };
        let pairs = fields
            .iter()
            .filter(|(name, _)| !["x-opt-deaths", "x-opt-deaths-folded"].contains(&name.as_str()))
            .map(pair);
        let line = pairs.collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "  {}: {line}", name.replace('_', " "));
    }
    let annotation = |name| shown.get("message_annotations")?.get(name);
    let deaths = annotation("x-opt-deaths");
    let folded = annotation("x-opt-deaths-folded").and_then(Folded::read);
    if let Some(deaths) = deaths
        .map(Death::read_all)
        .filter(|deaths| !deaths.is_empty())
    {
        let here = address.rsplit('/').next().unwrap_or(address);
        let _ = writeln!(
            text,
            "  journey: {}",
            journey(&deaths, folded.as_ref(), here)
        );
    }
    let _ = writeln!(text, "  body: {}", printable(&body));
    print(&text)
}

/// The sections of a message; absent ones are left out.
fn as_json(message: &Message<Body<Value>>) -> Json {
    let mut sections = Map::new();
    if let Some(header) = &message.header {
        let fields = json!({
            "durable": header.durable, "priority": header.priority.0, "ttl": header.ttl,
            "first-acquirer": header.first_acquirer, "delivery-count": header.delivery_count,
        });
        sections.insert("header".to_owned(), present(fields));
    }
    if let Some(annotations) = &message.message_annotations {
        let fields = wires::annotations(annotations.0.iter());
        sections.insert("message_annotations".to_owned(), Json::Object(fields));
    }
    if let Some(properties) = &message.properties {
        let symbol = |symbol: &Option<Symbol>| symbol.as_ref().map(|it| it.as_str().to_owned());
        let milliseconds = |time: &Option<Timestamp>| time.as_ref().map(Timestamp::milliseconds);
        let fields = json!({
            "message-id": properties.message_id.as_ref().map(id),
            "user-id": properties.user_id.as_ref().map(|user| String::from_utf8_lossy(user)),
            "to": properties.to,
            "subject": properties.subject,
            "reply-to": properties.reply_to,
            "correlation-id": properties.correlation_id.as_ref().map(id),
            "content-type": symbol(&properties.content_type),
            "content-encoding": symbol(&properties.content_encoding),
            "absolute-expiry-time": milliseconds(&properties.absolute_expiry_time),
            "creation-time": milliseconds(&properties.creation_time),
            "group-id": properties.group_id,
            "group-sequence": properties.group_sequence,
            "reply-to-group-id": properties.reply_to_group_id,
        });
        sections.insert("properties".to_owned(), present(fields));
    }
    if let Some(properties) = &message.application_properties {
        let pair = |(name, value): (&String, &_)| {
            (name.clone(), wires::json(&Value::from(Clone::clone(value))))
        };
        let fields = properties.0.iter().map(pair).collect();
        sections.insert("application_properties".to_owned(), Json::Object(fields));
    }
    sections.insert("body".to_owned(), body(&message.body));
    Json::Object(sections)
}

/// The fields that are not null.
fn present(mut fields: Json) -> Json {
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

fn id(id: &MessageId) -> Json {
    wires::json(&match id {
        MessageId::Ulong(number) => Value::Ulong(*number),
        MessageId::Uuid(uuid) => Value::Uuid(uuid.clone()),
        MessageId::Binary(bytes) => Value::Binary(bytes.clone()),
        MessageId::String(text) => Value::String(text.clone()),
    })
}

/// Data as text if it is text, otherwise as Base64; a value as JSON; sequences as a list.
fn body(body: &Body<Value>) -> Json {
    match body {
        Body::Data(sections) => {
            let bytes: Vec<u8> = sections
                .iter()
                .flat_map(|data| data.0.iter().copied())
                .collect();
            match String::from_utf8(bytes) {
                Ok(text) => json!(text),
                Err(error) => json!(BASE64_STANDARD.encode(error.as_bytes())),
            }
        }
        Body::Value(value) => wires::json(&value.0),
        Body::Sequence(sequences) => {
            let items = sequences.iter().flat_map(|sequence| sequence.0.iter());
            items.map(wires::json).collect()
        }
        Body::Empty => Json::Null,
    }
}
