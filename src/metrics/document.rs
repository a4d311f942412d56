//! The page docs/METRICS.md, generated from the table.

use super::table::{Scope, TABLE};
use crate::broker::DropCause;

/// The text of the whole page.
pub(super) fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for metric in TABLE {
        let mut labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        if metric.scope != Scope::Everywhere {
            let only = metric.scope == Scope::PerObject;
            labels.push(if only { "`queue`" } else { "(`queue`)" }.to_owned());
        }
        let (name, kind, help) = (metric.name, metric.kind.as_str(), metric.help);
        let row = format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "));
        page.push_str(&row);
    }
    page.push_str(CAUSES);
    for cause in DropCause::ALL {
        let row = format!("| `{}` | {} |\n", cause.as_str(), cause.meaning());
        page.push_str(&row);
    }
    page
}

const CAUSES: &str = "
## Why messages are dropped

What the label `cause` of `coroner_messages_dropped_total` says, and `cause` in the log, which tells of the first
drop at once and of those within a second after it together:

| cause | meaning |
| --- | --- |
";

const INTRODUCTION: &str = "\
# Metrics

`coroner serve` answers in Prometheus' text form, on the address of its HTTP API:

- `/metrics`: queues are summed by vhost; told apart by queue are deaths, and how much lies in queues that took
  dead letters.
- `/metrics/per-object`: queues are told apart; labels in brackets below are there.
- `/metrics/rabbitmq`: RabbitMQ's names, as its `/metrics` has them, for dashboards and alerts that ask for
  those (`rabbitmq_queue_messages_ready`, `rabbitmq_global_messages_received_total` and their likes). Sessions
  stand for channels, taking messages over HTTP for `basic.get`, `--connections-max` for the most sockets; what is
  not here (Erlang) has no line.
- `/metrics/detailed`: of those `rabbitmq_detailed_queue_messages_ready`, `_unacked`, the sum and `_consumers`
  by queue.

Anybody who reaches the address may ask, as with RabbitMQ, unless `--metrics-login` is on: then the
tag monitoring or administrator is needed. [grafana-dashboard.json](grafana-dashboard.json) is a
dashboard for Grafana over these metrics, `contrib/alerts.yml` has alerts for Prometheus; `interop/monitoring` runs
both.

How many series there are is bounded: of each vhost at most `--metrics-queues-max` queues (1000) are
named, those that were declared first, at `/metrics` those of them in which messages died, or into which dead
letters came since the start. All others,
those that are deleted, and a queue that is named so, are summed as the queue `other`: the sum over
all queues is always that of the vhost. A new queue never takes another one's place; when a named one
is deleted, `other` rises by its counts, and another may get its place.

Numbers of deaths go on after a restart. Deaths of messages that the journal knows are exact after a crash,
too; of others, and of times to death, a crash loses the last second at most, an orderly stop nothing. All other
counters begin at 0 at each start, as `rate()` and `increase()` expect: among them those of redrives, and drops of what
did not die (reason none).

This page is written from the table in `src/metrics/table.rs`:
`CORONER_WRITE_DOCS=1 cargo test --lib metrics::` writes it anew.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
";
