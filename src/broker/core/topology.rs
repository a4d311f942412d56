//! Exchanges, bindings and policies.

use super::work::{SLICE, Work};
use super::{Core, Turn};
use crate::base::limits::{BATCH_NS_MAX, NAME_BYTES_MAX, POLICIES_MAX};
use crate::base::{ConnectionId, Lsn, Meter, Name, Now, QueueId};
use crate::broker::arguments::QueueType;
use crate::broker::exchange::{ExchangeKind, ExchangeSpec};
use crate::broker::policy::EffectiveSettings;
use crate::broker::queue::Growth;
use crate::broker::router::Router;
use crate::broker::{Destination, Error, Fact, Matching, ObjectKind, Policy, Reply, TopologyFact};
use crate::wire::Value;

/// The progress of a pass that applies changed policies to exchanges and queues.
#[derive(Debug, Default)]
pub(super) struct PolicyPass {
    exchanges_done: bool,
    /// The last exchange or queue done, by name.
    after: Option<Name>,
    /// The policies for the next name, as far as they were matched.
    matching: Option<Matching>,
}

/// Estimated time that one slice of such a pass may spend on matching names with policies, in
/// nanoseconds.
const PIECE_NS: u64 = BATCH_NS_MAX / 2;

/// Cost of removing one binding, counted in messages.
const BINDING_COST: usize = 2;

/// Source, destination, key and arguments of a binding.
pub(super) type BindingParts<'a> = (&'a Name, &'a Destination, &'a Name, Vec<(Name, Value)>);

impl Core {
    pub(super) fn exchange_resolve(&self, name: &Name) -> Result<Reply, Error> {
        let exchange = self
            .router
            .exchange_named(name)
            .ok_or_else(|| Error::NotFound {
                kind: ObjectKind::Exchange,
                name: name.clone(),
            })?;
        if exchange.spec.internal {
            return Err(Error::Internal { name: name.clone() });
        }
        Ok(Reply::Exchange {
            exchange: exchange.id,
        })
    }

    pub(super) fn exchange_declare(
        &mut self,
        turn: &mut Turn<'_>,
        spec: ExchangeSpec,
    ) -> Result<Reply, Error> {
        let declared = self.router.declare(spec.clone())?;
        let warnings = self.exchange_warnings(&spec);
        if !declared.created {
            return Ok(Reply::ExchangeDeclared {
                created: false,
                lsn: Lsn(0),
                warnings,
            });
        }
        turn.warn(ObjectKind::Exchange, &spec.name, &warnings);
        let matching = self.policies_of(turn, ObjectKind::Exchange, &spec.name);
        let alternate = matching.alternate_exchange().cloned();
        self.router.set_policy_alternate(&spec.name, alternate);
        if spec.durable {
            self.durable_exchanges.insert(spec.name.clone());
            self.recorder
                .push(Fact::Topology(TopologyFact::ExchangeDeclared(spec)));
        }
        self.retry_all();
        Ok(Reply::ExchangeDeclared {
            created: true,
            lsn: self.recorder.lsn(),
            warnings,
        })
    }

    /// Declares the exchange of a temporary topic.
    pub(super) fn temporary_topic(
        &mut self,
        turn: &mut Turn<'_>,
        owner: ConnectionId,
        name: &Name,
    ) -> Result<Reply, Error> {
        let declared = self.router.declare_temporary(owner, name)?;
        let matching = self.policies_of(turn, ObjectKind::Exchange, name);
        let alternate = matching.alternate_exchange().cloned();
        self.router.set_policy_alternate(name, alternate);
        self.retry_all();
        Ok(Reply::ExchangeDeclared {
            created: declared.created,
            lsn: Lsn(0),
            warnings: Vec::new(),
        })
    }

    pub(super) fn exchange_delete(
        &mut self,
        connection: Option<ConnectionId>,
        name: &Name,
        if_unused: bool,
    ) -> Result<Reply, Error> {
        self.check_topic_owner(connection, name)?;
        let removed = self.router.delete(name, if_unused)?;
        if removed.existed {
            self.exchanges_went(std::slice::from_ref(name));
            self.exchanges_went(&removed.exchanges);
            self.retry_all();
        }
        Ok(self.done())
    }

    /// Removes some bindings of deleted queues and exchanges.
    pub(super) fn forget_bindings(&mut self, turn: &mut Turn<'_>) {
        while turn.budget > 0 && self.router.is_forgetting() {
            let gone = self.router.forget_some(SLICE);
            turn.budget = turn.budget.saturating_sub(SLICE * BINDING_COST);
            if !gone.is_empty() {
                self.exchanges_went(&gone);
                self.retry_all();
            }
        }
    }

    /// Records the deletion of exchanges, of those that the journal keeps.
    pub(super) fn exchanges_went(&mut self, names: &[Name]) {
        for name in names {
            if self.durable_exchanges.remove(name) {
                self.recorder
                    .push(Fact::Topology(TopologyFact::ExchangeDeleted {
                        name: name.clone(),
                    }));
            }
        }
    }

    pub(super) fn bind(
        &mut self,
        connection: Option<ConnectionId>,
        (source, destination, key, arguments): BindingParts<'_>,
    ) -> Result<Reply, Error> {
        self.check_topic_owner(connection, source)?;
        self.check_owner(connection, destination)?;
        self.check_random(source, destination, key)?;
        if !self.router.bind(source, destination, key, &arguments)? {
            return Ok(Reply::Done { lsn: Lsn(0) });
        }
        if self.keeps_binding(source, destination) {
            let (source, destination) = (source.clone(), destination.clone());
            let key = key.clone();
            self.recorder.push(Fact::Topology(TopologyFact::Bound {
                source,
                destination,
                key,
                arguments,
            }));
        }
        self.retry_all();
        Ok(self.done())
    }

    pub(super) fn unbind(
        &mut self,
        connection: Option<ConnectionId>,
        (source, destination, key, arguments): BindingParts<'_>,
    ) -> Result<Reply, Error> {
        self.check_topic_owner(connection, source)?;
        self.check_owner(connection, destination)?;
        let kept = self.keeps_binding(source, destination);
        let removed = self.router.unbind(source, destination, key, &arguments)?;
        if !removed.existed {
            return Ok(Reply::Done { lsn: Lsn(0) });
        }
        if kept {
            let (source, destination) = (source.clone(), destination.clone());
            let key = key.clone();
            self.recorder.push(Fact::Topology(TopologyFact::Unbound {
                source,
                destination,
                key,
                arguments,
            }));
        }
        self.exchanges_went(&removed.exchanges);
        self.retry_all();
        Ok(self.done())
    }

    /// Whether the journal keeps a binding: both its ends must be durable.
    pub(super) fn keeps_binding(&self, source: &Name, destination: &Destination) -> bool {
        let durable = |name: &Name| {
            self.router
                .exchange_named(name)
                .is_some_and(|exchange| exchange.spec.durable)
        };
        durable(source)
            && match destination {
                Destination::Queue(name) => self.queue(name).is_some_and(|queue| queue.durable),
                Destination::Exchange(name) => durable(name),
            }
    }

    /// Refuses to bind or unbind a queue that is exclusive to another connection.
    fn check_owner(
        &self,
        connection: Option<ConnectionId>,
        destination: &Destination,
    ) -> Result<(), Error> {
        let Destination::Queue(name) = destination else {
            return Ok(());
        };
        let owner = self.queue(name).and_then(|queue| queue.exclusive);
        if owner.is_some() && owner != connection {
            return Err(self.locked(name));
        }
        Ok(())
    }

    /// Refuses what only the connection may do that made a temporary topic.
    fn check_topic_owner(
        &self,
        connection: Option<ConnectionId>,
        exchange: &Name,
    ) -> Result<(), Error> {
        let owner = self.router.owner_of(exchange);
        if owner.is_some() && owner != connection {
            let name = exchange.clone();
            return Err(Error::OtherOwner { name });
        }
        Ok(())
    }

    /// Checks that a new queue of this type can be bound with a key, before it is declared.
    pub(super) fn check_new_binding(
        &self,
        connection: ConnectionId,
        (source, key): (&Name, &Name),
        queue_type: QueueType,
    ) -> Result<(), Error> {
        self.check_topic_owner(Some(connection), source)?;
        Router::check_binding(source, key)?;
        self.check_random_type(source, Some(queue_type), key)
    }

    /// A random exchange accepts only classic queues, and no key, as in `RabbitMQ`. A missing
    /// exchange or queue is reported by the router.
    fn check_random(
        &self,
        source: &Name,
        destination: &Destination,
        key: &Name,
    ) -> Result<(), Error> {
        let queue_type = match destination {
            Destination::Queue(name) => match self.queue(name) {
                Some(queue) => Some(queue.settings.queue_type),
                None => return Ok(()),
            },
            Destination::Exchange(_) => None,
        };
        self.check_random_type(source, queue_type, key)
    }

    /// The same of a queue of this type; none: of an exchange.
    fn check_random_type(
        &self,
        source: &Name,
        queue_type: Option<QueueType>,
        key: &Name,
    ) -> Result<(), Error> {
        let exchange = self.router.exchange_named(source);
        if exchange.is_none_or(|exchange| exchange.spec.kind != ExchangeKind::LocalRandom) {
            return Ok(());
        }
        let why = match queue_type {
            _ if !key.is_empty() => format!("an empty binding key only, not '{key}'"),
            Some(QueueType::Classic) => return Ok(()),
            Some(other) => format!("classic queues only, not one of type {}", other.as_str()),
            None => "queues only, not exchanges".to_owned(),
        };
        let why = format!("exchange '{source}' of type x-local-random takes {why}");
        Err(Error::BadRequest { why })
    }

    pub(super) fn policy_set(
        &mut self,
        turn: &mut Turn<'_>,
        operator: bool,
        policy: Box<Policy>,
    ) -> Result<Reply, Error> {
        let is_known = self.policies.get(operator, &policy.name).is_some();
        if !is_known && self.policies.count(operator) >= POLICIES_MAX {
            let why = format!("a vhost has at most {POLICIES_MAX} policies of a kind");
            return Err(Error::BadRequest { why });
        }
        let warnings = self.policy_warnings(&policy);
        turn.warn(ObjectKind::Policy, &policy.name, &warnings);
        self.recorder.push(Fact::Topology(TopologyFact::PolicySet {
            operator,
            policy: policy.clone(),
        }));
        policy.charge(&self.options.kept);
        let created = self.policies.set(operator, *policy);
        self.policies_changed();
        Ok(Reply::PolicySet {
            created,
            lsn: self.recorder.lsn(),
            warnings,
        })
    }

    pub(super) fn policy_delete(&mut self, operator: bool, name: Name) -> Result<Reply, Error> {
        if self.policies.delete(operator, &name).is_none() {
            return Err(Error::NotFound {
                kind: ObjectKind::Policy,
                name,
            });
        }
        self.recorder
            .push(Fact::Topology(TopologyFact::PolicyDeleted {
                operator,
                name,
            }));
        self.policies_changed();
        Ok(self.done())
    }

    /// Searches the policies for a queue or exchange that is about to be declared, until the meter
    /// is used up; whether the search is complete, so that declaring it, under the same hold, takes
    /// no longer than another command. `begun` has the progress so far.
    pub fn match_policies(
        &mut self,
        (kind, name): (ObjectKind, &Name),
        begun: &mut Option<Box<Matching>>,
        meter: &mut Meter,
    ) -> bool {
        let is_there = match kind {
            ObjectKind::Queue => self.names.contains_key(name),
            _ => self.router.exchange_named(name).is_some(),
        };
        // An existing object keeps its policies, and a name that is too long is refused.
        if is_there || self.policies.is_empty() || name.len() > NAME_BYTES_MAX {
            return true;
        }
        let mut matching = begun
            .take()
            .filter(|begun| begun.is_for(kind, name))
            .unwrap_or_else(|| Box::new(Matching::new(kind, name.clone())));
        let is_known = matching.go_on(&self.policies, meter, BATCH_NS_MAX);
        let place = if is_known { &mut self.matched } else { begun };
        *place = Some(matching);
        is_known
    }

    /// The policies of an object that is being declared; usually found beforehand.
    pub(super) fn policies_of(
        &mut self,
        turn: &mut Turn<'_>,
        kind: ObjectKind,
        name: &Name,
    ) -> Matching {
        let matched = self.matched.take();
        let mut matching = matched
            .filter(|matched| matched.is_for(kind, name))
            .map_or_else(|| Matching::new(kind, name.clone()), |matched| *matched);
        matching.go_on(&self.policies, &mut turn.effects.meter, u64::MAX);
        matching
    }

    /// Starts a pass that applies policies to exchanges and then to queues, in slices; afterwards
    /// waiting dead letters are sent again. A pass under way starts again.
    pub(super) fn policies_changed(&mut self) {
        if self.policy_pass.replace(PolicyPass::default()).is_none() {
            self.work.push_back(Work::ApplyPolicies);
        }
    }

    /// Sets the alternate exchanges that policies give, of all exchanges at once: the core is being
    /// restored, and what is published to it first may need them.
    pub(super) fn set_policy_alternates(&mut self) {
        if self.policies.is_empty() {
            return;
        }
        let exchanges = self.router.exchanges_after(None);
        let names = exchanges.map(|exchange| exchange.spec.name.clone());
        for name in names.collect::<Vec<_>>() {
            let mut matching = Matching::new(ObjectKind::Exchange, name.clone());
            matching.go_on(&self.policies, &mut Meter::default(), u64::MAX);
            let alternate = matching.alternate_exchange().cloned();
            self.router.set_policy_alternate(&name, alternate);
        }
    }

    /// Does one slice of the pass: some names, or some of the policies that one name is matched
    /// with.
    pub(super) fn apply_policies_slice(&mut self, turn: &mut Turn<'_>) {
        let Some(mut pass) = self.policy_pass.take() else {
            return;
        };
        let (mut meter, mut names) = (Meter::default(), 0);
        while names < SLICE && meter.spent_ns() < PIECE_NS {
            let Some((name, queue)) = self.next_in_pass(&pass) else {
                if pass.exchanges_done {
                    turn.charge_ns(meter.spent_ns());
                    turn.budget = turn.budget.saturating_sub(names);
                    self.retry_all();
                    return;
                }
                (pass.exchanges_done, pass.after) = (true, None);
                continue;
            };
            if self.apply_policies_to(turn.now, &mut pass, (&name, queue), &mut meter) {
                pass.after = Some(name);
                names += 1;
            }
        }
        turn.charge_ns(meter.spent_ns());
        turn.budget = turn.budget.saturating_sub(names);
        self.policy_pass = Some(pass);
        self.work.push_back(Work::ApplyPolicies);
    }

    /// The next exchange or queue of a pass.
    fn next_in_pass(&self, pass: &PolicyPass) -> Option<(Name, Option<QueueId>)> {
        if pass.exchanges_done {
            let (name, id) = self.names_after(pass.after.as_ref()).next()?;
            return Some((name.clone(), Some(*id)));
        }
        let exchange = self.router.exchanges_after(pass.after.as_ref()).next()?;
        Some((exchange.spec.name.clone(), None))
    }

    /// Applies the policies to one exchange or queue; false if the slice ends before all policies
    /// were matched.
    fn apply_policies_to(
        &mut self,
        now: Now,
        pass: &mut PolicyPass,
        (name, queue): (&Name, Option<QueueId>),
        meter: &mut Meter,
    ) -> bool {
        let queue = queue.and_then(|id| self.queues.get(&id));
        let kind = queue.map_or(ObjectKind::Exchange, |_| ObjectKind::Queue);
        let begun = pass.matching.take();
        let mut matching = begun
            .filter(|begun| begun.is_for(kind, name))
            .unwrap_or_else(|| Matching::new(kind, name.clone()));
        if !matching.go_on(&self.policies, meter, PIECE_NS) {
            pass.matching = Some(matching);
            return false;
        }
        if let Some(queue) = queue {
            let settings = matching.settings(&queue.arguments);
            let settings = self.options.settings_of(name, settings);
            self.adopt(now, queue.id, settings);
        } else {
            let alternate = matching.alternate_exchange().cloned();
            self.router.set_policy_alternate(name, alternate);
        }
        true
    }

    /// Gives a queue new settings: they apply to the messages in it from now on. A new expiry of
    /// the queue itself begins now, so that no policy deletes a queue at once.
    fn adopt(&mut self, now: Now, id: QueueId, settings: EffectiveSettings) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        if queue.settings == settings {
            return;
        }
        if queue.settings.expires_ms != settings.expires_ms {
            queue.unused_since = now.mono;
        }
        let is_timed_anew = queue.settings.timeout_ms() != settings.timeout_ms();
        queue.settings = settings;
        queue.growth = Growth::Grown;
        self.schedule(id);
        if is_timed_anew {
            self.look_now(now, id);
        }
    }

    pub(super) fn names_after(
        &self,
        after: Option<&Name>,
    ) -> impl Iterator<Item = (&Name, &QueueId)> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.names
            .range::<Name, _>((after.map_or(Unbounded, Excluded), Unbounded))
    }

    fn done(&self) -> Reply {
        Reply::Done {
            lsn: self.recorder.lsn(),
        }
    }
}
