//! A core, and peers that write single frames.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::super::support::{BodyStore, Scene, condition, message, options, sender};
use crate::access::Peer;
use crate::base::{ConnectionId, Lsn, Now, Serial};
use crate::gateway::{Gateway, Written};
use crate::wire::frame::{FrameHeader, FrameKind, begin_frame, end_frame};
use crate::wire::performative::{
    Attach, Begin, ChannelMax, DeliveryState, DeliveryTag, Detach, Disposition, Handle,
    MaxFrameSize, Open, Performative, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol,
    Target, TargetArchetype, Transfer, decode, encode,
};
use crate::wire::{Reader, Value};

/// A peer that writes single frames, and its connection.
pub(super) struct Line {
    pub(super) gateway: Gateway,
    pub(super) input: BytesMut,
    /// What the broker wrote, but flows and what belongs to the connection.
    pub(super) got: VecDeque<Performative>,
    /// The first frames of deliveries to it.
    pub(super) transfers: VecDeque<Transfer>,
    /// The bytes of these deliveries.
    pub(super) payload: Vec<u8>,
    pub(super) is_cut: bool,
    /// It has no turns.
    pub(super) is_stalled: bool,
}

/// A core and lines to it.
pub(super) struct World {
    pub(super) scene: Scene,
    pub(super) lines: Vec<Line>,
    /// What is durable once somebody looks.
    pub(super) durable: Lsn,
    bodies: Option<Arc<BodyStore>>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::of(Scene::with(options()))
    }

    /// One that has a journal for large bodies.
    pub(super) fn with_body_store() -> (Self, Arc<BodyStore>) {
        let (scene, bodies) = Scene::with_body_store();
        let mut world = Self::of(scene);
        world.bodies = Some(Arc::clone(&bodies));
        (world, bodies)
    }

    pub(super) fn of(mut scene: Scene) -> Self {
        scene.queue("q", &[("x-queue-type", Value::string("quorum"))]);
        Self {
            scene,
            lines: Vec::new(),
            durable: Lsn(u64::MAX),
            bodies: None,
        }
    }

    /// A line of this container with a session.
    pub(super) fn line(&mut self, container: &str) -> usize {
        self.line_with(container, 1 << 16)
    }

    pub(super) fn line_with(&mut self, container: &str, max_frame_size: u32) -> usize {
        let id = ConnectionId(1_000 + self.lines.len() as u64);
        let environment = Arc::clone(&self.scene.environment);
        let gateway = Gateway::new(self.scene.now, id, Peer::EMBEDDER, environment);
        self.lines.push(Line {
            gateway,
            input: BytesMut::new(),
            got: VecDeque::new(),
            transfers: VecDeque::new(),
            payload: Vec::new(),
            is_cut: false,
            is_stalled: false,
        });
        let line = self.lines.len() - 1;
        self.lines[line].input.extend_from_slice(b"AMQP\0\x01\0\0");
        let open = Open {
            container_id: container.to_owned(),
            max_frame_size: MaxFrameSize(max_frame_size),
            channel_max: ChannelMax(10),
            hostname: None,
            idle_time_out: None,
            offered_capabilities: None,
            desired_capabilities: None,
            properties: None,
        };
        self.write(line, 0, &Performative::Open(Box::new(open)), &[]);
        self.begin(line, 0);
        line
    }

    pub(super) fn begin(&mut self, line: usize, channel: u16) {
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 2_048,
            outgoing_window: 2_048,
            handle_max: Handle(100),
        };
        self.write(line, channel, &Performative::Begin(Box::new(begin)), &[]);
        self.drive();
    }

    pub(super) fn write(
        &mut self,
        line: usize,
        channel: u16,
        performative: &Performative,
        payload: &[u8],
    ) {
        let mut out = Vec::new();
        let frame = begin_frame(&mut out, FrameKind::Amqp, channel);
        encode(&mut out, performative);
        out.extend_from_slice(payload);
        end_frame(&mut out, frame);
        self.lines[line].input.extend_from_slice(&out);
    }

    /// Lets all lines have their turns until nothing moves.
    pub(super) fn drive(&mut self) {
        for _ in 0..1_000 {
            let mut moved = false;
            for line in 0..self.lines.len() {
                moved |= self.turn(line);
            }
            if !moved {
                return;
            }
        }
        panic!("they never become quiet");
    }

    pub(super) fn turn(&mut self, index: usize) -> bool {
        let (now, durable) = (self.scene.now, self.durable);
        let line = &mut self.lines[index];
        if line.is_stalled {
            return false;
        }
        if line.is_cut {
            return self.leave(index);
        }
        let Line { gateway, input, .. } = line;
        gateway.handle_bytes(now, input);
        let mut moved = false;
        while self.lines[index].gateway.has_work() {
            moved = true;
            self.work(index);
            let gateway = &mut self.lines[index].gateway;
            gateway.handle_answers(now);
            gateway.handle_effects(now, durable, 0);
        }
        let gateway = &mut self.lines[index].gateway;
        gateway.handle_effects(now, durable, 0);
        while let Some(fetch) = gateway.poll_fetch() {
            let bodies = self.bodies.as_ref().unwrap();
            let piece = bodies.piece(*fetch.body, fetch.piece);
            gateway.handle_fetched(now, fetch.stream, piece);
            moved = true;
        }
        let mut out = Vec::new();
        moved |= gateway.poll_transmit(now, &mut out);
        self.read(index, &out);
        moved | self.lines[index].gateway.has_work()
    }

    /// Does the work of a gateway, and hands out what comes of it.
    pub(super) fn work(&mut self, index: usize) {
        let Scene {
            core,
            effects,
            now,
            hold,
            ..
        } = &mut self.scene;
        let batch = self.lines[index].gateway.batch();
        batch.apply(*now, core, effects, *hold);
        self.hand_out();
    }

    fn hand_out(&mut self) {
        let effects = &mut self.scene.effects;
        for (id, effect) in effects.outgoing.drain(..) {
            let line = usize::try_from(id.0 - 1_000).unwrap();
            self.lines[line].gateway.batch().push_effect(effect);
        }
        effects.clear();
    }

    /// Cuts a line: what it wrote and nobody read is lost. Its connection leaves in its next turns.
    pub(super) fn cut(&mut self, line: usize) {
        let now = self.scene.now;
        let line = &mut self.lines[line];
        line.is_cut = true;
        line.input.clear();
        line.gateway.handle_disconnect(now, Written::All);
    }

    /// What the owner of a connection does after it is gone.
    pub(super) fn leave(&mut self, index: usize) -> bool {
        let mut moved = false;
        while self.lines[index].gateway.has_work() {
            self.work(index);
            moved = true;
        }
        self.lines[index].gateway.keep_outcomes();
        moved | self.lines[index].gateway.has_work()
    }

    pub(super) fn read(&mut self, line: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if let Some(rest) = bytes.strip_prefix(b"AMQP\0\x01\0\0") {
                bytes = rest;
                continue;
            }
            let header = FrameHeader::parse(bytes, 1 << 20).unwrap().unwrap();
            let body = &bytes[header.body..header.size];
            bytes = &bytes[header.size..];
            if body.is_empty() {
                continue;
            }
            let (performative, length) = decode(body).unwrap();
            if let Performative::Transfer(transfer) = performative {
                self.lines[line].payload.extend_from_slice(&body[length..]);
                self.lines[line].transfers.push_back(transfer);
                continue;
            }
            let is_of_links = matches!(
                performative,
                Performative::Attach(..)
                    | Performative::Disposition(_)
                    | Performative::Detach(_)
                    | Performative::Close(_)
                    | Performative::End(_)
            );
            if is_of_links {
                self.lines[line].got.push_back(performative);
            }
        }
    }

    /// Attaches a publisher; returns the answer.
    pub(super) fn attach(&mut self, line: usize, attach: &Attach) -> Box<Attach> {
        self.attach_on(line, 0, attach)
    }

    pub(super) fn attach_on(&mut self, line: usize, channel: u16, attach: &Attach) -> Box<Attach> {
        let frame = Performative::Attach(Box::new(attach.clone()), Box::default());
        self.write(line, channel, &frame, &[]);
        self.drive();
        let got = &mut self.lines[line].got;
        let at = got
            .iter()
            .position(|it| matches!(it, Performative::Attach(..)));
        match at.and_then(|at| got.remove(at)) {
            Some(Performative::Attach(answer, _)) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn transfer(&mut self, line: usize, transfer: &Transfer, body: &[u8]) {
        let payload = if transfer.resume || transfer.aborted {
            Vec::new()
        } else {
            message(body)
        };
        let frame = Performative::Transfer(transfer.clone());
        self.write(line, 0, &frame, &payload);
        self.drive();
    }

    /// Writes a transfer with these bytes of a message.
    pub(super) fn part(&mut self, line: usize, transfer: &Transfer, bytes: &[u8]) {
        self.write(line, 0, &Performative::Transfer(transfer.clone()), bytes);
        self.drive();
    }

    pub(super) fn send(&mut self, line: usize, id: u32, tag: &[u8]) {
        self.transfer(line, &transfer(id, tag), tag);
    }

    pub(super) fn resume(&mut self, line: usize, id: u32, tag: &[u8]) {
        let resumed = Transfer {
            resume: true,
            ..transfer(id, tag)
        };
        self.transfer(line, &resumed, &[]);
    }

    /// The sender settles.
    pub(super) fn settle(&mut self, line: usize, id: u32) {
        let settled = Disposition {
            role: Role::Sender,
            first: Serial(id),
            last: Serial(id),
            settled: true,
            state: None,
        };
        self.write(line, 0, &Performative::Disposition(settled), &[]);
        self.drive();
    }

    /// The outcomes that a line was told, by delivery-id.
    pub(super) fn outcomes(&mut self, line: usize) -> Vec<(u32, DeliveryState)> {
        let mut outcomes = Vec::new();
        self.lines[line].got.retain(|got| match got {
            Performative::Disposition(told) => {
                assert!(!told.settled, "the sender settles: {told:?}");
                for id in told.first.0..=told.last.0 {
                    outcomes.push((id, told.state.clone().unwrap()));
                }
                false
            }
            _ => true,
        });
        outcomes
    }

    /// Detaches the link, or answers that the broker did.
    pub(super) fn detach(&mut self, line: usize, closed: bool) {
        let detach = Detach {
            handle: Handle(0),
            closed,
            error: None,
        };
        self.write(line, 0, &Performative::Detach(Box::new(detach)), &[]);
        self.drive();
    }

    /// The condition of the next detach.
    pub(super) fn detached(&mut self, line: usize) -> Option<(bool, String)> {
        let got = &mut self.lines[line].got;
        let at = got
            .iter()
            .position(|it| matches!(it, Performative::Detach(_)))?;
        match got.remove(at)? {
            Performative::Detach(detach) => Some((detach.closed, condition(detach.error.as_ref()))),
            _ => None,
        }
    }

    /// Messages in the queue.
    pub(super) fn ready(&mut self) -> u64 {
        use crate::broker::{Command, QueueCommand, Reply};
        let name = "q".into();
        let get = Command::Queue(QueueCommand::Get { name });
        let Scene {
            core, effects, now, ..
        } = &mut self.scene;
        match core.apply(*now, get, effects) {
            Reply::Queue(info) => info.messages_ready,
            other => panic!("{other:?}"),
        }
    }

    /// Deletes the queue, and lets the gateways tell it.
    pub(super) fn delete_queue(&mut self) {
        use crate::broker::{Command, QueueCommand, Reply};
        let delete = QueueCommand::Delete {
            connection: None,
            name: "q".into(),
            if_unused: false,
            if_empty: false,
        };
        let Scene {
            core, effects, now, ..
        } = &mut self.scene;
        let reply = core.apply(*now, Command::Queue(delete), effects);
        assert!(matches!(reply, Reply::QueueDeleted { .. }), "{reply:?}");
        self.hand_out();
        self.drive();
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.scene.now = Now::new(self.scene.now.mono.plus(ms), self.scene.now.wall);
    }
}

pub(super) fn transfer(id: u32, tag: &[u8]) -> Transfer {
    Transfer {
        handle: 0,
        delivery_id: Some(Serial(id)),
        tag_bytes: Some(tag.len()),
        tag: DeliveryTag::new(tag).unwrap(),
        message_format: Some(0),
        ..Transfer::default()
    }
}

/// The attach of a publisher that is to be kept for a minute, with these deliveries unsettled.
pub(super) fn kept(unsettled: &[&[u8]]) -> Attach {
    lasting(Some("connection-close"), 60, unsettled)
}

pub(super) fn lasting(policy: Option<&str>, timeout_s: u32, unsettled: &[&[u8]]) -> Attach {
    let mut map = Vec::new();
    let compound = crate::wire::begin_map(&mut map);
    for tag in unsettled {
        crate::wire::write_binary(&mut map, tag);
        crate::wire::write_null(&mut map);
    }
    crate::wire::end(&mut map, compound, 2 * unsettled.len());
    Attach {
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(Box::new(Source::default())),
        target: Some(Box::new(TargetArchetype::Target(Target {
            address: Some("/queues/q".to_owned()),
            expiry_policy: policy.map(Symbol::from),
            timeout_s,
            ..Target::default()
        }))),
        unsettled: (!unsettled.is_empty()).then(|| Bytes::from(map)),
        ..sender("out", None)
    }
}

/// What an answer says of unsettled deliveries: tag and state.
pub(super) fn unsettled(answer: &Attach) -> BTreeMap<Vec<u8>, Option<DeliveryState>> {
    let Some(map) = &answer.unsettled else {
        return BTreeMap::new();
    };
    let pairs = Reader::new(map).map().unwrap();
    pairs
        .map(|pair| {
            let pair = pair.unwrap();
            let tag = Reader::new(pair.key).binary().unwrap().to_vec();
            (tag, DeliveryState::decode(pair.value).ok())
        })
        .collect()
}

/// Policy and timeout of the target in an answer.
pub(super) fn lifetime(answer: &Attach) -> (Option<String>, u32) {
    match answer.target.as_deref() {
        Some(TargetArchetype::Target(target)) => {
            let policy = target.expiry_policy.as_ref();
            (policy.map(ToString::to_string), target.timeout_s)
        }
        other => panic!("{other:?}"),
    }
}

pub(super) fn told(policy: &str, timeout_s: u32) -> (Option<String>, u32) {
    (Some(policy.to_owned()), timeout_s)
}
