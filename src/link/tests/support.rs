//! Two engines joined in memory under a fake clock, and a peer that sends single performatives.

use bytes::{Bytes, BytesMut};

use crate::base::{Millis, Now, Serial, Timestamp};
use crate::link::{
    ClientOptions, ClientSasl, Connection, Event, Identity, LinkHandle, LinkOptions, Sending,
    SessionHandle,
};
use crate::wire::frame::{FrameHeader, FrameKind, Protocol};
use crate::wire::performative::{
    Attach, AttachAnswer, Begin, Handle, Performative, ReceiverSettleMode, Role, SenderSettleMode,
    Source, Target, TargetArchetype, Terminus, Transfer, decode, encode,
};
use crate::wire::sasl::{SaslCode, SaslFrame};

use super::super::output::write_frame;

/// The moment `ms` after the start.
pub(super) fn at(ms: u64) -> Now {
    Now::new(Millis(ms), Timestamp(0))
}

/// Options with a name, so that open has a container-id.
pub(super) fn options(container: &str) -> LinkOptions {
    LinkOptions {
        identity: Identity {
            container_id: container.to_owned(),
            ..Identity::default()
        },
        ..LinkOptions::default()
    }
}

/// A client and a server joined by two pipes.
pub(super) struct Pair {
    pub(super) client: Connection,
    pub(super) server: Connection,
    pub(super) now: Now,
    to_client: BytesMut,
    to_server: BytesMut,
    /// Events of the server that `drive` did not answer itself.
    pub(super) server_events: Vec<Event>,
    pub(super) client_events: Vec<Event>,
    /// How the server answers attaches; nothing: it leaves them to the test.
    pub(super) accept: Option<AttachAnswer>,
}

impl Pair {
    pub(super) fn new(client: LinkOptions, server: LinkOptions) -> Self {
        let client = ClientOptions {
            sasl: Some(ClientSasl::plain("guest", "guest")),
            hostname: None,
            options: client,
        };
        Self {
            client: Connection::client(at(0), client),
            server: Connection::server(at(0), server),
            now: at(0),
            to_client: BytesMut::new(),
            to_server: BytesMut::new(),
            server_events: Vec::new(),
            client_events: Vec::new(),
            accept: Some(AttachAnswer::default()),
        }
    }

    /// A pair that is open.
    pub(super) fn open() -> Self {
        Self::open_with(options("client"), options("server"))
    }

    pub(super) fn open_with(client: LinkOptions, server: LinkOptions) -> Self {
        let mut pair = Self::new(client, server);
        pair.drive();
        assert!(
            pair.take_client(|event| matches!(event, Event::Opened(_)))
                .is_some(),
            "{:?}",
            pair.client_events
        );
        pair
    }

    /// Moves bytes and answers the handshake until both are quiet.
    pub(super) fn drive(&mut self) {
        for _ in 0..10_000 {
            let mut out = Vec::new();
            let mut moved = self.client.poll_transmit(self.now, &mut out);
            self.to_server.extend_from_slice(&out);
            self.server.handle_bytes(self.now, &mut self.to_server);
            moved |= self.answer_server();
            let mut out = Vec::new();
            moved |= self.server.poll_transmit(self.now, &mut out);
            self.to_client.extend_from_slice(&out);
            self.client.handle_bytes(self.now, &mut self.to_client);
            while let Some(event) = self.client.poll_event() {
                self.client_events.push(event);
            }
            if !moved {
                return;
            }
        }
        panic!("the two never become quiet");
    }

    fn answer_server(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.server.poll_event() {
            any = true;
            match &event {
                Event::SaslInit { .. } => self.server.sasl_outcome(SaslCode::Ok),
                Event::Opened(_) => self.server.open(self.now),
                Event::Attached { link, .. } => {
                    if let Some(answer) = self.accept.clone() {
                        self.server.accept_attach(*link, answer);
                    }
                }
                _ => {}
            }
            self.server_events.push(event);
        }
        any
    }

    /// Takes the first event of the server that fits.
    pub(super) fn take_server(&mut self, fits: impl Fn(&Event) -> bool) -> Option<Event> {
        let index = self.server_events.iter().position(fits)?;
        Some(self.server_events.remove(index))
    }

    /// Takes the first event of the client that fits.
    pub(super) fn take_client(&mut self, fits: impl Fn(&Event) -> bool) -> Option<Event> {
        let index = self.client_events.iter().position(fits)?;
        Some(self.client_events.remove(index))
    }

    /// Begins a session: the client's and the server's handle.
    pub(super) fn begin(&mut self) -> (SessionHandle, SessionHandle) {
        let client = self.client.begin().unwrap();
        self.drive();
        let begun = self.take_server(|event| matches!(event, Event::SessionBegun { .. }));
        let Some(Event::SessionBegun { session }) = begun else {
            panic!("no session: {:?}", self.server_events);
        };
        (client, session)
    }

    /// Attaches a link of the client: its handles at the client and at the server.
    pub(super) fn attach(
        &mut self,
        session: SessionHandle,
        attach: Attach,
    ) -> (LinkHandle, LinkHandle) {
        let client = self.client.attach(session, attach).unwrap();
        self.drive();
        let attached = self.take_server(|event| matches!(event, Event::Attached { .. }));
        let Some(Event::Attached { link, .. }) = attached else {
            panic!("not attached: {:?}", self.server_events);
        };
        (client, link)
    }

    /// A session and a link on which the client sends, with credit.
    pub(super) fn publisher(&mut self, credit: u32) -> (LinkHandle, LinkHandle) {
        let (session, _) = self.begin();
        let (client, server) = self.attach(session, sender("publisher"));
        self.server.set_credit(server, credit);
        self.drive();
        (client, server)
    }

    /// A session and a link on which the client receives, with credit.
    pub(super) fn consumer(&mut self, credit: u32) -> (LinkHandle, LinkHandle) {
        let (session, _) = self.begin();
        let (client, server) = self.attach(session, receiver("consumer"));
        self.client.set_credit(client, credit);
        self.drive();
        (client, server)
    }

    /// All deliveries that one side got, in order.
    pub(super) fn deliveries(events: &mut Vec<Event>) -> Vec<(Serial, bool, Bytes)> {
        let mut found = Vec::new();
        events.retain(|event| {
            let Event::Delivery {
                delivery_id,
                settled,
                payload,
                ..
            } = event
            else {
                return true;
            };
            found.push((*delivery_id, *settled, payload.clone().joined()));
            false
        });
        found
    }

    /// All outcomes that one side got, in order: token, state, settled.
    pub(super) fn outcomes(
        events: &mut Vec<Event>,
    ) -> Vec<(u64, crate::wire::performative::DeliveryState, bool)> {
        let mut found = Vec::new();
        events.retain(|event| {
            match event {
                Event::Outcome { token, state, .. } => found.push((*token, state.clone(), false)),
                Event::Settled { tokens, state, .. } => {
                    found.extend(tokens.iter().map(|token| (*token, state.clone(), true)));
                }
                _ => return true,
            }
            false
        });
        found
    }
}

/// A message with a token and no prefix.
pub(super) fn message(token: u64, bare: &[u8]) -> Sending<'_> {
    Sending {
        token,
        settled: false,
        message_format: 0,
        prefix: &[],
        bare,
        tag: None,
    }
}

/// Sends a message through one engine.
pub(super) fn send(connection: &mut Connection, link: LinkHandle, token: u64, bare: &[u8]) {
    let bytes = Bytes::copy_from_slice(bare);
    connection
        .send(link, message(token, bare), || bytes)
        .unwrap();
}

/// The attach of a sender.
pub(super) fn sender(name: &str) -> Attach {
    Attach {
        name: name.to_owned(),
        handle: Handle(0),
        role: Role::Sender,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(Source::default())),
        target: Some(Box::new(TargetArchetype::Target(Target {
            address: Some("/queues/q".into()),
            ..Target::default()
        }))),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: Some(0),
        max_message_size: None,
        offered_capabilities: None,
        properties: None,
    }
}

/// The attach of a receiver.
pub(super) fn receiver(name: &str) -> Attach {
    Attach {
        role: Role::Receiver,
        initial_delivery_count: None,
        source: Some(Box::new(Source {
            address: Some("/queues/q".into()),
            ..Source::default()
        })),
        target: Some(Box::new(TargetArchetype::Target(Target::default()))),
        ..sender(name)
    }
}

/// The answer to a consumer, as the gateway gives it.
pub(super) fn consumer_answer() -> AttachAnswer {
    AttachAnswer {
        source: Terminus::EchoWithOutcomes,
        target: Terminus::Absent,
        ..AttachAnswer::default()
    }
}

/// A peer that sends what it likes to a server, byte by byte if need be.
pub(super) struct Raw {
    pub(super) server: Connection,
    pub(super) now: Now,
    pub(super) input: BytesMut,
    pub(super) events: Vec<Event>,
    /// The max-message-size that links of the server announce.
    pub(super) message_bytes_max: Option<u64>,
}

/// What a server wrote.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    Header(Protocol),
    Sasl(SaslFrame),
    Frame(u16, Performative, Bytes),
    Heartbeat,
}

impl Raw {
    pub(super) fn new(options: LinkOptions) -> Self {
        Self {
            server: Connection::server(at(0), options),
            now: at(0),
            input: BytesMut::new(),
            events: Vec::new(),
            message_bytes_max: None,
        }
    }

    /// A peer behind SASL and open.
    pub(super) fn open() -> Self {
        Self::open_with(LinkOptions {
            allow_plain_amqp: true,
            ..options("server")
        })
    }

    pub(super) fn open_with(options: LinkOptions) -> Self {
        let mut raw = Self::new(options);
        raw.bytes(&Protocol::Amqp.header());
        raw.frame(0, &open_performative());
        raw.take();
        raw
    }

    /// A peer with a session on channel 0.
    pub(super) fn begun() -> Self {
        Self::open().begin()
    }

    /// The same, from one that is open.
    pub(super) fn begin(self) -> Self {
        let mut raw = self;
        raw.frame(0, &begin_performative());
        raw.take();
        raw
    }

    /// A peer with a session and a link on which it sends (handle 0, initial delivery-count 0).
    pub(super) fn sending(credit: u32) -> (Self, LinkHandle) {
        Self::begun().sends(credit)
    }

    /// The same, from one with a session.
    pub(super) fn sends(self, credit: u32) -> (Self, LinkHandle) {
        let mut raw = self;
        raw.frame(0, &attach_performative(sender("l"), 0));
        let link = raw.attached();
        raw.server.set_credit(link, credit);
        raw.take();
        (raw, link)
    }

    /// A peer with a session and a link on which it receives (handle 0).
    pub(super) fn receiving(credit: u32) -> (Self, LinkHandle) {
        let mut raw = Self::begun();
        raw.frame(0, &attach_performative(receiver("l"), 0));
        let link = raw.attached();
        raw.frame(0, &credit_performative(0, credit));
        raw.take();
        (raw, link)
    }

    /// Sends bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            self.server.handle_bytes(self.now, &mut self.input);
            let mut any = false;
            while let Some(event) = self.server.poll_event() {
                any = true;
                match &event {
                    Event::SaslInit { .. } => self.server.sasl_outcome(SaslCode::Ok),
                    Event::Opened(_) => self.server.open(self.now),
                    Event::Attached { link, role, .. } => {
                        let answer = match role {
                            Role::Sender => consumer_answer(),
                            Role::Receiver => AttachAnswer {
                                max_message_size: self.message_bytes_max,
                                ..AttachAnswer::default()
                            },
                        };
                        self.server.accept_attach(*link, answer);
                    }
                    _ => {}
                }
                self.events.push(event);
            }
            if !any {
                return;
            }
        }
    }

    /// Sends a performative.
    pub(super) fn frame(&mut self, channel: u16, performative: &Performative) {
        self.payload(channel, performative, &[]);
    }

    /// Sends a performative with a payload.
    pub(super) fn payload(&mut self, channel: u16, performative: &Performative, payload: &[u8]) {
        let mut out = Vec::new();
        write_frame(&mut out, FrameKind::Amqp, channel, |out| {
            encode(out, performative);
            out.extend_from_slice(payload);
        });
        self.bytes(&out);
    }

    /// The link of the latest attach.
    pub(super) fn attached(&self) -> LinkHandle {
        let link = self.events.iter().rev().find_map(|event| match event {
            Event::Attached { link, .. } => Some(*link),
            _ => None,
        });
        link.unwrap()
    }

    /// What the server wrote since the last time.
    pub(super) fn take(&mut self) -> Vec<Seen> {
        seen(&written(&mut self.server, self.now))
    }
}

/// All that an engine writes to a socket that takes everything.
pub(super) fn written(connection: &mut Connection, now: Now) -> Vec<u8> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    while connection.poll_transmit(now, &mut out) {
        all.append(&mut out);
    }
    all
}

/// Parses what an engine wrote.
pub(super) fn seen(mut bytes: &[u8]) -> Vec<Seen> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        if bytes.starts_with(b"AMQP") {
            all.push(Seen::Header(Protocol::parse(&bytes[..8]).unwrap()));
            bytes = &bytes[8..];
            continue;
        }
        let header = FrameHeader::parse(bytes, usize::MAX).unwrap().unwrap();
        let body = &bytes[header.body..header.size];
        all.push(if body.is_empty() {
            Seen::Heartbeat
        } else if header.kind == FrameKind::Sasl {
            Seen::Sasl(SaslFrame::decode(body).unwrap())
        } else {
            let (performative, used) = decode(body).unwrap();
            Seen::Frame(
                header.channel,
                performative,
                Bytes::copy_from_slice(&body[used..]),
            )
        });
        bytes = &bytes[header.size..];
    }
    all
}

/// The performatives of what was seen, by name, with conditions of errors.
pub(super) fn names(seen: &[Seen]) -> Vec<String> {
    let with_error = |name: &str, error: &Option<crate::wire::performative::Error>| {
        let condition = error.as_ref().map(condition);
        condition.map_or_else(
            || name.to_owned(),
            |condition| format!("{name} {condition}"),
        )
    };
    let name = |seen: &Seen| match seen {
        Seen::Header(protocol) => format!("header {protocol:?}"),
        Seen::Sasl(_) => "sasl".to_owned(),
        Seen::Heartbeat => "heartbeat".to_owned(),
        Seen::Frame(_, Performative::Detach(detach), _) => with_error("detach", &detach.error),
        Seen::Frame(_, Performative::End(end), _) => with_error("end", &end.error),
        Seen::Frame(_, Performative::Close(close), _) => with_error("close", &close.error),
        Seen::Frame(_, performative, _) => performative.name().to_owned(),
    };
    seen.iter().map(name).collect()
}

/// The condition of an error, as text.
pub(super) fn condition(error: &crate::wire::performative::Error) -> String {
    let mut out = Vec::new();
    crate::wire::performative::DeliveryState::Rejected {
        error: Some(std::sync::Arc::new(error.clone())),
    }
    .write(&mut out);
    let mut described = crate::wire::Reader::new(&out).described().unwrap();
    let mut inner = described
        .value
        .list()
        .unwrap()
        .described()
        .unwrap()
        .unwrap();
    inner
        .value
        .list()
        .unwrap()
        .symbol()
        .unwrap()
        .unwrap()
        .to_owned()
}

pub(super) fn open_performative() -> Performative {
    use crate::wire::performative::{ChannelMax, MaxFrameSize, Open};
    Performative::Open(Box::new(Open {
        container_id: "raw".to_owned(),
        hostname: None,
        max_frame_size: MaxFrameSize(65_536),
        channel_max: ChannelMax(100),
        idle_time_out: None,
        offered_capabilities: None,
        desired_capabilities: None,
        properties: None,
    }))
}

pub(super) fn begin_performative() -> Performative {
    Performative::Begin(Box::new(Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 1000,
        outgoing_window: 1000,
        handle_max: Handle(255),
    }))
}

pub(super) fn attach_performative(mut attach: Attach, handle: u32) -> Performative {
    attach.handle = Handle(handle);
    Performative::Attach(Box::new(attach), Box::default())
}

pub(super) fn credit_performative(handle: u32, credit: u32) -> Performative {
    use crate::wire::performative::{Flow, LinkFlow};
    Performative::Flow(Flow {
        next_incoming_id: Some(Serial(0xffff_fffc)),
        incoming_window: 1000,
        next_outgoing_id: Serial(0),
        outgoing_window: 1000,
        link: Some(LinkFlow {
            handle,
            delivery_count: Some(Serial(0xffff_fffb)),
            link_credit: Some(credit),
            available: None,
            drain: false,
            acquires: false,
        }),
        echo: false,
    })
}

/// The only transfer of an unsettled delivery.
pub(super) fn transfer(handle: u32, delivery_id: u32) -> Transfer {
    Transfer {
        handle,
        delivery_id: Some(Serial(delivery_id)),
        tag_bytes: Some(4),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    }
}
