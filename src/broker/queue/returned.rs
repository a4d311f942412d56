//! Where messages came back to a queue, for consumers that had passed those places.

use std::collections::{BTreeMap, VecDeque};

use crate::base::Position;

/// Returns of one subqueue that are told apart; more are joined, so that a consumer may look again at more
/// messages than came back.
const KEPT_MAX: usize = 16;

/// The first position of each subqueue to which a message came back since any earlier moment. Noting one and
/// asking take a bounded number of steps, however many consumers there are.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// Messages that came back so far.
    count: u64,
    /// By subqueue: counts and positions, both rising. Of a message that came back in front of earlier ones,
    /// these are not kept.
    firsts: BTreeMap<usize, VecDeque<(u64, Position)>>,
}

impl Returned {
    /// Messages that came back so far: a moment to ask about later.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Notes that a message came back.
    pub(super) fn note(&mut self, subqueue: usize, position: Position) {
        self.count += 1;
        let firsts = self.firsts.entry(subqueue).or_default();
        while firsts.pop_back_if(|(_, last)| *last >= position).is_some() {}
        firsts.push_back((self.count, position));
        if firsts.len() > KEPT_MAX
            && let Some((_, lowest)) = firsts.pop_front()
            && let Some((_, first)) = firsts.front_mut()
        {
            *first = lowest;
        }
    }

    /// The first position of a subqueue to which a message came back since a moment, if one did. With many it
    /// may be a lower one.
    pub(super) fn first_since(&self, subqueue: usize, moment: u64) -> Option<Position> {
        let mut firsts = self.firsts.get(&subqueue)?.iter();
        let first = firsts.find(|(count, _)| *count > moment);
        first.map(|(_, position)| *position)
    }

    /// Forgets all, as nobody is left who would ask.
    pub(super) fn clear(&mut self) {
        self.firsts.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_that_came_back_is_behind_where_a_consumer_goes_on(
            returns in prop::collection::vec((0_usize..3, 0_u64..100), 1..200),
        ) {
            let mut returned = Returned::default();
            for (subqueue, position) in &returns {
                returned.note(*subqueue, Position(*position));
            }
            for moment in 0..=returns.len() {
                for subqueue in 0..3 {
                    let since = returns.iter().skip(moment).filter(|(of, _)| *of == subqueue);
                    let first = since.map(|(_, position)| Position(*position)).min();
                    let told = returned.first_since(subqueue, moment as u64);
                    prop_assert_eq!(told.is_some(), first.is_some());
                    prop_assert!(told <= first);
                    if returns.len() <= KEPT_MAX {
                        prop_assert_eq!(told, first);
                    }
                }
            }
            prop_assert!(returned.firsts.values().all(|firsts| firsts.len() <= KEPT_MAX));
        }
    }
}
