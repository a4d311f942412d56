//! Links that look through a queue by a place of their own: consumers with selectors, which take
//! only some of its messages, and browsers, which take none. And the messages that not everybody
//! may have now: suspects, and those of message groups.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::browsers::Browsers;
use super::groups::{Freed, Groups};
use super::messages::{Messages, subqueue};
use super::reserved::Reserved;
use super::returned::Returned;
use super::suspects::Suspects;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Charge, ConsumerId, Gauge, Position, Step, Timestamp, invariant};
use crate::filter::Selector;
use crate::message::Message;

/// The consumers with selectors, and where each goes on looking; the browsers; the suspects; the
/// message groups, and the consumers that look for messages behind those of the others' groups.
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
    resting: VecDeque<ConsumerId>,
    /// Number of these that are to look again, from the front on.
    waking: usize,
    /// Messages that had entered the queue at the last change.
    entered: u64,
    /// Whether a message was requeued or paged in since.
    is_news: bool,
    /// Where messages were requeued to.
    returned: Returned,
    /// The browsers; none: there are none.
    browsers: Option<Box<Browsers>>,
    /// Messages that are delivered alone; none: there are none.
    suspects: Option<Box<Suspects>>,
    /// Message groups; none: no message has one.
    groups: Option<Box<Groups>>,
    /// Consumers that look for messages behind those of the others' groups.
    behind: BTreeSet<ConsumerId>,
    /// Whether the keeping of groups is over and some of these are still to be told.
    is_ending: bool,
    /// What links held when the broker ended; none: all is acquired.
    reserved: Option<Box<Reserved>>,
    /// The memory of the places of consumers and browsers; none: nothing is charged.
    places: Option<Places>,
    /// Number of consumers with selectors, one each for the browsers, suspects, groups and reserved
    /// messages: what every message asks.
    members: usize,
}

/// What is charged for the places at which consumers and browsers go on.
#[derive(Debug)]
struct Places {
    charge: Charge,
    /// Bytes of those of one.
    each_bytes: u64,
    /// How many are charged for.
    count: usize,
}

#[derive(Debug)]
struct One {
    /// None: it wants all, and looks behind the messages of groups that others have.
    selector: Option<Arc<Selector>>,
    /// In each subqueue, from the lowest priority on: no ready message in front of this position is
    /// wanted.
    next: Vec<Position>,
    /// The number of messages that had come back when it was last asked.
    returned: u64,
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
    /// Whether no consumer has a selector, nobody browses, nothing is suspected or reserved, and no message
    /// has a group.
    pub const fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Adds a consumer with its selector.
    pub fn add(&mut self, consumer: ConsumerId, selector: Arc<Selector>) {
        self.look_apart(consumer, Some(selector));
    }

    fn look_apart(&mut self, consumer: ConsumerId, selector: Option<Arc<Selector>>) {
        let one = One {
            selector,
            next: Vec::new(),
            returned: self.returned.count(),
            rest: Rest::No,
        };
        self.all.insert(consumer, one);
        self.count();
    }

    /// Removes a consumer.
    pub fn remove(&mut self, consumer: ConsumerId) {
        self.all.remove(&consumer);
        if self.behind.remove(&consumer)
            && let Some(groups) = &mut self.groups
        {
            groups.end_look();
        }
        self.count();
        // Entries are removed in bulk: a connection may close with thousands.
        if self.resting.len() > 2 * self.all.len() {
            self.resting
                .retain(|resting| self.all.contains_key(resting));
            self.waking = self.waking.min(self.resting.len());
        }
        if self.all.is_empty() {
            self.returned.clear();
        }
    }

    /// Whether a consumer looks through the queue by a place of its own.
    pub fn has(&self, consumer: ConsumerId) -> bool {
        self.all.contains_key(&consumer)
    }

    /// Whether a consumer looks by a place of its own and has looked at every ready message.
    pub fn is_idle(&self, consumer: ConsumerId) -> bool {
        let one = self.all.get(&consumer);
        one.is_some_and(|one| one.rest == Rest::AllSeen)
    }

    /// Takes some of the consumers that look no further, if something changed since they did; `entered` is
    /// the number of messages that have entered the queue.
    pub fn take_idle(&mut self, entered: u64, count: usize) -> Vec<ConsumerId> {
        let is_news = std::mem::take(&mut self.is_news) || entered != self.entered;
        self.entered = entered;
        if is_news {
            self.waking = self.resting.len();
        }
        let mut awake = Vec::new();
        for _ in 0..count.min(self.waking) {
            self.waking -= 1;
            if let Some(consumer) = self.resting.pop_front()
                && let Some(one) = self.all.get_mut(&consumer)
            {
                one.rest = Rest::No;
                awake.push(consumer);
            }
        }
        awake
    }

    /// Whether more consumers are to look again.
    pub const fn is_waking(&self) -> bool {
        self.waking > 0 || self.is_ending
    }

    /// Whether consumers may find more since they were last woken.
    pub const fn has_news(&self) -> bool {
        self.is_news
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
        self.returned.note(subqueue(position), position);
    }

    /// Notes that messages were paged in: consumers that wait for one go on.
    pub fn paged_in(&mut self) {
        self.is_news = !self.all.is_empty();
        if let Some(browsers) = &mut self.browsers {
            browsers.paged_in();
        }
    }

    /// Charges the places of its consumers and browsers to the gauge, so many bytes each.
    pub fn charge_places(&mut self, gauge: &Gauge, each_bytes: u64) {
        self.places = Some(Places {
            charge: gauge.charge(0),
            each_bytes,
            count: 0,
        });
        self.count();
    }

    fn count(&mut self) {
        let browsers = self.browsers.as_ref().map_or(0, |browsers| browsers.len());
        let looking = self.all.len() + browsers;
        if let Some(places) = &mut self.places
            && places.count != looking
        {
            places.count = looking;
            places.charge.set(places.each_bytes * looking as u64);
        }
        let others = [
            self.browsers.is_some(),
            self.suspects.is_some(),
            self.groups.is_some(),
            self.reserved.is_some(),
        ];
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

    /// Whether messages are to be acquired for links that held them when the broker ended, before
    /// anybody is served.
    pub const fn has_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    /// These messages, if there are some.
    pub fn reserved(&self) -> Option<&Reserved> {
        self.reserved.as_deref()
    }

    /// Changes these messages; returns the consumers that waited until there are none, if there are none
    /// now.
    pub fn change_reserved<T>(
        &mut self,
        change: impl FnOnce(&mut Reserved) -> T,
    ) -> (T, Option<Vec<ConsumerId>>) {
        let mut reserved = self.reserved.take().unwrap_or_default();
        let changed = change(&mut reserved);
        let waiting = reserved.take_waiting();
        self.reserved = waiting.is_none().then_some(reserved);
        self.count();
        (changed, waiting)
    }

    /// Suspects a message; false if there are too many suspects.
    pub fn suspect(&mut self, position: Position) -> bool {
        let added = self.suspects.get_or_insert_default().add(position);
        self.count();
        added
    }

    /// Forgets that a message was suspected, as a consumer has settled it, or it left or died.
    #[inline]
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

    /// Forgets all suspects that have left the queue.
    pub fn forget_gone_suspects(&mut self, messages: &Messages) {
        if let Some(suspects) = &mut self.suspects {
            suspects.retain_live(messages);
        }
    }

    /// Forgets suspects that have left the queue, at most one at a time.
    pub fn prune_suspects(&mut self, messages: &Messages) {
        let gone = self.suspects.take_if(|suspects| !suspects.prune(messages));
        if gone.is_some() {
            self.count();
        }
    }

    /// The next message that a consumer wants and may have, the highest priority first, after examining
    /// at most `left` messages; one that wants all begins with the priority whose turn it is. Also
    /// returns the cost, estimated in nanoseconds.
    pub fn choose(
        &mut self,
        now: Timestamp,
        messages: &mut Messages,
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
        one.look_at_returned(&self.returned);
        let first = match one.selector {
            Some(_) => None,
            None => messages.head().map(subqueue),
        };
        let groups = self.groups.as_deref_mut();
        let asker = (consumer, groups);
        let (rest, choice, spent_ns) = one.look((now, messages), asker, first, left);
        if let Some(rest) = rest {
            if one.rest == Rest::No {
                self.resting.push_back(consumer);
            }
            one.rest = rest;
        }
        (choice, spent_ns)
    }
}

/// Message groups.
impl Selecting {
    /// Whether some message has a group.
    pub const fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Number of message groups that consumers have.
    pub fn groups_kept(&self) -> u64 {
        self.groups.as_ref().map_or(0, |groups| groups.count())
    }

    /// Begins to keep message groups.
    pub fn keep_groups(&mut self, groups: Groups) {
        self.groups = Some(Box::new(groups));
        self.count();
    }

    /// The consumer that has the group of the message at a position; none if the message may go to
    /// anybody, or is on disk.
    pub fn owner_of(&self, messages: &Messages, position: Position) -> Option<ConsumerId> {
        let groups = self.groups.as_ref()?;
        let slot = messages.slot(position)?;
        groups.owner(groups.key(&slot.message)?)
    }

    /// Whether a consumer has a selector.
    pub fn selects(&self, consumer: ConsumerId) -> bool {
        let one = self.all.get(&consumer);
        one.is_some_and(|one| one.selector.is_some())
    }

    /// Lets a consumer look for messages behind those of groups that others have, from the first
    /// message on, if it did not before.
    pub fn look_behind(&mut self, consumer: ConsumerId) {
        if !self.all.contains_key(&consumer) {
            self.look_apart(consumer, None);
            self.behind.insert(consumer);
            if let Some(groups) = &mut self.groups {
                groups.look_behind();
            }
        }
    }

    /// Notes which consumer gets the message at a position; whether its group is the consumer's from
    /// now on and was not before.
    pub fn assigned(
        &mut self,
        messages: &Messages,
        position: Position,
        consumer: ConsumerId,
    ) -> bool {
        let (Some(groups), Some(slot)) = (&mut self.groups, messages.slot(position)) else {
            return false;
        };
        let Some(key) = groups.key(&slot.message) else {
            return false;
        };
        let is_new = groups.claim(key, consumer);
        if slot.message.ends_group() {
            let freed = groups.close(key);
            self.look_again(freed);
        }
        is_new
    }

    /// Notes which consumer holds a message since before a start. If another one holds an earlier message of
    /// its group, as that had ended in between, the group is not that one's any more.
    pub fn inherited(&mut self, messages: &Messages, position: Position, consumer: ConsumerId) {
        let is_others = |owner: Option<ConsumerId>| owner.is_some_and(|owner| owner != consumer);
        if is_others(self.owner_of(messages, position))
            && let (Some(groups), Some(slot)) = (&mut self.groups, messages.slot(position))
            && let Some(key) = groups.key(&slot.message)
        {
            let freed = groups.close(key);
            self.look_again(freed);
        }
        // A group that shares a bucket stays with the others.
        if !is_others(self.owner_of(messages, position)) {
            self.assigned(messages, position, consumer);
        }
    }

    /// Gives the message groups of a consumer to the one that takes over its deliveries.
    pub fn pass_groups(&mut self, from: ConsumerId, to: ConsumerId) {
        if let Some(groups) = &mut self.groups {
            groups.pass_on(from, to);
        }
    }

    /// Frees the message groups of a consumer: others look at what they had passed of them.
    pub fn free_groups(&mut self, consumer: ConsumerId) {
        if let Some(groups) = &mut self.groups {
            let freed = groups.free(consumer);
            self.look_again(freed);
        }
    }

    fn look_again(&mut self, freed: Freed) {
        self.is_news |= !freed.is_empty();
        for (subqueue, position) in freed {
            self.returned.note(subqueue, position);
        }
    }

    /// Ends the keeping of message groups once there is neither a message nor an owner: some of the consumers
    /// that looked behind others' groups, and with the last of them it is over.
    pub fn end_groups(&mut self, messages: &Messages, count: usize) -> Vec<ConsumerId> {
        let groups = self.groups.as_mut();
        let Some(groups) = groups.filter(|groups| groups.is_empty() && messages.live() == 0) else {
            self.is_ending = false;
            return Vec::new();
        };
        let mut told = Vec::new();
        while told.len() < count
            && let Some(consumer) = self.behind.pop_first()
        {
            self.all.remove(&consumer);
            groups.end_look();
            told.push(consumer);
        }
        if self.all.is_empty() {
            // Of those that rest only consumers are left that are gone.
            self.resting.clear();
            self.waking = 0;
            self.returned.clear();
        }
        self.is_ending = !self.behind.is_empty();
        if !self.is_ending {
            self.groups = None;
        }
        self.count();
        told
    }
}

impl One {
    /// Goes back to the first messages that were requeued since it was last asked.
    fn look_at_returned(&mut self, returned: &Returned) {
        if self.returned == returned.count() {
            return;
        }
        for (subqueue, next) in self.next.iter_mut().enumerate() {
            let first = returned.first_since(subqueue, self.returned);
            *next = first.map_or(*next, |first| first.min(*next));
        }
        self.returned = returned.count();
    }

    fn look(
        &mut self,
        (now, messages): (Timestamp, &Messages),
        (consumer, mut groups): (ConsumerId, Option<&mut Groups>),
        first: Option<usize>,
        left: &mut usize,
    ) -> (Option<Rest>, Choice, u64) {
        let mut spent_ns = 0;
        let others = (0..self.next.len()).rev();
        let others = others.filter(|subqueue| Some(*subqueue) != first);
        for subqueue in first.into_iter().chain(others) {
            let Some(next) = self.next.get_mut(subqueue) else {
                continue;
            };
            while let Some(position) = messages.find_ready(*next) {
                if *left == 0 {
                    return (None, Choice::Later, spent_ns);
                }
                *left -= 1;
                let Some(slot) = messages.slot(position) else {
                    return (Some(Rest::OnDisk), Choice::OnDisk(position), spent_ns);
                };
                *next = position;
                if !is_passed((consumer, groups.as_deref_mut()), position, &slot.message) {
                    let Some(selector) = &self.selector else {
                        return (None, Choice::Take(position), spent_ns);
                    };
                    let answer = selector.asks(now, &slot.message, slot.failures);
                    spent_ns += answer.spent_ns;
                    let messages_worth = answer.spent_ns / Step::Message.ns();
                    let messages_worth = usize::try_from(messages_worth).unwrap_or(usize::MAX);
                    *left = left.saturating_sub(messages_worth);
                    let matches = answer.matches;
                    #[cfg(test)]
                    let matches = matches || is_planted(Plant::SelectorIgnored);
                    if matches {
                        return (None, Choice::Take(position), spent_ns);
                    }
                }
                next.0 += 1;
            }
        }
        (Some(Rest::AllSeen), Choice::Nothing, spent_ns)
    }
}

/// Whether a message is of a group that another consumer has, which is noted.
fn is_passed(
    (consumer, groups): (ConsumerId, Option<&mut Groups>),
    position: Position,
    message: &Message,
) -> bool {
    let Some(groups) = groups else {
        return false;
    };
    let owner = groups.key(message).and_then(|key| groups.owner(key));
    let other = owner.filter(|owner| *owner != consumer);
    #[cfg(test)]
    let other = other.filter(|_| !is_planted(Plant::GroupShared));
    if let Some(other) = other {
        groups.pass(other, position);
    }
    other.is_some()
}
