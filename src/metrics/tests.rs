//! What the text says, and that nothing is missing from it or from the pages about it.

use std::collections::BTreeSet;

use super::document::page;
use super::snapshot::{Depth, QueueFigures};
use super::*;
use crate::access::{LoginCounts, LoginWay};
use crate::base::{Millis, Name, QueueId};
use crate::broker::{ByReason, DropCause, QueueCounters};
use crate::deaths::Reason;
use crate::store::{StoreState, StoreStats};

fn queue(name: &str, ready: u64, rejected: u64) -> QueueFigures {
    let mut counters = QueueCounters {
        delivered: ready + 1,
        ..QueueCounters::default()
    };
    for _ in 0..rejected {
        counters.dead.add(Reason::Rejected);
        counters.dead_lettered.add(Reason::Rejected);
    }
    QueueFigures {
        name: Name::from(name),
        depth: Depth {
            ready,
            ready_bytes: ready * 10,
            ..Depth::default()
        },
        counters,
    }
}

/// A vhost with the named queues, and more beside them.
fn vhost(queues: Vec<QueueFigures>) -> Vhost {
    let mut vhost = Vhost {
        name: Name::from("/"),
        up: true,
        lock_holds: vec![0; LOCK_HOLD_BOUNDS_NS.len() + 1],
        ..Vhost::default()
    };
    vhost.counters.dead_lettered = ByReason {
        rejected: 100,
        ..ByReason::default()
    };
    let expired = Some(Reason::Expired);
    let quarantined = &mut vhost.counters.quarantined;
    quarantined.add(Millis(0), expired, DropCause::Cycle, 4);
    let drops = &mut vhost.counters.drops;
    drops.add(Millis(0), expired, DropCause::Unroutable, 7);
    drops.add(Millis(0), None, DropCause::Purged, 3);
    vhost.counters.delivered = 50;
    vhost.counters.with_condition = 1;
    vhost.times_to_death[0].add(1);
    vhost.queues.total.ready = 40;
    vhost.queues.total.ready_bytes = 400;
    let named = (1..).map(QueueId).zip(queues);
    vhost.queues.named = named.collect();
    vhost.findings = vec![("DL001", 2), ("DL009", 1)];
    vhost
}

fn snapshot(queues: Vec<QueueFigures>) -> Snapshot {
    let logins = LoginCounts {
        accepted: 1,
        refused: 2,
        limited: 3,
    };
    Snapshot {
        version: "1.2.3",
        disk_free_alarm: true,
        logins: vec![(LoginWay::Basic, logins)],
        passwords_hashed: 5,
        invariants_broken: 3,
        events_missed: 2,
        resident_bytes: Some(4096),
        node: "here".to_owned(),
        virtual_bytes: Some(8192),
        processor_ms: 1_500,
        open_files: Some(7),
        open_files_max: Some(100),
        disk_free_bytes: Some(1_000),
        disk_free_limit_bytes: 50,
        memory_limit_bytes: 2_048,
        vhosts: vec![vhost(queues)],
        journal: Some((StoreState::Full, StoreStats::default())),
        ..Snapshot::default()
    }
}

/// How many messages lie in a queue for dead letters could be asked at `/metrics/per-object` only.
#[test]
fn what_lies_in_queues_for_dead_letters_is_told_by_queue_and_bounded() {
    let mut snapshot = snapshot(vec![queue("orders", 30, 2)]);
    let queues = &mut snapshot.vhosts[0].queues;
    let receiving = [queue("orders.dlq", 5, 0), queue("other", 1, 0)];
    queues.receiving = (1..).map(QueueId).zip(receiving).collect();
    queues.receiving_total.ready = 9;
    let text = render(&snapshot, Detail::Vhosts);
    let expect = [
        r#"{vhost="/",queue="orders.dlq",state="ready"} 5"#,
        r#"{vhost="/",queue="orders.dlq",state="held"} 0"#,
        r#"{vhost="/",queue="orders.dlq",state="delayed"} 0"#,
        r#"{vhost="/",queue="orders.dlq",state="dead_pending"} 0"#,
        r#"{vhost="/",queue="other",state="ready"} 4"#,
        r#"{vhost="/",queue="other",state="held"} 0"#,
        r#"{vhost="/",queue="other",state="delayed"} 0"#,
        r#"{vhost="/",queue="other",state="dead_pending"} 0"#,
    ];
    assert_eq!(lines(&text, "coroner_dead_letter_queue_messages"), expect);
}

#[test]
fn findings_are_told_by_rule() {
    let text = render(&snapshot(Vec::new()), Detail::Vhosts);
    let expect = [
        r#"{vhost="/",rule="DL001"} 2"#,
        r#"{vhost="/",rule="DL009"} 1"#,
    ];
    assert_eq!(lines(&text, "coroner_lint_findings"), expect);
}

/// The lines of one metric, without its head.
fn lines(text: &str, name: &str) -> Vec<String> {
    let own = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    let lines = text.lines().filter(own);
    lines.map(|line| line[name.len()..].to_owned()).collect()
}

#[test]
fn conditions_times_and_the_oldest_message_are_told() {
    let mut named = queue("a", 1, 2);
    named.depth.oldest = Some(Millis(8_000));
    for condition in ["app:bad", "app:bad", "not a name"] {
        let conditions = &mut named.counters.conditions;
        conditions.add(&Name::from(condition), true);
    }
    let mut snapshot = snapshot(vec![named]);
    let vhost = &mut snapshot.vhosts[0];
    vhost.counters.with_condition = 10;
    vhost.queues.now = Millis(10_000);
    vhost.queues.total.oldest = Some(Millis(1_000));
    vhost.queues.unnamed_oldest = Some(Millis(1_000));
    vhost.times_to_death = Default::default();
    vhost.times_to_death[1].add(30_000);
    let text = render(&snapshot, Detail::Queues);
    let expect = [
        r#"{vhost="/",queue="a",condition="app:bad"} 2"#,
        r#"{vhost="/",queue="a",condition="other"} 1"#,
        r#"{vhost="/",queue="other",condition="other"} 7"#,
    ];
    assert_eq!(lines(&text, "coroner_dead_letter_conditions_total"), expect);
    let expect = [
        r#"{vhost="/",queue="a"} 2"#,
        r#"{vhost="/",queue="other"} 9"#,
    ];
    assert_eq!(lines(&text, "coroner_oldest_message_seconds"), expect);
    let buckets = lines(&text, "coroner_time_to_death_seconds_bucket");
    assert_eq!(buckets[8], r#"{vhost="/",reason="expired",le="10"} 0"#);
    assert_eq!(buckets[9], r#"{vhost="/",reason="expired",le="60"} 1"#);
    let sum = lines(&text, "coroner_time_to_death_seconds_sum");
    assert_eq!(sum, [r#"{vhost="/",reason="expired"} 30"#]);
}

#[test]
fn deaths_are_told_by_queue_and_the_rest_is_other() {
    let queues = vec![queue("a", 1, 2), queue("other", 1, 5), queue("calm", 1, 0)];
    let text = render(&snapshot(queues), Detail::Vhosts);
    let expect = [
        r#"{vhost="/",queue="a",reason="rejected",outcome="dead_lettered"} 2"#,
        r#"{vhost="/",queue="other",reason="rejected",outcome="dead_lettered"} 98"#,
        r#"{vhost="/",queue="other",reason="expired",outcome="quarantined"} 4"#,
        r#"{vhost="/",queue="other",reason="expired",outcome="dropped"} 7"#,
    ];
    assert_eq!(lines(&text, "coroner_dead_letters_total"), expect);
    let dropped = [
        r#"{vhost="/",reason="expired",cause="unroutable"} 7"#,
        r#"{vhost="/",reason="none",cause="purged"} 3"#,
    ];
    assert_eq!(lines(&text, "coroner_messages_dropped_total"), dropped);
}

#[test]
fn queues_are_summed_by_vhost_unless_asked_for_by_object() {
    let snapshot = snapshot(vec![queue("a", 3, 0), queue("b", 7, 0)]);
    let name = "coroner_queue_ready_bytes";
    let text = render(&snapshot, Detail::Vhosts);
    assert_eq!(lines(&text, name), [r#"{vhost="/"} 400"#]);
    assert!(!text.contains("coroner_queue_delivered_total"));
    let text = render(&snapshot, Detail::Queues);
    let expect = [
        r#"{vhost="/",queue="a"} 30"#,
        r#"{vhost="/",queue="b"} 70"#,
        r#"{vhost="/",queue="other"} 300"#,
    ];
    assert_eq!(lines(&text, name), expect);
    let expect = [
        r#"{vhost="/",queue="a"} 4"#,
        r#"{vhost="/",queue="b"} 8"#,
        r#"{vhost="/",queue="other"} 38"#,
    ];
    assert_eq!(lines(&text, "coroner_queue_delivered_total"), expect);
}

#[test]
fn logins_are_told_by_mechanism_and_outcome() {
    let text = render(&snapshot(Vec::new()), Detail::Vhosts);
    let expect = [
        r#"{mechanism="Basic",outcome="accepted"} 1"#,
        r#"{mechanism="Basic",outcome="refused"} 2"#,
        r#"{mechanism="Basic",outcome="limited"} 3"#,
    ];
    assert_eq!(lines(&text, "coroner_logins_total"), expect);
    assert_eq!(lines(&text, "coroner_passwords_hashed_total"), [" 5"]);
    assert_eq!(lines(&text, "coroner_invariants_broken_total"), [" 3"]);
}

#[test]
fn labels_are_escaped() {
    let text = render(&snapshot(vec![queue("a\"b\\c\nd", 1, 0)]), Detail::Queues);
    let line = r#"{vhost="/",queue="a\"b\\c\nd"} 10"#;
    assert_eq!(lines(&text, "coroner_queue_ready_bytes")[0], line);
}

#[test]
fn histograms_are_cumulative_and_in_seconds() {
    let mut snapshot = snapshot(Vec::new());
    let vhost = &mut snapshot.vhosts[0];
    (
        vhost.lock_holds[0],
        vhost.lock_holds[2],
        vhost.lock_holds[LOCK_HOLD_BOUNDS_NS.len()],
    ) = (2, 5, 1);
    vhost.lock_held_ns = 2_500_000_000;
    let mut figures = StoreStats::default();
    (figures.sync_buckets[1], figures.sync_buckets[11]) = (4, 2);
    figures.sync_us = 1_500_000;
    snapshot.journal = Some((StoreState::Open, figures));
    let text = render(&snapshot, Detail::Vhosts);
    let holds = lines(&text, "coroner_lock_hold_seconds_bucket");
    assert_eq!(holds[0], r#"{vhost="/",le="0.00000025"} 2"#);
    assert_eq!(holds[2], r#"{vhost="/",le="0.000001"} 7"#);
    assert!(
        holds.contains(&r#"{vhost="/",le="0.001"} 7"#.to_owned()),
        "{holds:?}"
    );
    assert_eq!(holds[holds.len() - 2], r#"{vhost="/",le="2"} 7"#);
    assert_eq!(holds[holds.len() - 1], r#"{vhost="/",le="+Inf"} 8"#);
    assert_eq!(
        lines(&text, "coroner_lock_hold_seconds_sum"),
        [r#"{vhost="/"} 2.5"#]
    );
    assert_eq!(
        lines(&text, "coroner_lock_hold_seconds_count"),
        [r#"{vhost="/"} 8"#]
    );
    let syncs = lines(&text, "coroner_journal_sync_seconds_bucket");
    assert_eq!(syncs[..2], [r#"{le="0.00005"} 0"#, r#"{le="0.0001"} 4"#]);
    assert_eq!(syncs[10..], [r#"{le="1"} 4"#, r#"{le="+Inf"} 6"#]);
    assert_eq!(lines(&text, "coroner_journal_sync_seconds_sum"), [" 1.5"]);
}

#[test]
fn a_journal_that_is_not_open_is_an_alarm() {
    let text = render(&snapshot(Vec::new()), Detail::Vhosts);
    let expect = [
        r#"{cause="memory"} 0"#,
        r#"{cause="disk"} 1"#,
        r#"{cause="journal"} 1"#,
    ];
    assert_eq!(lines(&text, "coroner_alarm"), expect);
    let expect = [
        r#"{state="open"} 0"#,
        r#"{state="full"} 1"#,
        r#"{state="poisoned"} 0"#,
    ];
    assert_eq!(lines(&text, "coroner_journal_state"), expect);
}

#[test]
fn every_metric_is_written_once_with_its_type_help_and_labels() {
    let text = render(&snapshot(vec![queue("a", 1, 1)]), Detail::Queues);
    let heads: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("# TYPE "))
        .collect();
    let told: BTreeSet<_> = heads.iter().copied().collect();
    assert_eq!(told.len(), heads.len(), "each head once");
    assert_eq!(told.len(), TABLE.len());
    for metric in TABLE {
        let (name, kind) = (metric.name, metric.kind.as_str());
        assert!(told.contains(&*format!("# TYPE {name} {kind}")), "{name}");
        assert!(
            text.contains(&format!("# HELP {name} {}\n", metric.help)),
            "{name}"
        );
        assert_eq!(
            name.ends_with("_total"),
            metric.kind == MetricKind::Counter,
            "{name}"
        );
        let sample = match metric.kind {
            MetricKind::Histogram => format!("{name}_count"),
            MetricKind::Counter | MetricKind::Gauge => name.to_owned(),
        };
        let lines = lines(&text, &sample);
        assert!(!lines.is_empty(), "{name}");
        for label in metric.labels {
            let given = format!("{label}=\"");
            assert!(
                lines.iter().all(|line| line.contains(&given)),
                "{name} {label}"
            );
        }
    }
}

#[test]
fn the_page_of_metrics_is_the_one_written_from_the_table() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/METRICS.md");
    if std::env::var_os("CORONER_WRITE_DOCS").is_some() {
        #[allow(clippy::disallowed_methods, reason = "the page is written by its test")]
        std::fs::write(file, page()).unwrap();
    }
    #[allow(clippy::disallowed_methods, reason = "the page is checked by its test")]
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(found, page(), "see the end of its introduction");
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let dashboard = include_str!("../../docs/grafana-dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let expressions = targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap());
    let mut asked = BTreeSet::new();
    for expression in expressions {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names = words.filter(|w| w.starts_with("coroner_") || w.starts_with("process_"));
        let names: Vec<_> = names.collect();
        assert!(!names.is_empty(), "{expression}");
        asked.extend(names);
    }
    assert!(asked.len() > 15, "{asked:?}");
    for name in asked {
        let known = TABLE.iter().any(|metric| match metric.kind {
            MetricKind::Histogram => name
                .strip_prefix(metric.name)
                .is_some_and(|suffix| ["_bucket", "_sum", "_count"].contains(&suffix)),
            MetricKind::Counter | MetricKind::Gauge => name == metric.name,
        });
        assert!(known, "{name}");
    }
}

#[test]
fn rabbitmqs_names_have_the_same_figures() {
    let mut snapshot = snapshot(vec![queue("a", 3, 0), queue("b", 7, 0)]);
    let counters = &mut snapshot.vhosts[0].counters;
    (counters.published, counters.presettled) = (20, 3);
    (counters.unroutable, counters.unroutable_presettled) = (4, 1);
    (counters.accepted, counters.refused_presettled) = (14, 1);
    (counters.redelivered, counters.sessions) = (6, 8);
    snapshot.connections_max = 12;
    snapshot.gets = Gets {
        auto_ack: 2,
        manual_ack: 3,
        empty: 1,
    };
    let text = rabbitmq::render(&snapshot, Detail::Vhosts);
    let check =
        |text: &str, name: &str, expect: &[&str]| assert_eq!(lines(text, name), expect, "{name}");
    check(&text, "rabbitmq_queue_messages_ready", &[" 40"]);
    check(&text, "rabbitmq_disk_space_available_bytes", &[" 1000"]);
    check(&text, "rabbitmq_resident_memory_limit_bytes", &[" 2048"]);
    check(&text, "rabbitmq_process_open_fds", &[" 7"]);
    check(
        &text,
        "rabbitmq_global_messages_delivered_total",
        &["{protocol=\"amqp10\"} 50"],
    );
    check(
        &text,
        "rabbitmq_global_messages_delivered_consume_manual_ack_total",
        &["{protocol=\"amqp10\"} 45"],
    );
    let global = |name: &str, value: &str| {
        let name = format!("rabbitmq_global_messages_{name}_total");
        check(&text, &name, &[&format!("{{protocol=\"amqp10\"}} {value}")]);
    };
    global("received_confirm", "17");
    global("confirmed", "13");
    global("unroutable_dropped", "1");
    global("unroutable_returned", "3");
    global("redelivered", "6");
    global("delivered_get_auto_ack", "2");
    global("delivered_get_manual_ack", "3");
    global("get_empty", "1");
    check(&text, "rabbitmq_channels_opened_total", &[" 8"]);
    check(&text, "rabbitmq_channels_closed_total", &[" 8"]);
    check(&text, "rabbitmq_process_max_tcp_sockets", &[" 12"]);
    let info = lines(&text, "rabbitmq_identity_info");
    assert!(
        info[0].contains("rabbitmq_endpoint=\"aggregated\""),
        "{info:?}"
    );
    assert!(info[0].contains("rabbitmq_cluster=\"here\""), "{info:?}");
    let by_queue = rabbitmq::render(&snapshot, Detail::Queues);
    let ready = [
        "{vhost=\"/\",queue=\"a\"} 3",
        "{vhost=\"/\",queue=\"b\"} 7",
        "{vhost=\"/\",queue=\"other\"} 30",
    ];
    check(&by_queue, "rabbitmq_detailed_queue_messages_ready", &ready);
    assert!(!by_queue.contains("rabbitmq_queue_messages_ready "));
}
