//! When the next commit begins: at once when enough waits or little goes on, else a moment later.

use super::options::COMMIT_BYTES;

/// A commit of more records than this shows that others are in flight whose records are worth
/// waiting for.
const LOAD_RECORDS: u64 = 4;

/// Decides when to commit. Times are microseconds on any clock that only goes forward.
#[derive(Clone, Debug)]
pub struct CommitPace {
    delay_us: u64,
    /// Also when little goes on.
    always: bool,
    /// Since when somebody waits for a record.
    awaited_since_us: Option<u64>,
    /// Since when any record waits.
    since_us: Option<u64>,
    loaded: bool,
}

/// What waits to be committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// There is a record.
    pub any: bool,
    /// Somebody waits for one to be durable.
    pub awaited: bool,
    /// Bytes of all.
    pub bytes: usize,
}

/// When to commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Nothing waits.
    Idle,
    /// Now.
    Now,
    /// At this moment, or when woken with [`super::Wake::Full`].
    At(u64),
}

impl CommitPace {
    /// The default delay under load, in microseconds; more spares flash, less spares patience.
    pub const DELAY_US_DEFAULT: u64 = 200;
    /// Records that nobody waits for start no commit of their own for so long, in microseconds: they
    /// ride with the next one. A crash may forget them, as it may what was never answered.
    pub const UNAWAITED_US_MAX: u64 = 20_000;

    /// Waits at most `delay_us` for company under load, and never when alone.
    pub const fn new(delay_us: u64) -> Self {
        Self {
            delay_us,
            always: false,
            awaited_since_us: None,
            since_us: None,
            loaded: false,
        }
    }

    /// Waits `delay_us` for company, also when alone.
    pub const fn always(delay_us: u64) -> Self {
        Self {
            always: true,
            ..Self::new(delay_us)
        }
    }

    /// When to commit what waits now.
    pub fn poll(&mut self, now_us: u64, waiting: Waiting) -> Due {
        if !waiting.any {
            (self.since_us, self.awaited_since_us) = (None, None);
            return Due::Idle;
        }
        let since_us = *self.since_us.get_or_insert(now_us);
        let due_us = if waiting.awaited {
            let since_us = *self.awaited_since_us.get_or_insert(now_us);
            let waits = self.always || self.loaded;
            since_us.saturating_add(if waits { self.delay_us } else { 0 })
        } else {
            since_us.saturating_add(self.delay_us.max(Self::UNAWAITED_US_MAX))
        };
        if waiting.bytes >= COMMIT_BYTES || now_us >= due_us {
            return Due::Now;
        }
        Due::At(due_us)
    }

    /// Notes a commit, so that the next wait begins anew.
    pub const fn committed(&mut self, records: u64) {
        (self.since_us, self.awaited_since_us) = (None, None);
        self.loaded = records > LOAD_RECORDS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn awaited(bytes: usize) -> Waiting {
        Waiting {
            any: true,
            awaited: true,
            bytes,
        }
    }

    fn unawaited(bytes: usize) -> Waiting {
        Waiting {
            awaited: false,
            ..awaited(bytes)
        }
    }

    const NOTHING: Waiting = Waiting {
        any: false,
        awaited: false,
        bytes: 0,
    };

    #[test]
    fn a_lone_record_does_not_wait_and_a_crowd_does() {
        let mut pace = CommitPace::new(200);
        assert_eq!(pace.poll(0, NOTHING), Due::Idle);
        assert_eq!(pace.poll(0, awaited(100)), Due::Now);
        pace.committed(1);
        assert_eq!(pace.poll(1000, awaited(100)), Due::Now);
        pace.committed(50);
        assert_eq!(pace.poll(2000, awaited(100)), Due::At(2200));
        assert_eq!(pace.poll(2100, awaited(1000)), Due::At(2200));
        assert_eq!(pace.poll(2100, awaited(COMMIT_BYTES)), Due::Now);
        assert_eq!(pace.poll(2200, awaited(1000)), Due::Now);
    }

    #[test]
    fn a_lone_record_waits_where_that_is_asked_for() {
        let mut pace = CommitPace::always(20_000);
        assert_eq!(pace.poll(0, awaited(100)), Due::At(20_000));
        assert_eq!(pace.poll(20_000, awaited(100)), Due::Now);
        pace.committed(1);
        assert_eq!(pace.poll(30_000, awaited(100)), Due::At(50_000));
        assert_eq!(pace.poll(30_001, awaited(COMMIT_BYTES)), Due::Now);
    }

    #[test]
    fn a_record_nobody_waits_for_rides_with_the_next_or_goes_a_little_later() {
        let mut pace = CommitPace::new(200);
        assert_eq!(pace.poll(0, unawaited(100)), Due::At(20_000));
        assert_eq!(pace.poll(9_000, unawaited(COMMIT_BYTES)), Due::Now);
        assert_eq!(pace.poll(9_000, awaited(200)), Due::Now);
        pace.committed(50);
        assert_eq!(pace.poll(10_000, unawaited(100)), Due::At(30_000));
        // Who begins to wait waits for company like everybody, from then on.
        assert_eq!(pace.poll(15_000, awaited(100)), Due::At(15_200));
        pace.committed(1);
        assert_eq!(pace.poll(40_000, unawaited(100)), Due::At(60_000));
        assert_eq!(pace.poll(60_000, unawaited(100)), Due::Now);
        let mut pace = CommitPace::always(50_000);
        assert_eq!(pace.poll(0, unawaited(100)), Due::At(50_000));
    }
}
