//! The page that a browser shows, below `/ui/`: sessions, pages, and what their forms do.
//!
//! ```text
//!  request --> visit: who asks (session or Basic), theme, query
//!                 |--> session: log in, log out
//!                 |--> pages: GET  --> api::ask, as that user --> page (templates) --> HTML
//!                 `--> actions: POST with the session's token --> api::ask --> see other
//!  every answer --> headers: nothing inline, nothing from elsewhere
//! ```
//!
//! Promises: it does what the routes of the API do, with the rights of whoever asks and the audit log,
//! by asking them. Never: no operation of its own. How a page is added is told in `page/mod.rs`.

mod actions;
mod events;
mod headers;
mod listings;
mod messages;
mod operator;
mod pages;
mod redrives;
mod session;
mod topology;
mod visit;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::routing::any;
use axum::{Extension, Router};

use self::visit::{Visit, Visitor};
use super::api::Api;
use super::body::Bodies;
use super::reply;
use crate::access::Peer;
use crate::base::limits::HTTP_BODY_BYTES_MAX;
use crate::management::http::{Failure, Query};
use crate::page::assets::Asset;
use crate::server::shared::Shared;

/// The first page.
const HOME: &str = "/ui/";
/// The header of a request for what changed in a page.
const FRAGMENT: &str = "x-coroner-fragment";

/// The routes of the page; `/` leads there.
pub(super) fn router(shared: &Arc<Shared>, bodies: &Arc<Bodies>) -> Router {
    let api = Api {
        shared: Arc::clone(shared),
        bodies: Arc::clone(bodies),
    };
    Router::new()
        .route("/", any(home))
        .route("/ui", any(home))
        .route(HOME, any(handle))
        .route("/ui/{*path}", any(handle))
        .with_state(api)
}

async fn home(Extension(peer): Extension<Peer>) -> Response<Body> {
    let mut response = see_other(HOME);
    headers::guard(&mut response, &peer);
    response
}

async fn handle(
    State(api): State<Api>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let mut response = api.serve_page(&peer, &head, body).await;
    headers::guard(&mut response, &peer);
    response
}

impl Api {
    async fn serve_page(&self, peer: &Peer, head: &Parts, body: Body) -> Response<Body> {
        let path = head.uri.path();
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        if path.starts_with("/ui/assets/") {
            return match Asset::find(path) {
                Some(asset) if is_read => headers::asset(asset),
                _ => reply::failure(&Failure::not_found()),
            };
        }
        let fields = match self.fields(head, body, is_read).await {
            Ok(fields) => fields,
            Err(failure) => return reply::failure(&failure),
        };
        if path == session::PATH {
            return session::serve(&self.shared, peer, head, &fields).await;
        }
        let visitor = match Visitor::of(&self.shared, peer, head).await {
            Ok(visitor) => visitor,
            Err(_) if is_read && !is_fragment(&head.headers) => return session::ask(head),
            Err(failure) => return reply::failure(&failure),
        };
        let query = match Query::parse(head.uri.query().unwrap_or_default()) {
            Ok(query) => query,
            Err(failure) => return reply::failure(&failure),
        };
        let visit = Visit::new(&self.shared, (peer, visitor), head, query);
        if is_read && path == "/ui/events/stream" {
            let stream = events::stream(&visit, &head.headers);
            return stream.unwrap_or_else(|failure| reply::failure(&failure));
        }
        if is_read {
            return pages::serve(&visit).await;
        }
        if head.method != Method::POST {
            return reply::failure(&method_not_allowed());
        }
        if let Err(failure) = visit.check_token(head, &fields) {
            return pages::failed(&visit, &failure);
        }
        match path {
            "/ui/session/end" => session::end(&visit, head),
            "/ui/theme" => session::theme(&fields),
            _ => actions::serve(&visit, &fields).await,
        }
    }

    /// The fields of the body: of a form, or of a JSON object with texts.
    async fn fields(&self, head: &Parts, body: Body, is_read: bool) -> Result<Query, Failure> {
        if is_read {
            return Ok(Query::default());
        }
        let held = self
            .bodies
            .read(&head.headers, body, HTTP_BODY_BYTES_MAX)
            .await?;
        let text = std::str::from_utf8(&held.bytes);
        let text = text.map_err(|_| Failure::bad_request("the body is no UTF-8"))?;
        if session::is_json(&head.headers) {
            return session::fields_of_json(text);
        }
        Query::of_form(text)
    }
}

/// Whether the script asks for what changed.
fn is_fragment(headers: &HeaderMap) -> bool {
    headers.contains_key(FRAGMENT)
}

/// Whether the answer is for a browser that shows pages.
fn wants_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// The answer that leads to another page.
fn see_other(place: &str) -> Response<Body> {
    let place = HeaderValue::from_str(place);
    let place = place.unwrap_or_else(|_| HeaderValue::from_static(HOME));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, place);
    response
}

fn method_not_allowed() -> Failure {
    Failure {
        status: 405,
        error: "method_not_allowed",
        reason: "pages are read with GET, and their forms sent with POST".to_owned(),
    }
}

/// A path of the page, if it is one: nobody is led elsewhere.
fn own_path(path: &str) -> &str {
    if path.starts_with(HOME) { path } else { HOME }
}
