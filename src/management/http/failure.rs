//! What the API refuses, in RabbitMQ's form.

use serde_json::{Value, json};

use crate::management::Refusal;

/// A refused request: its status and its body `{"error": .., "reason": ..}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// HTTP status.
    pub status: u16,
    /// One word for programs.
    pub error: &'static str,
    /// Why, for people.
    pub reason: String,
}

impl Failure {
    /// No such user, or another password.
    pub fn unauthenticated() -> Self {
        Self {
            status: 401,
            error: "not_authorized",
            reason: "Not_Authorized".to_owned(),
        }
    }

    /// The user may not. RabbitMQ answers 401 here, and 403 nowhere.
    pub fn not_authorised(reason: impl Into<String>) -> Self {
        Self {
            status: 401,
            error: "not_authorised",
            reason: reason.into(),
        }
    }

    /// The request makes no sense.
    pub fn bad_request(reason: impl Into<String>) -> Self {
        Self {
            status: 400,
            error: "bad_request",
            reason: reason.into(),
        }
    }

    /// There is no such thing.
    pub fn not_found() -> Self {
        Self {
            status: 404,
            error: "Object Not Found",
            reason: "Not Found".to_owned(),
        }
    }

    /// A request of another site, or one that comes by a name that is not ours.
    pub fn forbidden(reason: impl Into<String>) -> Self {
        Self {
            status: 403,
            error: "forbidden",
            reason: reason.into(),
        }
    }

    /// A body that did not arrive in time.
    pub fn too_slow(reason: impl Into<String>) -> Self {
        Self {
            status: 408,
            error: "request_timeout",
            reason: reason.into(),
        }
    }

    /// A body of a format that is not read here.
    pub fn unsupported_media_type(reason: impl Into<String>) -> Self {
        Self {
            status: 415,
            error: "unsupported_media_type",
            reason: reason.into(),
        }
    }

    /// The head of a request is larger than any that makes sense.
    pub fn head_too_large(bytes_max: usize) -> Self {
        Self {
            status: 431,
            error: "request_header_fields_too_large",
            reason: format!("the head of the request has more than {bytes_max} bytes"),
        }
    }

    /// The request is larger than any that makes sense.
    pub fn too_large(bytes_max: usize) -> Self {
        Self {
            status: 413,
            error: "payload_too_large",
            reason: format!("the body has more than {bytes_max} bytes"),
        }
    }

    /// Not now.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self {
            status: 503,
            error: "service_unavailable",
            reason: reason.into(),
        }
    }

    /// The body.
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
