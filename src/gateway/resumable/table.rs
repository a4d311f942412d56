//! All links of publishers that outlive their connections: who has them, and how long they are kept.
//! [AMQP 2.6.3, 3.5.6]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::link::{OfUser, Owner, ResumableLink, Undecided};
use crate::base::limits::{
    RESUMABLE_DELIVERY_BYTES, RESUMABLE_LINKS_MAX, RESUMABLE_LINKS_USER_MAX,
};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Gauge, Millis, Name};
use crate::broker::registry::RegistryFact;
use crate::wire::performative::DeliveryTag;

/// What names a link that outlives its connection: the two containers, of which the broker's is the
/// vhost, and the name of the link. [AMQP 2.6.1]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::gateway) struct LinkKey {
    pub(in crate::gateway) vhost: Name,
    pub(in crate::gateway) user: Name,
    pub(in crate::gateway) container: Name,
    pub(in crate::gateway) link: Name,
}

/// What an attach says of a link that is to outlive its connection.
#[derive(Debug)]
pub(in crate::gateway) struct Wanted {
    /// How long it is kept once its expiry has begun, in seconds.
    pub(in crate::gateway) timeout_s: u32,
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
}

/// The links of all publishers that outlive their connections.
#[derive(Debug, Default)]
pub(in crate::gateway) struct ResumableLinks {
    table: RankedMutex<rank::ResumableLinks, Table>,
}

#[derive(Debug, Default)]
struct Table {
    links: BTreeMap<LinkKey, Arc<ResumableLink>>,
    users: BTreeMap<Name, Arc<OfUser>>,
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
        let Table { links, users } = &mut *table;
        if let Some(link) = links.get(key) {
            let link = Arc::clone(link);
            let (unsettled, stolen_from) = link.attach(owner, wanted);
            return Some(Claim {
                link,
                unsettled,
                stolen_from,
            });
        }
        if links.len() >= RESUMABLE_LINKS_MAX {
            return None;
        }
        let of_user = users.entry(key.user.clone()).or_default();
        if of_user.links.load(Ordering::Relaxed) >= RESUMABLE_LINKS_USER_MAX as u64 {
            return None;
        }
        of_user.links.fetch_add(1, Ordering::Relaxed);
        let texts = [&key.vhost, &key.user, &key.container, &key.link];
        let texts_bytes: usize = texts.iter().map(|text| text.len()).sum();
        let charge = gauge.charge(RESUMABLE_DELIVERY_BYTES + texts_bytes as u64);
        let link = ResumableLink::new(owner, wanted.timeout_s, (charge, Arc::clone(of_user)));
        let link = Arc::new(link);
        links.insert(key.clone(), Arc::clone(&link));
        Some(Claim {
            link,
            unsettled: Vec::new(),
            stolen_from: None,
        })
    }

    /// Forgets a link that its owner closed.
    pub(in crate::gateway) fn forget(&self, key: &LinkKey, owner: Owner) {
        let mut table = self.table.lock();
        if table.links.get(key).is_some_and(|link| link.close(owner)) {
            table.remove(key);
        }
    }

    /// Forgets all links of a vhost or user that was deleted.
    pub(in crate::gateway) fn forget_of(&self, deleted: &RegistryFact) {
        let goes = |key: &&LinkKey| match deleted {
            RegistryFact::VhostDeleted { name } => key.vhost == *name,
            RegistryFact::UserDeleted { name } => key.user == *name,
            _ => false,
        };
        let mut table = self.table.lock();
        let gone: Vec<_> = table.links.keys().filter(goes).cloned().collect();
        for key in gone {
            table.remove(&key);
        }
    }

    /// Forgets the links whose time is over. To be called now and then: they take memory until then.
    pub(in crate::gateway) fn expire(&self, now: Millis) {
        let mut table = self.table.lock();
        let links = table.links.iter();
        let gone: Vec<_> = links
            .filter(|(_, link)| link.is_over(now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            table.remove(&key);
        }
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
    fn remove(&mut self, key: &LinkKey) {
        let Some(link) = self.links.remove(key) else {
            return;
        };
        link.clear();
        if let Entry::Occupied(of_user) = self.users.entry(key.user.clone())
            && of_user.get().links.fetch_sub(1, Ordering::Relaxed) == 1
        {
            of_user.remove();
        }
    }
}
