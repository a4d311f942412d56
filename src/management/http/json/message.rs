//! JSON of messages: as RabbitMQ shows them to clients of AMQP 0-9-1, and in addition, under
//! `amqp`, as they are.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};

use super::put;
use super::value::to_json;
use crate::deaths::{
    DeathsView, Entry, Evidence, Folded, History, How, LastFailure, Reason, Viewer,
};
use crate::message::{DeliveryView, Message, Route};
use crate::wire::{
    Reader, Section, SectionIndex, SectionKind, Value, decode_value, first_section, walk,
};

/// The encoding of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadEncoding {
    /// As text if it is UTF-8, otherwise in base64.
    Auto,
    /// Always in base64.
    Base64,
}

/// Options for showing messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Showing {
    /// The encoding of the payload.
    pub encoding: PayloadEncoding,
    /// Bytes of a payload that are shown, at most; none: all.
    pub truncate: Option<usize>,
}

/// A message in a queue, to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The message itself.
    pub message: &'a Message,
    /// Exchange and routing keys it was published with.
    pub route: &'a Arc<Route>,
    /// Failed deliveries in this queue and before it.
    pub delivery_count: u32,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Requeues in this queue.
    pub acquired: u32,
    /// Whether it was delivered to a consumer before.
    pub redelivered: bool,
    /// The user that asks, for what it may see of others.
    pub viewer: Viewer<'a>,
}

/// The fields of the properties section, by the name in RabbitMQ's API, if it has one, and in the
/// specification. [AMQP 3.2.4]
const PROPERTIES: [(&str, Option<&str>); 13] = [
    ("message-id", Some("message_id")),
    ("user-id", Some("user_id")),
    ("to", None),
    ("subject", None),
    ("reply-to", Some("reply_to")),
    ("correlation-id", Some("correlation_id")),
    ("content-type", Some("content_type")),
    ("content-encoding", Some("content_encoding")),
    ("absolute-expiry-time", None),
    ("creation-time", Some("timestamp")),
    ("group-id", None),
    ("group-sequence", None),
    ("reply-to-group-id", None),
];
/// Annotations with properties of AMQP 0-9-1.
const BASIC: [(&str, &str); 2] = [("x-basic-type", "type"), ("x-basic-app-id", "app_id")];
/// The `type` of a body that is not binary data (as RabbitMQ).
const NOT_DATA: &str = "amqp-1.0";

/// The JSON of a message.
pub fn message(shown: &Shown<'_>, showing: Showing) -> Json {
    let mut encoded = Vec::new();
    shown.message.write_prefix(
        &DeliveryView {
            route: shown.route,
            first_acquirer: !shown.redelivered,
            delivery_count: shown.delivery_count,
            failures: shown.failures,
            acquired: shown.acquired,
            suspect: false,
            // Evidence is in `deaths`.
            deaths: DeathsView::default(),
        },
        &mut encoded,
    );
    encoded.extend_from_slice(&shown.message.whole());
    // It was checked when it arrived, and the broker's own sections are valid.
    let index = walk(&encoded).unwrap_or_default();
    let sections = Sections {
        bytes: &encoded,
        index: &index,
    };
    let body = Body::read(&sections);
    let payload = body.payload(&sections);
    let mut json = json!({
        "payload_bytes": payload.len(),
        "redelivered": shown.redelivered,
        "exchange": &*shown.route.exchange,
        "routing_key": shown.route.first_key(),
        "properties": properties(shown, &sections, &body),
        "amqp": amqp(shown, &sections, &body),
    });
    let (text, encoding) = write_payload(&payload, showing);
    put(&mut json, "payload", json!(text));
    put(&mut json, "payload_encoding", json!(encoding));
    if let Some(failure) = shown.message.last_failure() {
        put(
            &mut json,
            "last_failure",
            last_failure(failure, shown.viewer),
        );
    }
    json
}

/// The sections of an encoded message.
struct Sections<'a> {
    bytes: &'a [u8],
    index: &'a SectionIndex,
}

impl Sections<'_> {
    fn value(&self, section: Section) -> Option<Value> {
        if section.is_absent() {
            return None;
        }
        Reader::starting_at(self.bytes, section.value as usize)
            .value()
            .ok()
    }

    fn annotations(&self) -> Vec<(Value, Value)> {
        match self.value(self.index.message_annotations) {
            Some(Value::Map(pairs)) => pairs,
            _ => Vec::new(),
        }
    }

    /// The fields of the properties section, by name; absent ones are left out.
    fn properties(&self) -> Vec<(usize, Value)> {
        match self.value(self.index.properties) {
            Some(Value::List(fields)) => {
                let fields = fields.into_iter().enumerate();
                fields.filter(|(_, field)| *field != Value::Null).collect()
            }
            _ => Vec::new(),
        }
    }

    fn object(&self, section: Section) -> Json {
        self.value(section)
            .map_or_else(|| json!({}), |value| to_json(&value))
    }
}

/// The decoded body.
enum Body {
    /// Data sections, joined to one.
    Data(Vec<u8>),
    /// A single value.
    Value(Value),
    /// Sequences of values.
    Sequences(Vec<Value>),
    /// The message has no body section.
    Absent,
}

impl Body {
    fn read(sections: &Sections<'_>) -> Self {
        let body = sections.index.body;
        if body.is_absent() {
            return Self::Absent;
        }
        let bytes = sections.bytes.get(body.start as usize..body.end as usize);
        let mut rest = bytes.unwrap_or_default();
        let mut data = Vec::new();
        let mut sequences = Vec::new();
        while let Ok((kind, value, behind)) = first_section(rest) {
            match (kind, value) {
                (SectionKind::Data, Value::Binary(bytes)) => data.extend_from_slice(&bytes),
                (SectionKind::Sequence, value) => sequences.push(value),
                (_, value) => return Self::Value(value),
            }
            rest = behind;
        }
        if sequences.is_empty() {
            return Self::Data(data);
        }
        Self::Sequences(sequences)
    }

    /// The payload in RabbitMQ's terms: the bytes of the data, or the encoded sections.
    fn payload(&self, sections: &Sections<'_>) -> Vec<u8> {
        if let Self::Data(data) = self {
            return data.clone();
        }
        let body = sections.index.body;
        let bytes = sections.bytes.get(body.start as usize..body.end as usize);
        bytes.unwrap_or_default().to_vec()
    }

    const fn is_data(&self) -> bool {
        matches!(self, Self::Data(_) | Self::Absent)
    }

    /// The body as JSON; data is in `payload` and not repeated.
    fn json(&self) -> Json {
        match self {
            Self::Data(data) => json!({ "data_bytes": data.len() }),
            Self::Value(value) => json!({ "value": to_json(value), "type": value.kind().name() }),
            Self::Sequences(sequences) => {
                json!({ "sequences": sequences.iter().map(to_json).collect::<Vec<_>>() })
            }
            Self::Absent => json!({}),
        }
    }
}

fn properties(shown: &Shown<'_>, sections: &Sections<'_>, body: &Body) -> Json {
    let message = shown.message;
    let mut fields = Map::new();
    let mut headers = Map::new();
    if let Json::Object(pairs) = sections.object(sections.index.application_properties) {
        headers.extend(pairs);
    }
    for (key, value) in sections.annotations() {
        let Some(name) = key.as_str() else { continue };
        let basic = BASIC.iter().find(|(annotation, _)| *annotation == name);
        match (basic, name) {
            (Some((_, property)), _) => {
                fields.insert((*property).to_owned(), to_json(&value));
            }
            (None, "x-opt-deaths" | "x-exchange" | "x-routing-key") => {}
            (None, name) => {
                headers.insert(name.to_owned(), to_json(&value));
            }
        }
    }
    if let Some(history) = message.history() {
        headers.insert("x-death".to_owned(), x_death(history));
    }
    for (index, value) in sections.properties() {
        let Some((_, Some(name))) = PROPERTIES.get(index) else {
            continue;
        };
        let shown = match (index, &value) {
            // Seconds in RabbitMQ's API, milliseconds in AMQP 1.0.
            (9, Value::Timestamp(ms)) => json!(ms / 1000),
            (1, Value::Binary(user)) => json!(String::from_utf8_lossy(user)),
            _ => to_json(&value),
        };
        fields.insert((*name).to_owned(), shown);
    }
    fields.insert(
        "delivery_mode".to_owned(),
        json!(if message.durable() { 2 } else { 1 }),
    );
    if let Some(priority) = message.priority() {
        fields.insert("priority".to_owned(), json!(priority));
    }
    if let Some(ttl_ms) = message.ttl_ms() {
        fields.insert("expiration".to_owned(), json!(ttl_ms.to_string()));
    }
    if !body.is_data() {
        fields.insert("type".to_owned(), json!(NOT_DATA));
    }
    if !headers.is_empty() {
        fields.insert("headers".to_owned(), headers.into());
    }
    Json::Object(fields)
}

/// The history in the format of AMQP 0-9-1: times in seconds, the ttl as a text.
fn x_death(history: &History) -> Json {
    let entries = history.entries().iter().map(|entry| {
        let mut json = json!({
            "count": entry.count,
            "exchange": &*entry.exchange,
            "queue": &*entry.queue,
            "reason": entry.reason.as_str(),
            "routing-keys": keys(&entry.routing_keys),
            "time": entry.first_time.0 / 1000,
        });
        if let Some(ttl) = entry.ttl {
            put(&mut json, "original-expiration", json!(ttl.to_string()));
        }
        json
    });
    entries.collect()
}

/// The folded entries of the history; `queues` are those without a newer entry, oldest first.
fn deaths_folded(folded: &Folded) -> Json {
    let by_reason = Reason::ALL.map(|reason| {
        let deaths = folded.deaths_for(reason);
        (reason.as_str().to_owned(), json!(deaths))
    });
    json!({
        "entries": folded.entries(),
        "deaths": folded.deaths(),
        "until": folded.until().0,
        "by_reason": Map::from_iter(by_reason),
        "queues": folded.queues().map(|queue| json!(&**queue)).collect::<Json>(),
    })
}

/// The history, newest first: times in milliseconds since 1970.
pub(super) fn deaths(history: &History, viewer: Viewer<'_>) -> Json {
    let entries = history.entries().iter();
    entries.map(|entry| death(entry, viewer)).collect()
}

fn death(entry: &Entry, viewer: Viewer<'_>) -> Json {
    let mut json = json!({
        "queue": &*entry.queue,
        "reason": entry.reason.as_str(),
        "count": entry.count,
        "first_time": entry.first_time.0,
        "last_time": entry.last_time.0,
        "exchange": &*entry.exchange,
        "routing_keys": keys(&entry.routing_keys),
        "ttl": entry.ttl,
    });
    if let Some(evidence) = &entry.evidence {
        if let Some(error) = error(evidence) {
            put(&mut json, "error", error);
        }
        if let Some(how) = evidence.how {
            put(&mut json, "by", by(evidence, how, viewer));
        }
        if let Some(rule) = &evidence.rule {
            put(&mut json, "rule", json!(&**rule));
        }
    }
    json
}

/// The latest failed delivery of a message that waits.
fn last_failure(failure: &LastFailure, viewer: Viewer<'_>) -> Json {
    let evidence = &failure.evidence;
    json!({
        "at": failure.at.0,
        "how": evidence.how.map(How::as_str),
        "error": error(evidence),
        "by": evidence.how.map(|how| by(evidence, how, viewer)),
    })
}

/// The consumer's error.
pub(super) fn error(evidence: &Evidence) -> Option<Json> {
    let (condition, description) = evidence.shown();
    let info = &evidence.info;
    if condition.is_none() && description.is_none() {
        return None;
    }
    let info = info.as_ref().and_then(|info| decode_value(info).ok());
    let info = info.map_or(Json::Null, |(info, _)| to_json(&info));
    Some(json!({
        "condition": condition.as_deref(),
        "description": description.as_deref(),
        "info": info,
    }))
}

/// The consumer that caused it: names of users and addresses only for viewers who may see them.
pub(super) fn by(evidence: &Evidence, how: How, viewer: Viewer<'_>) -> Json {
    let mut by = json!({
        "how": how.as_str(),
        "container": evidence.container.as_deref(),
        "link": evidence.link.as_deref(),
    });
    if viewer.may_see(evidence) {
        put(&mut by, "user", json!(evidence.user.as_deref()));
        put(&mut by, "address", json!(evidence.address.as_deref()));
    }
    by
}

pub(super) fn keys(keys: &[crate::base::Name]) -> Json {
    keys.iter().map(|key| json!(&**key)).collect()
}

/// The message in terms of AMQP 1.0, with its death history.
fn amqp(shown: &Shown<'_>, sections: &Sections<'_>, body: &Body) -> Json {
    let message = shown.message;
    let mut annotations = Map::new();
    for (key, value) in sections.annotations() {
        match key.as_str() {
            // In `deaths` and `deaths_folded` instead.
            Some("x-opt-deaths" | "x-opt-deaths-folded") => {}
            Some(name) => {
                annotations.insert(name.to_owned(), to_json(&value));
            }
            None => {
                annotations.insert(to_json(&key).to_string(), to_json(&value));
            }
        }
    }
    let properties = sections.properties().into_iter();
    let properties: Map<String, Json> = properties
        .filter_map(|(index, value)| {
            let (name, _) = PROPERTIES.get(index)?;
            Some(((*name).to_owned(), to_json(&value)))
        })
        .collect();
    let history = message.history();
    let mut json = json!({
        "header": {
            "durable": message.durable(),
            "priority": message.priority(),
            "ttl": message.ttl_ms(),
            "first-acquirer": !shown.redelivered,
            "delivery-count": shown.delivery_count,
        },
        "message_annotations": annotations,
        "properties": properties,
        "application_properties": sections.object(sections.index.application_properties),
        "footer": sections.object(sections.index.footer),
        "body": body.json(),
        "deaths": history.map_or_else(|| json!([]), |history| deaths(history, shown.viewer)),
    });
    if let Some(folded) = history.and_then(|history| history.folded()) {
        put(&mut json, "deaths_folded", deaths_folded(folded));
    }
    if let Some(why) = history.and_then(|history| history.quarantined()) {
        let path = history.map(|history| keys(&history.quarantine_path()));
        let quarantine = json!({ "cause": why.cause.as_str(), "path": path });
        put(&mut json, "quarantine", quarantine);
    }
    json
}

fn write_payload(payload: &[u8], showing: Showing) -> (String, &'static str) {
    let shown = showing.truncate.and_then(|bytes| payload.get(..bytes));
    let shown = shown.unwrap_or(payload);
    match std::str::from_utf8(shown) {
        Ok(text) if showing.encoding == PayloadEncoding::Auto => (text.to_owned(), "string"),
        _ => (STANDARD.encode(shown), "base64"),
    }
}
