//! The annotations that carry a message's death history. [dead-lettering part 3]

use std::sync::Arc;

use thiserror::Error;

use super::redrives::REDRIVES;
use super::{Entry, Evidence, Folded, History, Quarantined, Reason};
use crate::base::{Name, Timestamp};
use crate::wire::{
    DecodeError, Value, begin_array_element, begin_list, begin_map, begin_map_array,
    begin_string_array, decode_value, end, end_array_element, write_array_string, write_string,
    write_symbol, write_timestamp, write_uint, write_ulong,
};

/// How a receiver wants `x-opt-deaths` (attach property `x-opt-deaths-encoding`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Encoding {
    /// An array of maps, as RabbitMQ 4 encodes it. The default.
    #[default]
    Array,
    /// A list of maps, for clients that cannot decode an array of maps.
    List,
    /// The annotation is left out.
    None,
}

/// How much of a death's evidence a receiver gets (attach property `x-opt-death-evidence`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum EvidenceLevel {
    /// No evidence, as RabbitMQ.
    None,
    /// Condition and description of the latest death. The default.
    #[default]
    Error,
    /// In addition who caused the latest death, and the error of each entry.
    Full,
}

impl EvidenceLevel {
    /// All levels, from least to most.
    pub const ALL: [Self; 3] = [Self::None, Self::Error, Self::Full];

    /// The word for it in settings and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Error => "error",
            Self::Full => "full",
        }
    }

    /// The level that a word names, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// The receiver of a history, who decides whose user names and addresses are shown in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Viewer<'a> {
    /// It sees none. The default.
    #[default]
    Nobody,
    /// It is this user and sees its own.
    User {
        /// The user's name.
        name: &'a str,
        /// Whether it is known by a token: then it is not the user of the registry with that name.
        by_token: bool,
    },
    /// It has the tag monitoring or administrator and sees everybody's.
    Monitor,
}

impl Viewer<'_> {
    /// Whether it sees the names and addresses of all users.
    pub const fn is_monitor(self) -> bool {
        matches!(self, Self::Monitor)
    }

    /// Whether it sees the user and address of this evidence.
    pub fn may_see(self, evidence: &Evidence) -> bool {
        match self {
            Self::Nobody => false,
            Self::User { .. } => {
                let user = evidence.user.as_deref();
                user.is_some_and(|user| self.is_user(user, evidence.by_token))
            }
            Self::Monitor => true,
        }
    }

    /// Whether it is the user of this name, who is known by a token or not: names in tokens are their issuer's,
    /// and nobody of the registry.
    pub fn is_user(self, user: &str, is_by_token: bool) -> bool {
        matches!(self, Self::User { name, by_token } if name == user && by_token == is_by_token)
    }
}

/// The form in which a receiver gets the death history of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeathsView<'a> {
    /// The encoding of `x-opt-deaths`.
    pub encoding: Encoding,
    /// How much evidence is added.
    pub evidence: EvidenceLevel,
    /// The receiver, for what it may see of others.
    pub viewer: Viewer<'a>,
}

/// The names of the death annotations: they are removed from messages that clients send.
pub const ANNOTATIONS: [&str; 14] = [
    DEATHS,
    FIRST_EXCHANGE,
    FIRST_QUEUE,
    FIRST_REASON,
    LAST_EXCHANGE,
    LAST_QUEUE,
    LAST_REASON,
    FOLDED,
    LAST_CONDITION,
    LAST_DESCRIPTION,
    LAST_BY,
    REDRIVES,
    QUARANTINE_CAUSE,
    QUARANTINE_PATH,
];

const DEATHS: &str = "x-opt-deaths";
const FIRST_EXCHANGE: &str = "x-first-death-exchange";
const FIRST_QUEUE: &str = "x-first-death-queue";
const FIRST_REASON: &str = "x-first-death-reason";
const LAST_EXCHANGE: &str = "x-last-death-exchange";
const LAST_QUEUE: &str = "x-last-death-queue";
const LAST_REASON: &str = "x-last-death-reason";
/// Totals of folded entries, a map; present only if there are any.
const FOLDED: &str = "x-opt-deaths-folded";
/// Condition of the error that caused the latest death; present only if there is one.
const LAST_CONDITION: &str = "x-opt-last-death-condition";
const LAST_DESCRIPTION: &str = "x-opt-last-death-description";
/// A map: who caused the latest death.
const LAST_BY: &str = "x-opt-last-death-by";
/// Why a message is in the quarantine; the queues of its cycle follow. Present only while it is
/// there.
const QUARANTINE_CAUSE: &str = "x-opt-quarantine-cause";
const QUARANTINE_PATH: &str = "x-opt-quarantine-path";
/// Number of text annotations about the first and the latest death.
const POINTS: usize = 6;

impl History {
    /// Appends the death annotations as encoded keys and values, without a map around them; returns
    /// the number of pairs.
    pub fn write_annotations(&self, view: DeathsView<'_>, out: &mut Vec<u8>) -> usize {
        let mut pairs = POINTS;
        if view.encoding != Encoding::None {
            write_symbol(out, DEATHS);
            self.write_deaths(view, out);
            pairs += 1;
        }
        for (key, value) in self.points() {
            write_symbol(out, key);
            write_string(out, value);
        }
        if let Some(folded) = self.folded() {
            write_symbol(out, FOLDED);
            write_folded(folded, out);
            pairs += 1;
        }
        if let Some(why) = self.quarantined() {
            pairs += self.write_quarantined(why, out);
        }
        match self.latest_evidence() {
            Some(evidence) if view.evidence != EvidenceLevel::None => {
                pairs + write_latest(evidence, view, out)
            }
            _ => pairs,
        }
    }

    /// The evidence of the latest death, if there is any.
    pub fn latest_evidence(&self) -> Option<&Evidence> {
        self.entries().first()?.evidence.as_deref()
    }

    /// The value of one of these annotations, as headers exchanges see it; none for other names.
    pub fn annotation(&self, name: &str) -> Option<Value> {
        if name == DEATHS {
            let mut encoded = Vec::new();
            self.write_deaths(DeathsView::default(), &mut encoded);
            return decode_value(&encoded).ok().map(|(value, _)| value);
        }
        if name == FOLDED {
            let mut encoded = Vec::new();
            write_folded(self.folded()?, &mut encoded);
            return decode_value(&encoded).ok().map(|(value, _)| value);
        }
        let error = || self.latest_evidence();
        match name {
            LAST_CONDITION => return error()?.condition.as_deref().map(Value::symbol),
            LAST_DESCRIPTION => return error()?.description.as_deref().map(Value::string),
            QUARANTINE_CAUSE => {
                let why = self.quarantined()?;
                return Some(Value::symbol(why.cause.as_str()));
            }
            QUARANTINE_PATH => {
                let path = self.quarantine_path();
                let queues = path.iter().map(|queue| Value::string(queue.as_str()));
                return (!path.is_empty()).then(|| Value::List(queues.collect()));
            }
            _ => {}
        }
        let mut points = self.points().into_iter();
        points
            .find(|(key, _)| *key == name)
            .map(|(_, value)| Value::string(value))
    }

    /// Writes why the message is in the quarantine; returns the number of annotations written.
    fn write_quarantined(&self, why: &Quarantined, out: &mut Vec<u8>) -> usize {
        write_symbol(out, QUARANTINE_CAUSE);
        write_symbol(out, why.cause.as_str());
        let path = self.quarantine_path();
        if path.is_empty() {
            return 1;
        }
        write_symbol(out, QUARANTINE_PATH);
        let list = begin_list(out);
        for queue in &path {
            write_string(out, queue);
        }
        end(out, list, path.len());
        2
    }

    /// The six text annotations, in the order in which `RabbitMQ` writes them.
    fn points(&self) -> [(&'static str, &str); POINTS] {
        let (first, last) = (self.first(), self.last());
        [
            (FIRST_EXCHANGE, first.exchange),
            (FIRST_QUEUE, first.queue),
            (FIRST_REASON, first.reason.as_str()),
            (LAST_EXCHANGE, last.exchange),
            (LAST_QUEUE, last.queue),
            (LAST_REASON, last.reason.as_str()),
        ]
    }

    /// Writes the value of `x-opt-deaths`.
    fn write_deaths(&self, view: DeathsView<'_>, out: &mut Vec<u8>) {
        let entries = self.entries();
        if view.encoding == Encoding::List {
            let list = begin_list(out);
            for entry in entries {
                let map = begin_map(out);
                let count = write_entry(entry, view, out);
                end(out, map, count);
            }
            end(out, list, entries.len());
        } else {
            let array = begin_map_array(out);
            for entry in entries {
                let map = begin_array_element(out);
                let count = write_entry(entry, view, out);
                end_array_element(out, map, count);
            }
            end(out, array, entries.len());
        }
    }
}

/// Writes the evidence of the latest death; returns the number of annotations written.
fn write_latest(evidence: &Evidence, view: DeathsView<'_>, out: &mut Vec<u8>) -> usize {
    let mut pairs = 0;
    if let Some(condition) = &evidence.condition {
        write_symbol(out, LAST_CONDITION);
        write_symbol(out, condition);
        pairs += 1;
    }
    if let Some(description) = &evidence.description {
        write_symbol(out, LAST_DESCRIPTION);
        write_string(out, description);
        pairs += 1;
    }
    if view.evidence == EvidenceLevel::Full && evidence.how.is_some() {
        write_symbol(out, LAST_BY);
        write_by(evidence, view.viewer, out);
        pairs += 1;
    }
    pairs
}

/// Writes who caused a death, as a map: `how`, and the names of those that the receiver may see.
fn write_by(evidence: &Evidence, viewer: Viewer<'_>, out: &mut Vec<u8>) {
    let map = begin_map(out);
    let mut count = 0;
    if let Some(how) = evidence.how {
        write_symbol(out, "how");
        write_symbol(out, how.as_str());
        count += 2;
    }
    let names = [
        ("container", &evidence.container, true),
        ("link", &evidence.link, true),
        ("user", &evidence.user, viewer.may_see(evidence)),
        ("address", &evidence.address, viewer.may_see(evidence)),
    ];
    for (key, name, is_shown) in names {
        if let Some(name) = name.as_ref().filter(|_| is_shown) {
            write_symbol(out, key);
            write_string(out, name);
            count += 2;
        }
    }
    end(out, map, count);
}

/// Writes the value of `x-opt-deaths-folded`.
fn write_folded(folded: &Folded, out: &mut Vec<u8>) {
    let map = begin_map(out);
    write_symbol(out, "entries");
    write_ulong(out, folded.entries());
    write_symbol(out, "deaths");
    write_ulong(out, folded.deaths());
    write_symbol(out, "until");
    write_timestamp(out, folded.until().0);
    end(out, map, 6);
}

/// Writes the keys and values of one entry; returns their number. `RabbitMQ` reads an entry in
/// exactly this order, `ttl` first; the evidence, if it is asked for in full, follows.
fn write_entry(entry: &Entry, view: DeathsView<'_>, out: &mut Vec<u8>) -> usize {
    if let Some(ttl) = entry.ttl {
        write_symbol(out, "ttl");
        write_uint(out, ttl);
    }
    write_symbol(out, "queue");
    write_string(out, &entry.queue);
    write_symbol(out, "reason");
    write_symbol(out, entry.reason.as_str());
    write_symbol(out, "count");
    write_ulong(out, entry.count);
    write_symbol(out, "first-time");
    write_timestamp(out, entry.first_time.0);
    write_symbol(out, "last-time");
    write_timestamp(out, entry.last_time.0);
    write_symbol(out, "exchange");
    write_string(out, &entry.exchange);
    write_symbol(out, "routing-keys");
    let keys = begin_string_array(out);
    for key in entry.routing_keys.iter() {
        write_array_string(out, key);
    }
    end(out, keys, entry.routing_keys.len());
    let count = if entry.ttl.is_some() { 16 } else { 14 };
    match &entry.evidence {
        Some(evidence) if view.evidence == EvidenceLevel::Full => {
            count + write_error(evidence, view.viewer, out)
        }
        _ => count,
    }
}

/// Writes the error of one entry and who caused it; returns the number of keys and values written.
fn write_error(evidence: &Evidence, viewer: Viewer<'_>, out: &mut Vec<u8>) -> usize {
    let mut count = 0;
    if let Some(condition) = &evidence.condition {
        write_symbol(out, "error-condition");
        write_symbol(out, condition);
        count += 2;
    }
    if let Some(description) = &evidence.description {
        write_symbol(out, "error-description");
        write_string(out, description);
        count += 2;
    }
    if let Some(info) = &evidence.info {
        write_symbol(out, "error-info");
        out.extend_from_slice(info);
        count += 2;
    }
    if evidence.how.is_some() {
        write_symbol(out, "by");
        write_by(evidence, viewer, out);
        count += 2;
    }
    count
}

/// Why an encoded `x-opt-deaths` cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AnnotationError {
    /// Its bytes are not an AMQP value.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It is neither an array nor a list of maps.
    #[error("x-opt-deaths must be an array or list of maps, found {found}")]
    NoEntries {
        /// The kind of value it is.
        found: String,
    },
    /// A field of an entry is missing or of another type.
    #[error("entry {entry} of x-opt-deaths has no valid field {field}")]
    Field {
        /// Index of the entry, from 0.
        entry: usize,
        /// Name of the field.
        field: &'static str,
    },
}

/// Reads the entries from an encoded `x-opt-deaths` value, array or list, newest first. For tools
/// and tests: the broker never takes a history from an annotation.
pub fn decode_deaths(encoded: &[u8]) -> Result<Vec<Entry>, AnnotationError> {
    let (value, _) = decode_value(encoded)?;
    let Some(entries) = value.as_elements() else {
        return Err(AnnotationError::NoEntries {
            found: value.to_string(),
        });
    };
    let entries = entries.iter().enumerate().map(|(place, map)| {
        entry_from(map).map_err(|field| AnnotationError::Field {
            entry: place,
            field,
        })
    });
    entries.collect()
}

/// Reads one entry; the error is the name of the first field that is missing or wrong.
fn entry_from(map: &Value) -> Result<Entry, &'static str> {
    let string = |field| match map.get(field) {
        Some(Value::String(text)) => Ok(Name::from(text.as_str())),
        _ => Err(field),
    };
    let time = |field| match map.get(field) {
        Some(Value::Timestamp(time)) => Ok(Timestamp(*time)),
        _ => Err(field),
    };
    let reason = map
        .get("reason")
        .and_then(Value::as_str)
        .and_then(Reason::from_word);
    let keys = map
        .get("routing-keys")
        .and_then(Value::as_elements)
        .ok_or("routing-keys")?;
    let keys = keys.iter().map(|key| key.as_str().map(Name::from));
    Ok(Entry {
        queue: string("queue")?,
        reason: reason.ok_or("reason")?,
        count: map.get("count").and_then(Value::as_u64).ok_or("count")?,
        first_time: time("first-time")?,
        last_time: time("last-time")?,
        exchange: string("exchange")?,
        routing_keys: keys
            .collect::<Option<Arc<[Name]>>>()
            .ok_or("routing-keys")?,
        ttl: match map.get("ttl") {
            None => None,
            Some(Value::Uint(ttl)) => Some(*ttl),
            Some(_) => return Err("ttl"),
        },
        evidence: None,
    })
}
