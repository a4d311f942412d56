//! `/health`, for probes of containers and load balancers: without a login, without details.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::routing::get;

use super::reply;
use crate::server::shared::Shared;

/// `/health`: 200 while the broker works, 503 while it does not; the log says why.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/health", get(answer))
        .with_state(Arc::clone(shared))
}

async fn answer(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let asked = tokio::task::spawn_blocking(move || shared.ailment()).await;
    let (status, word) = match asked {
        Ok(None) => (StatusCode::OK, "ok"),
        Ok(Some(why)) => {
            tracing::error!(why, "not healthy");
            (StatusCode::SERVICE_UNAVAILABLE, "failed")
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    reply::json(status, &serde_json::json!({ "status": word }))
}
