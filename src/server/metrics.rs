//! Snapshots for metrics, copied from the broker a slice at a time.

use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use super::Vhost;
use super::descriptors::open_files;
use super::memory::{resident_bytes, virtual_bytes};
use super::shared::Shared;
use super::yielding::give_way;
use crate::base::limits::LISTING_SLICE;
use crate::base::{Millis, Name, invariant};
use crate::metrics::{self, Detail, Links, Queues, Snapshot};

impl Shared {
    /// All metrics as text. Reads every queue, so it is not for tasks that move messages.
    pub(super) fn metrics(self: &Arc<Self>, detail: Detail) -> String {
        let mut snapshot = self.snapshot(detail);
        self.count_findings(&mut snapshot);
        metrics::render(&snapshot, detail)
    }

    /// The same with RabbitMQ's names.
    pub(super) fn rabbitmq_metrics(self: &Arc<Self>, detail: Detail) -> String {
        metrics::rabbitmq::render(&self.snapshot(detail), detail)
    }

    #[cfg(feature = "http")]
    fn count_findings(self: &Arc<Self>, snapshot: &mut Snapshot) {
        let vhosts = self.all_vhosts();
        let counts = super::admin::Admin::new(Arc::clone(self)).lint_counts(&vhosts);
        for (vhost, counts) in vhosts.iter().zip(counts) {
            let named = snapshot.vhosts.iter_mut();
            let named = named.into_iter().find(|one| one.name == *vhost.name());
            if let Some(figures) = named {
                figures.findings = counts.by_rule;
            }
        }
    }

    /// There is no linter without definitions.
    #[cfg(not(feature = "http"))]
    fn count_findings(self: &Arc<Self>, _snapshot: &mut Snapshot) {}

    fn snapshot(&self, detail: Detail) -> Snapshot {
        let counts = self.connection_counts();
        let [publishers, consumers, management] = self.node.environment.open_links.counts();
        let (vhosts, gone) = self.node.vhosts.all_and_gone();
        let named_max = usize::try_from(self.live.read().metrics_queues_max).unwrap_or(usize::MAX);
        let vhosts = vhosts
            .iter()
            .map(|vhost| vhost_figures(vhost, self.clock.now().mono, named_max, detail));
        // Not held while the vhosts are looked at: who logs in would wait.
        let logins = self.node.environment.guard.lock().counts().collect();
        let (alarms, live) = (self.node.alarms.alarms(), self.live.read().clone());
        let (open_files, open_files_max) = open_files();
        let started_ms = self
            .clock
            .now()
            .wall
            .0
            .saturating_sub_unsigned(self.clock.uptime_ms());
        Snapshot {
            node: self.settings.node_name.clone(),
            virtual_bytes: virtual_bytes(),
            processor_ms: processor_ms(),
            started_s: u64::try_from(started_ms).unwrap_or_default() / 1_000,
            open_files,
            open_files_max,
            memory_used_bytes: alarms.memory_used_bytes,
            memory_limit_bytes: live.memory_limit.0,
            memory_budget_bytes: live.budget_in_force(),
            disk_free_bytes: alarms.disk_free_bytes,
            disk_free_limit_bytes: live.disk_free_limit.0,
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: self.clock.uptime_ms(),
            resident_bytes: resident_bytes(),
            connections: counts.open,
            connections_opened: counts.taken,
            connections_refused: counts.refused,
            connections_max: live.connections_max.into(),
            #[cfg(feature = "http")]
            gets: self.gets.counts(),
            #[cfg(not(feature = "http"))]
            gets: metrics::Gets::default(),
            logins,
            passwords_hashed: self.logins.hashed(),
            links: Links {
                publishers,
                consumers,
                management,
            },
            invariants_broken: invariant::broken_total(),
            events_missed: self.node.events.missed(),
            memory_alarm: alarms.memory_alarm,
            disk_free_alarm: alarms.disk_free_alarm,
            vhosts: vhosts.collect(),
            gone,
            journal: self.journal(),
        }
    }
}

/// Processor time of this process, in milliseconds.
fn processor_ms() -> u64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanoseconds) = (spent.tv_sec, spent.tv_nsec);
    let ms = seconds
        .saturating_mul(1_000)
        .saturating_add(nanoseconds / 1_000_000);
    u64::try_from(ms).unwrap_or_default()
}

fn vhost_figures(vhost: &Vhost, now: Millis, named_max: usize, detail: Detail) -> metrics::Vhost {
    let stats = vhost.stats();
    let mut figures = metrics::Vhost {
        name: Name::from(stats.name),
        up: !stats.failed,
        connections: stats.connections as u64,
        lock_holds: stats.lock_holds.buckets.to_vec(),
        lock_held_ns: stats.lock_holds.total_ns,
        memory_bytes: vhost.memory_bytes(),
        queues: Queues::new(now, named_max, detail == Detail::Queues),
        ..metrics::Vhost::default()
    };
    let seen = vhost.look(|core| {
        let sessions = core.session_count() as u64;
        (core.counters().clone(), sessions, core.deaths().times)
    });
    (figures.counters, figures.sessions, figures.times_to_death) = seen.unwrap_or_default();
    let mut after: Option<Name> = None;
    loop {
        let queues = &mut figures.queues;
        let last = vhost.look(|core| {
            core.visit_after(after.as_ref(), LISTING_SLICE, |queue| queues.add(queue))
        });
        after = last.unwrap_or_default();
        give_way();
        if after.is_none() {
            return figures;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Seed, Signal};
    use crate::broker::{Command, Core, CoreOptions, Effects, QueueCommand};
    use crate::node::events::Events;
    use crate::server::clock::SystemClock;
    use crate::server::{Pager, SpillTarget};

    /// Each hold looks at [`LISTING_SLICE`] queues at most, however many there are.
    #[test]
    fn ten_thousand_queues_are_counted_in_slices() {
        const QUEUES: usize = 10_000;
        let clock = SystemClock::start();
        let mut core = Core::new(CoreOptions::new(Name::from("v"), Seed(1)));
        let mut effects = Effects::new();
        for index in 0..QUEUES {
            let declare = Command::Queue(QueueCommand::Declare {
                connection: None,
                name: Name::from(format!("q{index}")),
                durable: true,
                exclusive: false,
                auto_delete: false,
                arguments: Vec::new(),
            });
            core.apply(clock.now(), declare, &mut effects);
        }
        let failure = Arc::new(Signal::default());
        let pager = Arc::new(Pager::new(SpillTarget::Nowhere, 0));
        let events = Events::default().ring(&mut core);
        let context = (Seed(1), Arc::new(clock) as _, failure);
        let vhost = Vhost::new(core, (None, pager, events), context);
        let figures = vhost_figures(&vhost, Millis(0), 10, Detail::Queues);
        assert_eq!(figures.queues.count, QUEUES as u64);
        assert_eq!(figures.queues.named.len(), 10);
        let holds = vhost.stats().lock_holds.count();
        assert!(holds >= (QUEUES / LISTING_SLICE) as u64, "{holds}");
    }
}
