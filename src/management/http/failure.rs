//! Refusals of the API, in RabbitMQ's format.

use serde_json::{Value, json};

use crate::management::Refusal;

/// A refused request: its status and its body `{"error": .., "reason": ..}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The status code of HTTP.
    pub status: u16,
    /// The error in one word, for programs.
    pub error: &'static str,
    /// The reason, for people.
    pub reason: String,
}

impl Failure {
    /// 401: there is no such user, or the password is wrong.
    pub fn unauthenticated() -> Self {
        Self {
            status: 401,
            error: "not_authorized",
            reason: "Not_Authorized".to_owned(),
        }
    }

    /// 401: the user lacks a permission. RabbitMQ answers 401 here, and 403 nowhere.
    pub fn not_authorised(reason: impl Into<String>) -> Self {
        Self {
            status: 401,
            error: "not_authorised",
            reason: reason.into(),
        }
    }

    /// 400: the request is invalid.
    pub fn bad_request(reason: impl Into<String>) -> Self {
        Self {
            status: 400,
            error: "bad_request",
            reason: reason.into(),
        }
    }

    /// 404: the object does not exist.
    pub fn not_found() -> Self {
        Self {
            status: 404,
            error: "Object Not Found",
            reason: "Not Found".to_owned(),
        }
    }

    /// 403: the request is of another site, or for a host name that is not the broker's.
    pub fn forbidden(reason: impl Into<String>) -> Self {
        Self {
            status: 403,
            error: "forbidden",
            reason: reason.into(),
        }
    }

    /// 408: the body did not arrive in time.
    pub fn too_slow(reason: impl Into<String>) -> Self {
        Self {
            status: 408,
            error: "request_timeout",
            reason: reason.into(),
        }
    }

    /// 429: as many of these run as may.
    pub fn too_many(reason: impl Into<String>) -> Self {
        Self {
            status: 429,
            error: "too_many_requests",
            reason: reason.into(),
        }
    }

    /// 415: the body has a format that is not read.
    pub fn unsupported_media_type(reason: impl Into<String>) -> Self {
        Self {
            status: 415,
            error: "unsupported_media_type",
            reason: reason.into(),
        }
    }

    /// 431: the head of the request is too large.
    pub fn head_too_large(bytes_max: usize) -> Self {
        Self {
            status: 431,
            error: "request_header_fields_too_large",
            reason: format!("the head of the request has more than {bytes_max} bytes"),
        }
    }

    /// 413: the body of the request is too large.
    pub fn too_large(bytes_max: usize) -> Self {
        Self {
            status: 413,
            error: "payload_too_large",
            reason: format!("the body has more than {bytes_max} bytes"),
        }
    }

    /// 503: the request cannot be served now.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self {
            status: 503,
            error: "service_unavailable",
            reason: reason.into(),
        }
    }

    /// The JSON body of the answer.
    pub fn body(&self) -> Value {
        json!({ "error": self.error, "reason": self.reason })
    }
}

/// RabbitMQ answers 400 to nearly everything that the broker itself refuses.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        use crate::management::Status;
        match refusal.status {
            Status::Forbidden => Self::not_authorised(refusal.why),
            Status::NotFound => Self {
                status: 404,
                error: "not_found",
                reason: refusal.why,
            },
            Status::InternalError => Self {
                status: 500,
                error: "internal_error",
                reason: refusal.why,
            },
            _ => Self::bad_request(refusal.why),
        }
    }
}
