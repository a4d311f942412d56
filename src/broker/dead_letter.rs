//! Dead lettering as pure decisions: where a dead letter is sent, and what happens to it after the
//! attempt. [dead-lettering parts 2, 4, 6]

use std::sync::Arc;

use crate::base::{Name, QueueId};
use crate::broker::DropCause;
use crate::broker::arguments::DeadLetterStrategy;
use crate::broker::event_runs::TargetIds;
use crate::broker::policy::EffectiveSettings;
use crate::message::Route;

/// The route of dead letters of a queue under its current settings; none without a dead-letter
/// exchange. The keys are the queue's dead-letter-routing-key, else those the message was published
/// with.
///
/// `last` is the route of the previous dead letter of that queue: it is shared if it is equal.
#[inline]
pub fn plan(
    settings: &EffectiveSettings,
    came_by: &Route,
    last: &mut Option<Arc<Route>>,
) -> Option<Arc<Route>> {
    let exchange = settings.dead_letter_exchange.as_ref()?;
    let key = settings.dead_letter_routing_key.as_ref();
    let is_same = |route: &&Arc<Route>| {
        let same_keys = match (key, &*route.keys) {
            (Some(key), [only]) => only.same(key),
            (Some(_), _) => false,
            (None, _) => Arc::ptr_eq(&route.keys, &came_by.keys),
        };
        same_keys && route.exchange.same(exchange)
    };
    if let Some(route) = last.as_ref().filter(is_same) {
        return Some(Arc::clone(route));
    }
    let keys: Arc<[Name]> = match key {
        Some(key) => Arc::from([key.clone()]),
        None => came_by.keys.clone(),
    };
    let route = Arc::new(Route {
        exchange: exchange.clone(),
        keys,
    });
    *last = Some(Arc::clone(&route));
    Some(route)
}

/// `plan` for a message that is only thought of.
pub fn dead_letter_route(settings: &EffectiveSettings, came_by: &Route) -> Option<Arc<Route>> {
    plan(settings, came_by, &mut None)
}

/// What the targets of a dead letter answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SendResult {
    /// Number of targets that took it.
    pub accepted: usize,
    /// Ids of these targets.
    pub taken: TargetIds,
    /// Targets that refused it because they are full.
    pub refused: Vec<QueueId>,
    /// Number of targets skipped because of a cycle without a rejection.
    pub cycled: usize,
    /// The first of the skipped targets.
    pub closes_at: Option<QueueId>,
    /// Number of targets it waited for that were deleted.
    pub gone: usize,
    /// Whether the dead-letter exchange does not exist.
    pub exchange_missing: bool,
}

/// What happens to the dead message in its queue. A drop may become a move to the quarantine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is removed: every target that can take it has taken it.
    Moved {
        /// Number of targets that refused their copy or were deleted.
        copies_refused: usize,
    },
    /// It stays and waits for a target.
    Wait {
        /// The targets that refused while others took it; none: it is routed anew at each attempt.
        targets: Option<Vec<QueueId>>,
    },
    /// It is dropped, for this cause.
    Drop(DropCause),
}

/// Decides what happens to a dead message. `narrowed`: some targets took it in an earlier attempt,
/// and it waits for the others only.
///
/// | accepted | refused | cycled | at-most-once       | at-least-once        |
/// |----------|---------|--------|--------------------|----------------------|
/// | some     | none    | any    | moved              | moved                |
/// | some     | some    | any    | moved, copies lost | waits for the some   |
/// | none     | some    | any    | drop: target full  | waits                |
/// | none     | none    | some   | drop: cycle        | drop: cycle          |
/// | none     | none    | none   | drop: no way       | waits                |
#[inline]
pub fn verdict(sent: &SendResult, strategy: DeadLetterStrategy, narrowed: bool) -> Verdict {
    let taken = sent.accepted > 0 || narrowed;
    let waits = strategy == DeadLetterStrategy::AtLeastOnce;
    if waits && !sent.refused.is_empty() {
        return Verdict::Wait {
            targets: taken.then(|| sent.refused.clone()),
        };
    }
    if taken {
        return Verdict::Moved {
            copies_refused: sent.refused.len() + sent.gone,
        };
    }
    if !sent.refused.is_empty() {
        Verdict::Drop(DropCause::TargetFull)
    } else if sent.cycled > 0 {
        Verdict::Drop(DropCause::Cycle)
    } else if waits {
        Verdict::Wait { targets: None }
    } else if sent.exchange_missing {
        Verdict::Drop(DropCause::ExchangeMissing)
    } else {
        Verdict::Drop(DropCause::Unroutable)
    }
}

#[cfg(test)]
mod tests {
    use DeadLetterStrategy::{AtLeastOnce, AtMostOnce};

    use super::*;

    fn sent(accepted: usize, refused: u64, cycled: usize) -> SendResult {
        let refused = (1..=refused).map(QueueId).collect();
        SendResult {
            accepted,
            refused,
            cycled,
            ..SendResult::default()
        }
    }

    fn moved(copies_refused: usize) -> Verdict {
        Verdict::Moved { copies_refused }
    }

    fn wait(targets: &[u64]) -> Verdict {
        let targets: Vec<_> = targets.iter().map(|id| QueueId(*id)).collect();
        Verdict::Wait {
            targets: (!targets.is_empty()).then_some(targets),
        }
    }

    #[test]
    fn one_usable_target_is_enough_at_most_once_and_all_are_wanted_at_least_once() {
        let cases = [
            (sent(1, 0, 0), moved(0), moved(0)),
            (sent(1, 2, 0), moved(2), wait(&[1, 2])),
            (
                sent(0, 1, 0),
                Verdict::Drop(DropCause::TargetFull),
                wait(&[]),
            ),
            (
                sent(0, 1, 1),
                Verdict::Drop(DropCause::TargetFull),
                wait(&[]),
            ),
            (
                sent(0, 0, 1),
                Verdict::Drop(DropCause::Cycle),
                Verdict::Drop(DropCause::Cycle),
            ),
            (sent(1, 0, 1), moved(0), moved(0)),
            (
                sent(0, 0, 0),
                Verdict::Drop(DropCause::Unroutable),
                wait(&[]),
            ),
        ];
        for (sent, at_most_once, at_least_once) in cases {
            assert_eq!(verdict(&sent, AtMostOnce, false), at_most_once, "{sent:?}");
            assert_eq!(
                verdict(&sent, AtLeastOnce, false),
                at_least_once,
                "{sent:?}"
            );
        }
    }

    #[test]
    fn a_missing_exchange_is_a_cause_of_its_own() {
        let sent = SendResult {
            exchange_missing: true,
            ..SendResult::default()
        };
        let missing = Verdict::Drop(DropCause::ExchangeMissing);
        assert_eq!(verdict(&sent, AtMostOnce, false), missing);
        assert_eq!(verdict(&sent, AtLeastOnce, false), wait(&[]));
    }

    #[test]
    fn what_others_took_waits_only_for_those_that_refused() {
        assert_eq!(verdict(&sent(0, 1, 0), AtLeastOnce, true), wait(&[1]));
        assert_eq!(verdict(&sent(0, 0, 0), AtLeastOnce, true), moved(0));
        let gone = SendResult {
            gone: 1,
            ..SendResult::default()
        };
        assert_eq!(verdict(&gone, AtLeastOnce, true), moved(1));
    }
}
