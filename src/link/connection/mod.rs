//! One AMQP connection.
//!
//! Its parts: `handshake` (headers, SASL, open), `input` (frames in), `sessions`, `links`,
//! `receive`, `run` and `send` (transfers), `parts` (large messages), `settle` (dispositions),
//! `flow`, `ending` (errors, end, close), `transmit` (frames out), `timing`.

mod ending;
mod flow;
mod handshake;
mod input;
mod links;
mod parts;
mod receive;
mod run;
mod send;
mod sessions;
mod settle;
mod timing;
mod transmit;

use std::collections::VecDeque;

pub use send::{Sending, Unsendable};

use super::output::Output;
use super::session::{Session, SessionState};
use super::{Arrived, ClientOptions, Counters, Event, LinkHandle, LinkOptions, SessionHandle};
use crate::base::{Millis, Name, Now};
use crate::link::link::Link;
use crate::wire::frame::FrameHeader;
use handshake::Phase;

/// One AMQP connection, in the server's or the client's role. [AMQP 2.4]
///
/// Its methods are of four kinds:
/// - input: [`handle_bytes`](Self::handle_bytes), [`handle_timeout`](Self::handle_timeout),
///   [`handle_disconnect`](Self::handle_disconnect);
/// - output: [`poll_event`](Self::poll_event), [`poll_transmit`](Self::poll_transmit),
///   [`next_deadline`](Self::next_deadline);
/// - commands: answers to events and actions of the owner; they only change state and stage frames,
///   and do nothing on a stale handle;
/// - state questions: nouns such as [`credit`](Self::credit).
///
/// A driver's turn: read bytes while [`wants_input`](Self::wants_input), `handle_bytes`, take all
/// events and give the answers, `handle_bytes` again if bytes are left and input is wanted (an
/// answer may have unblocked the reading), `poll_transmit`, write, sleep until `next_deadline`.
#[derive(Debug)]
pub struct Connection {
    options: LinkOptions,
    /// The options of the client role; none in the server role.
    client: Option<ClientOptions>,
    phase: Phase,
    /// The lower of the engine's and the peer's channel-max.
    channel_max: u16,
    /// Sessions by the engine's channel.
    sessions: Vec<Option<Box<Session>>>,
    /// The engine's channel by the peer's.
    channels_in: Vec<Option<u16>>,
    events: VecDeque<Event>,
    output: Output,
    /// Channels of sessions to flush.
    dirty: Vec<u16>,
    /// Links with waiting messages, in order of their turns: channel and the engine's handle.
    ring: VecDeque<(u16, u32)>,
    /// Streamed messages that need more of their bytes.
    wanting: VecDeque<(LinkHandle, u64)>,
    /// Whether an [`Event::Partial`] was not polled yet.
    part_due: bool,
    /// Bytes of incomplete deliveries, as they count against the budget.
    partial_bytes: u64,
    next_generation: u32,
    timers: timing::Timers,
    /// Length of the input that was left last time.
    leftover: usize,
    /// The peer's channel of an attach at the front of the input that was left, since no handle was free for
    /// it.
    attach_waits: Option<u16>,
    counters: Counters,
}

/// Construction.
impl Connection {
    /// A connection that a client opened. The handshake timeout runs from `now`.
    pub fn server(now: Now, options: LinkOptions) -> Self {
        Self::new(now, options, None, Phase::Header)
    }

    /// A connection that is opened to a server.
    pub fn client(now: Now, client: ClientOptions) -> Self {
        let options = client.options.clone();
        let mut connection = Self::new(now, options, Some(client), Phase::Header);
        connection.begin_client();
        connection
    }

    fn new(now: Now, options: LinkOptions, client: Option<ClientOptions>, phase: Phase) -> Self {
        Self {
            channel_max: options.channel_max,
            timers: timing::Timers::new(now.mono, options.handshake_ms),
            options,
            client,
            phase,
            sessions: Vec::new(),
            channels_in: Vec::new(),
            events: VecDeque::new(),
            output: Output::new(),
            dirty: Vec::new(),
            ring: VecDeque::new(),
            wanting: VecDeque::new(),
            part_due: false,
            partial_bytes: 0,
            next_generation: 0,
            leftover: 0,
            attach_waits: None,
            counters: Counters::default(),
        }
    }
}

/// State questions.
impl Connection {
    /// Whether nothing more will be read, and all output was taken by
    /// [`poll_transmit`](Self::poll_transmit): the socket can be dropped after writing that.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed && self.output.staged.is_empty()
    }

    /// Whether either side has closed it, so that nothing but the close remains to be written.
    pub fn is_closing(&self) -> bool {
        matches!(
            self.phase,
            Phase::Closing | Phase::Discarding | Phase::Closed
        )
    }

    /// Whether bytes should be read from the socket: false while an answer of the owner is awaited,
    /// while the engine's answers are not written, and when the connection has ended.
    pub fn wants_input(&self) -> bool {
        self.takes_frames() && !self.attach_waits()
    }

    #[inline]
    fn takes_frames(&self) -> bool {
        !self.phase.awaits_owner() && self.phase != Phase::Closed && !self.output.is_full()
    }

    /// Size of the frame that begins in `input`, in bytes, if its header has arrived and is valid.
    pub fn frame_bytes(&self, input: &[u8]) -> Option<usize> {
        let size_max = self.options.max_frame_size as usize;
        let header = FrameHeader::parse(input, size_max).ok()??;
        Some(header.size)
    }

    /// Bytes taken and not yet handed out by [`poll_transmit`](Self::poll_transmit).
    pub fn bytes_pending(&self) -> u64 {
        self.output.staged.len() as u64 + self.output.waiting_bytes
    }

    /// Bytes of frames that were encoded and not taken.
    pub const fn staged_bytes(&self) -> u64 {
        self.output.staged.capacity() as u64
    }

    /// Memory of the tables of sessions, in bytes: mostly of unsettled deliveries.
    pub fn tables_bytes(&self) -> u64 {
        let sessions = self.sessions.iter().flatten();
        let events = self.events.capacity() * size_of::<Event>();
        let tables: usize = sessions.map(|session| session.tables_bytes()).sum();
        (tables + events) as u64
    }

    /// Bytes of incomplete deliveries from the peer.
    pub const fn partial_bytes(&self) -> u64 {
        self.partial_bytes
    }

    /// Messages that may be given to [`send`](Self::send) on the links of the session since it
    /// began: those taken plus the peer's incoming window. 0 for a stale handle.
    pub fn session_limit(&self, session: SessionHandle) -> u64 {
        self.session(session).map_or(0, Session::limit)
    }

    /// The name of a link; none for a stale handle.
    pub fn link_name(&self, link: LinkHandle) -> Option<&Name> {
        self.link(link).map(|link| &link.name)
    }

    /// The link's credit, in messages: on a receiving link what the sender has left, on a sending
    /// one what may still be sent. 0 for a stale handle.
    pub fn credit(&self, link: LinkHandle) -> u32 {
        self.link(link).map_or(0, |link| link.credit)
    }

    /// Tokens of messages taken by [`send`](Self::send) of which no frame was encoded, oldest
    /// first.
    pub fn unsent(&self, link: LinkHandle) -> impl Iterator<Item = u64> + '_ {
        let link = self.link(link).into_iter();
        let waiting = link.flat_map(|link| &link.sender.waiting);
        let unsent = waiting.filter(|waiting| waiting.delivery_id.is_none());
        unsent.map(|waiting| waiting.token)
    }

    /// Number of messages taken by [`send`](Self::send) and not completely encoded.
    pub fn waiting(&self, link: LinkHandle) -> usize {
        self.link(link).map_or(0, |link| link.sender.waiting.len())
    }

    /// The token of the message of which some frames were encoded and not all.
    pub fn begun(&self, link: LinkHandle) -> Option<u64> {
        let first = self.link(link)?.sender.waiting.front()?;
        first.delivery_id.is_some().then_some(first.token)
    }

    /// What was read and written so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }
}

/// Output methods.
impl Connection {
    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if matches!(event, Some(Event::Partial { .. })) {
            self.part_due = false;
        }
        event
    }

    /// The next event, if it is another [`Event::Delivery`] of this link.
    pub fn poll_delivery(&mut self, of: LinkHandle) -> Option<Arrived> {
        let is_one =
            |event: &mut Event| matches!(event, Event::Delivery { link, .. } if *link == of);
        match self.events.pop_front_if(is_one)? {
            Event::Delivery {
                delivery_id,
                settled,
                payload,
                ..
            } => Some(Arrived {
                delivery_id,
                settled,
                payload,
            }),
            _ => None,
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadline()
    }
}

/// Lookups by handle.
impl Connection {
    fn session_at(&mut self, channel: u16) -> Option<&mut Session> {
        self.sessions.get_mut(usize::from(channel))?.as_deref_mut()
    }

    /// The session of a handle, unless it is ending.
    fn session(&self, handle: SessionHandle) -> Option<&Session> {
        let session = self.sessions.get(usize::from(handle.channel))?.as_deref();
        session.filter(|session| {
            session.generation == handle.generation && session.state != SessionState::Ending
        })
    }

    fn link(&self, handle: LinkHandle) -> Option<&Link> {
        let session = self.sessions.get(usize::from(handle.channel))?.as_deref()?;
        let link = session.link(handle.handle)?;
        (link.generation == handle.generation).then_some(link)
    }

    /// The session of a link, if the link exists, with the parts of the connection that a command
    /// needs.
    fn find(&mut self, handle: LinkHandle) -> Option<LinkContext<'_>> {
        let session = self.sessions.get_mut(usize::from(handle.channel))?;
        let session = session.as_deref_mut()?;
        let link = session.link(handle.handle)?;
        (link.generation == handle.generation).then_some(LinkContext {
            session,
            dirty: &mut self.dirty,
            events: &mut self.events,
            output: &mut self.output,
            ring: &mut self.ring,
            partial_bytes: &mut self.partial_bytes,
            part_due: &mut self.part_due,
        })
    }

    fn generation(&mut self) -> u32 {
        self.next_generation = self.next_generation.wrapping_add(1);
        self.next_generation
    }
}

/// A session, and the parts of its connection that its methods change.
struct LinkContext<'a> {
    session: &'a mut Session,
    dirty: &'a mut Vec<u16>,
    events: &'a mut VecDeque<Event>,
    output: &'a mut Output,
    ring: &'a mut VecDeque<(u16, u32)>,
    partial_bytes: &'a mut u64,
    part_due: &'a mut bool,
}

/// Has the session flushed at the end of the turn.
fn mark_dirty(dirty: &mut Vec<u16>, session: &mut Session) {
    if !session.in_dirty && session.has_pending() {
        session.in_dirty = true;
        dirty.push(session.channel);
    }
}
