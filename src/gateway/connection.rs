//! The gateway of one connection.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;

use super::environment::Environment;
use super::handshake::{Known, Login};
use super::links::{Kind, Links, Sent};
use super::work::{Answered, Ask, Leaving, Work};
use crate::access::{Peer, Right};
use crate::base::{ConnectionId, Lsn, Map, Millis, Name, Now, SessionId};
use crate::broker::{Command, Effect};
use crate::link::{Connection, Event, LinkHandle, SessionHandle};
use crate::wire::performative::Error;

/// Bytes taken by the link engine and not yet written, above which deliveries stay handles.
const ENCODED_BYTES_MAX: u64 = 256 * 1024;

/// The gateway of one connection. Methods are of four kinds: input (`handle_*`, [`push_effects`]),
/// work under the core's lock ([`run`]), output ([`poll_transmit`], [`next_deadline`]) and state
/// questions.
///
/// A turn: `handle_bytes`, `run` until there is no work, `handle_answers`, `handle_effects`, the
/// same again while there is work, `poll_transmit`.
///
/// [`push_effects`]: Gateway::push_effects
/// [`run`]: Gateway::run
/// [`poll_transmit`]: Gateway::poll_transmit
/// [`next_deadline`]: Gateway::next_deadline
#[derive(Debug)]
pub struct Gateway {
    pub(super) id: ConnectionId,
    pub(super) peer: Peer,
    pub(super) environment: Arc<Environment>,
    pub(super) link: Connection,
    /// Who logged in, until `open`.
    pub(super) known: Option<Known>,
    pub(super) login: Option<Login>,
    /// The peer's container-id.
    pub(super) container: Name,
    pub(super) vhost: Option<Name>,
    /// When a refused login is told so.
    pub(super) refusal_due: Option<Millis>,
    pub(super) links: Links,
    pub(super) sent: Sent,
    pub(super) sessions: Map<SessionHandle, SessionId>,
    pub(super) work: VecDeque<Work>,
    pub(super) answered: Vec<Answered>,
    /// From the core, in order, not handled yet.
    pub(super) effects: VecDeque<Effect>,
    /// Answers that wait until their record is durable, in the order of LSNs.
    pub(super) waiting: VecDeque<(Lsn, Waiting)>,
    /// What is durable, as far as we know.
    pub(super) durable: Lsn,
    /// No credit for publishers.
    pub(super) alarm: bool,
    /// Room, in bytes since open: deliveries taken from the core, and the limit it was told.
    pub(super) taken_bytes: u64,
    room_told_bytes: u64,
    /// Management links whose credit waits until the peer reads its answers.
    pub(super) starved: Vec<LinkHandle>,
    /// Header and annotations of the delivery being sent.
    pub(super) prefix: Vec<u8>,
    closed: bool,
    /// The core failed: there is no more work.
    pub(super) failed: bool,
}

/// An answer that waits for its record.
#[derive(Debug)]
pub(super) enum Waiting {
    /// An outcome.
    Effect(Effect),
    /// A management answer, and on which link.
    Response(super::links::LinkId, Vec<u8>),
}

/// Beginning.
impl Gateway {
    /// The gateway of a new connection.
    pub fn new(now: Now, id: ConnectionId, peer: Peer, environment: Arc<Environment>) -> Self {
        let link = Connection::server(now, environment.options.link.clone());
        let seed = environment.options.seed;
        Self {
            id,
            peer,
            link,
            known: None,
            login: None,
            container: Name::default(),
            vhost: None,
            refusal_due: None,
            links: Links::new(seed),
            sent: Sent::default(),
            sessions: Map::with_hasher(seed.hasher()),
            work: VecDeque::new(),
            answered: Vec::new(),
            effects: VecDeque::new(),
            waiting: VecDeque::new(),
            durable: Lsn(0),
            alarm: false,
            taken_bytes: 0,
            room_told_bytes: environment.options.outbox_bytes,
            starved: Vec::new(),
            prefix: Vec::new(),
            closed: false,
            failed: false,
            environment,
        }
    }
}

/// Input.
impl Gateway {
    /// Takes the whole frames at the front of `input`; the rest stays for the next call.
    pub fn handle_bytes(&mut self, now: Now, input: &mut BytesMut) {
        loop {
            let before = input.len();
            self.link.handle_bytes(now, input);
            self.handle_events(now);
            // An answer to an event may have unblocked the reading.
            if input.is_empty() || input.len() == before || !self.link.wants_input() {
                return;
            }
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.refusal_due.is_some_and(|due| due <= now.mono) {
            self.refuse_login();
        }
        self.link.handle_timeout(now);
        self.handle_events(now);
    }

    /// Notes that bytes may have come which are not read for now: the peer is not silent.
    pub fn note_unread(&mut self, now: Now) {
        self.link.note_unread(now);
    }

    /// Takes effects from the core, in order. [`Gateway::handle_effects`] handles them.
    pub fn push_effects(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.effects.extend(effects);
    }

    /// Handles the core's replies.
    pub fn handle_answers(&mut self, now: Now) {
        for answered in std::mem::take(&mut self.answered) {
            match answered {
                Answered::Reply(ask, reply) => self.on_reply(ask, reply),
                Answered::Managed(request, response, result) => {
                    self.on_managed(request, response, result);
                }
            }
        }
        self.handle_events(now);
    }

    /// Handles effects while there is room for what they send. `durable` is the last durable LSN,
    /// `unwritten_bytes` what the driver has not written yet.
    pub fn handle_effects(&mut self, now: Now, durable: Lsn, unwritten_bytes: u64) {
        self.durable = durable;
        while let Some((lsn, _)) = self.waiting.front()
            && *lsn <= durable
        {
            match self.waiting.pop_front() {
                Some((_, Waiting::Effect(effect))) => self.on_outcome(effect),
                Some((_, Waiting::Response(link, bare))) => self.send_response(link, &bare),
                None => break,
            }
        }
        while self.can_encode(unwritten_bytes) {
            let Some(effect) = self.effects.pop_front() else {
                break;
            };
            self.on_effect(effect);
        }
        if self.can_encode(unwritten_bytes) {
            for handle in std::mem::take(&mut self.starved) {
                self.give_request_credit(handle);
            }
        }
        self.handle_events(now);
    }

    /// Whether so little waits to be written that more may be encoded.
    pub(super) fn can_encode(&self, unwritten_bytes: u64) -> bool {
        self.link.bytes_pending() + unwritten_bytes < ENCODED_BYTES_MAX
    }

    /// The peer's socket is gone.
    pub fn handle_disconnect(&mut self) {
        self.on_closed();
    }

    /// Closes the connection from our side.
    pub fn close(&mut self, now: Now, error: Option<Error>) {
        self.link.close(now, error);
        self.handle_events(now);
    }

    /// The core failed: nothing more is confirmed.
    pub fn fail(&mut self, now: Now) {
        self.failed = true;
        self.work.clear();
        self.effects.clear();
        self.waiting.clear();
        self.close(now, Some(super::errors::internal("the vhost failed")));
    }
}

/// Output.
impl Gateway {
    /// Appends frames to `out`; whether there were any.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.link.poll_transmit(now, out)
    }

    /// When [`Gateway::handle_timeout`] is to be called next.
    pub fn next_deadline(&self) -> Option<Millis> {
        [self.link.next_deadline(), self.refusal_due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Tells the core how much room there is once it has grown enough: what was taken and written,
    /// plus the bound. Call it after writing.
    pub fn report_room(&mut self, unwritten_bytes: u64) {
        let bound = self.environment.options.outbox_bytes;
        let pending = (self.link.bytes_pending() + unwritten_bytes).min(bound);
        let limit_bytes = self.taken_bytes + bound - pending;
        if self.vhost.is_some() && !self.closed && limit_bytes >= self.room_told_bytes + bound / 2 {
            self.room_told_bytes = limit_bytes;
            let connection = self.id;
            self.work.push_back(Work::Command(Command::ConnectionRoom {
                connection,
                limit_bytes,
            }));
        }
    }
}

/// State questions.
impl Gateway {
    /// Its number.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The vhost it entered.
    pub fn vhost(&self) -> Option<&Name> {
        self.vhost.as_ref()
    }

    /// The user that logged in.
    pub fn user(&self) -> Option<&Name> {
        self.login.as_ref().map(|login| &login.user)
    }

    /// Whether bytes should be read.
    pub fn wants_input(&self) -> bool {
        self.link.wants_input()
    }

    /// Whether the connection is over once everything is written.
    pub fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    /// Whether it has consumers.
    pub fn is_consuming(&self) -> bool {
        self.links
            .iter()
            .any(|link| matches!(link.kind, Kind::Consumer(_)))
    }

    /// Bytes of messages that have begun to arrive and are not complete.
    pub fn partial_bytes(&self) -> u64 {
        self.link.partial_bytes()
    }
}

impl Gateway {
    /// Handles what the engine has to tell.
    fn handle_events(&mut self, now: Now) {
        while let Some(event) = self.link.poll_event() {
            self.on_event(now, event);
        }
    }

    fn on_event(&mut self, now: Now, event: Event) {
        match event {
            Event::Delivery {
                link,
                delivery_id,
                settled,
                payload,
                ..
            } => {
                self.on_delivery(link, delivery_id, settled, payload);
            }
            Event::Outcome {
                link,
                token,
                delivery_id,
                state,
                settled,
            } => {
                self.on_consumer_outcome(link, token, delivery_id, state, settled);
            }
            Event::LinkFlow {
                link, limit, drain, ..
            } => self.on_link_flow(link, limit, drain),
            Event::SessionFlow { session } => {
                if let Some(id) = self.sessions.get(&session) {
                    let limit = self.link.session_limit(session);
                    let command = Command::SessionFlow {
                        session: *id,
                        limit,
                    };
                    self.work.push_back(Work::Command(command));
                }
            }
            Event::SaslInit {
                mechanism,
                response,
                ..
            } => {
                self.on_sasl_init(now, &mechanism, response.as_deref());
            }
            Event::SaslResponse { response } => self.on_sasl_response(now, &response),
            Event::Opened(open) => self.on_opened(now, &open),
            Event::SessionBegun { session } => self.on_session_begun(session),
            Event::SessionEnded { session, fates, .. } => {
                self.on_session_ended(session, &fates.unsent, &fates.unsettled);
            }
            Event::Attached {
                link,
                session,
                role,
                attach,
            } => {
                self.on_attached((link, session), &role, &attach);
            }
            Event::Detached { link, fates, .. } => {
                self.on_detached(link, &fates.unsent, &fates.unsettled);
            }
            Event::Aborted { link } => self.on_aborted(link),
            Event::Closed { .. } => self.on_closed(),
            // Receivers that drain us and second settlements need nothing more from us; clients
            // get the others.
            _ => {}
        }
    }

    fn on_session_begun(&mut self, session: SessionHandle) {
        let id = SessionId(self.environment.next_id());
        self.sessions.insert(session, id);
        let limit = self.link.session_limit(session);
        let command = Command::SessionOpen {
            connection: self.id,
            session: id,
            limit,
        };
        self.work.push_back(Work::Command(command));
    }

    fn on_session_ended(&mut self, session: SessionHandle, unsent: &[u64], unsettled: &[u64]) {
        let Some(id) = self.sessions.remove(&session) else {
            return;
        };
        let consumers: Vec<_> = (self.links.iter_mut())
            .filter(|link| link.session == session && matches!(link.kind, Kind::Consumer(_)))
            .map(|link| link.id.consumer())
            .collect();
        self.links.remove_session(session);
        self.work.push_back(Work::Command(Command::SessionFlow {
            session: id,
            limit: 0,
        }));
        self.forget_sent(unsent, unsettled);
        self.work
            .push_back(Work::Leave(Leaving::Session(id, consumers)));
    }

    fn on_detached(&mut self, handle: LinkHandle, unsent: &[u64], unsettled: &[u64]) {
        let Some(link) = self.links.remove(handle) else {
            return;
        };
        if let Kind::Consumer(_) = link.kind {
            let consumer = link.id.consumer();
            let stop = Command::ConsumerFlow {
                consumer,
                limit: 0,
                drain: false,
            };
            self.work.push_back(Work::Command(stop));
            self.forget_sent(unsent, unsettled);
            self.work
                .push_back(Work::Leave(Leaving::Consumer(consumer)));
        }
    }

    /// Returns deliveries that the engine never began to write, and forgets those that it did: the
    /// core knows what it lent to whom.
    fn forget_sent(&mut self, unsent: &[u64], unsettled: &[u64]) {
        for token in unsent {
            if let Some((consumer, position)) = self.sent.remove(*token) {
                let command = Command::ReturnUnsent { consumer, position };
                self.work.push_back(Work::Command(command));
            }
        }
        for token in unsettled {
            self.sent.remove(*token);
        }
    }

    fn on_closed(&mut self) {
        if self.vhost.is_some() && !self.closed {
            self.work.push_back(Work::Leave(Leaving::Connection));
        }
        self.closed = true;
    }

    fn on_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Deliver(delivery) => self.on_deliver(&delivery),
            Effect::Drained { consumer } => {
                if let Some((handle, _)) = self.links.consumer(consumer) {
                    self.link.drained(handle);
                }
            }
            Effect::ConsumerEnded { consumer, cause } => self.on_consumer_ended(consumer, cause),
            Effect::Published { lsn, .. } | Effect::Settled { lsn, .. } => {
                if lsn <= self.durable {
                    self.on_outcome(effect);
                } else {
                    self.waiting.push_back((lsn, Waiting::Effect(effect)));
                }
            }
            Effect::Alarm { raised } => self.on_alarm(raised),
        }
    }

    fn on_outcome(&mut self, effect: Effect) {
        match effect {
            Effect::Published {
                publisher,
                token,
                outcome,
                ..
            } => {
                self.on_published(publisher, token, &outcome);
            }
            Effect::Settled {
                consumer, token, ..
            } => self.on_settled(consumer, token),
            _ => {}
        }
    }

    fn on_reply(&mut self, ask: Ask, reply: crate::broker::Reply) {
        match ask {
            Ask::Publisher(link) => self.on_publisher_reply(link, reply),
            Ask::Consumer(link) => self.on_consumer_reply(link, reply),
            Ask::Forbidden(link) => self.on_forbidden_reply(link, reply),
        }
    }

    /// Whether the user has a right on a name, else the error that says so.
    pub(super) fn check_right(&self, right: Right, name: &str, kind: &str) -> Result<(), Error> {
        let login = self.login.as_ref();
        if login.is_some_and(|login| login.permissions.allow(right, name)) {
            return Ok(());
        }
        let user = login.map_or("", |login| &login.user);
        let right = right.as_str();
        Err(super::errors::unauthorized(format_args!(
            "{right} access to {kind} '{name}' refused for user '{user}'"
        )))
    }
}
