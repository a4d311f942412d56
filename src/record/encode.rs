//! Encoding of records: facts to bytes.

use super::kind::{OfMessage, OfTopology};
use super::{
    VERSION, checkpointed, consumer_links, deaths, memos, place, publisher_links, redrives,
    registry,
};
use crate::base::{Name, Position, QueueId, Timestamp};
use crate::broker::{Body, Destination, Entry, Fact, Facts, Policy, Record, TopologyFact};
use crate::deaths::{HistoryEncoder, Reason};
use crate::message::{Message, Route};
use crate::store;
use crate::wire::{
    Value, encode_value, write_binary, write_binary_of, write_bool, write_long, write_or_null,
    write_string, write_symbol, write_timestamp, write_ubyte, write_uint, write_ulong,
};

/// Estimated bytes of a record without its facts.
const RECORD_BYTES: usize = 32;

/// Estimated bytes of a fact without its texts, and of an envelope.
const FACT_BYTES: usize = 96;

/// Estimated bytes of a removal in a record of removals.
const REMOVED_BYTES: usize = 16;

/// Estimated bytes of a message in a checkpoint.
const CHECKPOINTED_BYTES: usize = 10;

/// Numbers of a record that are looked for in the next one; as a rule it has one.
const TOLD_MAX: usize = 8;

/// A record as it waits for the journal; encoded on the journal's thread only.
#[derive(Clone, Debug)]
pub struct Stored {
    vhost: Name,
    wall: Timestamp,
    content: Content,
    measure: Measure,
    /// Whether messages have their envelopes in it.
    named: bool,
    /// Whether another record refers to its body: then it must be written.
    pub(super) is_named: bool,
}

/// The content of a record.
#[derive(Clone, Debug)]
enum Content {
    Facts(Facts),
    /// Consecutive removals, in little memory.
    Removed(Vec<(QueueId, Position)>),
}

/// The size of a record, estimated when it is made.
#[derive(Clone, Copy, Debug)]
struct Measure {
    size_hint: u32,
    /// The part of the bytes that is messages.
    carried_bytes: u32,
    body: store::Body,
}

impl Stored {
    /// A record of a vhost's facts.
    pub fn new(vhost: Name, record: Record) -> Self {
        Self {
            vhost,
            wall: record.wall,
            measure: Measure::of(&record.facts, record.named),
            content: Content::Facts(record.facts),
            named: record.named,
            is_named: false,
        }
    }

    /// A record of removals.
    pub(super) fn removed(vhost: Name, wall: Timestamp, places: Vec<(QueueId, Position)>) -> Self {
        Self {
            vhost,
            wall,
            measure: Measure {
                size_hint: size_of_record(RECORD_BYTES + places.len() * REMOVED_BYTES),
                carried_bytes: 0,
                body: store::Body::None,
            },
            content: Content::Removed(places),
            named: false,
            is_named: false,
        }
    }

    /// Its facts; none for a record of removals.
    pub(super) fn facts(&self) -> &[Fact] {
        match &self.content {
            Content::Facts(facts) => facts,
            Content::Removed(_) => &[],
        }
    }

    /// Changes its facts; also returns whether any are left. None for a record of removals.
    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Facts) -> T,
    ) -> Option<(T, store::Amended)> {
        let Content::Facts(facts) = &mut self.content else {
            return None;
        };
        let result = change(facts);
        self.measure = Measure::of(facts, self.named);
        let amended = if facts.is_empty() {
            store::Amended::Empty
        } else {
            store::Amended::Kept
        };
        Some((result, amended))
    }

    /// Whether messages have their envelopes in it.
    pub(super) fn is_kept(&self) -> bool {
        self.measure.body == store::Body::Carried
    }
}

impl Measure {
    fn of(facts: &[Fact], named: bool) -> Self {
        let (mut own_bytes, mut carried_bytes) = (RECORD_BYTES, 0);
        let mut has_envelopes = false;
        for fact in facts {
            own_bytes += FACT_BYTES;
            match fact {
                Fact::Inserted { message, body, .. } | Fact::Changed { message, body, .. } => {
                    if !matches!(body, Body::At(_)) {
                        carried_bytes += message.bare_len();
                    }
                    has_envelopes = true;
                }
                Fact::Checkpointed { messages, .. } => {
                    own_bytes += messages.len() * CHECKPOINTED_BYTES;
                }
                Fact::Died { count, .. } => {
                    let condition = count.condition.as_ref();
                    let name = condition.and_then(|it| it.name.as_ref());
                    own_bytes += name.map_or(0, |name| name.len());
                }
                Fact::PublisherLink(fact) => own_bytes += publisher_links::bytes_of(fact),
                Fact::ConsumerLink(fact) => own_bytes += consumer_links::bytes_of(fact),
                Fact::Removed { .. }
                | Fact::Returned { .. }
                | Fact::Delayed { .. }
                | Fact::DeadPending { .. }
                | Fact::Purged { .. }
                | Fact::VhostDeaths(_)
                | Fact::Redrive(_)
                | Fact::Memo(_)
                | Fact::Topology(_)
                | Fact::Registry(_) => {}
            }
        }
        Self {
            size_hint: size_of_record(own_bytes + carried_bytes),
            carried_bytes: size_of_record(carried_bytes),
            body: if named && has_envelopes {
                store::Body::Carried
            } else {
                store::Body::None
            },
        }
    }
}

/// The size in 32 bits: no record is larger, since one with many bytes is ended early.
fn size_of_record(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl store::Payload for Stored {
    fn size_hint(&self) -> usize {
        self.measure.size_hint as usize
    }

    fn carried_bytes(&self) -> usize {
        self.measure.carried_bytes as usize
    }

    fn body(&self) -> store::Body {
        self.measure.body
    }

    /// Numbers of deaths are absolute. Of a death that is over before its record was written only
    /// they are left, and those of the next one tell them, too.
    fn may_be_told(&self) -> bool {
        let Content::Facts(facts) = &self.content else {
            return false;
        };
        facts.len() <= TOLD_MAX && facts.iter().all(|fact| matches!(fact, Fact::Died { .. }))
    }

    fn is_told_by(&self, next: &Self) -> bool {
        let (Content::Facts(told), Content::Facts(telling)) = (&self.content, &next.content) else {
            return false;
        };
        let tells = |one: &Fact| {
            telling.iter().any(|other| match (one, other) {
                (
                    Fact::Died { queue, count },
                    Fact::Died {
                        queue: other,
                        count: newer,
                    },
                ) => queue == other && count.is_of_same(newer),
                _ => false,
            })
        };
        self.vhost == next.vhost && self.may_be_told() && told.iter().all(tells)
    }

    type Before = HistoryEncoder;

    fn encode_after(&self, histories: &mut HistoryEncoder, out: &mut Vec<u8>) {
        out.reserve(self.measure.size_hint as usize);
        out.push(VERSION);
        write_string(out, &self.vhost);
        write_timestamp(out, self.wall.0);
        match &self.content {
            Content::Facts(facts) => {
                for fact in facts {
                    encode_fact(fact, histories, out);
                }
            }
            Content::Removed(places) => {
                for (queue, position) in places {
                    encode_removed(*queue, *position, out);
                }
            }
        }
    }
}

fn encode_removed(queue: QueueId, position: Position, out: &mut Vec<u8>) {
    out.push(OfMessage::Removed.byte());
    write_ulong(out, queue.0);
    write_ulong(out, position.0);
}

fn encode_fact(fact: &Fact, histories: &mut HistoryEncoder, out: &mut Vec<u8>) {
    match fact {
        Fact::Inserted {
            message,
            route,
            body,
            entries,
        } => {
            out.push(OfMessage::Inserted.byte());
            encode_message(message, *body, histories, out);
            encode_route(route, out);
            write_ulong(out, entries.len() as u64);
            for entry in entries {
                encode_entry(*entry, out);
            }
        }
        Fact::Removed {
            queue, position, ..
        } => encode_removed(*queue, *position, out),
        Fact::Returned {
            queue,
            position,
            failures,
            acquired,
        } => {
            let counts = (*failures, *acquired);
            encode_returned((*queue, *position), counts, out);
        }
        Fact::Delayed {
            queue,
            position,
            until,
            left_ms,
        } => encode_delayed((*queue, *position), (*until, *left_ms), out),
        Fact::DeadPending {
            queue,
            position,
            reason,
            targets,
        } => encode_waiting((*queue, *position), *reason, targets.as_deref(), out),
        Fact::Changed {
            queue,
            position,
            message,
            route,
            body,
        } => {
            out.push(OfMessage::Changed.byte());
            encode_message(message, *body, histories, out);
            encode_route(route, out);
            write_ulong(out, queue.0);
            write_ulong(out, position.0);
        }
        Fact::Checkpointed { queue, messages } => {
            out.push(OfMessage::Checkpointed.byte());
            write_ulong(out, queue.0);
            write_binary(out, &checkpointed::encode(messages));
        }
        Fact::Purged { queue, below, kept } => encode_purged(*queue, below, kept, out),
        Fact::Died { queue, count } => deaths::encode_died(*queue, count, out),
        Fact::VhostDeaths(deaths) => deaths::encode_vhost(deaths, out),
        Fact::Redrive(fact) => redrives::encode(fact, out),
        Fact::Memo(fact) => memos::encode(fact, out),
        Fact::PublisherLink(fact) => publisher_links::encode(fact, out),
        Fact::ConsumerLink(fact) => consumer_links::encode(fact, out),
        Fact::Topology(fact) => encode_topology(fact, out),
        Fact::Registry(fact) => registry::encode(fact, out),
    }
}

fn encode_returned(
    (queue, position): (QueueId, Position),
    (failures, acquired): (u32, u32),
    out: &mut Vec<u8>,
) {
    out.push(OfMessage::Returned.byte());
    write_ulong(out, queue.0);
    write_ulong(out, position.0);
    write_uint(out, failures);
    write_uint(out, acquired);
}

fn encode_delayed(
    (queue, position): (QueueId, Position),
    (until, left_ms): (Timestamp, Option<u64>),
    out: &mut Vec<u8>,
) {
    out.push(OfMessage::Delayed.byte());
    write_ulong(out, queue.0);
    write_ulong(out, position.0);
    write_timestamp(out, until.0);
    write_or_null(out, left_ms, write_ulong);
}

fn encode_purged(queue: QueueId, below: &[Position], kept: &[Position], out: &mut Vec<u8>) {
    out.push(OfMessage::Purged.byte());
    write_ulong(out, queue.0);
    encode_positions(below, out);
    encode_positions(kept, out);
}

fn encode_waiting(
    (queue, position): (QueueId, Position),
    reason: Reason,
    targets: Option<&[QueueId]>,
    out: &mut Vec<u8>,
) {
    out.push(OfMessage::Waiting.byte());
    write_ulong(out, queue.0);
    write_ulong(out, position.0);
    write_symbol(out, reason.as_str());
    write_bool(out, targets.is_some());
    if let Some(targets) = targets {
        write_ulong(out, targets.len() as u64);
        for target in targets {
            write_ulong(out, target.0);
        }
    }
}

fn encode_topology(fact: &TopologyFact, out: &mut Vec<u8>) {
    match fact {
        TopologyFact::QueueDeclared {
            queue,
            name,
            auto_delete,
            arguments,
        } => {
            out.push(OfTopology::QueueDeclared.byte());
            write_ulong(out, queue.0);
            write_string(out, name);
            write_bool(out, *auto_delete);
            encode_pairs(arguments, out);
        }
        TopologyFact::QueueDeleted { queue } => {
            out.push(OfTopology::QueueDeleted.byte());
            write_ulong(out, queue.0);
        }
        TopologyFact::QueueIds { next } => {
            out.push(OfTopology::QueueIds.byte());
            write_ulong(out, next.0);
        }
        TopologyFact::ExchangeDeclared(spec) => {
            out.push(OfTopology::ExchangeDeclared.byte());
            write_string(out, &spec.name);
            write_string(out, spec.kind.as_str());
            for flag in [spec.durable, spec.auto_delete, spec.internal] {
                write_bool(out, flag);
            }
            encode_pairs(&spec.arguments, out);
        }
        TopologyFact::ExchangeDeleted { name } => {
            out.push(OfTopology::ExchangeDeleted.byte());
            write_string(out, name);
        }
        TopologyFact::Bound {
            source,
            destination,
            key,
            arguments,
        } => {
            out.push(OfTopology::Bound.byte());
            encode_binding(source, destination, key, arguments, out);
        }
        TopologyFact::Unbound {
            source,
            destination,
            key,
            arguments,
        } => {
            out.push(OfTopology::Unbound.byte());
            encode_binding(source, destination, key, arguments, out);
        }
        TopologyFact::PolicySet { operator, policy } => {
            out.push(OfTopology::PolicySet.byte());
            write_bool(out, *operator);
            encode_policy(policy, out);
        }
        TopologyFact::PolicyDeleted { operator, name } => {
            out.push(OfTopology::PolicyDeleted.byte());
            write_bool(out, *operator);
            write_string(out, name);
        }
    }
}

fn encode_message(
    message: &Message,
    body: Body,
    histories: &mut HistoryEncoder,
    out: &mut Vec<u8>,
) {
    match body {
        Body::At(lsn) => {
            write_ubyte(out, place::AT);
            write_ulong(out, lsn.0);
            encode_apart(message, histories, out);
        }
        Body::Named | Body::Carried => {
            let place = if body == Body::Named {
                place::NAMED
            } else {
                place::CARRIED
            };
            write_ubyte(out, place);
            write_binary_of(out, |out| message.encode_envelope_after(histories, out));
            write_binary(out, &message.whole());
        }
    }
}

/// Encodes a message whose bare bytes are in another record.
fn encode_apart(message: &Message, histories: &mut HistoryEncoder, out: &mut Vec<u8>) {
    write_binary_of(out, |out| message.encode_envelope_after(histories, out));
    write_ulong(out, message.bare_len() as u64);
}

fn encode_route(route: &Route, out: &mut Vec<u8>) {
    write_string(out, &route.exchange);
    write_ulong(out, route.keys.len() as u64);
    for key in route.keys.iter() {
        write_string(out, key);
    }
}

fn encode_entry(entry: Entry, out: &mut Vec<u8>) {
    let Entry {
        queue,
        position,
        arrived,
        ttl_ms,
    } = entry;
    write_ulong(out, queue.0);
    write_ulong(out, position.0);
    write_timestamp(out, arrived.0);
    write_or_null(out, ttl_ms, write_ulong);
}

fn encode_positions(positions: &[Position], out: &mut Vec<u8>) {
    write_ulong(out, positions.len() as u64);
    for position in positions {
        write_ulong(out, position.0);
    }
}

fn encode_pairs(pairs: &[(Name, Value)], out: &mut Vec<u8>) {
    write_ulong(out, pairs.len() as u64);
    for (name, value) in pairs {
        write_string(out, name);
        encode_value(value, out);
    }
}

fn encode_binding(
    source: &Name,
    destination: &Destination,
    key: &Name,
    arguments: &[(Name, Value)],
    out: &mut Vec<u8>,
) {
    let (is_queue, name) = match destination {
        Destination::Queue(name) => (true, name),
        Destination::Exchange(name) => (false, name),
    };
    write_string(out, source);
    write_bool(out, is_queue);
    write_string(out, name);
    write_string(out, key);
    encode_pairs(arguments, out);
}

fn encode_policy(policy: &Policy, out: &mut Vec<u8>) {
    write_string(out, &policy.name);
    write_string(out, policy.pattern.as_str());
    write_long(out, policy.priority);
    write_symbol(out, policy.apply_to.as_str());
    encode_pairs(&policy.given, out);
}
