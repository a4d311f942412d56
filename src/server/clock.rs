//! The two clocks, read here and nowhere else in the server.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::base::{Millis, Now, Timestamp};
use crate::node::Clock;

/// Reads both clocks for a [`Now`].
///
/// The monotonic clock is the time since the machine booted: it never jumps, and on Linux it counts
/// while the machine is suspended, so that a message that expired meanwhile is gone when the lid
/// opens.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemClock {
    start: Duration,
    /// The moment of the start, for measuring.
    begun: Instant,
}

impl SystemClock {
    /// A clock that starts now, at [`START_MS`].
    #[allow(clippy::disallowed_methods, reason = "this is the clock of the broker")]
    pub(super) fn start() -> Self {
        Self {
            start: boot_time(),
            begun: Instant::now(),
        }
    }

    /// The current time of both clocks.
    pub(super) fn now(self) -> Now {
        Now::new(self.mono(), wall())
    }

    fn mono(self) -> Millis {
        let passed = boot_time().saturating_sub(self.start);
        Millis(START_MS).plus(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
    }

    /// Milliseconds since the start.
    pub(super) fn uptime_ms(self) -> u64 {
        self.mono().since(Millis(START_MS))
    }

    /// The moment at which the monotonic clock shows `at`, or [`NAP`] from now if that is sooner: a
    /// sleeper that wakes early sleeps again.
    #[allow(clippy::disallowed_methods, reason = "this is the clock of the broker")]
    pub(super) fn instant(self, at: Millis) -> tokio::time::Instant {
        let passed = boot_time().saturating_sub(self.start);
        let due = Duration::from_millis(at.since(Millis(START_MS)));
        tokio::time::Instant::now() + due.saturating_sub(passed).min(NAP)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        (*self).now()
    }

    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The longest sleep: the runtime's timers stop while the machine is suspended, so a deadline that
/// passed meanwhile is noticed at most this late.
const NAP: Duration = Duration::from_mins(1);

fn boot_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[allow(clippy::disallowed_methods, reason = "this is the clock of the broker")]
fn wall() -> Timestamp {
    let wall = SystemTime::now();
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    // Times before 1970 are negative: a machine without a battery may start there.
    Timestamp(
        wall.duration_since(UNIX_EPOCH)
            .map_or_else(|error| -ms(error.duration()), ms),
    )
}

/// The monotonic time at the start, in milliseconds: more than the age of any message, so that one
/// that is read back has a time of arrival.
const START_MS: u64 = 1 << 42;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forward_clock_begins_beyond_the_age_of_any_message_and_never_falls() {
        let clock = SystemClock::start();
        let first = clock.now().mono;
        assert!(first >= Millis(START_MS), "{first:?}");
        assert!(clock.now().mono >= first);
        assert!(clock.uptime_ms() < 60_000);
    }

    #[tokio::test]
    async fn a_sleeper_wakes_at_its_deadline_and_for_far_ones_after_a_nap() {
        let clock = SystemClock::start();
        let now = clock.now().mono;
        let near = clock.instant(now.plus(30_000));
        let far = clock.instant(Millis(u64::MAX));
        assert!(far - near <= NAP, "{near:?} {far:?}");
        assert!(
            far - near + Duration::from_secs(31) >= NAP,
            "{near:?} {far:?}"
        );
        assert!(clock.instant(Millis(0)) <= near);
    }
}
