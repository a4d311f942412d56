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
    since_us: Option<u64>,
    loaded: bool,
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

    /// Waits at most `delay_us` for company under load, and never when alone.
    pub const fn new(delay_us: u64) -> Self {
        Self {
            delay_us,
            always: false,
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
    pub fn poll(&mut self, now_us: u64, waiting_records: u64, waiting_bytes: usize) -> Due {
        if waiting_records == 0 {
            self.since_us = None;
            return Due::Idle;
        }
        let since_us = *self.since_us.get_or_insert(now_us);
        let due_us = since_us.saturating_add(self.delay_us);
        let waits = self.always || self.loaded;
        if !waits || waiting_bytes >= COMMIT_BYTES || now_us >= due_us {
            return Due::Now;
        }
        Due::At(due_us)
    }

    /// Notes a commit, so that the next wait begins anew.
    pub const fn committed(&mut self, records: u64) {
        self.since_us = None;
        self.loaded = records > LOAD_RECORDS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_record_does_not_wait_and_a_crowd_does() {
        let mut pace = CommitPace::new(200);
        assert_eq!(pace.poll(0, 0, 0), Due::Idle);
        assert_eq!(pace.poll(0, 1, 100), Due::Now);
        pace.committed(1);
        assert_eq!(pace.poll(1000, 1, 100), Due::Now);
        pace.committed(50);
        assert_eq!(pace.poll(2000, 1, 100), Due::At(2200));
        assert_eq!(pace.poll(2100, 9, 1000), Due::At(2200));
        assert_eq!(pace.poll(2100, 90, COMMIT_BYTES), Due::Now);
        assert_eq!(pace.poll(2200, 9, 1000), Due::Now);
    }

    #[test]
    fn a_lone_record_waits_where_that_is_asked_for() {
        let mut pace = CommitPace::always(20_000);
        assert_eq!(pace.poll(0, 1, 100), Due::At(20_000));
        assert_eq!(pace.poll(20_000, 1, 100), Due::Now);
        pace.committed(1);
        assert_eq!(pace.poll(30_000, 1, 100), Due::At(50_000));
        assert_eq!(pace.poll(30_001, 99, COMMIT_BYTES), Due::Now);
    }
}
