//! Publishing over HTTP: RabbitMQ's properties become sections of AMQP 1.0.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::failure::Failure;
use super::fields::Fields;
use crate::base::{Name, check_routing_key};
use crate::wire::{
    HeaderFields, SectionKind, Value, begin_message_annotations, encode_value, end, write_binary,
    write_descriptor, write_header, write_symbol,
};

/// A message to publish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publication {
    /// The routing key, may be empty.
    pub routing_key: Name,
    /// The whole message, as a transfer would carry it.
    pub payload: Vec<u8>,
}

/// The properties of a message of AMQP 0-9-1, as RabbitMQ names them.
const PROPERTIES: [&str; 14] = [
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
];
/// Prefix of the headers of RabbitMQ that become annotations.
const PREFIX: &str = "x-";
/// Further routing keys: RabbitMQ's header, and the annotation.
const CC: (&str, &str) = ("CC", "x-cc");

impl Publication {
    /// Reads the fields of `POST /api/exchanges/VHOST/NAME/publish`.
    pub fn of(fields: &Fields) -> Result<Self, Failure> {
        fields.require(&["properties", "routing_key", "payload", "payload_encoding"])?;
        let text = |name| fields.text(name).map(Option::unwrap_or_default);
        let payload = text("payload")?;
        let data = match text("payload_encoding")? {
            "string" => payload.as_bytes().to_vec(),
            "base64" => STANDARD
                .decode(payload)
                .map_err(|why| Failure::bad_request(format!("the field 'payload': {why}")))?,
            _ => {
                let why = "the field 'payload_encoding' must be string or base64";
                return Err(Failure::bad_request(why));
            }
        };
        let routing_key = text("routing_key")?;
        check_routing_key(routing_key).map_err(|error| {
            Failure::bad_request(format!("the field 'routing_key' has {error}"))
        })?;
        let properties = match fields.get("properties") {
            Some(Json::Object(properties)) => Fields::from_map(properties.clone()),
            // RabbitMQ's own tools send an empty array for no properties.
            Some(Json::Array(items)) if items.is_empty() => Fields::default(),
            _ => {
                let why = "the field 'properties' must be of type object";
                return Err(Failure::bad_request(why));
            }
        };
        properties.refuse_mistyped(&PROPERTIES)?;
        Ok(Self {
            routing_key: Name::from(routing_key),
            payload: encode(&properties, &data)?,
        })
    }
}

fn encode(properties: &Fields, data: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::with_capacity(data.len() + 256);
    write_header(&mut out, &header(properties)?);
    let (annotations, application) = headers(properties)?;
    if !annotations.is_empty() {
        let map = begin_message_annotations(&mut out);
        for (name, value) in &annotations {
            write_symbol(&mut out, name);
            encode_value(value, &mut out);
        }
        end(&mut out, map, 2 * annotations.len());
    }
    write_descriptor(&mut out, SectionKind::Properties.code());
    encode_value(&Value::List(properties_section(properties)?), &mut out);
    if !application.is_empty() {
        write_descriptor(&mut out, SectionKind::ApplicationProperties.code());
        encode_value(&Value::Map(application), &mut out);
    }
    write_descriptor(&mut out, SectionKind::Data.code());
    write_binary(&mut out, data);
    Ok(out)
}

fn header(properties: &Fields) -> Result<HeaderFields, Failure> {
    let durable = match properties.integer("delivery_mode")? {
        None => None,
        Some(1) => Some(false),
        Some(2) => Some(true),
        Some(_) => return Err(bad("delivery_mode", "1 (transient) or 2 (durable)")),
    };
    let priority = properties.integer("priority")?;
    let priority = priority
        .map(u8::try_from)
        .transpose()
        .map_err(|_| bad("priority", "a number from 0 to 255"))?;
    let ttl_ms = match properties.integer("expiration")? {
        None => None,
        Some(ms) => {
            let ms = u32::try_from(ms);
            Some(ms.map_err(|_| bad("expiration", "milliseconds from 0 to 4294967295"))?)
        }
    };
    Ok(HeaderFields {
        durable,
        priority,
        ttl_ms,
        ..HeaderFields::default()
    })
}

/// Annotations by name, and application properties.
type Headers = (Vec<(String, Value)>, Vec<(Value, Value)>);

fn headers(properties: &Fields) -> Result<Headers, Failure> {
    let mut annotations = Vec::new();
    let mut application = Vec::new();
    let given = properties.arguments("headers")?;
    let has_header = |wanted: &str| given.iter().any(|(name, _)| &**name == wanted);
    for (property, annotation) in [("type", "x-basic-type"), ("app_id", "x-basic-app-id")] {
        if let Some(text) = properties.text(property)? {
            if has_header(annotation) {
                return Err(twice(&format!("the property '{property}'"), annotation));
            }
            annotations.push((annotation.to_owned(), Value::string(text)));
        }
    }
    if has_header(CC.0) && has_header(CC.1) {
        return Err(twice(&format!("the header '{}'", CC.0), CC.1));
    }
    for (name, value) in given {
        if &*name == CC.0 {
            annotations.push((CC.1.to_owned(), value));
        } else if name.starts_with(PREFIX) {
            annotations.push((name.to_string(), value));
        } else if matches!(value, Value::List(_) | Value::Map(_)) {
            let why = "a text, number or truth: AMQP 1.0 has no others in application properties";
            return Err(bad(&format!("headers.{name}"), why));
        } else {
            application.push((Value::string(&*name), value));
        }
    }
    Ok((annotations, application))
}

/// The properties section up to creation-time. [AMQP 3.2.4]
fn properties_section(properties: &Fields) -> Result<Vec<Value>, Failure> {
    let text = |name| -> Result<Value, Failure> {
        let text = properties.text(name)?;
        Ok(text.map_or(Value::Null, Value::string))
    };
    let symbol = |name| -> Result<Value, Failure> {
        let text = properties.text(name)?;
        Ok(text.map_or(Value::Null, Value::symbol))
    };
    let user_id = properties.text("user_id")?;
    let user_id = user_id.map(|user| Value::Binary(user.as_bytes().to_vec().into()));
    let seconds = properties.integer("timestamp")?;
    let takes = "seconds since 1970 that milliseconds can tell, at most 9223372036854775";
    let created = seconds.map(|seconds| {
        let ms = seconds.checked_mul(1000);
        ms.map(Value::Timestamp)
            .ok_or_else(|| bad("timestamp", takes))
    });
    let created = created.transpose()?;
    Ok(vec![
        text("message_id")?,
        user_id.unwrap_or(Value::Null),
        Value::Null, // to
        Value::Null, // subject
        text("reply_to")?,
        text("correlation_id")?,
        symbol("content_type")?,
        symbol("content_encoding")?,
        Value::Null, // absolute-expiry-time
        created.unwrap_or(Value::Null),
    ])
}

/// Two of them become one annotation, and a map has each key once. [AMQP 1.6.23]
fn twice(one: &str, annotation: &str) -> Failure {
    Failure::bad_request(format!(
        "{one} and the header '{annotation}' are the same annotation: give one of them"
    ))
}

fn bad(property: &str, takes: &str) -> Failure {
    Failure::bad_request(format!("the property '{property}' must be {takes}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(properties: &Json) -> Result<Publication, String> {
        let body = json!({
            "properties": properties, "routing_key": "q", "payload": "", "payload_encoding": "string",
        });
        let fields = Fields::parse(body.to_string().as_bytes()).unwrap();
        Publication::of(&fields).map_err(|failure| failure.reason)
    }

    /// Both were written, so that the map of annotations had a key twice.
    #[test]
    fn a_property_and_a_header_that_are_one_annotation_are_refused_together() {
        for (properties, one, annotation) in [
            (
                json!({"type": "a", "headers": {"x-basic-type": "b"}}),
                "the property 'type'",
                "x-basic-type",
            ),
            (
                json!({"app_id": "a", "headers": {"x-basic-app-id": "b"}}),
                "the property 'app_id'",
                "x-basic-app-id",
            ),
            (
                json!({"headers": {"CC": ["a"], "x-cc": ["b"]}}),
                "the header 'CC'",
                "x-cc",
            ),
        ] {
            let says = format!(
                "{one} and the header '{annotation}' are the same annotation: give one of them"
            );
            assert_eq!(read(&properties), Err(says));
        }
        assert!(
            read(&json!({"type": "a", "headers": {"x-cc": ["b"], "x-basic-app-id": "c"}})).is_ok()
        );
    }

    /// It was cut to the last time that can be told.
    #[test]
    fn a_timestamp_that_milliseconds_cannot_tell_is_refused() {
        let last = i64::MAX / 1_000;
        assert!(read(&json!({ "timestamp": last })).is_ok());
        let refused = read(&json!({ "timestamp": last + 1 })).unwrap_err();
        assert!(
            refused.contains("'timestamp'") && refused.contains(&last.to_string()),
            "{refused}"
        );
    }
}
