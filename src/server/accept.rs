//! Accepting connections, each into a task of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tracing::Instrument;

use super::connection::Driver;
use super::handle::ConnectionHandle;
#[cfg(feature = "http")]
use super::http;
use super::shared::Shared;
use super::sockets::Listeners;
use super::tls::Tls;
#[cfg(feature = "http")]
use super::websocket;
use crate::access::Peer;
use crate::base::{ConnectionId, uncount_atomic};

/// Pause after a failed accept: it fails for lack of file handles or memory, which other
/// connections free when they end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Starts the tasks that accept connections.
pub(super) fn listen(listeners: Listeners, shared: &Arc<Shared>) {
    for listener in listeners.amqp {
        shared.spawn(accept(listener, Arc::clone(shared), None));
    }
    #[cfg(feature = "http")]
    if let Some(listener) = listeners.http {
        let router = http::router(shared);
        shared.spawn(http::accept(listener, Arc::clone(shared), None, router));
    }
    #[cfg(feature = "http")]
    for listener in listeners.websocket {
        let router = websocket::only(shared);
        shared.spawn(http::accept(listener, Arc::clone(shared), None, router));
    }
    let Some(tls) = listeners.tls else { return };
    for listener in listeners.amqps {
        shared.spawn(accept(listener, Arc::clone(shared), Some(Arc::clone(&tls))));
    }
    #[cfg(feature = "http")]
    for listener in listeners.https {
        shared.spawn(http::accept(
            listener,
            Arc::clone(shared),
            Some(Arc::clone(&tls)),
            http::router(shared),
        ));
    }
    shared.spawn(tls.watch());
}

/// Accepts connections, over TLS if it is given, until the broker ends.
async fn accept(listener: TcpListener, shared: Arc<Shared>, tls: Option<Arc<Tls>>) {
    let mut failing = false;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                failing = false;
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%address, %error, "no TCP_NODELAY");
                }
                let local = stream.local_addr().ok();
                match tls.clone() {
                    None => {
                        let opened = Some((Peer::at(address), stream.into_split()));
                        serve(&shared, local, std::future::ready(opened));
                    }
                    Some(tls) => serve(&shared, local, async move {
                        let (peer, stream) = tls.accept(stream, address).await?;
                        Some((peer, tokio::io::split(stream)))
                    }),
                }
            }
            Err(error) => {
                // Logged once until accept works again: a full table of files lasts.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "cannot accept connections for now");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one peer in a task of its own, once `opening` has made its stream; drops it when there
/// are too many connections. `local` is the address it connected to.
pub(super) fn serve<R, W>(
    shared: &Arc<Shared>,
    local: Option<SocketAddr>,
    opening: impl Future<Output = Option<(Peer, (R, W))>> + Send + 'static,
) where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let open = shared.connections.fetch_add(1, Ordering::AcqRel);
    if open >= shared.live.read().connections_max || shared.is_stopping() {
        uncount_atomic!(
            shared.connections,
            1,
            Ordering::AcqRel,
            "it was counted just now"
        );
        shared.connections_refused.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(open, "connection dropped: there are too many");
        return;
    }
    shared.connections_total.fetch_add(1, Ordering::Relaxed);
    let id = ConnectionId(shared.node.environment.next_id());
    let served = Arc::clone(shared);
    let serving = async move {
        let open = Open {
            shared: Arc::clone(&served),
            id,
        };
        if let Some((peer, stream)) = opening.await {
            let connected_at = served.clock.now().wall;
            let handle = Arc::new(ConnectionHandle::new(id, (peer, local), connected_at));
            served.handles.lock().insert(id, Arc::clone(&handle));
            Driver::new(served, handle, stream).run().await;
        }
        drop(open);
    };
    shared.spawn(serving.instrument(tracing::info_span!("connection", id = id.0)));
}

/// Counts an open connection; dropping it, also by a panic of its task, subtracts it.
struct Open {
    shared: Arc<Shared>,
    id: ConnectionId,
}

impl Drop for Open {
    fn drop(&mut self) {
        uncount_atomic!(
            self.shared.connections,
            1,
            Ordering::AcqRel,
            "a connection that ends was counted"
        );
        self.shared.handles.lock().remove(&self.id);
        self.shared.node.partials.forget(self.id);
    }
}
