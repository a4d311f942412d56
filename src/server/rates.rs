//! The task that samples counters for the rates of the HTTP API: a slice of a vhost at a time,
//! beside the tasks that move messages. The counters exist anyway.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Vhost;
use super::shared::Shared;
use super::yielding::give_way;
use crate::base::limits::LISTING_SLICE;
use crate::base::{Millis, Name};
use crate::management::samples::{ChurnSample, ConnectionSample, QueueSeen, VhostSample};
use crate::node::Failed;

/// Interval of checks whether rates are wanted, while they are not.
const IDLE: Duration = Duration::from_secs(5);

/// Takes a sample of all counters at each interval, until the broker ends.
pub(super) async fn sample(shared: Arc<Shared>) {
    loop {
        let interval = shared.live.read().collect_statistics_interval;
        if interval.ms == 0 {
            tokio::time::sleep(IDLE).await;
            continue;
        }
        for vhost in shared.all_vhosts() {
            // A failed or deleted vhost counts nothing any more.
            let _ = sample_vhost(&vhost, shared.clock.now().mono).await;
        }
        sample_connections(&shared, shared.clock.now().mono);
        tokio::time::sleep(interval.duration()).await;
    }
}

async fn sample_vhost(vhost: &Vhost, now: Millis) -> Result<(), Failed> {
    let before = vhost.rates.last();
    let mut sample = VhostSample::new(&before, vhost.rates.interval_ms(now));
    let mut messages = [0; 3];
    let mut seen = Vec::new();
    let mut after: Option<Name> = None;
    loop {
        after = vhost.look(|core| {
            core.visit_after(after.as_ref(), LISTING_SLICE, |queue| {
                seen.push(QueueSeen::of(queue));
            })
        })?;
        for queue in seen.drain(..) {
            for (sum, count) in messages.iter_mut().zip(queue.messages) {
                *sum += count;
            }
            sample.add_queue(&before, &queue);
        }
        if after.is_none() {
            break;
        }
        give_way();
        tokio::task::yield_now().await;
    }
    sample_exchanges(vhost, &before, &mut sample).await?;
    let counters = vhost.look(|core| core.counters().clone())?;
    sample.add_vhost(&before, &counters, messages);
    vhost.rates.put(now, sample);
    Ok(())
}

async fn sample_exchanges(
    vhost: &Vhost,
    before: &VhostSample,
    sample: &mut VhostSample,
) -> Result<(), Failed> {
    let mut after: Option<Name> = None;
    loop {
        let mut last = None;
        let seen = vhost.look(|core| {
            let router = core.router();
            let exchanges = router.exchanges_after(after.as_ref()).take(LISTING_SLICE);
            let seen = exchanges.map(|exchange| {
                last = Some(exchange.spec.name.clone());
                (exchange.id, router.passed(exchange))
            });
            seen.collect::<Vec<_>>()
        })?;
        for (id, passed) in &seen {
            sample.add_exchange(before, *id, *passed);
        }
        if seen.len() < LISTING_SLICE {
            return Ok(());
        }
        after = last;
        tokio::task::yield_now().await;
    }
}

fn sample_connections(shared: &Shared, now: Millis) {
    let rates = &shared.rates;
    let (octets, churn) = (rates.octets.last(), rates.churn.last());
    let mut sample = ConnectionSample::new(rates.octets.interval_ms(now));
    for handle in shared.handles() {
        let counts = [&handle.received, &handle.sent].map(|count| count.load(Ordering::Relaxed));
        sample.add(&octets, handle.id, counts);
    }
    rates.octets.put(now, sample);
    let mut sample = ChurnSample::new(rates.churn.interval_ms(now));
    sample.add(&churn, (), shared.churn());
    rates.churn.put(now, sample);
}
