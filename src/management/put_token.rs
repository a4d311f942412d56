//! Requests to `$cbs`, which give a connection another token: the operation `put-token` of claims-based
//! security, as clients of Azure's services ask for it.

use super::node::{Properties, RequestError};
use crate::base::limits::MANAGEMENT_VALUES_MAX;
use crate::wire::{
    Reader, SectionIndex, SectionKind, Value, check_values, encode_value, walk,
    without_leading_null, write_descriptor,
};

/// The words for a JSON Web Token: Azure's, and that of the specification's draft.
const TYPES: [&str; 2] = ["jwt", "amqp:jwt"];

/// A request with a token.
#[derive(Debug)]
pub struct PutToken {
    /// The id that the answer repeats.
    message_id: Option<Value>,
    /// Where the answer is to go; none: the request does not say.
    pub reply_to: Option<String>,
    /// The token, or what is wrong with the request.
    token: Result<String, String>,
}

impl PutToken {
    /// Decodes a request: the whole message, as transferred. What is wrong with a request that is a
    /// message is told in the answer.
    pub fn read(payload: &[u8]) -> Result<Self, RequestError> {
        let payload = without_leading_null(payload);
        let index = walk(payload)?;
        let properties = Properties::read(&index, payload);
        let (message_id, reply_to) = match &properties {
            Ok(found) => (found.message_id.clone(), found.reply_to.map(str::to_owned)),
            Err(_) => (None, None),
        };
        let token = match (check_values(payload, MANAGEMENT_VALUES_MAX), properties) {
            (Ok(()), Ok(_)) => token(&index, payload),
            (Err(error), _) => Err(format!("the request has {error}")),
            (_, Err(refusal)) => Err(refusal.why),
        };
        Ok(Self {
            message_id,
            reply_to,
            token,
        })
    }

    /// Takes the token out of the request, or what is wrong with it.
    pub fn take_token(&mut self) -> Result<String, String> {
        std::mem::replace(&mut self.token, Err(String::new()))
    }

    /// The message of the answer: a status code, and what it means.
    pub fn answer(&self, status: i32, description: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let section = |out: &mut Vec<u8>, kind: SectionKind, value: &Value| {
            write_descriptor(out, kind.code());
            encode_value(value, out);
        };
        let fields = [
            Value::Null, // message-id
            Value::Null, // user-id
            self.reply_to.clone().map_or(Value::Null, Value::String),
            Value::Null, // subject
            Value::Null, // reply-to
            self.message_id.clone().unwrap_or(Value::Null),
        ];
        section(
            &mut out,
            SectionKind::Properties,
            &Value::List(fields.to_vec()),
        );
        let told = Value::Map(vec![
            (Value::string("status-code"), Value::Int(status)),
            (
                Value::string("status-description"),
                Value::string(description),
            ),
        ]);
        section(&mut out, SectionKind::ApplicationProperties, &told);
        section(&mut out, SectionKind::Value, &Value::Null);
        out
    }
}

fn token(index: &SectionIndex, payload: &[u8]) -> Result<String, String> {
    let pairs = if index.application_properties.is_absent() {
        Vec::new()
    } else {
        let start = index.application_properties.value as usize;
        match Reader::starting_at(payload, start).value() {
            Ok(Value::Map(pairs)) => pairs,
            Ok(_) | Err(_) => return Err("the application properties are no map".to_owned()),
        }
    };
    let text = |name: &str| {
        let mut pairs = pairs.iter();
        let found = pairs.find(|(key, _)| key.as_str() == Some(name));
        found.and_then(|(_, value)| value.as_str())
    };
    if text("operation") != Some("put-token") {
        return Err("the application property 'operation' must be put-token".to_owned());
    }
    if !text("type").is_some_and(|word| TYPES.contains(&word)) {
        let known = TYPES.join(" or ");
        return Err(format!("the application property 'type' must be {known}"));
    }
    let body = index.read_value_body(payload);
    match body.map_err(|error| error.to_string())? {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Binary(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Err("the body must be the token, a string in one amqp-value section".to_owned()),
    }
}
