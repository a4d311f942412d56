//! Authentication of requests: by the passwords of the broker's users, and by tokens.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::access::{LoginWay, Peer, Proof, Proven};
use crate::management::http::{Failure, Identity, authorization};
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
    let proof = header.to_str().ok().and_then(authorization);
    let Some(proof) = proof else {
        return Err(Refused::Wrong(Failure::unauthenticated()));
    };
    let way = match proof {
        Proof::Password(_) => LoginWay::Basic,
        Proof::Token(_) => LoginWay::Bearer,
    };
    // A refusal is delayed and logged there.
    let proven = shared.logins.login(proof, peer.clone(), way).await;
    let identity = proven.ok().and_then(|proven| identity(shared, &proven));
    identity.ok_or_else(|| Refused::Wrong(Failure::unauthenticated()))
}

/// Who that is; none: its user is gone.
pub(super) fn identity(shared: &Shared, proven: &Proven) -> Option<Identity> {
    match proven {
        Proven::User(name) => {
            let registry = shared.node.environment.registry();
            registry.user(name).map(Identity::new)
        }
        Proven::Bearer(grant) => Some(Identity::bearer(grant)),
    }
}
