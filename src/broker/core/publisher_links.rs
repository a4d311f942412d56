//! Links of publishers that outlive the broker: what became of the deliveries on them that are
//! not settled, as the journal keeps it. [AMQP 2.6.13]
//!
//! The gateways know more of such links, and tell the outcomes; a start gives them what is here.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::Core;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Charge, Name};
use crate::broker::publisher_link::{
    KeptDelivery, NotAccepted, PublisherLink, PublisherLinkFact, Unsettled,
};
use crate::broker::{Fact, PublishOutcome};

/// Memory of a link, and of an unsettled delivery without its tag, about, in bytes.
const LINK_BYTES: usize = 256;
const DELIVERY_BYTES: usize = 64;
/// Links and deliveries in one slice of a snapshot, about.
const SLICE_THINGS: usize = 256;

/// All such links, by their numbers.
#[derive(Debug, Default)]
pub(super) struct PublisherLinks {
    links: BTreeMap<u64, KeptLink>,
}

#[derive(Debug)]
struct KeptLink {
    link: PublisherLink,
    /// Deliveries by their tags.
    unsettled: BTreeMap<Box<[u8]>, NotAccepted>,
    charge: Charge,
}

impl KeptLink {
    fn insert(&mut self, (tag, not_accepted): &Unsettled) {
        self.remove(tag);
        self.charge.grow(bytes_of(tag, not_accepted));
        self.unsettled.insert(tag.clone(), not_accepted.clone());
    }

    fn remove(&mut self, tag: &[u8]) {
        if let Some(not_accepted) = self.unsettled.remove(tag) {
            self.charge.shrink(bytes_of(tag, &not_accepted));
        }
    }
}

/// Memory of a delivery, about.
fn bytes_of(tag: &[u8], not_accepted: &NotAccepted) -> u64 {
    let full = not_accepted.as_ref().map_or(0, |queue| queue.len());
    (DELIVERY_BYTES + tag.len() + full) as u64
}

impl Core {
    /// The links of publishers that the journal keeps, with their unsettled deliveries, by their numbers.
    pub fn publisher_links(
        &self,
    ) -> impl Iterator<Item = (&PublisherLink, impl Iterator<Item = (&[u8], &NotAccepted)>)> {
        let links = self.publisher_links.links.values();
        links.map(|kept| {
            let unsettled = kept.unsettled.iter();
            (&kept.link, unsettled.map(|(tag, of)| (&**tag, of)))
        })
    }

    /// Keeps what becomes of messages on a link from now on.
    pub(super) fn keep_publisher_link(&mut self, link: PublisherLink) {
        let links = &self.publisher_links.links;
        if !self.options.journal
            || links
                .get(&link.number)
                .is_some_and(|kept| kept.link == link)
        {
            return;
        }
        self.recorder
            .push(Fact::PublisherLink(PublisherLinkFact::Kept {
                link: Box::new(link.clone()),
                unsettled: Vec::new(),
            }));
        self.put_publisher_link(link);
    }

    pub(super) fn forget_publisher_link(&mut self, link: u64) {
        if self.publisher_links.links.remove(&link).is_some() {
            let fact = PublisherLinkFact::Forgotten { link };
            self.recorder.push(Fact::PublisherLink(fact));
        }
    }

    /// Forgets the links of a deleted user.
    pub(super) fn forget_publisher_links_of(&mut self, user: &Name) {
        let links = self.publisher_links.links.values();
        let its = links.filter(|kept| kept.link.key.is_of_user(user));
        for link in its.map(|kept| kept.link.number).collect::<Vec<_>>() {
            self.forget_publisher_link(link);
        }
    }

    /// Notes what became of a message, in the record that inserts it.
    pub(super) fn keep_decided(
        &mut self,
        (link, tag): (u64, Box<[u8]>),
        outcome: &PublishOutcome,
        settled: Vec<Box<[u8]>>,
    ) {
        let is_somewhere = self.recorder.len() > 0;
        let delivery = match outcome {
            PublishOutcome::Accepted => Some((tag, None)),
            PublishOutcome::QueueFull { queue } if is_somewhere => Some((tag, Some(queue.clone()))),
            PublishOutcome::QueueFull { .. }
            | PublishOutcome::Unroutable
            | PublishOutcome::TooManyQueues(_)
            | PublishOutcome::NoExchange { .. }
            | PublishOutcome::Internal { .. }
            | PublishOutcome::Forbidden { .. } => None,
        };
        let is_nothing = delivery.is_none() && settled.is_empty();
        let decided = KeptDelivery {
            link,
            delivery,
            settled,
        };
        if !is_nothing && self.publisher_links.decide(&decided) {
            let fact = PublisherLinkFact::Decided(Box::new(decided));
            self.recorder.push(Fact::PublisherLink(fact));
        }
    }

    /// Applies a fact that was read from the journal.
    pub(super) fn restore_publisher_link(&mut self, fact: &PublisherLinkFact) {
        match fact {
            PublisherLinkFact::Kept { link, unsettled } => {
                let kept = self.put_publisher_link(PublisherLink::clone(link));
                for delivery in unsettled {
                    kept.insert(delivery);
                }
            }
            PublisherLinkFact::Decided(decided) => {
                self.publisher_links.decide(decided);
            }
            PublisherLinkFact::Forgotten { link } => {
                self.publisher_links.links.remove(link);
            }
        }
    }

    fn put_publisher_link(&mut self, link: PublisherLink) -> &mut KeptLink {
        let key = &link.key;
        let texts = [&key.user, &key.container, &key.link];
        let bytes = LINK_BYTES + texts.iter().map(|text| text.len()).sum::<usize>();
        let links = self.publisher_links.links.entry(link.number);
        let kept = links.or_insert_with(|| KeptLink {
            link: link.clone(),
            unsettled: BTreeMap::new(),
            charge: self.options.kept.charge(bytes as u64),
        });
        kept.link = link;
        kept
    }

    /// Copies links behind a number into a snapshot; returns the last if there may be more.
    pub(super) fn copy_publisher_links(&self, after: u64, facts: &mut Vec<Fact>) -> Option<u64> {
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        let mut things = 0;
        for (number, kept) in self.publisher_links.links.range(behind) {
            let unsettled = kept.unsettled.iter();
            #[cfg(test)]
            let unsettled = unsettled.filter(|_| !is_planted(Plant::CheckpointForgetsLinks));
            facts.push(Fact::PublisherLink(PublisherLinkFact::Kept {
                link: Box::new(kept.link.clone()),
                unsettled: unsettled
                    .map(|(tag, of)| (tag.clone(), of.clone()))
                    .collect(),
            }));
            things += 1 + kept.unsettled.len();
            if things >= SLICE_THINGS {
                return Some(*number);
            }
        }
        None
    }
}

impl PublisherLinks {
    /// Notes a delivery; false if its link is not kept any more.
    fn decide(&mut self, decided: &KeptDelivery) -> bool {
        let Some(kept) = self.links.get_mut(&decided.link) else {
            return false;
        };
        for tag in &decided.settled {
            kept.remove(tag);
        }
        if let Some(delivery) = &decided.delivery {
            kept.insert(delivery);
        }
        true
    }
}
