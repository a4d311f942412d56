//! What a gateway wants done under the core's lock, in the order of the peer's frames.

use super::Gateway;
use super::links::LinkId;
use crate::base::{ConsumerId, Meter, Now, SessionId, Step};
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

impl Gateway {
    /// Whether something is to be done under the core's lock.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty() && !self.failed
    }

    /// Does up to `budget` things, in order, fewer if they take long: see [`Meter`]. The caller holds the core's lock, and has given all
    /// earlier effects to [`Gateway::push_effects`].
    pub fn run(&mut self, now: Now, core: &mut Core, effects: &mut Effects, budget: usize) {
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
                connection: self.id,
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
                self.taken_bytes += delivery.room_bytes();
                false
            }
            _ => true,
        };
        self.effects.retain(&mut keep);
        let id = self.id;
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
                connection: self.id,
            },
        };
        core.apply(now, command, effects);
    }

    fn run_request(&mut self, now: Now, core: &mut Core, effects: &mut Effects, request: Request) {
        let Some(login) = &self.login else { return };
        let Request { to, prepared } = request;
        let caller = Caller {
            user: &login.user,
            permissions: &login.permissions,
            topics: login.topics(),
            connection: self.id,
            node: &self.environment.options.node,
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
