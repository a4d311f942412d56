//! Checks of every request before anything else: the size of its head, and whether another site
//! made a browser send it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, HOST, ORIGIN};
use axum::http::{HeaderValue, Response, Version, request};
use axum::middleware::Next;

use super::reply;
use crate::access::Peer;
use crate::base::Name;
use crate::base::limits::HTTP_HEAD_BYTES_MAX;
use crate::gateway::{Asked, Environment};
use crate::management::http::{Failure, Method, Source};

/// How a connection was accepted.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Entrance {
    /// Whether it came to a loopback address.
    pub(super) is_loopback: bool,
    /// Whether it is beyond the bound on connections: then only `/health` is served.
    pub(super) health_only: bool,
    pub(super) local: Local,
}

/// The address that a client connected to, where it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::server) struct Local(pub(in crate::server) Option<SocketAddr>);

/// The header in which a browser says which page made the request.
const FETCH_SITE: &str = "sec-fetch-site";
/// Bytes of a header line besides name and value.
const FIELD_OVERHEAD: usize = 4;
/// The status code for requests of another site.
const FORBIDDEN: u16 = 403;

/// Refuses requests that must not be served, and serves all others. Requests of another site are in
/// the audit log.
pub(super) async fn check(
    (entrance, hosts): (Entrance, Arc<[String]>),
    (environment, peer): (Arc<Environment>, Peer),
    request: Request,
    next: Next,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Err(failure) = check_head(&head, &entrance, &hosts) {
        if failure.status == FORBIDDEN {
            let asked = Asked {
                user: &Name::default(),
                peer: &peer,
                protocol: "http",
                vhost: "",
                action: head.method.as_str(),
                object: head.uri.path(),
            };
            environment.audit.refused(&asked, &failure.reason);
        }
        let mut refused = reply::failure(&failure);
        close(&mut refused);
        return refused;
    }
    next.run(Request::from_parts(head, body)).await
}

/// Marks the connection to end with this answer.
pub(super) fn close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}

fn check_head(head: &request::Parts, entrance: &Entrance, hosts: &[String]) -> Result<(), Failure> {
    let fields = head.headers.iter();
    let bytes = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD);
    let target = head.uri.path_and_query();
    let target = target.map_or(0, |target| target.as_str().len());
    if bytes.sum::<usize>() + target > HTTP_HEAD_BYTES_MAX {
        return Err(Failure::head_too_large(HTTP_HEAD_BYTES_MAX));
    }
    let mut named = head.headers.get_all(HOST).iter();
    match (named.next(), named.next()) {
        (Some(_), None) => {}
        (None, _) if head.version < Version::HTTP_11 => {}
        (None, _) => {
            let why = "the field Host is missing, which HTTP/1.1 needs";
            return Err(Failure::bad_request(why));
        }
        (Some(_), Some(_)) => {
            return Err(Failure::bad_request("the field Host is there twice"));
        }
    }
    if entrance.health_only && head.uri.path() != "/health" {
        return Err(Failure::unavailable(
            "there are too many HTTP connections, this one is served /health only: see \
             http-connections-max",
        ));
    }
    let method = Method::from_name(head.method.as_str());
    let is_safe = head.method == axum::http::Method::OPTIONS;
    let method = if is_safe { Some(Method::Get) } else { method };
    source(head).check(method, entrance.is_loopback, hosts)
}

/// The source of a request. A header that is not text counts as one of another site.
pub(super) fn source(head: &request::Parts) -> Source<'_> {
    let text = |name: &str| {
        let value = head.headers.get(name);
        value.map(|value| value.to_str().unwrap_or("?"))
    };
    let of_target = head.uri.authority().map(axum::http::uri::Authority::as_str);
    Source {
        host: of_target.or_else(|| text(HOST.as_str())),
        origin: text(ORIGIN.as_str()),
        fetch_site: text(FETCH_SITE),
    }
}
