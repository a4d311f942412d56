//! Events as messages to the exchange of events: in the record of what they tell. [evidence part 10]
//!
//! ```text
//!   Core::tell --is anything bound?--> write --route--> queues     one record with the death
//! ```
//!
//! What happens to such a message is no event, or each would make the next.

use std::sync::Arc;

use super::admission::{Arrival, Offered};
use super::routed::Routed;
use super::work::Work;
use super::{Core, Turn};
use crate::base::limits::EVENT_KEY_BYTES_MAX;
use crate::base::{ExchangeId, Lsn, Name, Position, QueueId, Seed, Step};
use crate::broker::event::{EventKind, EventMessage, EventType, EventWriter, VhostEvent};
use crate::broker::names::EVENT_EXCHANGE;
use crate::deaths::Reason;
use crate::message::{Message, Route};

/// Estimated time of writing one event as a message, in nanoseconds.
const WRITE_NS: u64 = 10_000;

/// How events come as messages.
#[derive(Debug)]
pub(super) struct EventMessages {
    write: EventWriter,
    /// Cached targets of the last event.
    routed: Routed,
    /// The route of the last event, shared by the next one if equal.
    route: Arc<Route>,
}

impl EventMessages {
    pub(super) fn new(seed: Seed, write: EventWriter) -> Self {
        let route = Route {
            exchange: Name::from(EVENT_EXCHANGE),
            keys: Arc::from([]),
        };
        Self {
            write,
            routed: Routed::new(seed),
            route: Arc::new(route),
        }
    }

    /// The route of an event.
    fn route_of(&mut self, event: &VhostEvent) -> Arc<Route> {
        let keys = keys_of(event);
        if *self.route.keys != *keys {
            self.route = Arc::new(Route {
                exchange: self.route.exchange.clone(),
                keys: Arc::from(keys),
            });
        }
        Arc::clone(&self.route)
    }
}

impl Core {
    /// Whether a message of a queue is on disk, and has to be read before its death is told: the event
    /// says what it was, and whether it was an event itself.
    #[cold]
    pub(super) fn is_read_for_event(&self, id: QueueId, position: Position) -> bool {
        let queue = self.queues.get(&id);
        let is_on_disk = queue.is_some_and(|queue| queue.messages.slot(position).is_none());
        is_on_disk && self.event_exchange().is_some()
    }

    /// The exchange of events, if something is bound to it.
    fn event_exchange(&self) -> Option<ExchangeId> {
        let id = self.router.id_of(EVENT_EXCHANGE)?;
        self.router.leads_anywhere(id, None).then_some(id)
    }

    /// Puts an event into the queues that are bound for it.
    #[cold]
    pub(super) fn publish_event(&mut self, turn: &mut Turn<'_>, event: &VhostEvent) {
        let Some(exchange) = self.event_exchange() else {
            return;
        };
        if event.message.as_ref().is_some_and(is_unknown) {
            return; // its bytes could not be read back: it may have been such a message
        }
        let Some(mut messages) = self.events.messages.take() else {
            return; // off
        };
        turn.charge_ns(WRITE_NS);
        let origin = self.events.origin();
        if let Some(message) = (messages.write)(&self.options.vhost, origin, event) {
            let route = messages.route_of(event);
            let meter = &mut turn.effects.meter;
            let found = (messages.routed).find(&self.router, exchange, (&route, &message), meter);
            // What is told of a queue as a whole is not told to that: it may be about to be deleted.
            let left_out = event.message.is_none().then_some(&event.queue);
            let left_out = left_out.and_then(|name| self.names.get(name).copied());
            self.router.count(exchange, found.len());
            self.offer_event(turn, (Arc::new(message), route), (found, left_out));
        }
        self.events.messages = Some(messages);
    }

    fn offer_event(
        &mut self,
        turn: &mut Turn<'_>,
        (message, route): (Arc<Message>, Arc<Route>),
        (targets, left_out): (&[QueueId], Option<QueueId>),
    ) {
        turn.charge_ns(Step::Entry.ns() * targets.len() as u64);
        let mut insertion = self.insertion(Lsn(0));
        insertion.is_unserved = true;
        let arrival = Arrival::dead(message, route);
        for &queue in targets.iter().filter(|target| Some(**target) != left_out) {
            let offered = self.offer(turn, queue, arrival.clone(), &mut insertion);
            match offered {
                Offered::TakenToDie { position, .. } => self.work.push_back(Work::Die {
                    queue,
                    position,
                    reason: Reason::Maxlen,
                }),
                // A queue that is full says by its counter that it refused some.
                Offered::Taken { .. } | Offered::Refused | Offered::Gone => {}
            }
        }
        self.record(insertion);
    }
}

/// Whether an event is of a message that came by the exchange of events, before it died or in the
/// first place.
#[cold]
pub(super) fn is_of_event(event: &VhostEvent) -> bool {
    let Some(about) = &event.message else {
        return false;
    };
    let first = about.history.as_ref().map(|it| it.first().exchange);
    let now = about.unwritten.as_ref().map(|known| &known.route.exchange);
    [first, now]
        .into_iter()
        .flatten()
        .any(|exchange| *exchange == EVENT_EXCHANGE)
}

/// Whether nothing is known of a message but its size.
const fn is_unknown(about: &EventMessage) -> bool {
    about.message.is_none() && about.history.is_none() && about.unwritten.is_none()
}

/// The routing keys of an event: of what it is, and of what else it means.
fn keys_of(event: &VhostEvent) -> Vec<Name> {
    let reason = event.reason().map_or("", Reason::as_str);
    let cause = event.cause().map_or("", |cause| cause.as_str());
    let of_type = |kind: EventType| match kind {
        EventType::Death | EventType::DeadLettered => Some(reason),
        EventType::Dropped | EventType::Quarantined => Some(cause),
        EventType::Redrive => match &event.kind {
            EventKind::Redrive(news) => Some(news.state.as_str()),
            _ => None,
        },
        EventType::Redriven | EventType::ConsumerTimeout => None,
    };
    let types = event.types();
    let keys = types
        .into_iter()
        .map(|kind| key_of(kind.as_str(), of_type(kind), &event.queue));
    keys.collect()
}

/// One routing key; what is behind [`EVENT_KEY_BYTES_MAX`] is cut off.
fn key_of(kind: &str, word: Option<&str>, queue: &str) -> Name {
    let words = [Some(kind), word, Some(queue)];
    let mut key = words.into_iter().flatten().collect::<Vec<_>>().join(".");
    key.truncate(key.floor_char_boundary(EVENT_KEY_BYTES_MAX));
    Name::from(key)
}
