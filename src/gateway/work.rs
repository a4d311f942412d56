//! Work of a gateway to be done under the core's lock, in the order of the peer's frames.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Gateway;
use super::links::LinkId;
use crate::access::Permissions;
use crate::base::{
    ConnectionId, ConsumerId, HoldBudget, Meter, Name, Now, Position, SessionId, Step, invariant,
};
use crate::broker::registry::Topics;
use crate::broker::{
    self, Command, Core, Effect, Effects, Matching, Reply, Settle, SettleRun, append_effects,
};
use crate::link::LinkHandle;
use crate::management::{Caller, Outcome, Prepared, Progress};

/// One item of work.
#[derive(Debug)]
pub(super) enum Work {
    /// A command whose reply is ignored.
    Command(Command),
    /// A run of settlements.
    Settle(SettleRun),
    /// A command whose reply is awaited.
    Ask(Ask, Command),
    /// A command that declares a queue, whose reply is ignored.
    Declare(Command),
    /// Consumers are detached: their assigned, unsent deliveries return first, uncounted.
    Leave(Leaving),
    /// Consumers are detached once these deliveries have returned.
    Return(Leaving, std::vec::IntoIter<(ConsumerId, Position)>),
    /// A management request.
    Manage(Box<Request>),
}

impl Work {
    /// Number of commands that it counts as.
    fn cost(&self) -> usize {
        match self {
            Self::Settle(run) => run.positions.len().max(1),
            _ => 1,
        }
    }
}

/// The link that waits for a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// A publishing link whose queue or exchange is looked up.
    Publisher(LinkId),
    /// A consuming link that attaches.
    Consumer(LinkId),
    /// A consuming link that attaches to a subscription.
    Subscriber(LinkId),
    /// A consuming link whose peer closed it, and with it the subscription.
    Unsubscribed(LinkHandle),
    /// A consuming link without the right to read; it is told so only if its queue exists.
    Forbidden(LinkId),
}

/// What is detached or closed.
#[derive(Clone, Debug)]
pub(super) enum Leaving {
    /// The consumer of one link.
    Consumer(ConsumerId),
    /// The consumer of a link that outlives its connection, and was only detached.
    Suspended(ConsumerId),
    /// The link of a consumer that the core keeps for a transaction.
    Link(ConsumerId),
    /// A session with these consumers.
    Session(SessionId, Vec<ConsumerId>),
    /// The whole connection.
    Connection,
}

/// A management request that was parsed, and the link for the answer.
#[derive(Debug)]
pub(super) struct Request {
    /// The link for the answer.
    pub(super) to: LinkId,
    pub(super) prepared: Prepared,
}

/// A result from the core, to be handled without its lock.
#[derive(Debug)]
pub(super) enum Answered {
    /// The reply to a command.
    Reply(Ask, Reply),
    /// The result of a management request.
    Managed(LinkId, Outcome),
    /// Whether a queue was declared for a link or a message: for the audit log.
    Made(Name, Result<(), broker::Error>),
}

/// What a gateway hands over for a hold of the core's lock, and takes back afterwards: commands in
/// the order of the peer's frames, then replies and effects. The holder of the lock calls
/// [`apply`](Batch::apply).
#[derive(Debug)]
pub struct Batch {
    /// The connection that the batch belongs to.
    pub(super) connection: ConnectionId,
    work: VecDeque<Work>,
    /// The user of management requests; none before the login.
    pub(super) asker: Option<Asker>,
    /// The core's results that the gateway has not handled yet.
    pub(super) answered: Vec<Answered>,
    /// The policies of the object that is declared next, as far as they were searched.
    begun: Option<Box<Matching>>,
    /// Effects from the core, in order, not handled yet.
    pub(super) effects: VecDeque<Effect>,
    /// Bytes of deliveries that were removed from the effects again, since open.
    pub(super) returned_bytes: u64,
    /// Deliveries to links that have detached: they are returned together with the [`Work::Leave`]
    /// that is later in the batch, before the core forgets their consumers.
    pub(super) undelivered: Vec<(ConsumerId, Position)>,
}

/// The user of management requests, and its permissions.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) user: Name,
    pub(super) permissions: Arc<Permissions>,
    pub(super) topics: Option<Topics>,
    /// The broker's name, for the answers.
    pub(super) node: Name,
}

impl Gateway {
    /// Whether there is work to do under the core's lock.
    pub fn has_work(&self) -> bool {
        !self.batch.is_empty() && !self.failed
    }

    /// The work to do under the core's lock, and its results.
    pub const fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }
}

impl Batch {
    /// An empty batch of a connection.
    pub(super) const fn new(connection: ConnectionId) -> Self {
        Self {
            connection,
            work: VecDeque::new(),
            asker: None,
            answered: Vec::new(),
            begun: None,
            effects: VecDeque::new(),
            returned_bytes: 0,
            undelivered: Vec::new(),
        }
    }

    /// The connection that the batch belongs to.
    pub const fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Whether there is no work.
    pub fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    /// Adds an item of work behind all others.
    pub(super) fn push(&mut self, work: Work) {
        self.work.push_back(work);
    }

    /// Takes the pending work back.
    pub(super) fn take_work(&mut self) -> VecDeque<Work> {
        std::mem::take(&mut self.work)
    }

    /// Takes effects from the core, in order. [`Gateway::handle_effects`] handles them.
    pub fn push_effects(&mut self, effects: &mut VecDeque<Effect>) {
        append_effects(&mut self.effects, effects);
    }

    /// Takes one more effect from the core.
    pub fn push_effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Does up to `budget` items of work, in order, fewer if they take long: see [`Meter`]. The
    /// caller holds the core's lock, and has given all earlier effects to [`Batch::push_effects`].
    pub fn apply(&mut self, now: Now, core: &mut Core, effects: &mut Effects, budget: HoldBudget) {
        let mut left = budget.commands;
        effects.meter = Meter::new(budget);
        while left > 0
            && !effects.meter.is_used_up()
            && let Some(work) = self.work.pop_front()
        {
            left = left.saturating_sub(work.cost());
            if !matches!(work, Work::Command(_) | Work::Settle(_)) {
                core.end_batch(now, effects); // others may look at what those before have done
            }
            match work {
                Work::Command(command) => {
                    core.apply_in_batch(now, command, effects);
                }
                Work::Settle(run) => self.settle(now, core, effects, run),
                Work::Declare(command) => self.declare(now, core, effects, command),
                Work::Ask(ask, command) => {
                    if let Some(declared) = command.declares()
                        && !core.match_policies(declared, &mut self.begun, &mut effects.meter)
                    {
                        self.work.push_front(Work::Ask(ask, command));
                        continue;
                    }
                    effects.meter.charge(Step::Command, 1);
                    let reply = core.apply(now, command, effects);
                    self.answered.push(Answered::Reply(ask, reply));
                }
                Work::Leave(leaving) => self.leave(now, core, effects, leaving),
                Work::Return(leaving, unsent) => {
                    self.return_unsent(now, core, effects, leaving, unsent);
                }
                Work::Manage(request) => {
                    effects.meter.charge(Step::Command, 1);
                    self.run_request(now, core, effects, *request);
                }
            }
        }
        core.end_batch(now, effects);
    }

    /// Settles some deliveries. An accepted one takes no more than any other command; another may
    /// die and enter thousands of queues, so the rest waits once the time is used up.
    fn settle(&mut self, now: Now, core: &mut Core, effects: &mut Effects, run: SettleRun) {
        if matches!(run.outcome, broker::Outcome::Accepted) {
            core.apply(now, Command::SettleRun(run), effects);
            return;
        }
        let SettleRun {
            consumer,
            outcome,
            mut positions,
        } = run;
        let mut done = 0;
        for &position in &positions {
            if effects.meter.is_used_up() {
                break;
            }
            let one = Settle {
                consumer,
                position,
                outcome: outcome.clone(),
                confirm: None,
            };
            core.settle_in_batch(now, one, effects);
            done += 1;
        }
        if done < positions.len() {
            positions.drain(..done);
            let rest = SettleRun {
                consumer,
                positions,
                outcome,
            };
            self.work.push_front(Work::Settle(rest));
        }
    }

    /// Declares a queue once its policies are found: in slices if the search takes long.
    fn declare(&mut self, now: Now, core: &mut Core, effects: &mut Effects, command: Command) {
        if let Some(declared) = command.declares()
            && !core.match_policies(declared, &mut self.begun, &mut effects.meter)
        {
            self.work.push_front(Work::Declare(command));
            return;
        }
        let name = command.declares().map(|(_, name)| name.clone());
        let made = match core.apply(now, command, effects) {
            Reply::QueueDeclared { created: true, .. } => Ok(()),
            Reply::Refused(error @ broker::Error::QueueLimit { .. }) => Err(error),
            // The queue exists already, perhaps with other arguments: nothing was declared.
            _ => return,
        };
        self.answered
            .extend(name.map(|name| Answered::Made(name, made)));
    }

    /// Stops the flow to the consumers that leave, returns their unsent deliveries, and tells the
    /// core that they are detached.
    fn leave(&mut self, now: Now, core: &mut Core, effects: &mut Effects, leaving: Leaving) {
        let stop = match &leaving {
            Leaving::Consumer(consumer)
            | Leaving::Suspended(consumer)
            | Leaving::Link(consumer) => Command::ConsumerFlow {
                consumer: *consumer,
                limit: 0,
                drain: false,
            },
            Leaving::Session(session, _) => Command::SessionFlow {
                session: *session,
                limit: 0,
            },
            Leaving::Connection => Command::ConnectionRoom {
                connection: self.connection,
                limit_bytes: 0,
            },
        };
        effects.meter.charge(Step::Command, 1);
        core.apply(now, stop, effects);
        let goes = |consumer: ConsumerId| match &leaving {
            Leaving::Consumer(leaving) | Leaving::Suspended(leaving) | Leaving::Link(leaving) => {
                consumer == *leaving
            }
            Leaving::Session(_, consumers) => consumers.contains(&consumer),
            Leaving::Connection => true,
        };
        let returns = |one: &mut (ConsumerId, Position)| goes(one.0);
        let mut unsent: Vec<_> = self.undelivered.extract_if(.., returns).collect();
        let mut keep = |effect: &Effect| match effect.delivery() {
            Some(delivery) if goes(delivery.consumer) => {
                unsent.push((delivery.consumer, delivery.position));
                self.returned_bytes += delivery.room_bytes();
                false
            }
            _ => true,
        };
        self.effects.retain(&mut keep);
        let id = self.connection;
        effects
            .outgoing
            .retain(|(connection, effect)| *connection != id || keep(effect));
        self.return_unsent(now, core, effects, leaving, unsent.into_iter());
    }

    /// Returns some of the unsent deliveries; after the last of them the consumers are detached.
    fn return_unsent(
        &mut self,
        now: Now,
        core: &mut Core,
        effects: &mut Effects,
        leaving: Leaving,
        mut unsent: std::vec::IntoIter<(ConsumerId, Position)>,
    ) {
        while !effects.meter.is_used_up()
            && let Some((consumer, position)) = unsent.next()
        {
            effects.meter.charge(Step::Message, 1);
            core.apply(now, Command::ReturnUnsent { consumer, position }, effects);
        }
        if !unsent.as_slice().is_empty() {
            self.work.push_front(Work::Return(leaving, unsent));
            return;
        }
        let command = match leaving {
            Leaving::Link(_) => return,
            Leaving::Consumer(consumer) => Command::ConsumerDetach { consumer },
            Leaving::Suspended(consumer) => Command::ConsumerSuspend { consumer },
            Leaving::Session(session, _) => Command::SessionEnd { session },
            Leaving::Connection => Command::ConnectionClose {
                connection: self.connection,
            },
        };
        core.apply(now, command, effects);
    }

    fn run_request(&mut self, now: Now, core: &mut Core, effects: &mut Effects, request: Request) {
        let Some(asker) = &self.asker else {
            return invariant!(broken, "who manages has logged in");
        };
        let Request { to, prepared } = request;
        let caller = Caller {
            user: &asker.user,
            permissions: &asker.permissions,
            topics: asker.topics.as_ref(),
            connection: self.connection,
            node: &asker.node,
        };
        match prepared.carry_out(now, &caller, core, effects) {
            Progress::Done(outcome) => self.answered.push(Answered::Managed(to, outcome)),
            Progress::Later(prepared) => {
                let rest = Box::new(Request { to, prepared });
                self.work.push_front(Work::Manage(rest));
            }
        }
    }
}
