//! Records of messages that are evicted and paged in.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{Stored, decode};
use crate::base::{Lsn, Name, Position, QueueId, Timestamp};
use crate::broker::{Body, Entries, Entry, Fact, PageIn, PagedIn, Record, Spill, Wanted};
use crate::message::{Message, Route};
use crate::store::Payload;

/// The bytes of a spilled block: a record that says the messages entered.
pub fn encode_spill(spill: &Spill) -> Vec<u8> {
    let insertion = |(position, message, route): &(Position, Arc<Message>, Arc<Route>)| {
        let entry = Entry {
            queue: spill.queue,
            position: *position,
            arrived: Timestamp(0),
            ttl_ms: None,
        };
        Fact::Inserted {
            message: message.clone(),
            route: route.clone(),
            body: message
                .blob()
                .map_or(Body::Carried, |body| Body::At(**body)),
            entries: Entries::from_elem(entry, 1),
        }
    };
    let record = Record {
        lsn: Lsn(0),
        wall: Timestamp(0),
        facts: spill.messages.iter().map(insertion).collect(),
        named: false,
    };
    let stored = Stored::new(Name::from(""), record);
    let mut bytes = Vec::with_capacity(stored.size_hint());
    stored.encode(&mut bytes);
    bytes
}

/// The LSNs of the records that a block refers to, rising, each once: to be read for [`loaded`].
pub fn records_of(load: &PageIn) -> Vec<Lsn> {
    let names = load.wanted.iter().flat_map(|w| [w.envelope, w.body]);
    let mut names: Vec<Lsn> = names.filter(|name| *name > Lsn(0)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// How much of a record was read.
#[derive(Clone, Debug)]
pub enum RecordRead {
    /// The whole record.
    Whole(Bytes),
    /// The first piece of a body in pieces: the others are read when the message is delivered.
    Beginning(Bytes),
}

/// Takes the messages of a block from the records that were read. Messages whose record is missing,
/// or does not have them, are left out: they are damaged.
pub fn loaded(load: &PageIn, records: impl IntoIterator<Item = (Lsn, RecordRead)>) -> PagedIn {
    let mut reader = Reader::default();
    for (lsn, found) in records {
        match found {
            RecordRead::Whole(payload) => reader.take(lsn, payload),
            RecordRead::Beginning(bytes) => {
                reader.bodies.insert(lsn, Bare::Blob(bytes, Arc::new(lsn)));
            }
        }
    }
    let queue = load.queue;
    let mut messages = Vec::with_capacity(load.wanted.len());
    let mut last: Option<Arc<Route>> = None;
    for wanted in &load.wanted {
        let Some((message, route)) = reader.message(queue, wanted) else {
            continue;
        };
        // Neighbours mostly have the same route, and share it.
        let route = last.filter(|last| *last == route).unwrap_or(route);
        messages.push((wanted.position, message, route.clone()));
        last = Some(route);
    }
    PagedIn {
        queue,
        block: load.block,
        messages,
    }
}

/// Records by their LSNs, decoded.
#[derive(Default)]
struct Reader {
    /// The message that a record has at a position; the last fact counts.
    messages: BTreeMap<(Lsn, QueueId, Position), Said>,
    /// Bare messages by the LSNs of their records.
    bodies: BTreeMap<Lsn, Bare>,
}

/// What a record says of the message at a position.
struct Said {
    message: Arc<Message>,
    route: Arc<Route>,
    /// It says what is new of a message that was there: the body may be in the record that put it there.
    is_change: bool,
}

/// A bare message in a record of its own or of another.
enum Bare {
    /// In a record with a whole message.
    Of(Arc<Message>),
    /// In a record of its own.
    Alone(Bytes),
    /// In pieces: the first one, and the LSN for the readers of the others.
    Blob(Bytes, Arc<Lsn>),
}

impl Reader {
    fn take(&mut self, lsn: Lsn, payload: Bytes) {
        if payload.first() != Some(&super::VERSION) {
            self.bodies.insert(lsn, Bare::Alone(payload));
            return;
        }
        let Ok((_, record)) = decode(lsn, &payload) else {
            return;
        };
        for fact in record.facts {
            self.note(lsn, fact);
        }
    }

    fn note(&mut self, lsn: Lsn, fact: Fact) {
        match fact {
            Fact::Inserted {
                message,
                route,
                body,
                entries,
            } => {
                if body == Body::Named {
                    self.bodies.insert(lsn, Bare::Of(message.clone()));
                }
                for entry in entries {
                    let place = (lsn, entry.queue, entry.position);
                    let said = Said {
                        message: message.clone(),
                        route: route.clone(),
                        is_change: false,
                    };
                    self.messages.insert(place, said);
                }
            }
            Fact::Changed {
                queue,
                position,
                message,
                route,
                ..
            } => {
                let said = Said {
                    message,
                    route,
                    is_change: true,
                };
                self.messages.insert((lsn, queue, position), said);
            }
            // These facts do not have a message.
            Fact::Removed { .. }
            | Fact::Returned { .. }
            | Fact::Delayed { .. }
            | Fact::DeadPending { .. }
            | Fact::Checkpointed { .. }
            | Fact::Purged { .. }
            | Fact::Died { .. }
            | Fact::VhostDeaths(_)
            | Fact::Redrive(_)
            | Fact::Memo(_)
            | Fact::PublisherLink(_)
            | Fact::ConsumerLink(_)
            | Fact::Topology(_)
            | Fact::Registry(_) => {}
        }
    }

    fn message(&self, queue: QueueId, wanted: &Wanted) -> Option<(Arc<Message>, Arc<Route>)> {
        let said = |lsn| self.messages.get(&(lsn, queue, wanted.position));
        let envelope = said(wanted.envelope)?;
        let (message, route) = (&envelope.message, envelope.route.clone());
        if !message.is_hollow() {
            return Some((message.clone(), route));
        }
        // One that came from another place has the body that the other record names. What that record
        // has at this position may be another message: positions are used again after a start.
        let own = envelope.is_change.then(|| said(wanted.body)).flatten();
        let own = own.map(|said| &said.message);
        let own = own.filter(|own| !own.is_hollow() && own.bare_len() == message.bare_len());
        let whole = match (own, self.bodies.get(&wanted.body)) {
            (Some(other), _) | (None, Some(Bare::Of(other))) => {
                let same = other.bare_len() == message.bare_len();
                same.then(|| message.with_body_of(other))?
            }
            (None, Some(Bare::Alone(bytes))) => Arc::new(message.filled(bytes)?),
            (None, Some(Bare::Blob(beginning, body))) => {
                Arc::new(message.filled_with_blob(beginning, Arc::clone(body))?)
            }
            (None, None) => return None,
        };
        Some((whole, route))
    }
}
