//! Listening sockets and their addresses.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket, lookup_host};

use super::errors::StartError;
use super::tls::Tls;
use crate::config::{HttpListen, ListenAddress, Settings};

/// Connections that may wait to be accepted; the system may allow fewer. Clients beyond it try
/// again after one second, two, four, so after a restart all of them must find room.
const BACKLOG: u32 = 4_096;

/// Binds an address of the settings: the first that its name resolves to and that can be bound.
async fn bind(address: &ListenAddress) -> Result<TcpListener, StartError> {
    let bound = async {
        let mut result = Err(ErrorKind::AddrNotAvailable.into());
        for address in lookup_host((address.host(), address.port())).await? {
            result = listen(address);
            if result.is_ok() {
                break;
            }
        }
        result
    };
    bound
        .await
        .map_err(|why: io::Error| StartError::listen(address, why))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A port whose last connections are still ending can be bound.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The addresses that a broker listens on, with real ports, in the order of the settings.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    pub(super) amqp: Vec<SocketAddr>,
    /// AMQP over TLS.
    pub(super) amqps: Vec<SocketAddr>,
    pub(super) http: Option<SocketAddr>,
    /// HTTP over TLS.
    pub(super) https: Vec<SocketAddr>,
    /// AMQP over WebSocket, and nothing else.
    pub(super) websocket: Vec<SocketAddr>,
}

/// The listening sockets of a broker, bound and not served yet.
pub(super) struct Listeners {
    pub(super) amqp: Vec<TcpListener>,
    pub(super) amqps: Vec<TcpListener>,
    pub(super) http: Option<TcpListener>,
    pub(super) https: Vec<TcpListener>,
    pub(super) websocket: Vec<TcpListener>,
    pub(super) tls: Option<Arc<Tls>>,
}

impl Listeners {
    /// Binds the addresses of the settings.
    pub(super) async fn bind(settings: &Settings) -> Result<Self, StartError> {
        Ok(Self {
            tls: Tls::new(settings)?,
            amqp: bind_all(&settings.amqp).await?,
            amqps: bind_all(&settings.amqps_addresses()).await?,
            http: bind_http(&settings.http).await?,
            https: bind_all(&settings.https).await?,
            websocket: bind_all(&settings.websocket).await?,
        })
    }

    pub(super) fn addresses(&self) -> Addresses {
        let addresses = |listeners: &[TcpListener]| {
            let addresses = listeners.iter();
            addresses
                .filter_map(|listener| listener.local_addr().ok())
                .collect()
        };
        Addresses {
            amqp: addresses(&self.amqp),
            amqps: addresses(&self.amqps),
            http: self
                .http
                .as_ref()
                .and_then(|listener| listener.local_addr().ok()),
            https: addresses(&self.https),
            websocket: addresses(&self.websocket),
        }
    }

    /// The TLS side of the listeners, if there is one.
    pub(super) fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }
}

async fn bind_all(addresses: &[ListenAddress]) -> Result<Vec<TcpListener>, StartError> {
    let mut listeners = Vec::new();
    for address in addresses {
        listeners.push(bind(address).await?);
    }
    Ok(listeners)
}

/// Binds the address of the settings, if there is one; with `auto`, if it is free.
async fn bind_http(setting: &HttpListen) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = setting.address().filter(|_| cfg!(feature = "http")) else {
        return Ok(None);
    };
    match bind(&address).await {
        Err(error) if *setting == HttpListen::Auto => {
            tracing::warn!(%error, "no HTTP API; --http ADDR:PORT serves it elsewhere");
            Ok(None)
        }
        bound => bound.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    /// More than the standard library lets wait, so that none has to try again.
    const CLIENTS: usize = 300;
    /// Less than the second after which a client tries again.
    const AT_ONCE: Duration = Duration::from_millis(900);

    #[tokio::test]
    #[allow(clippy::disallowed_methods, reason = "the test connects")]
    async fn clients_that_come_together_wait_in_line_and_not_for_another_try() {
        let listener = bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| TcpStream::connect_timeout(&address, AT_ONCE).unwrap();
        let clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
        assert_eq!(clients.len(), CLIENTS);
    }
}
