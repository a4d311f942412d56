//! Counters of a running broker, for the embedding program and the log.

use std::fmt;

use crate::node::{Alarms, VhostStats};
use crate::store::{StoreState, StoreStats};

/// Counters of a broker.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use coroner::{Broker, Detail};
///
/// let broker = Broker::builder().start().await?;
/// let stats = broker.stats();
/// assert_eq!((stats.connections, stats.alarms.is_any()), (0, false));
/// assert_eq!(stats.vhosts[0].name, "/");
/// println!("{}", broker.metrics(Detail::Vhosts)); // for Prometheus
/// # broker.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Number of open connections.
    pub connections: u32,
    /// Connections accepted since the start.
    pub connections_total: u64,
    /// Connections dropped because there were too many.
    pub connections_refused: u64,
    /// Counters of each vhost, by name.
    pub vhosts: Vec<VhostStats>,
    /// The alarms as of the last check; checked ten times a second while anything happens.
    pub alarms: Alarms,
    /// Memory and disk that waiting messages take.
    pub memory: MemoryStats,
    /// State and counters of the journal; none: messages live in memory only.
    pub store: Option<JournalStats>,
}

/// Memory and disk that waiting messages take, over all vhosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The memory budget in force, in bytes: the setting, or half of `memory-limit` if that is less.
    pub budget_bytes: u64,
    /// Estimated memory of all messages, in bytes.
    pub used_bytes: u64,
    /// Number of messages in memory.
    pub messages: u64,
    /// Number of messages on disk only.
    pub paged_out_messages: u64,
    /// Bytes of the bare messages on disk only.
    pub paged_out_bytes: u64,
    /// Bytes on disk of messages that are not in the journal.
    pub spilled_bytes: u64,
    /// Number of blocks of messages read back so far.
    pub loads: u64,
}

/// State and counters of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct JournalStats {
    /// Whether it works, is full or failed.
    pub state: StoreState,
    /// The counters of the store.
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
