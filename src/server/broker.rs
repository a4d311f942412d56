//! A running broker, embedded in a program or alone in a process.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::DuplexStream;

use super::admin::Admin;
#[cfg(feature = "http")]
use super::definitions::{self, DefinitionsFile};
use super::errors::{Cause, StartError, TlsError};
use super::shared::Shared;
use super::stats::Stats;
use super::{accept, descriptors, features, setup, start};
use crate::access::Peer;
use crate::config::Settings;
use crate::metrics::Detail;

/// Bytes in each direction of an in-process stream before its writer has to wait.
const STREAM_BYTES: usize = 256 * 1024;

/// A running broker. It stops when it is dropped, or in order with [`Broker::stop`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let broker = coroner::Broker::builder().listen("127.0.0.1:0".parse()?).start().await?;
/// println!("AMQP 1.0 clients connect to {}", broker.addresses()[0]);
/// let stream = broker.connect(); // or without a socket: bytes in, bytes out
/// drop(stream);
/// broker.stop().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "a broker stops when it is dropped"]
pub struct Broker {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker")
            .field("addresses", &self.shared.addresses)
            .finish_non_exhaustive()
    }
}

impl Broker {
    pub(super) async fn start(settings: Settings) -> Result<Self, StartError> {
        if let Some((name, why)) = settings.problem() {
            let why = Cause::new(why);
            return Err(StartError::Setting { name, why });
        }
        features::check(&settings)?;
        let settings = descriptors::fit(settings);
        #[cfg(feature = "http")]
        let file = {
            let file = settings.definitions.as_deref();
            file.map(DefinitionsFile::read).transpose()?
        };
        #[cfg(feature = "http")]
        let brings_users = file.as_ref().is_some_and(DefinitionsFile::has_users);
        #[cfg(not(feature = "http"))]
        let brings_users = false;
        let (shared, listeners) = start::start(settings, brings_users).await?;
        let admin = Admin::new(Arc::clone(&shared));
        #[cfg(feature = "http")]
        definitions::import_at_start(&admin, file).await?;
        setup::say_users(&shared.settings, &admin.registry());
        accept::listen(listeners, &shared);
        Ok(Self { shared })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// A handle by which it is administered while it runs.
    pub fn admin(&self) -> Admin {
        Admin::new(Arc::clone(&self.shared))
    }

    /// The addresses it listens on, in the order in which they were given, with their real ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.addresses.amqp
    }

    /// The address of the HTTP API, with its real port; none: it is disabled.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.shared.addresses.http
    }

    /// The addresses it listens on for AMQP over TLS, with their real ports.
    pub fn amqps_addresses(&self) -> &[SocketAddr] {
        &self.shared.addresses.amqps
    }

    /// The addresses of the HTTP API over TLS, with their real ports.
    pub fn https_addresses(&self) -> &[SocketAddr] {
        &self.shared.addresses.https
    }

    /// The addresses it listens on for AMQP over WebSocket only, with their real ports; the HTTP API has
    /// it at `/amqp`, too.
    pub fn websocket_addresses(&self) -> &[SocketAddr] {
        &self.shared.addresses.websocket
    }

    /// Reloads the files for TLS; new connections use them. They are also reloaded when they
    /// change, within some seconds.
    ///
    /// When a file is invalid; those that were loaded before stay in use.
    pub fn reload_tls(&self) -> Result<(), TlsError> {
        self.shared.tls.as_ref().map_or(Ok(()), |tls| tls.reload())
    }

    /// Connects without a socket: the bytes of a TCP connection from this machine. Must be called
    /// within the tokio runtime.
    pub fn connect(&self) -> DuplexStream {
        self.connect_as(Peer::IN_PROCESS)
    }

    pub(super) fn connect_as(&self, peer: Peer) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        let opened = Some((peer, tokio::io::split(ours)));
        accept::serve(&self.shared, None, std::future::ready(opened));
        theirs
    }

    /// All metrics in Prometheus' text format, as at `/metrics`; `docs/METRICS.md` lists them.
    /// Takes a moment when there are many queues.
    pub fn metrics(&self, detail: Detail) -> String {
        self.shared.metrics(detail)
    }

    /// The counters of the broker, its vhosts and its journal.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Ready when the core of a vhost failed: nothing in it is confirmed any more, and the broker
    /// should be stopped and started again.
    pub async fn failed(&self) {
        self.shared.failed().await;
    }

    /// Stops in order: accepts no more connections, closes those that are open, and waits for their
    /// peers as long as the setting `shutdown-timeout` allows.
    pub async fn stop(self) {
        start::stop(&self.shared).await;
        // Dropping it does the rest.
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        start::let_go(&self.shared);
    }
}
