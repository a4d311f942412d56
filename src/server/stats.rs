//! Counters of a running broker, for people.

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
#[non_exhaustive]
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
#[non_exhaustive]
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
