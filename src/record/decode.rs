//! Decoding of records: bytes to facts.

use std::sync::Arc;

use bytes::Bytes;

use super::kind::{FactKind, OfMessage, OfTopology};
use super::{
    RecordError, VERSION, checkpointed, consumer_links, deaths, memos, place, publisher_links,
    redrives, registry,
};
use crate::base::{Lsn, Name, Position, QueueId, Timestamp};
use crate::broker::exchange::{ExchangeKind, ExchangeSpec};
use crate::broker::policy::PolicySpec;
use crate::broker::{Body, Destination, Entry, Fact, Facts, Policy, Record, TopologyFact};
use crate::deaths::Reason;
use crate::message::{Message, Route};
use crate::wire::{Fields, Value};

/// Decodes a record: the vhost it is of, and its facts. Messages whose bodies are in other records
/// are hollow.
///
/// When the bytes are damaged, or of a newer version.
pub fn decode(lsn: Lsn, payload: &[u8]) -> Result<(Name, Record), RecordError> {
    let rest = match payload.split_first() {
        Some((&VERSION, rest)) => rest,
        Some((&version, _)) => return Err(RecordError::Version(version)),
        None => return Err(RecordError::Field("version")),
    };
    let mut fields = Fields::bare(rest);
    let vhost = name(&mut fields, "vhost")?;
    let wall = time(&mut fields)?;
    let mut facts = Facts::new();
    let mut at = fields.at();
    while let Some((&tag, values)) = rest.get(at..).and_then(<[u8]>::split_first) {
        let mut fields = Fields::bare(values);
        facts.push(fact(tag, &mut fields)?);
        at += 1 + fields.at();
    }
    let named = false;
    Ok((
        vhost,
        Record {
            lsn,
            wall,
            facts,
            named,
        },
    ))
}

/// Decodes a part of a checkpoint, which refers to messages in other records and has none itself.
///
/// # Errors
/// When the bytes are damaged, or of a newer version.
pub fn decode_block(lsn: Lsn, payload: &[u8]) -> Result<(Name, Record), RecordError> {
    let (vhost, record) = decode(lsn, payload)?;
    let has_message = |fact: &Fact| matches!(fact, Fact::Inserted { .. } | Fact::Changed { .. });
    if record.facts.iter().any(has_message) {
        return Err(RecordError::Field("message in a checkpoint"));
    }
    Ok((vhost, record))
}

/// The body that a journal record carries and names: of a record of facts the one in it; a streamed
/// body is itself that.
pub fn body_of(payload: &Bytes) -> Option<Bytes> {
    if payload.first() != Some(&VERSION) {
        return Some(payload.clone());
    }
    let (_, record) = decode(Lsn(0), payload).ok()?;
    record.facts.iter().find_map(|fact| {
        if let Fact::Inserted {
            message,
            body: Body::Named,
            ..
        } = fact
        {
            Some(message.bare_bytes())
        } else {
            None
        }
    })
}

fn fact(byte: u8, fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    Ok(
        match FactKind::of_byte(byte).ok_or(RecordError::Fact(byte))? {
            FactKind::Message(kind) => of_message(kind, fields)?,
            FactKind::Redrive(kind) => redrives::decode(kind, fields)?,
            FactKind::Memo(kind) => memos::decode(kind, fields)?,
            FactKind::PublisherLink(kind) => publisher_links::decode(kind, fields)?,
            FactKind::ConsumerLink(kind) => consumer_links::decode(kind, fields)?,
            FactKind::Topology(kind) => Fact::Topology(topology(kind, fields)?),
            FactKind::Registry(kind) => Fact::Registry(Box::new(registry::decode(kind, fields)?)),
        },
    )
}

fn of_message(kind: OfMessage, fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    Ok(match kind {
        OfMessage::Inserted => inserted(fields)?,
        OfMessage::Removed => {
            let (queue, position) = slot(fields)?;
            Fact::Removed {
                queue,
                position,
                body: Lsn(0),
            }
        }
        OfMessage::Returned => {
            let (queue, position) = slot(fields)?;
            Fact::Returned {
                queue,
                position,
                failures: uint(fields, "failures")?,
                acquired: uint(fields, "returns")?,
            }
        }
        OfMessage::Delayed => {
            let (queue, position) = slot(fields)?;
            Fact::Delayed {
                queue,
                position,
                until: time(fields)?,
                left_ms: fields.ulong()?,
            }
        }
        OfMessage::Waiting => {
            let (queue, position) = slot(fields)?;
            Fact::DeadPending {
                queue,
                position,
                reason: reason(fields)?,
                targets: targets(fields)?,
            }
        }
        OfMessage::Purged => {
            let position = |fields: &mut Fields<'_>| ulong(fields, "position").map(Position);
            Fact::Purged {
                queue: QueueId(ulong(fields, "queue")?),
                below: list(fields, position)?,
                kept: list(fields, position)?,
            }
        }
        OfMessage::Changed => {
            let (body, message) = message(fields)?;
            let route = route(fields)?;
            let (queue, position) = slot(fields)?;
            Fact::Changed {
                queue,
                position,
                message,
                route,
                body,
            }
        }
        OfMessage::Died => deaths::decode_died(fields)?,
        OfMessage::VhostDeaths => deaths::decode_vhost(fields)?,
        OfMessage::Checkpointed => Fact::Checkpointed {
            queue: QueueId(ulong(fields, "queue")?),
            messages: {
                let bytes = fields.binary()?;
                checkpointed::decode(bytes.ok_or(RecordError::Field("messages"))?)?
            },
        },
    })
}

fn topology(kind: OfTopology, fields: &mut Fields<'_>) -> Result<TopologyFact, RecordError> {
    Ok(match kind {
        OfTopology::QueueDeclared => TopologyFact::QueueDeclared {
            queue: QueueId(ulong(fields, "queue")?),
            name: name(fields, "queue name")?,
            auto_delete: flag(fields)?,
            arguments: pairs(fields)?,
        },
        OfTopology::QueueDeleted => TopologyFact::QueueDeleted {
            queue: QueueId(ulong(fields, "queue")?),
        },
        OfTopology::QueueIds => TopologyFact::QueueIds {
            next: QueueId(ulong(fields, "queue")?),
        },
        OfTopology::ExchangeDeclared => TopologyFact::ExchangeDeclared(ExchangeSpec {
            name: name(fields, "exchange name")?,
            kind: ExchangeKind::parse(&name(fields, "exchange type")?)
                .map_err(|_| RecordError::Field("exchange type"))?,
            durable: flag(fields)?,
            auto_delete: flag(fields)?,
            internal: flag(fields)?,
            arguments: pairs(fields)?,
        }),
        OfTopology::ExchangeDeleted => TopologyFact::ExchangeDeleted {
            name: name(fields, "exchange name")?,
        },
        OfTopology::Bound => {
            let (source, destination, key, arguments) = binding(fields)?;
            TopologyFact::Bound {
                source,
                destination,
                key,
                arguments,
            }
        }
        OfTopology::Unbound => {
            let (source, destination, key, arguments) = binding(fields)?;
            TopologyFact::Unbound {
                source,
                destination,
                key,
                arguments,
            }
        }
        OfTopology::PolicySet => {
            let operator = flag(fields)?;
            let policy = Box::new(policy(operator, fields)?);
            TopologyFact::PolicySet { operator, policy }
        }
        OfTopology::PolicyDeleted => TopologyFact::PolicyDeleted {
            operator: flag(fields)?,
            name: name(fields, "policy name")?,
        },
    })
}

fn inserted(fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    let (body, message) = message(fields)?;
    Ok(Fact::Inserted {
        message,
        route: route(fields)?,
        body,
        entries: list(fields, entry)?.into(),
    })
}

fn message(fields: &mut Fields<'_>) -> Result<(Body, Arc<Message>), RecordError> {
    Ok(match fields.ubyte()? {
        Some(place::NAMED) => (Body::Named, whole(fields)?),
        Some(place::CARRIED) => (Body::Carried, whole(fields)?),
        Some(place::AT) => {
            let lsn = Lsn(ulong(fields, "body")?);
            (Body::At(lsn), apart(fields)?)
        }
        _ => return Err(RecordError::Field("place of the body")),
    })
}

fn route(fields: &mut Fields<'_>) -> Result<Arc<Route>, RecordError> {
    Ok(Arc::new(Route {
        exchange: name(fields, "exchange")?,
        keys: list(fields, |fields| name(fields, "routing key"))?.into(),
    }))
}

pub(super) fn reason(fields: &mut Fields<'_>) -> Result<Reason, RecordError> {
    let reason = fields.symbol()?.and_then(Reason::from_word);
    reason.ok_or(RecordError::Field("reason"))
}

fn targets(fields: &mut Fields<'_>) -> Result<Option<Vec<QueueId>>, RecordError> {
    let target = |fields: &mut Fields<'_>| ulong(fields, "target").map(QueueId);
    flag(fields)?.then(|| list(fields, target)).transpose()
}

fn whole(fields: &mut Fields<'_>) -> Result<Arc<Message>, RecordError> {
    let envelope = fields.binary()?.ok_or(RecordError::Field("envelope"))?;
    let bare = fields.binary()?.ok_or(RecordError::Field("bare message"))?;
    let bare = Bytes::copy_from_slice(bare);
    Ok(Arc::new(Message::decode_envelope(envelope, bare)?))
}

fn apart(fields: &mut Fields<'_>) -> Result<Arc<Message>, RecordError> {
    let envelope = fields.binary()?.ok_or(RecordError::Field("envelope"))?;
    let length = ulong(fields, "length of the bare message")?;
    let length = u32::try_from(length);
    let length = length.map_err(|_| RecordError::Field("length of the bare message"))?;
    Ok(Arc::new(Message::decode_hollow(envelope, length)?))
}

fn entry(fields: &mut Fields<'_>) -> Result<Entry, RecordError> {
    let (queue, position) = slot(fields)?;
    Ok(Entry {
        queue,
        position,
        arrived: time(fields)?,
        ttl_ms: fields.ulong()?,
    })
}

type Binding = (Name, Destination, Name, Vec<(Name, Value)>);

fn binding(fields: &mut Fields<'_>) -> Result<Binding, RecordError> {
    let source = name(fields, "source")?;
    let is_queue = flag(fields)?;
    let destination = name(fields, "destination")?;
    let destination = if is_queue {
        Destination::Queue(destination)
    } else {
        Destination::Exchange(destination)
    };
    Ok((source, destination, name(fields, "key")?, pairs(fields)?))
}

fn policy(operator: bool, fields: &mut Fields<'_>) -> Result<Policy, RecordError> {
    let name = name(fields, "policy name")?;
    let pattern = fields.string()?.ok_or(RecordError::Field("pattern"))?;
    let priority = fields.value()?.and_then(|value| value.as_i64());
    let priority = priority.ok_or(RecordError::Field("priority"))?;
    let apply_to = fields.symbol()?.ok_or(RecordError::Field("apply-to"))?;
    let definition = pairs(fields)?;
    let spec = PolicySpec {
        name,
        pattern,
        priority,
        apply_to,
        definition,
    };
    Policy::new(operator, spec).map_err(|_| RecordError::Field("policy"))
}

fn pairs(fields: &mut Fields<'_>) -> Result<Vec<(Name, Value)>, RecordError> {
    list(fields, |fields| {
        let name = name(fields, "name of an argument")?;
        Ok((name, fields.value()?.unwrap_or(Value::Null)))
    })
}

/// Reads items behind their number. Each takes bytes, so a wrong number ends with the input.
pub(super) fn list<T>(
    fields: &mut Fields<'_>,
    mut one: impl FnMut(&mut Fields<'_>) -> Result<T, RecordError>,
) -> Result<Vec<T>, RecordError> {
    let count = ulong(fields, "number of things")?;
    let mut things = Vec::new();
    for _ in 0..count {
        things.push(one(fields)?);
    }
    Ok(things)
}

pub(super) fn slot(fields: &mut Fields<'_>) -> Result<(QueueId, Position), RecordError> {
    let queue = QueueId(ulong(fields, "queue")?);
    Ok((queue, Position(ulong(fields, "position")?)))
}

pub(super) fn name(fields: &mut Fields<'_>, what: &'static str) -> Result<Name, RecordError> {
    let text = fields.string()?;
    text.map(Name::from).ok_or(RecordError::Field(what))
}

pub(super) fn ulong(fields: &mut Fields<'_>, what: &'static str) -> Result<u64, RecordError> {
    fields.ulong()?.ok_or(RecordError::Field(what))
}

fn uint(fields: &mut Fields<'_>, what: &'static str) -> Result<u32, RecordError> {
    fields.uint()?.ok_or(RecordError::Field(what))
}

pub(super) fn flag(fields: &mut Fields<'_>) -> Result<bool, RecordError> {
    fields.bool()?.ok_or(RecordError::Field("flag"))
}

pub(super) fn time(fields: &mut Fields<'_>) -> Result<Timestamp, RecordError> {
    let time = fields.timestamp()?.map(Timestamp);
    time.ok_or(RecordError::Field("time"))
}
