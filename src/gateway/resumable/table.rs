//! All links of publishers that outlive their connections: who has them, and how long they are kept.
//! [AMQP 2.6.3, 3.5.6]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::begun::Begun;
use super::link::{OfUser, Owner, ResumableLink, Undecided};
use crate::base::limits::{
    RESUMABLE_DELIVERY_BYTES, RESUMABLE_LINKS_MAX, RESUMABLE_LINKS_USER_MAX,
};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Gauge, Millis, Name, uncount_atomic};
use crate::broker::publisher_link::outcome_of;
use crate::broker::registry::RegistryFact;
use crate::broker::{Core, PublishOutcome};
use crate::wire::performative::DeliveryTag;

/// What names a link that outlives its connection: the two containers, of which the broker's is the
/// vhost, and the name of the link. [AMQP 2.6.1]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::gateway) struct LinkKey {
    pub(in crate::gateway) vhost: Name,
    pub(in crate::gateway) user: Name,
    /// Whether it logged in with a token: then it is not the user of the registry with that name.
    pub(in crate::gateway) by_token: bool,
    pub(in crate::gateway) container: Name,
    pub(in crate::gateway) link: Name,
}

/// What an attach says of a link that is to outlive its connection.
#[derive(Debug)]
pub(in crate::gateway) struct Wanted {
    /// How long it is kept once its expiry has begun, in seconds.
    pub(in crate::gateway) timeout_s: u32,
    /// Whether it is to outlive the broker, which can keep it.
    pub(in crate::gateway) is_durable: bool,
    /// The deliveries that the publisher has not settled, in the order of their tags.
    pub(in crate::gateway) tags: Vec<DeliveryTag>,
    /// Whether these are not all of them.
    pub(in crate::gateway) is_incomplete: bool,
}

/// A link that was attached.
#[derive(Debug)]
pub(in crate::gateway) struct Claim {
    pub(in crate::gateway) link: Arc<ResumableLink>,
    /// Its deliveries from before, as the broker has them.
    pub(in crate::gateway) unsettled: Vec<(DeliveryTag, Undecided)>,
    /// Who had it attached until now, and has lost it.
    pub(in crate::gateway) stolen_from: Option<Owner>,
    /// What has arrived of the message in the middle of which it ended.
    pub(in crate::gateway) begun: Option<Box<Begun>>,
}

impl Wanted {
    /// Whether the publisher may still know a delivery.
    pub(super) fn names(&self, tag: &DeliveryTag) -> bool {
        self.is_incomplete || self.tags.binary_search(tag).is_ok()
    }
}

/// What is left of a link that is forgotten. To be dropped with no lock held: it may release a body in the
/// journal.
#[derive(Debug)]
struct Forgotten {
    /// Its number in the journal, if it has one.
    number: Option<u64>,
    _begun: Option<Box<Begun>>,
}

/// The links of all publishers that outlive their connections.
#[derive(Debug, Default)]
pub(in crate::gateway) struct ResumableLinks {
    table: RankedMutex<rank::ResumableLinks, Table>,
}

#[derive(Debug, Default)]
struct Table {
    links: BTreeMap<LinkKey, Arc<ResumableLink>>,
    /// By name, and whether they are bearers of tokens.
    users: BTreeMap<(Name, bool), Arc<OfUser>>,
    /// The number that was last given to a link which outlives the broker.
    last_number: u64,
}

impl ResumableLinks {
    /// Attaches a link: one that was attached before with what is known of its deliveries, or a new one.
    /// None if there are too many of the user or in all: then the link ends with its connection.
    pub(in crate::gateway) fn claim(
        &self,
        gauge: &Gauge,
        (key, owner): (&LinkKey, Owner),
        wanted: &Wanted,
    ) -> Option<Claim> {
        let mut table = self.table.lock();
        let Table {
            links,
            users,
            last_number,
        } = &mut *table;
        if let Some(link) = links.get(key) {
            let link = Arc::clone(link);
            let (unsettled, stolen_from) = link.attach(owner, wanted);
            return Some(Claim {
                begun: link.take_begun(),
                link,
                unsettled,
                stolen_from,
            });
        }
        if links.len() >= RESUMABLE_LINKS_MAX {
            return None;
        }
        let of_user = users.entry(key.owner()).or_default();
        if of_user.links.load(Ordering::Relaxed) >= RESUMABLE_LINKS_USER_MAX as u64 {
            return None;
        }
        of_user.links.fetch_add(1, Ordering::Relaxed);
        let kept = (gauge.charge(key.kept_bytes()), Arc::clone(of_user));
        *last_number += u64::from(wanted.is_durable);
        let number = wanted.is_durable.then_some(*last_number);
        let link = ResumableLink::new(owner, (number, wanted.timeout_s), kept);
        let link = Arc::new(link);
        links.insert(key.clone(), Arc::clone(&link));
        Some(Claim {
            link,
            unsettled: Vec::new(),
            stolen_from: None,
            begun: None,
        })
    }

    /// Takes over the links of a vhost from a broker before. Returns the numbers of those that are not kept
    /// any more: newer ones have their names.
    pub(in crate::gateway) fn restore_all(
        &self,
        (now, gauge): (Millis, &Gauge),
        core: &Core,
    ) -> Vec<u64> {
        let links = core.publisher_links().filter_map(|(link, unsettled)| {
            let broker_key = &link.key;
            let key = LinkKey {
                vhost: core.vhost().clone(),
                user: broker_key.user.clone(),
                by_token: broker_key.by_token,
                container: broker_key.container.clone(),
                link: broker_key.link.clone(),
            };
            let unsettled = unsettled.filter_map(|(tag, not_accepted)| {
                let outcome = outcome_of(not_accepted.clone());
                Some((DeliveryTag::new(tag)?, outcome))
            });
            self.restore((now, gauge), key, (link.number, link.timeout_s), unsettled)
        });
        links.collect()
    }

    /// Adds a link of the broker before, with its unsettled deliveries. Returns the number of an older one of
    /// that name, which is not kept any more.
    fn restore(
        &self,
        (now, gauge): (Millis, &Gauge),
        key: LinkKey,
        terms: (u64, u32),
        unsettled: impl Iterator<Item = (DeliveryTag, PublishOutcome)>,
    ) -> Option<u64> {
        let mut table = self.table.lock();
        table.last_number = table.last_number.max(terms.0);
        let older = table.remove(&key).and_then(|older| older.number);
        let of_user = table.users.entry(key.owner()).or_default();
        of_user.links.fetch_add(1, Ordering::Relaxed);
        let kept = (gauge.charge(key.kept_bytes()), Arc::clone(of_user));
        let link = ResumableLink::restored(now, terms, unsettled, kept);
        table.links.insert(key, Arc::new(link));
        older
    }

    /// Forgets a link that its owner closed. Returns its number in the journal, if it has one.
    pub(in crate::gateway) fn forget(&self, key: &LinkKey, owner: Owner) -> Option<u64> {
        let mut table = self.table.lock();
        let is_its = table.links.get(key).is_some_and(|link| link.close(owner));
        let forgotten = is_its.then(|| table.remove(key)).flatten();
        drop(table);
        forgotten.and_then(|forgotten| forgotten.number)
    }

    /// Forgets all links of a vhost or user that was deleted.
    pub(in crate::gateway) fn forget_of(&self, deleted: &RegistryFact) {
        let goes = |key: &&LinkKey| match deleted {
            RegistryFact::VhostDeleted { name } => key.vhost == *name,
            RegistryFact::UserDeleted { name } => key.user == *name && !key.by_token,
            _ => false,
        };
        let mut table = self.table.lock();
        let gone: Vec<_> = table.links.keys().filter(goes).cloned().collect();
        let forgotten: Vec<_> = gone.iter().map(|key| table.remove(key)).collect();
        drop(table);
        drop(forgotten);
    }

    /// Forgets the links whose time is over. To be called now and then: they take memory until then.
    /// Returns those that the journal has: vhost and number.
    pub(in crate::gateway) fn expire(&self, now: Millis) -> Vec<(Name, u64)> {
        let mut table = self.table.lock();
        let links = table.links.iter();
        let gone: Vec<_> = links
            .filter(|(_, link)| link.is_over(now))
            .map(|(key, _)| key.clone())
            .collect();
        let forgotten = gone.into_iter().filter_map(|key| {
            let forgotten = table.remove(&key)?;
            Some((key.vhost, forgotten))
        });
        let forgotten: Vec<_> = forgotten.collect();
        drop(table);
        let numbers = forgotten.into_iter();
        numbers
            .filter_map(|(vhost, forgotten)| Some((vhost, forgotten.number?)))
            .collect()
    }
}

impl LinkKey {
    /// Whose it is.
    fn owner(&self) -> (Name, bool) {
        (self.user.clone(), self.by_token)
    }

    /// Memory of a link with it and without deliveries, about.
    fn kept_bytes(&self) -> u64 {
        let texts = [&self.vhost, &self.user, &self.container, &self.link];
        let texts_bytes: usize = texts.iter().map(|text| text.len()).sum();
        RESUMABLE_DELIVERY_BYTES + texts_bytes as u64
    }
}

#[cfg(test)]
impl ResumableLinks {
    /// Number of links.
    pub(in crate::gateway) fn len(&self) -> usize {
        self.table.lock().links.len()
    }
}

impl Table {
    /// Forgets a link.
    fn remove(&mut self, key: &LinkKey) -> Option<Forgotten> {
        let link = self.links.remove(key)?;
        let begun = link.clear();
        if let Entry::Occupied(of_user) = self.users.entry(key.owner())
            && uncount_atomic!(
                of_user.get().links,
                1,
                Ordering::Relaxed,
                "a link that is forgotten was counted"
            ) == 1
        {
            of_user.remove();
        }
        Some(Forgotten {
            number: link.number(),
            _begun: begun,
        })
    }
}
