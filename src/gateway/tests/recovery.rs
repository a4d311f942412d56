//! Links of publishers that outlive their connection, on the raw wire. [AMQP 2.6.13, 3.5.6]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::support::{Scene, condition, message, options, sender};
use crate::access::Peer;
use crate::base::{ConnectionId, Lsn, Now, Serial};
use crate::gateway::{Gateway, GatewayOptions, Written};
use crate::wire::frame::{FrameHeader, FrameKind, begin_frame, end_frame};
use crate::wire::performative::{
    Attach, Begin, ChannelMax, DeliveryState, DeliveryTag, Detach, Disposition, Handle,
    MaxFrameSize, Open, Performative, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol,
    Target, TargetArchetype, Transfer, decode, encode,
};
use crate::wire::{Reader, Value};

/// A peer that writes single frames, and its connection.
struct Line {
    gateway: Gateway,
    input: BytesMut,
    /// What the broker wrote, but flows and what belongs to the connection.
    got: VecDeque<Performative>,
    is_cut: bool,
    /// It has no turns.
    is_stalled: bool,
}

/// A core and lines to it.
struct World {
    scene: Scene,
    lines: Vec<Line>,
    /// What is durable once somebody looks.
    durable: Lsn,
}

impl World {
    fn new() -> Self {
        let mut scene = Scene::with(options());
        scene.queue("q", &[("x-queue-type", Value::string("quorum"))]);
        Self {
            scene,
            lines: Vec::new(),
            durable: Lsn(u64::MAX),
        }
    }

    /// A line of this container with a session.
    fn line(&mut self, container: &str) -> usize {
        self.line_with(container, 1 << 16)
    }

    fn line_with(&mut self, container: &str, max_frame_size: u32) -> usize {
        let id = ConnectionId(1_000 + self.lines.len() as u64);
        let environment = Arc::clone(&self.scene.environment);
        let gateway = Gateway::new(self.scene.now, id, Peer::EMBEDDER, environment);
        self.lines.push(Line {
            gateway,
            input: BytesMut::new(),
            got: VecDeque::new(),
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

    fn begin(&mut self, line: usize, channel: u16) {
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

    fn write(&mut self, line: usize, channel: u16, performative: &Performative, payload: &[u8]) {
        let mut out = Vec::new();
        let frame = begin_frame(&mut out, FrameKind::Amqp, channel);
        encode(&mut out, performative);
        out.extend_from_slice(payload);
        end_frame(&mut out, frame);
        self.lines[line].input.extend_from_slice(&out);
    }

    /// Lets all lines have their turns until nothing moves.
    fn drive(&mut self) {
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

    fn turn(&mut self, index: usize) -> bool {
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
        let mut out = Vec::new();
        moved |= gateway.poll_transmit(now, &mut out);
        self.read(index, &out);
        moved | self.lines[index].gateway.has_work()
    }

    /// Does the work of a gateway, and hands out what comes of it.
    fn work(&mut self, index: usize) {
        let Scene {
            core,
            effects,
            now,
            hold,
            ..
        } = &mut self.scene;
        let batch = self.lines[index].gateway.batch();
        batch.apply(*now, core, effects, *hold);
        for (id, effect) in effects.outgoing.drain(..) {
            let line = usize::try_from(id.0 - 1_000).unwrap();
            self.lines[line].gateway.batch().push_effect(effect);
        }
        effects.clear();
    }

    /// Cuts a line: what it wrote and nobody read is lost. Its connection leaves in its next turns.
    fn cut(&mut self, line: usize) {
        let now = self.scene.now;
        let line = &mut self.lines[line];
        line.is_cut = true;
        line.input.clear();
        line.gateway.handle_disconnect(now, Written::All);
    }

    /// What the owner of a connection does after it is gone.
    fn leave(&mut self, index: usize) -> bool {
        let mut moved = false;
        while self.lines[index].gateway.has_work() {
            self.work(index);
            moved = true;
        }
        self.lines[index].gateway.keep_outcomes();
        moved | self.lines[index].gateway.has_work()
    }

    fn read(&mut self, line: usize, mut bytes: &[u8]) {
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
            let (performative, _) = decode(body).unwrap();
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
    fn attach(&mut self, line: usize, attach: &Attach) -> Box<Attach> {
        self.attach_on(line, 0, attach)
    }

    fn attach_on(&mut self, line: usize, channel: u16, attach: &Attach) -> Box<Attach> {
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

    fn transfer(&mut self, line: usize, transfer: &Transfer, body: &[u8]) {
        let payload = if transfer.resume || transfer.aborted {
            Vec::new()
        } else {
            message(body)
        };
        let frame = Performative::Transfer(transfer.clone());
        self.write(line, 0, &frame, &payload);
        self.drive();
    }

    fn send(&mut self, line: usize, id: u32, tag: &[u8]) {
        self.transfer(line, &transfer(id, tag), tag);
    }

    fn resume(&mut self, line: usize, id: u32, tag: &[u8]) {
        let resumed = Transfer {
            resume: true,
            ..transfer(id, tag)
        };
        self.transfer(line, &resumed, &[]);
    }

    /// The sender settles.
    fn settle(&mut self, line: usize, id: u32) {
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
    fn outcomes(&mut self, line: usize) -> Vec<(u32, DeliveryState)> {
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

    /// The condition of the next detach.
    fn detached(&mut self, line: usize) -> Option<(bool, String)> {
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
    fn ready(&mut self) -> u64 {
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

    fn pass(&mut self, ms: u64) {
        self.scene.now = Now::new(self.scene.now.mono.plus(ms), self.scene.now.wall);
    }
}

fn transfer(id: u32, tag: &[u8]) -> Transfer {
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
fn kept(unsettled: &[&[u8]]) -> Attach {
    lasting(Some("connection-close"), 60, unsettled)
}

fn lasting(policy: Option<&str>, timeout_s: u32, unsettled: &[&[u8]]) -> Attach {
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
fn unsettled(answer: &Attach) -> BTreeMap<Vec<u8>, Option<DeliveryState>> {
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
fn lifetime(answer: &Attach) -> (Option<String>, u32) {
    match answer.target.as_deref() {
        Some(TargetArchetype::Target(target)) => {
            let policy = target.expiry_policy.as_ref();
            (policy.map(|policy| policy.to_string()), target.timeout_s)
        }
        other => panic!("{other:?}"),
    }
}

fn told(policy: &str, timeout_s: u32) -> (Option<String>, u32) {
    (Some(policy.to_owned()), timeout_s)
}

#[test]
fn an_answer_names_the_expiry_that_is_in_force() {
    // [AMQP 3.5.6]
    let mut world = World::new();
    let nothing = (None, 0);
    for (name, policy, timeout_s, expect) in [
        (
            "a",
            Some("connection-close"),
            60,
            told("connection-close", 60),
        ),
        ("b", Some("session-end"), 7, told("session-end", 7)),
        ("c", None, 7, told("session-end", 7)),
        ("d", Some("link-detach"), 7, told("link-detach", 7)),
        ("e", Some("never"), 0, told("connection-close", 86_400)),
        (
            "f",
            Some("connection-close"),
            u32::MAX,
            told("connection-close", 86_400),
        ),
        ("g", Some("connection-close"), 0, nothing.clone()),
        ("h", Some("until-dawn"), 60, nothing.clone()),
    ] {
        let line = world.line("c");
        let attach = Attach {
            name: name.to_owned(),
            ..lasting(policy, timeout_s, &[])
        };
        let answer = world.attach(line, &attach);
        assert_eq!(lifetime(&answer), expect, "{policy:?} {timeout_s}");
    }
    for (case, attach) in [
        (
            "the receiver settles",
            Attach {
                rcv_settle_mode: ReceiverSettleMode::First,
                ..kept(&[])
            },
        ),
        (
            "all is sent settled",
            Attach {
                snd_settle_mode: SenderSettleMode::Settled,
                ..kept(&[])
            },
        ),
    ] {
        let line = world.line("c");
        assert_eq!(lifetime(&world.attach(line, &attach)), nothing, "{case}");
    }
    let line = world.line("");
    let answer = world.attach(line, &kept(&[]));
    assert_eq!(lifetime(&answer), nothing, "a container without a name");
}

#[test]
fn a_strict_broker_keeps_no_link() {
    let mut world = World::new();
    world.scene = Scene::with(GatewayOptions {
        link_recovery: false,
        ..options()
    });
    world.scene.queue("q", &[]);
    let line = world.line("c");
    assert_eq!(lifetime(&world.attach(line, &kept(&[]))), (None, 0));
}

#[test]
fn an_outcome_that_the_line_lost_is_told_in_the_map_and_when_it_is_resumed() {
    // [AMQP 2.6.13]
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.send(first, 0, b"a");
    assert_eq!(world.outcomes(first), [(0, DeliveryState::Accepted)]);
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"a"]));
    let expect = BTreeMap::from([(b"a".to_vec(), Some(DeliveryState::Accepted))]);
    assert_eq!(unsettled(&answer), expect);
    world.resume(second, 0, b"a");
    assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
    world.settle(second, 0);
    assert_eq!(world.ready(), 1);
    // It is forgotten now, also if the publisher forgot that it settled it.
    world.cut(second);
    let third = world.line("c");
    let answer = world.attach(third, &kept(&[b"a"]));
    assert_eq!(unsettled(&answer), BTreeMap::new());
}

#[test]
fn a_message_that_did_not_arrive_whole_is_in_no_map_and_is_sent_again() {
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    let begun = Transfer {
        more: true,
        ..transfer(0, b"a")
    };
    world.transfer(first, &begun, b"half");
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"a"]));
    assert_eq!(unsettled(&answer), BTreeMap::new());
    world.send(second, 0, b"a");
    assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn an_outcome_that_is_not_durable_is_told_once_it_is() {
    let mut world = World::new();
    world.durable = Lsn(0);
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.send(first, 0, b"a");
    assert_eq!(world.outcomes(first), []);
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"a"]));
    assert_eq!(unsettled(&answer), BTreeMap::from([(b"a".to_vec(), None)]));
    world.resume(second, 5, b"a");
    assert_eq!(world.outcomes(second), []);
    world.durable = Lsn(u64::MAX);
    world.drive();
    assert_eq!(world.outcomes(second), [(5, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn an_outcome_that_the_old_connection_learns_late_is_told_on_the_new_one() {
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    // Its message is read, and not yet with the core.
    let frame = Performative::Transfer(transfer(0, b"a"));
    world.write(first, 0, &frame, &message(b"a"));
    let (now, line) = (world.scene.now, &mut world.lines[first]);
    line.gateway.handle_bytes(now, &mut line.input);
    world.cut(first);
    world.lines[first].is_stalled = true;
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"a"]));
    assert_eq!(unsettled(&answer), BTreeMap::from([(b"a".to_vec(), None)]));
    world.resume(second, 3, b"a");
    assert_eq!(world.outcomes(second), []);
    world.lines[first].is_stalled = false;
    world.drive();
    assert_eq!(world.outcomes(second), [(3, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn the_older_end_of_a_link_that_is_attached_twice_loses_it_and_publishes_nothing_more() {
    // [AMQP 2.6.1]
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.lines[first].is_stalled = true;
    let second = world.line("c");
    world.attach(second, &kept(&[b"a"]));
    // On its way when the link was attached elsewhere.
    world.write(
        first,
        0,
        &Performative::Transfer(transfer(0, b"a")),
        &message(b"a"),
    );
    world.lines[first].is_stalled = false;
    world.drive();
    let stolen = (true, "amqp:link:stolen".to_owned());
    assert_eq!(world.detached(first), Some(stolen));
    assert_eq!(world.outcomes(first), []);
    assert_eq!(world.ready(), 0);
    world.send(second, 0, b"a");
    assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn a_link_that_is_attached_again_in_another_session_keeps_its_deliveries() {
    let mut world = World::new();
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    world.send(line, 0, b"a");
    world.begin(line, 1);
    let answer = world.attach_on(line, 1, &kept(&[b"a"]));
    let expect = BTreeMap::from([(b"a".to_vec(), Some(DeliveryState::Accepted))]);
    assert_eq!(unsettled(&answer), expect);
    let stolen = (true, "amqp:link:stolen".to_owned());
    assert_eq!(world.detached(line), Some(stolen));
}

#[test]
fn what_the_publisher_has_settled_or_never_heard_of_is_forgotten_at_its_attach() {
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    for (id, tag) in [b"a", b"b", b"c"].iter().enumerate() {
        world.send(first, u32::try_from(id).unwrap(), *tag);
    }
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"b", b"x"]));
    let left: Vec<_> = unsettled(&answer).into_keys().collect();
    assert_eq!(left, [b"b".to_vec()]);
    // The tags of the others may be used again.
    world.send(second, 0, b"a");
    assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 4);
}

#[test]
fn an_incomplete_map_of_the_publisher_makes_nothing_forgotten() {
    // [AMQP 2.7.3]
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.send(first, 0, b"a");
    world.send(first, 1, b"b");
    world.cut(first);
    let second = world.line("c");
    let attach = Attach {
        incomplete_unsettled: true,
        ..kept(&[b"b"])
    };
    let answer = world.attach(second, &attach);
    let left: Vec<_> = unsettled(&answer).into_keys().collect();
    assert_eq!(left, [b"a".to_vec(), b"b".to_vec()]);
}

#[test]
fn a_map_that_does_not_fit_a_frame_is_told_in_parts_and_meanwhile_nothing_new_is_taken() {
    // [AMQP 2.7.3]
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    let tags: Vec<[u8; 32]> = (0..60).map(|number| [number; 32]).collect();
    for (id, tag) in (0..).zip(&tags) {
        world.send(first, id, tag);
    }
    world.cut(first);
    let mut left: Vec<&[u8]> = tags.iter().map(|tag| &tag[..]).collect();
    let mut rounds = 0;
    while !left.is_empty() {
        rounds += 1;
        let line = world.line_with("c", 512);
        let answer = world.attach(line, &kept(&left));
        let some = unsettled(&answer);
        assert!(!some.is_empty());
        assert_eq!(answer.incomplete_unsettled, some.len() < left.len());
        for (id, tag) in (0..).zip(some.keys()) {
            world.resume(line, id, tag);
            world.settle(line, id);
        }
        left.retain(|tag| !some.contains_key(*tag));
        if rounds == 1 {
            world.send(line, 100, b"new");
            let refused = (true, "amqp:not-allowed".to_owned());
            assert_eq!(world.detached(line), Some(refused));
            // That closed it: nothing of it is kept.
            return;
        }
    }
    panic!("all fitted");
}

#[test]
fn a_delivery_that_is_not_known_and_is_resumed_is_ignored() {
    // [AMQP 2.7.5]
    let mut world = World::new();
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    world.resume(line, 0, b"a");
    assert_eq!(world.outcomes(line), []);
    world.send(line, 1, b"b");
    assert_eq!(world.outcomes(line), [(1, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn a_tag_that_is_not_settled_is_not_taken_for_another_message() {
    let mut world = World::new();
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    world.send(line, 0, b"a");
    world.send(line, 1, b"a");
    let refused = (true, "amqp:not-allowed".to_owned());
    assert_eq!(world.detached(line), Some(refused));
    assert_eq!(world.ready(), 1);
}

#[test]
fn a_resumed_delivery_that_is_settled_or_aborted_with_it_is_forgotten() {
    for (case, last) in [
        (
            "settled",
            Transfer {
                settled: Some(true),
                ..transfer(0, b"a")
            },
        ),
        (
            "aborted",
            Transfer {
                aborted: true,
                ..transfer(0, b"a")
            },
        ),
    ] {
        let mut world = World::new();
        let first = world.line("c");
        world.attach(first, &kept(&[]));
        world.send(first, 0, b"a");
        world.cut(first);
        let second = world.line("c");
        world.attach(second, &kept(&[b"a"]));
        let last = Transfer {
            resume: true,
            ..last
        };
        world.transfer(second, &last, &[]);
        assert_eq!(world.outcomes(second), [], "{case}");
        world.cut(second);
        let third = world.line("c");
        let answer = world.attach(third, &kept(&[b"a"]));
        assert_eq!(unsettled(&answer), BTreeMap::new(), "{case}");
        assert_eq!(world.ready(), 1, "{case}");
    }
}

#[test]
fn a_closed_link_is_forgotten_and_a_detached_one_is_kept() {
    for (closed, expect) in [(true, 0), (false, 1)] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &kept(&[]));
        world.send(line, 0, b"a");
        let detach = Detach {
            handle: Handle(0),
            closed,
            error: None,
        };
        world.write(line, 0, &Performative::Detach(Box::new(detach)), &[]);
        world.drive();
        let answer = world.attach(line, &kept(&[b"a"]));
        assert_eq!(unsettled(&answer).len(), expect, "closed {closed}");
    }
}

#[test]
fn a_link_is_forgotten_when_its_time_is_over_which_begins_as_its_policy_says() {
    // [AMQP 3.5.6]
    for (policy, end, expect) in [
        ("link-detach", "detach", 0),
        ("session-end", "detach", 1),
        ("session-end", "end", 0),
        ("connection-close", "end", 1),
        ("connection-close", "cut", 0),
    ] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &lasting(Some(policy), 10, &[]));
        world.send(line, 0, b"a");
        match end {
            "detach" => {
                let (handle, closed, error) = (Handle(0), false, None);
                let detach = Detach {
                    handle,
                    closed,
                    error,
                };
                world.write(line, 0, &Performative::Detach(Box::new(detach)), &[]);
            }
            "end" => {
                let end = crate::wire::performative::End { error: None };
                world.write(line, 0, &Performative::End(Box::new(end)), &[]);
            }
            _ => world.cut(line),
        }
        world.drive();
        for (ms, expect) in [(9_000, 1), (2_000, expect)] {
            world.pass(ms);
            world.scene.environment.expire_links(world.scene.now.mono);
            let links = world.scene.environment.resumable.len();
            assert_eq!(links, expect, "{policy}, {end}");
        }
    }
}

#[test]
fn links_of_a_user_or_vhost_that_is_deleted_are_forgotten() {
    use crate::broker::registry::RegistryFact;
    for deleted in [
        RegistryFact::VhostDeleted {
            name: crate::broker::registry::DEFAULT_VHOST.into(),
        },
        RegistryFact::UserDeleted {
            name: "embedder".into(),
        },
    ] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &kept(&[]));
        world.send(line, 0, b"a");
        let user = world.lines[line].gateway.user().cloned();
        let deleted = match (deleted, user) {
            (RegistryFact::UserDeleted { .. }, Some(name)) => RegistryFact::UserDeleted { name },
            (deleted, _) => deleted,
        };
        assert_eq!(world.scene.environment.resumable.len(), 1);
        world.scene.environment.change_registry([deleted]);
        assert_eq!(world.scene.environment.resumable.len(), 0);
    }
}

#[test]
fn links_beyond_those_of_a_user_end_with_their_connection() {
    use crate::base::limits::RESUMABLE_LINKS_USER_MAX;
    let mut world = World::new();
    let line = world.line("c");
    let mut promised = 0;
    for number in 0..RESUMABLE_LINKS_USER_MAX + 2 {
        let attach = Attach {
            name: format!("out {number}"),
            ..kept(&[])
        };
        let answer = world.attach(line, &attach);
        promised += usize::from(lifetime(&answer) != (None, 0));
        let (handle, closed, error) = (Handle(0), false, None);
        let detach = Detach {
            handle,
            closed,
            error,
        };
        world.write(line, 0, &Performative::Detach(Box::new(detach)), &[]);
        world.drive();
        world.lines[line].got.clear();
    }
    assert_eq!(promised, RESUMABLE_LINKS_USER_MAX);
}

#[test]
fn a_publisher_that_settles_nothing_gets_no_credit_beyond_the_bound() {
    use crate::base::limits::RESUMABLE_DELIVERIES_MAX;
    let mut world = World::new();
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    let before = world.scene.environment.kept().bytes();
    let mut sent = 0;
    while world.detached(line).is_none() {
        world.send(line, sent, &sent.to_be_bytes());
        sent += 1;
        assert!(sent <= RESUMABLE_DELIVERIES_MAX + 1);
        world.lines[line]
            .got
            .retain(|got| !matches!(got, Performative::Disposition(_)));
    }
    assert_eq!(sent, RESUMABLE_DELIVERIES_MAX + 1);
    let kept = world.scene.environment.kept().bytes();
    assert!(
        kept <= before,
        "a link that is closed takes nothing: {kept} after {before}"
    );
}

/// What a random publisher does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    /// The sender settles what it was told.
    Settle,
    /// The line is cut, this many bytes of what was written behind it are lost.
    Cut,
    /// So much becomes durable.
    Durable,
    /// The old connections have their turns.
    Late,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Send),
        2 => Just(Step::Settle),
        2 => Just(Step::Cut),
        1 => Just(Step::Durable),
        1 => Just(Step::Late),
    ]
}

/// A publisher on a line that is cut: what it has not settled, and what it was told.
struct Publisher {
    world: World,
    line: usize,
    next_id: u32,
    next_tag: u32,
    /// Tags that are not settled, with the delivery-id on the present line.
    open: BTreeMap<u32, Option<u32>>,
    told: Vec<u32>,
}

impl Publisher {
    fn new() -> Self {
        let mut world = World::new();
        world.durable = Lsn(0);
        let line = world.line("c");
        world.attach(line, &kept(&[]));
        Self {
            world,
            line,
            next_id: 0,
            next_tag: 0,
            open: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    fn take(&mut self) {
        for (id, state) in self.world.outcomes(self.line) {
            assert_eq!(state, DeliveryState::Accepted);
            let told = self.open.iter().find(|(_, here)| **here == Some(id));
            let (tag, _) = told.expect("it was sent on this line and is not settled");
            if !self.told.contains(tag) {
                self.told.push(*tag);
            }
        }
    }

    fn write(&mut self, tag: u32, resume: bool) {
        let id = self.next_id;
        self.next_id += 1;
        self.open.insert(tag, Some(id));
        let frame = Transfer {
            resume,
            ..transfer(id, &tag.to_be_bytes())
        };
        let payload = if resume {
            Vec::new()
        } else {
            message(&tag.to_be_bytes())
        };
        let frame = Performative::Transfer(frame);
        self.world.write(self.line, 0, &frame, &payload);
    }

    fn cut(&mut self, reads: bool) {
        let (now, line) = (self.world.scene.now, &mut self.world.lines[self.line]);
        if reads {
            line.gateway.handle_bytes(now, &mut line.input);
        }
        self.world.cut(self.line);
        self.world.lines[self.line].is_stalled = true;
        self.line = self.world.line("c");
        self.next_id = 0;
        let tags: Vec<[u8; 4]> = self.open.keys().map(|tag| tag.to_be_bytes()).collect();
        let tags: Vec<&[u8]> = tags.iter().map(|tag| &tag[..]).collect();
        let answer = self.world.attach(self.line, &kept(&tags));
        let theirs = unsettled(&answer);
        for tag in self.open.keys().copied().collect::<Vec<_>>() {
            let is_theirs = theirs.contains_key(&tag.to_be_bytes()[..]);
            self.write(tag, is_theirs);
        }
        self.world.drive();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send if self.open.len() < 40 => {
                let tag = self.next_tag;
                self.next_tag += 1;
                self.write(tag, false);
                if tag % 3 == 0 {
                    self.world.drive();
                }
            }
            Step::Send | Step::Settle => {
                self.world.drive();
                self.take();
                for tag in std::mem::take(&mut self.told) {
                    if let Some(Some(id)) = self.open.remove(&tag) {
                        self.world.settle(self.line, id);
                    }
                }
            }
            Step::Cut => {
                self.take();
                self.told.clear(); // what it was told it forgets again
                self.cut(self.next_tag % 2 == 0);
            }
            Step::Durable => self.world.durable = Lsn(self.world.durable.0 + 3),
            Step::Late => {
                for line in &mut self.world.lines {
                    line.is_stalled = false;
                }
                self.world.drive();
            }
        }
    }

    /// Nothing is in the way any more: all is told and settled.
    fn finish(&mut self) {
        self.world.durable = Lsn(u64::MAX);
        self.step(Step::Late);
        for _ in 0..3 {
            self.step(Step::Settle);
        }
        assert_eq!(self.open, BTreeMap::new(), "all was told");
        assert_eq!(self.world.ready(), u64::from(self.next_tag), "once each");
        assert_eq!(self.world.detached(self.line), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn publisher_whose_line_is_cut_at_any_time_publishes_exactly_once(steps in prop::collection::vec(step(), 1..80)) {
        let mut publisher = Publisher::new();
        for step in steps {
            publisher.step(step);
        }
        publisher.finish();
    }
}
