//! The alarm that stops publishers while messages take too much memory. [architecture D6]

use std::sync::Arc;
use std::time::Duration;

use super::partials::Partials;
use super::vhost::Vhost;

/// How often memory is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Raises the alarm in all vhosts while their messages take more than `limit_bytes`, and clears it
/// when they take a tenth less, so that it does not flutter.
pub(super) async fn watch(vhosts: Vec<Arc<Vhost>>, partials: Arc<Partials>, limit_bytes: u64) {
    let mut raised = false;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let used_bytes: u64 = vhosts.iter().map(|vhost| vhost.memory_bytes()).sum();
        let over = decide(raised, used_bytes, limit_bytes);
        if over == raised {
            continue;
        }
        raised = over;
        if raised {
            tracing::warn!(
                used_bytes,
                limit_bytes,
                "memory alarm: publishers get no credit"
            );
        } else {
            tracing::info!(used_bytes, limit_bytes, "memory alarm cleared");
        }
        partials.set_alarm(raised);
        for vhost in &vhosts {
            // A vhost that failed says so itself.
            let _ = vhost.set_alarm(raised);
        }
    }
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
