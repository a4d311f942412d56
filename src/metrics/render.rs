//! Rendering of a snapshot as text.

use super::snapshot::{Depth, LOCK_HOLD_BOUNDS_NS, Snapshot, Vhost};
use super::table::{self, Metric};
use super::text::Text;
use crate::base::Millis;
use crate::broker::death_counts::TIME_TO_DEATH_BOUNDS_MS;
use crate::broker::{ByReason, Drops, QueueCounters};
use crate::deaths::Reason;
use crate::store::{SYNC_BUCKETS_US, StoreState, StoreStats};

/// The label value under which queues without a line of their own are summed. A queue of this name
/// is summed there too.
pub const OTHER: &str = "other";

/// The level of detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Detail {
    /// Queues are summed by vhost; only deaths are given by queue.
    Vhosts,
    /// Everything is given by queue.
    Queues,
}

/// Writes all metrics in Prometheus' format.
pub fn render(snapshot: &Snapshot, detail: Detail) -> String {
    let mut text = Text::default();
    process(&mut text, snapshot);
    vhosts(&mut text, &snapshot.vhosts);
    queues(&mut text, &snapshot.vhosts, detail);
    deaths(&mut text, &snapshot.vhosts);
    conditions(&mut text, &snapshot.vhosts);
    timeouts(&mut text, &snapshot.vhosts);
    times_to_death(&mut text, &snapshot.vhosts);
    lock_holds(&mut text, &snapshot.vhosts);
    if let Some((state, figures)) = &snapshot.journal {
        journal(&mut text, *state, figures);
    }
    text.finish()
}

impl Text {
    fn one(&mut self, metric: &Metric, value: u64) {
        self.begin(metric);
        self.sample(metric.name, &[], value);
    }

    fn by<'a>(
        &mut self,
        metric: &Metric,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        self.begin(metric);
        for (text, value) in values {
            self.sample(metric.name, &[(label, text)], value);
        }
    }
}

fn process(text: &mut Text, snapshot: &Snapshot) {
    let Snapshot { links, .. } = snapshot;
    text.by(&table::BUILD_INFO, "version", [(snapshot.version, 1)]);
    text.one(&table::UPTIME, snapshot.uptime_ms / 1_000);
    if let Some(bytes) = snapshot.resident_bytes {
        text.one(&table::RESIDENT, bytes);
    }
    limits(text, snapshot);
    text.one(&table::CONNECTIONS, snapshot.connections);
    text.one(&table::CONNECTIONS_OPENED, snapshot.connections_opened);
    text.one(&table::CONNECTIONS_REFUSED, snapshot.connections_refused);
    text.begin(&table::LOGINS);
    for (way, counts) in &snapshot.logins {
        for (outcome, count) in [
            ("accepted", counts.accepted),
            ("refused", counts.refused),
            ("limited", counts.limited),
        ] {
            let labels = [("mechanism", way.as_str()), ("outcome", outcome)];
            text.sample(table::LOGINS.name, &labels, count);
        }
    }
    text.one(&table::PASSWORDS_HASHED, snapshot.passwords_hashed);
    let roles = [
        ("publisher", links.publishers),
        ("consumer", links.consumers),
        ("management", links.management),
    ];
    text.by(&table::LINKS, "role", roles);
    text.one(&table::INVARIANTS_BROKEN, snapshot.invariants_broken);
    text.one(&table::EVENTS_MISSED, snapshot.events_missed);
    let journal = snapshot.journal.as_ref();
    let journal = journal.is_some_and(|(state, _)| *state != StoreState::Open);
    let causes = [
        ("memory", u64::from(snapshot.memory_alarm)),
        ("disk", u64::from(snapshot.disk_free_alarm)),
        ("journal", u64::from(journal)),
    ];
    text.by(&table::ALARM, "cause", causes);
}

/// Writes resource usage of the process, and its limits.
fn limits(text: &mut Text, snapshot: &Snapshot) {
    if let Some(bytes) = snapshot.virtual_bytes {
        text.one(&table::VIRTUAL, bytes);
    }
    text.begin(&table::PROCESSOR);
    let seconds = seconds_of_ns(snapshot.processor_ms.saturating_mul(1_000_000));
    text.sample(table::PROCESSOR.name, &[], seconds);
    text.one(&table::STARTED, snapshot.started_s);
    for (metric, value) in [
        (&table::OPEN_FILES, snapshot.open_files),
        (&table::OPEN_FILES_MAX, snapshot.open_files_max),
        (&table::MEMORY_USED, Some(snapshot.memory_used_bytes)),
        (&table::MEMORY_LIMIT, Some(snapshot.memory_limit_bytes)),
        (&table::MEMORY_BUDGET, Some(snapshot.memory_budget_bytes)),
        (&table::DISK_FREE, snapshot.disk_free_bytes),
        (
            &table::DISK_FREE_LIMIT,
            Some(snapshot.disk_free_limit_bytes),
        ),
    ] {
        if let Some(value) = value {
            text.one(metric, value);
        }
    }
}

fn vhosts(text: &mut Text, vhosts: &[Vhost]) {
    let mut each = |metric: &Metric, value: fn(&Vhost) -> u64| {
        let values = vhosts.iter().map(|vhost| (&*vhost.name, value(vhost)));
        text.by(metric, "vhost", values);
    };
    each(&table::VHOST_UP, |vhost| u64::from(vhost.up));
    each(&table::VHOST_CONNECTIONS, |vhost| vhost.connections);
    each(&table::SESSIONS, |vhost| vhost.sessions);
    each(&table::QUEUES, |vhost| vhost.queues.count);
    each(&table::PUBLISHED, |vhost| vhost.counters.published);
    each(&table::DELIVERED, |vhost| vhost.counters.delivered);
    each(&table::MESSAGE_MEMORY, |vhost| vhost.memory_bytes);
    each(&table::COPIES_REFUSED, |vhost| {
        vhost.counters.copies_refused
    });
    each(&table::ANNOTATIONS_IGNORED, |vhost| {
        vhost.counters.annotations_ignored
    });
    outcomes(text, &table::PUBLISH_OUTCOMES, vhosts, |vhost| {
        let counters = &vhost.counters;
        vec![
            (
                "accepted",
                counters.accepted.saturating_sub(counters.unheard),
            ),
            ("unheard", counters.unheard),
            ("released", counters.unroutable),
            ("rejected", counters.refused),
        ]
    });
    outcomes(text, &table::DELIVERY_OUTCOMES, vhosts, |vhost| {
        let settled = &vhost.counters.settled;
        vec![
            ("accepted", settled.accepted),
            ("released", settled.released),
            ("rejected", settled.rejected),
            ("modified", settled.modified),
            ("presettled", settled.presettled),
        ]
    });
    text.begin(&table::LINT_FINDINGS);
    for vhost in vhosts {
        for (rule, count) in &vhost.findings {
            let labels = [("vhost", &*vhost.name), ("rule", *rule)];
            text.sample(table::LINT_FINDINGS.name, &labels, *count);
        }
    }
    outcomes(text, &table::REDRIVEN, vhosts, |vhost| {
        let redriven = &vhost.counters.redriven;
        vec![
            ("moved", redriven.moved),
            ("accepted", redriven.accepted),
            ("died_again", redriven.died_again),
            ("discarded", redriven.discarded),
            ("skipped", redriven.skipped),
        ]
    });
    text.begin(&table::DROPPED);
    for vhost in vhosts {
        for kind in vhost.counters.drops.kinds() {
            let reason = kind.reason.map_or("none", Reason::as_str);
            let cause = ("cause", kind.cause.as_str());
            let labels = [("vhost", &*vhost.name), ("reason", reason), cause];
            text.sample(table::DROPPED.name, &labels, kind.count);
        }
    }
}

fn outcomes(
    text: &mut Text,
    metric: &Metric,
    vhosts: &[Vhost],
    counts: fn(&Vhost) -> Vec<(&'static str, u64)>,
) {
    text.begin(metric);
    for vhost in vhosts {
        for (outcome, count) in counts(vhost) {
            let labels = [("vhost", &*vhost.name), ("outcome", outcome)];
            text.sample(metric.name, &labels, count);
        }
    }
}

/// Writes the messages in queues: by vhost, or by queue.
fn queues(text: &mut Text, vhosts: &[Vhost], detail: Detail) {
    text.begin(&table::MESSAGES);
    each_depth(vhosts, detail, |labels, depth, _| {
        for (state, count) in [
            ("ready", depth.ready),
            ("held", depth.held),
            ("delayed", depth.delayed),
            ("dead_pending", depth.dead_pending),
        ] {
            let labels = [labels, &[("state", state)]].concat();
            text.sample(table::MESSAGES.name, &labels, count);
        }
    });
    text.begin(&table::DEAD_LETTER_MESSAGES);
    for vhost in vhosts {
        let mut rest = vhost.queues.receiving_total;
        let named = vhost.queues.receiving.values();
        for queue in named.filter(|queue| queue.name != OTHER) {
            dead_letter_depth(text, (&vhost.name, &queue.name), queue.depth);
            rest = rest.without(queue.depth);
        }
        dead_letter_depth(text, (&vhost.name, OTHER), rest);
    }
    text.begin(&table::READY_BYTES);
    each_depth(vhosts, detail, |labels, depth, _| {
        text.sample(table::READY_BYTES.name, labels, depth.ready_bytes);
    });
    text.begin(&table::CONSUMERS);
    each_depth(vhosts, detail, |labels, depth, _| {
        text.sample(table::CONSUMERS.name, labels, depth.consumers);
    });
    text.begin(&table::OLDEST);
    each_depth(vhosts, detail, |labels, depth, now| {
        text.sample(table::OLDEST.name, labels, depth.oldest_s(now));
    });
    if detail == Detail::Vhosts {
        return;
    }
    text.begin(&table::QUEUE_DELIVERED);
    for vhost in vhosts {
        let mut rest = vhost.counters.delivered;
        for queue in vhost.queues.named.values().filter(|q| q.name != OTHER) {
            let labels = [("vhost", &*vhost.name), ("queue", &*queue.name)];
            text.sample(
                table::QUEUE_DELIVERED.name,
                &labels,
                queue.counters.delivered,
            );
            rest = rest.saturating_sub(queue.counters.delivered);
        }
        let labels = [("vhost", &*vhost.name), ("queue", OTHER)];
        text.sample(table::QUEUE_DELIVERED.name, &labels, rest);
    }
}

fn dead_letter_depth(text: &mut Text, (vhost, queue): (&str, &str), depth: Depth) {
    for (state, count) in [
        ("ready", depth.ready),
        ("held", depth.held),
        ("delayed", depth.delayed),
        ("dead_pending", depth.dead_pending),
    ] {
        let labels = [("vhost", vhost), ("queue", queue), ("state", state)];
        text.sample(table::DEAD_LETTER_MESSAGES.name, &labels, count);
    }
}

fn each_depth(
    vhosts: &[Vhost],
    detail: Detail,
    mut each: impl FnMut(&[(&str, &str)], Depth, Millis),
) {
    for vhost in vhosts {
        let (name, now) = (("vhost", &*vhost.name), vhost.queues.now);
        if detail == Detail::Vhosts {
            each(&[name], vhost.queues.total, now);
            continue;
        }
        let mut rest = vhost.queues.total;
        for queue in vhost.queues.named.values().filter(|q| q.name != OTHER) {
            each(&[name, ("queue", &queue.name)], queue.depth, now);
            rest = rest.without(queue.depth);
        }
        rest.oldest = vhost.queues.unnamed_oldest;
        each(&[name, ("queue", OTHER)], rest, now);
    }
}

/// Deaths of one queue, or of all, by reason and by what happened to the dead letter.
type Fates = [(Reason, &'static str, u64); 12];

fn fates(dead_lettered: ByReason, quarantined: &Drops, drops: &Drops) -> Fates {
    let [a, b, c, d] = Reason::ALL.map(|reason| {
        [
            (reason, "dead_lettered", dead_lettered.of(reason)),
            (reason, "quarantined", quarantined.of_reason(reason)),
            (reason, "dropped", drops.of_reason(reason)),
        ]
    });
    let mut all = [a, b, c, d].into_iter().flatten();
    std::array::from_fn(|_| all.next().unwrap_or((Reason::Rejected, "dropped", 0)))
}

fn deaths(text: &mut Text, vhosts: &[Vhost]) {
    text.begin(&table::DEAD_LETTERS);
    for vhost in vhosts {
        let counters = &vhost.counters;
        let mut rest = fates(
            counters.dead_lettered,
            &counters.quarantined,
            &counters.drops,
        );
        let name = &*vhost.name;
        let dead = |counters: &QueueCounters| counters.dead.total() > 0;
        let named = vhost.queues.named.values();
        for queue in named.filter(|queue| queue.name != OTHER && dead(&queue.counters)) {
            let counters = &queue.counters;
            let fates = fates(
                counters.dead_lettered,
                &counters.quarantined,
                &counters.drops,
            );
            for (rest, (_, _, count)) in rest.iter_mut().zip(fates) {
                rest.2 = rest.2.saturating_sub(count);
            }
            write_fates(text, (name, &queue.name), &fates);
        }
        write_fates(text, (name, OTHER), &rest);
    }
}

fn write_fates(text: &mut Text, (vhost, queue): (&str, &str), fates: &Fates) {
    for &(reason, outcome, count) in fates {
        if count > 0 {
            let labels = [
                ("vhost", vhost),
                ("queue", queue),
                ("reason", reason.as_str()),
                ("outcome", outcome),
            ];
            text.sample(table::DEAD_LETTERS.name, &labels, count);
        }
    }
}

/// Deaths with a condition: of named queues those that are told apart, the rest as `other`.
fn conditions(text: &mut Text, vhosts: &[Vhost]) {
    text.begin(&table::CONDITIONS);
    for vhost in vhosts {
        let mut rest = vhost.counters.with_condition;
        let mut line = |queue: &str, condition: &str, count: u64| {
            let labels = [
                ("vhost", &*vhost.name),
                ("queue", queue),
                ("condition", condition),
            ];
            text.sample(table::CONDITIONS.name, &labels, count);
        };
        for queue in vhost.queues.named.values().filter(|q| q.name != OTHER) {
            let conditions = &queue.counters.conditions;
            for (condition, count) in conditions.named() {
                line(&queue.name, condition, *count);
            }
            if conditions.other() > 0 {
                line(&queue.name, OTHER, conditions.other());
            }
            rest = rest.saturating_sub(conditions.total());
        }
        if rest > 0 {
            line(OTHER, OTHER, rest);
        }
    }
}

/// Deliveries that consumers held for too long: of named queues, the rest as `other`.
fn timeouts(text: &mut Text, vhosts: &[Vhost]) {
    text.begin(&table::CONSUMER_TIMEOUTS);
    for vhost in vhosts {
        let mut rest = vhost.counters.timed_out;
        let mut line = |queue: &str, count: u64| {
            let labels = [("vhost", &*vhost.name), ("queue", queue)];
            text.sample(table::CONSUMER_TIMEOUTS.name, &labels, count);
        };
        let named = vhost.queues.named.values().filter(|q| q.name != OTHER);
        for queue in named.filter(|queue| queue.counters.timed_out > 0) {
            line(&queue.name, queue.counters.timed_out);
            rest = rest.saturating_sub(queue.counters.timed_out);
        }
        line(OTHER, rest);
    }
}

fn times_to_death(text: &mut Text, vhosts: &[Vhost]) {
    text.begin(&table::TIME_TO_DEATH);
    for vhost in vhosts {
        for (reason, times) in Reason::ALL.iter().zip(&vhost.times_to_death) {
            let [told @ .., above] = &times.buckets;
            if times.buckets.iter().all(|count| *count == 0) {
                continue;
            }
            let bounds = TIME_TO_DEATH_BOUNDS_MS.map(seconds_of_ms);
            let told = bounds.into_iter().zip(told.iter().copied());
            let labels = [("vhost", &*vhost.name), ("reason", reason.as_str())];
            let sum = seconds_of_ms(times.sum_ms);
            text.histogram(table::TIME_TO_DEATH.name, &labels, told, (*above, sum));
        }
    }
}

fn lock_holds(text: &mut Text, vhosts: &[Vhost]) {
    text.begin(&table::LOCK_HOLD);
    for vhost in vhosts {
        let Some((above, buckets)) = vhost.lock_holds.split_last() else {
            continue;
        };
        let bounds = LOCK_HOLD_BOUNDS_NS.map(seconds_of_ns);
        let told = bounds.into_iter().zip(buckets.iter().copied());
        let labels = [("vhost", &*vhost.name)];
        let sum = seconds_of_ns(vhost.lock_held_ns);
        text.histogram(table::LOCK_HOLD.name, &labels, told, (*above, sum));
    }
}

fn journal(text: &mut Text, state: StoreState, figures: &StoreStats) {
    let states = [
        ("open", StoreState::Open),
        ("full", StoreState::Full),
        ("poisoned", StoreState::Poisoned),
    ];
    let states = states.map(|(word, one)| (word, u64::from(one == state)));
    text.by(&table::JOURNAL_STATE, "state", states);
    text.one(&table::JOURNAL_PAYLOAD, figures.payload_bytes);
    text.one(&table::JOURNAL_WRITTEN, figures.written_bytes);
    text.one(&table::JOURNAL_REWRITTEN, figures.rewritten_bytes);
    text.one(&table::JOURNAL_RECORDS, figures.records);
    text.one(&table::JOURNAL_ELIDED, figures.elided);
    text.one(&table::JOURNAL_COMMITS, figures.commits);
    text.one(&table::JOURNAL_CHECKPOINTS, figures.checkpoints);
    text.one(&table::JOURNAL_DAMAGED, figures.damaged);
    text.one(&table::JOURNAL_SEGMENTS, figures.segments);
    text.one(&table::JOURNAL_SEGMENT_BYTES, figures.segment_bytes);
    text.one(&table::JOURNAL_LIVE, figures.live_bytes);
    text.one(&table::JOURNAL_WAITING, figures.waiting_bytes);
    text.begin(&table::JOURNAL_SYNC);
    let buckets = SYNC_BUCKETS_US.iter().zip(figures.sync_buckets);
    let buckets = buckets.map(|(bound_us, count)| (seconds_of_ns(bound_us * 1_000), count));
    let above = figures.sync_buckets.last().copied().unwrap_or(0);
    let sum = seconds_of_ns(figures.sync_us.saturating_mul(1_000));
    text.histogram(table::JOURNAL_SYNC.name, &[], buckets, (above, sum));
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a sum for people needs no last digit"
)]
fn seconds_of_ms(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1e3
}

/// Exact up to 2^53 ns, a hundred days.
#[allow(
    clippy::cast_precision_loss,
    reason = "a sum for people needs no last digit"
)]
fn seconds_of_ns(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
