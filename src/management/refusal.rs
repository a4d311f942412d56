//! What management refuses: a status and a text that says why.

use thiserror::Error as ThisError;

use crate::access::Right;
use crate::broker::{Error, ObjectKind};
use crate::wire::DecodeError;

/// The status of an answer, as HTTP numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Status {
    /// It was there already, or here it is.
    Ok,
    /// It was made.
    Created,
    /// Done; there is nothing to say.
    NoContent,
    /// The request makes no sense.
    BadRequest,
    /// The user has no right to it, or nobody has.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// There is no room for it: told as [`Status::Forbidden`] over AMQP, but no right would help.
    LimitReached,
    /// It contradicts what is there, or itself.
    Conflict,
    /// We failed.
    InternalError,
}

impl Status {
    /// Its number.
    pub const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Created => 201,
            Self::NoContent => 204,
            Self::BadRequest => 400,
            Self::Forbidden | Self::LimitReached => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::InternalError => 500,
        }
    }
}

/// A refused operation.
#[derive(Clone, PartialEq, Eq, Debug, ThisError)]
#[error("{why}")]
#[non_exhaustive]
pub struct Refusal {
    /// What kind of refusal.
    pub status: Status,
    /// Why, for people.
    pub why: String,
}

impl Refusal {
    /// A request that makes no sense.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self {
            status: Status::BadRequest,
            why: why.into(),
        }
    }

    /// A path that leads nowhere.
    pub fn not_found(why: impl Into<String>) -> Self {
        Self {
            status: Status::NotFound,
            why: why.into(),
        }
    }

    /// A right that is missing.
    pub fn no_right(user: &str, right: Right, kind: ObjectKind, name: &str) -> Self {
        let right = right.as_str();
        Self {
            status: Status::Forbidden,
            why: format!("user '{user}' has no {right} right on {kind} '{name}'"),
        }
    }

    /// A routing key that may not be bound.
    pub fn no_topic(user: &str, exchange: &str, key: &str) -> Self {
        Self {
            status: Status::Forbidden,
            why: format!(
                "user '{user}' has no read right on topic '{key}' in exchange '{exchange}'"
            ),
        }
    }

    /// The same refusal as a bad request: what a body names is not the resource asked for.
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
            Error::NotFound { .. } => Status::NotFound,
            Error::BadRequest { .. } | Error::Locked { .. } => Status::BadRequest,
            Error::Reserved { .. } | Error::Internal { .. } => Status::Forbidden,
            Error::QueueLimit { .. } => Status::LimitReached,
            Error::Inequivalent { .. }
            | Error::BadArgument { .. }
            | Error::InUse { .. }
            | Error::NotIdle { .. } => Status::Conflict,
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
