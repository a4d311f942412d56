//! A connection to a core for the duration of one request, which publishes and takes messages.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::api::Call;
use super::work::failed;
use crate::base::{ConnectionId, ConsumerId, Lsn, Name, PublisherId, SessionId};
use crate::broker::{
    Command, Consume, Delivery, Effect, Outcome, Publish, PublishOutcome, Reply, Settle, Target,
};
use crate::management::Refusal;
use crate::management::http::Failure;
use crate::message::{DeliveryTime, Message, Route};
use crate::node::Outbox;
use crate::server::Vhost;
use crate::server::admin::Admin;

/// Bytes of messages that one request takes at most, and one more message.
const TAKEN_BYTES_MAX: u64 = 64 << 20;
/// Time to wait for more messages when none arrive though some were asked for.
const QUIET: Duration = Duration::from_millis(500);
/// Time to wait for an outcome.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a core; it is closed when dropped, also when the request is cancelled.
pub(super) struct Visitor {
    admin: Admin,
    vhost: Arc<Vhost>,
    id: ConnectionId,
    /// The number of its session, its consumer and its publisher too: there is one of each.
    number: u64,
    outbox: Arc<Outbox>,
}

impl Visitor {
    /// Connects to the core of the vhost in the path.
    pub(super) fn enter(call: &Call<'_>) -> Result<Self, Failure> {
        let number = call.shared.node.environment.next_id();
        let visitor = Self {
            admin: call.admin(),
            vhost: call.vhost()?,
            id: ConnectionId(number),
            number,
            outbox: Arc::new(Outbox::default()),
        };
        let (connection, user) = (visitor.id, call.identity.name.clone());
        visitor.vhost.enter(connection, Arc::clone(&visitor.outbox));
        visitor.apply(Command::ConnectionOpen {
            connection,
            user,
            client: Name::default(),
            limit_bytes: TAKEN_BYTES_MAX,
        })?;
        visitor.apply(Command::SessionOpen {
            connection,
            session: SessionId(number),
            limit: u64::MAX,
        })?;
        Ok(visitor)
    }

    /// A name that is unique in this broker.
    pub(super) fn unique_name(&self) -> String {
        format!("visitor-{}", self.number)
    }

    fn apply(&self, command: Command) -> Result<Reply, Failure> {
        let reply = self
            .vhost
            .work(|now, core, effects| core.apply(now, command, effects));
        match reply.map_err(failed)? {
            Reply::Refused(error) => Err(Refusal::from(error).into()),
            reply => Ok(reply),
        }
    }

    /// Publishes a message; ready once its outcome is durable.
    pub(super) async fn publish(
        &self,
        route: Arc<Route>,
        message: Message,
        (forbidden, delivery_time): (Option<u32>, Option<DeliveryTime>),
    ) -> Result<PublishOutcome, Failure> {
        self.apply(Command::Publish(Publish {
            connection: self.id,
            publisher: PublisherId(self.number),
            token: 0,
            target: Target::Named,
            route,
            message: Arc::new(message),
            settled: false,
            forbidden,
            delivery_time,
        }))?;
        let late = |_| Failure::unavailable("the message is not confirmed");
        let published = tokio::time::timeout(OUTCOME_TIMEOUT, async {
            loop {
                for effect in self.effects() {
                    if let Effect::Published { outcome, lsn, .. } = effect {
                        return (outcome, lsn);
                    }
                }
                poll_fn(|context| self.outbox.poll_ready(context)).await;
            }
        });
        let (outcome, lsn) = published.await.map_err(late)?;
        self.admin.durable(lsn).await?;
        Ok(outcome)
    }

    /// Takes up to `count` ready messages of a queue, and as many bytes as one request may.
    pub(super) async fn take(&self, queue: &Name, count: u64) -> Result<Vec<Delivery>, Failure> {
        let consumer = ConsumerId(self.number);
        self.apply(Command::Consume(Consume {
            connection: self.id,
            session: SessionId(self.number),
            consumer,
            queue: queue.clone(),
            settled: false,
            priority: 0,
            exclusive: false,
            passing: true,
            selector: None,
            timeout_ms: Some(0),
            evidence: None,
            recovery: None,
        }))?;
        self.apply(Command::ConsumerFlow {
            consumer,
            limit: count,
            drain: true,
        })?;
        let mut taken = Vec::new();
        loop {
            for effect in self.effects() {
                match effect {
                    Effect::Deliver(delivery) => taken.push(delivery),
                    Effect::Drained { .. } | Effect::ConsumerEnded { .. } => return Ok(taken),
                    _ => {}
                }
            }
            if taken.len() as u64 >= count {
                return Ok(taken);
            }
            let more = poll_fn(|context| self.outbox.poll_ready(context));
            if tokio::time::timeout(QUIET, more).await.is_err() {
                // The next message does not fit.
                return Ok(taken);
            }
        }
    }

    /// Settles taken messages; ready once that is durable.
    pub(super) async fn settle(
        &self,
        taken: &[Delivery],
        outcome: &Outcome,
    ) -> Result<(), Failure> {
        let Some(last) = taken.len().checked_sub(1) else {
            return Ok(());
        };
        for (index, delivery) in taken.iter().enumerate() {
            self.apply(Command::Settle(Settle {
                consumer: delivery.consumer,
                position: delivery.position,
                outcome: outcome.clone(),
                confirm: (index == last).then_some(0),
            }))?;
        }
        let settled = tokio::time::timeout(OUTCOME_TIMEOUT, async {
            loop {
                for effect in self.effects() {
                    if let Effect::Settled { lsn, .. } = effect {
                        return lsn;
                    }
                }
                poll_fn(|context| self.outbox.poll_ready(context)).await;
            }
        });
        let lsn = settled.await.unwrap_or(Lsn(0));
        Ok(self.admin.durable(lsn).await?)
    }

    fn effects(&self) -> VecDeque<Effect> {
        let mut taken = VecDeque::new();
        self.outbox.drain(|effects| taken.append(effects));
        taken
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let connection = self.id;
        // A core that failed has no connections any more.
        let _ = self.vhost.work(|now, core, effects| {
            core.apply(now, Command::ConnectionClose { connection }, effects);
        });
        self.vhost.disconnect(connection);
    }
}
