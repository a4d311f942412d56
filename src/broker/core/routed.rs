//! A cache of the last route and its targets: usually the next message has the same.

use std::sync::Arc;

use crate::base::{ExchangeId, Meter, QueueId, Random, Seed};
use crate::broker::router::Router;
use crate::broker::subscription::NoLocal;
use crate::message::{Message, Route};

/// A route and the queues it led to, valid while the topology is the same. It is taken out of the
/// core while its targets are in use. A clone finds what this one would find next.
#[derive(Clone, Debug)]
pub(super) struct Routed {
    /// The cached route; none if routing depends on more than the keys.
    way: Option<Way>,
    targets: Vec<QueueId>,
    /// Whether there are more targets than a message may have, or finding them took too many steps:
    /// then none is kept.
    are_too_many: bool,
    /// Random numbers for exchanges that pick one queue.
    draws: Random,
}

#[derive(Clone, Debug)]
struct Way {
    exchange: ExchangeId,
    route: Arc<Route>,
    generation: u64,
}

/// The placeholder for one that was taken out.
impl Default for Routed {
    fn default() -> Self {
        Self::new(Seed::default())
    }
}

impl Routed {
    /// An empty cache.
    pub(super) const fn new(seed: Seed) -> Self {
        Self {
            way: None,
            targets: Vec::new(),
            are_too_many: false,
            draws: Random::new(seed.0),
        }
    }

    /// The queues that the last message reached.
    pub(super) fn targets(&self) -> &[QueueId] {
        &self.targets
    }

    /// Whether the last message reached no queue because it would reach too many.
    pub(super) const fn are_too_many(&self) -> bool {
        self.are_too_many
    }

    /// The queues that a message reaches, each once; none if they are too many.
    pub(super) fn find(
        &mut self,
        router: &Router,
        exchange: ExchangeId,
        (route, message): (&Arc<Route>, &Message),
        meter: &mut Meter,
    ) -> &[QueueId] {
        self.find_for(router, exchange, (route, message), |_| false, meter)
    }

    /// The same for a message that a client publishes: `is_local` says whether what a subscription
    /// leaves out is of that client.
    #[inline]
    pub(super) fn find_for(
        &mut self,
        router: &Router,
        exchange: ExchangeId,
        (route, message): (&Arc<Route>, &Message),
        is_local: impl Fn(&NoLocal) -> bool,
        meter: &mut Meter,
    ) -> &[QueueId] {
        let generation = router.generation();
        let is_same = self.way.as_ref().is_some_and(|way| {
            way.generation == generation
                && way.exchange == exchange
                && Arc::ptr_eq(&way.route, route)
        });
        if !is_same {
            self.targets.clear();
            let draw = self.draws.next();
            let steps = router.route(exchange, route, message, draw, &mut self.targets);
            self.are_too_many =
                steps.are_used_up() || self.targets.len() > router.queues_max() as usize;
            let is_filtered = !self.are_too_many
                && router.retain_takers(&mut self.targets, message, is_local, &steps);
            self.are_too_many |= steps.are_used_up();
            meter.charge_ns(steps.ns());
            if self.are_too_many {
                self.targets = Vec::new();
            }
            self.way = (!is_filtered && !router.depends_on_message(exchange)).then(|| Way {
                exchange,
                route: Arc::clone(route),
                generation,
            });
        }
        &self.targets
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::base::Name;
    use crate::broker::Destination;
    use crate::broker::exchange::{ExchangeKind, ExchangeSpec};
    use crate::message::KeyRule;
    use crate::wire::Value;

    /// A message with application property `p` of this value.
    fn message(value: u8) -> Message {
        let properties = [0, 0x53, 0x74, 0xc1, 6, 2, 0xa1, 1, b'p', 0x50, value];
        let bytes = [&properties[..], &[0, 0x53, 0x75, 0xa0, 0]].concat();
        Message::from_transfer(Bytes::from(bytes), KeyRule::Specification).unwrap()
    }

    fn check(
        routed: &mut Routed,
        router: &Router,
        goes: (ExchangeId, &Arc<Route>, u8),
        to: &[u64],
    ) {
        let (exchange, route, value) = goes;
        let message = message(value);
        for _ in 0..2 {
            let found = routed.find(router, exchange, (route, &message), &mut Meter::default());
            let found: Vec<u64> = found.iter().map(|queue| queue.0).collect();
            assert_eq!(found, to);
        }
    }

    #[test]
    fn every_change_of_topology_is_seen_and_so_is_what_messages_say() {
        let mut router = Router::new(Seed(7));
        let [direct, headers] = [("d", ExchangeKind::Direct), ("h", ExchangeKind::Headers)]
            .map(|(name, kind)| router.declare(ExchangeSpec::plain(name, kind)).unwrap().id);
        for id in 1..=3 {
            router.queue_added(format!("q{id}").into(), QueueId(id));
        }
        let queue = |id: u64| Destination::Queue(format!("q{id}").into());
        let (to_direct, to_headers): (Name, Name) = ("d".into(), "h".into());
        let key = Name::from("k");
        let [route, other] = ["k", "other"].map(|key| {
            let keys = Arc::from([Name::from(key)]);
            let exchange = Name::from("d");
            Arc::new(Route { exchange, keys })
        });
        let mut routed = Routed::new(Seed(7));
        let mut check = |router: &Router, goes, to: &[u64]| check(&mut routed, router, goes, to);

        check(&router, (direct, &route, 0), &[]);
        router.bind(&to_direct, &queue(1), &key, &[]).unwrap();
        check(&router, (direct, &route, 0), &[1]);
        check(&router, (direct, &other, 0), &[]);
        router.bind(&to_direct, &queue(2), &key, &[]).unwrap();
        check(&router, (direct, &route, 0), &[1, 2]);
        router.unbind(&to_direct, &queue(1), &key, &[]).unwrap();
        check(&router, (direct, &route, 0), &[2]);
        router.queue_removed(&"q2".into());
        check(&router, (direct, &route, 0), &[]);

        let wants = [(Name::from("p"), Value::Ubyte(5))];
        router.bind(&to_headers, &queue(3), &key, &wants).unwrap();
        check(&router, (headers, &route, 5), &[3]);
        check(&router, (headers, &route, 6), &[]);
        check(&router, (headers, &route, 5), &[3]);
    }
}
