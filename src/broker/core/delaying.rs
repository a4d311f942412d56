//! Messages that wait in their queue until it is their time. [evidence part 5]

use bytes::Bytes;

use super::work::SLICE;
use super::{Core, Turn};
use crate::base::{
    ConnectionId, Lsn, Name, Now, Position, QueueId, Seed, Step, Timestamp, invariant,
};
use crate::broker::arguments::DURATION_MS_MAX;
use crate::broker::delay::Draw;
use crate::broker::queue::{Delay, Growth, MessageState, Queue};
use crate::broker::{Error, Fact, Reply};
use crate::message::{self, DeliveryTime};

impl Core {
    /// The instant that the annotations of a `modified` outcome name, if they do and it counts.
    pub(super) fn instant_in(&self, annotations: Option<&Bytes>) -> Option<Timestamp> {
        let annotations = annotations.filter(|_| self.options.delivery_times)?;
        message::delivery_time(annotations)
    }

    /// Lets a message wait that has just entered, for as long as its publisher said.
    #[cold]
    pub(super) fn delay_arrived(
        &mut self,
        now: Now,
        (queue, position): (QueueId, Position),
        (delay, is_durable): (Delay, bool),
    ) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return invariant!(broken, "a queue that a message entered is there");
        };
        queue.messages.delay(position, MessageState::Ready, delay);
        if is_durable {
            let fact = delayed(now, (queue.id, position), delay);
            self.recorder.push(fact);
        }
    }
}

impl Core {
    /// Makes messages of a queue ready before their time, those due first: a slice of them at most.
    pub(super) fn queue_retry(
        &mut self,
        turn: &mut Turn<'_>,
        connection: Option<ConnectionId>,
        name: &Name,
        count: u64,
    ) -> Result<Reply, Error> {
        let id = self
            .find_queue(connection, name)?
            .ok_or_else(|| Self::missing_queue(name))?;
        let queue = self
            .queues
            .get_mut(&id)
            .ok_or_else(|| Self::missing_queue(name))?;
        let slice = usize::try_from(count).unwrap_or(SLICE).min(SLICE);
        let mut messages = 0;
        while messages < slice
            && let Some((_, position)) = queue.messages.delayed().first_due()
        {
            if !queue.messages.end_delay(position) {
                invariant!(broken, "a message that waits for its time is there");
                break;
            }
            // A copy in a checkpoint says that it waits.
            queue.messages.note_copied(position, Lsn(0));
            queue.selecting.requeued(position);
            messages += 1;
            let disk_ref = queue.messages.disk_ref(position);
            if let Some(retried) = disk_ref.filter(|it| it.durable) {
                self.recorder.push(Fact::Returned {
                    queue: id,
                    position,
                    failures: retried.failures,
                    acquired: retried.acquired,
                });
            }
        }
        turn.effects.meter.charge(Step::Message, messages);
        self.schedule(id);
        Ok(Reply::Retried {
            messages: messages as u64,
            lsn: self.recorder.lsn(),
        })
    }
}

/// How long a message waits of which its publisher said when it is to be delivered; none if it is
/// its time.
#[cold]
pub(super) fn asked(now: Now, time: DeliveryTime) -> Option<Delay> {
    match time {
        DeliveryTime::At(instant) => until(now, instant),
        DeliveryTime::After(delay_ms) => {
            let delay_ms = Some(delay_ms.min(DURATION_MS_MAX)).filter(|delay_ms| *delay_ms > 0);
            delay_ms.map(|delay_ms| lasting(now, delay_ms))
        }
    }
}

/// Puts a held message back to its position: it is ready, or waits until the instant that the
/// consumer named, else as the queue's settings say. Returns how it waits, if it does.
#[inline]
pub(super) fn requeue_or_delay(
    (now, seed): (Now, Seed),
    queue: &mut Queue,
    position: Position,
    (has_failed, not_before): (bool, Option<Timestamp>),
) -> Option<Delay> {
    queue.growth = Growth::Grown;
    if (queue.settings.delayed_retry.is_some() || not_before.is_some())
        && let Some(delay) = delay_of((now, seed), queue, position, (has_failed, not_before))
    {
        queue.messages.delay(position, MessageState::Held, delay);
        return Some(delay);
    }
    queue.messages.requeue(position);
    queue.selecting.requeued(position);
    None
}

fn delay_of(
    (now, seed): (Now, Seed),
    queue: &Queue,
    position: Position,
    (has_failed, not_before): (bool, Option<Timestamp>),
) -> Option<Delay> {
    if let Some(not_before) = not_before {
        return until(now, not_before);
    }
    let draw = Draw {
        seed,
        queue: queue.id,
        position,
    };
    let failures = queue.messages.slot(position)?.failures;
    let retry = queue.settings.delayed_retry?;
    let delay_ms = retry.delay_ms(has_failed, failures, draw)?;
    Some(lasting(now, delay_ms))
}

/// A delay of so many milliseconds.
pub(super) fn lasting(now: Now, delay_ms: u64) -> Delay {
    Delay {
        due: now.mono.plus(delay_ms),
        until: later(now.wall, delay_ms),
        is_named: false,
    }
}

/// A delay until an instant, ten years ahead at most; none if that has passed.
pub(super) fn until(now: Now, instant: Timestamp) -> Option<Delay> {
    let left_ms = u64::try_from(instant.0.saturating_sub(now.wall.0)).ok()?;
    let left_ms = Some(left_ms.min(DURATION_MS_MAX)).filter(|left_ms| *left_ms > 0)?;
    Some(Delay {
        is_named: true,
        ..lasting(now, left_ms)
    })
}

fn later(wall: Timestamp, ms: u64) -> Timestamp {
    Timestamp(wall.0.saturating_add_unsigned(ms))
}

/// The fact that a message waits: an instant that was named is told as that, a duration also by
/// what is left of it.
pub(super) fn delayed(now: Now, (queue, position): (QueueId, Position), delay: Delay) -> Fact {
    Fact::Delayed {
        queue,
        position,
        until: delay.until,
        left_ms: (!delay.is_named).then(|| delay.due.since(now.mono)),
    }
}

/// The delay that a fact told, in a core that is being rebuilt: the rest of a duration by the
/// journal's clock, which stopped at `stopped` and `down_ms` ago, and what is left until an instant
/// by the wall clock.
pub(super) fn restored(
    now: Now,
    (until, left_ms): (Timestamp, Option<u64>),
    (stopped, down_ms): (Timestamp, u64),
) -> Delay {
    let rest = |wall: Timestamp| u64::try_from(until.0.saturating_sub(wall.0)).unwrap_or(0);
    let rest_ms = match left_ms {
        Some(left_ms) => rest(stopped).saturating_sub(down_ms).min(left_ms),
        None => rest(now.wall).min(DURATION_MS_MAX),
    };
    Delay {
        due: now.mono.plus(rest_ms),
        until,
        is_named: left_ms.is_none(),
    }
}
