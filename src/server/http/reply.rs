//! Answers of endpoints as HTTP responses.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER, WARNING, WWW_AUTHENTICATE,
};
use axum::http::{HeaderValue, Response, StatusCode};
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;

use super::answer::Answer;
use super::aside::aside;
use super::graph::Form;
use super::login::Refused;
use crate::base::Gauge;
use crate::base::limits::HTTP_BODY_BYTES_MAX;
use crate::broker::Warning;
use crate::lint::Graph;
use crate::management::http::{Failure, Method};

/// Seconds after which a client may try again for which there was no place.
const RETRY_AFTER_SECONDS: &str = "10";
/// Bytes that are written before they are handed over.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that may wait for the client.
const CHUNKS_WAITING: usize = 4;

/// The answer of an endpoint.
#[derive(Debug)]
pub(super) enum Reply {
    /// 200 with this JSON.
    Json(Value),
    /// 200 with JSON that is written already: writing much of it would block a thread that moves
    /// messages.
    Written(String),
    /// 200 with a graph in this form, which the page shows in its own.
    Graph(Box<Graph>, Form),
    /// 200 with JSON that is written already, and counts against the bound.
    Roomy(Answer),
    /// 200 with an array that may be long, sent in chunks.
    Chunks(Chunks),
    /// 200 with lines of JSON that may be many, sent in chunks.
    Lines(Chunks),
    /// 200 with events, which may go on.
    Events(Chunks),
    /// 400 with this JSON: what was done before, and what is wrong.
    Refused(Value),
    /// 201: an object was created, or 204: it existed and is as asked.
    Stored {
        created: bool,
        warnings: Vec<Warning>,
    },
    /// 201 with the location of the created object.
    CreatedAt(String),
    /// 204 without a body.
    Done,
    /// 503 with what is wrong.
    Unhealthy(Value),
}

impl Reply {
    /// The status code of HTTP.
    pub(super) const fn status(&self) -> u16 {
        match self {
            Self::Json(_)
            | Self::Written(_)
            | Self::Graph(..)
            | Self::Roomy(_)
            | Self::Chunks(_)
            | Self::Lines(_)
            | Self::Events(_) => 200,
            Self::Refused(_) => 400,
            Self::Stored { created: true, .. } | Self::CreatedAt(_) => 201,
            Self::Stored { created: false, .. } | Self::Done => 204,
            Self::Unhealthy(_) => 503,
        }
    }

    /// The JSON of an answer: of one that stores something its warnings, of one without a body null.
    /// Streams are not read.
    pub(super) async fn into_value(self) -> Result<Value, Failure> {
        let text = match self {
            Self::Json(value) | Self::Refused(value) | Self::Unhealthy(value) => return Ok(value),
            Self::Stored { warnings, .. } => {
                let warnings = warnings
                    .iter()
                    .map(|warning| Value::from(warning.to_string()));
                return Ok(warnings.collect());
            }
            Self::CreatedAt(_) | Self::Done => return Ok(Value::Null),
            Self::Chunks(_) | Self::Lines(_) | Self::Events(_) => {
                return Err(Failure::unavailable("this answer is a stream"));
            }
            Self::Graph(graph, _) => return Ok(graph.to_json()),
            Self::Written(text) => text,
            Self::Roomy(answer) => return read(move || answer.value()).await,
        };
        read(move || serde_json::from_str(&text)).await
    }

    /// The response; long bodies count in the gauge until they are sent.
    pub(super) fn response(self, kept: &Gauge) -> Response<Body> {
        let empty = |status| body(Response::builder().status(status), Body::empty());
        match self {
            Self::Json(value) => json(StatusCode::OK, &value),
            Self::Written(text) if text.len() <= HTTP_BODY_BYTES_MAX => {
                json_body(StatusCode::OK, Body::from(text))
            }
            Self::Written(text) => {
                let answer = Answer::written(text, kept);
                json_body(StatusCode::OK, Body::new(answer.into_body()))
            }
            Self::Graph(graph, form) => {
                let (content_type, content) = form.write(&graph);
                text(content_type, content)
            }
            Self::Roomy(answer) => json_body(StatusCode::OK, Body::new(answer.into_body())),
            Self::Chunks(chunks) => json_body(StatusCode::OK, Body::new(chunks)),
            Self::Lines(lines) => streamed("application/jsonl", lines),
            Self::Events(events) => streamed("text/event-stream", events),
            Self::Refused(value) => json(StatusCode::BAD_REQUEST, &value),
            Self::Stored { created, warnings } => {
                let status = if created {
                    StatusCode::CREATED
                } else {
                    StatusCode::NO_CONTENT
                };
                let mut response = empty(status);
                for warning in &warnings {
                    warn(&mut response, warning);
                }
                response
            }
            Self::Unhealthy(value) => json(StatusCode::SERVICE_UNAVAILABLE, &value),
            Self::Done => empty(StatusCode::NO_CONTENT),
            Self::CreatedAt(place) => {
                let response = Response::builder().status(StatusCode::CREATED);
                body(response.header(LOCATION, place), Body::empty())
            }
        }
    }
}

/// Reads JSON beside the tasks that move messages.
async fn read(
    json: impl FnOnce() -> serde_json::Result<Value> + Send + 'static,
) -> Result<Value, Failure> {
    let unreadable = |error| Failure::unavailable(format!("an answer cannot be read: {error}"));
    aside(move || json().map_err(unreadable)).await
}

/// The response to a refused request.
pub(in crate::server) fn failure(failure: &Failure) -> Response<Body> {
    let status = StatusCode::from_u16(failure.status);
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, &failure.body());
    if status == StatusCode::TOO_MANY_REQUESTS {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    }
    response
}

/// The response to a request without authenticated user.
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

/// The response with the methods of a path: to a client that asks for them, or that used another
/// one.
pub(super) fn allowed(status: StatusCode, methods: &[Method]) -> Response<Body> {
    let mut names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    if names.contains(&"GET") {
        names.insert(0, "HEAD");
    }
    names.push("OPTIONS");
    let response = Response::builder().status(status);
    body(response.header(ALLOW, names.join(", ")), Body::empty())
}

/// A response with status 200 whose body is written while it is sent.
fn streamed(content_type: &str, chunks: Chunks) -> Response<Body> {
    let response = Response::builder()
        .header(CACHE_CONTROL, "no-cache")
        .header(CONTENT_TYPE, content_type);
    body(response, Body::new(chunks))
}

/// A response with status 200 and a text.
pub(super) fn text(content_type: &str, text: String) -> Response<Body> {
    let response = Response::builder()
        .header(CACHE_CONTROL, "no-cache")
        .header(CONTENT_TYPE, content_type);
    body(response, Body::from(text))
}

/// Adds a header with a warning: these answers have no body.
fn warn(response: &mut Response<Body>, warning: &Warning) {
    let text = warning.to_string().replace(['"', '\\'], "'");
    if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
        response.headers_mut().append(WARNING, value);
    }
}

/// Adds a header which says that a crash may undo what is shown.
pub(super) fn warn_of_undurable(response: &mut Response<Body>) {
    let text = "199 - \"not all of what is shown is durable: the disk is slow, full or failed\"";
    let headers = response.headers_mut();
    headers.append(WARNING, HeaderValue::from_static(text));
}

/// A response with a JSON value.
pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    json_body(status, Body::from(value.to_string()))
}

fn json_body(status: StatusCode, content: Body) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .header(CACHE_CONTROL, "no-cache")
        .header(CONTENT_TYPE, "application/json");
    body(response, content)
}

/// Builds a response: the builder fails on invalid headers only, and these are constants.
fn body(response: axum::http::response::Builder, body: Body) -> Response<Body> {
    response.body(body).unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

/// A body that is written while it is sent, so that a long listing takes little memory.
#[derive(Debug)]
pub(super) struct Chunks(mpsc::Receiver<Option<Bytes>>);

/// The writing end of such a body.
#[derive(Debug)]
pub(super) struct Items {
    chunks: mpsc::Sender<Option<Bytes>>,
    buffer: Vec<u8>,
    is_first: bool,
}

impl Chunks {
    /// A body that somebody else writes, and its writing end: chunks, or none if it ends early.
    pub(super) fn of_lines() -> (mpsc::Sender<Option<Bytes>>, Self) {
        let (chunks, receiver) = mpsc::channel(CHUNKS_WAITING);
        (chunks, Self(receiver))
    }

    /// An array, and its writing end: a slow client blocks no thread.
    pub(super) fn of_array() -> (Items, Self) {
        let (chunks, receiver) = mpsc::channel(CHUNKS_WAITING);
        let items = Items {
            chunks,
            buffer: vec![b'['],
            is_first: true,
        };
        (items, Self(receiver))
    }
}

impl Items {
    /// Writes some items, with commas between them; false once the client has gone away.
    pub(super) async fn items(&mut self, items: &[u8]) -> bool {
        if items.is_empty() {
            return true;
        }
        if !std::mem::take(&mut self.is_first) {
            self.buffer.push(b',');
        }
        self.buffer.extend_from_slice(items);
        self.buffer.len() < CHUNK_BYTES || self.hand_over().await
    }

    /// Ends the array. If it is not complete, the connection is ended without the end of the array,
    /// so that the client cannot take a part for the whole.
    pub(super) async fn end(mut self, is_whole: bool) {
        if is_whole {
            self.buffer.push(b']');
            self.hand_over().await;
        } else {
            // The client may have gone away.
            let _ = self.chunks.send(None).await;
        }
    }

    async fn hand_over(&mut self) -> bool {
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        self.chunks.send(Some(chunk)).await.is_ok()
    }
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|chunk| match chunk {
            Some(Some(chunk)) => Some(Ok(Frame::data(chunk))),
            Some(None) => Some(Err(std::io::Error::other("the listing failed"))),
            None => None,
        })
    }
}
