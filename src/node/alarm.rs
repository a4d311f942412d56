//! The alarms that stop publishers: too much memory is used, too little of the disk is free, the
//! journal has no room or failed.

use std::sync::Arc;

use super::events::EventsBound;
use super::partials::{Arriving, Partials};
use super::store::Store;
use super::vhosts::Vhosts;
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Gauge, Lsn};
use crate::store::{Disk, StoreState};

/// The alarms, and the values they were judged by. While one is in effect publishers get no credit;
/// consumers go on. Each ends by itself, except that of a poisoned journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Alarms {
    /// Messages take more memory than the setting `memory-limit` allows.
    pub memory_alarm: bool,
    /// Less of the disk is free than the setting `disk-free-limit` asks for.
    pub disk_free_alarm: bool,
    /// The state of the journal; an alarm unless it is open. None: messages live in memory only.
    pub journal: Option<StoreState>,
    /// Estimated memory of messages and connections, in bytes.
    pub memory_used_bytes: u64,
    /// Bytes free on the disk of the data directory; none if they cannot be read.
    pub disk_free_bytes: Option<u64>,
}

impl Alarms {
    /// Whether any alarm is in effect, so that publishers are stopped.
    pub fn is_any(&self) -> bool {
        let well = matches!(self.journal, None | Some(StoreState::Open));
        self.memory_alarm || self.disk_free_alarm || !well
    }

    /// What they mean for messages that arrive. `is_kept_up`: those that wait take so much memory that they
    /// alone keep its alarm up.
    fn arriving(&self, is_kept_up: bool) -> Arriving {
        let without_memory = Self {
            memory_alarm: false,
            ..*self
        };
        if !self.is_any() {
            Arriving::Freely
        } else if is_kept_up || without_memory.is_any() {
            Arriving::Stopped
        } else {
            Arriving::OneByOne
        }
    }
}

/// The limits that alarms are judged by, in bytes; 0: none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    pub(crate) disk_free_bytes: u64,
}

/// The current alarms of a broker, for all to read.
#[derive(Debug, Default)]
pub(crate) struct Board {
    alarms: RankedMutex<rank::Alarms, Alarms>,
    connections: Gauge,
}

impl Board {
    /// A board whose alarms count, besides messages, the memory of this gauge.
    pub(crate) fn counting(connections: Gauge) -> Self {
        Self {
            alarms: RankedMutex::default(),
            connections,
        }
    }

    pub(crate) fn alarms(&self) -> Alarms {
        *self.alarms.lock()
    }

    /// The gauge of memory that is not messages: incomplete messages, buffers and output of
    /// connections; HTTP requests and their answers; queues, exchanges, bindings, policies and
    /// users.
    pub(crate) const fn connections(&self) -> &Gauge {
        &self.connections
    }
}

/// The values of one check. While they are the same and no alarm is in effect, nothing happens in
/// the broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AlarmReading {
    used_bytes: u64,
    durable: Option<Lsn>,
    /// Whether an alarm is in effect: then its end must be noticed soon.
    pub(crate) is_alarm: bool,
}

/// Watches memory and disk, and raises and clears the alarm in all vhosts.
#[derive(Debug)]
pub(crate) struct Watch<D: Disk> {
    pub(crate) board: Arc<Board>,
    pub(crate) vhosts: Arc<Vhosts<D>>,
    pub(crate) partials: Arc<Partials>,
    pub(crate) store: Option<Arc<Store<D>>>,
    pub(crate) events: EventsBound,
}

impl<D: Disk> Watch<D> {
    /// Checks what is used and free now. Returns the values, by which the caller sees whether
    /// anything happens.
    pub(crate) fn look(&self, limits: Limits) -> AlarmReading {
        self.events.set_memory_limit(limits.memory_bytes);
        let (before, store) = (self.board.alarms(), self.store.as_ref());
        let vhosts_now = self.vhosts.all();
        let messages_bytes: u64 = vhosts_now.iter().map(|vhost| vhost.memory_bytes()).sum();
        let used_bytes = messages_bytes + self.board.connections.bytes();
        let free_bytes = store.and_then(|store| store.free_bytes());
        let now = Alarms {
            memory_alarm: is_above(before.memory_alarm, used_bytes, limits.memory_bytes),
            disk_free_alarm: free_bytes.is_some_and(|free_bytes| {
                is_below(before.disk_free_alarm, free_bytes, limits.disk_free_bytes)
            }),
            journal: store.map(|store| store.state()),
            memory_used_bytes: used_bytes,
            disk_free_bytes: free_bytes,
        };
        *self.board.alarms.lock() = now;
        tell(before, now, limits);
        if let Some(store) = store {
            store.set_disk_low(now.disk_free_alarm.then_some(free_bytes).flatten());
        }
        let is_kept_up = is_above(true, messages_bytes, limits.memory_bytes);
        self.partials.set_arriving(now.arriving(is_kept_up));
        if now.is_any() != before.is_any() {
            self.vhosts.set_alarm(now.is_any());
        }
        AlarmReading {
            used_bytes,
            durable: store.map(|store| store.durable()),
            is_alarm: now.is_any(),
        }
    }
}

/// Logs which alarms changed and what can be done about them. (The journal logs its own.)
fn tell(before: Alarms, now: Alarms, limits: Limits) {
    let (used_bytes, limit_bytes) = (now.memory_used_bytes, limits.memory_bytes);
    match (before.memory_alarm, now.memory_alarm) {
        (false, true) => tracing::warn!(
            used_bytes,
            limit_bytes,
            "memory alarm: messages take more than memory-limit. Publishers get no credit until \
             consumers have taken a tenth of them"
        ),
        (true, false) => tracing::info!(used_bytes, limit_bytes, "memory alarm is over"),
        _ => {}
    }
    let free_bytes = now.disk_free_bytes.unwrap_or(0);
    let limit_bytes = limits.disk_free_bytes;
    match (before.disk_free_alarm, now.disk_free_alarm) {
        (false, true) => tracing::warn!(
            free_bytes,
            limit_bytes,
            "disk alarm: less than disk-free-limit is free. Publishers get no credit, consumers go \
             on. Make room on the disk or let consumers empty the queues: publishers go on then"
        ),
        (true, false) => tracing::info!(free_bytes, limit_bytes, "disk alarm is over"),
        _ => {}
    }
    if now.is_any() != before.is_any() {
        if now.is_any() {
            tracing::warn!("publishers are stopped");
        } else {
            tracing::info!("publishers go on");
        }
    }
}

/// Whether more than the limit is used; an alarm is in effect until a tenth of the limit is free
/// again, so that it does not flutter. 0: no limit.
const fn is_above(raised: bool, used: u64, limit: u64) -> bool {
    let bound = if raised { limit - limit / 10 } else { limit };
    limit > 0 && used > bound
}

/// Whether less than the limit is free; an alarm is in effect until a tenth more than the limit is
/// free.
const fn is_below(raised: bool, free: u64, limit: u64) -> bool {
    let bound = if raised {
        limit.saturating_add(limit / 10)
    } else {
        limit
    };
    free < bound
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (mut above, mut below) = (false, false);
        for (used, expect) in steps {
            above = is_above(above, used, 100);
            assert_eq!(above, expect, "{used} used of 100");
            below = is_below(below, 200 - used, 100);
            assert_eq!(below, expect, "{} free where 100 are to be", 200 - used);
        }
        assert!(!is_above(false, u64::MAX, 0) && !is_below(false, 0, 0));
    }

    #[test]
    fn publishers_stop_for_each_alarm_and_for_a_journal_that_is_not_well() {
        let alarms = Alarms::default();
        let memory_alarm = true;
        let disk_free_alarm = true;
        let journal = |state| Alarms {
            journal: Some(state),
            ..alarms
        };
        for (alarms, expect) in [
            (alarms, false),
            (journal(StoreState::Open), false),
            (journal(StoreState::Full), true),
            (journal(StoreState::Poisoned), true),
            (
                Alarms {
                    memory_alarm,
                    ..alarms
                },
                true,
            ),
            (
                Alarms {
                    disk_free_alarm,
                    ..alarms
                },
                true,
            ),
        ] {
            assert_eq!(alarms.is_any(), expect, "{alarms:?}");
            let is_stopped = alarms.arriving(true) == Arriving::Stopped;
            assert_eq!(is_stopped, expect, "{alarms:?}");
            let is_let_in = alarms.arriving(false) == Arriving::OneByOne;
            assert_eq!(is_let_in, alarms.memory_alarm, "{alarms:?}");
        }
    }
}
