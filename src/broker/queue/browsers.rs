//! The browsers of a queue: they get copies of its messages, in order, and take none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::messages::{Messages, subqueue};
use super::slot::Slot;
use crate::base::{ConsumerId, Position, Step, Timestamp, invariant};
use crate::filter::Selector;

/// Blocks without a ready message that cost as much to pass as one message to look at.
const BLOCKS_PER_MESSAGE: usize = 16;

/// The browsers of a queue, and where each goes on.
///
/// ```text
///             next message found            nothing left
///   awake ---------------------> awake        at end --- something entered or came back ---> awake
///     |  it is on disk                        no room --- credit, window, bytes written ---> awake
///     +-------------------> on disk --- paged in ---> awake
/// ```
///
/// A browser stands in one list at most. Lists may name browsers that are gone.
#[derive(Debug, Default)]
pub struct Browsers {
    all: BTreeMap<ConsumerId, Browser>,
    /// Those that are looked at next.
    awake: VecDeque<ConsumerId>,
    /// Those that came to the end before something changed: they are looked at first.
    roused: VecDeque<ConsumerId>,
    /// Those that came to the end.
    at_end: VecDeque<ConsumerId>,
    /// Those whose next message is being paged in.
    on_disk: Vec<ConsumerId>,
    /// Messages that had entered the queue at the last change.
    entered: u64,
    /// Whether a message came back since.
    is_news: bool,
    /// Number of changes so far.
    changes: u64,
    /// Whether an item of work for them is on the worklist.
    is_scheduled: bool,
}

#[derive(Debug)]
struct Browser {
    selector: Option<Arc<Selector>>,
    /// In each subqueue, from the lowest priority on: where it goes on.
    next: Vec<Position>,
    rest: Rest,
    /// Whether it is to be told when it has seen everything.
    drains: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// It is looked at soon.
    No,
    /// It had seen everything when there had been so many changes.
    AtEnd(u64),
    /// Its next message is being paged in.
    OnDisk,
    /// It has no credit, or its session or connection has no room.
    NoRoom,
}

/// What comes next for a browser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// The message at this position, which is in memory.
    Message(Position),
    /// The message at this position is evicted: it rests until it is paged in.
    OnDisk(Position),
    /// It has seen everything: it rests until something enters.
    End,
    /// There is more than was to be examined now.
    Later,
}

impl Browsers {
    /// Adds a browser, which rests until it has credit. `entered` is the number of messages that
    /// have entered the queue.
    pub fn add(&mut self, id: ConsumerId, selector: Option<Arc<Selector>>, entered: u64) {
        if self.all.is_empty() {
            self.entered = entered;
        }
        let browser = Browser {
            selector,
            next: Vec::new(),
            rest: Rest::NoRoom,
            drains: false,
        };
        self.all.insert(id, browser);
    }

    /// Removes a browser.
    pub fn remove(&mut self, id: ConsumerId) {
        self.all.remove(&id);
        // Entries are removed in bulk: a connection may close with thousands.
        let all = &self.all;
        let lists = [&mut self.awake, &mut self.roused, &mut self.at_end];
        for list in lists {
            if list.len() > 2 * all.len() {
                list.retain(|id| all.contains_key(id));
            }
        }
        if self.on_disk.len() > 2 * all.len() {
            self.on_disk.retain(|id| all.contains_key(id));
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of browsers, those at rest included.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = ConsumerId> {
        self.all.keys().copied()
    }

    /// Notes that a message came back to its position, so that browsers in front of it go on.
    pub const fn note_news(&mut self) {
        self.is_news = true;
    }

    /// Notes that messages were paged in.
    pub fn paged_in(&mut self) {
        self.awake.extend(self.on_disk.drain(..));
    }

    /// Wakes those at the end if something changed; whether they are to be put on the worklist now.
    /// `entered` is the number of messages that have entered the queue.
    pub fn schedule(&mut self, entered: u64) -> bool {
        if std::mem::take(&mut self.is_news) || entered != self.entered {
            self.entered = entered;
            self.changes += 1;
            self.roused.append(&mut self.at_end);
        }
        let has_some = !(self.awake.is_empty() && self.roused.is_empty());
        has_some && !std::mem::replace(&mut self.is_scheduled, true)
    }

    /// Notes that the item of work is done.
    pub const fn begin(&mut self) {
        self.is_scheduled = false;
    }

    /// Takes the browser that is looked at next.
    pub fn pop(&mut self) -> Option<ConsumerId> {
        loop {
            let id = self.roused.pop_front();
            let id = id.or_else(|| self.awake.pop_front())?;
            if let Some(browser) = self.all.get_mut(&id) {
                browser.rest = Rest::No;
                return Some(id);
            }
        }
    }

    /// Puts a browser behind all others that are awake.
    pub fn push(&mut self, id: ConsumerId) {
        self.awake.push_back(id);
    }

    /// Wakes a browser that may have room now.
    pub fn wake(&mut self, id: ConsumerId) {
        if let Some(browser) = self.all.get_mut(&id)
            && browser.rest == Rest::NoRoom
        {
            browser.rest = Rest::No;
            self.awake.push_back(id);
        }
    }

    /// Notes that a browser has no room.
    pub fn rest(&mut self, id: ConsumerId) {
        if let Some(browser) = self.all.get_mut(&id) {
            browser.rest = Rest::NoRoom;
        }
    }

    /// Asks for the end to be told; whether the browser is there already.
    pub fn drain(&mut self, id: ConsumerId, entered: u64) -> bool {
        let is_news = self.is_news || entered != self.entered;
        let Some(browser) = self.all.get_mut(&id) else {
            invariant!(broken, "a browser of a queue is known");
            return false;
        };
        let is_there = !is_news && browser.rest == Rest::AtEnd(self.changes);
        browser.drains = !is_there;
        is_there
    }

    /// Whether the end is to be told, which it is then.
    pub fn take_drain(&mut self, id: ConsumerId) -> bool {
        let browser = self.all.get_mut(&id);
        browser.is_some_and(|browser| std::mem::take(&mut browser.drains))
    }

    /// Lets a browser go on at this message, if it is behind it: it was never sent.
    pub fn step_back(&mut self, id: ConsumerId, position: Position) {
        let next = self.all.get_mut(&id).map(|browser| &mut browser.next);
        if let Some(next) = next.and_then(|next| next.get_mut(subqueue(position))) {
            *next = position.min(*next);
            self.is_news = true;
        }
    }

    /// Looks for the next message of a browser, the highest priority first, and passes it; also
    /// returns the cost of its selector, estimated in nanoseconds. `is_late` says which messages
    /// have expired, and are shown to nobody.
    pub fn look(
        &mut self,
        now: Timestamp,
        messages: &Messages,
        id: ConsumerId,
        left: &mut usize,
        is_late: impl Fn(&Slot) -> bool,
    ) -> (Sight, u64) {
        let Some(browser) = self.all.get_mut(&id) else {
            invariant!(broken, "a browser that is looked at is there");
            return (Sight::End, 0);
        };
        if browser.next.is_empty() {
            browser.next = messages.beginnings();
        }
        let (sight, spent_ns) = browser.look(now, messages, left, is_late);
        match sight {
            Sight::End => {
                browser.rest = Rest::AtEnd(self.changes);
                self.at_end.push_back(id);
            }
            Sight::OnDisk(_) => {
                browser.rest = Rest::OnDisk;
                self.on_disk.push(id);
            }
            Sight::Message(_) | Sight::Later => {}
        }
        (sight, spent_ns)
    }
}

impl Browser {
    fn look(
        &mut self,
        now: Timestamp,
        messages: &Messages,
        left: &mut usize,
        is_late: impl Fn(&Slot) -> bool,
    ) -> (Sight, u64) {
        let mut spent_ns = 0;
        for next in self.next.iter_mut().rev() {
            loop {
                if *left == 0 {
                    return (Sight::Later, spent_ns);
                }
                let blocks = *left * BLOCKS_PER_MESSAGE;
                let mut blocks_left = blocks;
                let found = messages.find_ready_among(*next, &mut blocks_left);
                *left -= (blocks - blocks_left) / BLOCKS_PER_MESSAGE;
                match found {
                    Ok(Some(position)) => *next = position,
                    Ok(None) => break,
                    Err(place) => {
                        *next = place;
                        return (Sight::Later, spent_ns);
                    }
                }
                let position = *next;
                let Some(slot) = messages.slot(position) else {
                    return (Sight::OnDisk(position), spent_ns);
                };
                *left = left.saturating_sub(1);
                let wants = !is_late(slot)
                    && self.selector.as_ref().is_none_or(|selector| {
                        let answer = selector.asks(now, &slot.message, slot.failures);
                        spent_ns += answer.spent_ns;
                        let worth = usize::try_from(answer.spent_ns / Step::Message.ns());
                        *left = left.saturating_sub(worth.unwrap_or(usize::MAX));
                        answer.matches
                    });
                next.0 += 1;
                if wants {
                    return (Sight::Message(position), spent_ns);
                }
            }
        }
        (Sight::End, spent_ns)
    }
}
