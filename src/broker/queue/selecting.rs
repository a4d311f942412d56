//! Consumers of a queue that want only some of its messages.

use std::sync::Arc;

use super::messages::{Messages, lane};
use crate::base::{ConsumerId, Position};
use crate::filter::Selector;

/// Who selects, and where each goes on looking.
///
/// ```text
///   each lane    0 ............ next ............ end
///                nothing ready   not looked at yet
///                that it wants
/// ```
#[derive(Debug, Default)]
pub struct Selecting {
    all: Vec<One>,
}

#[derive(Debug)]
struct One {
    consumer: ConsumerId,
    selector: Arc<Selector>,
    /// In each lane, from the lowest priority on: in front of it nothing ready is wanted.
    next: Vec<Position>,
    /// Why it looks no further, if it does not.
    rest: Rest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    No,
    /// It looked at all there is.
    AllSeen,
    /// What it has to look at is on disk.
    OnDisk,
}

/// What was found for a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// This one.
    Take(Position),
    /// Nothing that is there is wanted; it is asked again when something comes.
    Nothing,
    /// This one is on disk: ask again when it is back.
    OnDisk(Position),
    /// More is there than was to be looked at now.
    Later,
}

impl Selecting {
    /// Whether nobody selects.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a consumer with its selector.
    pub fn add(&mut self, consumer: ConsumerId, selector: Arc<Selector>) {
        self.all.push(One {
            consumer,
            selector,
            next: Vec::new(),
            rest: Rest::No,
        });
    }

    /// Forgets a consumer.
    pub fn remove(&mut self, consumer: ConsumerId) {
        self.all.retain(|one| one.consumer != consumer);
    }

    /// Whether a consumer selects.
    pub fn has(&self, consumer: ConsumerId) -> bool {
        self.all.iter().any(|one| one.consumer == consumer)
    }

    /// Whether a consumer selects and looked at all there is.
    pub fn is_idle(&self, consumer: ConsumerId) -> bool {
        let mut all = self.all.iter();
        all.any(|one| one.consumer == consumer && one.rest == Rest::AllSeen)
    }

    /// Those that looked no further: something may have come.
    pub fn take_idle(&mut self) -> Vec<ConsumerId> {
        let resting = self.all.iter_mut().filter(|one| one.rest != Rest::No);
        let awake = resting.map(|one| {
            one.rest = Rest::No;
            one.consumer
        });
        awake.collect()
    }

    /// A message came back to its place: who had passed it looks at it again.
    pub fn came_back(&mut self, position: Position) {
        for one in &mut self.all {
            if let Some(next) = one.next.get_mut(lane(position)) {
                *next = position.min(*next);
            }
        }
    }

    /// The next message that a consumer wants, the highest priority first, looking at no more than
    /// `left` of them.
    pub fn choose(
        &mut self,
        messages: &Messages,
        consumer: ConsumerId,
        left: &mut usize,
    ) -> Choice {
        let Some(one) = self.all.iter_mut().find(|one| one.consumer == consumer) else {
            return Choice::Nothing;
        };
        if one.next.is_empty() {
            one.next = messages.beginnings();
        }
        for next in one.next.iter_mut().rev() {
            while let Some(position) = messages.find_ready(*next) {
                if *left == 0 {
                    return Choice::Later;
                }
                *left -= 1;
                let Some(slot) = messages.slot(position) else {
                    one.rest = Rest::OnDisk;
                    return Choice::OnDisk(position);
                };
                *next = position;
                if one.selector.matches(&slot.message, slot.failures) {
                    return Choice::Take(position);
                }
                next.0 += 1;
            }
        }
        one.rest = Rest::AllSeen;
        Choice::Nothing
    }
}
