//! A publishing connection: obeys the broker's credit and window, and the configured rate.

use std::collections::VecDeque;

use super::BenchError;
use super::codec::{Performative, code, descriptor, truth, uint};
use super::connection::{ConnectTarget, Connection, Link, unexpected};
use super::tally::Tally;
use super::template::{MessageShape, Template};

/// Encoded bytes that are collected before a write.
const WRITE_BYTES: usize = 64 * 1024;

/// One connection with one sending link.
pub(super) struct Producer {
    pub(super) connection: Connection,
    template: Template,
    settled: bool,
    /// Next delivery-id, which is also the link's delivery-count.
    next_delivery: u32,
    delivery_limit: u32,
    next_transfer: u32,
    transfer_limit: u32,
    /// Frames of the next delivery that are already sent.
    frames_out: usize,
    /// Number of messages left to send.
    quota: u64,
    send_rate: Option<SendRate>,
    /// With a rate: when the messages without an outcome were due.
    unsettled: Unsettled,
}

impl Producer {
    /// Connects and attaches to an address.
    pub(super) fn attach(
        peer: &ConnectTarget,
        address: &str,
        shape: &MessageShape,
        quota: u64,
        send_rate: Option<SendRate>,
    ) -> Result<Self, BenchError> {
        let mut connection = Connection::open(peer, "coroner-bench-producer")?;
        connection.attach(&Link {
            name: "producer",
            handle: 0,
            receiver: false,
            address,
            settled: shape.settled,
            paired: false,
        })?;
        let template = Template::new(shape, connection.frame_bytes_max);
        let transfer_limit = connection.incoming_window;
        Ok(Self {
            connection,
            template,
            settled: shape.settled,
            next_delivery: 0,
            delivery_limit: 0,
            next_transfer: 0,
            transfer_limit,
            frames_out: 0,
            quota,
            send_rate,
            unsettled: Unsettled::default(),
        })
    }

    /// Whether all its messages are sent.
    pub(super) fn is_done(&self) -> bool {
        self.quota == 0 && self.frames_out == 0
    }

    /// Sends nothing more except the rest of the current message.
    pub(super) fn stop(&mut self) {
        self.quota = u64::from(self.frames_out > 0);
    }

    /// When its next message is due, in nanoseconds since the run began.
    pub(super) fn due_nanos(&self) -> Option<u64> {
        self.send_rate
            .as_ref()
            .filter(|_| self.quota > 0)
            .map(SendRate::due_nanos)
    }

    /// Whether it could send at once, were its output empty.
    pub(super) fn is_ready(&self) -> bool {
        let due = self
            .send_rate
            .as_ref()
            .is_none_or(|send_rate| !send_rate.waiting.is_empty());
        let credit = self.frames_out > 0 || remaining(self.delivery_limit, self.next_delivery) > 0;
        due && credit && self.quota > 0 && remaining(self.transfer_limit, self.next_transfer) > 0
    }

    /// Appends up to one write's worth of messages.
    pub(super) fn produce(&mut self, tally: &mut Tally) {
        if let Some(send_rate) = &mut self.send_rate {
            send_rate.tick(tally.now_nanos);
        }
        let frames = self.template.frames();
        while self.connection.pending_bytes() < WRITE_BYTES && self.is_ready() {
            if self.frames_out == 0 {
                let waited = self
                    .send_rate
                    .as_mut()
                    .and_then(|send_rate| send_rate.waiting.pop_front());
                if let (Some(due), false) = (waited, self.settled) {
                    self.unsettled.due_nanos.push_back(due);
                }
                self.template
                    .stamp(self.next_delivery, waited.unwrap_or(tally.now_nanos));
            }
            let window = remaining(self.transfer_limit, self.next_transfer);
            let count = (frames - self.frames_out).min(window as usize);
            self.template
                .write(self.frames_out, count, self.connection.output());
            self.next_transfer = self.next_transfer.wrapping_add(super::codec::length(count));
            self.frames_out += count;
            if self.frames_out == frames {
                self.frames_out = 0;
                self.next_delivery = self.next_delivery.wrapping_add(1);
                self.quota -= 1;
                tally.sent += 1;
                tally.confirmed += u64::from(self.settled);
                tally.progress_nanos = tally.now_nanos;
            }
        }
    }

    /// Reads input: credit, windows, outcomes.
    pub(super) fn read(&mut self, tally: &mut Tally) -> Result<(), BenchError> {
        let Self {
            connection,
            delivery_limit,
            transfer_limit,
            unsettled,
            ..
        } = self;
        connection.read_frames(|frame, _| {
            match frame.code {
                code::FLOW => handle_flow(frame, delivery_limit, transfer_limit),
                code::DISPOSITION => handle_outcome(frame, unsettled, tally),
                _ => return Err(unexpected(frame)),
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// [AMQP 2.6.7]: link-credit counts from the delivery-count its sender knew.
fn handle_flow(flow: &Performative<'_>, delivery_limit: &mut u32, transfer_limit: &mut u32) {
    let [next_incoming, window] = [0, 1].map(|index| uint(flow.fields.field(index)).unwrap_or(0));
    *transfer_limit = next_incoming.wrapping_add(window);
    if let Some(credit) = uint(flow.fields.field(6)) {
        let count = uint(flow.fields.field(5)).unwrap_or(0);
        *delivery_limit = count.wrapping_add(credit);
    }
}

fn handle_outcome(disposition: &Performative<'_>, unsettled: &mut Unsettled, tally: &mut Tally) {
    let mut fields = disposition.fields.clone();
    let (receiver, first) = (truth(fields.next()), uint(fields.next()).unwrap_or(0));
    let (last, settled) = (uint(fields.next()).unwrap_or(first), truth(fields.next()));
    if !receiver || !settled {
        return;
    }
    let count = u64::from(last.wrapping_sub(first).wrapping_add(1));
    let due = unsettled.settle(first, count);
    if descriptor(fields.next()) == Some(code::ACCEPTED) {
        tally.confirmed += count;
        due.for_each(|due| tally.accept(due));
    } else {
        tally.refused += count;
    }
    tally.progress_nanos = tally.now_nanos;
}

/// Serial distance up to a limit that may lie behind. [AMQP 2.6.7, RFC 1982]
fn remaining(limit: u32, next: u32) -> u32 {
    let distance = limit.wrapping_sub(next);
    if distance > u32::MAX / 2 { 0 } else { distance }
}

/// Messages of a producer with a rate that have no outcome yet, in the order of their delivery-ids.
#[derive(Default)]
struct Unsettled {
    /// The delivery-id of the oldest.
    first: u32,
    /// When each was due; [`SETTLED`] for one that was settled out of order.
    due_nanos: VecDeque<u64>,
}

/// Replaces the time of a message that was settled.
const SETTLED: u64 = u64::MAX;

impl Unsettled {
    /// Removes `count` messages from the delivery-id `first` on; returns when they were due.
    fn settle(&mut self, first: u32, count: u64) -> impl Iterator<Item = u64> {
        let from = first.wrapping_sub(self.first) as usize;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let places = self.due_nanos.iter_mut().skip(from).take(count);
        let due: Vec<u64> = places
            .map(|due| std::mem::replace(due, SETTLED))
            .filter(|due| *due != SETTLED)
            .collect();
        while self.due_nanos.front() == Some(&SETTLED) {
            self.due_nanos.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        due.into_iter()
    }
}

/// When messages are due, and when those that wait for credit became due.
pub(super) struct SendRate {
    every_nanos: f64,
    next_nanos: f64,
    /// Due times of messages to send. A message that had to wait for credit keeps its time.
    waiting: VecDeque<u64>,
}

impl SendRate {
    /// `rate` messages a second; the first is due after `offset` of an interval.
    pub(super) fn new(rate: f64, offset: f64) -> Self {
        let every_nanos = 1e9 / rate;
        Self {
            every_nanos,
            next_nanos: every_nanos * offset,
            waiting: VecDeque::new(),
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nanoseconds of a run are positive and below 2^52"
    )]
    fn due_nanos(&self) -> u64 {
        self.next_nanos as u64
    }

    /// Adds due messages. The time is when a message was noticed to be due, so that a delay of the
    /// generator itself does not count as the broker's latency.
    fn tick(&mut self, now_nanos: u64) {
        while self.due_nanos() <= now_nanos {
            self.waiting.push_back(now_nanos);
            self.next_nanos += self.every_nanos;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_find_the_times_of_their_messages_in_any_order() {
        let mut unsettled = Unsettled {
            first: u32::MAX,
            due_nanos: VecDeque::from([10, 11, 12, 13]),
        };
        for (first, count, expected) in [
            (0, 2, &[11, 12][..]),
            (u32::MAX, 2, &[10]),
            (9, 1, &[]),
            (2, 1, &[13]),
        ] {
            let due: Vec<u64> = unsettled.settle(first, count).collect();
            assert_eq!(due, expected, "{first} {count}");
        }
        assert!(unsettled.due_nanos.is_empty());
    }
}
