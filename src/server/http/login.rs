//! Basic authentication over the broker's users.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::access::{LoginWay, Peer};
use crate::management::http::{Failure, Identity, basic_credentials};
use crate::server::shared::Shared;

/// Why a request has no authenticated user.
#[derive(Debug)]
pub(super) enum Refused {
    /// It has no credentials.
    Nobody,
    /// Its credentials are wrong.
    Wrong(Failure),
}

/// Authenticates a request.
pub(super) async fn identify(
    shared: &Shared,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<Identity, Refused> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        return Err(Refused::Nobody);
    };
    let credentials = header.to_str().ok().and_then(basic_credentials);
    let Some(credentials) = credentials else {
        return Err(Refused::Wrong(Failure::unauthenticated()));
    };
    // A refusal is delayed and logged there.
    let name = shared
        .logins
        .login(credentials, peer.clone(), LoginWay::Basic)
        .await;
    let registry = shared.node.environment.registry();
    let user = name.ok().and_then(|name| registry.user(&name));
    user.map(Identity::new)
        .ok_or_else(|| Refused::Wrong(Failure::unauthenticated()))
}
