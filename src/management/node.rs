//! The AMQP management node: a request message in, an answer message out.

use thiserror::Error;

use crate::access::Permissions;
use crate::base::limits::{MANAGEMENT_ANSWER_BYTES_MAX, MANAGEMENT_VALUES_MAX};
use crate::base::{ConnectionId, Lsn, Name, Now};
use crate::broker::binding::Binding;
use crate::broker::registry::Topics;
use crate::broker::{Core, Destination, Effects, Matching, ObjectKind};
use crate::wire::{
    DecodeError, Reader, SectionIndex, Value, ValueKind, check_values, walk, without_leading_null,
};

use super::answer::{self, Success};
use super::body::{BindingBody, ExchangeBody, QueueBody};
use super::operations::{DeleteIf, Operations, Unbound};
use super::path::{BindingsQuery, Path};
use super::refusal::{Refusal, Status};

/// The client that sent a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The client's user.
    pub user: &'a Name,
    /// The user's permissions in this vhost.
    pub permissions: &'a Permissions,
    /// Its topic permissions; none: all keys are permitted.
    pub topics: Option<&'a Topics>,
    /// The client's connection, to which exclusive queues belong.
    pub connection: ConnectionId,
    /// The broker's name, shown as leader and replica of queues.
    pub node: &'a str,
}

/// The answer to one request, encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The sections of the message, to be sent settled.
    pub message: Vec<u8>,
    /// The answer is held back until this record is durable (0: sent at once): the last change of
    /// anything that the request may have read, whoever made it.
    pub lsn: Lsn,
}

/// A request that cannot be answered: the link is detached with `amqp:decode-error`.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("management request is not a message: {0}")]
pub struct RequestError(#[from] pub DecodeError);

/// A decoded request, to be carried out: decoding takes no lock.
#[derive(Debug)]
pub struct Prepared {
    request: Result<Request, Refusal>,
    audited: Option<Box<Audited>>,
    message_id: Option<Value>,
    wants_warnings: bool,
}

/// The change that a request asks for, for the audit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audited {
    /// The action, `declare queue` for example.
    pub action: &'static str,
    /// The object of the action.
    pub object: String,
}

/// The progress of a request.
#[derive(Debug)]
pub enum Progress {
    /// It was carried out.
    Done(Outcome),
    /// It needs more work than one hold of the core's lock is for: call again.
    Later(Prepared),
}

/// The result of a request; encoding the answer takes no lock.
#[derive(Debug)]
pub struct Outcome {
    result: Result<Success, Refusal>,
    audited: Option<Box<Audited>>,
    message_id: Option<Value>,
    wants_warnings: bool,
    lsn: Lsn,
}

impl Prepared {
    /// Decodes a request: `payload` is the whole message, as transferred. Errors in a request that
    /// is a message are reported in the answer.
    pub fn read(payload: &[u8]) -> Result<Self, RequestError> {
        let payload = without_leading_null(payload);
        let index = walk(payload)?;
        let properties = Properties::read(&index, payload);
        let message_id = properties.as_ref().ok().and_then(|p| p.message_id.clone());
        // Values without a byte, like nulls in an array, would need a thousand times their size.
        if let Err(error) = check_values(payload, MANAGEMENT_VALUES_MAX) {
            return Ok(Self {
                request: Err(Refusal::bad_request(format!("the request has {error}"))),
                audited: None,
                message_id,
                wants_warnings: false,
            });
        }
        let wants_warnings = wants_warnings(&index, payload);
        let request = properties.and_then(|properties| Request::new(&properties, &index, payload));
        let audited = request.as_ref().ok().and_then(Request::audited);
        Ok(Self {
            request,
            audited: audited.map(Box::new),
            message_id,
            wants_warnings,
        })
    }

    /// Takes the token out of a request that renews one; none: it asks for something else, or has no
    /// token as its body.
    pub fn take_token(&mut self) -> Option<String> {
        let Ok(request) = &mut self.request else {
            return None;
        };
        if !matches!((request.method, &request.path), (Method::Put, Path::Token)) {
            return None;
        }
        let text = match std::mem::replace(&mut request.body, Value::Null) {
            Value::Binary(bytes) => String::from_utf8(bytes.to_vec()).ok(),
            Value::String(text) => Some(text),
            _ => None,
        };
        // What is no text is no token either: it is refused as such.
        Some(text.unwrap_or_default())
    }

    /// The result of a request with a token, which was checked.
    pub fn renewed(self, result: Result<(), Refusal>) -> Outcome {
        Outcome {
            result: result.map(|()| Success::no_content(Lsn(0))),
            audited: self.audited,
            message_id: self.message_id,
            wants_warnings: self.wants_warnings,
            lsn: Lsn(0),
        }
    }

    /// Carries out the request, or a slice of it.
    pub fn carry_out(
        self,
        now: Now,
        caller: &Caller<'_>,
        core: &mut Core,
        effects: &mut Effects,
    ) -> Progress {
        let operations = Operations {
            now,
            caller,
            core: &mut *core,
            effects,
        };
        let result = match self.request {
            Ok(request) => match perform(request, operations) {
                Ok(Performed::Done(success)) => Ok(success),
                Ok(Performed::Later(request)) => {
                    return Progress::Later(Self {
                        request: Ok(request),
                        ..self
                    });
                }
                Err(refusal) => Err(refusal),
            },
            Err(refusal) => Err(refusal),
        };
        Progress::Done(Outcome {
            result,
            audited: self.audited,
            message_id: self.message_id,
            wants_warnings: self.wants_warnings,
            // Any answer, also that something exists or does not exist, must not be undone by a
            // crash.
            lsn: core.topology_lsn(),
        })
    }
}

impl Outcome {
    /// The change that was asked for and whether it was made, for the audit log; none for a request
    /// that only read, or that changed nothing.
    pub fn audited(&self) -> Option<(&Audited, Result<Status, &Refusal>)> {
        let audited = self.audited.as_deref()?;
        match &self.result {
            Ok(success) if success.is_unchanged => None,
            Ok(success) => Some((audited, Ok(success.status))),
            Err(refusal) => Some((audited, Err(refusal))),
        }
    }

    /// Encodes the answer. One that is too large is replaced by an error.
    pub fn answer(self) -> Answer {
        let id = self.message_id.as_ref();
        let mut message = answer::write_message(self.result, id, self.wants_warnings);
        if message.len() > MANAGEMENT_ANSWER_BYTES_MAX {
            let why = format!("the answer has more than {MANAGEMENT_ANSWER_BYTES_MAX} bytes");
            message = answer::write_message(Err(Refusal::bad_request(why)), id, false);
        }
        Answer {
            message,
            lsn: self.lsn,
        }
    }
}

/// Handles one request from its bytes to its answer at once.
#[cfg(test)]
pub fn handle(
    now: Now,
    caller: &Caller<'_>,
    core: &mut Core,
    effects: &mut Effects,
    payload: &[u8],
) -> Result<Answer, RequestError> {
    let mut prepared = Prepared::read(payload)?;
    loop {
        match prepared.carry_out(now, caller, core, effects) {
            Progress::Done(outcome) => return Ok(outcome.answer()),
            Progress::Later(rest) => prepared = rest,
        }
    }
}

/// How far a request was carried out.
enum Performed {
    Done(Success),
    Later(Request),
}

fn perform(mut request: Request, mut on: Operations<'_>) -> Result<Performed, Refusal> {
    let declared = match (request.method, &request.path) {
        (Method::Put, Path::Queue(name)) => Some((ObjectKind::Queue, name)),
        (Method::Put, Path::Exchange(name)) => Some((ObjectKind::Exchange, name)),
        _ => None,
    };
    if let Some(declared) = declared
        && !on.match_policies(declared, &mut request.begun)
    {
        return Ok(Performed::Later(request));
    }
    let Request {
        method,
        path,
        body,
        after,
        begun: _,
    } = request;
    match (method, path) {
        (Method::Delete, Path::Binding(path)) => match on.unbind(&path, after)? {
            Unbound::Done(lsn) => Ok(Performed::Done(Success::no_content(lsn))),
            Unbound::NotYet(after) => Ok(Performed::Later(Request {
                method,
                path: Path::Binding(path),
                body,
                after: Some(after),
                begun: None,
            })),
        },
        (method, path) => perform_at_once(method, path, &body, on).map(Performed::Done),
    }
}

fn perform_at_once(
    method: Method,
    path: Path,
    body: &Value,
    mut on: Operations<'_>,
) -> Result<Success, Refusal> {
    match (method, path) {
        (Method::Put, Path::Queue(name)) => {
            let declared = on.declare_queue(&name, QueueBody::parse(body)?)?;
            let body = answer::queue(&declared.info, on.core.vhost(), on.caller.node);
            let success = Success::ok(body, declared.lsn).warned(declared.warnings);
            Ok(if declared.created {
                Success {
                    status: Status::Created,
                    ..success
                }
            } else {
                success.unchanged()
            })
        }
        (Method::Get, Path::Queue(name)) => {
            let info = on.queue(&name)?;
            let body = answer::queue(&info, on.core.vhost(), on.caller.node);
            Ok(Success::ok(body, Lsn(0)))
        }
        (Method::Delete, Path::Queue(name)) => {
            let (messages, lsn) = on.delete_queue(&name, DeleteIf::default())?;
            Ok(Success::messages(messages, lsn))
        }
        (Method::Delete, Path::Messages(name)) => {
            let (messages, lsn) = on.purge_queue(&name)?;
            Ok(Success::messages(messages, lsn))
        }
        (Method::Put, Path::Exchange(name)) => {
            let declared = on.declare_exchange(&name, ExchangeBody::parse(body)?)?;
            let success = Success::no_content(declared.lsn).warned(declared.warnings);
            Ok(if declared.created {
                success
            } else {
                success.unchanged()
            })
        }
        (Method::Delete, Path::Exchange(name)) => on
            .delete_exchange(&name, DeleteIf::default())
            .map(Success::no_content),
        (Method::Post, Path::Bindings(_)) => {
            // A missing exchange or queue is a bad request here (as RabbitMQ).
            let bound = on.bind(BindingBody::parse(body)?);
            let bound = bound.map_err(Refusal::as_bad_request);
            bound.map(Success::no_content)
        }
        (Method::Get, Path::Bindings(query)) => {
            let bindings = on.bindings(&BindingsQuery::parse(query.as_deref())?)?;
            let list = bindings.into_iter().map(answer::binding).collect();
            Ok(Success::ok(Value::List(list), Lsn(0)))
        }
        (Method::Put, Path::Token) => Err(Refusal::bad_request(
            "tokens cannot be renewed: this connection did not log in with one",
        )),
        (method, _) => {
            let why = format!("the method {} is not offered on this path", method.as_str());
            Err(Refusal::not_found(why))
        }
    }
}

/// Whether a request has the application property [`answer::WARNING`] with the value true.
fn wants_warnings(index: &SectionIndex, payload: &[u8]) -> bool {
    if index.application_properties.is_absent() {
        return false;
    }
    let start = index.application_properties.value as usize;
    let Ok(Value::Map(pairs)) = Reader::starting_at(payload, start).value() else {
        return false;
    };
    let mut pairs = pairs.iter();
    pairs.any(|(key, value)| key.as_str() == Some(answer::WARNING) && *value == Value::Bool(true))
}

/// The methods of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Get,
    Put,
    Post,
    Delete,
}

impl Method {
    const ALL: [Self; 4] = [Self::Get, Self::Put, Self::Post, Self::Delete];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }

    const fn takes_a_body(self) -> bool {
        matches!(self, Self::Put | Self::Post)
    }
}

/// The properties of a request. [AMQP 3.2.4]
#[derive(Debug, Default)]
pub(super) struct Properties<'a> {
    pub(super) message_id: Option<Value>,
    to: Option<&'a str>,
    subject: Option<&'a str>,
    pub(super) reply_to: Option<&'a str>,
}

impl<'a> Properties<'a> {
    pub(super) fn read(index: &SectionIndex, payload: &'a [u8]) -> Result<Self, Refusal> {
        if index.properties.is_absent() {
            return Ok(Self::default());
        }
        let start = index.properties.value as usize;
        let mut fields = Reader::starting_at(payload, start).list()?;
        let message_id = fields.value()?;
        if let Some(id) = &message_id
            && !MESSAGE_ID_KINDS.contains(&id.kind())
        {
            let why = format!("a message-id cannot be of type {}", id.kind());
            return Err(Refusal::bad_request(why));
        }
        fields.skip(1)?; // user-id
        Ok(Self {
            message_id,
            to: fields.string()?,
            subject: fields.string()?,
            reply_to: fields.string()?,
        })
    }
}

/// A complete request.
#[derive(Debug)]
struct Request {
    method: Method,
    path: Path,
    body: Value,
    /// The last binding examined so far.
    after: Option<Binding>,
    /// The policies of the object that it declares, as far as they were searched.
    begun: Option<Box<Matching>>,
}

impl Request {
    fn new(
        properties: &Properties<'_>,
        index: &SectionIndex,
        payload: &[u8],
    ) -> Result<Self, Refusal> {
        if properties.reply_to != Some(REPLY_TO) {
            let why = format!("the property reply-to must be '{REPLY_TO}'");
            return Err(Refusal::bad_request(why));
        }
        let missing = |name| Refusal::bad_request(format!("the property {name} is missing"));
        let subject = properties.subject.ok_or_else(|| missing("subject"))?;
        let to = properties.to.ok_or_else(|| missing("to"))?;
        let mut methods = Method::ALL.into_iter();
        let method = methods
            .find(|method| method.as_str() == subject)
            .ok_or_else(|| {
                let known = Method::ALL.map(Method::as_str).join(", ");
                Refusal::bad_request(format!("unknown method '{subject}'; known are {known}"))
            })?;
        let path = Path::parse(to)?;
        // Some clients cannot send a null body: for them no body section counts as null.
        let body = if index.body.is_absent() {
            Value::Null
        } else {
            let other = || Refusal::bad_request("the body must be one amqp-value section");
            index.read_value_body(payload)?.ok_or_else(other)?
        };
        if !method.takes_a_body() && body != Value::Null {
            let why = format!("the body of a {subject} request must be null");
            return Err(Refusal::bad_request(why));
        }
        Ok(Self {
            method,
            path,
            body,
            after: None,
            begun: None,
        })
    }

    /// The change that it asks for, for the audit log.
    fn audited(&self) -> Option<Audited> {
        let named = |action, name: &Name| Audited {
            action,
            object: name.to_string(),
        };
        Some(match (self.method, &self.path) {
            (Method::Put, Path::Queue(name)) => named("declare queue", name),
            (Method::Delete, Path::Queue(name)) => named("delete queue", name),
            (Method::Delete, Path::Messages(name)) => named("purge queue", name),
            (Method::Put, Path::Exchange(name)) => named("declare exchange", name),
            (Method::Delete, Path::Exchange(name)) => named("delete exchange", name),
            (Method::Post, Path::Bindings(_)) => Audited {
                action: "bind",
                object: match BindingBody::parse(&self.body) {
                    Ok(body) => binding_object(&body.source, &body.destination, &body.key),
                    Err(_) => String::new(),
                },
            },
            (Method::Delete, Path::Binding(path)) => Audited {
                action: "unbind",
                object: binding_object(&path.source, &path.destination, &path.key),
            },
            (Method::Put, Path::Token) => Audited {
                action: "renew token",
                object: String::new(),
            },
            _ => return None,
        })
    }
}

/// The name of a binding in the audit log, as in paths of the HTTP API.
fn binding_object(source: &Name, destination: &Destination, key: &Name) -> String {
    match destination {
        Destination::Queue(name) => format!("{source}/q/{name}/{key}"),
        Destination::Exchange(name) => format!("{source}/e/{name}/{key}"),
    }
}

const REPLY_TO: &str = "$me";
const MESSAGE_ID_KINDS: [ValueKind; 4] = [
    ValueKind::Ulong,
    ValueKind::Uuid,
    ValueKind::Binary,
    ValueKind::String,
];
