//! The headers of every answer of the page.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Response, StatusCode};

use crate::access::Peer;
use crate::page::assets::Asset;

/// Nothing inline, nothing from elsewhere, no frame around it, and HTML made by a script only by the
/// one policy of its own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types coroner";

/// Headers of every answer, by name and value.
const GUARDS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Sets the headers of an answer: what the browser may do with it.
pub(super) fn guard(response: &mut Response<Body>, peer: &Peer) {
    let headers = response.headers_mut();
    for (name, value) in GUARDS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // A browser would ask for the password by itself, and remember it.
    headers.remove(WWW_AUTHENTICATE);
    let is_kept = headers
        .get(CACHE_CONTROL)
        .is_some_and(|value| value == IMMUTABLE);
    if !is_kept {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if peer.tls.is_some() {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, year);
    }
}

/// What is said of a file whose name changes with what it holds.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// The answer with a file of the page.
pub(super) fn asset(asset: &'static Asset) -> Response<Body> {
    let mut response = Response::new(Body::from(asset.bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
    response
}

/// The answer with a page.
pub(super) fn html(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
