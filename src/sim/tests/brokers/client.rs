//! A small AMQP 1.0 client that knows nothing of the broker's engine, and complains of whatever a broker
//! must not do: more than there is credit or window for, an outcome told twice, frames out of order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::BytesMut;

use super::codec::{self, Attaching, Frame, Incoming, Outcome, Sent};
use super::resuming::{Kept, Open, Recovery, tag_of};
use super::transacting::Control;
use crate::base::Millis;

/// Frames that a client takes before it tells the broker that it takes more.
const WINDOW: u32 = 12;
/// The largest frame that a client takes and sends, in bytes.
pub(super) const FRAME_BYTES: usize = 600;
/// The same where messages are large.
pub(super) const LARGE_FRAME_BYTES: usize = 32 * 1024;

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// There is none.
    Down,
    /// Its SASL header is sent.
    Sasl,
    /// Logged in: the second header is sent.
    Header,
    /// Our open is sent.
    Opening,
    Up,
    /// Our close is sent.
    Closing,
    /// The broker's close has come, and ours is sent.
    Closed,
}

/// What a client saw.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Event {
    /// A publish was decided.
    Told { message: u64, outcome: Outcome },
    /// A message came.
    Delivery {
        handle: u32,
        id: u32,
        settled: bool,
        /// This client had let go of the link before: it may be somebody else's by now.
        stale: bool,
        /// It was sent before, on a link that outlived its connection.
        resumed: bool,
        in_part: bool,
        /// It is a copy.
        browsed: bool,
        /// It is for a consumer that wants only what is urgent.
        selected: bool,
        payload: Vec<u8>,
    },
    /// A transaction was declared.
    Declared { id: Vec<u8> },
    /// A transaction was committed or rolled back.
    Discharged { transaction: u64, commits: bool },
    /// The link to the coordinator is gone.
    Uncoordinated,
    /// A link that outlived its connection does not have this any more, of which no outcome was told.
    Dropped { message: u64 },
    /// The broker settled what this client had accepted.
    Confirmed { message: u64 },
    /// The broker released what this client had decided about: it had held it for too long.
    Late { message: u64 },
    /// The management node answered a request.
    Answered { request: u64, status: String },
    /// A link is gone, with what the client still had of it.
    Detached { publishes: Vec<u64> },
}

/// What one end of a link is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Role {
    /// To this queue, or to all that are copied to.
    Publisher {
        copies: usize,
    },
    Consumer {
        queue: String,
        /// Settlements wait for an answer.
        second: bool,
        /// It gets copies, and what it does with them changes nothing.
        browses: bool,
        /// It wants those alone that are urgent.
        selects: bool,
        /// Its queue is that of a subscription.
        subscribed: Option<Subscribed>,
    },
    /// To the coordinator of transactions.
    Coordinator,
    /// One half of a pair to the management node: requests go out, answers come in.
    Requests,
    Answers,
}

/// How a consumer is subscribed to the exchange that copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subscribed {
    /// For as long as its link is there.
    Link,
    /// With others, for as long as one is there.
    Shared,
    /// Until it says that it does not want it any more.
    Durable,
    /// The same with others.
    DurableShared,
}

impl Subscribed {
    pub(super) const ALL: [Self; 4] =
        [Self::Link, Self::Shared, Self::Durable, Self::DurableShared];

    pub(super) const fn is_durable(self) -> bool {
        matches!(self, Self::Durable | Self::DurableShared)
    }

    pub(super) const fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::DurableShared)
    }

    /// The name of the link with this number: that of the subscription, which may be there already.
    fn link_name(self, number: u32) -> String {
        let subscription = number % 2;
        match self {
            Self::Link => format!("link-{number}"),
            Self::Shared => format!("shared-{subscription}|{number}"),
            Self::Durable => format!("durable-{subscription}"),
            Self::DurableShared => format!("both-{subscription}|{number}"),
        }
    }
}

impl Role {
    /// The client's end of it sends.
    pub(super) const fn sends(&self) -> bool {
        matches!(
            self,
            Self::Publisher { .. } | Self::Requests | Self::Coordinator
        )
    }
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) address: String,
    /// It outlives its connection.
    pub(super) recovery: Option<Recovery>,
    /// It is gone for good once it is detached.
    pub(super) closing: bool,
    /// When our detach was sent.
    pub(super) leaving: Option<Millis>,
    /// The broker's attach has come.
    pub(super) attached: bool,
    /// Our detach is sent.
    pub(super) detaching: bool,
    /// Deliveries so far, and up to where there may be.
    pub(super) count: u32,
    pub(super) limit: u32,
    /// A drain is under way.
    pub(super) draining: bool,
    /// An outcome of it was said in a transaction: if that had ended, the broker closes the link.
    pub(super) transacted: bool,
    /// A delivery of several frames: what came of it.
    pub(super) partial: Option<Partial>,
}

/// A delivery of which not all frames have come.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) id: u32,
    pub(super) settled: bool,
    pub(super) resumed: bool,
    pub(super) tag: Vec<u8>,
    /// A part of it had come on another connection.
    pub(super) in_part: bool,
    pub(super) payload: Vec<u8>,
}

/// A delivery that a consumer has and has not settled.
#[derive(Clone, Debug)]
pub(super) struct HeldDelivery {
    pub(super) handle: u32,
    pub(super) message: u64,
    pub(super) queue: String,
    pub(super) tag: Vec<u8>,
    /// It has told its outcome and waits for the broker.
    pub(super) decided: bool,
    pub(super) outcome: Option<Outcome>,
    /// It is a copy.
    pub(super) browsed: bool,
    /// The broker said that it was held for too long: what is said of it changes nothing.
    pub(super) late: bool,
}

#[derive(Debug, Default)]
pub(super) struct Session {
    /// The broker's begin has come.
    pub(super) begun: bool,
    /// Our end is sent.
    pub(super) ending: bool,
    pub(super) next_outgoing: u32,
    pub(super) window_end: u32,
    pub(super) next_incoming: u32,
    pub(super) incoming_end: u32,
    pub(super) next_delivery: u32,
    pub(super) expected_delivery: Option<u32>,
    pub(super) links: BTreeMap<u32, Link>,
    /// The broker's handles, and ours.
    pub(super) remote: BTreeMap<u32, u32>,
    /// Publishes that no outcome is known of, by delivery-id.
    pub(super) sent: BTreeMap<u32, (u32, u64)>,
    /// The same of links that are gone: an outcome may still be on its way.
    pub(super) forgotten: BTreeSet<u32>,
    pub(super) held: BTreeMap<u32, HeldDelivery>,
    /// Deliveries of links that are gone.
    pub(super) forgotten_held: BTreeSet<u32>,
    /// Publishes whose outcome is known and that are not settled, of links that outlive their connection.
    pub(super) told: BTreeMap<u32, (u32, u64)>,
    /// Messages to the coordinator that are not answered.
    pub(super) controls: BTreeMap<u32, Control>,
    /// When our end or close was sent.
    pub(super) leaving: Option<Millis>,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) phase: Phase,
    pub(super) session: Option<Session>,
    pub(super) events: VecDeque<Event>,
    input: BytesMut,
    pub(super) output: Vec<u8>,
    plain: bool,
    pub(super) frame_bytes: usize,
    links: u32,
    /// What names its connections.
    container: String,
    /// Links that are nowhere attached and outlive that.
    pub(super) kept: BTreeMap<String, Kept>,
    /// Its transactions that it has not discharged: their ids, and our numbers.
    pub(super) transactions: Vec<(Vec<u8>, u64)>,
    pub(super) now: Millis,
}

pub(super) fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

impl Client {
    pub(super) fn new(container: String, plain: bool, frame_bytes: usize) -> Self {
        Self {
            phase: Phase::Down,
            session: None,
            events: VecDeque::new(),
            input: BytesMut::new(),
            output: Vec::new(),
            plain,
            frame_bytes,
            links: 0,
            container,
            kept: BTreeMap::new(),
            transactions: Vec::new(),
            now: Millis(0),
        }
    }

    /// Begins a connection.
    pub(super) fn connect(&mut self) {
        self.phase = Phase::Sasl;
        self.output.extend_from_slice(b"AMQP\x03\x01\x00\x00");
    }

    /// The connection is gone. Returns what fails with it.
    pub(super) fn drop_connection(&mut self) -> Option<Vec<u64>> {
        self.phase = Phase::Down;
        self.input.clear();
        self.output.clear();
        self.events.clear();
        let mut session = self.session.take()?;
        let failing = session.failing();
        self.kept.extend(session.keep(self.now));
        Some(failing)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.phase == Phase::Up && self.session.as_ref().is_some_and(|s| s.begun && !s.ending)
    }

    pub(super) fn begin(&mut self) {
        self.session = Some(Session::default());
        codec::begin(&mut self.output, WINDOW);
    }

    pub(super) fn end(&mut self) {
        if let Some(session) = &mut self.session {
            session.ending = true;
            session.leaving = Some(self.now);
            codec::end(&mut self.output);
        }
    }

    pub(super) fn close(&mut self) {
        self.phase = Phase::Closing;
        if let Some(session) = &mut self.session {
            session.leaving.get_or_insert(self.now);
        }
        codec::close(&mut self.output);
    }

    /// Attaches a link, that outlives its connection for so many seconds.
    pub(super) fn attach(&mut self, role: Role, address: &str, settled: bool, timeout_s: u32) {
        self.links += 1;
        let recovery = (timeout_s > 0).then(|| Recovery {
            timeout_s,
            durable: self.links.is_multiple_of(2),
            ..Recovery::default()
        });
        let name = match role {
            Role::Consumer {
                subscribed: Some(subscribed),
                ..
            } => subscribed.link_name(self.links),
            _ => format!("link-{}", self.links),
        };
        // Without a free handle it is not.
        let _ = self.attach_as(&name, (role, address.to_owned()), settled, recovery);
    }

    /// Attaches a link that outlived its connection. Gives back what it is if that cannot be now.
    pub(super) fn attach_again(
        &mut self,
        name: &str,
        of: (Role, String),
        recovery: Recovery,
    ) -> Result<(), (Role, String)> {
        self.attach_as(name, of, false, Some(recovery))
    }

    /// Attaches both halves of a pair to the management node.
    pub(super) fn attach_pair(&mut self) {
        self.links += 1;
        let name = format!("pair-{}", self.links);
        for role in [Role::Requests, Role::Answers] {
            let _ = self.attach_as(&name, (role, "/management".to_owned()), true, None);
        }
    }

    fn attach_as(
        &mut self,
        name: &str,
        (role, address): (Role, String),
        settled: bool,
        recovery: Option<Recovery>,
    ) -> Result<(), (Role, String)> {
        let free = self.session.as_mut().and_then(|session| {
            let handle = (0..64).find(|handle| !session.links.contains_key(handle))?;
            let is_there = session.links.values().any(|link| link.name == name);
            let is_half = matches!(role, Role::Requests | Role::Answers);
            (!is_there || is_half).then_some((session, handle))
        });
        let Some((session, handle)) = free else {
            return Err((role, address));
        };
        let attaching = Attaching {
            name,
            handle,
            role: &role,
            address: &address,
            settled,
            recovery: recovery.as_ref(),
        };
        codec::attach(&mut self.output, &attaching);
        let link = Link {
            name: name.to_owned(),
            role,
            address,
            recovery,
            closing: false,
            leaving: None,
            attached: false,
            detaching: false,
            count: 0,
            limit: 0,
            draining: false,
            transacted: false,
            partial: None,
        };
        session.links.insert(handle, link);
        Ok(())
    }

    pub(super) fn detach(&mut self, handle: u32, closed: bool) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut links = session.links.values();
        let has_transactions = links.any(|link| link.role == Role::Coordinator);
        if let Some(link) = session.links.get_mut(&handle) {
            if let Some(recovery) = &mut link.recovery {
                recovery.may_linger |= has_transactions;
            }
            link.detaching = true;
            link.closing = closed;
            link.leaving = Some(self.now);
            codec::detach(&mut self.output, handle, closed);
        }
    }

    /// Gives a link so much more credit than it has, or drains it.
    pub(super) fn credit(&mut self, handle: u32, more: u32, drain: bool) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.incoming_end = session.next_incoming.wrapping_add(WINDOW);
        let Some(link) = session.links.get_mut(&handle) else {
            return;
        };
        link.limit = link.limit.wrapping_add(more);
        link.draining = drain && link.limit != link.count;
        let flow = Some((
            handle,
            link.count,
            link.limit.wrapping_sub(link.count),
            drain,
        ));
        let window = (session.next_incoming, session.next_outgoing);
        codec::flow(&mut self.output, window, WINDOW, flow);
    }

    /// Tells the broker that it may send more frames, if it has nearly used up what it may.
    fn open_window(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        if session.incoming_end.wrapping_sub(session.next_incoming) <= WINDOW / 3 {
            session.incoming_end = session.next_incoming.wrapping_add(WINDOW);
            let window = (session.next_incoming, session.next_outgoing);
            codec::flow(&mut self.output, window, WINDOW, None);
        }
    }

    /// Whether a publisher may send a message of so many bytes now.
    pub(super) fn may_send(&self, handle: u32, bytes: usize) -> bool {
        let Some(session) = &self.session else {
            return false;
        };
        let frames = u32::try_from(codec::frames_of(bytes, self.frame_bytes)).unwrap();
        let end = session.next_outgoing.wrapping_add(frames);
        session
            .links
            .get(&handle)
            .is_some_and(|link| link.attached && !link.detaching && before(link.count, link.limit))
            && !before(session.window_end, end)
    }

    pub(super) fn send(&mut self, handle: u32, message: u64, payload: &[u8], sent: &Sent<'_>) {
        if let (Some(recovery), false) = (self.recovery(handle), sent.settled) {
            let open = Open {
                payload: payload.to_vec(),
                told: false,
            };
            recovery.open.insert(message, open);
        }
        self.transfer(handle, message, payload, sent);
    }

    pub(super) fn transfer(
        &mut self,
        handle: u32,
        message: u64,
        payload: &[u8],
        sent: &Sent<'_>,
    ) -> u32 {
        let session = self.session.as_mut().unwrap();
        let link = session.links.get_mut(&handle).unwrap();
        link.count = link.count.wrapping_add(1);
        let id = session.next_delivery;
        session.next_delivery = id.wrapping_add(1);
        let tag = match &link.recovery {
            Some(_) => tag_of(message).to_vec(),
            None => id.to_be_bytes().to_vec(),
        };
        if !sent.settled {
            session.sent.insert(id, (handle, message));
        }
        let frames = codec::transfer(
            &mut self.output,
            (handle, id, &tag),
            payload,
            sent,
            self.frame_bytes,
        );
        session.next_outgoing = session.next_outgoing.wrapping_add(frames);
        id
    }

    /// Settles deliveries from one to another that are held and not decided yet.
    pub(super) fn settle(
        &mut self,
        (first, last): (u32, u32),
        outcome: &Outcome,
        (second, transaction): (bool, Option<&[u8]>),
    ) {
        let ids = (first, last);
        match transaction {
            Some(id) => codec::disposition_in(&mut self.output, ids, outcome, id),
            None => codec::disposition(&mut self.output, ids, outcome, !second),
        }
        let session = self.session.as_mut().unwrap();
        if second {
            for (_, held) in session.held.range_mut(first..=last) {
                held.decided = true;
                held.outcome = Some(outcome.clone());
            }
        } else {
            session.held.retain(|id, _| !(first..=last).contains(id));
        }
    }

    /// Takes bytes of the broker. Errs with what it must not do.
    pub(super) fn handle(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.input.extend_from_slice(bytes);
        loop {
            if matches!(self.phase, Phase::Sasl | Phase::Header)
                && self.input.len() >= 8
                && self.input.starts_with(b"AMQP")
            {
                self.on_header()?;
                continue;
            }
            let Some(frame) = codec::next_frame(&mut self.input, self.frame_bytes)? else {
                return Ok(());
            };
            let what = format!("{frame:?}");
            self.on_frame(frame)
                .map_err(|why| format!("{why}\n  at {what:.300}"))?;
        }
    }

    fn on_header(&mut self) -> Result<(), String> {
        let header = self.input.split_to(8);
        match (self.phase, header.get(4)) {
            (Phase::Sasl, Some(3)) => Ok(()),
            (Phase::Header, Some(0)) => {
                self.phase = Phase::Opening;
                codec::open(&mut self.output, &self.container, self.frame_bytes);
                Ok(())
            }
            _ => Err(format!("header {header:?} in {:?}", self.phase)),
        }
    }

    fn on_frame(&mut self, frame: Frame) -> Result<(), String> {
        if self.phase == Phase::Closed {
            return Err("a frame after close".to_owned());
        }
        match frame {
            Frame::Mechanisms => {
                codec::sasl_init(&mut self.output, self.plain);
                Ok(())
            }
            Frame::SaslOutcome(0) if self.phase == Phase::Sasl => {
                self.phase = Phase::Header;
                self.output.extend_from_slice(b"AMQP\x00\x01\x00\x00");
                Ok(())
            }
            Frame::SaslOutcome(code) => Err(format!("login ended with {code}")),
            Frame::Heartbeat => Ok(()),
            Frame::Open if self.phase == Phase::Opening => {
                self.phase = Phase::Up;
                Ok(())
            }
            Frame::Open => Err("open once more".to_owned()),
            Frame::Close => {
                if self.phase != Phase::Closing {
                    codec::close(&mut self.output);
                }
                self.phase = Phase::Closed;
                Ok(())
            }
            of_session => self.on_session(of_session),
        }
    }

    fn on_session(&mut self, frame: Frame) -> Result<(), String> {
        let is_opening = matches!(frame, Frame::Begin { .. });
        let session = self.session.as_mut().ok_or("no session")?;
        if session.begun == is_opening {
            return Err("begin twice, or a frame before it".to_owned());
        }
        match frame {
            Frame::Begin { next, window } => {
                session.begun = true;
                session.next_incoming = next;
                session.incoming_end = next.wrapping_add(WINDOW);
                session.window_end = session.next_outgoing.wrapping_add(window);
                Ok(())
            }
            Frame::Attach(answered) => {
                let dropped = session.on_attach(&answered)?;
                let dropped = dropped
                    .into_iter()
                    .map(|message| Event::Dropped { message });
                self.events.extend(dropped);
                Ok(())
            }
            Frame::Flow(flow) => session.on_flow(flow),
            Frame::Transfer(transfer) => self.on_transfer(transfer),
            Frame::Disposition {
                by_receiver,
                ids,
                settled,
                state,
            } => {
                let events = if by_receiver {
                    session.on_outcomes(ids, settled, state)?
                } else {
                    session.on_confirmed(ids, settled, state.as_ref())?
                };
                self.events.extend(events);
                self.settle_told(false);
                Ok(())
            }
            Frame::Detach { handle, condition } => self.on_detach(handle, condition.as_deref()),
            Frame::End => {
                if !session.ending {
                    codec::end(&mut self.output);
                }
                let publishes = session.sent.values().map(|(_, message)| *message).collect();
                let kept = session.keep(self.now);
                self.kept.extend(kept);
                self.session = None;
                self.events.push_back(Event::Uncoordinated);
                self.events.push_back(Event::Detached { publishes });
                Ok(())
            }
            other => Err(format!("unexpected {other:?}")),
        }
    }

    fn on_detach(&mut self, handle: u32, condition: Option<&str>) -> Result<(), String> {
        // Clients write nothing of which the broker could say that.
        if let Some(condition @ ("amqp:decode-error" | "amqp:invalid-field")) = condition {
            return Err(format!("link {handle} was detached with {condition}"));
        }
        let session = self.session.as_mut().ok_or("no session")?;
        let gone = session.on_detach(handle, self.now)?;
        if !gone.was_detaching {
            codec::detach(&mut self.output, gone.handle, true);
        }
        self.kept.extend(gone.kept);
        if gone.was_coordinator {
            self.events.push_back(Event::Uncoordinated);
        }
        let publishes = gone.publishes;
        self.events.push_back(Event::Detached { publishes });
        Ok(())
    }

    fn on_transfer(&mut self, transfer: Incoming) -> Result<(), String> {
        let is_closing = self.phase != Phase::Up;
        let session = self.session.as_mut().ok_or("no session")?;
        let event = session.on_transfer(transfer, is_closing)?;
        // What it had decided about and is sent again it says once more.
        if let Some(Event::Delivery {
            id, resumed: true, ..
        }) = &event
            && let Some(held) = session.held.get(id)
            && let Some(outcome) = &held.outcome
        {
            codec::disposition(&mut self.output, (*id, *id), outcome, false);
        }
        self.events.extend(event);
        self.open_window();
        Ok(())
    }
}
