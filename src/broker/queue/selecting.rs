//! Links that look through a queue by a place of their own: consumers with selectors, which take
//! only some of its messages, and browsers, which take none. And the messages that not everybody
//! may have now: suspects.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::browsers::Browsers;
use super::messages::{Messages, subqueue};
use super::suspects::Suspects;
use crate::base::{ConsumerId, Position, Step, invariant};
use crate::filter::Selector;

/// The consumers with selectors, and where each goes on looking; the browsers; the suspects.
///
/// ```text
///   each subqueue    0 ............ next ............ end
///                nothing ready   not looked at yet
///                that it wants
/// ```
#[derive(Debug, Default)]
pub struct Selecting {
    all: BTreeMap<ConsumerId, One>,
    /// Consumers that look no further until something changes, some of which may be gone.
    resting: Vec<ConsumerId>,
    /// Messages that had entered the queue at the last change.
    entered: u64,
    /// Whether a message was requeued or paged in since.
    is_news: bool,
    /// The first position of each subqueue to which a message was requeued since the last change.
    returned: BTreeMap<usize, Position>,
    /// The browsers; none: there are none.
    browsers: Option<Box<Browsers>>,
    /// Messages that are delivered alone; none: there are none.
    suspects: Option<Box<Suspects>>,
    /// Number of consumers with selectors, one for the browsers, one for suspects: what every
    /// message asks.
    members: usize,
}

#[derive(Debug)]
struct One {
    selector: Arc<Selector>,
    /// In each subqueue, from the lowest priority on: no ready message in front of this position is
    /// wanted.
    next: Vec<Position>,
    /// Why it looks no further, if it does not.
    rest: Rest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    No,
    /// It has looked at every ready message.
    AllSeen,
    /// The next message it has to look at is evicted.
    OnDisk,
}

/// What was found for a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// It wants the message at this position.
    Take(Position),
    /// It wants no message that is ready; it is asked again when one enters.
    Nothing,
    /// The message at this position is evicted: ask again when it is paged in.
    OnDisk(Position),
    /// There are more messages than were to be examined now.
    Later,
}

impl Selecting {
    /// Whether no consumer has a selector, nobody browses, and nothing is suspected.
    pub const fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Adds a consumer with its selector.
    pub fn add(&mut self, consumer: ConsumerId, selector: Arc<Selector>) {
        let one = One {
            selector,
            next: Vec::new(),
            rest: Rest::No,
        };
        self.all.insert(consumer, one);
        self.count();
    }

    /// Removes a consumer.
    pub fn remove(&mut self, consumer: ConsumerId) {
        self.all.remove(&consumer);
        self.count();
        // Entries are removed in bulk: a connection may close with thousands.
        if self.resting.len() > 2 * self.all.len() {
            self.resting
                .retain(|resting| self.all.contains_key(resting));
        }
    }

    /// Whether a consumer has a selector.
    pub fn has(&self, consumer: ConsumerId) -> bool {
        self.all.contains_key(&consumer)
    }

    /// Whether a consumer has a selector and has looked at every ready message.
    pub fn is_idle(&self, consumer: ConsumerId) -> bool {
        let one = self.all.get(&consumer);
        one.is_some_and(|one| one.rest == Rest::AllSeen)
    }

    /// Takes the consumers that look no further, if something changed since; `entered` is the
    /// number of messages that have entered the queue.
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

    /// Notes a requeued message: consumers that had passed its position look at it again.
    pub fn requeued(&mut self, position: Position) {
        if self.is_empty() {
            return;
        }
        if let Some(browsers) = &mut self.browsers {
            browsers.note_news();
        }
        if self.all.is_empty() {
            return;
        }
        self.is_news = true;
        let first = self.returned.entry(subqueue(position)).or_insert(position);
        *first = position.min(*first);
    }

    /// Notes that messages were paged in: consumers that wait for one go on.
    pub fn paged_in(&mut self) {
        self.is_news = !self.all.is_empty();
        if let Some(browsers) = &mut self.browsers {
            browsers.paged_in();
        }
    }

    fn count(&mut self) {
        let others = [self.browsers.is_some(), self.suspects.is_some()];
        self.members = self.all.len() + others.into_iter().map(usize::from).sum::<usize>();
    }

    /// Adds a browser with its selector; `entered` is the number of messages that have entered the
    /// queue.
    pub fn add_browser(&mut self, id: ConsumerId, selector: Option<Arc<Selector>>, entered: u64) {
        let browsers = self.browsers.get_or_insert_default();
        browsers.add(id, selector, entered);
        self.count();
    }

    /// Removes a browser.
    pub fn remove_browser(&mut self, id: ConsumerId) {
        if let Some(browsers) = &mut self.browsers {
            browsers.remove(id);
        }
        self.browsers.take_if(|browsers| browsers.is_empty());
        self.count();
    }

    /// The browsers, if there are some.
    pub fn browsers(&mut self) -> Option<&mut Browsers> {
        self.browsers.as_deref_mut()
    }

    /// The ids of all browsers.
    pub fn browser_ids(&self) -> impl Iterator<Item = ConsumerId> {
        self.browsers.iter().flat_map(|browsers| browsers.ids())
    }

    /// Whether browsers are to be put on the worklist now; `entered` is the number of messages that
    /// have entered the queue.
    pub fn wakes_browsers(&mut self, entered: u64) -> bool {
        let browsers = self.browsers.as_mut();
        browsers.is_some_and(|browsers| browsers.schedule(entered))
    }

    /// Suspects a message; false if there are too many suspects.
    pub fn suspect(&mut self, position: Position) -> bool {
        let added = self.suspects.get_or_insert_default().add(position);
        self.count();
        added
    }

    /// Forgets that a message was suspected, as a consumer has settled it.
    pub fn clear(&mut self, position: Position) {
        if let Some(suspects) = &mut self.suspects {
            suspects.remove(position);
        }
    }

    /// The suspects, if there are some.
    pub fn suspects(&mut self) -> Option<&mut Suspects> {
        self.suspects.as_deref_mut()
    }

    /// The number of suspects, those counted that left the queue unseen.
    pub fn suspected(&self) -> usize {
        self.suspects.as_ref().map_or(0, |suspects| suspects.len())
    }

    /// Forgets suspects that have left the queue, at most one at a time.
    pub fn prune_suspects(&mut self, messages: &Messages) {
        let gone = self.suspects.take_if(|suspects| !suspects.prune(messages));
        if gone.is_some() {
            self.count();
        }
    }

    /// The next message that a consumer wants, the highest priority first, after examining at most
    /// `left` messages. Also returns the cost, estimated in nanoseconds.
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
