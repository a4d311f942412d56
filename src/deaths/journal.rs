//! The form in which a history is stored. [dead-lettering part 10]
//!
//! ```text
//! version: u8 = 1, then encoded AMQP values one behind the other:
//! first: ulong, last exchange: string, number of entries: ulong, entries
//! entry     queue: string, reason: symbol, count: ulong, first-time, last-time: timestamp,
//!           exchange: string, number of keys: ulong, keys: string, ttl: uint or null, evidence
//! evidence  false; or true, condition, description: string or null, info: binary or null,
//!           container, link, user: string or null
//! ```

use std::sync::Arc;

use thiserror::Error;

use super::{Entry, Evidence, History, Reason};
use crate::base::{Name, Timestamp};
use crate::wire::{
    DecodeError, Fields, write_binary, write_bool, write_null, write_or_null, write_string,
    write_symbol, write_timestamp, write_uint, write_ulong,
};

/// The version that is written.
const VERSION: u8 = 1;

/// A stored history that cannot be read: damage, or a newer version.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// Written by a newer version.
    #[error("history has unknown version {0}")]
    Version(u8),
    /// Bytes that no version wrote.
    #[error("history is damaged: {0}")]
    Damaged(#[from] DecodeError),
    /// Values that no version wrote.
    #[error("history is damaged: bad {0}")]
    Field(&'static str),
}

impl History {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write_ulong(out, self.first_place() as u64);
        write_string(out, self.last().exchange);
        write_ulong(out, self.entries().len() as u64);
        for entry in self.entries() {
            encode_entry(entry, out);
        }
    }

    /// Reads the stored form; all of `input` must belong to it.
    pub fn decode(input: &[u8]) -> Result<Self, HistoryError> {
        match input.split_first() {
            Some((&VERSION, values)) => decode_history(&mut Fields::bare(values)),
            Some((&version, _)) => Err(HistoryError::Version(version)),
            None => Err(HistoryError::Field("version")),
        }
    }
}

fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    write_string(out, &entry.queue);
    write_symbol(out, entry.reason.as_str());
    write_ulong(out, entry.count);
    write_timestamp(out, entry.first_time.0);
    write_timestamp(out, entry.last_time.0);
    write_string(out, &entry.exchange);
    write_ulong(out, entry.routing_keys.len() as u64);
    for key in entry.routing_keys.iter() {
        write_string(out, key);
    }
    write_or_null(out, entry.ttl, write_uint);
    write_bool(out, entry.evidence.is_some());
    if let Some(evidence) = &entry.evidence {
        encode_evidence(evidence, out);
    }
}

fn encode_evidence(evidence: &Evidence, out: &mut Vec<u8>) {
    let Evidence {
        condition,
        description,
        info,
        container,
        link,
        user,
    } = evidence;
    let text = |out: &mut Vec<u8>, text: &Option<Name>| match text {
        Some(text) => write_string(out, text),
        None => write_null(out),
    };
    text(out, condition);
    text(out, description);
    match info {
        Some(info) => write_binary(out, info),
        None => write_null(out),
    }
    text(out, container);
    text(out, link);
    text(out, user);
}

fn decode_history(fields: &mut Fields<'_>) -> Result<History, HistoryError> {
    let first = count(fields, "place of the first death")?;
    let last_exchange = name(fields, "last exchange")?;
    let entries = count(fields, "number of entries")?;
    let entries = (0..entries)
        .map(|_| decode_entry(fields))
        .collect::<Result<Vec<_>, _>>()?;
    if !fields.is_empty() {
        return Err(HistoryError::Field("length"));
    }
    History::from_parts(entries, first, last_exchange).ok_or(HistoryError::Field("first death"))
}

fn decode_entry(fields: &mut Fields<'_>) -> Result<Entry, HistoryError> {
    Ok(Entry {
        queue: name(fields, "queue")?,
        reason: reason(fields)?,
        count: fields.ulong()?.ok_or(HistoryError::Field("count"))?,
        first_time: time(fields, "first-time")?,
        last_time: time(fields, "last-time")?,
        exchange: name(fields, "exchange")?,
        routing_keys: {
            let keys = count(fields, "number of routing keys")?;
            let keys = (0..keys).map(|_| name(fields, "routing key"));
            keys.collect::<Result<Arc<[Name]>, _>>()?
        },
        ttl: fields.uint()?,
        evidence: match fields.bool()? {
            Some(true) => Some(Arc::new(decode_evidence(fields)?)),
            Some(false) => None,
            None => return Err(HistoryError::Field("evidence")),
        },
    })
}

fn decode_evidence(fields: &mut Fields<'_>) -> Result<Evidence, HistoryError> {
    Ok(Evidence {
        condition: fields.string()?.map(Name::from),
        description: fields.string()?.map(Name::from),
        info: fields.binary()?.map(bytes::Bytes::copy_from_slice),
        container: fields.string()?.map(Name::from),
        link: fields.string()?.map(Name::from),
        user: fields.string()?.map(Name::from),
    })
}

fn reason(fields: &mut Fields<'_>) -> Result<Reason, HistoryError> {
    fields
        .symbol()?
        .and_then(Reason::from_word)
        .ok_or(HistoryError::Field("reason"))
}

fn name(fields: &mut Fields<'_>, what: &'static str) -> Result<Name, HistoryError> {
    fields
        .string()?
        .map(Name::from)
        .ok_or(HistoryError::Field(what))
}

fn time(fields: &mut Fields<'_>, what: &'static str) -> Result<Timestamp, HistoryError> {
    fields
        .timestamp()?
        .map(Timestamp)
        .ok_or(HistoryError::Field(what))
}

/// A number of things that follow. Each takes bytes, so a wrong one ends at the end of the input.
fn count(fields: &mut Fields<'_>, what: &'static str) -> Result<usize, HistoryError> {
    let count = fields
        .ulong()?
        .and_then(|count| usize::try_from(count).ok());
    count.ok_or(HistoryError::Field(what))
}
