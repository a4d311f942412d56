//! The same metrics with RabbitMQ's names, for dashboards and alerts that use those.
//!
//! Sessions stand for channels. Values that are not counted here have no line: nothing is made up.

use super::render::{Detail, OTHER};
use super::snapshot::{Depth, Gets, Snapshot, Vhost};
use super::table::{Metric, MetricKind, Scope};
use super::text::Text;
use crate::broker::Counters;
use crate::deaths::Reason;

/// The version of RabbitMQ with these names.
const VERSION: &str = "4.0.5";
/// The label for the protocol of all counts.
const PROTOCOL: [(&str, &str); 1] = [("protocol", "amqp10")];

/// Writes all metrics: at `Detail::Vhosts` as one sum each, at `Detail::Queues` by queue, with
/// names that begin with `rabbitmq_detailed_`.
pub fn render(snapshot: &Snapshot, detail: Detail) -> String {
    let mut text = Text::default();
    identity(&mut text, snapshot, detail);
    if detail == Detail::Queues {
        by_queue(&mut text, &snapshot.vhosts);
        return text.finish();
    }
    node(&mut text, snapshot);
    sums(&mut text, snapshot);
    global(&mut text, snapshot);
    text.finish()
}

const fn metric(kind: MetricKind, name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind,
        labels: &[],
        scope: Scope::Everywhere,
        help,
    }
}

impl Text {
    fn gauge(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.begin(&metric(MetricKind::Gauge, name, help));
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.begin(&metric(MetricKind::Counter, name, help));
        self.sample(name, &[], value);
    }

    fn global(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.begin(&metric(MetricKind::Counter, name, help));
        self.sample(name, &PROTOCOL, value);
    }
}

/// Writes the metrics that dashboards join all others with.
fn identity(text: &mut Text, snapshot: &Snapshot, detail: Detail) {
    let name = "rabbitmq_identity_info";
    text.begin(&metric(MetricKind::Gauge, name, "Node and cluster."));
    let node = &*snapshot.node;
    let endpoint = match detail {
        Detail::Vhosts => "aggregated",
        Detail::Queues => "detailed",
    };
    let labels = [
        ("rabbitmq_endpoint", endpoint),
        ("rabbitmq_node", node),
        ("rabbitmq_cluster", node),
        ("rabbitmq_cluster_permanent_id", node),
    ];
    text.sample(name, &labels, 1);
    let name = "rabbitmq_build_info";
    text.begin(&metric(MetricKind::Gauge, name, "Versions."));
    let labels = [
        ("rabbitmq_version", VERSION),
        ("product_name", "Coroner"),
        ("product_version", snapshot.version),
    ];
    text.sample(name, &labels, 1);
}

fn node(text: &mut Text, snapshot: &Snapshot) {
    let gauges = [
        (
            "rabbitmq_resident_memory_limit_bytes",
            "Memory above which publishers are stopped.",
            Some(snapshot.memory_limit_bytes),
        ),
        (
            "rabbitmq_process_resident_memory_bytes",
            "Memory of the process that is in use.",
            snapshot.resident_bytes,
        ),
        (
            "rabbitmq_disk_space_available_bytes",
            "Bytes free on the disk of the data directory.",
            snapshot.disk_free_bytes,
        ),
        (
            "rabbitmq_disk_space_available_limit_bytes",
            "Free bytes below which publishers are stopped.",
            Some(snapshot.disk_free_limit_bytes),
        ),
        (
            "rabbitmq_process_open_fds",
            "Files that are open.",
            snapshot.open_files,
        ),
        (
            "rabbitmq_process_max_fds",
            "Files that may be open.",
            snapshot.open_files_max,
        ),
        (
            "rabbitmq_process_open_tcp_sockets",
            "Sockets of connections.",
            Some(snapshot.connections),
        ),
        (
            "rabbitmq_process_max_tcp_sockets",
            "Connections that may be open.",
            Some(snapshot.connections_max),
        ),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            text.gauge(name, help, value);
        }
    }
    let memory = u64::from(snapshot.memory_alarm);
    text.gauge(
        "rabbitmq_alarms_memory_used_watermark",
        "1 while publishers are stopped because of memory.",
        memory,
    );
    text.gauge(
        "rabbitmq_alarms_free_disk_space_watermark",
        "1 while publishers are stopped because of the disk.",
        u64::from(snapshot.disk_free_alarm),
    );
    connections(text, snapshot);
}

fn connections(text: &mut Text, snapshot: &Snapshot) {
    text.gauge(
        "rabbitmq_connections",
        "Connections open now.",
        snapshot.connections,
    );
    text.counter(
        "rabbitmq_connections_opened_total",
        "Connections that were opened.",
        snapshot.connections_opened,
    );
    text.counter(
        "rabbitmq_connections_closed_total",
        "Connections that were closed.",
        snapshot
            .connections_opened
            .saturating_sub(snapshot.connections),
    );
    for (name, help, value) in [
        (
            "rabbitmq_global_publishers",
            "Publishing links.",
            snapshot.links.publishers,
        ),
        (
            "rabbitmq_global_consumers",
            "Consuming links.",
            snapshot.links.consumers,
        ),
    ] {
        text.begin(&metric(MetricKind::Gauge, name, help));
        text.sample(name, &PROTOCOL, value);
    }
}

fn sums(text: &mut Text, snapshot: &Snapshot) {
    let Snapshot { vhosts, gone, .. } = snapshot;
    let sum = |value: fn(&Vhost) -> u64| vhosts.iter().map(value).sum::<u64>();
    for (name, help, value) in DEPTHS {
        let all = vhosts.iter().map(|vhost| value(&vhost.queues.total));
        text.gauge(name, help, all.sum());
    }
    text.gauge("rabbitmq_queues", "Queues.", sum(|it| it.queues.count));
    let consumers = sum(|it| it.queues.total.consumers);
    text.gauge("rabbitmq_consumers", "Consumers.", consumers);
    text.gauge("rabbitmq_channels", "Sessions.", sum(|it| it.sessions));
    let opened = gone.sessions + sum(|it| it.counters.sessions);
    text.counter(
        "rabbitmq_channels_opened_total",
        "Sessions that began.",
        opened,
    );
    text.counter(
        "rabbitmq_channels_closed_total",
        "Sessions that ended.",
        opened.saturating_sub(sum(|it| it.sessions)),
    );
    text.counter(
        "rabbitmq_queues_declared_total",
        "Declarations of queues, those that were there already included.",
        gone.queues.declared + sum(|it| it.counters.queues.declared),
    );
    text.counter(
        "rabbitmq_queues_created_total",
        "Queues that were made.",
        gone.queues.created + sum(|it| it.counters.queues.created),
    );
    text.counter(
        "rabbitmq_queues_deleted_total",
        "Queues that were deleted.",
        gone.queues.deleted + sum(|it| it.counters.queues.deleted),
    );
}

fn global(text: &mut Text, snapshot: &Snapshot) {
    let mut sums = Sums {
        gets: snapshot.gets,
        ..Sums::default()
    };
    let here = snapshot.vhosts.iter().map(|vhost| &vhost.counters);
    let all = here.chain([&snapshot.gone]);
    all.clone().for_each(|counters| sums.add(counters));
    for (name, help, value) in GLOBAL {
        text.global(name, help, value(&sums));
    }
    for (reason, name) in Reason::ALL.into_iter().zip(DEAD_LETTERED) {
        let counts = all.clone().map(|counters| counters.dead.of(reason));
        text.counter(name, "Messages that died for this reason.", counts.sum());
    }
}

/// Sums over all vhosts.
#[derive(Default)]
struct Sums {
    published: u64,
    presettled: u64,
    accepted: u64,
    unheard: u64,
    unroutable: u64,
    dropped: u64,
    refused_presettled: u64,
    delivered: u64,
    redelivered: u64,
    acknowledged: u64,
    auto_ack: u64,
    gets: Gets,
}

impl Sums {
    fn add(&mut self, counters: &Counters) {
        self.published += counters.published;
        self.presettled += counters.presettled;
        self.accepted += counters.accepted;
        self.unheard += counters.unheard;
        self.unroutable += counters.unroutable;
        self.dropped += counters.unroutable_presettled;
        self.refused_presettled += counters.refused_presettled;
        self.delivered += counters.delivered;
        self.redelivered += counters.redelivered;
        self.acknowledged += counters.settled.accepted;
        self.auto_ack += counters.settled.presettled;
    }

    /// Number of messages whose publishers were told that they are accepted.
    const fn confirmed(&self) -> u64 {
        let lost = self.dropped + self.refused_presettled;
        let untold = self.presettled.saturating_sub(lost);
        self.accepted.saturating_sub(untold)
    }

    /// Number of deliveries to consumers that settle, without those over HTTP.
    const fn manual_ack(&self) -> u64 {
        let others = self.auto_ack + self.gets.auto_ack + self.gets.manual_ack;
        self.delivered.saturating_sub(others)
    }
}

type SumOf = fn(&Sums) -> u64;

const GLOBAL: [(&str, &str, SumOf); 14] = [
    (
        "rabbitmq_global_messages_received_total",
        "Messages from publishers.",
        |it| it.published,
    ),
    (
        "rabbitmq_global_messages_received_confirm_total",
        "Of these, from publishers that wait for the outcome.",
        |it| it.published.saturating_sub(it.presettled),
    ),
    (
        "rabbitmq_global_messages_confirmed_total",
        "Of these, accepted.",
        Sums::confirmed,
    ),
    (
        "rabbitmq_global_messages_routed_total",
        "Of these, for at least one queue.",
        |it| it.published.saturating_sub(it.unroutable + it.unheard),
    ),
    (
        "rabbitmq_global_messages_unroutable_returned_total",
        "Of these, for no queue: released.",
        |it| it.unroutable.saturating_sub(it.dropped),
    ),
    (
        "rabbitmq_global_messages_unroutable_dropped_total",
        "Of these, for no queue and sent settled.",
        |it| it.dropped,
    ),
    (
        "rabbitmq_global_messages_delivered_total",
        "Deliveries to consumers.",
        |it| it.delivered,
    ),
    (
        "rabbitmq_global_messages_redelivered_total",
        "Of these, of messages that a consumer had before.",
        |it| it.redelivered,
    ),
    (
        "rabbitmq_global_messages_delivered_consume_manual_ack_total",
        "Of these, for consumers that settle.",
        Sums::manual_ack,
    ),
    (
        "rabbitmq_global_messages_delivered_consume_auto_ack_total",
        "Of these, sent settled.",
        |it| it.auto_ack,
    ),
    (
        "rabbitmq_global_messages_delivered_get_manual_ack_total",
        "Messages taken over HTTP, to be given back or rejected.",
        |it| it.gets.manual_ack,
    ),
    (
        "rabbitmq_global_messages_delivered_get_auto_ack_total",
        "Messages taken over HTTP for good.",
        |it| it.gets.auto_ack,
    ),
    (
        "rabbitmq_global_messages_get_empty_total",
        "Requests over HTTP that found no message.",
        |it| it.gets.empty,
    ),
    (
        "rabbitmq_global_messages_acknowledged_total",
        "Deliveries that were accepted.",
        |it| it.acknowledged,
    ),
];

/// Names by reason, in the order of [`Reason::ALL`].
const DEAD_LETTERED: [&str; 4] = [
    "rabbitmq_global_messages_dead_lettered_rejected_total",
    "rabbitmq_global_messages_dead_lettered_expired_total",
    "rabbitmq_global_messages_dead_lettered_maxlen_total",
    "rabbitmq_global_messages_dead_lettered_delivery_limit_total",
];

type DepthOf = fn(&Depth) -> u64;

const DEPTHS: [(&str, &str, DepthOf); 4] = [
    (
        "rabbitmq_queue_messages_ready",
        "Messages that wait.",
        |it| it.ready,
    ),
    (
        "rabbitmq_queue_messages_unacked",
        "Messages with consumers.",
        |it| it.held,
    ),
    (
        "rabbitmq_queue_messages",
        "Both together, delayed ones, and dead letters that wait.",
        all,
    ),
    ("rabbitmq_queue_consumers", "Consumers.", |it| it.consumers),
];

const DETAILED: [(&str, &str, DepthOf); 4] = [
    (
        "rabbitmq_detailed_queue_messages_ready",
        "Messages that wait.",
        |it| it.ready,
    ),
    (
        "rabbitmq_detailed_queue_messages_unacked",
        "Messages with consumers.",
        |it| it.held,
    ),
    (
        "rabbitmq_detailed_queue_messages",
        "Both together, delayed ones, and dead letters that wait.",
        all,
    ),
    ("rabbitmq_detailed_queue_consumers", "Consumers.", |it| {
        it.consumers
    }),
];

const fn all(depth: &Depth) -> u64 {
    depth.ready + depth.held + depth.delayed + depth.dead_pending
}

/// Writes the messages in each queue; those beyond the bound are summed as [`OTHER`].
fn by_queue(text: &mut Text, vhosts: &[Vhost]) {
    for (name, help, value) in DETAILED {
        text.begin(&metric(MetricKind::Gauge, name, help));
        for vhost in vhosts {
            let mut rest = vhost.queues.total;
            for queue in vhost.queues.named.values().filter(|it| it.name != OTHER) {
                let labels = [("vhost", &*vhost.name), ("queue", &*queue.name)];
                text.sample(name, &labels, value(&queue.depth));
                rest = rest.without(queue.depth);
            }
            let labels = [("vhost", &*vhost.name), ("queue", OTHER)];
            text.sample(name, &labels, value(&rest));
        }
    }
}
