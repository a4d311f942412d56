//! Numbers of findings for metrics: looked for when they are asked for, and only if the topology
//! changed, and not too often.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::limits::{LINT_COUNTED_EVERY_MS, LINT_COUNTED_SHARE};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Charge, Millis, Name};

/// What was found in a vhost.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// How many findings there are, by the number of their rule.
    pub(super) by_rule: Vec<(&'static str, u64)>,
    pub(super) marks: Arc<Marks>,
}

/// The rules that queues break.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) by_queue: BTreeMap<Name, Vec<&'static str>>,
    /// The charge for its memory.
    pub(super) _counted: Option<Charge>,
}

/// The numbers of each vhost, as they were when they were last looked for, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct LintCounts(RankedMutex<rank::LintCounts, Vec<(Name, Kept)>>);

/// What was found in a vhost.
#[derive(Debug, Default)]
struct Kept {
    /// None: it was never looked at.
    of: Option<State>,
    /// When it may be looked at again.
    again: Millis,
    counts: Counts,
}

/// What changes whenever findings may: generations of router and policies, and what is silenced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) router: u64,
    pub(super) policies: u64,
    pub(super) silenced: Option<String>,
}

impl LintCounts {
    /// The numbers of a vhost: what is known of it, or what `look` finds if it changed. `look` also
    /// says when it was over.
    pub(super) fn of(
        &self,
        (now, vhost): (Millis, &Name),
        state: State,
        look: impl FnOnce() -> (Counts, Millis),
    ) -> Counts {
        {
            let mut all = self.0.lock();
            // Others that ask meanwhile get what is known.
            let again = now.plus(LINT_COUNTED_EVERY_MS.saturating_mul(LINT_COUNTED_SHARE));
            let place = place_of(&all, vhost);
            match place.ok().and_then(|place| all.get_mut(place)) {
                Some((_, kept)) if kept.of.as_ref() == Some(&state) || now < kept.again => {
                    return kept.counts.clone();
                }
                Some((_, kept)) => kept.again = again,
                None => {
                    let unknown = Kept {
                        again,
                        ..Kept::default()
                    };
                    let place = place.unwrap_or_else(|place| place);
                    all.insert(place, (vhost.clone(), unknown));
                }
            }
        }
        let (counts, over) = look();
        let pause_ms = over.since(now).saturating_mul(LINT_COUNTED_SHARE);
        let kept = Kept {
            of: Some(state),
            again: over.plus(pause_ms.max(LINT_COUNTED_EVERY_MS)),
            counts: counts.clone(),
        };
        let mut all = self.0.lock();
        // It is not there if the vhost was deleted meanwhile.
        let place = place_of(&all, vhost).ok();
        if let Some((_, known)) = place.and_then(|place| all.get_mut(place)) {
            *known = kept;
        }
        counts
    }

    /// Forgets the numbers of all vhosts but these.
    pub(super) fn forget_others<'a>(&self, vhosts: impl Iterator<Item = &'a Name>) {
        // There may be thousands, and a scrape comes each few seconds.
        let there: BTreeSet<&Name> = vhosts.collect();
        self.0.lock().retain(|(name, _)| there.contains(name));
    }
}

/// Where a vhost is, or where it is to be inserted.
fn place_of(all: &[(Name, Kept)], vhost: &Name) -> Result<usize, usize> {
    all.binary_search_by(|(name, _)| name.cmp(vhost))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scrapes come each few seconds, and twenty thousand queues take some.
    #[test]
    fn a_vhost_is_looked_at_only_if_it_changed_and_not_too_often() {
        let known = LintCounts::default();
        let name = Name::from("/");
        let state = |router: u64| State {
            router,
            policies: 1,
            silenced: None,
        };
        let ask = |now_ms: u64, router: u64| {
            let mut looked = false;
            let now = Millis(now_ms);
            let counts = known.of((now, &name), state(router), || {
                looked = true;
                let counts = Counts {
                    by_rule: vec![("DL001", router)],
                    ..Counts::default()
                };
                (counts, now.plus(1_000))
            });
            (looked, counts.by_rule[0].1)
        };
        assert_eq!(ask(0, 1), (true, 1));
        assert_eq!(ask(1_000_000, 1), (false, 1), "nothing changed");
        assert_eq!(ask(1_000_001, 2), (true, 2));
        // It took a second: it may take so much of the time, and no more.
        let share_ms = 1_000 * LINT_COUNTED_SHARE;
        assert_eq!(ask(1_001_000 + share_ms, 3), (false, 2));
        assert_eq!(ask(1_001_001 + share_ms, 3), (true, 3));
    }

    #[test]
    fn only_vhosts_that_are_there_are_known() {
        let known = LintCounts::default();
        let names = ["c", "a", "b", "d"].map(Name::from);
        for name in &names {
            let state = State {
                router: 1,
                policies: 1,
                silenced: None,
            };
            known.of((Millis(0), name), state, || (Counts::default(), Millis(0)));
        }
        let new = Name::from("e");
        known.forget_others([&names[3], &new, &names[1]].into_iter());
        let all = known.0.lock();
        let left: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
        assert_eq!(left, ["a", "d"]);
    }
}
