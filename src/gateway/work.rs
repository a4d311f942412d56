//! What a gateway wants done under the core's lock, in the order of the peer's frames.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Gateway;
use super::links::LinkId;
use crate::access::Permissions;
use crate::base::{ConnectionId, ConsumerId, Meter, Name, Now, SessionId, Step, invariant};
use crate::broker::registry::TopicMap;
use crate::broker::{Command, Core, Delivery, Effect, Effects, Reply};
use crate::management::{Caller, Outcome, Prepared, Progress};

/// One thing to do.
#[derive(Debug)]
pub(super) enum Work {
    /// A command whose reply says nothing new.
    Command(Command),
    /// A command whose reply is awaited.
    Ask(Ask, Command),
    /// Consumers go: what is on its way to them and was not sent returns first, uncounted.
    Leave(Leaving),
    /// A management request.
    Manage(Box<Request>),
}

impl Work {
    /// Commands it counts as.
    fn cost(&self) -> usize {
        match self {
            Self::Command(Command::SettleRun(run)) => run.positions.len().max(1),
            _ => 1,
        }
    }
}

/// Who waits for a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// A publishing link whose queue or exchange is looked up.
    Publisher(LinkId),
    /// A consuming link.
    Consumer(LinkId),
    /// A consuming link that is forbidden; it is told so only if its queue exists.
    Forbidden(LinkId),
}

/// Who goes.
#[derive(Clone, Debug)]
pub(super) enum Leaving {
    /// One consumer.
    Consumer(ConsumerId),
    /// A session with these consumers.
    Session(SessionId, Vec<ConsumerId>),
    /// All of the connection.
    Connection,
}

/// A management request that was read, and who waits for the answer.
#[derive(Debug)]
pub(super) struct Request {
    /// Where the answer goes.
    pub(super) to: LinkId,
    pub(super) prepared: Prepared,
}

/// What the core said, to be handled without its lock.
#[derive(Debug)]
pub(super) enum Answered {
    /// The reply to a command.
    Reply(Ask, Reply),
    /// What came of a management request.
    Managed(LinkId, Outcome),
}

/// What a gateway hands over for a hold of the core's lock, and takes back afterwards: commands in the
/// order of the peer's frames there, replies and effects back. Who holds the lock calls
/// [`apply`](Batch::apply).
#[derive(Debug)]
pub struct Batch {
    /// Whose it is.
    pub(super) connection: ConnectionId,
    work: VecDeque<Work>,
    /// Who asks with management requests; none before the peer has logged in.
    pub(super) asker: Option<Asker>,
    /// What the core replied, until the gateway has looked at it.
    pub(super) answered: Vec<Answered>,
    /// From the core, in order, not handled yet.
    pub(super) effects: VecDeque<Effect>,
    /// Room of deliveries that were taken out of the effects again, in bytes since open.
    pub(super) returned_bytes: u64,
}

/// Who asks with management requests, and what it may do.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) user: Name,
    pub(super) permissions: Arc<Permissions>,
    pub(super) topics: Option<Arc<TopicMap>>,
    /// The broker's name.
    pub(super) node: Name,
}

impl Gateway {
    /// Whether something is to be done under the core's lock.
    pub fn has_work(&self) -> bool {
        !self.batch.is_empty() && !self.failed
    }

    /// What is to be done under the core's lock, and what came of it.
    pub const fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }
}

impl Batch {
    /// An empty one of a connection.
    pub(super) const fn new(connection: ConnectionId) -> Self {
        Self {
            connection,
            work: VecDeque::new(),
            asker: None,
            answered: Vec::new(),
            effects: VecDeque::new(),
            returned_bytes: 0,
        }
    }

    /// Whose it is.
    pub const fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    /// One more thing to do, after all others.
    pub(super) fn push(&mut self, work: Work) {
        self.work.push_back(work);
    }

    /// Takes back what is to be done.
    pub(super) fn take_work(&mut self) -> VecDeque<Work> {
        std::mem::take(&mut self.work)
    }

    /// Takes effects from the core, in order. [`Gateway::handle_effects`] handles them.
    pub fn push_effects(&mut self, effects: &mut VecDeque<Effect>) {
        self.effects.append(effects);
    }

    /// Takes one more effect.
    pub fn push_effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Does up to `budget` things, in order, fewer if they take long: see [`Meter`]. The caller holds
    /// the core's lock, and has given all earlier effects to [`Batch::push_effects`].
    pub fn apply(&mut self, now: Now, core: &mut Core, effects: &mut Effects, budget: usize) {
        let mut left = budget;
        effects.meter = Meter::default();
        while left > 0
            && !effects.meter.is_used_up()
            && let Some(work) = self.work.pop_front()
        {
            left = left.saturating_sub(work.cost());
            match work {
                Work::Command(command) => {
                    core.apply(now, command, effects);
                }
                Work::Ask(ask, command) => {
                    effects.meter.charge(Step::Command, 1);
                    let reply = core.apply(now, command, effects);
                    self.answered.push(Answered::Reply(ask, reply));
                }
                Work::Leave(leaving) => self.leave(now, core, effects, &leaving),
                Work::Manage(request) => {
                    effects.meter.charge(Step::Command, 1);
                    self.run_request(now, core, effects, *request);
                }
            }
        }
    }

    /// Stops the flow to who goes, returns what was not sent, and says that they are gone.
    fn leave(&mut self, now: Now, core: &mut Core, effects: &mut Effects, leaving: &Leaving) {
        let stop = match leaving {
            Leaving::Consumer(consumer) => Command::ConsumerFlow {
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
        core.apply(now, stop, effects);
        let goes = |delivery: &Delivery| match leaving {
            Leaving::Consumer(consumer) => delivery.consumer == *consumer,
            Leaving::Session(_, consumers) => consumers.contains(&delivery.consumer),
            Leaving::Connection => true,
        };
        let mut unsent = Vec::new();
        let mut keep = |effect: &Effect| match effect {
            Effect::Deliver(delivery) if goes(delivery) => {
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
        for (consumer, position) in unsent {
            core.apply(now, Command::ReturnUnsent { consumer, position }, effects);
        }
        let command = match leaving {
            Leaving::Consumer(consumer) => Command::ConsumerDetach {
                consumer: *consumer,
            },
            Leaving::Session(session, _) => Command::SessionEnd { session: *session },
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
            topics: asker.topics.as_deref(),
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
