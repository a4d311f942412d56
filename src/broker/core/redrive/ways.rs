//! Where a redrive would send a message: asked by the job, and by a dry run.

use std::sync::Arc;

use crate::base::limits::BATCH_NS_MAX;
use crate::base::{Meter, Name, QueueId};
use crate::broker::core::Core;
use crate::broker::core::routed::Routed;
use crate::broker::exchange::ExchangeKind;
use crate::broker::queue::Queue;
use crate::broker::redrive::{RedriveRights, RedriveSpec, RedriveTarget, RedriveWay};
use crate::broker::{Becomes, Error, ForeseenTarget, Foresight, NotMoved, Skipped};
use crate::deaths::Entry;
use crate::message::{Message, Route};

/// What was found for the last messages, which usually holds for the next one too.
#[derive(Debug, Default)]
pub(super) struct Finder {
    /// The last route, shared by the next message if equal.
    route: Option<Arc<Route>>,
    routed: Routed,
    /// Whether the user may send by this route.
    permitted: Option<(Arc<Route>, bool)>,
    /// Whether the user may publish to the default exchange.
    may_default: Option<bool>,
}

/// A way that was found, and the route that the message has on it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) way: RedriveWay,
    pub(super) route: Arc<Route>,
    /// The queue or exchange that it is sent to, by name.
    pub(super) to: Name,
}

impl Finder {
    /// The route of this exchange and these keys.
    fn route(&mut self, exchange: &Name, keys: &Arc<[Name]>) -> Arc<Route> {
        let last = self.route.as_ref();
        let is_last = |last: &&Arc<Route>| {
            last.exchange == *exchange && (Arc::ptr_eq(&last.keys, keys) || last.keys == *keys)
        };
        if let Some(last) = last.filter(is_last) {
            return Arc::clone(last);
        }
        let route = Arc::new(Route {
            exchange: exchange.clone(),
            keys: Arc::clone(keys),
        });
        self.route = Some(Arc::clone(&route));
        route
    }

    /// The route by which a message came to the queue of one of its deaths.
    fn route_of(&mut self, entry: &Entry) -> Arc<Route> {
        self.route(&entry.exchange, &entry.routing_keys)
    }

    /// The route of a message that is sent to an exchange, or to a queue by the default exchange.
    fn route_to(&mut self, exchange: &Name, key: &Name) -> Arc<Route> {
        let last = self.route.as_ref();
        let is_last =
            |last: &&Arc<Route>| last.exchange == *exchange && *last.keys == [key.clone()];
        if let Some(last) = last.filter(is_last) {
            return Arc::clone(last);
        }
        self.route(exchange, &Arc::from([key.clone()]))
    }

    fn may_default(&mut self, rights: &RedriveRights) -> bool {
        *(self.may_default).get_or_insert_with(|| rights.may_write(""))
    }
}

impl Core {
    /// Where a redrive would send a message of its source.
    pub(super) fn redrive_way(
        &self,
        (spec, source): (&RedriveSpec, QueueId),
        rights: &RedriveRights,
        message: &Message,
        (finder, meter): (&mut Finder, &mut Meter),
    ) -> Found {
        let history = message.history();
        let entry = match &spec.target {
            RedriveTarget::Origin => history.map(|history| history.origin()),
            RedriveTarget::First | RedriveTarget::Original => {
                history.map(|history| history.first_entry())
            }
            RedriveTarget::Queue(queue) => history.and_then(|history| history.entry_of(queue)),
            RedriveTarget::Exchange { .. } | RedriveTarget::Discard => None,
        };
        match (&spec.target, entry) {
            (RedriveTarget::Discard, _) => Found {
                way: RedriveWay::Discarded,
                route: finder.route_to(&Name::default(), &Name::default()),
                to: Name::default(),
            },
            (RedriveTarget::Origin | RedriveTarget::First, Some(entry)) => {
                let route = finder.route_of(entry);
                self.way_to_queue((spec, source), rights, (&entry.queue, route), finder)
            }
            (RedriveTarget::Queue(queue), entry) => {
                // Where it died before, it is as it came there then.
                let route = match entry {
                    Some(entry) => finder.route_of(entry),
                    None => finder.route_to(&Name::default(), queue),
                };
                self.way_to_queue((spec, source), rights, (queue, route), finder)
            }
            (RedriveTarget::Original, Some(entry)) => {
                let route = finder.route_of(entry);
                self.way_to_exchange((spec, source), rights, (message, route), (finder, meter))
            }
            (
                RedriveTarget::Exchange {
                    exchange,
                    routing_key,
                },
                _,
            ) => {
                let route = finder.route_to(exchange, routing_key);
                self.way_to_exchange((spec, source), rights, (message, route), (finder, meter))
            }
            (RedriveTarget::Origin | RedriveTarget::First | RedriveTarget::Original, None) => {
                // It never died: nothing says where it came from.
                Found {
                    way: RedriveWay::NoTarget,
                    route: finder.route_to(&Name::default(), &Name::default()),
                    to: Name::default(),
                }
            }
        }
    }

    fn way_to_queue(
        &self,
        (spec, source): (&RedriveSpec, QueueId),
        rights: &RedriveRights,
        (queue, route): (&Name, Arc<Route>),
        finder: &mut Finder,
    ) -> Found {
        let way = match self.names.get(queue) {
            _ if !finder.may_default(rights) => RedriveWay::NotAllowed,
            None => RedriveWay::NoTarget,
            Some(id) => self.checked(spec, source, vec![*id]),
        };
        let to = queue.clone();
        Found { way, route, to }
    }

    fn way_to_exchange(
        &self,
        (spec, source): (&RedriveSpec, QueueId),
        rights: &RedriveRights,
        (message, route): (&Message, Arc<Route>),
        (finder, meter): (&mut Finder, &mut Meter),
    ) -> Found {
        let to = route.exchange.clone();
        let found = |way, route| Found { way, route, to };
        let Some(exchange) = self.router.id_of(&route.exchange) else {
            return found(RedriveWay::NoTarget, route);
        };
        let known = finder.permitted.as_ref();
        let known = known.filter(|(known, _)| Arc::ptr_eq(known, &route));
        let ask = || {
            meter.charge_ns(rights.write_ns(&route.exchange, &route.keys));
            let spec = self.router.exchange(exchange).map(|found| &found.spec);
            let is_topic = spec.is_some_and(|spec| spec.kind == ExchangeKind::Topic);
            !spec.is_some_and(|spec| spec.internal)
                && rights.may_write(&route.exchange)
                && (!is_topic || rights.may_use(&route.exchange, &route.keys))
        };
        let may = known.map_or_else(ask, |(_, may)| *may);
        finder.permitted = Some((Arc::clone(&route), may));
        if !may {
            return found(RedriveWay::NotAllowed, route);
        }
        let routed = (finder.routed).find(&self.router, exchange, (&route, message), meter);
        let way = if routed.is_empty() {
            RedriveWay::NoTarget
        } else {
            self.checked(spec, source, routed.to_vec())
        };
        found(way, route)
    }

    /// The way to these queues, if it leads away and loses no safety.
    fn checked(&self, spec: &RedriveSpec, source: QueueId, targets: Vec<QueueId>) -> RedriveWay {
        if targets.contains(&source) {
            return RedriveWay::SameQueue;
        }
        let is_durable = |id: &QueueId| self.queues.get(id).is_none_or(|queue| queue.durable);
        let is_safe = spec.is_unsafe || !is_durable(&source) || targets.iter().all(is_durable);
        if is_safe {
            RedriveWay::To(targets)
        } else {
            RedriveWay::NotAllowed
        }
    }

    /// Where a redrive would send these messages of its source, in their order; an error if it would
    /// be refused. Nothing is changed. Of many it answers for the first ones only, at least for one:
    /// for as many as the estimate of one hold of the lock allows.
    pub fn foresee_redrive<'a>(
        &self,
        spec: &RedriveSpec,
        rights: &RedriveRights,
        messages: impl Iterator<Item = &'a Message>,
    ) -> Result<Vec<RedriveWay>, Error> {
        let source = self.check_redrive(spec)?;
        let (mut finder, mut meter) = (Finder::default(), Meter::default());
        let mut ways = Vec::new();
        for message in messages {
            let asked = (spec, source);
            let found = self.redrive_way(asked, rights, message, (&mut finder, &mut meter));
            ways.push(found.way);
            if meter.spent_ns() >= BATCH_NS_MAX {
                break;
            }
        }
        Ok(ways)
    }

    /// What would become of a message if a user redrove it now to the queue in which it failed last.
    pub(in crate::broker::core) fn foresee_redriven(
        &self,
        (source, is_ready): (&Queue, bool),
        (message, size_bytes): (&Message, u32),
        rights: &RedriveRights,
        meter: &mut Meter,
    ) -> Foresight {
        let not = |why| Foresight::without_death(Becomes::NotMoved(why));
        if !is_ready {
            return not(NotMoved::Held);
        }
        let spec = RedriveSpec::to_origin(source.name.clone());
        let seen = (&mut Finder::default(), meter);
        let found = self.redrive_way((&spec, source.id), rights, message, seen);
        let targets = match found.way {
            RedriveWay::To(targets) => targets,
            RedriveWay::NoTarget | RedriveWay::Discarded => return not(NotMoved::NoTarget),
            RedriveWay::SameQueue => return not(NotMoved::SameQueue),
            RedriveWay::NotAllowed => return not(NotMoved::NotAllowed),
        };
        let of = |id: &QueueId| Some((*id, &**self.queues.get(id)?));
        let targets: Vec<(QueueId, &Queue)> = targets.iter().filter_map(of).collect();
        // See [`Core::has_room_for_redrive`].
        let is_full = |queue: &Queue| {
            queue.would_overflow(size_bytes) && !self.would_take(queue, queue.messages.ready())
        };
        let full = targets.iter().filter(|(_, queue)| is_full(queue));
        let skipped: Vec<_> = full.map(|(id, _)| (*id, Skipped::Full)).collect();
        if !skipped.is_empty() {
            let waits = not(NotMoved::TargetFull);
            return Foresight { skipped, ..waits };
        }
        let moved = if self.alarm {
            Becomes::NotMoved(NotMoved::Alarm)
        } else {
            Becomes::Moved
        };
        let target = |(id, queue): (QueueId, &Queue)| ForeseenTarget {
            id: Some(id),
            queue: queue.name.clone(),
            dies: false,
        };
        Foresight {
            way: Some(found.route),
            targets: targets.into_iter().map(target).collect(),
            ..Foresight::without_death(moved)
        }
    }
}
