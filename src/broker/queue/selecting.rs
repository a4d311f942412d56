//! Consumers of a queue that want only some of its messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::messages::{Messages, subqueue};
use crate::base::{ConsumerId, Position, Step, invariant};
use crate::filter::Selector;

/// Who selects, and where each goes on looking.
///
/// ```text
///   each subqueue    0 ............ next ............ end
///                nothing ready   not looked at yet
///                that it wants
/// ```
#[derive(Debug, Default)]
pub struct Selecting {
    all: BTreeMap<ConsumerId, One>,
    /// Those that look no further until there is news, and some that are gone.
    resting: Vec<ConsumerId>,
    /// Messages that had entered when there was news last.
    entered: u64,
    /// Something came back, in memory or to its place.
    is_news: bool,
    /// The first place of each subqueue that a message came back to since there was news last.
    returned: BTreeMap<usize, Position>,
}

#[derive(Debug)]
struct One {
    selector: Arc<Selector>,
    /// In each subqueue, from the lowest priority on: in front of it nothing ready is wanted.
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
        let one = One {
            selector,
            next: Vec::new(),
            rest: Rest::No,
        };
        self.all.insert(consumer, one);
    }

    /// Forgets a consumer.
    pub fn remove(&mut self, consumer: ConsumerId) {
        self.all.remove(&consumer);
        // Some at a time: a connection may leave with thousands.
        if self.resting.len() > 2 * self.all.len() {
            self.resting
                .retain(|resting| self.all.contains_key(resting));
        }
    }

    /// Whether a consumer selects.
    pub fn has(&self, consumer: ConsumerId) -> bool {
        self.all.contains_key(&consumer)
    }

    /// Whether a consumer selects and looked at all there is.
    pub fn is_idle(&self, consumer: ConsumerId) -> bool {
        let one = self.all.get(&consumer);
        one.is_some_and(|one| one.rest == Rest::AllSeen)
    }

    /// Those that looked no further, if something may have come since: so many messages have entered.
    pub fn take_idle(&mut self, entered: u64) -> Vec<ConsumerId> {
        let is_news = std::mem::take(&mut self.is_news) || entered != self.entered;
        self.entered = entered;
        if !is_news {
            return Vec::new();
        }
        let returned = std::mem::take(&mut self.returned);
        if !returned.is_empty() {
            for next in self.all.values_mut().map(|one| &mut one.next) {
                for (subqueue, position) in &returned {
                    if let Some(next) = next.get_mut(*subqueue) {
                        *next = (*position).min(*next);
                    }
                }
            }
        }
        let mut awake = std::mem::take(&mut self.resting);
        awake.retain(|consumer| {
            let one = self.all.get_mut(consumer);
            one.map(|one| one.rest = Rest::No).is_some()
        });
        awake
    }

    /// A message came back to its place: who had passed it looks at it again.
    pub fn requeued(&mut self, position: Position) {
        if self.all.is_empty() {
            return;
        }
        self.is_news = true;
        let first = self.returned.entry(subqueue(position)).or_insert(position);
        *first = position.min(*first);
    }

    /// Messages were paged in: who waits for one goes on.
    pub fn paged_in(&mut self) {
        self.is_news = !self.all.is_empty();
    }

    /// The next message that a consumer wants, the highest priority first, looking at no more of them
    /// than `left` allows. Also returns what that took, estimated in nanoseconds.
    pub fn choose(
        &mut self,
        messages: &Messages,
        consumer: ConsumerId,
        left: &mut usize,
    ) -> (Choice, u64) {
        let Some(one) = self.all.get_mut(&consumer) else {
            invariant!(broken, "a consumer that selects is known");
            return (Choice::Nothing, 0);
        };
        if one.next.is_empty() {
            one.next = messages.beginnings();
        }
        let (rest, choice, spent_ns) = one.look(messages, left);
        if let Some(rest) = rest {
            if one.rest == Rest::No {
                self.resting.push(consumer);
            }
            one.rest = rest;
        }
        (choice, spent_ns)
    }
}

impl One {
    fn look(&mut self, messages: &Messages, left: &mut usize) -> (Option<Rest>, Choice, u64) {
        let mut spent_ns = 0;
        for next in self.next.iter_mut().rev() {
            while let Some(position) = messages.find_ready(*next) {
                if *left == 0 {
                    return (None, Choice::Later, spent_ns);
                }
                *left -= 1;
                let Some(slot) = messages.slot(position) else {
                    return (Some(Rest::OnDisk), Choice::OnDisk(position), spent_ns);
                };
                *next = position;
                let answer = self.selector.asks(&slot.message, slot.failures);
                spent_ns += answer.spent_ns;
                let messages_worth = answer.spent_ns / Step::Message.ns();
                let messages_worth = usize::try_from(messages_worth).unwrap_or(usize::MAX);
                *left = left.saturating_sub(messages_worth);
                if answer.matches {
                    return (None, Choice::Take(position), spent_ns);
                }
                next.0 += 1;
            }
        }
        (Some(Rest::AllSeen), Choice::Nothing, spent_ns)
    }
}
