//! The page of one message: its life, its deaths, what would happen next, what is in it.

use askama::Template;
use serde_json::{Map, Value};

use super::frame::Frame;
use super::queue::vhost_flag;
use super::show::{Bytes, Count, Lines, Span, Text, When};

answer! {
    /// The error that a consumer gave.
    pub struct Error {
        pub condition: Text,
        pub description: Text,
        pub info: Value,
    }

    /// The consumer that caused something.
    pub struct Culprit {
        pub how: Text,
        pub container: Text,
        pub link: Text,
        pub user: Text,
        pub address: Text,
    }

    /// An entry of a death history.
    pub struct Death {
        pub queue: Text,
        pub reason: Text,
        pub count: Count,
        pub first_time: When,
        pub last_time: When,
        pub exchange: Text,
        pub routing_keys: Vec<Text>,
        pub error: Option<Error>,
        pub by: Option<Culprit>,
        pub rule: Text,
    }

    /// A step of a life.
    pub struct Step {
        pub at: When,
        pub first_at: When,
        pub what: Text,
        pub place: Text = "where",
        pub why: Text,
        pub rule: Text,
        pub by: Option<Culprit>,
        pub routing_keys: Vec<Text>,
        pub count: Count,
        pub from: Text,
        pub job: Text,
        pub error: Option<Error>,
    }

    /// Where a message is.
    pub struct Now {
        pub queue: Text,
        pub position: Text,
        pub state: Text,
        pub since: When,
        pub ahead: Count,
        pub failures: Count,
        pub consumers: Count,
        pub expires_at: When,
        pub rule: Text,
        pub held_by: Option<Culprit>,
    }

    /// What may happen to a message.
    pub struct Next {
        pub event: Text = "if",
        pub then: Then,
        pub rule: Text,
    }

    /// What would become of it then.
    pub struct Then {
        pub verdict: Text,
        pub reason: Text,
        pub cause: Text,
        pub waits: bool,
        pub targets: Vec<Target>,
        pub skipped: Vec<Skipped>,
    }

    /// A queue that it would enter.
    pub struct Target {
        pub queue: Text,
        pub consumers: Option<Count>,
        pub messages: Option<Count>,
        pub max_length: Option<Count>,
        pub dies: bool,
    }

    /// A queue that is passed over, and why.
    pub struct Skipped {
        pub queue: Text,
        pub why: Text,
    }

    /// The explanation of a message.
    pub struct Explained {
        pub as_of: When,
        pub life: Vec<Step>,
        pub now: Now,
        pub next: Vec<Next>,
    }
}

impl Explained {
    /// What would become of it if it was redriven to where it failed.
    pub fn redriven(&self) -> Option<&Next> {
        self.next.iter().find(|next| next.event.raw() == "redriven")
    }
}

answer! {
    /// A message as the API shows it.
    pub struct Message {
        pub payload_bytes: Bytes,
        pub payload: Text,
        pub exchange: Text,
        pub routing_key: Text,
        pub amqp: Sections,
    }

    /// An answer with messages.
    pub struct Seen {
        pub messages: Vec<Message>,
    }

    /// The sections of a message.
    pub struct Sections {
        pub header: Map<String, Value>,
        pub message_annotations: Map<String, Value>,
        pub properties: Map<String, Value>,
        pub application_properties: Map<String, Value>,
        pub body: Value,
        pub deaths: Vec<Death>,
    }
}

/// A form in which a body is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyForm {
    Text,
    Json,
    Hex,
    Amqp,
}

impl BodyForm {
    /// All forms in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Text, Self::Json, Self::Hex, Self::Amqp];

    /// Its word in the query.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Hex => "hex",
            Self::Amqp => "amqp",
        }
    }

    /// Its name on the page.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Text => "Text",
            Self::Json => "JSON",
            Self::Hex => "Hexadecimal",
            Self::Amqp => "AMQP",
        }
    }

    /// The form of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.as_str() == word)
    }
}

/// A body in one form.
#[derive(Debug)]
pub struct Body {
    pub form: BodyForm,
    pub shown: Lines,
    /// Why it is not shown in that form.
    pub why_not: Option<&'static str>,
    pub is_cut: bool,
}

impl Body {
    /// The beginning of a body in a form; the one that fits best unless one is asked for.
    pub fn of(bytes: &[u8], message: &Message, asked: Option<BodyForm>) -> Self {
        let is_cut = (bytes.len() as u64) < message.payload_bytes.0;
        let typed = &message.amqp.body;
        let is_data =
            typed.get("data_bytes").is_some() || typed.as_object().is_none_or(Map::is_empty);
        let json = serde_json::from_slice::<Value>(bytes)
            .ok()
            .filter(|_| !is_cut);
        let form = asked.unwrap_or_else(|| match (&json, is_data) {
            (_, false) => BodyForm::Amqp,
            (Some(Value::Object(_) | Value::Array(_)), true) => BodyForm::Json,
            _ if std::str::from_utf8(bytes).is_ok() || is_cut => BodyForm::Text,
            _ => BodyForm::Hex,
        });
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        let (shown, why_not) = match (form, json) {
            (BodyForm::Text, _) => (String::from_utf8_lossy(bytes).into_owned(), None),
            (BodyForm::Json, Some(json)) => (pretty(&json), None),
            (BodyForm::Json, None) if is_cut => {
                (String::new(), Some("its beginning alone is no JSON"))
            }
            (BodyForm::Json, None) => (String::new(), Some("it is no JSON")),
            (BodyForm::Hex, _) => (hex(bytes), None),
            (BodyForm::Amqp, _) => (pretty(typed), None),
        };
        Self {
            form,
            shown: Lines(shown),
            why_not,
            is_cut,
        }
    }
}

/// Bytes of a line of a hexadecimal dump.
const HEX_LINE: usize = 16;

/// A hexadecimal dump: position, bytes, the printable ones of ASCII.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut dump = String::with_capacity(bytes.len() * 5);
    for (index, line) in bytes.chunks(HEX_LINE).enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(dump, "{:08x} ", index * HEX_LINE);
        for place in 0..HEX_LINE {
            let _ = match line.get(place) {
                Some(byte) => write!(dump, " {byte:02x}"),
                None => write!(dump, "   "),
            };
        }
        dump.push_str("  ");
        dump.extend(line.iter().map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        }));
        dump.push('\n');
    }
    dump
}

/// The page of a message.
#[derive(Template, Debug)]
#[template(path = "message.html")]
pub struct MessagePage {
    pub frame: Frame,
    pub vhost: Text,
    pub queue: Text,
    pub position: Text,
    pub explained: Explained,
    pub message: Option<Message>,
    pub body: Option<Body>,
    /// The id of a redrive that the button would make.
    pub new_id: String,
    pub may_redrive: bool,
}

impl MessagePage {
    /// The query of the message.
    pub fn query(&self) -> String {
        let (vhost, queue) = (self.vhost.query(), self.queue.query());
        format!(
            "vhost={vhost}&queue={queue}&position={}",
            self.position.query()
        )
    }

    /// Whether it waits to be delivered, so that it can be discarded or redriven.
    pub fn is_ready(&self) -> bool {
        self.explained.now.state.raw() == "ready"
    }

    /// A command on the message, after the name of the queue.
    pub fn tool(&self, command: &str) -> String {
        let (vhost, queue) = (vhost_flag(&self.vhost), self.queue.shell());
        format!("coroner {command}{vhost} {queue} {}", self.position.shell())
    }

    /// A command with the position as a flag.
    pub fn tool_with_flag(&self, command: &str, more: &str) -> String {
        let (vhost, queue) = (vhost_flag(&self.vhost), self.queue.shell());
        format!(
            "coroner {command}{vhost} {queue}{more} --position {}",
            self.position.shell()
        )
    }

    /// The length of time between a moment and when the page was made.
    pub fn ago(&self, when: &When) -> String {
        when.0.map_or_else(String::new, |at| {
            Span::between(at, self.frame.now).to_string()
        })
    }

    /// A section with anything in it: names and values.
    pub fn sections(&self) -> Vec<(&'static str, Vec<(Text, Text)>)> {
        let Some(message) = &self.message else {
            return Vec::new();
        };
        let sections = &message.amqp;
        let all = [
            ("Header", &sections.header),
            ("Message annotations", &sections.message_annotations),
            ("Properties", &sections.properties),
            ("Application properties", &sections.application_properties),
        ];
        let given = all.into_iter().filter(|(_, fields)| !fields.is_empty());
        let shown = given.map(|(title, fields)| {
            let fields = fields.iter().map(|(name, value)| {
                let value = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                (Text::new(name), Text::new(value))
            });
            (title, fields.collect())
        });
        shown.collect()
    }

    /// Info of an error as text; empty: it has none.
    pub fn info(&self, error: &Error) -> Text {
        match &error.info {
            Value::Null => Text::default(),
            info => Text::new(info.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::page::answer::FromAnswer;

    fn body(bytes: &[u8], sections: &Value, asked: Option<BodyForm>) -> Body {
        let message = json!({ "payload_bytes": bytes.len(), "amqp": { "body": sections } });
        let message = Message::of(message);
        Body::of(bytes, &message, asked)
    }

    #[test]
    fn a_body_is_shown_in_the_form_that_fits_unless_one_is_asked_for() {
        let data = json!({ "data_bytes": 3 });
        let check = |bytes: &[u8], form: BodyForm| {
            assert_eq!(body(bytes, &data, None).form, form, "{bytes:?}");
        };
        check(b"{\"a\":1}", BodyForm::Json);
        check(b"17", BodyForm::Text);
        check(b"<img onerror>", BodyForm::Text);
        check(&[0xff, 0, 1], BodyForm::Hex);
        let typed = body(b"", &json!({ "value": 7, "type": "int" }), None);
        assert_eq!(typed.form, BodyForm::Amqp);
        let asked = body(b"no json", &data, Some(BodyForm::Json));
        assert_eq!(asked.why_not, Some("it is no JSON"));
        let hex = body(b"abc\n", &data, Some(BodyForm::Hex)).shown.0;
        assert!(
            hex.starts_with("00000000  61 62 63 0a") && hex.ends_with("abc.\n"),
            "{hex}"
        );
    }

    #[test]
    fn a_message_that_waits_for_nothing_may_still_be_told_of() {
        let told = json!({
            "as_of": 5, "now": { "state": "ready", "position": "18446744073709551615" },
            "next": [{ "if": "redriven", "then": { "verdict": "moved", "targets": [] } }],
        });
        let told = Explained::of(told);
        assert_eq!(told.now.position.raw(), u64::MAX.to_string());
        assert_eq!(told.redriven().unwrap().then.verdict.raw(), "moved");
    }
}
