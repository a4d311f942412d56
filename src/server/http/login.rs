//! Basic authentication over the broker's users.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::access::{LoginWay, Peer};
use crate::management::http::{Failure, Identity, basic_credentials};
use crate::server::shared::Shared;

/// Why a request is not let in.
#[derive(Debug)]
pub(super) enum Refused {
    /// It does not say who asks.
    Nobody,
    /// It does, but wrongly.
    Wrong(Failure),
}

/// Who asks.
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
    // A refusal comes late and is logged there.
    let name = shared
        .logins
        .login(credentials, peer.clone(), LoginWay::Basic)
        .await;
    let registry = shared.node.environment.registry();
    let user = name.ok().and_then(|name| registry.user(&name));
    user.map(Identity::new)
        .ok_or_else(|| Refused::Wrong(Failure::unauthenticated()))
}
