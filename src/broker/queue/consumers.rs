//! The consumers of one queue, and their order of service.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use crate::base::limits::TURN_MESSAGES_MAX;
use crate::base::{ConsumerId, invariant, uncount};

/// Consumers by id, and rings of those with credit, highest priority first. No operation takes
/// longer with more consumers: a connection may close with thousands.
#[derive(Debug, Default)]
pub struct Consumers {
    all: BTreeMap<ConsumerId, Member>,
    by_arrival: BTreeMap<u64, ConsumerId>,
    rings: Vec<Ring>,
    /// Whether one consumer is exclusive.
    exclusive: bool,
    /// Whether only the active consumer gets messages.
    single_active: bool,
    active: Option<ConsumerId>,
    /// With a single active consumer: who takes over. Highest priority first, then the longest
    /// attached.
    by_rank: BTreeSet<(Reverse<i32>, u64, ConsumerId)>,
    /// Draining consumers in the order they asked, some of which may be gone.
    draining: Vec<ConsumerId>,
    /// Number of draining consumers that are not gone.
    draining_count: usize,
    /// The next number for an arrival or for an entry of a ring.
    next_number: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    priority: i32,
    /// Its number of arrival: lower means attached longer.
    came: u64,
    /// Its number in its ring; none: it does not wait there.
    waits: Option<u64>,
    /// Whether it is draining, and to be told when everything was delivered.
    drains: bool,
}

#[derive(Debug)]
struct Ring {
    priority: i32,
    /// Waiting consumers, with entries of removed ones (except at the front), which are recognised
    /// by their numbers and skipped.
    waiting: VecDeque<(u64, ConsumerId)>,
    /// Number of such entries.
    gone: usize,
    /// Turns left in this round, that of the first consumer included.
    round: usize,
    /// Messages in each turn of this round.
    share: u32,
    /// Messages left in the turn of the first consumer.
    turn: u32,
}

impl Ring {
    const fn new(priority: i32) -> Self {
        Self {
            priority,
            waiting: VecDeque::new(),
            gone: 0,
            round: 0,
            share: 0,
            turn: 0,
        }
    }

    fn end_turn(&mut self) {
        self.round = self.round.saturating_sub(1);
        self.turn = self.share;
    }

    /// Number of waiting consumers.
    fn len(&self) -> usize {
        self.waiting.len() - self.gone
    }

    /// Removes the entry with this number; in `all` the consumer must not be marked as waiting any
    /// more.
    fn remove(&mut self, number: u64, all: &BTreeMap<ConsumerId, Member>) {
        if self
            .waiting
            .front()
            .is_some_and(|(first, _)| *first == number)
        {
            self.waiting.pop_front();
            self.end_turn();
            self.pass_gone(all);
            return;
        }
        self.gone += 1;
        if self.gone > self.waiting.len() / 2 {
            self.waiting.retain(|waiting| is_there(all, *waiting));
            self.gone = 0;
        }
    }

    /// Skips entries of removed consumers at the front.
    fn pass_gone(&mut self, all: &BTreeMap<ConsumerId, Member>) {
        while self.gone > 0
            && let Some(first) = self.waiting.front()
            && !is_there(all, *first)
        {
            self.waiting.pop_front();
            uncount!(
                self.gone,
                1,
                "a consumer that waits and is gone was counted"
            );
        }
    }
}

fn is_there(all: &BTreeMap<ConsumerId, Member>, (number, id): (u64, ConsumerId)) -> bool {
    all.get(&id)
        .is_some_and(|member| member.waits == Some(number))
}

impl Consumers {
    /// No consumers yet.
    pub fn new(single_active: bool) -> Self {
        Self {
            single_active,
            ..Self::default()
        }
    }

    /// Number of consumers.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one of them is exclusive.
    pub const fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether only the active one gets messages.
    pub const fn is_single_active(&self) -> bool {
        self.single_active
    }

    /// Whether a consumer waits in its ring.
    pub fn is_waiting(&self, id: ConsumerId) -> bool {
        let member = self.all.get(&id);
        member.is_some_and(|member| member.waits.is_some())
    }

    /// All of them, in order of arrival.
    pub fn ids(&self) -> impl Iterator<Item = ConsumerId> {
        self.by_arrival.values().copied()
    }

    /// Consumers with a higher number of arrival, with that number: for paged listings.
    pub fn ids_after(&self, arrival: u64) -> impl Iterator<Item = (u64, ConsumerId)> {
        let behind = (Bound::Excluded(arrival), Bound::Unbounded);
        let behind = self.by_arrival.range(behind);
        behind.map(|(arrival, id)| (*arrival, *id))
    }

    /// Whether another consumer may attach.
    pub fn admits(&self, exclusive: bool) -> bool {
        !self.exclusive && (!exclusive || self.all.is_empty())
    }

    /// Adds a consumer.
    pub fn add(&mut self, id: ConsumerId, priority: i32, exclusive: bool) {
        let came = self.number();
        let member = Member {
            priority,
            came,
            waits: None,
            drains: false,
        };
        self.all.insert(id, member);
        self.by_arrival.insert(came, id);
        self.exclusive |= exclusive;
        if self.single_active {
            self.by_rank.insert((Reverse(priority), came, id));
            self.active = self.active.or(Some(id));
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Removes a consumer. With a single active consumer, returns the one that takes over: the
    /// highest priority, then the longest attached.
    pub fn remove(&mut self, id: ConsumerId) -> Option<ConsumerId> {
        self.park(id);
        let Some(member) = self.all.remove(&id) else {
            invariant!(broken, "a consumer that goes is in its queue");
            return None;
        };
        self.by_arrival.remove(&member.came);
        uncount!(
            self.draining_count,
            usize::from(member.drains),
            "a consumer that drains was counted"
        );
        self.by_rank
            .remove(&(Reverse(member.priority), member.came, id));
        if self.all.is_empty() {
            self.exclusive = false;
            self.draining.clear();
        }
        if self.active != Some(id) {
            return None;
        }
        self.active = self.by_rank.first().map(|(_, _, id)| *id);
        self.active
    }

    /// Passes over a consumer until it is resumed. If it was the single active one, returns the one
    /// that takes over.
    pub fn suspend(&mut self, id: ConsumerId) -> Option<ConsumerId> {
        let Some(member) = self.all.get(&id) else {
            invariant!(broken, "a consumer that is passed over is in its queue");
            return None;
        };
        self.by_rank
            .remove(&(Reverse(member.priority), member.came, id));
        if self.active != Some(id) {
            return None;
        }
        self.active = self.by_rank.first().map(|(_, _, id)| *id);
        self.active
    }

    /// Takes a consumer into account again that was passed over.
    pub fn resume(&mut self, id: ConsumerId) {
        if let Some(member) = self.all.get(&id)
            && self.single_active
        {
            self.by_rank
                .insert((Reverse(member.priority), member.came, id));
            self.active = self.active.or(Some(id));
        }
    }

    /// Whether this consumer gets messages at all: with a single active consumer only one does.
    pub fn is_fed(&self, id: ConsumerId) -> bool {
        !self.single_active || self.active == Some(id)
    }

    /// Puts a consumer with credit at the end of its ring.
    pub fn wait(&mut self, id: ConsumerId) {
        let number = self.number();
        let Some(member) = self.all.get_mut(&id).filter(|it| it.waits.is_none()) else {
            return invariant!(broken, "who begins to wait is there and did not wait");
        };
        member.waits = Some(number);
        let priority = member.priority;
        let at = self.rings.partition_point(|ring| ring.priority > priority);
        let ring = self.rings.get(at);
        if ring.is_none_or(|ring| ring.priority != priority) {
            self.rings.insert(at, Ring::new(priority));
        }
        if let Some(ring) = self.rings.get_mut(at) {
            ring.waiting.push_back((number, id));
        }
    }

    /// Takes a consumer without credit or room out of its ring.
    pub fn park(&mut self, id: ConsumerId) {
        let Some(member) = self.all.get_mut(&id) else {
            return invariant!(broken, "a consumer that waits no more is in its queue");
        };
        let (priority, waits) = (member.priority, member.waits.take());
        let at = self.rings.partition_point(|ring| ring.priority > priority);
        if let Some(number) = waits {
            let Some(ring) = self.rings.get_mut(at) else {
                return invariant!(broken, "who waits stands in a ring");
            };
            ring.remove(number, &self.all);
            if ring.len() == 0 {
                self.rings.remove(at);
            }
        }
    }

    /// The consumer whose turn it is.
    pub fn front(&self) -> Option<ConsumerId> {
        self.rings.first()?.waiting.front().map(|(_, id)| *id)
    }

    /// The consumers that wait for messages, in the order in which their turns come.
    pub fn waiting(&self) -> impl Iterator<Item = ConsumerId> {
        let waiting = self.rings.iter().flat_map(|ring| &ring.waiting);
        let there = waiting.filter(|waiting| is_there(&self.all, **waiting));
        there.map(|(_, id)| *id)
    }

    /// Whether more than one consumer waits for messages, so that they take turns.
    #[inline]
    pub fn has_rivals(&self) -> bool {
        let ring = self.rings.first();
        self.rings.len() > 1 || ring.is_some_and(|ring| ring.waiting.len() > 1)
    }

    /// Counts a message given to the first consumer, of `ready` messages (this one included): its
    /// turn goes on, or passes to the next. All turns of a round have the same length, and the
    /// round ends with the last message, so that messages that arrive one by one are shared evenly
    /// too.
    #[inline]
    pub fn served(&mut self, ready: u64) {
        self.serve_one(ready, false);
    }

    /// The same if the turn ends with this message.
    pub fn served_last(&mut self, ready: u64) {
        self.serve_one(ready, true);
    }

    #[inline]
    fn serve_one(&mut self, ready: u64, is_last: bool) {
        let Some(ring) = self.rings.first_mut() else {
            return invariant!(broken, "who was served stands in a ring");
        };
        if ring.round == 0 {
            ring.round = ring.len();
            let share = match ring.round {
                0 | 1 => ready,
                consumers => ready / consumers as u64,
            };
            let share = u32::try_from(share).unwrap_or(TURN_MESSAGES_MAX);
            ring.share = share.clamp(1, TURN_MESSAGES_MAX);
            ring.turn = ring.share;
        }
        uncount!(ring.turn, 1, "a turn has a message left");
        if ring.turn == 0 || ready == 1 || is_last {
            if ring.waiting.len() > 1 {
                ring.waiting.rotate_left(1);
                ring.pass_gone(&self.all);
            }
            ring.end_turn();
        }
        if ready == 1 {
            ring.round = 0;
        }
    }

    /// Marks a consumer as draining.
    pub fn drain(&mut self, id: ConsumerId) {
        if let Some(member) = self.all.get_mut(&id)
            && !std::mem::replace(&mut member.drains, true)
        {
            self.draining.push(id);
            self.draining_count += 1;
        }
    }

    /// Takes the draining consumers.
    pub fn take_draining(&mut self) -> Vec<ConsumerId> {
        self.draining_count = 0;
        let asked = std::mem::take(&mut self.draining).into_iter();
        let wants = |id: &ConsumerId| {
            let member = self.all.get_mut(id);
            member.is_some_and(|member| std::mem::take(&mut member.drains))
        };
        asked.filter(wants).collect()
    }

    /// Whether any consumer is draining.
    pub const fn has_draining(&self) -> bool {
        self.draining_count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each that left was looked for among all others: a connection with 16,000 links took seconds to
    /// leave, in one step.
    #[test]
    fn thousands_of_consumers_leave_without_a_look_at_the_others() {
        const COUNT: u64 = 50_000;
        let mut consumers = Consumers::new(true);
        for id in (0..COUNT).map(ConsumerId) {
            consumers.add(id, 0, false);
            consumers.wait(id);
            consumers.drain(id);
        }
        // From the end, so that looking from the beginning would find each last: 1.2 thousand million steps.
        for id in (1..COUNT).rev().map(ConsumerId) {
            assert_eq!(consumers.remove(id), None);
            assert!(consumers.rings[0].waiting.len() <= 2 * consumers.len() + 2);
        }
        assert_eq!(consumers.front(), Some(ConsumerId(0)));
        assert_eq!(consumers.take_draining(), [ConsumerId(0)]);
        assert_eq!(consumers.remove(ConsumerId(0)), None);
        assert!(consumers.front().is_none() && consumers.rings.is_empty());
    }

    #[test]
    fn who_left_the_ring_is_passed_over_and_may_come_again() {
        let mut consumers = Consumers::new(false);
        let ids: Vec<ConsumerId> = (0..6).map(ConsumerId).collect();
        for id in &ids {
            consumers.add(*id, 0, false);
            consumers.wait(*id);
        }
        consumers.park(ids[1]);
        consumers.remove(ids[2]);
        consumers.wait(ids[1]);
        let mut served = Vec::new();
        for _ in 0..6 {
            served.extend(consumers.front());
            consumers.served(1);
        }
        let order = [0, 3, 4, 5, 1, 0].map(ConsumerId);
        assert_eq!(served, order);
        consumers.park(ids[3]);
        assert_eq!(consumers.front(), Some(ids[4]));
    }

    #[test]
    fn the_next_active_consumer_has_the_highest_priority_and_is_the_longest_there() {
        let mut consumers = Consumers::new(true);
        for (id, priority) in [(9, 0), (8, 1), (7, 2), (6, 2)] {
            consumers.add(ConsumerId(id), priority, false);
        }
        assert!(consumers.is_fed(ConsumerId(9)));
        assert_eq!(consumers.remove(ConsumerId(9)), Some(ConsumerId(7)));
        assert_eq!(consumers.remove(ConsumerId(6)), None);
        assert_eq!(consumers.remove(ConsumerId(7)), Some(ConsumerId(8)));
        assert_eq!(consumers.remove(ConsumerId(8)), None);
        assert!(consumers.is_empty());
    }

    #[test]
    fn a_suspended_consumer_is_active_again_only_when_nobody_else_is() {
        let [first, second] = [ConsumerId(1), ConsumerId(2)];
        let mut consumers = Consumers::new(true);
        consumers.add(first, 0, false);
        consumers.add(second, 0, false);
        assert_eq!(consumers.suspend(first), Some(second));
        consumers.resume(first);
        assert!(consumers.is_fed(second) && !consumers.is_fed(first));
        assert_eq!(consumers.suspend(second), Some(first));
        assert_eq!(consumers.suspend(first), None);
        assert!(!consumers.is_fed(first) && !consumers.is_fed(second));
        consumers.resume(second);
        assert!(consumers.is_fed(second));
        assert_eq!(consumers.remove(first), None);
        assert_eq!(consumers.remove(second), None);
    }
}
