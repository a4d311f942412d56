//! The body of a message: text, bytes, or values of AMQP with their types.

use serde_json::Value;

use crate::cli::output::{pick, printable};

/// A body as the API shows it.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::cli) enum Body {
    /// Bytes that are text.
    Text(String),
    /// Bytes that are not text, in Base64.
    Bytes(String),
    /// An AMQP value; the name of its type where the broker gives it.
    Value(Option<String>, Value),
    /// A list of AMQP sequences.
    Sequences(Value),
}

impl Body {
    /// Reads it from a message in the API's JSON.
    pub(in crate::cli) fn read(message: &Value) -> Self {
        let text = |path: &str| pick(message, path).and_then(Value::as_str);
        let amqp = |name: &str| pick(message, "amqp.body")?.get(name).cloned();
        if let Some(value) = amqp("value") {
            return Self::Value(text("amqp.body.type").map(str::to_owned), value);
        }
        if let Some(sequences) = amqp("sequences") {
            return Self::Sequences(sequences);
        }
        let payload = text("payload").unwrap_or_default().to_owned();
        match text("payload_encoding") {
            Some("base64") => Self::Bytes(payload),
            _ => Self::Text(payload),
        }
    }

    /// The body for programs: texts, numbers, lists and maps as JSON.
    pub(in crate::cli) fn value(&self) -> Value {
        match self {
            Self::Text(text) | Self::Bytes(text) => Value::from(text.as_str()),
            Self::Value(_, value) | Self::Sequences(value) => value.clone(),
        }
    }

    /// The encoding of [`Self::value`].
    pub(super) const fn encoding(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Bytes(_) => "base64",
            Self::Value(..) => "amqp-value",
            Self::Sequences(_) => "amqp-sequence",
        }
    }

    /// The name of its AMQP type, if it is one value.
    pub(super) fn kind(&self) -> Option<&str> {
        match self {
            Self::Value(kind, _) => kind.as_deref(),
            _ => None,
        }
    }

    /// The body in one line, of at most `max` bytes; `encoded` is its size in the message.
    pub(super) fn in_words(&self, encoded: u64, max: u64) -> String {
        match self {
            Self::Text(text) if !text.is_empty() => {
                let is_cut = (text.len() as u64) < encoded;
                let end = if is_cut { "..." } else { "" };
                format!("{encoded} bytes: {}{end}", printable(text))
            }
            Self::Bytes(text) if encoded > 0 => {
                format!("{encoded} bytes (Base64): {}", printable(text))
            }
            Self::Text(_) | Self::Bytes(_) => format!("{encoded} bytes"),
            Self::Value(kind, value) => {
                let form = match kind.as_deref() {
                    Some("binary") => " (Base64)",
                    _ => "",
                };
                let kind = kind.as_deref().unwrap_or("value");
                format!("AMQP {}{form}: {}", printable(kind), shown(value, max))
            }
            Self::Sequences(value) => format!("AMQP sequences: {}", shown(value, max)),
        }
    }
}

/// A value in one line: texts bare, others as JSON.
fn shown(value: &Value, max: u64) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    if text.len() <= max {
        return printable(&text);
    }
    let end = text.floor_char_boundary(max);
    format!("{}...", printable(text.get(..end).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(message: &Value, words: &str, value: &Value, encoding: &str) {
        let body = Body::read(message);
        let encoded = message["payload_bytes"].as_u64().unwrap_or(0);
        assert_eq!(body.in_words(encoded, 20), words);
        assert_eq!(body.value(), *value);
        assert_eq!(body.encoding(), encoding);
    }

    // A value was shown as the Base64 of its section.
    #[test]
    fn a_body_is_shown_as_what_it_is() {
        let value = |kind: &str, value: Value| {
            json!({"payload_bytes": 40, "payload": "AFN3", "payload_encoding": "base64",
                   "amqp": {"body": {"value": value, "type": kind}}})
        };
        check(
            &value("string", json!("cannot\u{1b} be read")),
            "AMQP string: cannot\\u{1b} be read",
            &json!("cannot\u{1b} be read"),
            "amqp-value",
        );
        check(
            &value("map", json!({"order": 5})),
            "AMQP map: {\"order\":5}",
            &json!({"order": 5}),
            "amqp-value",
        );
        check(
            &value("ulong", json!(7)),
            "AMQP ulong: 7",
            &json!(7),
            "amqp-value",
        );
        check(
            &value("string", json!("\u{e9}".repeat(15))),
            &format!("AMQP string: {}...", "\u{e9}".repeat(10)),
            &json!("\u{e9}".repeat(15)),
            "amqp-value",
        );
        let sequences = json!({"amqp": {"body": {"sequences": [[1, "a"]]}}});
        check(
            &sequences,
            "AMQP sequences: [[1,\"a\"]]",
            &json!([[1, "a"]]),
            "amqp-sequence",
        );
        let data = json!({"payload_bytes": 9, "payload": "text", "payload_encoding": "string",
                          "amqp": {"body": {"data_bytes": 9}}});
        check(&data, "9 bytes: text...", &json!("text"), "string");
        let bytes = json!({"payload_bytes": 2, "payload": "//8=", "payload_encoding": "base64"});
        check(&bytes, "2 bytes (Base64): //8=", &json!("//8="), "base64");
        check(&json!({}), "0 bytes", &json!(""), "string");
    }
}
