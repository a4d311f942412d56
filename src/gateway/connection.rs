//! The gateway of one connection.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;

use super::consumer::SharedOutcome;
use super::describe::ConnectionInfo;
use super::dynamic::DynamicNode;
use super::environment::Environment;
use super::handshake::{Known, Login};
use super::links::{LinkId, LinkKind, Links, SentDeliveries};
use super::presettled::{Presettled, Written};
use super::renewal::Renewal;
use super::resumable::Departed;
use super::sasl::Sasl;
use super::stream::Streams;
use super::tags::Tags;
use super::transactions::Transactions;
use super::work::{Answered, Batch, Work};
use crate::access::{Peer, Proof};
use crate::base::limits::{
    ALLOCATOR_WASTE_PARTS, CONNECTION_OVERHEAD_BYTES, CONTROL_BYTES_MAX,
    SASL_TOKEN_FRAME_BYTES_MAX, STREAMING_HEAD_BYTES_MAX,
};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{
    ConnectionId, ConsumerId, Lsn, Map, Millis, Name, Now, Payer, Position, SessionId, uncount,
};
use crate::broker::{Command, Effect, QueueInfo};
use crate::link::{Connection, LinkHandle, SessionHandle};
use crate::message::Prefix;
use crate::wire::performative::Error;

/// Bytes taken by the link engine and not yet written, above which effects wait and no further
/// delivery is encoded.
const ENCODED_BYTES_MAX: u64 = 256 * 1024;

/// The gateway of one connection. Its methods are of four kinds: input (`handle_*`,
/// [`push_effects`]), work for the holder of the core's lock ([`batch`]), output
/// ([`poll_transmit`], [`next_deadline`]) and state questions.
///
/// A turn: `handle_bytes`, the batch applied until there is no work, `handle_answers`,
/// `handle_effects`, the same again while there is work, `poll_transmit`.
///
/// [`push_effects`]: Gateway::push_effects
/// [`batch`]: Gateway::batch
/// [`poll_transmit`]: Gateway::poll_transmit
/// [`next_deadline`]: Gateway::next_deadline
#[derive(Debug)]
pub struct Gateway {
    pub(super) id: ConnectionId,
    pub(super) peer: Peer,
    pub(super) environment: Arc<Environment>,
    pub(super) link: Connection,
    pub(super) sasl: Sasl,
    /// The user name that the peer gave, for the log.
    pub(super) sasl_user: Name,
    /// A password or a token that the owner of the gateway has to check.
    pub(super) login_due: Option<Proof>,
    /// Who waits for the verdict on a token that is to take the place of another.
    pub(super) renewal: Option<Renewal>,
    /// The authenticated user, until `open` names the vhost.
    pub(super) known: Option<Known>,
    pub(super) login: Option<Login>,
    /// The peer's container-id, empty before `open`.
    pub(super) container: Name,
    /// The SASL mechanism of the login.
    pub(super) mechanism: Name,
    /// The description of the connection, once it is open.
    pub(super) info: Option<Box<ConnectionInfo>>,
    pub(super) vhost: Option<Name>,
    /// When the peer is told that its login was refused.
    pub(super) refusal_due: Option<Millis>,
    pub(super) links: Links,
    /// The temporary queues of links with a dynamic source or target.
    pub(super) dynamic: Map<LinkHandle, DynamicNode>,
    pub(super) sent: SentDeliveries,
    /// The delivery-tags of messages whose sender may have to be told which one leads nowhere.
    pub(super) tags: Tags,
    /// Deliveries that consumers held for too long, while effects are handled.
    pub(super) timed_out: BTreeSet<(ConsumerId, Position)>,
    /// The last outcome with an error, while the events of one read are handled: deliveries settled
    /// by the same disposition share the evidence.
    pub(super) last_outcome: Option<SharedOutcome>,
    pub(super) presettled: Presettled,
    /// Transactions that are not committed; none before the first.
    pub(super) transactions: Option<Box<Transactions>>,
    pub(super) sessions: Map<SessionHandle, SessionId>,
    /// Links that outlive the connection and that it had attached, as far as they still concern it.
    pub(super) departed: Vec<Departed>,
    /// Work for the core, and the core's replies.
    pub(super) batch: Batch,
    /// Answers held back until their record is durable, in the order of LSNs.
    pub(super) waiting: VecDeque<(Lsn, AwaitedAnswer)>,
    /// Bytes of management answers in `waiting`.
    pub(super) answers_bytes: u64,
    /// Memory of the gateway, its names and the peer's `open`, in bytes.
    pub(super) own_bytes: u64,
    /// The last durable LSN that the gateway was told.
    pub(super) durable: Lsn,
    /// Whether an alarm is in effect, so that publishers get no credit.
    pub(super) alarm: bool,
    /// Whether memory is nearly used up: publishers get no more credit, and keep what they have.
    pub(super) crowded: bool,
    /// Flow control in bytes since open: deliveries that were handled, and the limit that the core
    /// was told.
    pub(super) taken_bytes: u64,
    room_told_bytes: u64,
    /// Streamed pieces that are not durable yet: LSN and bytes.
    pub(super) unwritten: VecDeque<(Lsn, u64)>,
    /// Messages that are read back from the journal while they are sent.
    pub(super) streams: Streams,
    /// Management links whose credit is held back until the peer reads its answers.
    pub(super) starved: Vec<LinkHandle>,
    /// Header and annotations of the delivery being sent, kept for its allocation.
    pub(super) prefix: Prefix,
    /// Whether the core was told that the connection is closed.
    pub(super) closed: bool,
    /// Whether the core failed: there is no more work for it.
    pub(super) failed: bool,
}

/// An answer that is held back until its record is durable.
#[derive(Debug)]
pub(super) enum AwaitedAnswer {
    /// The outcome of a publish or a settlement.
    Effect(Effect),
    /// A management answer, and the link to send it on.
    Response(LinkId, Vec<u8>),
    /// The answer to the attach of a subscriber: its link, whether its subscription was made, and what it is.
    Subscribed(LinkId, bool, Box<QueueInfo>),
    /// The answer to a detach that ended a subscription.
    Unsubscribed(LinkHandle),
}

/// Construction.
impl Gateway {
    /// The gateway of a new connection.
    pub fn new(now: Now, id: ConnectionId, peer: Peer, environment: Arc<Environment>) -> Self {
        let mut options = environment.options.link.clone();
        options.idle_time_out_ms = environment.idle_time_out_ms();
        let offered = environment.options.mechanisms.offered(&peer).into_iter();
        options.mechanisms = offered.map(|mechanism| mechanism.to_string()).collect();
        if environment.options.mechanisms.takes_tokens {
            options.sasl_frame_bytes_max = SASL_TOKEN_FRAME_BYTES_MAX;
        }
        if environment.bodies.is_some() {
            options.part_bytes = STREAMING_HEAD_BYTES_MAX as u64;
        }
        options.allow_plain_amqp |= peer.is_embedder;
        options.owner_echoes = true;
        let known = peer.is_embedder.then(Known::embedder);
        let link = Connection::server(now, options);
        let seed = environment.options.seed;
        Self {
            id,
            peer,
            link,
            sasl: Sasl::default(),
            sasl_user: Name::default(),
            login_due: None,
            renewal: None,
            known,
            login: None,
            container: Name::default(),
            mechanism: Name::default(),
            info: None,
            vhost: None,
            refusal_due: None,
            links: Links::new(seed),
            dynamic: Map::with_hasher(seed.hasher()),
            sent: SentDeliveries::default(),
            tags: Tags::default(),
            timed_out: BTreeSet::new(),
            last_outcome: None,
            presettled: Presettled::default(),
            transactions: None,
            sessions: Map::with_hasher(seed.hasher()),
            departed: Vec::new(),
            batch: Batch::new(id),
            waiting: VecDeque::new(),
            answers_bytes: 0,
            own_bytes: CONNECTION_OVERHEAD_BYTES,
            durable: Lsn(0),
            alarm: false,
            crowded: false,
            taken_bytes: 0,
            room_told_bytes: environment.options.outbox_bytes,
            unwritten: VecDeque::new(),
            streams: Streams::default(),
            starved: Vec::new(),
            prefix: Prefix::default(),
            closed: false,
            failed: false,
            environment,
        }
    }
}

/// Input.
impl Gateway {
    /// Handles the complete frames at the front of `input`; the rest stays for the next call.
    pub fn handle_bytes(&mut self, now: Now, input: &mut BytesMut) {
        loop {
            let before = input.len();
            self.link.handle_bytes(now, input);
            self.handle_events(now);
            // An answer to an event may have unblocked the reading of further frames.
            if input.is_empty() || input.len() == before || !self.link.wants_input() {
                return;
            }
        }
    }

    /// Handles the timers that are due.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.refusal_due.is_some_and(|due| due <= now.mono) {
            self.refuse_login();
        }
        self.end_with_token(now);
        self.end_late_transactions(now);
        self.link.handle_timeout(now);
        self.handle_events(now);
    }

    /// Notes that bytes may have arrived that are not read for now: the peer does not count as
    /// silent.
    pub fn note_unread(&mut self, now: Now) {
        self.link.note_unread(now);
    }

    /// Takes effects from the core, in order. [`Gateway::handle_effects`] handles them.
    pub fn push_effects(&mut self, effects: &mut VecDeque<Effect>) {
        self.batch.push_effects(effects);
    }

    /// Handles the core's replies.
    pub fn handle_answers(&mut self, now: Now) {
        for answered in std::mem::take(&mut self.batch.answered) {
            match answered {
                Answered::Reply(ask, reply) => self.on_reply(ask, reply),
                Answered::Managed(response, outcome) => self.on_managed(response, outcome),
                Answered::Made(queue, made) => self.audit_made(&queue, made),
            }
        }
        self.handle_events(now);
    }

    /// Handles effects while there is room for the bytes they send. `durable` is the last durable
    /// LSN, `unwritten_bytes` the bytes that the driver has not written yet.
    pub fn handle_effects(&mut self, now: Now, durable: Lsn, unwritten_bytes: u64) {
        self.durable = durable;
        if unwritten_bytes == 0 {
            self.settle_handed();
        }
        while self
            .unwritten
            .pop_front_if(|(lsn, _)| *lsn <= durable)
            .is_some()
        {}
        while let Some((lsn, _)) = self.waiting.front()
            && *lsn <= durable
        {
            match self.waiting.pop_front() {
                Some((_, AwaitedAnswer::Effect(effect))) => self.on_outcome(effect),
                Some((_, AwaitedAnswer::Response(link, bare))) => {
                    uncount!(
                        self.answers_bytes,
                        bare.len() as u64,
                        "an answer that waits was counted"
                    );
                    self.send_response(link, &bare);
                }
                Some((_, AwaitedAnswer::Subscribed(link, created, info))) => {
                    self.accept_subscriber(link, created, *info);
                }
                Some((_, AwaitedAnswer::Unsubscribed(handle))) => self.link.answer_close(handle),
                None => break,
            }
        }
        self.handle_next_effects(unwritten_bytes);
        if self.may_ask(unwritten_bytes) {
            for handle in std::mem::take(&mut self.starved) {
                self.give_request_credit(handle);
            }
        }
        self.handle_events(now);
    }

    /// Handles effects in order. Most are deliveries, which are read in place.
    fn handle_next_effects(&mut self, unwritten_bytes: u64) {
        let mut effects = std::mem::take(&mut self.batch.effects);
        while self.can_encode(unwritten_bytes)
            && let Some(next) = effects.front()
        {
            if let Effect::Deliver(delivery) = next {
                self.on_deliver(delivery);
                effects.pop_front();
            } else if awaited(next).is_some_and(|lsn| lsn > self.durable) {
                break; // what follows is handled behind it
            } else if let Some(effect) = effects.pop_front() {
                self.on_effect(effect, &mut effects);
            }
        }
        self.batch.effects = effects;
        if !self.timed_out.is_empty() {
            self.tell_timed_out();
        }
    }

    /// Whether few enough bytes wait to be written that more may be encoded.
    pub(super) fn can_encode(&self, unwritten_bytes: u64) -> bool {
        self.link.bytes_pending() + unwritten_bytes < ENCODED_BYTES_MAX
    }

    /// Whether the peer may send more management requests: it reads its answers, and few bytes of
    /// them wait for the journal.
    pub(super) fn may_ask(&self, unwritten_bytes: u64) -> bool {
        self.can_encode(unwritten_bytes) && self.answers_bytes < CONTROL_BYTES_MAX as u64
    }

    /// Handles the loss of the socket; `written` is the part of the last output that was written to
    /// it.
    pub fn handle_disconnect(&mut self, now: Now, written: Written) {
        self.undo_presettled(written);
        for unfinished in self.link.unfinished() {
            self.on_unfinished(&unfinished);
        }
        self.on_closed(now.mono);
    }

    /// Closes the connection, with an error or without. [AMQP 2.4.6]
    pub fn close(&mut self, now: Now, error: Option<Error>) {
        self.link.close(now, error);
        self.handle_events(now);
    }

    /// Ends the connection because the core failed: nothing more is confirmed.
    pub fn fail(&mut self, now: Now) {
        self.end(now, super::errors::internal("the vhost failed"));
    }

    /// Ends the connection because its vhost was deleted: nothing more is confirmed.
    pub fn handle_vhost_deleted(&mut self, now: Now) {
        let vhost = self.vhost.as_ref();
        let what = format!("vhost '{}' was deleted", vhost.map_or("", Name::as_str));
        self.end(now, super::errors::forced(what));
    }

    fn end(&mut self, now: Now, error: Error) {
        self.failed = true;
        self.forget_work();
        self.forget_transactions();
        self.batch.effects.clear();
        self.waiting.clear();
        self.answers_bytes = 0;
        self.close(now, Some(error));
    }
}

/// Output.
impl Gateway {
    /// Appends frames to `out`; returns whether there were any. To be called when all earlier
    /// output is written.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let any = self.link.poll_transmit(now, out);
        self.hand_presettled();
        any
    }

    /// When [`Gateway::handle_timeout`] is to be called next; none: not before further input.
    pub fn next_deadline(&self) -> Option<Millis> {
        let others = [
            self.refusal_due,
            self.transaction_deadline(),
            self.token_deadline(),
        ];
        [self.link.next_deadline()]
            .into_iter()
            .chain(others)
            .flatten()
            .min()
    }

    /// Tells the core the new limit of bytes once it has grown enough: bytes taken and written,
    /// plus the bound. To be called after writing.
    pub fn report_room(&mut self, unwritten_bytes: u64) {
        #[cfg(test)]
        if is_planted(Plant::RoomNotGivenBack) {
            return;
        }
        let bound = self.environment.options.outbox_bytes;
        let pending = (self.link.bytes_pending() + unwritten_bytes).min(bound);
        let done_bytes = self.taken_bytes + self.batch.returned_bytes;
        let limit_bytes = done_bytes + bound - pending;
        if self.vhost.is_some() && !self.closed && limit_bytes >= self.room_told_bytes + bound / 2 {
            self.room_told_bytes = limit_bytes;
            let connection = self.id;
            self.batch.push(Work::Command(Command::ConnectionRoom {
                connection,
                limit_bytes,
            }));
        }
    }
}

/// State questions.
impl Gateway {
    /// The connection's id.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The vhost that the connection is in; none before `open`.
    pub fn vhost(&self) -> Option<&Name> {
        self.vhost.as_ref()
    }

    /// The authenticated user; none before `open`.
    pub fn user(&self) -> Option<&Name> {
        self.login.as_ref().map(|login| &login.user)
    }

    /// Who pays for what it takes; none before `open`.
    pub fn payer(&self) -> Option<Payer> {
        let login = self.login.as_ref();
        login.map(|login| (login.user.clone(), login.has_token()))
    }

    /// Whether the driver should read more bytes.
    pub fn wants_input(&self) -> bool {
        self.link.wants_input()
    }

    /// Size of the frame that begins in `input`, in bytes, if its header is there.
    pub fn frame_bytes(&self, input: &[u8]) -> Option<usize> {
        self.link.frame_bytes(input)
    }

    /// Whether either side has closed it: only the close remains to be sent.
    pub fn is_closing(&self) -> bool {
        self.link.is_closing()
    }

    /// Whether the connection ends once everything is written.
    pub fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    /// Whether it has consumers.
    pub fn is_consuming(&self) -> bool {
        self.links
            .iter()
            .any(|link| matches!(link.kind, LinkKind::Consumer(_)))
    }

    /// The record that is waited for: by the first answer or delivery held back, or because too much
    /// was streamed.
    pub fn awaits(&self) -> Option<Lsn> {
        let answer = self.waiting.front().map(|(lsn, _)| *lsn);
        let delivery = self.batch.effects.front().and_then(awaited);
        let delivery = delivery.filter(|lsn| *lsn > self.durable);
        let piece = self.unwritten.front().map(|(lsn, _)| *lsn);
        let piece = piece.filter(|_| self.is_streaming_beyond_disk());
        answer.into_iter().chain(delivery).chain(piece).min()
    }

    /// Bytes of incomplete incoming messages.
    pub fn partial_bytes(&self) -> u64 {
        self.link.partial_bytes()
    }

    /// Memory of the connection, in bytes: the gateway, names, links, incomplete messages,
    /// unsettled deliveries, answers held back and output; without messages, which are counted in
    /// their queues.
    pub fn kept_bytes(&self) -> u64 {
        let tables = self.sent.table_bytes()
            + self.tags.table_bytes()
            + self.batch.effects.capacity() * size_of::<Effect>()
            + self.waiting.capacity() * size_of::<(Lsn, AwaitedAnswer)>();
        let partial_bytes = self.link.partial_bytes();
        partial_bytes
            + partial_bytes / ALLOCATOR_WASTE_PARTS
            + self.link.staged_bytes()
            + self.link.tables_bytes()
            + self.links.kept_bytes()
            + self.own_bytes
            + self.answers_bytes
            + self.transactions_bytes()
            + tables as u64
    }

    /// Gives up incomplete messages, the largest first, until `left_bytes` of them are left: their
    /// links are detached with this error.
    pub fn give_up_partials(&mut self, now: Now, left_bytes: u64, error: &Error) {
        while self.link.partial_bytes() > left_bytes {
            let before = self.link.partial_bytes();
            if let Some(link) = self.link.largest_partial() {
                self.link.detach(link, true, Some(error.clone()));
            }
            if self.link.partial_bytes() >= before {
                return self.close(now, Some(error.clone()));
            }
        }
        self.handle_events(now);
    }
}

/// The record without which a delivery is not sent, nor anything that follows it.
fn awaited(effect: &Effect) -> Option<Lsn> {
    #[cfg(test)]
    if is_planted(Plant::SentBeforeAcquired) {
        return None;
    }
    matches!(effect, Effect::DeliverDurably { .. }).then(|| effect.awaits())
}
