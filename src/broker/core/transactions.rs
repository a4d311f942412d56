//! A transaction is committed: its messages enter their queues and its outcomes are applied in one
//! step, and stand in one record of the journal. [AMQP 4]
//!
//! ```text
//!   Commit --> does each message have a place? --no--> nothing is changed, Effect::Committed { refused }
//!                         |
//!                        yes --> all of it, in one record --> Effect::Committed once it is durable
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::admission::size_bytes;
use super::delaying::asked;
use super::routed::Routed;
use super::{Core, Turn};
use crate::base::limits::TRANSACTION_ENTRIES_MAX;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{ExchangeId, Meter, Now, QueueId, Step, invariant};
use crate::broker::dead_letter::plan;
use crate::broker::queue::{MessageState, Queue, Slot};
use crate::broker::subscription::NoLocal;
use crate::broker::{
    Commit, Effect, NotCommitted, Outcome, Publish, PublishOutcome, Settle, TooManyQueues,
};
use crate::message::Route;

/// Where a message of a transaction goes.
struct Way {
    exchange: ExchangeId,
    targets: SmallVec<[QueueId; 1]>,
}

/// How many messages and bytes of a transaction enter each queue.
type Entering = BTreeMap<QueueId, (u64, u64)>;

/// Counts a message for a queue: how many and how many bytes enter it with that.
fn enter(entering: &mut Entering, id: QueueId, post: &Publish) -> (u64, u64) {
    let sum = entering.entry(id).or_default();
    sum.0 += 1;
    sum.1 += u64::from(size_bytes(&post.message));
    *sum
}

fn check_entries(entries: usize) -> Result<(), PublishOutcome> {
    if entries <= TRANSACTION_ENTRIES_MAX {
        return Ok(());
    }
    let queues_max = u32::try_from(TRANSACTION_ENTRIES_MAX).unwrap_or(u32::MAX);
    Err(PublishOutcome::TooManyQueues(TooManyQueues { queues_max }))
}

/// Whether a held message dies when it comes back.
fn dies_on_return(now: Now, queue: &Queue, slot: &Slot, failed: bool) -> bool {
    let failures = slot.failures.saturating_add(u32::from(failed));
    let deadline = Some(queue.deadline_of(slot));
    let reason = queue.dies_on_return(now, (failed, failures), deadline);
    reason.is_some()
}

impl Core {
    /// Commits a transaction, or refuses it as a whole.
    pub(super) fn commit(&mut self, turn: &mut Turn<'_>, commit: Commit) {
        let Commit {
            connection,
            token,
            posts,
            outcomes,
        } = commit;
        turn.charge_ns(Step::Message.ns() * (posts.len() + outcomes.len()) as u64);
        let refused = match self.check(turn, &posts, &outcomes) {
            Ok(ways) => {
                self.recorder.keep_whole(true);
                self.enter_all(turn, posts, ways);
                self.settle_all(turn, outcomes);
                self.recorder.keep_whole(false);
                None
            }
            Err(refused) => {
                for body in posts.iter().filter_map(|post| post.message.blob()) {
                    self.recorder.unname(**body);
                }
                Some(refused)
            }
        };
        let lsn = self.recorder.settlement();
        let effect = Effect::Committed {
            token,
            refused,
            lsn,
        };
        turn.effects.outgoing.push((connection, effect));
    }

    /// Where each message goes; or why the transaction is refused. Nothing of it is done.
    fn check(
        &mut self,
        turn: &mut Turn<'_>,
        posts: &[Publish],
        outcomes: &[Settle],
    ) -> Result<Vec<Way>, NotCommitted> {
        let ways = self.find_ways(turn, posts).map_err(NotCommitted::Post)?;
        let entries = ways.iter().map(|way| way.targets.len()).sum();
        self.find_deaths(turn, outcomes, entries)
            .map_err(NotCommitted::Post)?;
        if !outcomes.iter().all(|settle| self.has_effect(settle)) {
            return Err(NotCommitted::NotHeld);
        }
        Ok(ways)
    }

    /// Whether an outcome is of what is held, or of what is gone with its queue, or of a copy.
    fn has_effect(&self, settle: &Settle) -> bool {
        let consumer = settle.consumer;
        self.queue_of(consumer).is_none_or(|queue| {
            self.holds(queue, settle.position, consumer) || self.browses(consumer)
        })
    }

    /// Where each message goes; or why one of them has no place.
    fn find_ways(
        &mut self,
        turn: &mut Turn<'_>,
        posts: &[Publish],
    ) -> Result<Vec<Way>, PublishOutcome> {
        let (mut ways, mut entries) = (Vec::with_capacity(posts.len()), 0);
        for post in posts {
            let way = self.find_way(turn, post)?;
            entries += way.targets.len();
            check_entries(entries)?;
            ways.push(way);
        }
        turn.charge_ns(Step::Entry.ns() * (entries as u64).saturating_sub(posts.len() as u64));
        self.serve_full(turn, posts, &ways);
        // Nothing that is looked at changes from here on.
        let mut entering = Entering::new();
        for (post, way) in posts.iter().zip(&ways) {
            self.find_room(post, way, &mut entering)?;
        }
        Ok(ways)
    }

    /// Checks that what dies by the outcomes does not enter too many queues either; `entries` counts
    /// those that its messages enter.
    fn find_deaths(
        &self,
        turn: &mut Turn<'_>,
        outcomes: &[Settle],
        mut entries: usize,
    ) -> Result<(), PublishOutcome> {
        let before = entries;
        let mut routed = Routed::new(self.options.seed);
        let mut last = None;
        for settle in outcomes {
            let meter = &mut turn.effects.meter;
            entries += self.count_targets(turn.now, meter, settle, (&mut routed, &mut last));
            check_entries(entries)?;
        }
        turn.charge_ns(Step::Entry.ns() * (entries - before) as u64);
        Ok(())
    }

    /// Number of queues that a message enters which dies by its outcome; 0: it lives.
    fn count_targets(
        &self,
        now: Now,
        meter: &mut Meter,
        settle: &Settle,
        (routed, last): (&mut Routed, &mut Option<Arc<Route>>),
    ) -> usize {
        let queue = self.queue_of(settle.consumer);
        let Some(queue) = queue.and_then(|id| self.queues.get(&id)) else {
            return 0;
        };
        let Some(slot) = queue.messages.slot_if(settle.position, MessageState::Held) else {
            return 0;
        };
        let dies = match settle.outcome {
            Outcome::Accepted => false,
            Outcome::Rejected { .. } => true,
            Outcome::Released => dies_on_return(now, queue, slot, false),
            Outcome::Modified {
                delivery_failed,
                undeliverable_here,
                ..
            } => undeliverable_here || dies_on_return(now, queue, slot, delivery_failed),
        };
        let way = plan(&queue.settings, &slot.route, last).filter(|_| dies);
        let exchange = way
            .as_ref()
            .and_then(|way| self.router.id_of(&way.exchange));
        let (Some(way), Some(exchange)) = (way, exchange) else {
            return 0;
        };
        let goes = (&way, &*slot.message);
        routed.find(&self.router, exchange, goes, meter).len()
    }

    /// Lets what is due leave the queues that have no room for all, and what a consumer can take.
    fn serve_full(&mut self, turn: &mut Turn<'_>, posts: &[Publish], ways: &[Way]) {
        let mut entering = Entering::new();
        for (post, way) in posts.iter().zip(ways) {
            for &id in &way.targets {
                enter(&mut entering, id, post);
            }
        }
        for (id, all) in entering {
            if self.would_refuse(id, all) {
                self.serve(turn, id);
            }
        }
    }

    fn find_way(&mut self, turn: &mut Turn<'_>, post: &Publish) -> Result<Way, PublishOutcome> {
        let exchange = self.publish_exchange(post)?;
        let meter = &mut turn.effects.meter;
        let goes = (&post.route, &*post.message);
        let (clients, connection) = (&self.clients, post.connection);
        let is_local = |no_local: &NoLocal| Self::is_local(clients, connection, no_local);
        let targets = (self.routed).find_for(&self.router, exchange, goes, is_local, meter);
        let targets: SmallVec<[QueueId; 1]> = SmallVec::from_slice(targets);
        if targets.is_empty() && self.routed.are_too_many() {
            let queues_max = self.router.queues_max();
            return Err(PublishOutcome::TooManyQueues(TooManyQueues { queues_max }));
        }
        if targets.is_empty() && !post.target.is_topic() {
            return Err(PublishOutcome::Unroutable);
        }
        Ok(Way { exchange, targets })
    }

    /// Checks that no target refuses a message, those before it counted in.
    fn find_room(
        &mut self,
        post: &Publish,
        way: &Way,
        entering: &mut Entering,
    ) -> Result<(), PublishOutcome> {
        let mut gone = 0;
        for &id in &way.targets {
            let sum = enter(entering, id, post);
            let is_first = sum.0 == 1 && post.delivery_time.is_none();
            if !self.would_refuse(id, sum) || (is_first && self.has_taker(id)) {
                continue;
            }
            let Some(queue) = self.queues.get_mut(&id) else {
                gone += 1;
                continue;
            };
            queue.counters.refused += 1;
            let queue = queue.name.clone();
            return Err(PublishOutcome::QueueFull { queue });
        }
        if gone == way.targets.len() && !post.target.is_topic() {
            return Err(PublishOutcome::Unroutable);
        }
        Ok(())
    }

    fn would_refuse(&self, id: QueueId, (count, bytes): (u64, u64)) -> bool {
        let queue = self.queues.get(&id);
        queue.is_none_or(|queue| queue.refuses_all(count, bytes))
    }

    fn enter_all(&mut self, turn: &mut Turn<'_>, posts: Vec<Publish>, ways: Vec<Way>) {
        for (post, way) in posts.into_iter().zip(ways) {
            self.counters.published += 1;
            self.router.count(way.exchange, way.targets.len());
            let blob = post.message.blob().map(|body| **body);
            let delay = post.delivery_time.and_then(|time| asked(turn.now, time));
            let arriving = (post.message, post.route);
            let outcome = self.publish_into(turn, &way.targets, arriving, delay);
            if let Some(body) = blob {
                // The queues it entered refer to the body now.
                self.recorder.unname(body);
            }
            if outcome == PublishOutcome::Unroutable && post.target.is_topic() {
                self.counters.unheard += 1;
            } else if outcome != PublishOutcome::Accepted {
                invariant!(broken, "what enters in a transaction was found a place");
                self.counters.refused += 1;
                continue;
            }
            self.counters.accepted += 1;
            #[cfg(test)]
            self.part(turn);
        }
    }

    fn settle_all(&mut self, turn: &mut Turn<'_>, outcomes: Vec<Settle>) {
        for settle in outcomes {
            self.settle(turn, settle);
            #[cfg(test)]
            self.part(turn);
        }
    }

    /// Ends the record after each operation, if that is planted.
    #[cfg(test)]
    fn part(&mut self, turn: &mut Turn<'_>) {
        if is_planted(Plant::CommitInParts) {
            self.recorder.finish(turn.now, turn.effects);
        }
    }
}
