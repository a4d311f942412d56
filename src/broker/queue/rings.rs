//! The order in which the consumers of one queue are served: a ring for each priority, so that those of
//! one priority take turns.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::consumers::Member;
use crate::base::limits::TURN_MESSAGES_MAX;
use crate::base::{ConsumerId, invariant, uncount};

/// Places that a ring without consumers keeps for the next ones.
const KEPT_PLACES_MAX: usize = 64;

/// Consumers with credit, by id.
type All = BTreeMap<ConsumerId, Member>;

/// A ring for each priority of waiting consumers. As a rule there is one, which is not looked for.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// That of the highest priority; if nobody waits in it, nobody waits.
    first: Ring,
    others: BTreeMap<Reverse<i32>, Ring>,
}

#[derive(Debug, Default)]
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

impl Rings {
    /// Puts a consumer at the end of the ring of its priority, with a number that no other entry has.
    pub(super) fn push(&mut self, priority: i32, entry: (u64, ConsumerId)) {
        if self.first.waiting.is_empty() {
            self.first.begin(priority);
        } else if priority > self.first.priority {
            let before = std::mem::take(&mut self.first);
            self.others.insert(Reverse(before.priority), before);
            self.first.begin(priority);
        }
        if priority == self.first.priority {
            return self.first.waiting.push_back(entry);
        }
        let ring = self.others.entry(Reverse(priority)).or_default();
        ring.priority = priority;
        ring.waiting.push_back(entry);
    }

    /// Takes the consumer with this number out of the ring of its priority; in `all` it must not be
    /// marked as waiting any more.
    pub(super) fn remove(&mut self, priority: i32, number: u64, all: &All) {
        if priority == self.first.priority {
            self.first.remove(number, all);
            if self.first.waiting.is_empty()
                && let Some((_, next)) = self.others.pop_first()
            {
                self.first = next;
            }
            return;
        }
        let Some(ring) = self.others.get_mut(&Reverse(priority)) else {
            return invariant!(broken, "who waits stands in a ring");
        };
        ring.remove(number, all);
        if ring.waiting.is_empty() {
            self.others.remove(&Reverse(priority));
        }
    }

    /// The consumer whose turn it is.
    pub(super) fn front(&self) -> Option<ConsumerId> {
        self.first.waiting.front().map(|(_, id)| *id)
    }

    /// All of them, in the order in which their turns come.
    pub(super) fn waiting(&self, all: &All) -> impl Iterator<Item = ConsumerId> {
        let rings = std::iter::once(&self.first).chain(self.others.values());
        let waiting = rings.flat_map(|ring| &ring.waiting);
        let there = waiting.filter(|waiting| is_there(all, **waiting));
        there.map(|(_, id)| *id)
    }

    /// Whether more than one consumer waits for messages, so that they take turns.
    #[inline]
    pub(super) fn has_rivals(&self) -> bool {
        self.first.waiting.len() > 1 || !self.others.is_empty()
    }

    /// Counts a message given to the first consumer, of `ready` messages (this one included); `is_last` if
    /// its turn ends with it.
    #[inline]
    pub(super) fn serve_one(&mut self, ready: u64, is_last: bool, all: &All) {
        if self.first.waiting.is_empty() {
            return invariant!(broken, "who was served stands in a ring");
        }
        self.first.serve_one(ready, is_last, all);
    }
}

impl Ring {
    /// Begins anew, with nobody in it.
    fn begin(&mut self, priority: i32) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.shrink_to(KEPT_PLACES_MAX);
        *self = Self {
            priority,
            waiting,
            ..Self::default()
        };
    }

    #[inline]
    fn serve_one(&mut self, ready: u64, is_last: bool, all: &All) {
        if self.round == 0 {
            self.round = self.len();
            let share = match self.round {
                0 | 1 => ready,
                consumers => ready / consumers as u64,
            };
            let share = u32::try_from(share).unwrap_or(TURN_MESSAGES_MAX);
            self.share = share.clamp(1, TURN_MESSAGES_MAX);
            self.turn = self.share;
        }
        uncount!(self.turn, 1, "a turn has a message left");
        if self.turn == 0 || ready == 1 || is_last {
            if self.waiting.len() > 1 {
                self.waiting.rotate_left(1);
                self.pass_gone(all);
            }
            self.end_turn();
        }
        if ready == 1 {
            self.round = 0;
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

    /// Removes the entry with this number.
    fn remove(&mut self, number: u64, all: &All) {
        let first = self.waiting.front();
        if first.is_some_and(|(first, _)| *first == number) {
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
    fn pass_gone(&mut self, all: &All) {
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

fn is_there(all: &All, (number, id): (u64, ConsumerId)) -> bool {
    all.get(&id)
        .is_some_and(|member| member.waits == Some(number))
}

#[cfg(test)]
mod tests {
    use super::super::consumers::Consumers;
    use super::*;

    /// Each priority had its place in an array, which each of them moved: a hostile test has the time.
    #[test]
    fn thousands_of_priorities_come_and_go_in_their_order() {
        const COUNT: u64 = 20_000;
        let mut consumers = Consumers::new(false);
        let ids = || (0..COUNT).map(ConsumerId);
        for id in ids() {
            consumers.add(id, i32::try_from(id.0).unwrap(), false);
        }
        for _ in 0..2 {
            // The lowest first: each is put in front of all others.
            ids().for_each(|id| consumers.wait(id));
            assert_eq!(consumers.front(), Some(ConsumerId(COUNT - 1)));
            ids().rev().for_each(|id| consumers.park(id));
            assert_eq!(consumers.front(), None);
        }
    }

    #[test]
    fn whoever_has_the_highest_priority_is_served_first_however_they_come_and_go() {
        let mut consumers = Consumers::new(false);
        for (id, priority) in [(1, 0), (2, 5), (3, -5), (4, 5), (5, 0)] {
            consumers.add(ConsumerId(id), priority, false);
            consumers.wait(ConsumerId(id));
        }
        let waiting: Vec<u64> = consumers.waiting().map(|id| id.0).collect();
        assert_eq!(waiting, [2, 4, 1, 5, 3]);
        assert!(consumers.has_rivals());
        let mut served = Vec::new();
        while let Some(first) = consumers.front() {
            consumers.served(1);
            served.push(first.0);
            consumers.park(first);
        }
        assert_eq!(served, [2, 4, 1, 5, 3]);
        assert!(!consumers.has_rivals());
        consumers.wait(ConsumerId(3));
        assert_eq!(consumers.front(), Some(ConsumerId(3)));
        consumers.wait(ConsumerId(5));
        assert_eq!(consumers.front(), Some(ConsumerId(5)));
    }

    #[test]
    fn a_ring_that_thousands_left_does_not_keep_their_places() {
        let mut rings = Rings::default();
        let all = All::new();
        for number in 0..10_000 {
            rings.push(0, (number, ConsumerId(number)));
        }
        for number in (0..10_000).rev() {
            rings.remove(0, number, &all);
        }
        rings.push(1, (10_001, ConsumerId(1)));
        assert!(rings.first.waiting.capacity() <= 2 * KEPT_PLACES_MAX);
    }
}
