//! Routes to listings: slices under the lock, everything else outside, beside the tasks that move
//! messages.

use std::sync::Arc;

use serde_json::Value;

use super::answer::Answer;
use super::api::Call;
use super::aside::aside;
use super::connections::ConsumerSight;
use super::reply::{Chunks, Items, Reply};
use super::work::{failed, unless_deleted};
use crate::base::limits::LISTING_SLICE;
use crate::base::{Charge, Gauge, Name};
use crate::broker::binding::Binding;
use crate::broker::policy::Policies;
use crate::broker::queue::Queue;
use crate::broker::router::BindingsOf;
use crate::broker::{Counters, QueueDetails};
use crate::management::http::json::overview::{ObjectTotals, Overview, QueueTotals};
use crate::management::http::json::queue::{self, QueueContext};
use crate::management::http::json::reading::memory_bytes;
use crate::management::http::json::settings;
use crate::management::http::json::stats::{Churn, ExchangeCounts, VhostCounts};
use crate::management::http::json::topology;
use crate::management::http::{Failure, Frame, Listing};
use crate::management::rates::{self, Rates};
use crate::management::samples::{self, VhostSample};
use crate::node::Failed;
use crate::server::Vhost;
use crate::server::yielding::give_way;

/// Queues that are copied completely under one hold of the lock.
const DETAILS_SLICE: usize = 64;
/// Queues of a long listing that are described before they are handed to the client.
const PIECE: usize = 4 * DETAILS_SLICE;

/// A listing of objects, written one by one if all of them are wanted in their natural order;
/// otherwise they are collected first. Both count as memory. To be used on a thread that may block.
pub(super) struct Objects<'l> {
    listing: &'l Listing,
    written: Answer,
    gathered: Vec<Value>,
    kept: Charge,
}

impl<'l> Objects<'l> {
    pub(super) fn new(listing: &'l Listing, kept: &Gauge) -> Self {
        Self {
            listing,
            written: Answer::written(String::new(), kept),
            gathered: Vec::new(),
            kept: kept.charge(0),
        }
    }

    /// Adds an object.
    pub(super) fn push(&mut self, object: Value) {
        if self.listing.takes_all_in_order() {
            let separator = if self.written.is_empty() { '[' } else { ',' };
            let object = self.listing.project(object);
            self.written.append(&format_args!("{separator}{object}"));
        } else {
            self.kept.grow(memory_bytes(&object));
            self.gathered.push(object);
        }
    }

    /// Adds several objects.
    pub(super) fn extend(&mut self, objects: impl IntoIterator<Item = Value>) {
        objects.into_iter().for_each(|object| self.push(object));
    }

    /// The answer with the listing.
    pub(super) fn reply(mut self) -> Result<Reply, Failure> {
        if self.listing.takes_all_in_order() {
            let end = if self.written.is_empty() { "[]" } else { "]" };
            self.written.append(&end);
        } else {
            let answer = self.listing.answer(self.gathered)?;
            self.written.append(&answer);
        }
        Ok(Reply::Roomy(self.written))
    }
}

/// The answer with a listing of these objects.
pub(super) fn listed(
    listing: &Listing,
    kept: &Gauge,
    objects: impl IntoIterator<Item = Value>,
) -> Result<Reply, Failure> {
    let mut all = Objects::new(listing, kept);
    all.extend(objects);
    all.reply()
}

/// The answer with a listing of what this broker never has: a page without items, if one is asked for.
pub(super) fn none(call: &Call<'_>) -> Result<Reply, Failure> {
    Listing::parse(&call.query)?
        .answer(Vec::new())
        .map(Reply::Json)
}

/// Totals over the queues of a vhost.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) messages: QueueTotals,
    pub(super) message_rates: Rates<3>,
    pub(super) counted: VhostCounts,
    pub(super) objects: ObjectTotals,
}

/// `GET /api/overview`.
pub(super) async fn overview(call: &Call<'_>) -> Result<Reply, Failure> {
    let (listing, shared) = (Listing::parse(&call.query)?, call.shared);
    // What was counted in a deleted vhost is for whoever saw it, which nobody knows but of monitors.
    let (vhosts, gone) = if call.identity.is_monitor() {
        shared.node.vhosts.all_and_gone()
    } else {
        (call.visible_vhosts(), Counters::default())
    };
    let mut totals = aside(move || overview_totals(&vhosts).map_err(failed)).await?;
    totals.counted = totals.counted.plus(VhostCounts {
        counts: samples::of_vhost(&gone),
        ..VhostCounts::default()
    });
    let listeners = shared.addresses.listeners();
    let stats = shared.connection_counts();
    let overview = Overview {
        node: &shared.settings.node_name,
        version: env!("CARGO_PKG_VERSION"),
        default_queue_type: &shared.settings.default_queue_type.to_string(),
        objects: ObjectTotals {
            connections: if call.identity.is_monitor() {
                stats.open
            } else {
                call.visible_connections().len() as u64
            },
            ..totals.objects
        },
        queues: totals.messages,
        queue_rates: totals.message_rates,
        counted: totals.counted,
        churn: Churn {
            counts: shared.churn(),
            rates: shared.rates.churn.last().of(&()),
        },
        has_rates: shared.live.read().collect_statistics_interval.ms > 0,
        listeners: call.identity.is_monitor().then_some(&*listeners),
    };
    Ok(Reply::Json(listing.project(overview.json())))
}

fn overview_totals(vhosts: &[Arc<Vhost>]) -> Result<Totals, Failed> {
    let mut totals = Totals::default();
    for vhost in vhosts {
        let Some(here) = unless_deleted(vhost, vhost_totals(vhost))? else {
            continue;
        };
        totals.messages = totals.messages.plus(here.messages);
        totals.message_rates = rates::plus(totals.message_rates, here.message_rates);
        totals.counted = totals.counted.plus(here.counted);
        totals.objects.consumers += here.objects.consumers;
        totals.objects.exchanges += here.objects.exchanges;
        totals.objects.queues += here.objects.queues;
    }
    Ok(totals)
}

/// The totals of one vhost.
pub(super) fn vhost_totals(vhost: &Vhost) -> Result<Totals, Failed> {
    let mut totals = Totals::default();
    let seen = vhost.look(|core| {
        let exchanges = core.router().exchange_count() as u64;
        (exchanges, samples::of_vhost(core.counters()))
    });
    (totals.objects.exchanges, totals.counted.counts) = seen?;
    let sample = vhost.rates.last();
    totals.counted.rates = sample.counters.of(&());
    totals.message_rates = sample.messages.of(&());
    let mut after: Option<Name> = None;
    loop {
        let infos = vhost.look(|core| core.queues_after(after.as_ref(), LISTING_SLICE))?;
        for info in &infos {
            totals.objects.queues += 1;
            totals.objects.consumers += info.consumer_count;
            totals.messages = totals.messages.plus(QueueTotals {
                ready: info.messages_ready,
                unacknowledged: info.messages_unacknowledged,
                dead_pending: info.messages_dead_pending,
                delayed: info.messages_delayed,
            });
        }
        if infos.len() < LISTING_SLICE {
            return Ok(totals);
        }
        after = infos.into_iter().last().map(|info| info.name);
    }
}

/// A vhost to list, with the context of its objects.
struct Listed {
    vhost: Arc<Vhost>,
    policies: Policies,
    rates: Arc<VhostSample>,
}

impl Listed {
    fn all(vhosts: Vec<Arc<Vhost>>) -> Result<Vec<Self>, Failed> {
        let listed = vhosts.into_iter().filter_map(|vhost| {
            let policies = vhost.look(|core| core.policies().clone());
            let policies = unless_deleted(&vhost, policies).transpose()?;
            let rates = vhost.rates.last();
            Some(policies.map(|policies| Self {
                vhost,
                policies,
                rates,
            }))
        });
        listed.collect()
    }
}

/// `GET /api/queues` and `GET /api/queues/VHOST`: by page, or as a stream of all.
pub(super) async fn queues(call: &Call<'_>, vhosts: Vec<Arc<Vhost>>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let node = call.shared.settings.node_name.clone();
    let shared = Arc::clone(call.shared);
    let found = aside(move || SelectedQueues::search(vhosts, listing, node)).await?;
    if let Some(frame) = found.frame {
        return aside(move || {
            let mut items = Vec::new();
            found.describe(|queue| items.push(queue)).map_err(failed)?;
            Ok(Reply::Written(frame.around(items).to_string()))
        })
        .await;
    }
    let (mut items, chunks) = Chunks::of_array();
    let serving = Arc::clone(&shared);
    shared.spawn(async move {
        let is_whole = write_all(Arc::new(found), &mut items).await;
        // Objects may have changed since the answer began: without its end the client cannot take
        // it for complete.
        serving.declared_is_durable().await;
        items.end(is_whole).await;
    });
    Ok(Reply::Chunks(chunks))
}

/// Writes the listing, as fast as the client takes it; false if something failed.
async fn write_all(found: Arc<SelectedQueues>, items: &mut Items) -> bool {
    for start in (0..found.names.len()).step_by(PIECE) {
        let here = Arc::clone(&found);
        let Ok(piece) = aside(move || here.piece(start).map_err(failed)).await else {
            return false;
        };
        if !items.items(&piece).await {
            return false;
        }
    }
    true
}

/// The queues that a listing wants, by name: 100,000 names take little memory, 100,000 descriptions
/// do not.
struct SelectedQueues {
    listed: Vec<Listed>,
    /// Index of the vhost, and name of the queue.
    names: Vec<(usize, Name)>,
    listing: Listing,
    node: String,
    frame: Option<Frame>,
}

impl SelectedQueues {
    fn search(vhosts: Vec<Arc<Vhost>>, listing: Listing, node: String) -> Result<Self, Failure> {
        let mut found = Self {
            listed: Listed::all(vhosts).map_err(failed)?,
            names: Vec::new(),
            listing,
            node,
            frame: None,
        };
        let mut keyed: Vec<(Value, usize, Name)> = Vec::new();
        let mut total = 0;
        for (index, listed) in found.listed.iter().enumerate() {
            let mut after: Option<Name> = None;
            loop {
                let names = listed
                    .vhost
                    .look(|core| core.queue_names_after(after.as_ref(), LISTING_SLICE));
                let names = unless_deleted(&listed.vhost, names).map_err(failed)?;
                let names = names.unwrap_or_default();
                total += names.len();
                let is_last = names.len() < LISTING_SLICE;
                after = names.last().cloned();
                let wanted = names.into_iter().filter(|name| found.listing.wants(name));
                found.add_keyed(index, wanted.collect(), &mut keyed)?;
                give_way();
                if is_last {
                    break;
                }
            }
        }
        found.listing.sort(&mut keyed, |(key, ..)| key);
        let window = found.listing.window(total, keyed.len())?;
        let wanted = keyed.into_iter().skip(window.start);
        let wanted = wanted.take(window.end - window.start);
        found.names = wanted.map(|(_, index, name)| (index, name)).collect();
        found.frame = window.frame;
        Ok(found)
    }

    /// Adds names with their sort keys; reads the queues only if the key is not the name.
    fn add_keyed(
        &self,
        index: usize,
        names: Vec<Name>,
        keyed: &mut Vec<(Value, usize, Name)>,
    ) -> Result<(), Failure> {
        match self.listing.sort_field() {
            None => keyed.extend(names.into_iter().map(|name| (Value::Null, index, name))),
            Some("name") => keyed.extend(
                names
                    .into_iter()
                    .map(|name| (Value::from(&*name), index, name)),
            ),
            Some(field) => {
                let names: Vec<(usize, Name)> =
                    names.into_iter().map(|name| (index, name)).collect();
                self.each(&names, |place, details| {
                    let key = match queue::number(field, details) {
                        Some(number) => Value::from(number),
                        None => self.listing.sort_key(&queue::queue(place, details)),
                    };
                    keyed.push((key, index, details.info.name.clone()));
                })
                .map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Describes the selected queues, with the wanted fields.
    fn describe(&self, mut item: impl FnMut(Value)) -> Result<(), Failed> {
        self.each(&self.names, |place, details| {
            item(self.listing.project(queue::queue(place, details)));
        })
    }

    /// A part of the listing from an index on, with commas between the objects.
    fn piece(&self, start: usize) -> Result<Vec<u8>, Failed> {
        let names = self.names.get(start..).unwrap_or_default();
        let mut piece = Vec::new();
        self.each(names.get(..PIECE).unwrap_or(names), |place, details| {
            if !piece.is_empty() {
                piece.push(b',');
            }
            let described = self.listing.project(queue::queue(place, details));
            piece.extend_from_slice(described.to_string().as_bytes());
        })?;
        Ok(piece)
    }

    /// Visits queues, some under each hold of a lock; those deleted meanwhile are left out.
    fn each(
        &self,
        names: &[(usize, Name)],
        mut visit: impl FnMut(QueueContext<'_>, &QueueDetails),
    ) -> Result<(), Failed> {
        for slice in names.chunks(DETAILS_SLICE) {
            for same in slice.chunk_by(|(a, _), (b, _)| a == b) {
                let Some(listed) = same.first().and_then(|(index, _)| self.listed.get(*index))
                else {
                    continue;
                };
                let details = listed.vhost.look(|core| {
                    let queues = same.iter().filter_map(|(_, name)| core.queue(name));
                    queues.map(Queue::details).collect::<Vec<_>>()
                });
                let details = unless_deleted(&listed.vhost, details)?.unwrap_or_default();
                let place = QueueContext {
                    node: &self.node,
                    vhost: listed.vhost.name(),
                    policies: &listed.policies,
                    rates: &listed.rates,
                };
                for details in &details {
                    visit(place, details);
                }
                give_way();
            }
        }
        Ok(())
    }
}

/// `GET /api/queues/VHOST/NAME`.
pub(super) async fn queue(call: &Call<'_>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let vhost = call.vhost()?;
    let name = call.params.get("name");
    let node = call.shared.settings.node_name.clone();
    let sight = call.consumer_sight();
    aside(move || {
        let seen = vhost.look(|core| {
            let queue = core.queue(&name)?;
            let settings = queue.settings.clone();
            Some((queue.details(), settings, core.policies().clone()))
        });
        let (details, effective, policies) =
            seen.map_err(failed)?.ok_or_else(Failure::not_found)?;
        let place = QueueContext {
            node: &node,
            vhost: vhost.name(),
            policies: &policies,
            rates: &vhost.rates.last(),
        };
        let described = queue::queue(place, &details);
        let consumers = consumers_of(&vhost, &name, &sight).map_err(failed)?;
        let settings = settings::settings(&effective, &details, &policies);
        let alone = queue::queue_alone(described, consumers.into(), settings);
        Ok(Reply::Json(listing.project(alone)))
    })
    .await
}

/// The consumers of a queue that the caller sees, some under each hold of the lock.
fn consumers_of(vhost: &Vhost, name: &Name, sight: &ConsumerSight) -> Result<Vec<Value>, Failed> {
    let (mut all, mut after) = (Vec::new(), Some(0));
    while let Some(arrival) = after {
        let seen = vhost.look(|core| {
            let queue = core.queue(name)?;
            Some(core.consumers_of(queue, arrival, LISTING_SLICE))
        })?;
        let Some((slice, last)) = seen else { break };
        all.extend(sight.seen(vhost.name(), &slice));
        after = last;
        give_way();
    }
    Ok(all)
}

/// `GET /api/exchanges` and `GET /api/exchanges/VHOST`.
pub(super) async fn exchanges(call: &Call<'_>, vhosts: Vec<Arc<Vhost>>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let kept = call.kept();
    aside(move || {
        let mut all = Objects::new(&listing, &kept);
        for listed in Listed::all(vhosts).map_err(failed)? {
            let mut after: Option<Name> = None;
            loop {
                let slice = listed.vhost.look(|core| {
                    let router = core.router();
                    let exchanges = router.exchanges_after(after.as_ref());
                    let seen = exchanges.map(|exchange| {
                        let counts = samples::of_exchange(router.passed(exchange));
                        (exchange.id, exchange.spec.clone(), counts)
                    });
                    seen.take(LISTING_SLICE).collect::<Vec<_>>()
                });
                let slice = unless_deleted(&listed.vhost, slice).map_err(failed)?;
                let slice = slice.unwrap_or_default();
                for (id, spec, counts) in &slice {
                    let policy = listed.policies.of_exchange(&spec.name);
                    let policy = policy.map(|policy| policy.name.as_str());
                    let counted = ExchangeCounts {
                        counts: *counts,
                        rates: listed.rates.exchanges.of(id),
                    };
                    let described = topology::exchange(listed.vhost.name(), spec, policy);
                    all.push(topology::exchange_counted(described, counted));
                }
                if slice.len() < LISTING_SLICE {
                    break;
                }
                after = slice.into_iter().last().map(|(_, spec, _)| spec.name);
            }
        }
        all.reply()
    })
    .await
}

/// `GET /api/bindings` and `GET /api/bindings/VHOST`; those of the default exchange first.
pub(super) async fn bindings(call: &Call<'_>, vhosts: Vec<Arc<Vhost>>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let kept = call.kept();
    aside(move || {
        let mut all = Objects::new(&listing, &kept);
        for vhost in vhosts {
            let mut push = |binding: &Binding| all.push(topology::binding(vhost.name(), binding));
            let seen = each_implied(&vhost, &mut push);
            let seen = seen.and_then(|()| each_binding(&vhost, &BindingsOf::default(), push));
            unless_deleted(&vhost, seen).map_err(failed)?;
        }
        all.reply()
    })
    .await
}

/// The bindings of a vhost that are wanted, some under each hold of its lock.
pub(super) fn each_binding(
    vhost: &Vhost,
    of: &BindingsOf,
    mut visit: impl FnMut(&Binding),
) -> Result<(), Failed> {
    let mut after: Option<Binding> = None;
    loop {
        let slice = vhost.look(|core| core.router().bindings_slice(of, after.as_ref()))?;
        slice.found.iter().for_each(&mut visit);
        if slice.after.is_none() {
            return Ok(());
        }
        after = slice.after;
        give_way();
    }
}

/// The implied bindings of the default exchange to every queue.
pub(super) fn each_implied(vhost: &Vhost, mut visit: impl FnMut(&Binding)) -> Result<(), Failed> {
    let mut after: Option<Name> = None;
    loop {
        let names = vhost.look(|core| core.queue_names_after(after.as_ref(), LISTING_SLICE))?;
        for name in &names {
            visit(&Binding::implied(name));
        }
        if names.len() < LISTING_SLICE {
            return Ok(());
        }
        after = names.into_iter().last();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::management::http::Query;
    use crate::management::{Change, VhostChange};
    use crate::server::Broker;

    /// A queue in each of two vhosts, the second of which the caller deletes.
    async fn two_vhosts() -> (Broker, Vec<Arc<Vhost>>) {
        let settings = Settings {
            amqp: Vec::new(),
            ..Settings::default()
        };
        let broker = Broker::builder().settings(settings).start().await.unwrap();
        let admin = broker.admin();
        let second = Change::VhostPut {
            name: Name::from("second"),
            vhost: VhostChange::default(),
        };
        admin.change(second).await.unwrap();
        for vhost in ["/", "second"] {
            admin.declare_queue(vhost, "q", &[]).await.unwrap();
        }
        let vhosts = ["/", "second"].map(|name| admin.vhost(name).unwrap());
        (broker, vhosts.into())
    }

    async fn delete_second(broker: &Broker) {
        let name = Name::from("second");
        let admin = broker.admin();
        admin.change(Change::VhostDelete { name }).await.unwrap();
    }

    fn search(vhosts: &[Arc<Vhost>]) -> SelectedQueues {
        let listing = Listing::parse(&Query::default()).unwrap();
        SelectedQueues::search(vhosts.to_vec(), listing, "here".to_owned())
            .ok()
            .unwrap()
    }

    /// The whole list was refused: a vhost failed.
    #[tokio::test]
    async fn lists_over_vhosts_leave_out_one_that_is_deleted_meanwhile() {
        let (broker, vhosts) = two_vhosts().await;
        assert_eq!(overview_totals(&vhosts).unwrap().objects.queues, 2);
        let found = search(&vhosts);
        assert_eq!(found.names.len(), 2);
        delete_second(&broker).await;

        let mut described = Vec::new();
        found.describe(|queue| described.push(queue)).unwrap();
        let of: Vec<&Value> = described.iter().map(|queue| &queue["vhost"]).collect();
        assert_eq!(of, ["/"], "deleted between search and description");
        assert_eq!(search(&vhosts).names.len(), 1);
        assert_eq!(overview_totals(&vhosts).unwrap().objects.queues, 1);
    }

    #[tokio::test]
    async fn lists_over_vhosts_are_refused_if_one_of_them_failed() {
        let (_broker, vhosts) = two_vhosts().await;
        let failed: Result<(), Failed> = vhosts[1].work(|_, _, _| panic!("the core fails"));
        assert!(failed.is_err());
        assert!(overview_totals(&vhosts).is_err());
        assert!(Listed::all(vhosts).is_err());
    }
}
