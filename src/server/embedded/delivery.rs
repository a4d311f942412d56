//! A message that was delivered, with its history.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::AmqpError;
use crate::base::{Serial, Timestamp};
use crate::deaths::{Entry, decode_deaths};
use crate::message::{KeyRule, Message};
use crate::wire::performative::DeliveryState;
use crate::wire::{
    HeaderFields, PropertyField, Reader, SectionIndex, SectionKind, Value, first_section, walk,
};

/// The annotation with the death history.
const DEATHS: &str = "x-opt-deaths";

/// All deaths of a message in one queue for one reason, as the broker recorded them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Death {
    /// The queue that it died in.
    pub queue: String,
    /// The reason: `rejected`, `expired`, `maxlen` or `delivery_limit`.
    pub reason: String,
    /// How often it died there for this reason.
    pub count: u64,
    /// When it first died there for this reason.
    pub first_time: SystemTime,
    /// When it last died there for this reason.
    pub last_time: SystemTime,
    /// The exchange that it had been published to before the first of these deaths.
    pub exchange: String,
    /// The routing keys that it had then, CC included.
    pub routing_keys: Vec<String>,
    /// The ttl that it had then; none if it had none.
    pub ttl: Option<Duration>,
}

impl Death {
    pub(in crate::server) fn of(entry: &Entry) -> Self {
        let keys = entry.routing_keys.iter();
        Self {
            queue: entry.queue.to_string(),
            reason: entry.reason.to_string(),
            count: entry.count,
            first_time: system_time(entry.first_time),
            last_time: system_time(entry.last_time),
            exchange: entry.exchange.to_string(),
            routing_keys: keys.map(ToString::to_string).collect(),
            ttl: entry.ttl.map(|ms| Duration::from_millis(ms.into())),
        }
    }
}

fn system_time(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(time.0).unwrap_or(0))
}

/// The decision on a delivery.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) id: Serial,
    pub(super) state: DeliveryState,
}

/// A message that a [`Consumer`](super::Consumer) received, and has to decide on.
///
/// One that is dropped undecided has failed: it goes back to its queue and the attempt is counted, as with
/// `modify(true, false)`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use coroner::{Broker, Message, Value};
///
/// let broker = Broker::builder().start().await?;
/// broker.admin().declare_queue("/", "jobs", &[]).await?;
/// let message = Message::new("dig").subject("garden").property("depth", Value::Uint(6));
/// broker.publisher("/queues/jobs").open().await?.publish(message).await?;
///
/// let mut jobs = broker.consumer("/queues/jobs").open().await?;
/// drop(jobs.next().await?); // a worker that panics leaves it so
/// let again = jobs.next().await?;
/// assert_eq!((again.body(), again.delivery_count()), (&b"dig"[..], 1));
/// assert_eq!((again.subject(), again.property("depth")), (Some("garden"), Some(Value::Uint(6))));
/// again.accept();
/// # broker.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Delivery {
    message: Message,
    header: HeaderFields,
    annotations: Vec<(String, Value)>,
    deaths: Vec<Death>,
    body: Bytes,
    id: Serial,
    settle: Option<mpsc::UnboundedSender<Settlement>>,
}

impl Delivery {
    /// Decodes a message of the broker; none if it is not one.
    pub(super) fn read(
        payload: &Bytes,
        id: Serial,
        settle: mpsc::UnboundedSender<Settlement>,
    ) -> Option<Self> {
        let index = walk(payload).ok()?;
        let (annotations, deaths) = annotations(payload, &index)?;
        let message = Message::from_transfer(payload.clone(), KeyRule::Specification).ok()?;
        Some(Self {
            header: index.read_header(payload).ok()?,
            body: data(payload, message.body()),
            annotations,
            deaths,
            message,
            id,
            settle: Some(settle),
        })
    }

    /// The body: the bytes of its data; of a message with a value or a sequence as body, the
    /// encoded sections.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body, to keep without a copy.
    pub fn body_bytes(&self) -> Bytes {
        self.body.clone()
    }

    /// The death history, the latest first; empty: it never died.
    pub fn deaths(&self) -> &[Death] {
        &self.deaths
    }

    /// How many deliveries of it failed before.
    pub fn delivery_count(&self) -> u32 {
        self.header.delivery_count.unwrap_or(0)
    }

    /// Whether it is durable, so that it survives a restart in a durable queue.
    pub fn is_durable(&self) -> bool {
        self.header.durable.unwrap_or(false)
    }

    /// The priority; none if it has none.
    pub const fn priority(&self) -> Option<u8> {
        self.header.priority
    }

    /// Property `message-id`, of any type.
    pub fn message_id(&self) -> Option<Value> {
        self.message.property(PropertyField::MessageId)
    }

    /// Property `correlation-id`: the id of the message that it answers.
    pub fn correlation_id(&self) -> Option<Value> {
        self.message.property(PropertyField::CorrelationId)
    }

    /// Property `subject`, if it has one.
    pub fn subject(&self) -> Option<&str> {
        self.message.subject()
    }

    /// Property `reply-to`: the address for answers.
    pub fn reply_to(&self) -> Option<&str> {
        self.message.reply_to()
    }

    /// The application property of this name.
    pub fn property(&self, name: &str) -> Option<Value> {
        self.message.application_property(name)
    }

    /// A message annotation, of the publisher or of the broker.
    pub fn annotation(&self, name: &str) -> Option<&Value> {
        let mut annotations = self.annotations.iter();
        annotations
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// Accepts the message: it is removed from the queue.
    pub fn accept(mut self) {
        self.settle(DeliveryState::Accepted);
    }

    /// Rejects the message: it dies, and is dead-lettered if its queue does that. The error is kept
    /// as evidence.
    pub fn reject(mut self, error: Option<AmqpError>) {
        let error = error.map(|error| error.to_wire().into());
        self.settle(DeliveryState::Rejected { error });
    }

    /// Releases the message: it is requeued as if it had never been delivered.
    pub fn release(mut self) {
        self.settle(DeliveryState::Released);
    }

    /// Requeues the message with the attempt counted as failed, or, if it is not for this consumer,
    /// lets it die.
    pub fn modify(mut self, delivery_failed: bool, undeliverable_here: bool) {
        self.settle(modified(delivery_failed, undeliverable_here));
    }

    fn settle(&mut self, state: DeliveryState) {
        if let Some(settle) = self.settle.take() {
            let id = self.id;
            // Without its consumer the message is requeued already.
            let _ = settle.send(Settlement { id, state });
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.settle(modified(true, false));
    }
}

const fn modified(delivery_failed: bool, undeliverable_here: bool) -> DeliveryState {
    DeliveryState::Modified {
        delivery_failed: Some(delivery_failed),
        undeliverable_here: Some(undeliverable_here),
        message_annotations: None,
    }
}

/// Annotations by name, and the death history in one of them.
type Annotations = (Vec<(String, Value)>, Vec<Death>);

fn annotations(payload: &Bytes, index: &SectionIndex) -> Option<Annotations> {
    let section = index.message_annotations;
    if section.is_absent() {
        return Some(Annotations::default());
    }
    let map = payload.get(section.value as usize..section.end as usize)?;
    let (mut annotations, mut deaths) = Annotations::default();
    for pair in Reader::new(map).map().ok()? {
        let pair = pair.ok()?;
        let Some(name) = pair.symbol_key() else {
            continue;
        };
        if name == DEATHS {
            let entries = decode_deaths(pair.value).ok()?;
            deaths = entries.iter().map(Death::of).collect();
        } else if let Ok(value) = Reader::new(pair.value).value() {
            annotations.push((name.to_owned(), value));
        }
    }
    Some((annotations, deaths))
}

/// The bytes of data sections, joined; other sections as they are encoded.
pub(in crate::server) fn data(payload: &Bytes, mut sections: &[u8]) -> Bytes {
    let (whole, mut joined) = (sections, Vec::new());
    while !sections.is_empty() {
        match first_section(sections) {
            Ok((SectionKind::Data, Value::Binary(bytes), rest)) => {
                if rest.is_empty() && joined.is_empty() {
                    return bytes;
                }
                joined.extend_from_slice(&bytes);
                sections = rest;
            }
            _ => return payload.slice_ref(whole),
        }
    }
    joined.into()
}
