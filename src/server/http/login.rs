//! Basic authentication over the broker's users.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::access::{self, Peer};
use crate::management::http::{Failure, Identity, basic_credentials};
use crate::server::broker::Shared;

/// A refused login is told so after this time: guessing passwords takes long.
const REFUSAL_DELAY: Duration = Duration::from_millis(500);

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
    let checked = {
        let registry = shared.environment.registry();
        let user = registry.user(&credentials.user);
        access::plain(user, &credentials, peer).map(|()| user.map(Identity::new))
    };
    match checked {
        Ok(Some(identity)) => Ok(identity),
        Ok(None) => Err(Refused::Wrong(Failure::unauthenticated())),
        Err(error) => {
            tracing::warn!(%error, user = credentials.user, "HTTP login refused");
            tokio::time::sleep(REFUSAL_DELAY).await;
            Err(Refused::Wrong(Failure::unauthenticated()))
        }
    }
}
