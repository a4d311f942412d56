//! The durable part of a core, as plain values to compare.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Name, Position, QueueId};
use crate::broker::binding::Binding;
use crate::broker::queue::{Queue, Slot, State};
use crate::broker::{Core, Destination};
use crate::deaths::{History, Reason};
use crate::message::Route;

/// What must be the same in a core rebuilt from the facts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DurableState {
    queues: BTreeMap<QueueId, (Name, BTreeMap<Position, DurableMessage>)>,
    exchanges: Vec<Name>,
    bindings: Vec<Binding>,
    policies: Vec<String>,
}

impl DurableState {
    /// What differs from another state, in few words.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let ids: BTreeSet<_> = self.queues.keys().chain(other.queues.keys()).collect();
        for id in ids {
            let (a, b) = (self.queues.get(id), other.queues.get(id));
            let (Some((name, a)), Some((_, b))) = (a, b) else {
                differences.push(format!("queue {id}: {} or {}", a.is_some(), b.is_some()));
                continue;
            };
            let positions: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for position in positions {
                let (a, b) = (a.get(position), b.get(position));
                if a != b {
                    differences.push(format!("{name} {position}:\n  {a:?}\n  {b:?}"));
                }
            }
        }
        if (&self.exchanges, &self.bindings) != (&other.exchanges, &other.bindings) {
            differences.push(format!("{:?}\n  {:?}", self.exchanges, self.bindings));
            differences.push(format!("{:?}\n  {:?}", other.exchanges, other.bindings));
        }
        if self.policies != other.policies {
            differences.push(format!("{:?}\n  {:?}", self.policies, other.policies));
        }
        differences
    }
}

impl DurableState {
    /// Takes a message out, as if it had never been.
    pub fn forget(&mut self, queue: QueueId, position: Position) {
        if let Some((_, messages)) = self.queues.get_mut(&queue) {
            messages.remove(&position);
        }
    }
}

/// One message in one queue.
#[derive(Clone, PartialEq, Debug)]
struct DurableMessage {
    bare: Vec<u8>,
    route: Route,
    history: Option<History>,
    failures: u32,
    acquired: u32,
    carried: u32,
    own_ttl_ms: Option<u64>,
    pending: Option<(Reason, Option<Vec<QueueId>>)>,
}

/// Reads the durable part of a core.
pub fn durable_state(core: &Core) -> DurableState {
    let router = core.router();
    let is_durable = |name: &Name| {
        router
            .exchange_named(name)
            .is_some_and(|exchange| exchange.spec.durable)
    };
    let kept = |binding: &Binding| {
        !binding.source.is_empty()
            && is_durable(&binding.source)
            && match &binding.destination {
                Destination::Queue(name) => core.queue(name).is_some_and(|queue| queue.durable),
                Destination::Exchange(name) => is_durable(name),
            }
    };
    let mut policies = Vec::new();
    for operator in [false, true] {
        let list = core.policies().list(operator);
        policies.extend(list.map(|policy| format!("{operator} {policy:?}")));
    }
    DurableState {
        queues: core
            .queues()
            .filter(|queue| queue.durable)
            .map(|queue| (queue.id, (queue.name.clone(), messages(queue))))
            .collect(),
        exchanges: router
            .exchanges()
            .filter(|exchange| exchange.spec.durable)
            .map(|exchange| exchange.spec.name.clone())
            .collect(),
        bindings: router
            .bindings(None, None, None)
            .into_iter()
            .filter(kept)
            .collect(),
        policies,
    }
}

fn messages(queue: &Queue) -> BTreeMap<Position, DurableMessage> {
    let mut messages = BTreeMap::new();
    for state in [State::Ready, State::Held, State::Dying] {
        let mut from = Position(0);
        while let Some(position) = queue.messages.find(state, from, |slot| slot.durable) {
            from = Position(position.0 + 1);
            if let Some(slot) = queue.messages.slot(position) {
                messages.insert(position, message(queue, position, slot));
            }
        }
    }
    messages
}

fn message(queue: &Queue, position: Position, slot: &Slot) -> DurableMessage {
    let own_ttl_ms = slot.deadline.since(slot.arrived);
    let pending = queue.pending.entry(position);
    DurableMessage {
        bare: slot.message.bare().to_vec(),
        route: (*slot.route).clone(),
        history: slot.message.history().map(|history| (**history).clone()),
        failures: slot.failures,
        acquired: slot.acquired,
        carried: slot.message.carried_delivery_count(),
        own_ttl_ms: (slot.deadline != crate::base::Millis::NEVER).then_some(own_ttl_ms),
        pending: pending.map(|pending| (pending.reason, pending.targets.clone())),
    }
}
