//! The stored form of a history. [dead-lettering part 10]
//!
//! ```text
//! version: u8 = 1, then encoded AMQP values one behind the other:
//! first: ulong, last exchange: string,
//! number of key lists: ulong, key lists, number of rules: ulong, rules: string,
//! number of entries: ulong, entries, number of parts: ulong, parts
//! key list  number of keys: ulong, keys: string
//! entry     queue: string, reason: symbol, count: ulong, first-time, last-time: timestamp,
//!           exchange: string, the place of its key list: ulong, ttl: uint or null, evidence
//! evidence  false; or true, condition, description: string or null, info: binary or null,
//!           container, link: string or null, user: string, binary (UTF-8) if it was known by a token, or
//!           null, how: symbol or null, address: string or null, the place of its rule: ulong or null
//! part      kind: ulong, content: binary; kind 1 is the folded part, kind 2 the fence
//! fence     number of newest entries that are younger than the latest redrive: ulong
//! folded    entries: ulong, latest death: timestamp, number of reasons: ulong, reasons,
//!           number of queues newer than the first death's entry: ulong,
//!           a rejected newer than it was folded: boolean, number of queues: ulong, queues
//! reason    its word: symbol, deaths: ulong
//! queue     name: string, a rejected was folded since its latest death: boolean; oldest first
//! ```
//!
//! Part 3 (redrives) is reserved. Part 4 says why the message is in the quarantine: cause: symbol,
//! the queue in which its cycle would close: string or null.
//!
//! The last failure of a message that waits is stored apart: its time (timestamp), then its evidence as
//! above, without the boolean in front and without a rule.

use std::sync::{Arc, Weak};

use smallvec::SmallVec;
use thiserror::Error;

use super::folded::{Folded, FoldedQueue};
use super::history::Parts;
use super::{Entry, Evidence, History, How, LastFailure, QuarantineCause, Quarantined, Reason};
use crate::base::{Account, Name, Timestamp};
use crate::wire::{
    DecodeError, Fields, write_binary, write_binary_of, write_bool, write_null, write_or_null,
    write_string, write_string_or_binary, write_symbol, write_timestamp, write_uint, write_ulong,
};

/// The version that is written and read.
const VERSION: u8 = 1;
/// The kind of the part with the folded entries.
const FOLDED: u64 = 1;
/// The kind of the part with the fence of the latest redrive.
const FENCE: u64 = 2;
/// The kind of the part that says why the message is in the quarantine.
const QUARANTINED: u64 = 4;

/// Why a stored history cannot be read: damage, or a newer version.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// It was written in this newer version.
    #[error("history has unknown version {0}")]
    Version(u8),
    /// It has a part of this kind, which this version does not know.
    #[error("history has unknown part {0}")]
    Part(u64),
    /// Its bytes are damaged.
    #[error("history is damaged: {0}")]
    Damaged(#[from] DecodeError),
    /// A field has a value that is never written; its name.
    #[error("history is damaged: bad {0}")]
    Field(&'static str),
}

impl History {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write_ulong(out, self.first_place() as u64);
        write_string(out, self.last().exchange);
        // The most common case, a message that died once, needs no list of keys.
        if let [entry] = self.entries() {
            write_ulong(out, 1);
            encode_keys(&entry.routing_keys, out);
            let rule = rule_of(entry);
            write_ulong(out, u64::from(rule.is_some()));
            if let Some(rule) = rule {
                write_string(out, rule);
            }
            write_ulong(out, 1);
            encode_entry(entry, 0, rule.map(|_| 0), out);
        } else {
            self.encode_entries(out);
        }
        let parts = [
            self.folded().is_some(),
            self.fence().is_some(),
            self.quarantined().is_some(),
        ];
        write_ulong(out, parts.map(u64::from).iter().sum());
        if let Some(folded) = self.folded() {
            write_ulong(out, FOLDED);
            write_binary_of(out, |out| encode_folded(folded, out));
        }
        if let Some(fence) = self.fence() {
            write_ulong(out, FENCE);
            write_binary_of(out, |out| write_ulong(out, fence as u64));
        }
        if let Some(why) = self.quarantined() {
            write_ulong(out, QUARANTINED);
            write_binary_of(out, |out| encode_quarantined(why, out));
        }
    }

    fn encode_entries(&self, out: &mut Vec<u8>) {
        let lists = self.key_lists();
        write_ulong(out, lists.len() as u64);
        for keys in &lists {
            encode_keys(keys, out);
        }
        let rules = self.rules();
        write_ulong(out, rules.len() as u64);
        for rule in &rules {
            write_string(out, rule);
        }
        write_ulong(out, self.entries().len() as u64);
        for entry in self.entries() {
            let mut all = lists.iter();
            let place = all.position(|keys| Arc::ptr_eq(keys, &entry.routing_keys));
            let place = place.unwrap_or_default() as u64;
            let rule = rule_of(entry);
            let rule = rule.and_then(|rule| rules.iter().position(|known| *known == rule));
            encode_entry(entry, place, rule.map(|place| place as u64), out);
        }
    }

    /// The rules of all entries, each once: usually one or two.
    fn rules(&self) -> SmallVec<[&Name; 4]> {
        let mut rules: SmallVec<[&Name; 4]> = SmallVec::new();
        for rule in self.entries().iter().filter_map(|entry| rule_of(entry)) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        rules
    }

    /// The key lists of all entries, each once.
    fn key_lists(&self) -> SmallVec<[&Arc<[Name]>; 4]> {
        let mut lists: SmallVec<[&Arc<[Name]>; 4]> = SmallVec::new();
        for entry in self.entries() {
            let is_there = |keys: &&Arc<[Name]>| Arc::ptr_eq(keys, &entry.routing_keys);
            if !lists.iter().any(is_there) {
                lists.push(&entry.routing_keys);
            }
        }
        lists
    }

    /// Reads the stored form; all of `input` must belong to it.
    pub fn decode(input: &[u8]) -> Result<Self, HistoryError> {
        match input.split_first() {
            Some((&VERSION, values)) => decode_history(&mut Fields::bare(values), input.len()),
            Some((&version, _)) => Err(HistoryError::Version(version)),
            None => Err(HistoryError::Field("version")),
        }
    }
}

/// Encodes histories one behind the other. Messages that die alike share theirs and are written
/// together: its bytes are made once for all of them, and at most the bytes of one history are kept.
#[derive(Debug, Default)]
pub struct HistoryEncoder {
    /// The history that was written last.
    last: Weak<History>,
    /// Its encoded form as a binary, once it was written a second time; before: empty.
    bytes: Vec<u8>,
}

impl HistoryEncoder {
    /// Writes the stored form of a history as a binary.
    pub fn write(&mut self, history: &Arc<History>, out: &mut Vec<u8>) {
        let is_last = Weak::as_ptr(&self.last) == Arc::as_ptr(history);
        if is_last && !self.bytes.is_empty() {
            out.extend_from_slice(&self.bytes);
            return;
        }
        let start = out.len();
        write_binary_of(out, |out| history.encode(out));
        if is_last {
            let written = out.get(start..).unwrap_or_default();
            self.bytes.extend_from_slice(written);
        } else {
            // While this is held, no other history has its address.
            self.last = Arc::downgrade(history);
            self.bytes = Vec::new();
        }
    }
}

impl LastFailure {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_timestamp(out, self.at.0);
        encode_evidence(&self.evidence, None, out);
    }

    /// Reads the stored form; all of `input` must belong to it.
    pub fn decode(input: &[u8]) -> Result<Self, HistoryError> {
        let mut fields = Fields::bare(input);
        let failure = Self {
            at: time(&mut fields, "time of the last failure")?,
            evidence: Arc::new(decode_evidence(&[], &mut fields)?),
        };
        if !fields.is_empty() {
            return Err(HistoryError::Field("length of the last failure"));
        }
        Ok(failure)
    }
}

/// The rule that set the dead-letter exchange at the latest death of an entry.
fn rule_of(entry: &Entry) -> Option<&Name> {
    entry.evidence.as_ref()?.rule.as_ref()
}

fn encode_entry(entry: &Entry, keys: u64, rule: Option<u64>, out: &mut Vec<u8>) {
    write_string(out, &entry.queue);
    write_symbol(out, entry.reason.as_str());
    write_ulong(out, entry.count);
    write_timestamp(out, entry.first_time.0);
    write_timestamp(out, entry.last_time.0);
    write_string(out, &entry.exchange);
    write_ulong(out, keys);
    write_or_null(out, entry.ttl, write_uint);
    write_bool(out, entry.evidence.is_some());
    if let Some(evidence) = &entry.evidence {
        encode_evidence(evidence, rule, out);
    }
}

fn encode_keys(keys: &[Name], out: &mut Vec<u8>) {
    write_ulong(out, keys.len() as u64);
    for key in keys {
        write_string(out, key);
    }
}

fn encode_folded(folded: &Folded, out: &mut Vec<u8>) {
    write_ulong(out, folded.entries);
    write_timestamp(out, folded.until.0);
    write_ulong(out, folded.deaths.len() as u64);
    for (reason, deaths) in Reason::ALL.iter().zip(folded.deaths) {
        write_symbol(out, reason.as_str());
        write_ulong(out, deaths);
    }
    write_ulong(out, folded.newer_than_first as u64);
    write_bool(out, folded.rejected_since_first);
    write_ulong(out, folded.queues.len() as u64);
    for folded in &folded.queues {
        write_string(out, &folded.queue);
        write_bool(out, folded.rejected_since);
    }
}

fn encode_quarantined(why: &Quarantined, out: &mut Vec<u8>) {
    write_symbol(out, why.cause.as_str());
    write_or_null(out, why.closes_at.as_deref(), write_string);
}

fn encode_evidence(evidence: &Evidence, rule: Option<u64>, out: &mut Vec<u8>) {
    let Evidence {
        condition,
        description,
        info,
        container,
        link,
        user,
        by_token,
        how,
        address,
        rule: _,
        account: _,
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
    let login = user.as_deref().map(|user| (user, *by_token));
    write_or_null(out, login, write_string_or_binary);
    match how {
        Some(how) => write_symbol(out, how.as_str()),
        None => write_null(out),
    }
    text(out, address);
    write_or_null(out, rule, write_ulong);
}

fn decode_history(fields: &mut Fields<'_>, bytes: usize) -> Result<History, HistoryError> {
    let first = count(fields, "place of the first death")?;
    let last_exchange = name(fields, "last exchange")?;
    let lists = count(fields, "number of key lists")?;
    let lists = (0..lists)
        .map(|_| keys(fields))
        .collect::<Result<Vec<_>, _>>()?;
    let rules = count(fields, "number of rules")?;
    let rules = (0..rules)
        .map(|_| name(fields, "rule"))
        .collect::<Result<Vec<_>, _>>()?;
    let entries = count(fields, "number of entries")?;
    let entries = (0..entries)
        .map(|_| decode_entry((&lists, &rules), fields))
        .collect::<Result<Vec<_>, _>>()?;
    let parts = decode_parts(fields)?;
    if !fields.is_empty() {
        return Err(HistoryError::Field("length"));
    }
    History::from_parts(entries, first, last_exchange, parts, bytes)
        .ok_or(HistoryError::Field("first death"))
}

/// Reads the parts. An unknown one is an error and not skipped: a newer version may have written
/// there where the message must not go.
fn decode_parts(fields: &mut Fields<'_>) -> Result<Parts, HistoryError> {
    let mut parts = Parts::default();
    for _ in 0..count(fields, "number of parts")? {
        let kind = number(fields, "part")?;
        if !matches!(kind, FOLDED | FENCE | QUARANTINED) {
            return Err(HistoryError::Part(kind));
        }
        let content = fields.binary()?.ok_or(HistoryError::Field("part"))?;
        let mut content = Fields::bare(content);
        let is_second = match kind {
            FOLDED => {
                let folded = decode_folded(&mut content)?;
                parts.folded.replace(folded).is_some()
            }
            FENCE => parts.fence.replace(count(&mut content, "fence")?).is_some(),
            _ => {
                let why = decode_quarantined(&mut content)?;
                parts.quarantined.replace(why).is_some()
            }
        };
        if is_second {
            return Err(HistoryError::Field("part"));
        }
        if !content.is_empty() {
            return Err(HistoryError::Field("length of a part"));
        }
    }
    Ok(parts)
}

fn decode_quarantined(fields: &mut Fields<'_>) -> Result<Quarantined, HistoryError> {
    let cause = fields.symbol()?.and_then(QuarantineCause::from_word);
    Ok(Quarantined {
        cause: cause.ok_or(HistoryError::Field("cause of the quarantine"))?,
        closes_at: fields.string()?.map(Name::from),
    })
}

fn decode_folded(fields: &mut Fields<'_>) -> Result<Folded, HistoryError> {
    let mut folded = Folded {
        entries: number(fields, "number of folded entries")?,
        until: time(fields, "time of the latest folded death")?,
        ..Folded::empty()
    };
    for _ in 0..count(fields, "number of reasons")? {
        let reason = reason(fields)?;
        let deaths = number(fields, "number of folded deaths")?;
        let mut known = Reason::ALL.iter().zip(&mut folded.deaths);
        if let Some((_, known)) = known.find(|(known, _)| **known == reason) {
            *known = deaths;
        }
    }
    folded.newer_than_first = count(fields, "number of newer queues")?;
    folded.rejected_since_first = flag(fields, "rejected since the first death")?;
    let queues = count(fields, "number of folded queues")?;
    let queue = |_| {
        Ok::<_, HistoryError>(FoldedQueue {
            queue: name(fields, "folded queue")?,
            rejected_since: flag(fields, "rejected since")?,
        })
    };
    folded.queues = (0..queues).map(queue).collect::<Result<_, _>>()?;
    Ok(folded)
}

fn decode_entry(
    (lists, rules): (&[Arc<[Name]>], &[Name]),
    fields: &mut Fields<'_>,
) -> Result<Entry, HistoryError> {
    Ok(Entry {
        queue: name(fields, "queue")?,
        reason: reason(fields)?,
        count: number(fields, "count")?,
        first_time: time(fields, "first-time")?,
        last_time: time(fields, "last-time")?,
        exchange: name(fields, "exchange")?,
        routing_keys: {
            let list = lists.get(count(fields, "place of the routing keys")?);
            Arc::clone(list.ok_or(HistoryError::Field("place of the routing keys"))?)
        },
        ttl: fields.uint()?,
        evidence: if flag(fields, "evidence")? {
            Some(Arc::new(decode_evidence(rules, fields)?))
        } else {
            None
        },
    })
}

fn keys(fields: &mut Fields<'_>) -> Result<Arc<[Name]>, HistoryError> {
    let keys = count(fields, "number of routing keys")?;
    (0..keys).map(|_| name(fields, "routing key")).collect()
}

fn decode_evidence(rules: &[Name], fields: &mut Fields<'_>) -> Result<Evidence, HistoryError> {
    let condition = fields.string()?.map(Name::from);
    let description = fields.string()?.map(Name::from);
    let info = fields.binary()?.map(bytes::Bytes::copy_from_slice);
    let container = fields.string()?.map(Name::from);
    let link = fields.string()?.map(Name::from);
    let login = fields.string_or_binary()?;
    Ok(Evidence {
        condition,
        description,
        info,
        container,
        link,
        user: login.map(|(user, _)| Name::from(user)),
        by_token: login.is_some_and(|(_, by_token)| by_token),
        how: how(fields.symbol()?)?,
        address: fields.string()?.map(Name::from),
        rule: match fields.ulong()? {
            Some(place) => {
                let rule = usize::try_from(place).ok().and_then(|it| rules.get(it));
                Some(
                    rule.ok_or(HistoryError::Field("place of the rule"))?
                        .clone(),
                )
            }
            None => None,
        },
        account: Account::default(),
    })
}

fn how(word: Option<&str>) -> Result<Option<How>, HistoryError> {
    let how = |word| How::from_word(word).ok_or(HistoryError::Field("how"));
    word.map(how).transpose()
}

fn reason(fields: &mut Fields<'_>) -> Result<Reason, HistoryError> {
    fields
        .symbol()?
        .and_then(Reason::from_word)
        .ok_or(HistoryError::Field("reason"))
}

pub(super) fn name(fields: &mut Fields<'_>, what: &'static str) -> Result<Name, HistoryError> {
    fields
        .string()?
        .map(Name::from)
        .ok_or(HistoryError::Field(what))
}

pub(super) fn time(fields: &mut Fields<'_>, what: &'static str) -> Result<Timestamp, HistoryError> {
    fields
        .timestamp()?
        .map(Timestamp)
        .ok_or(HistoryError::Field(what))
}

fn flag(fields: &mut Fields<'_>, what: &'static str) -> Result<bool, HistoryError> {
    fields.bool()?.ok_or(HistoryError::Field(what))
}

pub(super) fn number(fields: &mut Fields<'_>, what: &'static str) -> Result<u64, HistoryError> {
    fields.ulong()?.ok_or(HistoryError::Field(what))
}

/// Reads the number of items that follow. Each takes bytes, so a wrong number ends with the input.
fn count(fields: &mut Fields<'_>, what: &'static str) -> Result<usize, HistoryError> {
    let count = number(fields, what)?;
    usize::try_from(count).map_err(|_| HistoryError::Field(what))
}
