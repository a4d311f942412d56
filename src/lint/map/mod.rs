//! The map of a topology: how messages reach each queue, and where they go when they die there.
//!
//! ```text
//!   arrival (queue, exchange, key) --reason--> arrivals, by the route of its dead letter
//!     ^ live: by a binding, or by the queue's name
//! ```

mod above;
mod follow;
mod live;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::above::{Bound, above};
use self::follow::Reached;
use self::live::Routed;
use super::Target;
use super::behind::{Behind, Leads};
use super::budget::{Budget, Part};
use super::finding::Witness;
use super::sandbox::{Sandbox, Strangers};
use crate::base::limits::LINT_WAYS_BACK_MAX;
use crate::base::{ExchangeId, Name, QueueId};
use crate::broker::Core;
use crate::broker::arguments::{Overflow, QueueType};
use crate::broker::queue::Queue;
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::deaths::Reason;
use crate::message::Route;

/// How a message came to a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// A client publishes it to an exchange.
    Exchange,
    /// A client publishes it to the queue itself.
    Name,
    /// It died after this arrival, of this.
    Death(usize, Reason),
}

/// Messages of one kind: they are in this queue, and came with this exchange and key.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) queue: QueueId,
    pub(super) route: Arc<Route>,
    pub(super) by: By,
    /// It may also follow this one by a death, by which it came before clients were taken to publish it to
    /// the queue's name.
    pub(super) may_follow: Option<usize>,
    /// It may be that none comes this way.
    pub(super) perhaps: bool,
    /// A word of its key is one that a wildcard takes and no binding names.
    pub(super) made_up: bool,
    /// Its key is not known: the route's stands for any.
    pub(super) keyless: bool,
}

/// Where the dead letters of one kind of messages go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// There is no dead-letter exchange.
    NoExchange,
    /// It does not exist.
    Missing,
    /// No queue is reached.
    Nowhere,
    /// It depends on more than the key. They may arrive there, as far as they are followed.
    Varies(Arc<[usize]>),
    /// They arrive there, as far as they are followed.
    Arrives(Arc<[usize]>),
}

/// One death of one kind of messages.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The arrival that it follows.
    pub(super) from: usize,
    pub(super) reason: Reason,
    /// Exchange and key of the dead letter; none without a dead-letter exchange.
    pub(super) way: Option<Arc<Route>>,
    pub(super) fate: Fate,
    /// The dead letter has the key with which the message came.
    keeps_key: bool,
    /// The queues that they reach, or may reach, followed or not; some of them if they are very many.
    pub(super) reached: Arc<[QueueId]>,
}

/// See the documentation of the module.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) steps: Vec<Step>,
    /// The steps of each arrival.
    pub(super) steps_of: Vec<Vec<usize>>,
    /// The arrivals in each queue.
    pub(super) in_queue: BTreeMap<QueueId, Vec<usize>>,
    /// The exchanges that dead letters are sent to, and those behind them.
    dead: BTreeSet<Name>,
    /// What lies behind those that dead letters are sent to.
    behind: BTreeMap<ExchangeId, Behind>,
    /// What the core has only stand-ins for.
    pub(super) strangers: Arc<Strangers>,
    /// Those among them that live messages pass, too, from other exchanges: with the patterns by which
    /// they come.
    pub(super) fed: BTreeMap<Name, BTreeSet<Name>>,
    /// Where dead letters go, by exchange and key: those of many queues go the same way.
    reached: Reached,
    /// Arrivals of which more is known than when their dead letters were followed.
    changed: Vec<usize>,
    /// Who is to run the topology.
    target: Target,
    /// What may still be looked at.
    pub(super) budget: Budget,
}

impl Map {
    /// Draws the map of a topology.
    pub(super) fn draw(sandbox: &Sandbox, target: Target, budget: Budget) -> Self {
        let core = sandbox.core();
        let router = core.router();
        let leads = Leads::of(router);
        // What an argument names is meant for dead letters, also where an operator policy sends them elsewhere.
        let named = core.queues().flat_map(|queue| {
            let settings = queue.settings.dead_letter_exchange.iter();
            settings.chain(&queue.arguments.dead_letter_exchange)
        });
        let named = named.cloned();
        let mut dead: BTreeSet<Name> = named.collect();
        let ids = dead.iter().filter_map(|name| router.id_of(name));
        let ids: Vec<ExchangeId> = ids.filter(|id| *id != DEFAULT_EXCHANGE).collect();
        let behind = ids.iter();
        let behind = behind.map(|id| (*id, leads.behind(router, *id, &budget)));
        let behind: BTreeMap<ExchangeId, Behind> = behind.collect();
        let further = leads.all_behind(ids).into_iter();
        let further = further.filter_map(|id| router.exchange(id));
        dead.extend(further.map(|exchange| exchange.spec.name.clone()));
        let mut map = Self {
            arrivals: Vec::new(),
            steps: Vec::new(),
            steps_of: Vec::new(),
            in_queue: BTreeMap::new(),
            dead,
            behind,
            strangers: Arc::clone(sandbox.strangers()),
            target,
            fed: BTreeMap::new(),
            reached: Reached::default(),
            changed: Vec::new(),
            budget,
        };
        map.fill(core, Routed::new(leads));
        map
    }

    /// Finds all arrivals and deaths.
    fn fill(&mut self, core: &Core, mut routed: Routed) {
        let mut bound = Bound::of(core);
        self.feed(core, &bound);
        let dead_keys = self.dead_keys(core, &bound);
        // Clients publish to a queue's name if no exchange leads there; but not to one that dead
        // letters are aimed at, unless they do not reach it.
        let aimed_at = self.aimed_at(core, &bound);
        bound.thin(|source| self.is_only_for_the_dead(source));
        for queue in core.queues() {
            let above = self.above(core, queue, &bound);
            self.arrive_alive(core, queue, (above, &dead_keys), &mut routed);
        }
        for queue in core.queues() {
            if !aimed_at.contains(&queue.name) {
                self.arrive_by_name(queue);
            }
        }
        self.let_die(core);
        // An exchange may take what is published beside what comes back to it: two queues that are each bound
        // to the dead-letter exchange of the other, one of which waits. Clients publish to the one that does not.
        let is_new = |map: &Self, queue: &Queue| !map.in_queue.contains_key(&queue.id);
        for queue in core.queues() {
            if queue.settings.message_ttl_ms.is_none() && is_new(self, queue) {
                let above = above(core, queue, &bound, |_| true);
                self.arrive_alive(core, queue, (above, &dead_keys), &mut routed);
            }
        }
        self.let_die(core);
        for queue in core.queues() {
            self.arrive_by_name(queue);
        }
        self.let_die(core);
    }

    /// What lies behind a dead-letter exchange; none: it does not exist, or is the default exchange.
    pub(super) fn behind(&self, exchange: ExchangeId) -> Option<&Behind> {
        self.behind.get(&exchange)
    }

    /// The steps from the arrivals in a queue.
    pub(super) fn steps_in(&self, queue: QueueId) -> impl Iterator<Item = &Step> {
        let arrivals = self.in_queue.get(&queue).into_iter().flatten();
        arrivals.flat_map(|arrival| self.steps_from(*arrival))
    }

    /// The queues that a step leads to, each with its arrival.
    pub(super) fn targets(&self, step: &Step) -> impl Iterator<Item = (usize, QueueId)> {
        let arrives = match &step.fate {
            Fate::Arrives(arrives) => &**arrives,
            _ => &[],
        };
        self.of_queues(arrives)
    }

    fn of_queues(&self, arrivals: &[usize]) -> impl Iterator<Item = (usize, QueueId)> {
        let arrivals = arrivals.iter();
        arrivals.filter_map(|index| Some((*index, self.arrivals.get(*index)?.queue)))
    }

    /// The queues that a step leads to, or may lead to, each with its arrival.
    fn possible_targets(&self, step: &Step) -> impl Iterator<Item = (usize, QueueId)> {
        let arrives = match &step.fate {
            Fate::Arrives(arrives) | Fate::Varies(arrives) => &**arrives,
            _ => &[],
        };
        self.of_queues(arrives)
    }

    /// Whether what dies in a queue may come to another one, over however many deaths. Yes where that takes
    /// too long to find out.
    pub(super) fn leads_to(&self, from: QueueId, to: QueueId) -> bool {
        let starts = self.in_queue.get(&from).cloned().unwrap_or_default();
        let mut seen: BTreeSet<usize> = starts.iter().copied().collect();
        let mut open = starts;
        while let Some(arrival) = open.pop() {
            let steps = self.steps_from(arrival);
            for (next, queue) in steps.flat_map(|step| self.possible_targets(step)) {
                if queue == to || !self.budget.take(Part::WaysBack, 1) {
                    return true;
                }
                if seen.contains(&next) {
                    continue;
                }
                if seen.len() >= LINT_WAYS_BACK_MAX {
                    self.budget.cut(Part::WaysBack);
                    return true;
                }
                seen.insert(next);
                open.push(next);
            }
        }
        false
    }

    /// Whether the key of a dead letter is one of those that come: it is known, and not that of a message that
    /// is put into a queue only to see what becomes of others, which may come.
    pub(super) fn is_key_known(&self, step: &Step) -> bool {
        let Some(arrival) = self.arrivals.get(step.from) else {
            return false;
        };
        match arrival.by {
            By::Name => {
                let all = self.in_queue.get(&arrival.queue).into_iter().flatten();
                let mut all = all.filter_map(|index| self.arrivals.get(*index));
                all.all(|other| !other.perhaps)
            }
            By::Exchange | By::Death(..) => !(arrival.keyless && step.keeps_key),
        }
    }

    /// Whether it may be that no message comes by the way that a step follows.
    pub(super) fn may_not_come(&self, step: &Step) -> bool {
        let arrival = self.arrivals.get(step.from);
        arrival.is_none_or(|arrival| arrival.perhaps)
    }

    /// Whether a word of the key of a dead letter is one that a wildcard takes and no binding names.
    pub(super) fn is_made_up(&self, step: &Step) -> bool {
        let arrival = self.arrivals.get(step.from);
        step.keeps_key && arrival.is_some_and(|arrival| arrival.made_up)
    }

    /// The steps from one arrival.
    pub(super) fn steps_from(&self, arrival: usize) -> impl Iterator<Item = &Step> {
        let steps = self.steps_of.get(arrival).into_iter().flatten();
        steps.filter_map(|step| self.steps.get(*step))
    }

    /// Whether only dead letters reach a queue. What waited for its time in a queue that is there only for
    /// that, and goes when it is empty, is none.
    pub(super) fn is_for_the_dead(&self, core: &Core, queue: QueueId) -> bool {
        let arrivals = self.in_queue.get(&queue).into_iter().flatten();
        let arrivals = arrivals.filter_map(|index| self.arrivals.get(*index));
        let waited = |from: usize| {
            let before = self.arrivals.get(from);
            let before = before.and_then(|before| core.queue_by_id(before.queue));
            before.is_some_and(|before| {
                let settings = &before.settings;
                settings.expires_ms.is_some() && settings.message_ttl_ms.is_some()
            })
        };
        // By its name anybody may publish to a queue.
        let others = arrivals.filter_map(|arrival| match arrival.by {
            By::Exchange => Some(None),
            By::Death(from, _) => Some(Some(from)),
            By::Name => arrival.may_follow.map(Some),
        });
        let mut others = others.peekable();
        let is_dead = |from: Option<usize>| from.is_some_and(|from| !waited(from));
        others.peek().is_some() && others.all(is_dead)
    }

    /// A message that arrives so, and dies of this there.
    pub(super) fn witness(
        &self,
        core: &Core,
        from: usize,
        reason: Option<Reason>,
    ) -> Option<Witness> {
        let name = |queue: QueueId| Some(core.queue_by_id(queue)?.name.clone());
        let mut arrival = self.arrivals.get(from)?;
        let mut deaths = Vec::new();
        if let Some(reason) = reason {
            deaths.push((name(arrival.queue)?, reason));
        }
        while let By::Death(before, reason) = arrival.by {
            if arrival.perhaps {
                return None;
            }
            arrival = self.arrivals.get(before)?;
            deaths.push((name(arrival.queue)?, reason));
        }
        deaths.reverse();
        let (exchange, key) = if arrival.keyless {
            // It came with headers that nobody knows, and any key: that of the queue will do.
            (Name::default(), name(arrival.queue)?)
        } else {
            let key = arrival.route.keys.first()?;
            (arrival.route.exchange.clone(), key.clone())
        };
        Some(Witness {
            exchange,
            key,
            deaths,
            outcome: None,
        })
    }
}

fn route(exchange: &Name, key: &Name) -> Arc<Route> {
    Arc::new(Route {
        exchange: exchange.clone(),
        keys: Arc::from([key.clone()]),
    })
}

fn same_way(a: &Route, b: &Route) -> bool {
    a.exchange == b.exchange && a.keys == b.keys
}

/// The reasons of which messages can die in a queue as it is set up, where this runs it.
fn reasons(queue: &Queue, target: Target) -> Vec<Reason> {
    let settings = &queue.settings;
    let mut reasons = vec![Reason::Rejected];
    if settings.message_ttl_ms.is_some() {
        reasons.push(Reason::Expired);
    }
    if is_bounded(queue) && settings.overflow != Overflow::RejectPublish {
        reasons.push(Reason::Maxlen);
    }
    if delivery_limit(queue, target).is_some() {
        reasons.push(Reason::DeliveryLimit);
    }
    reasons
}

/// How many failed deliveries a queue allows a message, where this runs it. Classic queues of a RabbitMQ count
/// no failures.
pub(super) fn delivery_limit(queue: &Queue, target: Target) -> Option<u32> {
    let settings = &queue.settings;
    let counts = target == Target::Coroner || settings.queue_type == QueueType::Quorum;
    settings.delivery_limit.filter(|_| counts)
}

/// Whether the queue has a length limit.
pub(super) const fn is_bounded(queue: &Queue) -> bool {
    queue.settings.max_length.is_some() || queue.settings.max_length_bytes.is_some()
}
