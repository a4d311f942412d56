//! The consumers of one queue, and their order of service.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::rings::Rings;
use crate::base::{ConsumerId, invariant};

/// Consumers by id, and rings of those with credit, highest priority first. No operation takes
/// longer with more consumers: a connection may close with thousands.
#[derive(Debug, Default)]
pub struct Consumers {
    all: BTreeMap<ConsumerId, Member>,
    by_arrival: BTreeMap<u64, ConsumerId>,
    rings: Rings,
    /// Whether one consumer is exclusive.
    exclusive: bool,
    /// Whether only the active consumer gets messages.
    single_active: bool,
    active: Option<ConsumerId>,
    /// With a single active consumer: who takes over. Highest priority first, then the longest
    /// attached.
    by_rank: BTreeSet<(Reverse<i32>, u64, ConsumerId)>,
    /// Draining consumers, by the number under which they asked.
    draining: BTreeMap<u64, ConsumerId>,
    /// Those of them that may have nothing to wait for any more.
    unchecked: BTreeSet<u64>,
    /// The next number for an arrival, for an entry of a ring, or for who drains.
    next_number: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    priority: i32,
    /// Its number of arrival: lower means attached longer.
    came: u64,
    /// Its number in its ring; none: it does not wait there.
    pub(super) waits: Option<u64>,
    /// Its number if it is draining, and to be told when everything was delivered.
    drains: Option<u64>,
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
            drains: None,
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
        if let Some(number) = member.drains {
            self.draining.remove(&number);
            self.unchecked.remove(&number);
        }
        self.by_rank
            .remove(&(Reverse(member.priority), member.came, id));
        if self.all.is_empty() {
            self.exclusive = false;
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
        self.rings.push(member.priority, (number, id));
    }

    /// Takes a consumer without credit or room out of its ring.
    pub fn park(&mut self, id: ConsumerId) {
        let Some(member) = self.all.get_mut(&id) else {
            return invariant!(broken, "a consumer that waits no more is in its queue");
        };
        let (priority, waits) = (member.priority, member.waits.take());
        if let Some(number) = member.drains
            && self.draining.contains_key(&number)
        {
            self.unchecked.insert(number);
        }
        if let Some(number) = waits {
            self.rings.remove(priority, number, &self.all);
        }
    }

    /// The consumer whose turn it is.
    pub fn front(&self) -> Option<ConsumerId> {
        self.rings.front()
    }

    /// The consumers that wait for messages, in the order in which their turns come.
    pub fn waiting(&self) -> impl Iterator<Item = ConsumerId> {
        self.rings.waiting(&self.all)
    }

    /// Whether more than one consumer waits for messages, so that they take turns.
    #[inline]
    pub fn has_rivals(&self) -> bool {
        self.rings.has_rivals()
    }

    /// Counts a message given to the first consumer, of `ready` messages (this one included): its
    /// turn goes on, or passes to the next. All turns of a round have the same length, and the
    /// round ends with the last message, so that messages that arrive one by one are shared evenly
    /// too.
    #[inline]
    pub fn served(&mut self, ready: u64) {
        self.rings.serve_one(ready, false, &self.all);
    }

    /// The same if the turn ends with this message.
    pub fn served_last(&mut self, ready: u64) {
        self.rings.serve_one(ready, true, &self.all);
    }
}

/// Draining consumers. One that has credit while messages are ready waits for them: in its ring, or until its
/// session or connection has room. It is looked at again when its credit is used up and when it leaves the ring,
/// not each time that its queue is served: thousands may wait.
impl Consumers {
    /// Marks a consumer as draining.
    pub fn drain(&mut self, id: ConsumerId) {
        let number = self.number();
        if let Some(member) = self.all.get_mut(&id) {
            let number = *member.drains.get_or_insert(number);
            self.draining.insert(number, id);
            self.unchecked.insert(number);
        }
    }

    /// Looks at a consumer whose credit was used up in its turn, if it is draining: its next turn may be long in
    /// coming.
    #[inline]
    pub fn end_turn(&mut self, id: ConsumerId, has_credit: bool) {
        if !self.draining.is_empty() && !has_credit {
            self.check_drain(id);
        }
    }

    /// Looks at a consumer again, if it is draining; whether it is.
    pub fn check_drain(&mut self, id: ConsumerId) -> bool {
        let Some(number) = self.all.get(&id).and_then(|member| member.drains) else {
            return false;
        };
        self.draining.insert(number, id);
        self.unchecked.insert(number);
        true
    }

    /// Looks at a draining consumer only when [`Consumers::check_drain`] says so: it waits for something else
    /// than messages of the queue.
    pub fn postpone_drain(&mut self, id: ConsumerId) {
        let member = self.all.get(&id);
        if let Some(number) = member.and_then(|member| member.drains) {
            self.draining.remove(&number);
            self.unchecked.remove(&number);
        }
    }

    /// Whether there are draining consumers to look at, with this number of ready messages.
    pub fn has_drains(&self, ready: u64) -> bool {
        !self.unchecked.is_empty() || (ready == 0 && !self.draining.is_empty())
    }

    /// Takes some of the draining consumers to look at, with this number of ready messages, in the order they
    /// asked.
    pub fn take_drains(&mut self, ready: u64, count: usize) -> Vec<ConsumerId> {
        let mut taken = Vec::new();
        if ready == 0 {
            taken.extend(self.draining.values().take(count).copied());
            return taken;
        }
        while taken.len() < count
            && let Some(number) = self.unchecked.pop_first()
        {
            taken.extend(self.draining.get(&number));
        }
        taken
    }

    /// Notes that a consumer is told that everything was delivered.
    pub fn end_drain(&mut self, id: ConsumerId) {
        let member = self.all.get_mut(&id);
        if let Some(number) = member.and_then(|member| member.drains.take()) {
            self.draining.remove(&number);
            self.unchecked.remove(&number);
        }
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
        }
        assert_eq!(consumers.front(), Some(ConsumerId(0)));
        assert_eq!(consumers.take_drains(1, 10), [ConsumerId(0)]);
        assert!(!consumers.has_drains(1) && consumers.has_drains(0));
        assert_eq!(consumers.remove(ConsumerId(0)), None);
        assert!(consumers.front().is_none() && !consumers.has_drains(0));
    }

    /// Those that wait for a window were looked at whenever their queue was served: 16,384 of one connection held
    /// all others up for 0.1 to 0.5 s.
    #[test]
    fn a_draining_consumer_is_looked_at_when_it_asks_and_when_it_leaves_the_ring_and_not_in_between()
     {
        let mut consumers = Consumers::new(false);
        let ids: Vec<ConsumerId> = (0..1_000).map(ConsumerId).collect();
        for id in &ids {
            consumers.add(*id, 0, false);
            consumers.wait(*id);
            consumers.drain(*id);
        }
        let mut taken = Vec::new();
        while consumers.has_drains(1) {
            taken.extend(consumers.take_drains(1, 64));
        }
        assert_eq!(taken, ids);
        assert_eq!(consumers.take_drains(1, 64), []);
        consumers.park(ids[7]);
        assert_eq!(consumers.take_drains(1, 64), [ids[7]]);
        consumers.drain(ids[9]); // it asks again
        consumers.remove(ids[8]);
        assert_eq!(consumers.take_drains(1, 64), [ids[9]]);
        // Without a message all are told, some at a time.
        assert!(!consumers.has_drains(1) && consumers.has_drains(0));
        let mut told = 0;
        while consumers.has_drains(0) {
            for id in consumers.take_drains(0, 64) {
                consumers.end_drain(id);
                told += 1;
            }
        }
        assert_eq!(told, 999);
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
