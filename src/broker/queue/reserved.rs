//! Messages that links of consumers held when the broker ended, and are not acquired for them yet: nobody
//! else is served before.

use std::collections::BTreeMap;

use crate::base::{ConsumerId, HolderId, Position, uncount};

/// The messages of a queue that are to be acquired after a start.
#[derive(Debug, Default)]
pub struct Reserved {
    /// For whom each is, unless that is gone by now.
    holders: BTreeMap<Position, HolderId>,
    /// How many are for each.
    counts: BTreeMap<HolderId, u32>,
    /// Consumers that are attached again, and wait until all is acquired.
    waiting: Vec<ConsumerId>,
}

impl Reserved {
    /// Has a message acquired for a holder.
    pub fn add(&mut self, position: Position, holder: HolderId) {
        self.holders.insert(position, holder);
        *self.counts.entry(holder).or_default() += 1;
    }

    /// The first position, and for whom the message there is; none: for everybody.
    pub fn first(&self) -> Option<(Position, Option<HolderId>)> {
        let (position, _) = self.holders.first_key_value()?;
        Some((*position, self.holder(*position)))
    }

    /// The positions of the messages that are somebody's.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        let all = self.holders.iter();
        let its = all.filter(|(_, holder)| self.counts.contains_key(holder));
        its.map(|(position, _)| *position)
    }

    /// For whom the message at a position is.
    pub fn holder(&self, position: Position) -> Option<HolderId> {
        let holder = self.holders.get(&position)?;
        self.counts.contains_key(holder).then_some(*holder)
    }

    /// Notes that a message was acquired, or is gone.
    pub fn remove(&mut self, position: Position) {
        let holder = self.holders.remove(&position);
        if let Some(holder) = holder
            && let Some(count) = self.counts.get_mut(&holder)
        {
            uncount!(*count, 1, "a message that is reserved was counted");
        }
    }

    /// Leaves the messages of a holder to everybody; returns their number.
    pub fn remove_of(&mut self, holder: HolderId) -> u32 {
        self.counts.remove(&holder).unwrap_or(0)
    }

    /// Notes a consumer that waits until all is acquired.
    pub fn wait(&mut self, consumer: ConsumerId) {
        self.waiting.push(consumer);
    }

    /// The consumers that waited, if all is acquired.
    pub fn take_waiting(&mut self) -> Option<Vec<ConsumerId>> {
        self.holders
            .is_empty()
            .then(|| std::mem::take(&mut self.waiting))
    }
}
