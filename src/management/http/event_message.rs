//! Events as messages: `CloudEvents` 1.0 in the binary mode of its AMQP binding. [evidence part 10]

use serde_json::Value as Json;

use super::json::event::{EventViewer, event as as_json};
use crate::base::Name;
use crate::broker::event::VhostEvent;
use crate::deaths::Viewer;
use crate::message::{KeyRule, Message};
use crate::wire::{
    HeaderFields, SectionKind, Value, encode_value, write_binary, write_descriptor, write_header,
};

/// Prefix of attributes among the application properties.
const PREFIX: &str = "cloudEvents_";
/// Those that are texts in the JSON, too.
const TEXTS: [&str; 5] = ["specversion", "type", "source", "id", "subject"];

/// Writes an event as a durable message. Whoever may read the exchange of events may know of all queues, but
/// of nobody's user name and address.
pub fn write(vhost: &Name, origin: u64, event: &VhostEvent) -> Option<Message> {
    let viewer = EventViewer {
        viewer: Viewer::Nobody,
        may_read: true,
    };
    let json = as_json(vhost, origin, event, viewer);
    let text = |name: &str| json.get(name).and_then(Json::as_str);
    let mut out = Vec::with_capacity(1024);
    let header = HeaderFields {
        durable: Some(true),
        ..HeaderFields::default()
    };
    write_header(&mut out, &header);
    write_descriptor(&mut out, SectionKind::Properties.code());
    let mut properties = vec![Value::Null; 7];
    if let [id, .., content_type] = &mut properties[..] {
        *id = text("id").map_or(Value::Null, Value::string);
        *content_type = text("datacontenttype").map_or(Value::Null, Value::symbol);
    }
    encode_value(&Value::List(properties), &mut out);
    write_descriptor(&mut out, SectionKind::ApplicationProperties.code());
    let named = |name: &str| Value::string(format!("{PREFIX}{name}"));
    let mut attributes: Vec<(Value, Value)> = TEXTS
        .into_iter()
        .filter_map(|name| Some((named(name), Value::string(text(name)?))))
        .collect();
    attributes.push((named("time"), Value::Timestamp(event.time.0)));
    encode_value(&Value::Map(attributes), &mut out);
    write_descriptor(&mut out, SectionKind::Data.code());
    write_binary(&mut out, json.get("data")?.to_string().as_bytes());
    Message::from_transfer(out.into(), KeyRule::default()).ok()
}
