//! Listening sockets.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::broker::Shared;
use super::errors::StartError;
use crate::access::Peer;
use crate::config::ListenAddress;

/// Pause after a failed accept: it fails for want of file handles or memory, which come back when
/// other connections end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds an address of the settings.
#[allow(clippy::disallowed_methods, reason = "this is the listener")]
pub(super) async fn bind(address: &ListenAddress) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind((address.host(), address.port())).await;
    bound.map_err(|why| StartError::listen(address, &why))
}

/// Takes connections until the broker ends.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%address, %error, "no TCP_NODELAY");
                }
                shared.serve(Peer::at(address), stream.into_split());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
