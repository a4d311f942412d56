//! Clients that speak another protocol: logged once for each address and protocol.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::access::Peer;
use crate::base::limits::FOREIGN_PEERS_MAX;
use crate::base::locks::{RankedMutex, rank};
use crate::link::Foreign;

/// Addresses and protocols that were logged already. A misconfigured client connects again every
/// second.
#[derive(Debug, Default)]
pub(super) struct ForeignPeers {
    told: RankedMutex<rank::ForeignPeers, BTreeSet<(Foreign, IpAddr)>>,
}

impl ForeignPeers {
    /// Logs the peer and its protocol, unless that was logged before.
    pub(super) fn note(&self, peer: &Peer, protocol: Foreign) {
        let address = peer.address;
        let advice = protocol.advice();
        if self.is_new(protocol, address.ip()) {
            tracing::warn!(%address, %protocol, advice, "a client speaks another protocol");
        } else {
            tracing::debug!(%address, %protocol, advice, "a client speaks another protocol");
        }
    }

    fn is_new(&self, protocol: Foreign, address: IpAddr) -> bool {
        let mut told = self.told.lock();
        told.len() < FOREIGN_PEERS_MAX && told.insert((protocol, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_of_once_in_bounded_memory() {
        let peers = ForeignPeers::default();
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        assert!(peers.is_new(Foreign::Http, address(1)));
        assert!(!peers.is_new(Foreign::Http, address(1)));
        assert!(peers.is_new(Foreign::Tls, address(1)));
        for number in 0..1_000 {
            peers.is_new(Foreign::Http, address(number));
        }
        assert_eq!(peers.told.lock().len(), FOREIGN_PEERS_MAX);
    }
}
