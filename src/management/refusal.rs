//! Refusals of management: a status and a text that says why.

use thiserror::Error as ThisError;

use crate::access::Right;
use crate::broker::{Error, ObjectKind};
use crate::wire::DecodeError;

/// The status of an answer, with the codes of HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Status {
    /// 200: the object exists already, or is in the body.
    Ok,
    /// 201: the object was created.
    Created,
    /// 204: done, without a body.
    NoContent,
    /// 400: the request is invalid.
    BadRequest,
    /// 403: the user has no permission, or nobody has.
    Forbidden,
    /// 404: the object does not exist.
    NotFound,
    /// 403 over AMQP as [`Status::Forbidden`]: a limit is reached, so that no permission would
    /// help.
    LimitReached,
    /// 409: the request contradicts an existing object, or itself.
    Conflict,
    /// 429: there are as many as may be at a time; later there may be room.
    TooMany,
    /// 500: the broker failed.
    InternalError,
}

impl Status {
    /// The code of HTTP.
    pub const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Created => 201,
            Self::NoContent => 204,
            Self::BadRequest => 400,
            Self::Forbidden | Self::LimitReached => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::TooMany => 429,
            Self::InternalError => 500,
        }
    }
}

/// A refused operation.
#[derive(Clone, PartialEq, Eq, Debug, ThisError)]
#[error("{why}")]
#[non_exhaustive]
pub struct Refusal {
    /// The status of the answer.
    pub status: Status,
    /// The reason, for people.
    pub why: String,
}

impl Refusal {
    /// The refusal of an invalid request.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self {
            status: Status::BadRequest,
            why: why.into(),
        }
    }

    /// The refusal of an unknown path or object.
    pub fn not_found(why: impl Into<String>) -> Self {
        Self {
            status: Status::NotFound,
            why: why.into(),
        }
    }

    /// The refusal for a missing permission.
    pub fn no_right(user: &str, right: Right, kind: ObjectKind, name: &str) -> Self {
        let right = right.as_str();
        Self {
            status: Status::Forbidden,
            why: format!("user '{user}' has no {right} right on {kind} '{name}'"),
        }
    }

    /// The refusal for a routing key that may not be bound.
    pub fn no_topic(user: &str, exchange: &str, key: &str) -> Self {
        Self {
            status: Status::Forbidden,
            why: format!(
                "user '{user}' has no read right on topic '{key}' in exchange '{exchange}'"
            ),
        }
    }

    /// The same refusal as a bad request: the missing object is in the body, not in the path.
    #[must_use]
    pub fn as_bad_request(self) -> Self {
        match self.status {
            Status::NotFound | Status::Conflict => Self::bad_request(self.why),
            _ => self,
        }
    }
}

/// The one table from what the core refuses to a status.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::NotFound { .. }
            | Error::NoMessage { .. }
            | Error::NoRedrive { .. }
            | Error::NoNote { .. } => Status::NotFound,
            Error::BadRequest { .. } | Error::Locked { .. } | Error::OtherOwner { .. } => {
                Status::BadRequest
            }
            Error::Reserved { .. } | Error::Internal { .. } => Status::Forbidden,
            Error::QueueLimit { .. } => Status::LimitReached,
            Error::TooManyRedrives | Error::TooManyImports | Error::TooManyNotes { .. } => {
                Status::TooMany
            }
            Error::Inequivalent { .. }
            | Error::BadArgument { .. }
            | Error::InUse { .. }
            | Error::RedriveExists { .. }
            | Error::RedriveState { .. }
            | Error::ImportElsewhere { .. }
            | Error::NotIdle { .. }
            | Error::NotReady { .. }
            | Error::QueueFull { .. } => Status::Conflict,
        };
        Self {
            status,
            why: error.to_string(),
        }
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::bad_request(error.to_string())
    }
}
