//! Group commit: a commit begins at once under little load, else a moment later; and while much
//! arrives, not before much waits: each commit costs as much as writing a hundred messages.

use super::options::{COMMIT_BYTES, COMMIT_BYTES_MAX};

/// Records of a commit above which others are expected to be in flight that are worth waiting for.
const LOAD_RECORDS: u64 = 4;
/// Rate of arriving bytes, per microsecond, above which a commit waits although enough for one
/// waits.
const POUR_BYTES_PER_US: u64 = 150;
/// First interval at which that rate is checked again, in microseconds; it doubles each time.
const POUR_LOOK_US: u64 = 50;
/// Longest wait because of that rate, in microseconds.
const POUR_US_MAX: u64 = 1_500;

/// Decides when to commit. Times are microseconds on any monotonic clock.
#[derive(Clone, Debug)]
pub struct GroupCommit {
    delay_us: u64,
    /// Whether to wait under little load, too.
    always: bool,
    /// Since when somebody waits for a record.
    awaited_since_us: Option<u64>,
    /// Since when any record waits.
    since_us: Option<u64>,
    loaded: bool,
    /// The bytes arrived at the last commit, or at the last check since.
    look: Look,
    /// Since when enough for a commit waits.
    enough_since_us: Option<u64>,
}

/// A check of the rate: bytes arrived by then, and when to check again.
#[derive(Clone, Copy, Debug)]
struct Look {
    at_us: u64,
    arrived_bytes: u64,
    again_us: u64,
}

/// What waits to be committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitBacklog {
    /// Whether there is a record.
    pub any: bool,
    /// Whether somebody waits for one to be durable.
    pub awaited: bool,
    /// Bytes of all records that wait.
    pub bytes: usize,
    /// Bytes of all records ever appended, those that do not wait any more included.
    pub arrived_bytes: u64,
}

/// When to commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Never: nothing waits.
    Idle,
    /// The commit is due now.
    Now,
    /// At this time in microseconds, or when woken with [`super::Wake::Full`].
    At(u64),
}

impl GroupCommit {
    /// The default delay under load, in microseconds; a longer one means fewer writes to flash, a
    /// shorter one faster confirms.
    pub const DELAY_US_DEFAULT: u64 = 200;
    /// Time that records nobody waits for wait for another commit before they start their own, in
    /// microseconds. A crash may lose them, as it may everything that was never answered.
    pub const UNAWAITED_US_MAX: u64 = 20_000;

    /// Waits at most `delay_us` for more records under load, and never otherwise.
    pub const fn new(delay_us: u64) -> Self {
        Self {
            delay_us,
            always: false,
            awaited_since_us: None,
            since_us: None,
            loaded: false,
            look: Look {
                at_us: 0,
                arrived_bytes: 0,
                again_us: 0,
            },
            enough_since_us: None,
        }
    }

    /// Waits `delay_us` for more records, also without load.
    pub const fn always(delay_us: u64) -> Self {
        Self {
            always: true,
            ..Self::new(delay_us)
        }
    }

    /// When to commit what waits now.
    pub fn poll(&mut self, now_us: u64, waiting: CommitBacklog) -> Due {
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
            return self.wait_while_it_pours(now_us, waiting);
        }
        Due::At(due_us)
    }

    /// When to commit although much is arriving and enough waits.
    fn wait_while_it_pours(&mut self, now_us: u64, waiting: CommitBacklog) -> Due {
        let since_us = *self.enough_since_us.get_or_insert(now_us);
        let until_us = since_us.saturating_add(POUR_US_MAX);
        if !self.loaded || waiting.bytes >= COMMIT_BYTES_MAX || now_us >= until_us {
            return Due::Now;
        }
        if now_us >= self.look.again_us {
            let elapsed_us = now_us.saturating_sub(self.look.at_us);
            let arrived = waiting
                .arrived_bytes
                .saturating_sub(self.look.arrived_bytes);
            if arrived <= POUR_BYTES_PER_US.saturating_mul(elapsed_us) {
                return Due::Now;
            }
            self.look = Look {
                at_us: now_us,
                arrived_bytes: waiting.arrived_bytes,
                again_us: now_us + POUR_LOOK_US.max(now_us - since_us),
            };
        }
        Due::At(self.look.again_us.min(until_us))
    }

    /// Notes a commit of `records` records, from which the next wait is counted.
    pub const fn committed(&mut self, now_us: u64, records: u64, arrived_bytes: u64) {
        (self.since_us, self.awaited_since_us) = (None, None);
        self.enough_since_us = None;
        self.loaded = records > LOAD_RECORDS;
        self.look = Look {
            at_us: now_us,
            arrived_bytes,
            again_us: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn awaited(bytes: usize) -> CommitBacklog {
        CommitBacklog {
            any: true,
            awaited: true,
            bytes,
            arrived_bytes: 0,
        }
    }

    fn unawaited(bytes: usize) -> CommitBacklog {
        CommitBacklog {
            awaited: false,
            ..awaited(bytes)
        }
    }

    const NOTHING: CommitBacklog = CommitBacklog {
        any: false,
        awaited: false,
        bytes: 0,
        arrived_bytes: 0,
    };

    /// So much waits, and so much has arrived altogether.
    fn pouring(bytes: usize, arrived_bytes: u64) -> CommitBacklog {
        CommitBacklog {
            arrived_bytes,
            ..awaited(bytes)
        }
    }

    fn committed(group_commit: &mut GroupCommit, records: u64) {
        group_commit.committed(0, records, 0);
    }

    #[test]
    fn a_lone_record_does_not_wait_and_a_crowd_does() {
        let mut group_commit = GroupCommit::new(200);
        assert_eq!(group_commit.poll(0, NOTHING), Due::Idle);
        assert_eq!(group_commit.poll(0, awaited(100)), Due::Now);
        committed(&mut group_commit, 1);
        assert_eq!(group_commit.poll(1000, awaited(100)), Due::Now);
        committed(&mut group_commit, 50);
        assert_eq!(group_commit.poll(2000, awaited(100)), Due::At(2200));
        assert_eq!(group_commit.poll(2100, awaited(1000)), Due::At(2200));
        assert_eq!(group_commit.poll(2100, awaited(COMMIT_BYTES)), Due::Now);
        assert_eq!(group_commit.poll(2200, awaited(1000)), Due::Now);
    }

    #[test]
    fn a_lone_record_waits_where_that_is_asked_for() {
        let mut group_commit = GroupCommit::always(20_000);
        assert_eq!(group_commit.poll(0, awaited(100)), Due::At(20_000));
        assert_eq!(group_commit.poll(20_000, awaited(100)), Due::Now);
        committed(&mut group_commit, 1);
        assert_eq!(group_commit.poll(30_000, awaited(100)), Due::At(50_000));
        assert_eq!(group_commit.poll(30_001, awaited(COMMIT_BYTES)), Due::Now);
    }

    #[test]
    fn a_record_nobody_waits_for_rides_with_the_next_or_goes_a_little_later() {
        let mut group_commit = GroupCommit::new(200);
        assert_eq!(group_commit.poll(0, unawaited(100)), Due::At(20_000));
        assert_eq!(group_commit.poll(9_000, unawaited(COMMIT_BYTES)), Due::Now);
        assert_eq!(group_commit.poll(9_000, awaited(200)), Due::Now);
        committed(&mut group_commit, 50);
        assert_eq!(group_commit.poll(10_000, unawaited(100)), Due::At(30_000));
        // Who begins to wait waits for company like everybody, from then on.
        assert_eq!(group_commit.poll(15_000, awaited(100)), Due::At(15_200));
        committed(&mut group_commit, 1);
        assert_eq!(group_commit.poll(40_000, unawaited(100)), Due::At(60_000));
        assert_eq!(group_commit.poll(60_000, unawaited(100)), Due::Now);
        let mut group_commit = GroupCommit::always(50_000);
        assert_eq!(group_commit.poll(0, unawaited(100)), Due::At(50_000));
    }

    #[test]
    fn a_commit_waits_for_more_while_much_arrives() {
        let mut group_commit = GroupCommit::new(200);
        group_commit.committed(1_000, 50, 0);
        // 500 bytes a microsecond: looked at after 0, 50, 100, 200, 400, 800 microseconds.
        let mut now_us = 1_100;
        for wait_us in [50, 50, 100, 200, 400] {
            let arrived = (now_us - 1_000) * 500;
            let due = group_commit.poll(now_us, pouring(COMMIT_BYTES, arrived));
            assert_eq!(due, Due::At(now_us + wait_us));
            let early = group_commit.poll(now_us + 1, pouring(COMMIT_BYTES, arrived));
            assert_eq!(early, due, "not looked at before");
            now_us += wait_us;
        }
        let arrived = (now_us - 1_000) * 500;
        let last = group_commit.poll(now_us, pouring(COMMIT_BYTES, arrived));
        assert_eq!(last, Due::At(1_100 + POUR_US_MAX));
        assert_eq!(
            group_commit.poll(now_us, pouring(COMMIT_BYTES_MAX, arrived)),
            Due::Now
        );
        let late = group_commit.poll(1_100 + POUR_US_MAX, pouring(COMMIT_BYTES, arrived));
        assert_eq!(late, Due::Now);
    }

    #[test]
    fn a_commit_does_not_wait_once_little_arrives() {
        let mut group_commit = GroupCommit::new(200);
        group_commit.committed(1_000, 50, 0);
        let full = pouring(COMMIT_BYTES, 50_000);
        assert_eq!(group_commit.poll(1_100, full), Due::At(1_150));
        assert_eq!(group_commit.poll(1_150, full), Due::Now, "nothing came");
        group_commit.committed(1_150, 50, 50_000);
        let slow = pouring(COMMIT_BYTES, 50_000 + 40_000);
        assert_eq!(
            group_commit.poll(2_150, slow),
            Due::Now,
            "40 bytes a microsecond"
        );
    }
}
