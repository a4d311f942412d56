//! Counters of a running broker, for people.

use std::fmt;

use super::alarm::Alarms;
use crate::metrics::LOCK_HOLD_BOUNDS_NS;
use crate::store::{StoreState, StoreStats};

/// How long the core's lock was held, in buckets: bucket `n` counts holds of at most
/// [`LOCK_HOLD_BOUNDS_NS`]`[n]` that are in no lower bucket, the last one all that were longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockHolds {
    /// Holds by length.
    pub buckets: [u64; LOCK_HOLD_BOUNDS_NS.len() + 1],
    /// All holds together, in nanoseconds.
    pub total_ns: u64,
    /// The longest hold, in nanoseconds.
    pub longest_ns: u64,
}

impl LockHolds {
    pub(super) const fn new() -> Self {
        Self {
            buckets: [0; LOCK_HOLD_BOUNDS_NS.len() + 1],
            total_ns: 0,
            longest_ns: 0,
        }
    }

    pub(super) fn record(&mut self, nanoseconds: u64) {
        self.total_ns = self.total_ns.saturating_add(nanoseconds);
        self.longest_ns = self.longest_ns.max(nanoseconds);
        let bucket = LOCK_HOLD_BOUNDS_NS.partition_point(|bound_ns| *bound_ns < nanoseconds);
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            *bucket += 1;
        }
    }

    /// Holds altogether.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Nanoseconds that this share of the holds (0 to 10,000 of ten thousand) did not exceed, rounded
    /// up to a bucket's bound but never above the longest; 0 if there was none.
    pub fn quantile_ns(&self, of_10_000: u64) -> u64 {
        let wanted = (self.count() * of_10_000.min(10_000)).div_ceil(10_000);
        let mut seen = 0;
        for (count, bound_ns) in self.buckets.iter().zip(LOCK_HOLD_BOUNDS_NS) {
            seen += count;
            if seen >= wanted && seen > 0 {
                return bound_ns.min(self.longest_ns);
            }
        }
        self.longest_ns
    }
}

/// Counters of one vhost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VhostStats {
    /// Its name.
    pub name: String,
    /// Connections in it.
    pub connections: usize,
    /// Messages published.
    pub published: u64,
    /// Deliveries to consumers.
    pub delivered: u64,
    /// Dead letters that reached a queue.
    pub dead_lettered: u64,
    /// How long its core's lock was held.
    pub lock_holds: LockHolds,
    /// Its core failed: nothing works in it any more.
    pub failed: bool,
}

/// Counters of a broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Connections open now.
    pub connections: u32,
    /// Connections taken since the start.
    pub connections_total: u64,
    /// Connections dropped because there were too many.
    pub connections_refused: u64,
    /// Each vhost, by name.
    pub vhosts: Vec<VhostStats>,
    /// What stops publishers, as it was seen last; looked at ten times a second.
    pub alarms: Alarms,
    /// What waiting messages take.
    pub memory: MemoryStats,
    /// The journal; none: messages live in memory only.
    pub store: Option<JournalStats>,
}

/// What waiting messages take, over all vhosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryStats {
    /// The setting `memory-budget`, in bytes.
    pub budget_bytes: u64,
    /// Memory of all messages with what is kept of each, about, in bytes.
    pub used_bytes: u64,
    /// Messages in memory.
    pub messages: u64,
    /// Messages on disk until it is their turn.
    pub paged_out_messages: u64,
    /// Bytes of their bare messages.
    pub paged_out_bytes: u64,
    /// Bytes on disk of those that are not in the journal.
    pub spilled_bytes: u64,
    /// Blocks of messages read back so far.
    pub loads: u64,
}

/// State and figures of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalStats {
    /// How it is.
    pub state: StoreState,
    /// What it did.
    pub figures: StoreStats,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connections,
            connections_total,
            connections_refused,
            vhosts,
            alarms,
            memory,
            store,
        } = self;
        write!(f, "connections={connections} total={connections_total}")?;
        write!(f, " refused={connections_refused}")?;
        for vhost in vhosts {
            let holds = &vhost.lock_holds;
            write!(
                f,
                " vhost={} connections={} published={} delivered={} dead-lettered={}",
                vhost.name,
                vhost.connections,
                vhost.published,
                vhost.delivered,
                vhost.dead_lettered,
            )?;
            write!(
                f,
                " lock-holds={} p50<={}ns p99<={}ns p99.99<={}ns max={}ns",
                holds.count(),
                holds.quantile_ns(5_000),
                holds.quantile_ns(9_900),
                holds.quantile_ns(9_999),
                holds.longest_ns,
            )?;
        }
        let used_bytes = alarms.memory_used_bytes;
        write!(f, " message-memory-bytes={used_bytes}")?;
        write!(f, " memory-alarm={}", alarms.memory_alarm)?;
        write!(f, " disk-free-alarm={}", alarms.disk_free_alarm)?;
        if let Some(free_bytes) = alarms.disk_free_bytes {
            write!(f, " disk-free-bytes={free_bytes}")?;
        }
        write!(
            f,
            " messages={} used={} budget={} paged-out={} paged-out-bytes={} spilled={} loads={}",
            memory.messages,
            memory.used_bytes,
            memory.budget_bytes,
            memory.paged_out_messages,
            memory.paged_out_bytes,
            memory.spilled_bytes,
            memory.loads,
        )?;
        if let Some(JournalStats { state, figures }) = store {
            write!(f, " journal={state:?} {figures}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_lock_holds_are_known_to_ten_thousandths() {
        let mut holds = LockHolds::new();
        assert_eq!(holds.quantile_ns(9_900), 0);
        for _ in 0..9_998 {
            holds.record(700);
        }
        holds.record(900_000);
        holds.record(u64::MAX);
        assert_eq!(holds.count(), 10_000);
        assert_eq!(holds.quantile_ns(5_000), 1_000, "the bound of its bucket");
        assert_eq!(holds.quantile_ns(9_998), 1_000);
        assert_eq!(
            holds.quantile_ns(9_999),
            1_000_000,
            "below a millisecond can be told"
        );
        assert_eq!(
            holds.quantile_ns(10_000),
            u64::MAX,
            "the longest is known as it was"
        );
    }
}
