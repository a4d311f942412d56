//! Where messages came back to a queue, for consumers that had passed those places.

use std::collections::{BTreeMap, VecDeque};

use crate::base::Position;

/// Returns of one subqueue that are told apart. More are joined, the old ones first: who asks for those since a
/// moment may be told of one before it, but of none much older.
const KEPT_MAX: usize = 32;

/// The first position of each subqueue to which a message came back since any earlier moment. Noting one and
/// asking take a bounded number of steps, however many consumers there are.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// Messages that came back so far.
    count: u64,
    firsts: BTreeMap<usize, Firsts>,
}

/// What came back to one subqueue, as counts and positions, both rising: what came back in front of earlier ones
/// stands for those.
#[derive(Debug, Default)]
struct Firsts(VecDeque<(u64, Position)>);

impl Returned {
    /// Messages that came back so far: a moment to ask about later.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Notes that a message came back.
    pub(super) fn note(&mut self, subqueue: usize, position: Position) {
        self.count += 1;
        let firsts = self.firsts.entry(subqueue).or_default();
        firsts.note(self.count, position);
    }

    /// The first position of a subqueue to which a message came back since a moment, if one did. With many it
    /// may be a lower one.
    pub(super) fn first_since(&self, subqueue: usize, moment: u64) -> Option<Position> {
        let mut firsts = self.firsts.get(&subqueue)?.0.iter();
        let first = firsts.find(|(count, _)| *count > moment);
        first.map(|(_, position)| *position)
    }

    /// Forgets all, as nobody is left who would ask.
    pub(super) fn clear(&mut self) {
        self.firsts.clear();
    }
}

impl Firsts {
    fn note(&mut self, now: u64, position: Position) {
        let Self(firsts) = self;
        while firsts.pop_back_if(|(_, last)| *last >= position).is_some() {}
        firsts.push_back((now, position));
        if firsts.len() > KEPT_MAX {
            self.join(now);
        }
    }

    /// Joins the two neighbours that are the closest for their age: so what is kept reaches back in steps that
    /// grow with the age.
    fn join(&mut self, now: u64) {
        let Self(firsts) = self;
        let counts = firsts.iter().map(|(count, _)| *count);
        // Each stands for what came behind the one before it.
        let begins = std::iter::once(0).chain(counts.clone());
        let joined = begins.zip(counts.skip(1)).enumerate();
        // What the joined one would stand for, by its age.
        let closest = joined.min_by_key(|(_, (begin, end))| {
            (end - begin).saturating_mul(1 << 16) / (now + 1 - end)
        });
        if let Some((at, _)) = closest
            && let Some((_, lower)) = firsts.remove(at)
            && let Some((_, joined)) = firsts.get_mut(at)
        {
            *joined = lower;
        }
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
            prop_assert!(returned.firsts.values().all(|firsts| firsts.0.len() <= KEPT_MAX));
        }
    }

    /// Who lags behind by so many returns looks again at what came back in about as many before these, not at all
    /// that ever came back.
    #[test]
    fn what_is_told_of_many_returns_is_not_much_older_than_what_was_asked_for() {
        let mut returned = Returned::default();
        for position in 1..=1_000_000 {
            returned.note(0, Position(position));
        }
        for lag in [1, 2, 3, 5, 10, 50, 100, 1_000, 10_000, 100_000] {
            let told = returned.first_since(0, 1_000_000 - lag).unwrap();
            let behind = 1_000_001 - told.0;
            assert!((lag..=3 * lag).contains(&behind), "{lag}: {behind}");
        }
    }
}
