//! The two clocks, read here and nowhere else.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::base::{Millis, Now, Timestamp};

/// Reads both times of a [`Now`].
///
/// Choice: the forward clock is `std::time::Instant`. It never jumps; on Linux it stands still while
/// the machine is suspended, which a server is not, and reading boot time would take unsafe code or
/// one more dependency for that case alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now, at [`START_MS`].
    #[allow(clippy::disallowed_methods, reason = "this is the clock of the broker")]
    pub(super) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Both times.
    pub(super) fn now(self) -> Now {
        Now::new(self.mono(), wall())
    }

    #[allow(clippy::disallowed_methods, reason = "this is the clock of the broker")]
    fn mono(self) -> Millis {
        Millis(START_MS).plus(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Milliseconds since the start.
    pub(super) fn uptime_ms(self) -> u64 {
        self.mono().since(Millis(START_MS))
    }

    /// The moment at which the forward clock shows `at`; far away ones are brought near enough for
    /// the timer (a sleeper that wakes early sleeps again).
    pub(super) fn instant(self, at: Millis) -> tokio::time::Instant {
        const FAR: Duration = Duration::from_hours(24);
        let near = self
            .mono()
            .plus(u64::try_from(FAR.as_millis()).unwrap_or(u64::MAX));
        let at = Duration::from_millis(at.min(near).since(Millis(START_MS)));
        self.start.checked_add(at).unwrap_or(self.start).into()
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the clock of the broker")]
fn wall() -> Timestamp {
    let wall = SystemTime::now();
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    // Before 1970 counts backwards: a machine without a battery may start there.
    Timestamp(
        wall.duration_since(UNIX_EPOCH)
            .map_or_else(|error| -ms(error.duration()), ms),
    )
}

/// What the forward clock shows at the start: more than the age of any message, so that one that is
/// read back has a time of arrival.
const START_MS: u64 = 1 << 42;

/// Measures how long something took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "this is the clock of the broker")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    pub(super) fn elapsed_ns(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
