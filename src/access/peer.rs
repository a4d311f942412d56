//! The peer of a connection: its address, and how its bytes are protected.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::base::Name;

/// The peer of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The peer's address; of an in-process stream, the loopback address with port 0.
    pub address: SocketAddr,
    /// The TLS connection; none: its bytes are not protected.
    pub tls: Option<TlsPeer>,
    /// Whether it is the program that embeds the broker: it needs no login and may do everything.
    pub is_embedder: bool,
}

/// The properties of a TLS connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsPeer {
    /// The protocol version, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher: &'static str,
    /// The user that the verified client certificate names; none: no certificate, or one without a
    /// user.
    pub certificate_user: Option<Name>,
}

impl Peer {
    /// A peer within the same process.
    pub const IN_PROCESS: Self = Self::at(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

    /// The program that embeds the broker.
    pub const EMBEDDER: Self = {
        let mut peer = Self::IN_PROCESS;
        peer.is_embedder = true;
        peer
    };

    /// A peer at an address, without TLS.
    pub const fn at(address: SocketAddr) -> Self {
        Self {
            address,
            tls: None,
            is_embedder: false,
        }
    }

    /// Whether it is on the same machine: a loopback address, or the same process.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Whether others can read its bytes: neither TLS nor the same machine.
    pub fn is_readable_by_others(&self) -> bool {
        self.tls.is_none() && !self.is_loopback()
    }

    /// The user that its verified client certificate names.
    pub fn certificate_user(&self) -> Option<&Name> {
        self.tls.as_ref()?.certificate_user.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_by_address_also_when_it_is_written_as_ipv6() {
        let check = |address: &str| Peer::at(address.parse().unwrap()).is_loopback();
        assert!(check("127.0.0.1:5672"));
        assert!(check("127.9.9.9:1"));
        assert!(check("[::1]:1"));
        assert!(check("[::ffff:127.0.0.1]:1"));
        assert!(!check("192.0.2.1:1"));
        assert!(!check("[2001:db8::1]:1"));
        assert!(Peer::IN_PROCESS.is_loopback());
    }
}
