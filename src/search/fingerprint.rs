//! The fingerprint of a dead letter: what is the same of all that died of one cause. [evidence part
//! 8]

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::stack_trace::{first_line, top_frame};
use super::variable_parts::without_variable_parts;
use crate::base::limits::{GROUP_TEXT_BYTES_MAX, STACK_TRACE_BYTES_MAX};
use crate::deaths::{Entry, Evidence};
use crate::message::Message;
use crate::wire::{Reader, Value, decode_value};

/// The group of messages that never died.
pub const NEVER_DIED: &str = "none";
/// The version of fingerprints, in front of each: a saved key means the same for ever.
const VERSION: &str = "1:";
/// Bytes of the hash in a fingerprint.
const HASH_BYTES: usize = 4;

/// The keys of an error's info, by what they are: type, message, stack trace.
const INFO: [&str; 3] = ["exception-type", "exception-message", "stack-trace"];
/// The application properties (or annotations) in which frameworks write the same: `MassTransit`, `NServiceBus`,
/// Spring for RabbitMQ and for Kafka. The first of each that is there counts.
const PROPERTIES: [&[&str]; 3] = [
    &[
        "MT-Fault-ExceptionType",
        "NServiceBus.ExceptionInfo.ExceptionType",
        "kafka_dlt-exception-fqcn",
    ],
    &[
        "MT-Fault-Message",
        "NServiceBus.ExceptionInfo.Message",
        "x-exception-message",
        "kafka_dlt-exception-message",
    ],
    &[
        "MT-Fault-StackTrace",
        "NServiceBus.ExceptionInfo.StackTrace",
        "x-exception-stacktrace",
        "kafka_dlt-exception-stacktrace",
    ],
];

/// A group of dead letters: the same condition, exception, top frame and text, but for what varies
/// from one message to the next. Where nothing is known of the error, the same reason and queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fingerprint {
    /// `1:` and 8 hexadecimal digits, or [`NEVER_DIED`].
    pub key: String,
    /// What people read: condition, exception type, text.
    pub label: String,
}

impl Fingerprint {
    /// Whether a text is written as keys are.
    pub fn is_key(key: &str) -> bool {
        let digits = key.strip_prefix(VERSION);
        let is_hash = digits.is_some_and(|digits| {
            let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            digits.len() == 2 * HASH_BYTES && digits.bytes().all(is_digit)
        });
        is_hash || key == NEVER_DIED
    }

    /// The fingerprint of a message by its latest death.
    pub fn of(message: &Message) -> Self {
        let entries = message.history().map(|history| history.entries());
        let Some(latest) = entries.and_then(|entries| entries.first()) else {
            return Self {
                key: NEVER_DIED.to_owned(),
                label: "never died".to_owned(),
            };
        };
        Self::of_death(latest, Some(message))
    }

    /// The fingerprint of a death; `message`: what is known of it.
    pub fn of_death(latest: &Entry, message: Option<&Message>) -> Self {
        let evidence = latest.evidence.as_deref();
        let mut told = evidence.map(Told::of_evidence).unwrap_or_default();
        if let Some(message) = message
            && told.is_nothing()
        {
            told = Told::of_properties(message);
        }
        if told.is_nothing() {
            return Self::of_reason(latest);
        }
        Self::of_told(told)
    }

    fn of_told(told: Told) -> Self {
        let [kind, text, trace] = told.exception;
        let condition = told.condition.unwrap_or_default();
        // The assembly behind a type's name has a version.
        let kind = kind.as_deref().map(|kind| kind.split(',').next());
        let kind = without_variable_parts(kind.flatten().unwrap_or_default());
        let text = text.unwrap_or_default();
        // A text may be a whole stack trace.
        let frame = without_variable_parts(&top_frame(trace.as_deref().unwrap_or(&text)));
        let text = without_variable_parts(&first_line(&text));
        let mut label = condition.clone();
        let quoted = if text.is_empty() || text == frame {
            String::new()
        } else {
            format!("\"{text}\"")
        };
        for part in [&kind, &quoted, &frame] {
            if !part.is_empty() {
                label.push_str(if label.is_empty() { "" } else { " " });
                label.push_str(part);
            }
        }
        let key = key(&["error", &condition, &kind, &text, &frame]);
        Self { key, label }
    }

    fn of_reason(latest: &Entry) -> Self {
        let reason = latest.reason.as_str();
        Self {
            key: key(&["reason", reason, &latest.queue]),
            label: format!("{reason} in {}", &*latest.queue),
        }
    }
}

/// The version and the beginning of the hash of all parts, which no part contains the bound of.
fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut key = VERSION.to_owned();
    for byte in hash.finalize().iter().take(HASH_BYTES) {
        // Writing to a string cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

/// What is told of an error.
#[derive(Debug, Default)]
struct Told {
    condition: Option<String>,
    /// Type, message, stack trace.
    exception: [Option<String>; 3],
}

impl Told {
    const fn is_nothing(&self) -> bool {
        self.condition.is_none() && matches!(self.exception, [None, None, None])
    }

    /// The error that the consumer gave; its description is the message unless info has one only.
    fn of_evidence(evidence: &Evidence) -> Self {
        let (condition, description) = evidence.shown();
        let mut told = Self {
            condition: condition.map(|condition| condition.to_string()),
            ..Self::default()
        };
        let info = evidence.info.as_ref();
        let pairs = info.and_then(|info| Reader::new(info).map().ok());
        for pair in pairs.into_iter().flatten().flatten() {
            let name = pair.symbol_key().or_else(|| pair.string_key());
            let place = INFO.iter().position(|known| name == Some(*known));
            if let Ok((value, _)) = decode_value(pair.value) {
                told.set(place, value);
            }
        }
        let [_, message, _] = &mut told.exception;
        if let Some(description) = description {
            *message = Some(description.to_string());
        }
        told
    }

    /// The error that a framework wrote into the message that it sent to its error queue.
    fn of_properties(message: &Message) -> Self {
        let mut told = Self::default();
        let mut ranks = [usize::MAX; 3];
        let place_of = |name: &str| {
            let places = PROPERTIES.iter().enumerate();
            let mut found = places.filter_map(|(place, names)| {
                let rank = names.iter().position(|known| *known == name)?;
                Some((place, rank))
            });
            found.next()
        };
        let mut found = |name: &str, value: Value| {
            if let Some((place, rank)) = place_of(name)
                && let Some(best) = ranks.get_mut(place)
                && rank < *best
            {
                *best = rank;
                told.set(Some(place), value);
            }
        };
        let is_wanted = |name: &str| place_of(name).is_some();
        message.visit_application_properties(is_wanted, &mut found);
        // A header of AMQP 0-9-1 that begins with `x-` is an annotation here.
        message.visit_annotations(is_wanted, &mut found);
        told
    }

    fn set(&mut self, place: Option<usize>, value: Value) {
        let bytes_max = match place {
            Some(2) => STACK_TRACE_BYTES_MAX,
            _ => GROUP_TEXT_BYTES_MAX,
        };
        let part = place.and_then(|place| self.exception.get_mut(place));
        if let Some(part) = part {
            *part = text(value, bytes_max);
        }
    }
}

/// The beginning of a text; some frameworks write texts as bytes.
fn text(value: Value, bytes_max: usize) -> Option<String> {
    let beginning = |bytes: &[u8]| {
        let bytes = bytes.get(..bytes_max).unwrap_or(bytes);
        String::from_utf8_lossy(bytes).into_owned()
    };
    let text = match value {
        Value::String(text) | Value::Symbol(text) => beginning(text.as_bytes()),
        Value::Binary(bytes) => beginning(&bytes),
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
impl Fingerprint {
    /// The fingerprint of an error of which these are known.
    pub(super) fn of_error(
        condition: Option<&str>,
        kind: Option<&str>,
        text: Option<&str>,
        trace: Option<&str>,
    ) -> Self {
        Self::of_told(Told {
            condition: condition.map(str::to_owned),
            exception: [kind, text, trace].map(|part| part.map(str::to_owned)),
        })
    }
}
