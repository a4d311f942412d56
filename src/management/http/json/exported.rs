//! Messages as lines of JSON: exported and imported, exact to the byte. [evidence part 11]
//!
//! `annotations` and `bare` are the AMQP bytes, and `history` the stored form of the deaths, all in
//! base64: these are what an import reads. `deaths` and `preview` are for people.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};

use super::message::deaths;
use super::put;
use crate::base::limits::EXPORT_PREVIEW_BYTES_MAX;
use crate::base::{Name, Timestamp};
use crate::deaths::{History, Viewer};
use crate::message::{KeyRule, Message, Route};
use crate::wire::{HeaderFields, Reader, write_header};

/// The version of these lines.
const VERSION: u64 = 1;
/// The fields of a line.
const FIELDS: [&str; 10] = [
    "v",
    "exchange",
    "routing_keys",
    "header",
    "arrived",
    "annotations",
    "deaths",
    "history",
    "preview",
    "bare",
];
const HEADER_FIELDS: [&str; 4] = ["durable", "priority", "ttl", "delivery_count"];
/// The beginning of the message-annotations section. [AMQP 3.2.3]
const ANNOTATIONS: [u8; 3] = [0x00, 0x53, 0x72];

/// A message to be exported, without its bare bytes.
#[derive(Clone, Copy, Debug)]
pub struct Exported<'a> {
    /// The message itself.
    pub message: &'a Message,
    /// Exchange and routing keys with which it came.
    pub route: &'a Route,
    /// When it arrived in its queue, by the wall clock.
    pub arrived: Timestamp,
    /// The user that asks, for what it may see of others.
    pub viewer: Viewer<'a>,
}

impl Exported<'_> {
    /// The beginning of its line, up to the base64 of its bare bytes, which [`LINE_END`] follows.
    pub fn line_begin(&self) -> String {
        let message = self.message;
        let header = message.stored_header();
        let mut line = json!({
            "v": VERSION,
            "exchange": &*self.route.exchange,
            "routing_keys": self.route.keys.iter().map(|key| json!(&**key)).collect::<Json>(),
            "header": {
                "durable": header.durable,
                "priority": header.priority,
                "ttl": header.ttl_ms,
                "delivery_count": message.carried_delivery_count(),
            },
            "arrived": self.arrived.0,
            "annotations": message.annotations_map().map(|map| STANDARD.encode(map)),
            "preview": preview(message),
        });
        if let Some(history) = message.history() {
            let mut stored = Vec::new();
            history.seen_by(self.viewer).encode(&mut stored);
            put(&mut line, "history", json!(STANDARD.encode(stored)));
            put(&mut line, "deaths", deaths(history, self.viewer));
        }
        let mut text = line.to_string();
        text.pop();
        text.push_str(",\"bare\":\"");
        text
    }
}

/// What stands behind the base64 of the bare bytes.
pub const LINE_END: &str = "\"}\n";

/// The beginning of a small body, if it is text.
fn preview(message: &Message) -> Option<String> {
    if message.bare_len() > EXPORT_PREVIEW_BYTES_MAX {
        return None;
    }
    let mut section = Reader::new(message.body()).described().ok()?;
    let bytes = match section.value.kind()? {
        crate::wire::ValueKind::Binary => section.value.binary().ok()?,
        _ => section.value.string().ok()?.as_bytes(),
    };
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text.chars().take(PREVIEW_CHARS).collect())
}

/// Characters of a preview.
const PREVIEW_CHARS: usize = 200;

/// A message that was read from a line, with exchange and keys with which it came.
#[derive(Debug)]
pub struct Imported {
    /// The message with its history.
    pub message: Message,
    /// Exchange and routing keys with which it came.
    pub route: Arc<Route>,
}

impl Imported {
    /// Reads a line. The error says what is wrong.
    pub fn read(line: &[u8], bytes_max: u64, keys: KeyRule) -> Result<Self, String> {
        let json: Json = serde_json::from_slice(line).map_err(|why| format!("no JSON: {why}"))?;
        let Json::Object(fields) = &json else {
            return Err("it is no object".to_owned());
        };
        known(fields, &FIELDS, "field")?;
        match fields.get("v").and_then(Json::as_u64) {
            Some(VERSION) => {}
            Some(other) => return Err(format!("its version 'v' is {other}, not {VERSION}")),
            None => return Err(format!("the field 'v' is missing, it must be {VERSION}")),
        }
        let bare = bytes(fields, "bare")?.ok_or("the field 'bare' is missing")?;
        if bare.len() as u64 > bytes_max {
            return Err(format!("the message has more than {bytes_max} bytes"));
        }
        let route = route(fields)?;
        let (header, delivery_count) = header(fields.get("header"))?;
        let mut payload = Vec::with_capacity(bare.len() + 64);
        write_header(&mut payload, &header);
        if let Some(map) = bytes(fields, "annotations")? {
            payload.extend_from_slice(&ANNOTATIONS);
            payload.extend_from_slice(&map);
        }
        payload.extend_from_slice(&bare);
        let message = Message::from_transfer(payload.into(), keys);
        let mut message = message.map_err(|why| format!("'bare' is no message: {why}"))?;
        if message.bare() != &*bare {
            return Err(
                "'bare' is not a bare message: sections in front of it are not its own".to_owned(),
            );
        }
        if let Some(stored) = bytes(fields, "history")? {
            let history = History::decode(&stored);
            let history = history.map_err(|why| format!("'history' cannot be read: {why}"))?;
            message.die(Arc::new(history), delivery_count);
        } else if fields.get("deaths").is_some_and(|deaths| !deaths.is_null()) {
            return Err("it has 'deaths' without 'history', which is what is read".to_owned());
        }
        Ok(Self { message, route })
    }
}

fn known(fields: &Map<String, Json>, names: &[&str], what: &str) -> Result<(), String> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let name: String = name.chars().take(64).collect();
            Err(format!(
                "the {what} '{name}' is not known; known are {}",
                names.join(", ")
            ))
        }
    }
}

/// The bytes of a field in base64; none if it is absent or null.
fn bytes(fields: &Map<String, Json>, name: &str) -> Result<Option<Vec<u8>>, String> {
    match fields.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => {
            let bytes = STANDARD.decode(text);
            bytes
                .map(Some)
                .map_err(|why| format!("'{name}' is no base64: {why}"))
        }
        Some(_) => Err(format!("the field '{name}' must be a text in base64")),
    }
}

fn route(fields: &Map<String, Json>) -> Result<Arc<Route>, String> {
    let exchange = fields.get("exchange").and_then(Json::as_str);
    let exchange = exchange.ok_or("the field 'exchange' must be a text")?;
    let keys = fields.get("routing_keys").and_then(Json::as_array);
    let keys = keys.ok_or("the field 'routing_keys' must be an array of texts")?;
    let keys = keys.iter().map(|key| {
        let key = key
            .as_str()
            .ok_or("the field 'routing_keys' must be an array of texts")?;
        crate::base::check_routing_key(key).map_err(|why| format!("a routing key: {why}"))?;
        Ok(Name::from(key))
    });
    let keys = keys.collect::<Result<Vec<Name>, String>>()?;
    if keys.is_empty() {
        return Err("the field 'routing_keys' has no key".to_owned());
    }
    if keys.len() > crate::base::limits::CC_KEYS_MAX + 1 {
        let max = crate::base::limits::CC_KEYS_MAX + 1;
        return Err(format!("the field 'routing_keys' has more than {max} keys"));
    }
    if exchange.len() > crate::base::limits::NAME_BYTES_MAX {
        let max = crate::base::limits::NAME_BYTES_MAX;
        return Err(format!("the field 'exchange' has more than {max} bytes"));
    }
    Ok(Arc::new(Route {
        exchange: Name::from(exchange),
        keys: keys.into(),
    }))
}

fn header(header: Option<&Json>) -> Result<(HeaderFields, u32), String> {
    let Some(Json::Object(fields)) = header else {
        return Err("the field 'header' must be an object".to_owned());
    };
    known(fields, &HEADER_FIELDS, "field of 'header'")?;
    let number = |name: &str, max: u64| match fields.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => match value.as_u64().filter(|number| *number <= max) {
            Some(number) => Ok(Some(number)),
            None => Err(format!(
                "the header's '{name}' must be a number from 0 to {max}"
            )),
        },
    };
    let durable = match fields.get("durable") {
        None | Some(Json::Null) => None,
        Some(Json::Bool(durable)) => Some(*durable),
        Some(_) => return Err("the header's 'durable' must be true or false".to_owned()),
    };
    let priority = number("priority", u8::MAX.into())?;
    let ttl = number("ttl", u32::MAX.into())?;
    let count = number("delivery_count", u32::MAX.into())?;
    let header = HeaderFields {
        durable,
        priority: priority.and_then(|it| u8::try_from(it).ok()),
        ttl_ms: ttl.and_then(|it| u32::try_from(it).ok()),
        ..HeaderFields::default()
    };
    let count = count.and_then(|it| u32::try_from(it).ok());
    Ok((header, count.unwrap_or(0)))
}
