//! Cycles of dead letters that a policy closes: looked for once it is applied, in slices, so that no
//! hold of the core's lock is long.

use std::time::Duration;

use super::Vhost;
use crate::base::limits::CYCLE_SEARCH_MS;
use crate::base::{Meter, Millis, Name};
use crate::broker::{CycleSearch, Warning};

/// Wait between two looks while the policy is being applied to queues.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The end of searches that begin now, on the clock of the node.
pub(super) fn search_end(vhost: &Vhost) -> Millis {
    vhost.now().mono.plus(CYCLE_SEARCH_MS)
}

/// One warning for each cycle that a policy or operator policy closes which was just set, or for
/// those found before `end`.
pub(super) async fn closed_by(policy: (bool, &Name), vhost: &Vhost, end: Millis) -> Vec<Warning> {
    let mut search = CycleSearch::default();
    loop {
        let mut meter = Meter::default();
        let seen = vhost.look(|core| core.find_cycles(policy, &mut search, &mut meter));
        // A vhost that failed is told of by whatever comes next.
        if seen.unwrap_or(true) || vhost.now().mono >= end {
            return search.into_warnings();
        }
        if meter.spent_ns() == 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}
