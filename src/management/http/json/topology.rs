//! JSON of exchanges, bindings and policies.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::put;
use super::stats::{self, ExchangeCounts};
use super::value::arguments;
use crate::base::Name;
use crate::broker::binding::Binding;
use crate::broker::exchange::ExchangeSpec;
use crate::broker::{Destination, Policy};
use crate::management::token::binding_token;

/// The JSON of an exchange.
pub fn exchange(vhost: &str, spec: &ExchangeSpec, policy: Option<&str>) -> Value {
    let mut body = json!({
        "vhost": vhost,
        "name": &*spec.name,
        "type": spec.kind.as_str(),
        "durable": spec.durable,
        "auto_delete": spec.auto_delete,
        "internal": spec.internal,
        "arguments": arguments(&spec.arguments),
        "user_who_performed_action": "",
    });
    if let Some(policy) = policy {
        put(&mut body, "policy", json!(policy));
    }
    body
}

/// The JSON of an exchange with its counters.
pub fn exchange_counted(mut exchange: Value, counted: ExchangeCounts) -> Value {
    put(&mut exchange, "message_stats", stats::exchange(counted));
    exchange
}

/// The JSON of an exchange by itself: rates by publisher and by queue are not counted.
pub fn exchange_alone(mut exchange: Value) -> Value {
    put(&mut exchange, "incoming", json!([]));
    put(&mut exchange, "outgoing", json!([]));
    exchange
}

/// The JSON of a binding.
pub fn binding(vhost: &str, binding: &Binding) -> Value {
    let (destination, kind) = match &binding.destination {
        Destination::Queue(name) => (name, "queue"),
        Destination::Exchange(name) => (name, "exchange"),
    };
    json!({
        "source": &*binding.source,
        "vhost": vhost,
        "destination": &**destination,
        "destination_type": kind,
        "routing_key": &*binding.key,
        "arguments": arguments(&binding.arguments),
        "properties_key": properties_key(binding),
    })
}

/// The text for key and arguments of a binding in paths: the key percent-encoded, and with
/// arguments, or without a key, a `~` and a token of the arguments.
pub fn properties_key(binding: &Binding) -> String {
    let key = utf8_percent_encode(&binding.key, KEY).to_string();
    let token = binding_token(&binding.arguments);
    if token.is_empty() && !key.is_empty() {
        return key;
    }
    format!("{key}~{token}")
}

/// The key in a properties key, if it can be one.
pub fn key_of(properties_key: &str) -> Option<Name> {
    let key = properties_key.split('~').next().unwrap_or_default();
    Name::percent_decoded(key)
}

/// The characters that a properties key encodes: all but letters, digits and `-._`.
const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// The JSON of a policy as a parameter.
pub fn parameter(component: &str, vhost: &str, policy: &Policy) -> Value {
    json!({
        "component": component,
        "vhost": vhost,
        "name": &*policy.name,
        "value": {
            "pattern": policy.pattern.as_str(),
            "apply-to": policy.apply_to.as_str(),
            "definition": arguments(&policy.given),
            "priority": policy.priority,
        },
    })
}

/// The JSON of a policy or operator policy.
pub fn policy(vhost: &str, policy: &Policy) -> Value {
    json!({
        "vhost": vhost,
        "name": &*policy.name,
        "pattern": policy.pattern.as_str(),
        "apply-to": policy.apply_to.as_str(),
        "definition": arguments(&policy.given),
        "priority": policy.priority,
    })
}
