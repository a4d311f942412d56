//! What is known of one message at this moment, with what may happen to it next.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Core;
use super::paging::wanted;
use crate::base::{ConsumerId, Meter, Millis, Name, Now, Position, QueueId};
use crate::broker::arguments::Overflow;
use crate::broker::foresight::{Asked, Event, Explained, ExplainedQueue, Foresight};
use crate::broker::queue::{AfterPageIn, MessageState, Queue};
use crate::broker::reply::Content;
use crate::deaths::Reason;
use crate::message::{Message, Route};

impl Core {
    /// Describes one message of a queue: where it is, and what would become of it if one thing or
    /// the other happened. `content` is the message if its bytes are on disk; without it nothing is
    /// foreseen for such a message. None if there is no such queue, or no such message in it.
    pub fn explain(
        &self,
        now: Now,
        (queue, position): (&str, Position),
        asked: Asked<'_>,
        content: Option<(Arc<Message>, Arc<Route>)>,
        meter: &mut Meter,
    ) -> Option<Explained> {
        let queue = self.queue(queue)?;
        let kept = queue.messages.disk_ref(position)?;
        let mut states = MessageState::ALL.into_iter();
        let state = states.find(|state| queue.messages.is(position, *state))?;
        let slot = queue.messages.slot(position);
        let content = match (slot, content) {
            (Some(slot), _) => Content::Here(slot.message.clone(), slot.route.clone()),
            (None, Some((message, route))) => Content::Here(message, route),
            (None, None) => Content::OnDisk(wanted(position, &kept)),
        };
        let deadline = queue.deadline(kept.arrived, kept.deadline);
        let deadline = Some(deadline).filter(|deadline| *deadline != Millis::NEVER);
        let mut explained = Explained {
            as_of: now,
            queue: Arc::new(described(queue)),
            position,
            state,
            waits: queue.pending.entry(position).map(|pending| pending.reason),
            holder: slot
                .filter(|_| state == MessageState::Held)
                .and_then(|slot| {
                    let consumer = self.clients.consumers.get(&ConsumerId(slot.holder.0))?;
                    consumer.evidence.clone()
                }),
            arrived: kept.arrived,
            deadline,
            is_deadline_own: deadline == Some(kept.deadline),
            delayed_until: queue.messages.delayed().delay(position).map(|it| it.until),
            ahead: queue.messages.ready_before(position, meter),
            failures: kept.failures,
            acquired: kept.acquired,
            arguments: queue.arguments.clone(),
            settings: queue.settings.clone(),
            undeliverable: self.options.undeliverable.choice,
            policies: self.policies.clone(),
            entered_by: None,
            published: None,
            next: Vec::new(),
            queues: BTreeMap::new(),
            content,
        };
        if let Content::Here(message, route) = &explained.content {
            let (message, route) = (Arc::clone(message), Arc::clone(route));
            let here = Some((&message, &route));
            for event in events(queue, &explained, (&message, asked)) {
                let foreseen = self.foresee(now, (queue.id, position), &event, here, meter);
                explained
                    .next
                    .extend(foreseen.map(|foreseen| (event, foreseen)));
            }
            explained.entered_by = self.binding_between(&route, &queue.name, &message);
            explained.published = self.way_in(&message, &route);
        }
        for (_, foresight) in &explained.next {
            self.describe_queues(foresight, &mut explained.queues);
        }
        Some(explained)
    }

    /// Exchange and keys that it was published with, and the queue that it died in first, with the
    /// binding that leads there now.
    fn way_in(&self, message: &Message, route: &Route) -> Option<(Route, Name, Option<Name>)> {
        let history = message.history()?;
        let first = history.first();
        let entries = history.entries().iter();
        let entry = entries
            .rev()
            .find(|entry| entry.queue == *first.queue && entry.reason == first.reason);
        let keys = entry.map_or(&route.keys, |entry| &entry.routing_keys);
        let published = Route {
            exchange: first.exchange.clone(),
            keys: Arc::clone(keys),
        };
        let binding = self.binding_between(&published, first.queue, message);
        Some((published, first.queue.clone(), binding))
    }

    /// The key of a binding that leads a message with this route straight to a queue now.
    fn binding_between(&self, route: &Route, queue: &Name, message: &Message) -> Option<Name> {
        let binding = self.router.binding_between(route, queue, message)?;
        Some(binding.key.clone())
    }

    fn describe_queues(
        &self,
        foresight: &Foresight,
        queues: &mut BTreeMap<QueueId, ExplainedQueue>,
    ) {
        let targets = foresight.targets.iter().filter_map(|target| target.id);
        let skipped = foresight.skipped.iter().map(|(id, _)| *id);
        for id in targets.chain(skipped) {
            if let Some(queue) = self.queues.get(&id) {
                queues.entry(id).or_insert_with(|| described(queue));
            }
        }
    }
}

fn described(queue: &Queue) -> ExplainedQueue {
    ExplainedQueue {
        name: queue.name.clone(),
        consumers: queue.consumers.len() as u64,
        ready: queue.messages.ready(),
        max_length: queue.settings.max_length,
    }
}

/// What may happen to the message next.
fn events(
    queue: &Queue,
    explained: &Explained,
    (message, asked): (&Message, Asked<'_>),
) -> Vec<Event> {
    let evidence = || asked.error.cloned();
    let redriven = asked.redriver.filter(|_| message.history().is_some());
    let redriven = redriven.cloned().map(Event::Redriven);
    let consumed = [
        Event::Accepted,
        Event::Rejected {
            failed: true,
            evidence: evidence(),
        },
        Event::Returned {
            failed: true,
            evidence: evidence(),
        },
    ];
    let mut events = Vec::from(consumed);
    if explained.state == MessageState::Dying {
        // A dead message is given to no consumer.
        let mut awaiting = queue.awaiting_page_in.iter();
        let awaiting = awaiting.find_map(|(position, what)| match what {
            AfterPageIn::Die(reason) if *position == explained.position => Some(*reason),
            _ => None,
        });
        let own = match (explained.waits, awaiting) {
            (Some(_), _) => Some(Event::Retried),
            (None, Some(reason)) => Some(Event::Dies(reason)),
            (None, None) => None,
        };
        return own.into_iter().chain(redriven).collect();
    }
    if explained.deadline.is_some() {
        events.push(Event::Dies(Reason::Expired));
    }
    let settings = &queue.settings;
    let is_bounded = settings.max_length.is_some() || settings.max_length_bytes.is_some();
    if is_bounded
        && settings.overflow == Overflow::DropHead
        && explained.state == MessageState::Ready
    {
        events.push(Event::Dies(Reason::Maxlen));
    }
    events.extend(redriven);
    events
}
