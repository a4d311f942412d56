//! Random facts about publishers' links.

use proptest::prelude::*;

use super::name;
use crate::broker::Fact;
use crate::broker::publisher_link::{KeptDelivery, PublisherLink, PublisherLinkFact};
use crate::broker::recovery::{ExpiryPolicy, LinkKey};

pub(super) fn key() -> impl Strategy<Value = LinkKey> {
    let names = [name(), name(), name()];
    (names, any::<bool>()).prop_map(|([user, container, link], by_token)| LinkKey {
        user,
        by_token,
        container,
        link,
    })
}

pub(super) fn expiry() -> impl Strategy<Value = ExpiryPolicy> {
    prop::sample::select(vec![
        ExpiryPolicy::LinkDetach,
        ExpiryPolicy::SessionEnd,
        ExpiryPolicy::ConnectionClose,
    ])
}

pub(super) fn facts() -> impl Strategy<Value = Fact> {
    let tag = || prop::collection::vec(any::<u8>(), 0..=32).prop_map(Vec::into_boxed_slice);
    let delivery = || (tag(), prop::option::of(name()));
    let link = (any::<u64>(), key(), expiry(), any::<u32>());
    let link = link.prop_map(|(number, key, expiry, timeout_s)| PublisherLink {
        number,
        key,
        expiry,
        timeout_s,
    });
    let kept = (link, prop::collection::vec(delivery(), 0..4));
    let kept = kept.prop_map(|(link, unsettled)| PublisherLinkFact::Kept {
        link: Box::new(link),
        unsettled,
    });
    let settled = prop::collection::vec(tag(), 0..4);
    let decided = (any::<u64>(), prop::option::of(delivery()), settled);
    let decided = decided.prop_map(|(link, delivery, settled)| {
        PublisherLinkFact::Decided(Box::new(KeptDelivery {
            link,
            delivery,
            settled,
        }))
    });
    let forgotten = any::<u64>().prop_map(|link| PublisherLinkFact::Forgotten { link });
    prop_oneof![kept, decided, forgotten].prop_map(Fact::PublisherLink)
}
