//! How long the consumers of one queue may hold a delivery, and when that is looked at next.
//! [evidence part 5, consumer timeout]

use std::collections::BTreeMap;

use crate::base::{Millis, uncount};

/// How long the consumers of a queue may hold a delivery.
///
/// There is no timer for a delivery, and none for a consumer. What is held is looked at when the first
/// could be due: nothing acquired after that look is due before the shortest timeout has passed once
/// more.
#[derive(Debug)]
pub struct Timeouts {
    /// Number of consumers by the timeouts that they asked for, in milliseconds.
    own: BTreeMap<u32, u32>,
    /// Number of consumers that have the timeout of the queue.
    following: u32,
    /// When the held deliveries are looked at next; [`Millis::NEVER`]: nobody has a timeout.
    pub look_at: Millis,
    /// Whether a look is under way.
    pub is_looking: bool,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            own: BTreeMap::new(),
            following: 0,
            look_at: Millis::NEVER,
            is_looking: false,
        }
    }
}

impl Timeouts {
    /// Counts a consumer with a timeout of its own (0: it has none), or with that of the queue.
    pub fn add(&mut self, own_ms: Option<u32>) {
        match own_ms {
            Some(0) => {}
            Some(own_ms) => *self.own.entry(own_ms).or_default() += 1,
            None => self.following += 1,
        }
    }

    /// Forgets a consumer that was counted.
    pub fn remove(&mut self, own_ms: Option<u32>) {
        match own_ms {
            Some(0) => {}
            Some(own_ms) => {
                if let Some(count) = self.own.get_mut(&own_ms) {
                    uncount!(*count, 1, "a consumer with a timeout was counted");
                    if *count == 0 {
                        self.own.remove(&own_ms);
                    }
                }
            }
            None => uncount!(
                self.following,
                1,
                "a consumer without a timeout of its own was counted"
            ),
        }
    }

    /// The shortest timeout of any consumer, given that of the queue; none: nobody has one.
    pub fn shortest_ms(&self, of_queue_ms: Option<u32>) -> Option<u32> {
        let own = self.own.keys().next().copied();
        let following = of_queue_ms.filter(|_| self.following > 0);
        [own, following].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_timeout_is_that_of_a_consumer_that_is_there() {
        let mut timeouts = Timeouts::default();
        assert_eq!(timeouts.shortest_ms(Some(50)), None);
        timeouts.add(Some(0));
        assert_eq!(timeouts.shortest_ms(Some(50)), None);
        timeouts.add(None);
        assert_eq!(timeouts.shortest_ms(Some(50)), Some(50));
        assert_eq!(timeouts.shortest_ms(None), None);
        timeouts.add(Some(70));
        timeouts.add(Some(20));
        timeouts.add(Some(20));
        timeouts.remove(Some(20));
        assert_eq!(timeouts.shortest_ms(Some(50)), Some(20));
        timeouts.remove(Some(20));
        timeouts.remove(None);
        assert_eq!(timeouts.shortest_ms(Some(50)), Some(70));
    }
}
