//! The placeholder for TLS in a build without it: no value of it can exist.

use std::net::SocketAddr;
use std::sync::Arc;

use super::errors::TlsError;
use crate::access::Peer;
use crate::config::Settings;

/// The TLS side of listeners, of which there are none.
pub(super) enum Tls {}

impl Tls {
    /// Always none. Settings that ask for TLS were refused before.
    #[allow(clippy::unnecessary_wraps, reason = "as the one that reads files")]
    pub(super) fn new(_: &Settings) -> Result<Option<Arc<Self>>, TlsError> {
        Ok(None)
    }

    pub(super) fn reload(&self) -> Result<(), TlsError> {
        match *self {}
    }

    pub(super) async fn watch(self: Arc<Self>) {
        match *self {}
    }

    pub(super) async fn accept<S>(&self, _: S, _: SocketAddr) -> Option<(Peer, S)> {
        match *self {}
    }

    #[cfg(feature = "http")]
    pub(super) fn ending(&self, _: crate::base::Timestamp) -> super::expiry::Ending {
        match *self {}
    }

    #[cfg(feature = "http")]
    pub(super) fn certificate_files(&self) -> (&std::path::Path, Option<&std::path::Path>) {
        match *self {}
    }
}
