//! The bound on HTTP connections, all together and from one address, and the places beyond it for
//! health checks.
//!
//! ```text
//!  accepted --> room in all, and for its address --> Place::Ordinary
//!         `---> none ------------------------------> Place::Health (the oldest of these goes)
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::access::network;
use crate::base::limits::{HTTP_ADDRESS_PERCENT_MAX, HTTP_HEALTH_CONNECTIONS_MAX};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Millis, uncount};

/// Interval between two log lines about connections beyond the bound, in milliseconds.
const LINES_MS: u64 = 10_000;

/// The places of one listener.
#[derive(Debug)]
pub(super) struct Places {
    all_max: usize,
    address_max: usize,
    taken: RankedMutex<rank::HttpPlaces, PlacesTaken>,
}

#[derive(Debug, Default)]
struct PlacesTaken {
    all: usize,
    by_network: BTreeMap<Vec<u8>, usize>,
    /// Those beyond the bound, the oldest first, with the sender that ends each.
    health: VecDeque<(u64, oneshot::Sender<()>)>,
    next: u64,
    /// When the last line was logged, and the number of connections beyond the bound since then.
    line: (Option<Millis>, u64),
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct HeldPlace {
    places: Arc<Places>,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Network(Vec<u8>),
    Health(u64),
}

/// How a connection is admitted.
#[derive(Debug)]
pub(super) enum HttpAdmission {
    /// All routes are served.
    Ordinary(HeldPlace),
    /// Only `/health` is served, until the place is needed.
    Health(HeldPlace, oneshot::Receiver<()>),
}

impl Places {
    pub(super) fn new(all_max: usize) -> Arc<Self> {
        let of_address = all_max.saturating_mul(HTTP_ADDRESS_PERCENT_MAX) / 100;
        Arc::new(Self {
            all_max,
            address_max: of_address.max(1),
            taken: RankedMutex::default(),
        })
    }

    /// A place for a connection from this address.
    pub(super) fn take(self: &Arc<Self>, now: Millis, address: IpAddr) -> HttpAdmission {
        let network = network(address);
        let mut taken = self.taken.lock();
        let of_address = taken.by_network.get(&network).copied().unwrap_or(0);
        if taken.all < self.all_max && of_address < self.address_max {
            taken.all += 1;
            *taken.by_network.entry(network.clone()).or_default() += 1;
            return HttpAdmission::Ordinary(self.held(Of::Network(network)));
        }
        taken.note(now, address, (of_address, self.address_max));
        if taken.health.len() >= HTTP_HEALTH_CONNECTIONS_MAX
            && let Some((_, go)) = taken.health.pop_front()
        {
            // It may have ended by itself.
            let _ = go.send(());
        }
        let number = taken.next;
        taken.next += 1;
        let (go, told) = oneshot::channel();
        taken.health.push_back((number, go));
        HttpAdmission::Health(self.held(Of::Health(number)), told)
    }

    fn held(self: &Arc<Self>, of: Of) -> HeldPlace {
        let places = Arc::clone(self);
        HeldPlace { places, of }
    }
}

impl PlacesTaken {
    fn note(&mut self, now: Millis, address: IpAddr, (of_address, address_max): (usize, usize)) {
        let (last, beyond) = self.line;
        let beyond = beyond + 1;
        if last.is_some_and(|last| now.since(last) < LINES_MS) {
            self.line = (last, beyond);
            return;
        }
        self.line = (Some(now), 0);
        let all = self.all;
        tracing::warn!(
            %address, of_address, address_max, all, beyond,
            "too many HTTP connections: those beyond http-connections-max, or three quarters of it from \
             one address, are served /health only"
        );
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        match &self.of {
            Of::Health(number) => taken.health.retain(|(held, _)| held != number),
            Of::Network(network) => {
                uncount!(taken.all, 1, "a place that is left was counted");
                let left = taken.by_network.get_mut(network).map(|count| {
                    uncount!(*count, 1, "a place of a network was counted");
                    *count
                });
                if left == Some(0) {
                    taken.by_network.remove(network);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(5);

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    fn is_ordinary(place: &HttpAdmission) -> bool {
        matches!(place, HttpAdmission::Ordinary(_))
    }

    #[test]
    fn an_address_leaves_places_for_others_and_gets_its_own_back() {
        let places = Places::new(8);
        let mut held: Vec<_> = (0..6).map(|_| places.take(NOW, ip("192.0.2.1"))).collect();
        assert!(held.iter().all(is_ordinary));
        assert!(!is_ordinary(&places.take(NOW, ip("192.0.2.1"))));
        let others: Vec<_> = (0..2).map(|_| places.take(NOW, ip("192.0.2.2"))).collect();
        assert!(others.iter().all(is_ordinary));
        assert!(
            !is_ordinary(&places.take(NOW, ip("192.0.2.3"))),
            "all are taken"
        );
        held.pop();
        assert!(is_ordinary(&places.take(NOW, ip("192.0.2.1"))));
        drop((held, others));
        let taken = places.taken.lock();
        assert!(taken.all == 0 && taken.by_network.is_empty() && taken.health.is_empty());
    }

    #[test]
    fn beyond_the_bound_the_oldest_goes_and_the_newest_is_served() {
        let places = Places::new(1);
        let _all = places.take(NOW, ip("192.0.2.1"));
        let mut told = Vec::new();
        for _ in 0..=HTTP_HEALTH_CONNECTIONS_MAX {
            match places.take(NOW, ip("192.0.2.1")) {
                HttpAdmission::Ordinary(_) => panic!("there is one place"),
                HttpAdmission::Health(held, go) => told.push((held, go)),
            }
        }
        let gone: Vec<bool> = told
            .iter_mut()
            .map(|(_, go)| go.try_recv().is_ok())
            .collect();
        let expect: Vec<bool> = (0..=HTTP_HEALTH_CONNECTIONS_MAX).map(|n| n == 0).collect();
        assert_eq!(gone, expect);
    }
}
