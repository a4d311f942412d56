//! Random facts about consumers' links.

use proptest::prelude::*;

use super::publisher_links::{expiry, key};
use crate::base::{Position, QueueId};
use crate::broker::Fact;
use crate::broker::consumer_link::{ConsumerLink, ConsumerLinkFact};
use crate::broker::recovery::Acquisition;

pub(super) fn facts() -> impl Strategy<Value = Fact> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
    let kept = (numbers, key(), expiry(), prop::option::of(any::<u32>()));
    let kept = kept.prop_map(|(numbers, key, expiry, consumer_timeout_ms)| {
        ConsumerLinkFact::Kept(Box::new(ConsumerLink {
            number: numbers.0,
            key,
            queue: QueueId(numbers.1),
            expiry,
            timeout_ms: numbers.2,
            consumer_timeout_ms,
        }))
    });
    let acquisition = (any::<u64>(), any::<u32>()).prop_map(|(position, acquired)| Acquisition {
        position: Position(position),
        acquired,
    });
    let acquisitions = prop::collection::vec(acquisition, 0..4);
    let acquired = (any::<u64>(), any::<u64>(), acquisitions);
    let acquired = acquired.prop_map(|(link, queue, acquisitions)| ConsumerLinkFact::Acquired {
        link,
        queue: QueueId(queue),
        acquisitions,
    });
    let unsent = (any::<u64>(), any::<u64>());
    let unsent = unsent.prop_map(|(queue, position)| ConsumerLinkFact::Unsent {
        queue: QueueId(queue),
        position: Position(position),
    });
    let forgotten = any::<u64>().prop_map(|link| ConsumerLinkFact::Forgotten { link });
    prop_oneof![kept, acquired, unsent, forgotten].prop_map(Fact::ConsumerLink)
}
