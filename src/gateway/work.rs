//! What a gateway wants done under the core's lock, in the order of the peer's frames.

use bytes::Bytes;

use super::Gateway;
use super::links::LinkId;
use crate::base::{ConsumerId, Now, SessionId};
use crate::broker::{Command, Core, Delivery, Effect, Effects, Reply};
use crate::management::{self, Answer, Caller, RequestError};

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
    Manage(Request),
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

/// A management request and the links of its pair.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) from: LinkId,
    pub(super) to: LinkId,
    pub(super) payload: Bytes,
}

/// What the core said, to be handled without its lock.
#[derive(Debug)]
pub(super) enum Answered {
    /// The reply to a command.
    Reply(Ask, Reply),
    /// The answer to a management request.
    Managed(LinkId, LinkId, Result<Answer, RequestError>),
}

impl Gateway {
    /// Whether something is to be done under the core's lock.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty() && !self.failed
    }

    /// Does up to `budget` things, in order. The caller holds the core's lock, and has given all
    /// earlier effects to [`Gateway::push_effects`].
    pub fn run(&mut self, now: Now, core: &mut Core, effects: &mut Effects, budget: usize) {
        let mut left = budget;
        while left > 0
            && let Some(work) = self.work.pop_front()
        {
            left = left.saturating_sub(work.cost());
            match work {
                Work::Command(command) => {
                    core.apply(now, command, effects);
                }
                Work::Ask(ask, command) => {
                    let reply = core.apply(now, command, effects);
                    self.answered.push(Answered::Reply(ask, reply));
                }
                Work::Leave(leaving) => self.leave(now, core, effects, &leaving),
                Work::Manage(request) => self.run_request(now, core, effects, request),
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
        let Request { from, to, payload } = request;
        let caller = Caller {
            user: &login.user,
            permissions: &login.permissions,
            topics: login.topics(),
            connection: self.id,
            node: &self.environment.options.node,
        };
        let result = management::handle(now, &caller, core, effects, &payload);
        self.answered.push(Answered::Managed(from, to, result));
    }
}
