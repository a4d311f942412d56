//! Answers as HTTP responses.

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use serde_json::Value;

use super::login::Refused;
use crate::management::http::{Failure, Method};

/// What an endpoint answers.
#[derive(Debug)]
pub(super) enum Reply {
    /// 200 with this.
    Json(Value),
}

impl Reply {
    pub(super) fn response(self) -> Response<Body> {
        match self {
            Self::Json(value) => json(StatusCode::OK, &value),
        }
    }
}

/// A refusal as a response.
pub(super) fn failure(failure: &Failure) -> Response<Body> {
    let status = StatusCode::from_u16(failure.status);
    json(
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        &failure.body(),
    )
}

/// Nobody came, or somebody we do not know.
pub(super) fn refused(refused: &Refused) -> Response<Body> {
    match refused {
        Refused::Wrong(why) => failure(why),
        Refused::Nobody => {
            let realm = "Basic realm=\"Coroner\", charset=\"UTF-8\"";
            let response = Response::builder().status(StatusCode::UNAUTHORIZED);
            body(response.header(WWW_AUTHENTICATE, realm), Body::empty())
        }
    }
}

/// The methods of a path: to a client that asks for them, or that asked with another one.
pub(super) fn allowed(status: StatusCode, methods: &[Method]) -> Response<Body> {
    let mut names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    if names.contains(&"GET") {
        names.insert(0, "HEAD");
    }
    names.push("OPTIONS");
    let response = Response::builder().status(status);
    body(response.header(ALLOW, names.join(", ")), Body::empty())
}

/// 200 with a text.
pub(super) fn text(content_type: &str, text: String) -> Response<Body> {
    let response = Response::builder()
        .header(CACHE_CONTROL, "no-cache")
        .header(CONTENT_TYPE, content_type);
    body(response, Body::from(text))
}

/// A JSON value.
pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .header(CACHE_CONTROL, "no-cache")
        .header(CONTENT_TYPE, "application/json");
    body(response, Body::from(value.to_string()))
}

/// The builder fails on bad headers only, and ours are written here.
fn body(response: axum::http::response::Builder, body: Body) -> Response<Body> {
    response.body(body).unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
