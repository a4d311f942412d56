//! `/metrics`, `/metrics/per-object`, and both with RabbitMQ's names: `/metrics/rabbitmq`,
//! `/metrics/detailed`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use axum::routing::get;
use axum::{Extension, Router};

use super::{login, reply};
use crate::access::Peer;
use crate::management::http::{Access, Failure};
use crate::metrics::{self, Detail};
use crate::server::shared::Shared;

/// Writes the metrics at a level of detail.
type Write = fn(&Arc<Shared>, Detail) -> String;

/// The routes. They need no login unless the setting `metrics-login` is on.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    let by = |detail, write: Write| {
        get(
            move |State(shared): State<Arc<Shared>>,
                  Extension(peer): Extension<Peer>,
                  headers: HeaderMap| {
                answer(shared, peer, headers, (detail, write))
            },
        )
    };
    let (ours, theirs): (Write, Write) = (Shared::metrics, Shared::rabbitmq_metrics);
    Router::new()
        .route("/metrics", by(Detail::Vhosts, ours))
        .route("/metrics/per-object", by(Detail::Queues, ours))
        .route("/metrics/rabbitmq", by(Detail::Vhosts, theirs))
        .route("/metrics/detailed", by(Detail::Queues, theirs))
        .with_state(Arc::clone(shared))
}

async fn answer(
    shared: Arc<Shared>,
    peer: Peer,
    headers: HeaderMap,
    (detail, write): (Detail, Write),
) -> Response<Body> {
    if shared.settings.metrics_login {
        match login::identify(&shared, &peer, &headers).await {
            Err(refused) => return reply::refused(&refused),
            Ok(identity) => {
                if let Err(failure) = identity.check(Access::Monitoring) {
                    return reply::failure(&failure);
                }
            }
        }
    }
    let rendering = tokio::task::spawn_blocking(move || write(&shared, detail));
    match rendering.await {
        Ok(text) => reply::text(metrics::CONTENT_TYPE, text),
        Err(_) => reply::failure(&Failure::unavailable("stopping")),
    }
}
