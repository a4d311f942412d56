//! Counters of a running broker, for people.

use std::fmt;

use super::alarm::Alarms;
use crate::store::{StoreState, StoreStats};

/// How long the core's lock was held, in buckets that double: bucket `n` counts holds of less than
/// 2^n nanoseconds that are in no lower bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockHolds {
    /// Holds by length.
    pub buckets: [u64; Self::BUCKETS],
    /// All holds together, in nanoseconds.
    pub total_ns: u64,
}

impl LockHolds {
    /// Buckets; the last one takes all that is longer (2^31 ns are two seconds).
    pub const BUCKETS: usize = 32;

    pub(super) const fn new() -> Self {
        Self {
            buckets: [0; Self::BUCKETS],
            total_ns: 0,
        }
    }

    pub(super) fn record(&mut self, nanoseconds: u64) {
        self.total_ns = self.total_ns.saturating_add(nanoseconds);
        let bits = (u64::BITS - nanoseconds.leading_zeros()) as usize;
        if let Some(bucket) = self.buckets.get_mut(bits.min(Self::BUCKETS - 1)) {
            *bucket += 1;
        }
    }

    /// Holds altogether.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Nanoseconds below which this share of the holds (0 to 1000 per mille) was, rounded up to
    /// a bucket's bound; 0 if there was none.
    pub fn quantile_ns(&self, per_mille: u64) -> u64 {
        let wanted = (self.count() * per_mille.min(1000)).div_ceil(1000);
        let mut seen = 0;
        for (bits, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return 1 << bits;
            }
        }
        0
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
                " lock-holds={} p50<{}ns p99<{}ns max<{}ns",
                holds.count(),
                holds.quantile_ns(500),
                holds.quantile_ns(990),
                holds.quantile_ns(1000),
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
    fn lock_holds_are_counted_by_powers_of_two() {
        let mut holds = LockHolds::new();
        assert_eq!(holds.quantile_ns(990), 0);
        for _ in 0..99 {
            holds.record(700);
        }
        holds.record(100_000);
        holds.record(u64::MAX);
        assert_eq!(holds.count(), 101);
        assert_eq!(holds.quantile_ns(500), 1024);
        assert_eq!(holds.quantile_ns(985), 131_072);
        assert_eq!(holds.quantile_ns(1000), 1 << 31);
    }
}
