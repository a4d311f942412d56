//! Message groups: the messages of a group are for the consumer that got the first of them, for as
//! long as it is there. [AMQP 3.2.4 group-id, JMS 3.1 3.5.10]
//!
//! ```text
//!            assigned to c             c goes, its messages came back
//!   free ----------------> c has it --------------------------------> free
//!    ^                        |  c held a message for too long           ^
//!    +-- its last message ----+------------------------------------------+
//! ```

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use crate::base::limits::{MESSAGE_GROUP_BUCKETS, MESSAGE_GROUPS_MAX};
use crate::base::{Charge, ConsumerId, Gauge, Position, Seed, invariant, uncount};
use crate::message::Message;

use super::messages::subqueue;

/// Bytes of a group-id that tell groups apart; those that begin alike go to one consumer.
const ID_BYTES: usize = 256;
/// Entries that are looked at for each new one, to forget those of consumers that are gone.
const SWEPT: usize = 4;
/// Estimated memory of an entry, in bytes.
const ENTRY_BYTES: u64 = 32;
/// Estimated memory of what is known of a consumer with groups, in bytes.
const OWNER_BYTES: u64 = 160;
/// Estimated memory of the place of a consumer that looks behind others' groups, in bytes.
const LOOKER_BYTES: u64 = 224;

/// Names one group, or the bucket of those that found no room of their own. Groups whose ids have
/// the same hash have the same key, and so the same consumer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GroupKey(u64);

impl GroupKey {
    const BUCKET: u64 = 1 << 63;

    const fn bucket(self) -> Self {
        Self(Self::BUCKET | (self.0 % MESSAGE_GROUP_BUCKETS as u64))
    }
}

/// Which consumer has which groups of a queue.
#[derive(Debug)]
pub struct Groups {
    seed: Seed,
    /// The owner of each group by number, of some groups that of one who is gone: who takes an entry
    /// next replaces it, or it is swept.
    entries: BTreeMap<GroupKey, u64>,
    owners: BTreeMap<u64, Owner>,
    numbers: BTreeMap<ConsumerId, u64>,
    next_number: u64,
    /// Where sweeping goes on.
    swept: GroupKey,
    /// Number of buckets among the entries.
    buckets: usize,
    /// Number of groups that consumers have.
    count: u64,
    /// Number of consumers without a selector that look by a place of their own.
    lookers: u64,
    kept: Option<Charge>,
}

#[derive(Debug)]
struct Owner {
    consumer: ConsumerId,
    /// Number of its groups.
    groups: u64,
    /// In each subqueue: the first position at which a message of its groups was passed by others.
    passed: BTreeMap<usize, Position>,
}

/// The first position of each subqueue at which messages can be had again.
pub type Freed = BTreeMap<usize, Position>;

impl Groups {
    /// No groups yet; their memory is charged to the gauge.
    pub fn new(seed: Seed, gauge: Option<&Gauge>) -> Self {
        Self {
            seed,
            entries: BTreeMap::new(),
            owners: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 0,
            swept: GroupKey(0),
            buckets: 0,
            count: 0,
            lookers: 0,
            kept: gauge.map(|gauge| gauge.charge(0)),
        }
    }

    /// The group of a message, if it has one.
    pub fn key(&self, message: &Message) -> Option<GroupKey> {
        let id = message.group_id()?;
        let id = id.get(..ID_BYTES).unwrap_or(id);
        let hash = self.seed.hasher().hash_one(id);
        Some(GroupKey(hash & !GroupKey::BUCKET))
    }

    /// The consumer that has a group; none: it is free.
    pub fn owner(&self, key: GroupKey) -> Option<ConsumerId> {
        self.place(key).map(|(_, owner)| owner.consumer)
    }

    /// The entry that stands for a group, and its owner.
    fn place(&self, key: GroupKey) -> Option<(GroupKey, &Owner)> {
        let at = |key: GroupKey| {
            let number = self.entries.get(&key)?;
            Some((key, self.owners.get(number)?))
        };
        at(key).or_else(|| (self.buckets > 0).then(|| at(key.bucket()))?)
    }

    /// Number of groups that consumers have.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether no consumer has a group.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Notes that a message of a group that the consumer does not have was passed.
    pub fn pass(&mut self, owner: ConsumerId, position: Position) {
        let number = self.numbers.get(&owner);
        if let Some(owner) = number.and_then(|number| self.owners.get_mut(number)) {
            let passed = owner.passed.entry(subqueue(position)).or_insert(position);
            *passed = position.min(*passed);
        }
    }

    /// Gives a group to a consumer; false if that has it already. Beyond the bound on groups it gets
    /// all those of one bucket that no other consumer has.
    pub fn claim(&mut self, key: GroupKey, consumer: ConsumerId) -> bool {
        if let Some(owner) = self.owner(key) {
            if owner != consumer {
                invariant!(broken, "a message goes to the consumer that has its group");
            }
            return false;
        }
        self.sweep();
        let has_room = self.entries.len() < MESSAGE_GROUPS_MAX + self.buckets;
        let key = if has_room || self.entries.contains_key(&key) {
            key
        } else {
            key.bucket()
        };
        let number = self.number_of(consumer);
        if self.entries.insert(key, number).is_none() {
            self.buckets += usize::from(key.0 & GroupKey::BUCKET != 0);
        }
        if let Some(owner) = self.owners.get_mut(&number) {
            owner.groups += 1;
            self.count += 1;
        }
        self.charge();
        true
    }

    fn number_of(&mut self, consumer: ConsumerId) -> u64 {
        if let Some(number) = self.numbers.get(&consumer) {
            return *number;
        }
        self.next_number += 1;
        let owner = Owner {
            consumer,
            groups: 0,
            passed: BTreeMap::new(),
        };
        self.owners.insert(self.next_number, owner);
        self.numbers.insert(consumer, self.next_number);
        self.next_number
    }

    /// Frees one group of a consumer, as its last message was delivered: what others had passed of
    /// this consumer's groups is to be looked at again.
    pub fn close(&mut self, key: GroupKey) -> Freed {
        let number = self.entries.get(&key).copied();
        let Some(owner) = number.and_then(|number| self.owners.get_mut(&number)) else {
            return Freed::new(); // one of a bucket stays with the others
        };
        uncount!(owner.groups, 1, "a group that ends was its owner's");
        uncount!(self.count, 1, "a group that ends was counted");
        let freed = owner.passed.clone();
        self.entries.remove(&key);
        self.charge();
        freed
    }

    /// Frees all groups of a consumer.
    pub fn free(&mut self, consumer: ConsumerId) -> Freed {
        let number = self.numbers.remove(&consumer);
        let owner = number.and_then(|number| self.owners.remove(&number));
        let Some(owner) = owner else {
            return Freed::new();
        };
        uncount!(
            self.count,
            owner.groups,
            "groups that are freed were counted"
        );
        self.charge();
        owner.passed
    }

    /// Gives all groups of a consumer to another, which has none.
    pub fn pass_on(&mut self, from: ConsumerId, to: ConsumerId) {
        let Some(number) = self.numbers.remove(&from) else {
            return;
        };
        self.numbers.insert(to, number);
        if let Some(owner) = self.owners.get_mut(&number) {
            owner.consumer = to;
        }
    }

    /// Counts a consumer that begins to look behind others' groups.
    pub fn look_behind(&mut self) {
        self.lookers += 1;
        self.charge();
    }

    /// Notes that a consumer is gone that looked behind others' groups.
    pub fn end_look(&mut self) {
        uncount!(self.lookers, 1, "who looked behind groups was counted");
        self.charge();
    }

    /// Forgets some entries of consumers that are gone.
    fn sweep(&mut self) {
        let from = self.swept;
        let next: Vec<_> = self.entries.range(from..).take(SWEPT).collect();
        let last = next.last().map(|(key, _)| GroupKey(key.0 + 1));
        let is_gone = |number: &u64| !self.owners.contains_key(number);
        let gone = next.into_iter().filter(|(_, number)| is_gone(number));
        let gone: Vec<_> = gone.map(|(key, _)| *key).collect();
        for key in gone {
            self.entries.remove(&key);
            let is_bucket = key.0 & GroupKey::BUCKET != 0;
            uncount!(
                self.buckets,
                usize::from(is_bucket),
                "a bucket that is swept was counted"
            );
        }
        self.swept = last.unwrap_or(GroupKey(0));
    }

    fn charge(&mut self) {
        let bytes = self.entries.len() as u64 * ENTRY_BYTES;
        let bytes = bytes + self.owners.len() as u64 * OWNER_BYTES;
        let bytes = bytes + self.lookers * LOOKER_BYTES;
        if let Some(kept) = &mut self.kept {
            kept.set(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConsumerId = ConsumerId(1);
    const B: ConsumerId = ConsumerId(2);

    fn groups() -> Groups {
        Groups::new(Seed(7), None)
    }

    #[test]
    fn a_group_is_its_owners_until_that_goes() {
        let mut groups = groups();
        assert!(groups.claim(GroupKey(1), A) && !groups.claim(GroupKey(1), A));
        assert!(groups.claim(GroupKey(2), B));
        assert_eq!(groups.owner(GroupKey(1)), Some(A));
        assert_eq!(groups.count(), 2);
        groups.pass(A, Position(7));
        groups.pass(A, Position(5));
        assert_eq!(groups.free(A), Freed::from([(0, Position(5))]));
        assert_eq!(groups.owner(GroupKey(1)), None);
        assert_eq!(groups.owner(GroupKey(2)), Some(B));
        assert!(groups.claim(GroupKey(1), B));
        // Who lost its groups does not get them back with the next one.
        assert!(groups.claim(GroupKey(3), A));
        assert_eq!(groups.owner(GroupKey(1)), Some(B));
        assert_eq!(groups.count(), 3);
    }

    #[test]
    fn beyond_the_bound_groups_share_buckets_and_none_has_two_owners() {
        let mut groups = groups();
        let max = MESSAGE_GROUPS_MAX as u64;
        for n in 0..max {
            assert!(groups.claim(GroupKey(n), A));
        }
        let more: Vec<_> = (max..max + 5_000).map(GroupKey).collect();
        for key in &more {
            let owner = groups.owner(*key).unwrap_or(B);
            groups.claim(*key, owner);
            assert_eq!(groups.owner(*key), Some(B));
        }
        assert_eq!(groups.buckets, MESSAGE_GROUP_BUCKETS);
        assert_eq!(
            groups.entries.len(),
            MESSAGE_GROUPS_MAX + MESSAGE_GROUP_BUCKETS
        );
        assert_eq!(groups.count(), max + MESSAGE_GROUP_BUCKETS as u64);
        // There is room again; what shares a bucket stays with its owner.
        groups.free(A);
        for key in &more {
            assert_eq!(groups.owner(*key), Some(B));
        }
        // A group of the one who is gone falls to the owner of its bucket.
        assert_eq!(groups.owner(GroupKey(3)), Some(B));
        groups.free(B);
        assert!(groups.is_empty() && groups.owner(more[0]).is_none());
    }

    #[test]
    fn what_the_gone_had_is_swept_a_little_with_each_new_group() {
        let gauge = Gauge::default();
        let mut groups = Groups::new(Seed(7), Some(&gauge));
        groups.claim(GroupKey(u64::MAX >> 1), B);
        for n in 0..1_000 {
            groups.claim(GroupKey(n), A);
        }
        let full = gauge.bytes();
        assert!(full >= 1_001 * ENTRY_BYTES);
        groups.free(A);
        assert_eq!(groups.entries.len(), 1_001, "nothing is freed in one step");
        for n in 0..600 {
            groups.claim(GroupKey(5_000 + n), B);
        }
        assert_eq!(groups.entries.len(), 601);
        assert!(gauge.bytes() < full);
        let without = gauge.bytes();
        groups.look_behind();
        assert_eq!(gauge.bytes(), without + LOOKER_BYTES);
        groups.end_look();
        assert_eq!(gauge.bytes(), without);
        drop(groups);
        assert_eq!(gauge.bytes(), 0);
    }
}
