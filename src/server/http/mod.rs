//! HTTP: the listener, its connections, and the routers that answer.
//!
//! ```text
//!  accept --> places --> serve (any stream) --> door --> router --> api: route, login, rights,
//!                                                              |         body, endpoint
//!                                                              |-----> ui: session, pages over the same endpoints
//!                                                              `-----> whatever else is merged there
//! Promises: connections, headers, bodies and waiting are bounded; a listing holds a core's lock
//! for one slice at a time; nothing of a body is read before the sender's permission is checked;
//! long work runs aside. Never: no decision about names, permissions or shapes (those are in
//! `management::http`).

mod addresses;
mod answer;
mod api;
mod aside;
mod attempts;
mod audit;
mod body;
mod checks;
mod connections;
mod definitions;
mod door;
mod events;
mod explain;
mod export;
mod graph;
mod groups;
mod health;
mod import;
mod lint;
mod listings;
mod login;
mod messages;
mod metrics;
mod objects;
mod page;
mod parameters;
mod places;
mod policies;
mod process;
mod redrives;
mod reply;
mod rights;
mod scan;
mod stream;
mod ui;
mod users;
mod visitor;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use axum::middleware::from_fn;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use self::body::Bodies;
pub(in crate::server) use self::door::{Entrance, Local};
use self::places::{HttpAdmission, Places};
pub(in crate::server) use self::reply::failure;
pub(in crate::server) use self::stream::Lifted;
use self::stream::Paced;
use super::shared::Shared;
use super::tls::Tls;
use super::websocket;
use crate::access::Peer;
use crate::base::limits::{HTTP_HEAD_BYTES_MAX, HTTP_HEALTH_CONNECTION_MS};
use crate::config::UiSetting;
use crate::management::http::Failure;

/// Time from connecting, and from each answer, to the end of the next request's headers.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// All routes that are served over HTTP; further routers are merged here.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    let bodies = Arc::new(Bodies::new(shared.node.alarms.connections().clone()));
    Router::new()
        .merge(api::router(shared, &bodies))
        .merge(health::router(shared))
        .merge(metrics::router(shared))
        .merge(websocket::router(shared))
        .merge(if shared.settings.ui == UiSetting::On {
            ui::router(shared, &bodies)
        } else {
            page::router()
        })
}

/// Accepts connections, over TLS if it is given, until the broker ends; the router answers.
pub(super) async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    tls: Option<Arc<Tls>>,
    router: Router,
) {
    let max = usize::try_from(shared.settings.http_connections_max).unwrap_or(usize::MAX);
    let places = Places::new(max);
    let mut failing = false;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                failing = false;
                let place = places.take(shared.clock.now().mono, address.ip());
                let local = stream.local_addr();
                let local = local.ok();
                let is_loopback =
                    local.is_some_and(|local| local.ip().to_canonical().is_loopback());
                let entrance = Entrance {
                    is_loopback,
                    local: Local(local),
                    health_only: matches!(place, HttpAdmission::Health(..)),
                };
                let serving = secure_and_serve(
                    router.clone(),
                    (stream, address),
                    (entrance, Arc::clone(&shared)),
                    tls.clone(),
                );
                shared.spawn(keep_place(place, serving));
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

/// Serves a connection as long as it has its place.
async fn keep_place(place: HttpAdmission, serving: impl Future<Output = ()>) {
    match place {
        HttpAdmission::Ordinary(held) => {
            serving.await;
            drop(held);
        }
        HttpAdmission::Health(held, told) => {
            let limit = Duration::from_millis(HTTP_HEALTH_CONNECTION_MS);
            tokio::select! {
                () = serving => {}
                _ = told => {}
                () = tokio::time::sleep(limit) => {}
            }
            drop(held);
        }
    }
}

async fn secure_and_serve(
    router: Router,
    (stream, address): (TcpStream, SocketAddr),
    (entrance, shared): (Entrance, Arc<Shared>),
    tls: Option<Arc<Tls>>,
) {
    match tls {
        None => serve(router, stream, Peer::at(address), (entrance, &shared)).await,
        Some(tls) => {
            if let Some((peer, stream)) = tls.accept(stream, address).await {
                serve(router, stream, peer, (entrance, &shared)).await;
            }
        }
    }
}

/// Refuses a request that a page of another site made, even one that asks only.
pub(super) fn check_source(head: &Parts) -> Result<(), Failure> {
    let own_name_only = false; // that was checked
    door::source(head).check(None, own_name_only, &[])
}

/// Serves one connection, over any stream.
pub(super) async fn serve<S>(
    router: Router,
    stream: S,
    peer: Peer,
    (entrance, shared): (Entrance, &Shared),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let hosts: Arc<[String]> = shared.settings.http_host.as_slice().into();
    let keeps = !entrance.health_only;
    let environment = Arc::clone(&shared.node.environment);
    let lifted = Lifted::default();
    let router = router
        .layer(Extension(peer.clone()))
        .layer(Extension(entrance.local))
        .layer(Extension(lifted.clone()))
        .layer(from_fn(move |request, next| {
            let entered = (entrance.clone(), Arc::clone(&hosts));
            let teller = (Arc::clone(&environment), peer.clone());
            door::check(entered, teller, request, next)
        }));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_buf_size(HTTP_HEAD_BYTES_MAX)
        .keep_alive(keeps)
        .serve_connection(
            TokioIo::new(Paced::new(stream, lifted)),
            TowerToHyperService::new(router),
        )
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
