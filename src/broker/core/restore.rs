//! Rebuilding a core from the journal's records. Applying a fact twice equals applying it once.
#![deny(clippy::wildcard_enum_match_arm)]

mod facts;

use std::collections::{BTreeMap, BTreeSet};

use super::consumer_links::LinksRead;
use super::{Core, CoreOptions};
use crate::base::{Lsn, Name, Now, Position, QueueId, Timestamp};
use crate::broker::queue::{DiskRef, Growth, MessageState, Queue, names};
use crate::broker::subscription::BrokenFilter;
use crate::broker::{DropCause, Fact, Record};

/// Applies records to a new core, in the order of their LSNs. Messages stay on disk.
#[derive(Debug)]
pub struct Restoring {
    core: Core,
    now: Now,
    /// Milliseconds between the last time stamp of the journal and now that count as passed.
    down_ms: u64,
    /// The last time stamp of the journal.
    stopped: Timestamp,
    /// Queues that messages entered without a declaration, which was lost to damage.
    orphans: BTreeSet<QueueId>,
    /// Queues of subscriptions whose filters do not compile.
    broken_filters: BTreeMap<QueueId, BrokenFilter>,
    /// What is known of consumers' links that outlive the broker.
    links: LinksRead,
}

impl Restoring {
    /// Begins. `stopped` is the last wall-clock time stamp of the journal: the time until
    /// `now.wall` counts as passed, negative times as 0, and times above `down_max_ms` as 0, too.
    /// `now.mono` must be larger than the age of any message, else that message lives longer by the
    /// difference.
    pub fn new(options: CoreOptions, now: Now, stopped: Timestamp, down_max_ms: u64) -> Self {
        let down_ms = u64::try_from(now.wall.0.saturating_sub(stopped.0)).unwrap_or(0);
        let down_ms = if down_ms > down_max_ms { 0 } else { down_ms };
        let mut core = Core::new(options);
        core.router.keep_unused(true);
        Self {
            core,
            now,
            down_ms,
            stopped,
            orphans: BTreeSet::new(),
            broken_filters: BTreeMap::new(),
            links: LinksRead::default(),
        }
    }

    /// The core as rebuilt so far, read-only.
    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// Applies the facts of one record.
    pub fn record(&mut self, record: &Record) {
        for fact in &record.facts {
            self.fact(record.lsn, fact);
        }
        self.core.recorder.resume_after(record.lsn);
    }

    /// Applies one part of a checkpoint.
    pub fn checkpoint(&mut self, piece: &Record) {
        self.record(piece);
        self.note_copied(piece);
    }

    /// Notes that a checkpoint has a copy of a block of messages, see [`Core::note_copied`].
    pub fn note_copied_block(&mut self, block: (QueueId, Position), copy: Lsn) {
        self.core.note_copied(block, copy);
    }

    /// Notes that a part of a checkpoint is the copy of a block of messages, which the next
    /// checkpoint can keep. Not if the block size was another, so that it covers a part of a block,
    /// or of two.
    fn note_copied(&mut self, piece: &Record) {
        let mut checkpointed = piece.facts.iter().filter_map(|fact| {
            if let Fact::Checkpointed { queue, messages } = fact {
                Some((queue, messages))
            } else {
                None
            }
        });
        let (Some((id, messages)), None) = (checkpointed.next(), checkpointed.next()) else {
            return;
        };
        let Some(queue) = self.core.queues.get_mut(id) else {
            return;
        };
        if let (Some(first), Some(last)) = (messages.first(), messages.last())
            && last.position < queue.messages.block_end(first.position)
            && queue.messages.live_in(first.position) == messages.len()
        {
            queue.messages.note_copied(first.position, piece.lsn);
        }
    }

    /// The LSNs that messages refer to, rising, once all records are applied. These records must
    /// stay readable. To be called once.
    pub fn names(&mut self) -> Vec<Lsn> {
        let messages = |queue: &Queue| queue.messages.usage().1.messages;
        let count: u64 = self.core.queues().map(messages).sum();
        // The list is long if there are many messages: allocated once, at its exact size.
        let mut named = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for queue in self.core.queues() {
            each_message(queue, |_, disk_ref| {
                named.extend(names(disk_ref.envelope, disk_ref.body));
            });
        }
        named.sort_unstable();
        let recorder = &mut self.core.recorder;
        named.dedup_by(|name, before| {
            let is_shared = name == before;
            if is_shared {
                recorder.share(*name, 1);
            }
            is_shared
        });
        named
    }

    /// Drops the messages that refer to one of these records as damaged, since the records are
    /// missing. Returns the number of messages.
    pub fn discard_lost(&mut self, lost: &BTreeSet<Lsn>) -> u64 {
        if lost.is_empty() {
            return 0;
        }
        let mut damaged = Vec::new();
        for queue in self.core.queues() {
            each_message(queue, |position, disk_ref| {
                if names(disk_ref.envelope, disk_ref.body).any(|name| lost.contains(&name)) {
                    damaged.push((queue.id, position));
                }
            });
        }
        for (id, position) in &damaged {
            self.remove(*id, *position);
            if let Some(queue) = self.core.queues.get_mut(id) {
                let drops = &mut queue.counters.drops;
                drops.add(self.now.mono, None, DropCause::Damaged, 1);
            }
        }
        damaged.len() as u64
    }

    /// Queues whose declaration is lost, each with the number of messages found: they are kept in a
    /// classic queue of that id with a new name.
    pub fn orphans(&self) -> impl Iterator<Item = (QueueId, &Name, u64)> {
        let queues = self
            .orphans
            .iter()
            .filter_map(|id| self.core.queues.get(id));
        queues.map(|queue| {
            let mut messages = 0;
            each_message(queue, |_, _| messages += 1);
            (queue.id, &queue.name, messages)
        })
    }

    /// Queues of subscriptions whose filters do not compile, each with the filter that is wrong and
    /// why: they take all messages.
    pub fn broken_filters(&self) -> impl Iterator<Item = (&Name, &BrokenFilter)> {
        let broken = self.broken_filters.iter();
        broken.filter_map(|(id, why)| Some((&self.core.queues.get(id)?.name, why)))
    }

    /// Ends: settings are computed, queues are scheduled.
    pub fn finish(mut self) -> Core {
        self.core.router.keep_unused(false);
        self.core.policies_changed();
        let core = &mut self.core;
        let queues = core.queues.iter().map(|(_, queue)| &**queue);
        core.deaths.restored(&mut core.counters, queues);
        self.core.pass_queue_ids();
        self.core.restart_redrives(self.now);
        for id in self.core.names.values().copied().collect::<Vec<_>>() {
            self.core.schedule(id);
            if let Some(queue) = self.core.queues.get_mut(&id) {
                let policies = &self.core.policies;
                let settings = policies.settings(&queue.name, &queue.arguments);
                queue.settings = self.core.options.settings_of(&queue.name, settings);
                // The journal may lack the last drops for its limit.
                queue.growth = Growth::Restored;
                let usage = queue.messages.usage();
                self.core.memory.change(Default::default(), usage);
            }
        }
        self.core.set_policy_alternates();
        self.core.restore_consumer_links(self.now, self.links);
        self.core
    }
}

/// Visits the messages of a queue that is being restored, by state and position.
fn each_message(queue: &Queue, mut with: impl FnMut(Position, &DiskRef)) {
    for state in [
        MessageState::Ready,
        MessageState::Delayed,
        MessageState::Dying,
    ] {
        let mut from = Position(0);
        while let Some(position) = queue.messages.find(state, from) {
            from = Position(position.0 + 1);
            if let Some(disk_ref) = queue.messages.disk_ref(position) {
                with(position, &disk_ref);
            }
        }
    }
}
