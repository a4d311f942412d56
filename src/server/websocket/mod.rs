//! AMQP over WebSocket [RFC 6455; OASIS AMQP WebSocket Binding 1.0]: the opening handshake, after which a
//! connection is served as any other.
//!
//! ```text
//!   GET /amqp, Upgrade: websocket, Sec-WebSocket-Protocol: amqp --> 101 --> stream --> Driver
//! ```
//!
//! Promises: a page of another site opens none unless the setting `websocket-origin` lets it; no message
//! is collected, so memory does not depend on the length of a peer's messages.

mod codec;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CONNECTION, HeaderName, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use axum::routing::any;
use axum::{Extension, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};

use self::stream::WebSocket;
use super::http::{Lifted, Local};
use super::shared::Shared;
use crate::access::Peer;
use crate::management::http::Failure;

/// The path on the ports of the HTTP API. A listener of its own takes every path.
const PATH: &str = "/amqp";
/// The subprotocol [OASIS AMQP WebSocket Binding 2.1].
const SUBPROTOCOL: &str = "amqp";
/// What is hashed behind the client's key [RFC 6455 1.3].
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of the client's key once decoded.
const KEY_BYTES: usize = 16;
/// The version of the protocol.
const VERSION: &str = "13";

/// Serves it beside the HTTP API.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route(PATH, any(open))
        .with_state(Arc::clone(shared))
}

/// Serves nothing else, at every path.
pub(super) fn only(shared: &Arc<Shared>) -> Router {
    Router::new()
        .fallback(any(open))
        .with_state(Arc::clone(shared))
}

/// Answers the handshake, and serves AMQP once the connection is upgraded.
async fn open(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    Extension(Local(local)): Extension<Local>,
    Extension(lifted): Extension<Lifted>,
    request: Request,
) -> Response<Body> {
    let (mut head, _) = request.into_parts();
    if let Err(failure) = check_origin(&head, &shared) {
        return super::http::failure(&failure);
    }
    let accepted = match accept_key(&head) {
        Ok(accepted) => accepted,
        Err((status, why)) => return refused(status, &why),
    };
    let Some(upgrade) = head.extensions.remove::<OnUpgrade>() else {
        return refused(StatusCode::BAD_REQUEST, "the connection cannot be upgraded");
    };
    shared.spawn(serve(Arc::clone(&shared), (peer, local), lifted, upgrade));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    let subprotocol = HeaderValue::from_static(SUBPROTOCOL);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, subprotocol);
    response
}

async fn serve(
    shared: Arc<Shared>,
    (peer, local): (Peer, Option<SocketAddr>),
    lifted: Lifted,
    upgrade: OnUpgrade,
) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            tracing::debug!(%error, "a WebSocket was not opened");
            return;
        }
    };
    lifted.lift();
    let stream = tokio::io::split(WebSocket::new(TokioIo::new(upgraded)));
    super::accept::serve(&shared, local, std::future::ready(Some((peer, stream))));
}

/// Refuses a page of another site, unless the settings let it: whoever uses the browser may be let in
/// here without a secret that the page would have to know.
fn check_origin(head: &Parts, shared: &Shared) -> Result<(), Failure> {
    let origin = head.headers.get(ORIGIN);
    let origin = origin.and_then(|origin| origin.to_str().ok());
    let allowed = &shared.settings.websocket_origin;
    let is_allowed = |origin: &str| {
        let mut allowed = allowed.iter();
        allowed.any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin))
    };
    if origin.is_some_and(is_allowed) {
        return Ok(());
    }
    super::http::check_source(head).map_err(|mut failure| {
        failure.reason += "; the setting websocket-origin names those that may";
        failure
    })
}

/// The answer to the client's key, or why its request opens no WebSocket.
fn accept_key(head: &Parts) -> Result<HeaderValue, (StatusCode, String)> {
    let headers = &head.headers;
    let bad = |why: &str| Err((StatusCode::BAD_REQUEST, why.to_owned()));
    if head.method != Method::GET || head.version < Version::HTTP_11 {
        return bad("a WebSocket is opened by GET with HTTP/1.1");
    }
    if !has_word(headers, &UPGRADE, "websocket") || !has_word(headers, &CONNECTION, "upgrade") {
        let why = "here is AMQP over WebSocket: the request needs Upgrade: websocket and Connection: \
                   Upgrade";
        return Err((StatusCode::UPGRADE_REQUIRED, why.to_owned()));
    }
    if !has_word(headers, &SEC_WEBSOCKET_VERSION, VERSION) {
        let why = "the field Sec-WebSocket-Version must be 13";
        return Err((StatusCode::UPGRADE_REQUIRED, why.to_owned()));
    }
    if !has_word(headers, &SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        return bad("the field Sec-WebSocket-Protocol must offer the subprotocol 'amqp'");
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let is_key = |key: &&[u8]| STANDARD.decode(key).is_ok_and(|key| key.len() == KEY_BYTES);
    let Some(key) = key.filter(is_key) else {
        return bad("the field Sec-WebSocket-Key must be 16 bytes in base64");
    };
    let hash = Sha1::new().chain_update(key).chain_update(ACCEPT_SUFFIX);
    let accepted = HeaderValue::try_from(STANDARD.encode(hash.finalize()));
    accepted.or_else(|_| bad("the field Sec-WebSocket-Key is no text"))
}

/// Whether a list in a field has a word, in capital letters or not.
fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    words.any(|found| found.trim().eq_ignore_ascii_case(word))
}

fn refused(status: StatusCode, why: &str) -> Response<Body> {
    let mut failure = Failure::bad_request(why);
    failure.status = status.as_u16();
    let mut response = super::http::failure(&failure);
    if status == StatusCode::UPGRADE_REQUIRED {
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Parts {
        let mut request = axum::http::Request::builder().uri("/amqp");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    const GOOD: [(&str, &str); 5] = [
        ("Upgrade", "WebSocket"),
        ("Connection", "keep-alive, Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Protocol", "binary, amqp"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    /// The example of RFC 6455 1.3.
    #[test]
    fn the_key_is_answered_as_the_specification_says() {
        let accepted = accept_key(&head(&GOOD)).unwrap();
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_request_that_lacks_something_is_told_what() {
        let cases = [
            (
                "Upgrade",
                "h2c",
                StatusCode::UPGRADE_REQUIRED,
                "Upgrade: websocket",
            ),
            (
                "Connection",
                "close",
                StatusCode::UPGRADE_REQUIRED,
                "Connection",
            ),
            (
                "Sec-WebSocket-Version",
                "8",
                StatusCode::UPGRADE_REQUIRED,
                "must be 13",
            ),
            (
                "Sec-WebSocket-Protocol",
                "mqtt",
                StatusCode::BAD_REQUEST,
                "'amqp'",
            ),
            (
                "Sec-WebSocket-Key",
                "c2hvcnQ=",
                StatusCode::BAD_REQUEST,
                "16 bytes",
            ),
        ];
        for (name, value, status, said) in cases {
            let fields = GOOD.map(|(good, with)| (good, if good == name { value } else { with }));
            let (found, why) = accept_key(&head(&fields)).unwrap_err();
            assert_eq!(found, status, "{name}");
            assert!(why.contains(said), "{name}: {why}");
        }
    }
}
