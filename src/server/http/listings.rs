//! Listings: slices under the lock, everything else outside.

use std::sync::Arc;

use super::api::Call;
use super::reply::Reply;
use crate::base::Name;
use crate::base::limits::LISTING_SLICE;
use crate::broker::{Core, Counters};
use crate::management::http::Failure;
use crate::management::http::json::overview::{ObjectTotals, Overview, QueueTotals};
use crate::server::vhost::{Failed, Vhost};

/// What is counted over the queues of a vhost.
#[derive(Clone, Copy, Default)]
struct Totals {
    messages: QueueTotals,
    objects: ObjectTotals,
}

impl Totals {
    fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages.plus(other.messages),
            objects: ObjectTotals {
                consumers: self.objects.consumers + other.objects.consumers,
                exchanges: self.objects.exchanges + other.objects.exchanges,
                queues: self.objects.queues + other.objects.queues,
                ..self.objects
            },
        }
    }
}

/// Does work that takes long beside the tasks that move messages.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        _ => Err(Failure::unavailable("the vhost failed")),
    }
}

/// `GET /api/overview`.
pub(super) async fn overview(call: &Call<'_>) -> Result<Reply, Failure> {
    let vhosts = call.visible_vhosts();
    let (totals, counters) = aside(move || totals(&vhosts)).await?;
    let shared = call.shared;
    let listeners = shared.listeners();
    let stats = shared.connection_counts();
    let overview = Overview {
        node: &shared.settings.node_name,
        version: env!("CARGO_PKG_VERSION"),
        default_queue_type: &shared.settings.default_queue_type.to_string(),
        objects: ObjectTotals {
            connections: stats.open,
            ..totals.objects
        },
        queues: totals.messages,
        counters: counters.iter().collect(),
        connections_created: stats.taken,
        connections_closed: stats.taken.saturating_sub(stats.open),
        listeners: call.identity.is_monitor().then_some(&*listeners),
    };
    Ok(Reply::Json(overview.json()))
}

fn totals(vhosts: &[Arc<Vhost>]) -> Result<(Totals, Vec<Counters>), Failed> {
    let mut totals = Totals::default();
    let mut counters = Vec::new();
    for vhost in vhosts {
        let (exchanges, counted) = vhost.look(|core| {
            let exchanges = core.router().exchange_count();
            (exchanges as u64, core.counters().clone())
        })?;
        totals.objects.exchanges += exchanges;
        counters.push(counted);
        let mut after: Option<Name> = None;
        loop {
            let (slice, last) = vhost.look(|core| slice_totals(core, after.as_ref()))?;
            totals = totals.plus(slice);
            after = last;
            if after.is_none() {
                break;
            }
        }
    }
    Ok((totals, counters))
}

/// The totals of the next slice of queues, and the last of them if there may be more.
fn slice_totals(core: &Core, after: Option<&Name>) -> (Totals, Option<Name>) {
    let infos = core.queues_after(after, LISTING_SLICE);
    let last = infos.get(LISTING_SLICE - 1).map(|info| info.name.clone());
    let mut totals = Totals::default();
    for info in &infos {
        totals.objects.queues += 1;
        totals.objects.consumers += info.consumer_count;
        totals.messages = totals.messages.plus(QueueTotals {
            ready: info.messages_ready,
            unacknowledged: info.messages_unacknowledged,
            dead_pending: info.messages_dead_pending,
        });
    }
    (totals, last)
}
