//! The alarm that stops publishers while messages take too much memory, or while the journal has
//! no room or failed. [architecture D6]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::partials::Partials;
use super::store::Store;
use super::vhost::Vhost;
use super::vhosts::Vhosts;
use crate::store::StoreState;

/// How often memory and journal are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Raises the alarm in all vhosts while their messages take more than `limit_bytes` (0: no limit),
/// and clears it when they take a tenth less, so that it does not flutter; also while the journal
/// is not well. Says in `memory_alarm` whether it stands because of memory.
pub(super) async fn watch(
    vhosts: Arc<Vhosts>,
    partials: Arc<Partials>,
    store: Option<Arc<Store>>,
    (limit_bytes, memory_alarm): (u64, Arc<AtomicBool>),
) {
    let (mut over, mut raised) = (false, false);
    loop {
        tokio::time::sleep(INTERVAL).await;
        if limit_bytes > 0 {
            over = look(&vhosts.all(), over, limit_bytes);
            memory_alarm.store(over, Ordering::Relaxed);
        }
        let state = store.as_ref().map(|store| store.state());
        let now = over || state.is_some_and(|state| state != StoreState::Open);
        if now == raised {
            continue;
        }
        raised = now;
        tracing::info!(
            raised,
            ?state,
            "alarm: publishers get no credit while it stands"
        );
        partials.set_alarm(raised);
        vhosts.set_alarm(raised);
    }
}

/// Whether messages take too much memory; says so when that changed.
fn look(vhosts: &[Arc<Vhost>], was_over: bool, limit_bytes: u64) -> bool {
    let used_bytes: u64 = vhosts.iter().map(|vhost| vhost.memory_bytes()).sum();
    let over = decide(was_over, used_bytes, limit_bytes);
    match (was_over, over) {
        (false, true) => tracing::warn!(used_bytes, limit_bytes, "too much memory is used"),
        (true, false) => tracing::info!(used_bytes, limit_bytes, "memory is free again"),
        _ => {}
    }
    over
}

/// Whether the alarm stands from now on.
const fn decide(raised: bool, used_bytes: u64, limit_bytes: u64) -> bool {
    if raised {
        used_bytes > limit_bytes - limit_bytes / 10
    } else {
        used_bytes > limit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::decide;

    #[test]
    fn alarm_stands_until_a_tenth_is_free_again() {
        let steps = [
            (90, false),
            (101, true),
            (95, true),
            (91, true),
            (90, false),
            (100, false),
        ];
        let mut raised = false;
        for (used, expect) in steps {
            raised = decide(raised, used, 100);
            assert_eq!(raised, expect, "{used}");
        }
    }
}
