//! JSON of answers, from plain data. Field names are RabbitMQ's.

pub mod connection;
pub mod event;
pub mod explain;
pub mod exported;
pub mod groups;
pub mod message;
pub mod overview;
pub mod queue;
pub mod reading;
pub mod settings;
pub mod stats;
pub mod topology;
pub mod users;
pub mod value;

use serde_json::{Value, json};

use super::access::Identity;
use crate::access::Tag;

/// The JSON of the user that asks.
pub fn whoami(identity: &Identity) -> Value {
    let tags: Vec<&str> = identity.tags.iter().map(Tag::as_str).collect();
    json!({ "name": &*identity.name, "tags": tags, "is_internal_user": true })
}

/// Puts a field into an object.
pub(super) fn put(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), value);
    }
}

/// The rate of a value that is not counted here.
pub(super) fn no_rate() -> Value {
    json!({ "rate": 0.0 })
}
