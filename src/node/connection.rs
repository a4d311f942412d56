//! One connection of a node: its input, its output, and what it waits for.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

use super::node::Node;
use super::outbox::Outbox;
use super::partials::{self, Permit};
use super::vhost::{RunOutcome, Vhost};
use crate::access::{LoginError, Peer, Proof, Proven};
use crate::base::limits::{HELD_UP_MS_MAX, PARTIAL_FREE_BYTES};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Charge, ConnectionId, Lsn, Millis, Now};
use crate::gateway::{Fetch, Gateway, Written};
use crate::store::Disk;
use crate::wire::performative::{AmqpError, Error, error};

/// Capacity above which a write buffer that a burst enlarged is freed, in bytes.
const WRITE_BYTES_KEPT: usize = 256 * 1024;
/// How long not to look whether the journal has caught up, or an alarm lets in what arrives, when nobody
/// says so, in milliseconds.
const JOURNAL_LOOK_MS: u64 = 50;

/// Bytes to be written to the peer.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    written: usize,
}

impl Output {
    /// The bytes that are not written yet.
    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Notes that `count` more bytes were written.
    pub(crate) fn advance(&mut self, count: usize) {
        self.written = (self.written + count).min(self.bytes.len());
    }

    /// Number of bytes that are not written yet.
    pub(crate) const fn unwritten(&self) -> u64 {
        (self.bytes.len() - self.written) as u64
    }

    /// How much of the last output is written.
    const fn state(&self) -> Written {
        match (self.written, self.unwritten()) {
            (_, 0) => Written::All,
            (0, _) => Written::Nothing,
            _ => Written::Part,
        }
    }

    /// Capacity of the buffer, in bytes.
    pub(crate) const fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Frees the buffer, if all is written.
    pub(crate) fn release(&mut self) {
        if self.unwritten() == 0 {
            *self = Self::default();
        }
    }

    /// Clears the buffer. To be called when all is written.
    fn clear(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        self.bytes.shrink_to(WRITE_BYTES_KEPT);
        self.written = 0;
        &mut self.bytes
    }
}

/// One connection. Its owner moves the bytes: it calls [`turn`](Connection::turn) with those
/// received and writes the output, until [`is_over`](Connection::is_over); then it calls
/// [`disconnect`](Connection::disconnect).
#[derive(Debug)]
pub(crate) struct Connection<D: Disk> {
    node: Arc<Node<D>>,
    gateway: Gateway,
    outbox: Arc<Outbox>,
    vhost: Option<Arc<Vhost<D>>>,
    /// Whether it is being closed.
    closing: bool,
    /// The LSN whose durability wakes it.
    awaited: Lsn,
    /// Whether reading is paused because too much waits for the journal.
    waits_for_journal: bool,
    /// The LSN whose commit wakes it while `waits_for_journal`.
    awaited_commit: Lsn,
    /// A piece of a message to read back, once the piece is written.
    fetch: Option<Fetch>,
    /// Whether such a piece is being read.
    is_reading: bool,
    /// The permit to hold more than a little of incomplete messages, and until when it may be kept.
    permit: Option<(Permit, Millis)>,
    /// When it is looked at whether unfinished messages go on that are too small for a permit; none:
    /// there is no need.
    watched_until: Option<Millis>,
    /// Bytes of a frame that has begun to arrive.
    begun_bytes: u64,
    /// Since when an alarm holds up a message that has begun to arrive.
    held_up_since: Option<Millis>,
    /// Whether the last hold of the core's lock used up its time, and there is more to do.
    is_heavy: bool,
    /// Bytes that arrived so far, and that number when the permit was checked last.
    arrived_bytes: u64,
    arrived_before: u64,
    /// Bytes that were unwritten after the last turn.
    unwritten_before: u64,
    /// The charge for its memory, for the alarms.
    kept: Charge,
}

impl<D: Disk> Connection<D> {
    /// A new connection of a node.
    pub(crate) fn new(
        node: &Arc<Node<D>>,
        id: ConnectionId,
        peer: Peer,
        outbox: Arc<Outbox>,
    ) -> Self {
        let environment = Arc::clone(&node.environment);
        let kept = node.alarms.connections().charge(0);
        Self {
            gateway: Gateway::new(node.clock.now(), id, peer, environment),
            node: Arc::clone(node),
            outbox,
            vhost: None,
            closing: false,
            awaited: Lsn(0),
            waits_for_journal: false,
            awaited_commit: Lsn(0),
            fetch: None,
            is_reading: false,
            permit: None,
            watched_until: None,
            begun_bytes: 0,
            held_up_since: None,
            is_heavy: false,
            arrived_bytes: 0,
            arrived_before: 0,
            unwritten_before: 0,
            kept,
        }
    }

    /// Whether its last turn ended before all was done: it has another turn, after those of other
    /// connections and before anything more is read.
    pub(crate) const fn is_heavy(&self) -> bool {
        self.is_heavy
    }

    /// Its gateway, for state questions.
    pub(crate) const fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Whether it is closed and everything is written.
    pub(crate) fn is_over(&self, output: &Output) -> bool {
        output.unwritten() == 0 && self.gateway.is_closed()
    }

    /// Ready when there are effects for it.
    pub(crate) fn poll_woken(&self, context: &mut Context<'_>) -> Poll<()> {
        self.outbox.poll_ready(context)
    }

    /// Closes it with an error from the broker's side, once.
    pub(crate) fn close(&mut self, now: Now, error: Error) {
        if !self.closing {
            self.closing = true;
            self.gateway.close(now, Some(error));
        }
    }

    /// Handles the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Now) {
        let lacks_permit = self.permit.is_none() && self.needs_permit();
        if lacks_permit || self.waits_for_disk() || self.waits_for_journal {
            self.gateway.note_unread(now);
        }
        if self.permit.is_none() && !lacks_permit {
            // The message that it waited for may have been given up.
            self.node.partials.forget(self.gateway.id());
        }
        if let Some((_, until)) = &mut self.permit
            && *until <= now.mono
        {
            *until = now.mono.plus(partials::KEEP_MS);
            let arrived_bytes = self.arrived_bytes - self.arrived_before;
            self.arrived_before = self.arrived_bytes;
            let is_read = !self.waits_for_disk() && !self.waits_for_journal;
            let is_idle = is_read && arrived_bytes < partials::KEEP_BYTES;
            let permit = self.permit.as_ref();
            if is_idle && permit.is_some_and(|(permit, _)| self.node.partials.is_short(permit)) {
                let left_bytes = PARTIAL_FREE_BYTES;
                self.gateway
                    .give_up_partials(now, left_bytes, &unfinished_message());
                if self.gateway.is_streaming_in_alarm() {
                    self.gateway.end_streaming(now, &unfinished_message());
                }
                self.permit = None;
            }
        }
        if self.watched_until.is_some_and(|until| until <= now.mono) {
            self.watched_until = None;
            self.give_up_unfinished(now);
        }
        self.give_up_held_up(now);
        self.gateway.handle_timeout(now);
    }

    /// Gives up unfinished messages and frames that do not go on, if nothing else keeps an alarm up: many
    /// peers with a little each would keep it up for good.
    fn give_up_unfinished(&mut self, now: Now) {
        let arrived_bytes = self.arrived_bytes + self.begun_bytes - self.arrived_before;
        let is_read = !self.needs_permit() && self.gateway.wants_input();
        if arrived_bytes >= partials::KEEP_BYTES || !is_read || !self.node.partials.is_one_by_one()
        {
            return;
        }
        if self.begun_bytes > partials::KEEP_FREE_BYTES {
            self.close(now, unfinished_message());
        } else {
            self.gateway.give_up_partials(now, 0, &unfinished_message());
        }
    }

    /// Notes what has begun to arrive. In an alarm it is looked at again soon, unless there is a permit
    /// for it, of which the same is asked.
    fn watch_unfinished(&mut self, now: Now, begun_bytes: usize) {
        self.begun_bytes = begun_bytes as u64;
        let held_bytes = self.begun_bytes + self.gateway.partial_bytes();
        if held_bytes <= partials::KEEP_FREE_BYTES
            || !self.gateway.is_in_alarm()
            || self.permit.is_some()
        {
            self.watched_until = None;
        } else if self.watched_until.is_none() {
            self.watched_until = Some(now.mono.plus(partials::KEEP_MS));
            self.arrived_before = self.arrived_bytes + self.begun_bytes;
        }
    }

    /// Gives up what an alarm has held up for too long.
    fn give_up_held_up(&mut self, now: Now) {
        self.note_held_up(now);
        let due = self.held_up_since.map(|since| since.plus(HELD_UP_MS_MAX));
        if due.is_some_and(|due| due <= now.mono) {
            self.held_up_since = None;
            self.gateway
                .give_up_partials(now, PARTIAL_FREE_BYTES, &held_up_message());
            if self.gateway.is_streaming_in_alarm() {
                self.gateway.end_streaming(now, &held_up_message());
            }
        }
    }

    /// Notes since when an alarm keeps it from being read in the middle of a message: not for ever, since its
    /// peer may have sent what ends the alarm, such as its consumers, behind that message.
    fn note_held_up(&mut self, now: Now) {
        let is_held_up = self.gateway.is_in_alarm()
            && (self.waits_for_disk() || self.permit.is_none() && self.needs_permit());
        if !is_held_up {
            self.held_up_since = None;
        } else if self.held_up_since.is_none() {
            self.held_up_since = Some(now.mono);
        }
    }

    /// When [`Connection::handle_timeout`] is to be called next.
    pub(crate) fn next_deadline(&self) -> Millis {
        let due = self.gateway.next_deadline().unwrap_or(Millis::NEVER);
        let permit = self.permit.as_ref();
        let due = permit.map_or(due, |(_, until)| due.min(*until));
        let due = self.watched_until.map_or(due, |until| due.min(until));
        let held_up = self.held_up_since.map(|since| since.plus(HELD_UP_MS_MAX));
        let due = due.min(held_up.unwrap_or(Millis::NEVER));
        if self.waits_for_journal || self.gateway.is_streaming_in_alarm() {
            due.min(self.node.clock.now().mono.plus(JOURNAL_LOOK_MS))
        } else {
            due
        }
    }

    /// Handles the input in gateway and core, and collects the output.
    pub(crate) fn turn(&mut self, input: &mut BytesMut, output: &mut Output) {
        let now = self.node.clock.now();
        self.handle(now, input, output.unwritten());
        if output.unwritten() == 0 {
            self.gateway.poll_transmit(now, output.clear());
        }
        if !self.is_reading {
            self.fetch = self.fetch.take().or_else(|| self.gateway.poll_fetch());
        }
        self.wait_for_durable();
        self.wait_for_journal();
        self.note_held_up(now);
        self.unwritten_before = output.unwritten();
        self.watch_unfinished(now, input.len());
        self.count_kept(input, output);
    }

    /// Handles what had come when the peer was gone. No frames are gathered for it any more: what its
    /// consumers were given meanwhile goes to others, and where many peers go at once each would encode it in
    /// turn, if it is large.
    pub(crate) fn last_turn(&mut self, input: &mut BytesMut, output: &Output) {
        self.handle(self.node.clock.now(), input, output.unwritten());
    }

    /// Handles the input in gateway and core, which tells what came of it, until neither has more to do.
    fn handle(&mut self, now: Now, input: &mut BytesMut, unwritten: u64) {
        self.gateway.handle_registry(now);
        self.gateway
            .set_crowded(self.node.pager.is_crowded(&self.outbox));
        if unwritten < self.unwritten_before && !self.gateway.wants_input() {
            self.gateway.note_unread(now); // it reads, and lets us read by that
        }
        let before = input.len();
        if !input.is_empty() {
            self.gateway.handle_bytes(now, input);
        }
        self.arrived_bytes += before.saturating_sub(input.len()) as u64;
        loop {
            self.work();
            self.outbox
                .drain(|effects| self.gateway.push_effects(effects));
            self.gateway.handle_effects(now, self.durable(), unwritten);
            self.gateway.report_room(unwritten);
            if !self.gateway.has_work() || self.is_heavy {
                break;
            }
        }
        // An answer may have unblocked the engine's reading.
        if !input.is_empty() && self.gateway.wants_input() && !self.is_heavy {
            self.gateway.handle_bytes(now, input);
            self.work();
        }
    }

    /// Counts what the connection takes beside messages, with these buffers.
    pub(crate) fn count_kept(&mut self, input: &BytesMut, output: &Output) {
        let buffers = input.capacity() + output.capacity();
        self.kept.set(self.gateway.kept_bytes() + buffers as u64);
    }

    /// The password or token of a login to be checked; the verdict goes to [`Connection::handle_login`].
    pub(crate) fn poll_login(&mut self) -> Option<Proof> {
        self.gateway.poll_login()
    }

    /// Handles the verdict on a password or a token.
    pub(crate) fn handle_login(&mut self, now: Now, verdict: Result<Proven, LoginError>) {
        self.gateway.handle_login(now, verdict);
    }

    /// A piece of a message to be read, once it is written to the disk. The result goes to
    /// [`Connection::handle_fetched`]; until then there is no other.
    pub(crate) fn poll_fetch(&mut self) -> Option<Fetch> {
        if self.is_reading {
            return None;
        }
        let durable = self.durable();
        let fetch = self.fetch.take_if(|fetch| *fetch.body <= durable)?;
        self.is_reading = true;
        Some(fetch)
    }

    /// Handles a piece that was read; none: it could not be read.
    pub(crate) fn handle_fetched(&mut self, now: Now, stream: u64, piece: Option<Bytes>) {
        self.is_reading = false;
        self.gateway.handle_fetched(now, stream, piece);
    }

    /// Whether bytes should be read: not until there is a permit for the message that has begun to
    /// arrive.
    pub(crate) fn wants_input(&mut self) -> bool {
        if self.waits_for_disk() || self.waits_for_journal {
            return false;
        }
        if !self.needs_permit() {
            self.permit = None;
        } else if self.permit.is_none() {
            let (node, id) = (&self.node, self.gateway.id());
            let user = self.gateway.payer().unwrap_or_default();
            let consumes = self.gateway.is_consuming();
            let permit = node.partials.take((id, &user), &self.outbox, consumes);
            let until = node.clock.now().mono.plus(partials::KEEP_MS);
            self.permit = permit.map(|permit| (permit, until));
            return self.permit.is_some() && self.gateway.wants_input();
        }
        self.gateway.wants_input()
    }

    /// Begins to requeue the deliveries of the connection, since its peer is gone;
    /// [`Connection::go_on_leaving`] does the rest.
    pub(crate) fn disconnect(&mut self, output: &Output) {
        let now = self.node.clock.now();
        self.gateway.handle_disconnect(now, output.state());
    }

    /// Does a slice of the work of leaving; returns whether there is more.
    pub(crate) fn go_on_leaving(&mut self) -> bool {
        #[cfg(test)]
        if is_planted(Plant::GoodbyeLost) {
            return false;
        }
        self.work();
        if self.is_heavy {
            return true;
        }
        self.outbox
            .drain(|effects| self.gateway.push_effects(effects));
        self.gateway.keep_outcomes();
        if self.gateway.has_work() {
            return true;
        }
        if let Some(vhost) = self.vhost.take() {
            vhost.disconnect(self.gateway.id());
        }
        false
    }

    /// Does the gateway's work under the core's lock and passes it the results, until all is done
    /// or a hold has used up its time.
    fn work(&mut self) {
        self.is_heavy = false;
        while self.gateway.has_work() {
            if self.vhost.is_none() {
                self.enter();
            }
            let now = self.node.clock.now();
            let Some(vhost) = &self.vhost else {
                self.gateway.handle_vhost_deleted(now);
                return;
            };
            let run_outcome = vhost.run(self.gateway.batch(), &self.outbox);
            if run_outcome.is_err() {
                if vhost.is_deleted() {
                    self.gateway.handle_vhost_deleted(now);
                } else {
                    self.gateway.fail(now);
                }
                self.closing = true;
                self.vhost = None;
                return;
            }
            let now = self.node.clock.now();
            self.gateway.handle_answers(now);
            if run_outcome == Ok(RunOutcome::OutOfTime) {
                self.is_heavy = self.gateway.has_work();
                return;
            }
        }
    }

    fn enter(&mut self) {
        let name = self.gateway.vhost();
        self.vhost = name.and_then(|name| self.node.vhosts.get(name));
        if let Some(vhost) = &self.vhost {
            vhost.enter(self.gateway.id(), Arc::clone(&self.outbox));
        }
    }

    /// The last durable LSN of its vhost's journal.
    fn durable(&self) -> Lsn {
        #[cfg(test)]
        if is_planted(Plant::WakeBeforeDurable) {
            return Lsn(u64::MAX);
        }
        self.vhost.as_ref().map_or(Lsn(0), |vhost| vhost.durable())
    }

    /// Registers to be woken when the first answer held back, or a piece to be read, is durable.
    fn wait_for_durable(&mut self) {
        let durable = self.durable();
        let fetch = self.fetch.as_ref().map(|fetch| *fetch.body);
        // A durable piece is read at once.
        let fetch = fetch.filter(|body| *body > durable);
        if let Some(vhost) = &self.vhost
            && let Some(lsn) = self.gateway.awaits().into_iter().chain(fetch).min()
            && lsn != self.awaited
        {
            self.awaited = lsn;
            vhost.wake_when_durable(lsn, &self.outbox);
        }
    }

    /// Notes whether so much waits for the disk that reading should pause, and registers to be
    /// woken by the next commit.
    fn wait_for_journal(&mut self) {
        let gateway = &self.gateway;
        let is_behind = self.node.pager.is_journal_behind(|| gateway.is_consuming());
        if is_behind && let Some(store) = &self.node.store {
            self.awaited_commit = store.wake_after_commit(self.awaited_commit, &self.outbox);
        }
        self.waits_for_journal = is_behind;
    }

    /// Whether it is read on only with a permit: it holds more than a little of unfinished messages, or
    /// streams some in an alarm that nothing else keeps up.
    fn needs_permit(&self) -> bool {
        self.gateway.partial_bytes() > PARTIAL_FREE_BYTES
            || (self.gateway.is_streaming_in_alarm() && self.node.partials.is_one_by_one())
    }

    /// What its reading may wait for, for the report of a simulation.
    #[cfg(test)]
    pub(crate) fn why_unread(&self) -> String {
        format!(
            "waits for the disk {}, for the journal {}, wants input {}, needs a permit {}, has one {}, is held up {:?} in an \
             alarm {}, {} bytes of unfinished messages",
            self.waits_for_disk(),
            self.waits_for_journal,
            self.gateway.wants_input(),
            self.needs_permit(),
            self.permit.is_some(),
            self.held_up_since,
            self.gateway.is_in_alarm(),
            self.gateway.partial_bytes(),
        )
    }

    /// Whether what arrives is streamed faster than the disk takes it, or in an alarm that what waits keeps
    /// up. Not while there are consumers: what they settle makes room.
    fn waits_for_disk(&self) -> bool {
        let is_stopped =
            || self.gateway.is_streaming_in_alarm() && !self.node.partials.is_one_by_one();
        (self.gateway.is_streaming_beyond_disk() || is_stopped()) && !self.gateway.is_consuming()
    }
}

/// The error for a peer that blocks others with a message, or frame, that it does not finish.
/// The error for a peer whose message an alarm has held up for too long.
fn held_up_message() -> Error {
    error(
        AmqpError::ResourceLimitExceeded,
        "an alarm of memory, disk or journal has held up a large message for 60 s; send it again when it is over",
    )
}

/// The error for a peer that blocks others with a message that it does not finish.
fn unfinished_message() -> Error {
    error(
        AmqpError::ResourceLimitExceeded,
        "a large message took too long to arrive while others wait to send theirs",
    )
}
