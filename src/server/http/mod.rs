//! HTTP: the listener, its connections, and the routers that answer.
//!
//! ```text
//!  accept --> serve (bounded, any stream) --> router --> api: route, login, rights, endpoint
//!                                                `-----> whatever else is merged there
//! ```
//! Promises: connections, headers, bodies and waiting are bounded; a listing holds a core's lock
//! for one slice at a time. Never: no decision about names, rights or shapes (those are in
//! `management::http`).

mod api;
mod attempts;
mod body;
mod checks;
mod connections;
mod definitions;
mod health;
mod listings;
mod login;
mod messages;
mod metrics;
mod objects;
mod parameters;
mod people;
mod policies;
mod reply;
mod visitor;
mod work;

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::errors::StartError;
use super::listener;
use super::shared::Shared;
use super::tls::Tls;
use crate::access::Peer;
use crate::config::HttpListen;

/// Time from connecting, and from each answer, to the end of the next request's headers.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the headers of a request.
const HEADERS_BYTES_MAX: usize = 64 * 1024;
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds the address of the settings, if there is one; with `auto`, if it is free.
pub(super) async fn bind(setting: &HttpListen) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = setting.address() else {
        return Ok(None);
    };
    match listener::bind(&address).await {
        Err(error) if *setting == HttpListen::Auto => {
            tracing::warn!(%error, "no HTTP API; --http ADDR:PORT serves it elsewhere");
            Ok(None)
        }
        bound => bound.map(Some),
    }
}

/// Everything that is served over HTTP. What else is to be served is merged here.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .merge(api::router(shared))
        .merge(health::router(shared))
        .merge(metrics::router(shared))
}

/// Takes connections, over TLS if it is given, until the broker ends.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, tls: Option<Arc<Tls>>) {
    let router = router(&shared);
    let max = usize::try_from(shared.settings.http_connections_max).unwrap_or(usize::MAX);
    let permits = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
    let mut failing = false;
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, address)) => {
                failing = false;
                let (router, tls) = (router.clone(), tls.clone());
                shared.spawn(async move {
                    match tls {
                        None => serve(router, stream, Peer::at(address)).await,
                        Some(tls) => {
                            if let Some((peer, stream)) = tls.accept(stream, address).await {
                                serve(router, stream, peer).await;
                            }
                        }
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "cannot accept HTTP connections for now");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection, over whatever stream it comes.
pub(super) async fn serve<S>(router: Router, stream: S, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_buf_size(HEADERS_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
