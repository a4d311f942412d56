//! Snapshots: all durable state as facts, copied in slices while the core goes on; the content of a
//! checkpoint.
//!
//! The copy is fuzzy: a slice has its part of the state as of the moment it is copied. Facts that
//! came after the snapshot began are applied to it again, and applying one twice equals applying it
//! once.
//!
//! Messages are copied block by block. A block remembers the LSN of its copy until one of its
//! messages changes; until then the next snapshot refers to that copy instead of making a new one.

use super::Core;
use super::consumer_links::{ConsumerLinks, acquired};
use super::delaying::delayed;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Lsn, Millis, Name, Now, Position, QueueId, Timestamp};
use crate::broker::binding::Binding;
use crate::broker::death_counts::VhostDeaths;
use crate::broker::queue::{DiskRef, Queue, next_subqueue, subqueue};
use crate::broker::router::BindingsOf;
use crate::broker::{CheckpointedMessage, Fact, TopologyFact};

/// Exchanges, queues or bindings examined in one slice at most.
const SLICE_THINGS: usize = 256;

/// The progress of a snapshot.
#[derive(Debug)]
pub struct Snapshot {
    step: CopyStep,
    /// Ids of durable queues that are older than the snapshot; once these are declared in it, by
    /// rising id, those whose messages are still to be copied, the next one last.
    queues: Vec<QueueId>,
    /// The position in that queue at which copying goes on.
    from: Position,
    /// The ends of that queue's subqueues when its copying began: later messages are in the log.
    ends: Vec<Position>,
    /// Copies with lower LSNs are not kept.
    trusted: Lsn,
    next_queue: QueueId,
}

/// A part of all durable state.
#[derive(Debug, Default)]
pub struct SnapshotSlice {
    /// LSNs of earlier copies that are still valid; they come before the facts.
    pub kept: Vec<Lsn>,
    /// The facts of this slice; may be empty.
    pub facts: Vec<Fact>,
    /// The block that the facts are a whole copy of: report the LSN of the copy to
    /// [`Core::note_copied`], under the same hold of the lock.
    pub block: Option<(QueueId, Position)>,
}

impl SnapshotSlice {
    fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.facts.is_empty()
    }
}

/// The next part to copy.
#[derive(Debug)]
enum CopyStep {
    /// Exchanges behind this name.
    Exchanges(Option<Name>),
    /// Collecting the ids of queues behind this name.
    Ids(Option<Name>),
    /// Declarations of queues, of which this many are done.
    Queues(usize),
    /// Bindings behind this one.
    Bindings(Option<Binding>),
    Policies,
    /// Links of publishers behind this number.
    PublisherLinks(u64),
    /// Links of consumers behind this number.
    ConsumerLinks(u64),
    Messages,
    End,
}

impl Core {
    /// Begins a snapshot: topology and policies come first, queues in the order of their ids, so
    /// that they can be declared again from it. `trusted`: copies with lower LSNs are not kept,
    /// since the checkpoint they were made for was not completed; usually 0.
    pub const fn begin_snapshot(&self, trusted: Lsn) -> Snapshot {
        Snapshot {
            step: CopyStep::Exchanges(None),
            queues: Vec::new(),
            from: Position(0),
            ends: Vec::new(),
            trusted,
            next_queue: QueueId(self.next_queue),
        }
    }

    /// The next slice, which may be empty; none when all is copied.
    pub fn snapshot_slice(&self, now: Now, snapshot: &mut Snapshot) -> Option<SnapshotSlice> {
        let mut slice = SnapshotSlice::default();
        let facts = &mut slice.facts;
        let next = match std::mem::replace(&mut snapshot.step, CopyStep::End) {
            CopyStep::Exchanges(after) => match self.copy_exchanges(after.as_ref(), facts) {
                Some(last) => CopyStep::Exchanges(Some(last)),
                None => CopyStep::Ids(None),
            },
            CopyStep::Ids(after) => match self.collect_ids(after.as_ref(), snapshot) {
                Some(last) => CopyStep::Ids(Some(last)),
                None => CopyStep::Queues(0),
            },
            CopyStep::Queues(done) => {
                let ids = snapshot.queues.iter().skip(done).take(SLICE_THINGS);
                let queues = ids.filter_map(|id| self.queues.get(id));
                for queue in queues {
                    facts.push(declared(queue));
                    let counts = queue.counters.death_counts().into_iter();
                    let queue = queue.id;
                    facts.extend(counts.map(|count| Fact::Died { queue, count }));
                }
                if done + SLICE_THINGS < snapshot.queues.len() {
                    CopyStep::Queues(done + SLICE_THINGS)
                } else {
                    snapshot.queues.reverse();
                    CopyStep::Bindings(None)
                }
            }
            CopyStep::Bindings(after) => match self.copy_bindings(after.as_ref(), facts) {
                Some(last) => CopyStep::Bindings(Some(last)),
                None => CopyStep::Policies,
            },
            CopyStep::Policies => {
                self.copy_policies(facts);
                if self.deaths.vhost != VhostDeaths::NONE {
                    facts.push(Fact::VhostDeaths(Box::new(self.deaths.vhost.clone())));
                }
                facts.extend(self.redrives.facts());
                facts.extend(self.memos.facts(|queue| self.is_kept(queue)));
                facts.extend(self.events.facts());
                CopyStep::PublisherLinks(0)
            }
            CopyStep::PublisherLinks(after) => match self.copy_publisher_links(after, facts) {
                Some(last) => CopyStep::PublisherLinks(last),
                None => CopyStep::ConsumerLinks(0),
            },
            CopyStep::ConsumerLinks(after) => match self.copy_consumer_links(after, facts) {
                Some(last) => CopyStep::ConsumerLinks(last),
                None => CopyStep::Messages,
            },
            CopyStep::Messages => {
                if self.copy_queues(now, snapshot, &mut slice) {
                    CopyStep::Messages
                } else {
                    let next = snapshot.next_queue;
                    slice
                        .facts
                        .push(Fact::Topology(TopologyFact::QueueIds { next }));
                    CopyStep::End
                }
            }
            CopyStep::End => return None,
        };
        snapshot.step = next;
        Some(slice)
    }

    /// Notes that a block of messages was copied as a slice said; `copy` is the LSN of the copy.
    pub fn note_copied(&mut self, (id, block): (QueueId, Position), copy: Lsn) {
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.messages.note_copied(block, copy);
        }
    }

    fn copy_policies(&self, facts: &mut Vec<Fact>) {
        for operator in [false, true] {
            let policies = self.policies.list(operator).cloned().map(Box::new);
            let set = policies.map(|policy| TopologyFact::PolicySet { operator, policy });
            facts.extend(set.map(Fact::Topology));
        }
    }

    /// Copies exchanges behind a name; returns the last if there may be more.
    fn copy_exchanges(&self, after: Option<&Name>, facts: &mut Vec<Fact>) -> Option<Name> {
        let mut last = None;
        let exchanges = self.router.exchanges_after(after).take(SLICE_THINGS);
        for (number, exchange) in (1..).zip(exchanges) {
            let spec = &exchange.spec;
            if self.durable_exchanges.contains(&spec.name) {
                facts.push(Fact::Topology(TopologyFact::ExchangeDeclared(spec.clone())));
            }
            last = (number == SLICE_THINGS).then(|| spec.name.clone());
        }
        last
    }

    /// Collects durable queues behind a name; returns the last if there may be more. Queues
    /// declared after the snapshot began are in the log.
    fn collect_ids(&self, after: Option<&Name>, snapshot: &mut Snapshot) -> Option<Name> {
        let mut last = None;
        for (number, (name, id)) in (1..).zip(self.names_after(after).take(SLICE_THINGS)) {
            let is_durable = self.queues.get(id).is_some_and(|queue| queue.durable);
            if is_durable && *id < snapshot.next_queue {
                snapshot.queues.push(*id);
            }
            last = (number == SLICE_THINGS).then(|| name.clone());
        }
        if last.is_none() {
            snapshot.queues.sort_unstable();
        }
        last
    }

    /// Copies bindings behind one; returns the last if there may be more.
    fn copy_bindings(&self, after: Option<&Binding>, facts: &mut Vec<Fact>) -> Option<Binding> {
        let slice = self.router.bindings_slice(&BindingsOf::default(), after);
        let bindings = slice.found.into_iter();
        let kept = bindings.filter(|one| self.keeps_binding(&one.source, &one.destination));
        facts.extend(kept.map(bound));
        slice.after
    }

    /// Copies messages of queues until a slice is full; false when all are copied.
    fn copy_queues(&self, now: Now, snapshot: &mut Snapshot, slice: &mut SnapshotSlice) -> bool {
        for _ in 0..SLICE_THINGS {
            let Some(id) = snapshot.queues.last() else {
                return false;
            };
            let queue = self.queues.get(id);
            let left = queue.and_then(|queue| {
                if snapshot.from == Position(0) {
                    snapshot.ends = queue.messages.ends();
                }
                copy_messages((now, &self.consumer_links), queue, snapshot, slice)
            });
            if let Some(from) = left {
                snapshot.from = from;
            } else {
                snapshot.queues.pop();
                snapshot.from = Position(0);
            }
            if !slice.is_empty() {
                break;
            }
        }
        true
    }
}

fn declared(queue: &Queue) -> Fact {
    Fact::Topology(TopologyFact::QueueDeclared {
        queue: queue.id,
        name: queue.name.clone(),
        auto_delete: queue.auto_delete,
        arguments: queue.arguments.echoed().to_vec(),
    })
}

fn bound(binding: Binding) -> Fact {
    let Binding {
        source,
        destination,
        key,
        arguments,
        ..
    } = binding;
    Fact::Topology(TopologyFact::Bound {
        source,
        destination,
        key,
        arguments,
    })
}

/// Copies durable messages of a queue from where the snapshot is: first the LSNs of blocks whose
/// copies are kept, then one block. Returns where to go on, if there may be more.
///
/// Positions must rise when the copies are read. So nothing is copied from behind messages that
/// arrived meanwhile, and messages that arrived since the copying of the queue began are not copied
/// at all.
fn copy_messages(
    (now, links): (Now, &ConsumerLinks),
    queue: &Queue,
    snapshot: &Snapshot,
    slice: &mut SnapshotSlice,
) -> Option<Position> {
    let messages = &queue.messages;
    let mut from = snapshot.from;
    while let Some(block) = messages.next_block(from) {
        if slice.kept.len() >= SLICE_THINGS {
            return Some(block);
        }
        let end = messages.end_in(block);
        let bound = snapshot.ends.get(subqueue(block)).copied().unwrap_or(end);
        if block >= bound {
            from = next_subqueue(block);
            continue;
        }
        let copy = messages.copied(block);
        if from <= block && copy > Lsn(0) && copy >= snapshot.trusted {
            slice.kept.push(copy);
            from = messages.block_end(block);
            continue;
        }
        let part = (from.max(block), bound);
        copy_block((now, links), queue, part, &mut slice.facts);
        let is_whole = from <= block && end <= bound;
        if is_whole && !slice.facts.is_empty() {
            slice.block = Some((queue.id, block));
        }
        return Some(messages.block_end(block));
    }
    None
}

/// Copies durable messages of a block between two positions.
fn copy_block(
    (now, links): (Now, &ConsumerLinks),
    queue: &Queue,
    (from, bound): (Position, Position),
    facts: &mut Vec<Fact>,
) {
    let mut slice = Slice::default();
    let disk_refs = queue.messages.disk_refs(from);
    let wanted =
        disk_refs.filter(|(place, disk_ref)| (from..bound).contains(place) && disk_ref.durable);
    #[cfg(test)]
    let wanted = wanted.filter(|(place, _)| {
        let is_held = queue
            .messages
            .is(*place, crate::broker::queue::MessageState::Held);
        !(is_held && is_planted(Plant::CheckpointForgetsHeld))
    });
    for (position, disk_ref) in wanted {
        slice.copy(now, queue, position, &disk_ref);
        #[cfg(test)]
        if is_planted(Plant::CheckpointForgetsAcquired) {
            continue;
        }
        if let Some(of) = links.holder_of(queue, position) {
            let fact = acquired(&mut slice.acquired, queue.id, of);
            slice.acquired.extend(fact);
        }
    }
    if !slice.checkpointed.is_empty() {
        facts.push(Fact::Checkpointed {
            queue: queue.id,
            messages: slice.checkpointed,
        });
    }
    facts.append(&mut slice.facts);
    facts.append(&mut slice.acquired);
}

/// The messages of one slice.
#[derive(Default)]
struct Slice {
    checkpointed: Vec<CheckpointedMessage>,
    /// Further facts about any of them.
    facts: Vec<Fact>,
    /// Which of them links hold that outlive the broker.
    acquired: Vec<Fact>,
}

impl Slice {
    fn copy(&mut self, now: Now, queue: &Queue, position: Position, disk_ref: &DiskRef) {
        let age_ms = i64::try_from(now.mono.since(disk_ref.arrived)).unwrap_or(i64::MAX);
        let arrived = Timestamp(now.wall.0.saturating_sub(age_ms));
        let ttl_ms =
            (disk_ref.deadline != Millis::NEVER).then(|| disk_ref.deadline.since(disk_ref.arrived));
        self.checkpointed.push(CheckpointedMessage {
            position,
            arrived,
            ttl_ms,
            size_bytes: disk_ref.size_bytes,
            envelope: disk_ref.envelope,
            body: disk_ref.body,
            moved_by: disk_ref.moved_by,
        });
        let queue_id = queue.id;
        if let Some(pending) = queue.pending.entry(position) {
            self.facts.push(Fact::DeadPending {
                queue: queue_id,
                position,
                reason: pending.reason,
                targets: pending.targets.clone(),
            });
        }
        if disk_ref.failures > 0 || disk_ref.acquired > 0 {
            self.facts.push(Fact::Returned {
                queue: queue_id,
                position,
                failures: disk_ref.failures,
                acquired: disk_ref.acquired,
            });
        }
        if let Some(delay) = queue.messages.delayed().delay(position) {
            self.facts.push(delayed(now, (queue_id, position), delay));
        }
    }
}
