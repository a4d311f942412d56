//! All durable state as facts, copied in slices while the core goes on: what a checkpoint holds.
//!
//! The copy is fuzzy: a slice shows its part of the state as it is when it is copied. Facts that
//! came after the snapshot began are applied to it again, and applying one twice equals once.

use super::Core;
use crate::base::{Lsn, Millis, Now, Position, QueueId, Timestamp};
use crate::broker::binding::Binding;
use crate::broker::queue::{Queue, Slot, State};
use crate::broker::{Body, Entry, Fact};

/// Messages in one slice at most.
const SLICE_MESSAGES: usize = 256;
/// Bytes of bodies that a slice carries before it ends.
const SLICE_BYTES: usize = 1024 * 1024;

/// How far the copying is.
#[derive(Debug)]
pub struct Snapshot {
    /// Queues whose messages are still to be copied; the next one is last.
    queues: Vec<QueueId>,
    /// Where in that queue it goes on.
    from: Position,
    next_queue: QueueId,
    is_done: bool,
}

impl Core {
    /// Begins a snapshot and copies all topology and policies: queues in the order of their ids, so
    /// that they can be declared again in it.
    pub fn begin_snapshot(&self) -> (Snapshot, Vec<Fact>) {
        let mut queues: Vec<&Queue> = self.queues().filter(|queue| queue.durable).collect();
        queues.sort_unstable_by_key(|queue| queue.id);
        let exchanges = self.router.exchanges().map(|exchange| &exchange.spec);
        let mut facts: Vec<Fact> = exchanges
            .filter(|spec| self.durable_exchanges.contains(&spec.name))
            .map(|spec| Fact::ExchangeDeclared(spec.clone()))
            .collect();
        facts.extend(queues.iter().map(|queue| Fact::QueueDeclared {
            queue: queue.id,
            name: queue.name.clone(),
            auto_delete: queue.auto_delete,
            arguments: queue.arguments.echoed().to_vec(),
        }));
        let bindings = self.router.bindings(None, None, None).into_iter();
        facts.extend(
            bindings
                .filter(|binding| {
                    !binding.source.is_empty()
                        && self.keeps_binding(&binding.source, &binding.destination)
                })
                .map(bound),
        );
        for operator in [false, true] {
            let policies = self.policies.list(operator).cloned().map(Box::new);
            facts.extend(policies.map(|policy| Fact::PolicySet { operator, policy }));
        }
        let snapshot = Snapshot {
            queues: queues.iter().rev().map(|queue| queue.id).collect(),
            from: Position(0),
            next_queue: QueueId(self.next_queue),
            is_done: false,
        };
        (snapshot, facts)
    }

    /// The next slice; none when all is copied.
    pub fn snapshot_slice(&self, now: Now, snapshot: &mut Snapshot) -> Option<Vec<Fact>> {
        let mut facts = Vec::new();
        while let Some(id) = snapshot.queues.last() {
            let queue = self.queues.get(id);
            let left = queue.and_then(|queue| copy_messages(now, queue, snapshot.from, &mut facts));
            if let Some(from) = left {
                snapshot.from = from;
            } else {
                snapshot.queues.pop();
                snapshot.from = Position(0);
            }
            if !facts.is_empty() {
                return Some(facts);
            }
        }
        if std::mem::replace(&mut snapshot.is_done, true) {
            return None;
        }
        let next = snapshot.next_queue;
        Some(vec![Fact::QueueIds { next }])
    }
}

fn bound(binding: Binding) -> Fact {
    let Binding {
        source,
        destination,
        key,
        arguments,
    } = binding;
    Fact::Bound {
        source,
        destination,
        key,
        arguments,
    }
}

/// Copies durable messages of a queue from a place on; returns where to go on, if there may be more.
fn copy_messages(
    now: Now,
    queue: &Queue,
    from: Position,
    facts: &mut Vec<Fact>,
) -> Option<Position> {
    let find = |state, from| queue.messages.find(state, from, |slot| slot.durable);
    let mut next =
        [State::Ready, State::Held, State::Dying].map(|state| (state, find(state, from)));
    let mut bytes = 0;
    for _ in 0..SLICE_MESSAGES {
        let place = next.iter().filter_map(|(_, position)| *position).min()?;
        for (state, position) in &mut next {
            if *position == Some(place) {
                *position = find(*state, Position(place.0 + 1));
            }
        }
        if let Some(slot) = queue.messages.slot(place) {
            copy_message(now, queue, place, slot, facts);
            bytes += if slot.body == Lsn(0) {
                slot.message.bare_len()
            } else {
                0
            };
        }
        if bytes >= SLICE_BYTES {
            return Some(Position(place.0 + 1));
        }
    }
    next.iter().filter_map(|(_, position)| *position).min()
}

fn copy_message(now: Now, queue: &Queue, position: Position, slot: &Slot, facts: &mut Vec<Fact>) {
    let age_ms = i64::try_from(now.mono.since(slot.arrived)).unwrap_or(i64::MAX);
    let is_mortal = slot.deadline != Millis::NEVER;
    facts.push(Fact::Inserted {
        message: slot.message.clone(),
        route: slot.route.clone(),
        body: if slot.body == Lsn(0) {
            Body::Carried
        } else {
            Body::At(slot.body)
        },
        entries: vec![Entry {
            queue: queue.id,
            position,
            arrived: Timestamp(now.wall.0.saturating_sub(age_ms)),
            ttl_ms: is_mortal.then(|| slot.deadline.since(slot.arrived)),
        }],
    });
    let queue_id = queue.id;
    if let Some(pending) = queue.pending.entry(position) {
        facts.push(Fact::DeadPending {
            queue: queue_id,
            position,
            reason: pending.reason,
            message: slot.message.clone(),
            targets: pending.targets.clone(),
        });
    }
    if slot.failures > 0 || slot.acquired > 0 {
        facts.push(Fact::Returned {
            queue: queue_id,
            position,
            failures: slot.failures,
            acquired: slot.acquired,
            message: None,
        });
    }
}
