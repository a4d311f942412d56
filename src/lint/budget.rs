//! What one search may cost, in steps, and what it did not look at since that would have been more.

use std::cell::Cell;

use super::topology::NotRead;
use crate::base::Name;
use crate::base::limits::{
    LINT_ARRIVALS_IN_ALL_MAX, LINT_BEHIND_MAX, LINT_BEHIND_STEPS_MAX, LINT_LOOP_VISITS_MAX,
    LINT_MATCHES_MAX, LINT_ROUTED_MAX, LINT_WAYS_BACK_MAX, LINT_WORDS_COMPARED_MAX,
};

/// A part of the search, with a bound of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Names are compared with the patterns of policies.
    Matches,
    /// Steps from exchange to exchange, behind dead-letter exchanges.
    Behind,
    /// Ways by which messages reach queues.
    Arrivals,
    /// Queues that messages with tried keys reach.
    Routes,
    /// Words of patterns are compared to make keys.
    Words,
    /// Arrivals are visited to find loops.
    Loops,
    /// Arrivals are visited to find ways back from queues that get live messages.
    WaysBack,
    /// Steps to targets are drawn as arrows of a graph.
    Arrows,
}

impl Part {
    const ALL: [Self; 8] = [
        Self::Matches,
        Self::Behind,
        Self::Arrivals,
        Self::Routes,
        Self::Words,
        Self::Loops,
        Self::WaysBack,
        Self::Arrows,
    ];

    const fn steps_max(self) -> usize {
        match self {
            Self::Matches => LINT_MATCHES_MAX,
            Self::Behind => LINT_BEHIND_STEPS_MAX,
            Self::Arrivals => LINT_ARRIVALS_IN_ALL_MAX,
            Self::Routes => LINT_ROUTED_MAX,
            Self::Words => LINT_WORDS_COMPARED_MAX,
            Self::Loops | Self::WaysBack | Self::Arrows => LINT_LOOP_VISITS_MAX,
        }
    }

    /// What was not looked at, of a vhost.
    const fn what(self) -> &'static str {
        match self {
            Self::Matches => "policies",
            Self::Behind => "exchanges behind dead-letter exchanges",
            Self::Arrivals | Self::Routes => "ways of messages",
            Self::Words => "keys of topic patterns",
            Self::Loops => "loops",
            Self::WaysBack => "dead letters among live messages (DL016)",
            Self::Arrows => "arrows",
        }
    }

    fn why(self) -> String {
        let max = self.steps_max();
        match self {
            Self::Matches => format!(
                "it takes more than {max} comparisons to tell which are outranked or match nothing, or set \
                 what arguments set otherwise (DL012) or a RabbitMQ does not apply (DL019): that is not told"
            ),
            Self::Behind => format!(
                "there are more than {LINT_BEHIND_MAX} behind one, or it takes more than {max} steps to \
                 find them: nothing is claimed of where dead letters go from there"
            ),
            Self::Arrivals => format!("there are more than {max}: others are not followed"),
            Self::Routes => {
                format!("they lead to more than {max} queues in all: others are not followed")
            }
            Self::Words => {
                format!("it takes more than {max} comparisons of words: no more keys are tried")
            }
            Self::Loops => {
                format!("it takes more than {max} steps to find them: others are not told")
            }
            Self::WaysBack => format!(
                "there are more than {LINT_WAYS_BACK_MAX} behind one queue, or it takes more than {max} steps in all to \
                 tell a way back from another: DL016 is not told of the rest"
            ),
            Self::Arrows => {
                format!("it takes more than {max} steps to find them: others are not drawn")
            }
        }
    }
}

/// What there is of one part.
#[derive(Debug)]
struct Steps {
    left: Cell<usize>,
    /// Something is left out.
    is_cut: Cell<bool>,
}

/// The steps that are left of each part.
#[derive(Debug)]
pub(super) struct Budget {
    /// By the order of [`Part::ALL`].
    parts: [Steps; Part::ALL.len()],
}

impl Default for Budget {
    fn default() -> Self {
        let steps = |part: Part| Steps {
            left: Cell::new(part.steps_max()),
            is_cut: Cell::new(false),
        };
        Self {
            parts: Part::ALL.map(steps),
        }
    }
}

impl Budget {
    fn of(&self, part: Part) -> Option<&Steps> {
        self.parts.get(part as usize)
    }

    /// The same, with this many steps of one part.
    #[cfg(test)]
    pub(super) fn with(self, part: Part, steps: usize) -> Self {
        self.of(part).unwrap().left.set(steps);
        self
    }

    /// Takes this many steps; whether they may be made. Once they may not, none may.
    pub(super) fn take(&self, part: Part, steps: usize) -> bool {
        if self.is_used_up(part) {
            return false;
        }
        let Some(of) = self.of(part) else {
            return false;
        };
        let left = of.left.get().checked_sub(steps);
        of.left.set(left.unwrap_or(0));
        of.is_cut.set(of.is_cut.get() || left.is_none());
        left.is_some()
    }

    /// Whether a step was wanted that could not be made.
    pub(super) fn is_used_up(&self, part: Part) -> bool {
        let is_used_up = |of: &Steps| of.is_cut.get() && of.left.get() == 0;
        self.of(part).is_none_or(is_used_up)
    }

    /// Remembers that something of a part is left out for another bound.
    pub(super) fn cut(&self, part: Part) {
        if let Some(of) = self.of(part) {
            of.is_cut.set(true);
        }
    }

    /// What was not looked at in a vhost.
    pub(super) fn not_looked_at(&self, vhost: &Name) -> Vec<NotRead> {
        let parts = Part::ALL.into_iter();
        let parts = parts.filter(|part| self.of(*part).is_some_and(|of| of.is_cut.get()));
        let told = parts.map(|part| NotRead {
            item: format!("{} of vhost '{vhost}'", part.what()),
            why: part.why(),
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_used_up_is_told_and_the_others_go_on() {
        let budget = Budget::default().with(Part::Loops, 3);
        assert!(budget.take(Part::Loops, 3) && budget.not_looked_at(&Name::from("/")).is_empty());
        assert!(!budget.take(Part::Loops, 1) && !budget.take(Part::Loops, 0));
        assert!(budget.take(Part::Matches, 1));
        let told = budget.not_looked_at(&Name::from("/"));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].item, "loops of vhost '/'");
    }

    #[test]
    fn each_part_stands_at_its_place() {
        for (place, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, place);
        }
    }
}
