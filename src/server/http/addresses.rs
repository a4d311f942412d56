//! The broker's addresses, as the HTTP API lists them.

use std::net::SocketAddr;

use crate::management::http::json::overview::Listener;
use crate::server::sockets::Addresses;

impl Addresses {
    /// The listeners for AMQP and HTTP.
    pub(super) fn listeners(&self) -> Vec<Listener> {
        let of = |protocol, addresses: &[SocketAddr]| -> Vec<_> {
            addresses
                .iter()
                .map(|address| (protocol, *address))
                .collect()
        };
        let all = [
            of("amqp", &self.amqp),
            of("amqp/ssl", &self.amqps),
            of("http", self.http.as_slice()),
            of("https", &self.https),
            of("http/web-amqp", &self.websocket),
        ];
        let all = all.into_iter().flatten();
        let listeners = all.map(|(protocol, address)| Listener {
            protocol,
            address: address.ip(),
            port: address.port(),
        });
        listeners.collect()
    }
}
