//! The AMQP management node: a request message in, an answer message out.

use thiserror::Error;

use crate::access::Permissions;
use crate::base::{ConnectionId, Lsn, Name, Now};
use crate::broker::{Core, Effects};
use crate::wire::DecodeError;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Its user.
    pub user: &'a Name,
    /// What that user may do in this vhost.
    pub permissions: &'a Permissions,
    /// Its connection: exclusive queues belong to it.
    pub connection: ConnectionId,
    /// The broker's name, shown as leader and replica of queues.
    pub node: &'a str,
}

/// The answer to one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The whole message (its sections), to be sent settled.
    pub message: Vec<u8>,
    /// To be sent once this is durable (0: at once).
    pub lsn: Lsn,
}

/// A request that cannot be answered: the link is detached with `amqp:decode-error`.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("management request is not a message: {0}")]
pub struct RequestError(#[from] pub DecodeError);

/// Carries out one request: `payload` is the whole message, as transferred.
pub fn handle(
    now: Now,
    caller: &Caller<'_>,
    core: &mut Core,
    effects: &mut Effects,
    payload: &[u8],
) -> Result<Answer, RequestError> {
    let _ = (now, caller, core, effects, payload);
    Err(RequestError(DecodeError::EmptyMessage))
}
