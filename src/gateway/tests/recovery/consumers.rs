//! Links of consumers that outlive their connection, on the raw wire. [AMQP 2.6.13, 3.5.6]

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::support::receiver;
use super::world::{World, lasting, unsettled};
use crate::base::{Lsn, Serial};
use crate::wire::performative::{
    Attach, DeliveryState, Disposition, DistributionMode, Flow, LinkFlow, Performative,
    ReceiverSettleMode, Role, SenderSettleMode, Symbol, Transfer,
};

pub(super) type Map = BTreeMap<Vec<u8>, Option<DeliveryState>>;

/// The attach of a consumer that is to be kept for a minute, with these deliveries unsettled.
pub(super) fn kept(map: &Map) -> Attach {
    lasting_for(Some("connection-close"), 60, map)
}

pub(super) fn lasting_for(policy: Option<&str>, timeout_s: u32, map: &Map) -> Attach {
    let mut attach = receiver("in", "/queues/q");
    let source = attach.source.as_mut().unwrap();
    (source.expiry_policy, source.timeout_s) = (policy.map(Symbol::from), timeout_s);
    let mut encoded = Vec::new();
    let compound = crate::wire::begin_map(&mut encoded);
    for (tag, state) in map {
        crate::wire::write_binary(&mut encoded, tag);
        match state {
            Some(state) => state.write(&mut encoded),
            None => crate::wire::write_null(&mut encoded),
        }
    }
    crate::wire::end(&mut encoded, compound, 2 * map.len());
    Attach {
        rcv_settle_mode: ReceiverSettleMode::Second,
        unsettled: (!map.is_empty()).then(|| Bytes::from(encoded)),
        ..attach
    }
}

/// Policy and timeout of the source in an answer.
fn lifetime(answer: &Attach) -> (Option<String>, u32) {
    let source = answer.source.as_deref().unwrap();
    let policy = source.expiry_policy.as_ref().map(ToString::to_string);
    (policy, source.timeout_s)
}

/// Publishes so many messages.
pub(super) fn publish(world: &mut World, count: u32) {
    let line = world.line("p");
    world.attach(line, &lasting(None, 0, &[]));
    for number in 0..count {
        world.send(line, number, &number.to_be_bytes());
    }
    world.cut(line);
    world.drive();
}

/// Gives credit up to `limit` deliveries since the attach; what came.
pub(super) fn take(world: &mut World, line: usize, limit: u32) -> Vec<Transfer> {
    give(world, line, limit);
    world.lines[line].transfers.drain(..).collect()
}

pub(super) fn give(world: &mut World, line: usize, limit: u32) {
    let flow = Flow {
        next_incoming_id: Some(Serial(0)),
        incoming_window: 10_000,
        next_outgoing_id: Serial(0),
        outgoing_window: 10_000,
        link: Some(LinkFlow {
            handle: 0,
            delivery_count: None,
            link_credit: Some(limit),
            available: None,
            drain: false,
            acquires: false,
        }),
        echo: false,
    };
    world.write(line, 0, &Performative::Flow(flow), &[]);
    world.drive();
}

pub(super) fn tag(transfer: &Transfer) -> Vec<u8> {
    transfer.tag.as_slice().to_vec()
}

pub(super) fn dispose(
    world: &mut World,
    line: usize,
    id: u32,
    settled: bool,
    state: DeliveryState,
) {
    let disposition = Disposition {
        role: Role::Receiver,
        first: Serial(id),
        last: Serial(id),
        settled,
        state: Some(state),
    };
    world.write(line, 0, &Performative::Disposition(disposition), &[]);
}

/// Delivery-ids that the broker settled.
fn settled(world: &mut World, line: usize) -> Vec<u32> {
    let mut ids = Vec::new();
    world.lines[line].got.retain(|got| match got {
        Performative::Disposition(told) if told.role == Role::Sender => {
            assert!(told.settled, "{told:?}");
            ids.extend(told.first.0..=told.last.0);
            false
        }
        _ => true,
    });
    ids
}

#[test]
fn the_answer_to_a_consumer_names_the_expiry_that_is_in_force() {
    let mut world = World::new();
    let none = (None, 0);
    let some = |policy: &str, timeout_s| (Some(policy.to_owned()), timeout_s);
    let map = Map::new();
    for (policy, timeout_s, expect) in [
        (Some("connection-close"), 60, some("connection-close", 60)),
        (None, 7, some("session-end", 7)),
        (Some("link-detach"), 7, some("link-detach", 7)),
        (Some("never"), 0, some("connection-close", 86_400)),
        (Some("session-end"), 0, none.clone()),
        (Some("until-dawn"), 60, none.clone()),
    ] {
        let line = world.line("c");
        let answer = world.attach(line, &lasting_for(policy, timeout_s, &map));
        assert_eq!(lifetime(&answer), expect, "{policy:?} {timeout_s}");
        world.cut(line);
        world.drive();
    }
    let line = world.line("c");
    let settled = Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        ..kept(&map)
    };
    assert_eq!(
        lifetime(&world.attach(line, &settled)),
        none,
        "settled when sent"
    );
    let line = world.line("c");
    let mut browser = kept(&map);
    let source = browser.source.as_mut().unwrap();
    source.distribution_mode = Some(DistributionMode::Copy);
    assert_eq!(lifetime(&world.attach(line, &browser)), none, "a browser");
    let line = world.line("");
    assert_eq!(
        lifetime(&world.attach(line, &kept(&map))),
        none,
        "no container"
    );
}

#[test]
fn a_lost_consumer_is_sent_again_what_it_has_and_settles_what_it_had_decided() {
    // [AMQP 2.6.13]
    let mut world = World::new();
    publish(&mut world, 4);
    let first = world.line("c");
    let answer = world.attach(first, &kept(&Map::new()));
    assert_eq!(unsettled(&answer), Map::new());
    let got = take(&mut world, first, 4);
    assert!(got.iter().all(|it| !it.resume && it.settled == Some(false)));
    let tags: Vec<_> = got.iter().map(tag).collect();
    world.cut(first);
    world.drive();
    assert_eq!(world.ready(), 0, "they are nobody else's");
    // The first is decided, the second is known, the others never arrived.
    let known = Map::from([
        (tags[0].clone(), Some(DeliveryState::Accepted)),
        (tags[1].clone(), None),
    ]);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&known));
    let held = Map::from([(tags[1].clone(), None)]);
    assert_eq!(unsettled(&answer), held, "the first is settled");
    let got = take(&mut world, second, 10);
    let told: Vec<_> = got.iter().map(|it| (tag(it), it.resume)).collect();
    // What never arrived was requeued, and is another delivery.
    let anew = |number: usize| ([&*tags[number], &[0, 0, 0, 1]].concat(), false);
    assert_eq!(told, [(tags[1].clone(), true), anew(2), anew(3)]);
    for transfer in &got {
        let id = transfer.delivery_id.unwrap().0;
        dispose(&mut world, second, id, false, DeliveryState::Accepted);
    }
    world.drive();
    assert_eq!(settled(&mut world, second).len(), 3);
    world.cut(second);
    world.drive();
    assert_eq!(world.ready(), 0);
}

#[test]
fn a_message_that_comes_again_before_its_first_delivery_is_settled_has_another_delivery_tag() {
    // [AMQP 2.6.12] A delivery is settled once its outcome is durable.
    let mut world = World::new();
    publish(&mut world, 1);
    let line = world.line("c");
    world.attach(line, &kept(&Map::new()));
    let first = take(&mut world, line, 2).remove(0);
    let id = first.delivery_id.unwrap().0;
    world.durable = Lsn(0);
    dispose(&mut world, line, id, false, DeliveryState::Released);
    world.drive();
    assert_eq!(settled(&mut world, line), [] as [u32; 0]);
    let second = take(&mut world, line, 2).remove(0);
    assert!(!second.resume);
    assert_ne!(tag(&second), tag(&first));
    world.cut(line);
    world.durable = Lsn(u64::MAX);
    world.drive();
    // Its consumer knows of both, and has decided about the first.
    let map = Map::from([
        (tag(&first), Some(DeliveryState::Released)),
        (tag(&second), None),
    ]);
    let line = world.line("c");
    let answer = world.attach(line, &kept(&map));
    assert_eq!(unsettled(&answer), Map::from([(tag(&second), None)]));
}

#[test]
fn a_consumer_that_comes_back_is_answered_once_its_outcomes_are_durable() {
    let mut world = World::new();
    publish(&mut world, 1);
    let first = world.line("c");
    world.attach(first, &kept(&Map::new()));
    let tag = tag(&take(&mut world, first, 1)[0]);
    world.cut(first);
    world.drive();
    world.durable = Lsn(0);
    let second = world.line("c");
    let attach = kept(&Map::from([(tag, Some(DeliveryState::Accepted))]));
    let frame = Performative::Attach(Box::new(attach), Box::default());
    world.write(second, 0, &frame, &[]);
    world.drive();
    assert!(world.lines[second].got.is_empty(), "not yet");
    world.durable = Lsn(u64::MAX);
    world.drive();
    match world.lines[second].got.pop_front() {
        Some(Performative::Attach(answer, _)) => assert_eq!(unsettled(&answer), Map::new()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_older_end_of_a_consumers_link_is_told_that_it_is_stolen() {
    // [AMQP 2.6.1]
    let mut world = World::new();
    publish(&mut world, 2);
    let first = world.line("c");
    world.attach(first, &kept(&Map::new()));
    let got = take(&mut world, first, 1);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&Map::from([(tag(&got[0]), None)])));
    assert_eq!(unsettled(&answer).len(), 1);
    let stolen = Some((true, "amqp:link:stolen".to_owned()));
    assert_eq!(world.detached(first), stolen);
    dispose(&mut world, first, 0, true, DeliveryState::Accepted);
    world.cut(first);
    world.drive();
    assert_eq!(take(&mut world, second, 2).len(), 2);
    world.cut(second);
    world.drive();
    assert_eq!(world.ready(), 0, "both are held for the newer end");
}

#[test]
fn a_detach_keeps_what_the_consumer_holds_and_a_close_gives_it_back() {
    for closed in [false, true] {
        let mut world = World::new();
        publish(&mut world, 1);
        let line = world.line("c");
        world.attach(line, &kept(&Map::new()));
        assert_eq!(take(&mut world, line, 1).len(), 1);
        world.detach(line, closed);
        assert_eq!(world.ready(), u64::from(closed));
    }
}

/// What a random consumer does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It gives so much more credit.
    Credit(u32),
    /// It processes and accepts one delivery.
    Accept,
    /// Its line is cut: what it wrote last is lost, or not.
    Cut { is_lost: bool },
    /// A second line attaches before the first one is gone.
    Steal,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u32..5).prop_map(Step::Credit),
        6 => Just(Step::Accept),
        2 => any::<bool>().prop_map(|is_lost| Step::Cut { is_lost }),
        1 => Just(Step::Steal),
    ]
}

/// A consumer that settles second, and counts how often it processed each message.
struct Consumer {
    world: World,
    line: usize,
    limit: u32,
    map: Map,
    /// Tags by their delivery-ids on the present line.
    here: BTreeMap<u32, Vec<u8>>,
    processed: BTreeMap<Vec<u8>, u32>,
}

const MESSAGES: u32 = 12;

impl Consumer {
    fn new() -> Self {
        let mut world = World::new();
        publish(&mut world, MESSAGES);
        let line = world.line("c");
        world.attach(line, &kept(&Map::new()));
        Self {
            world,
            line,
            limit: 0,
            map: Map::new(),
            here: BTreeMap::new(),
            processed: BTreeMap::new(),
        }
    }

    fn read(&mut self) {
        for transfer in std::mem::take(&mut self.world.lines[self.line].transfers) {
            let (id, tag) = (transfer.delivery_id.unwrap().0, tag(&transfer));
            if transfer.resume {
                assert!(self.map.contains_key(&tag), "it knows what is resumed");
            } else {
                let before = self.map.insert(tag.clone(), None);
                assert_eq!(before, None, "no two unsettled ones have one tag");
            }
            self.here.insert(id, tag);
        }
        for id in settled(&mut self.world, self.line) {
            let tag = self.here.remove(&id).expect("it was sent here");
            self.map.remove(&tag);
        }
    }

    fn accept(&mut self) {
        let undecided = self.here.iter().find(|(_, tag)| self.map[*tag].is_none());
        let Some((id, tag)) = undecided.map(|(id, tag)| (*id, tag.clone())) else {
            return;
        };
        *self.processed.entry(tag.clone()).or_default() += 1;
        self.map.insert(tag, Some(DeliveryState::Accepted));
        dispose(
            &mut self.world,
            self.line,
            id,
            false,
            DeliveryState::Accepted,
        );
    }

    fn attach_again(&mut self) {
        self.line = self.world.line("c");
        (self.limit, self.here) = (0, BTreeMap::new());
        let answer = self.world.attach(self.line, &kept(&self.map));
        let held = unsettled(&answer);
        self.map.retain(|tag, _| held.contains_key(tag));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Credit(more) => {
                self.limit += more;
                give(&mut self.world, self.line, self.limit);
                self.read();
            }
            Step::Accept => {
                self.read();
                self.accept();
            }
            Step::Cut { is_lost } => {
                if !is_lost {
                    self.world.drive();
                }
                self.world.cut(self.line);
                self.world.drive();
                self.attach_again();
            }
            Step::Steal => {
                let before = self.line;
                self.world.lines[before].input.clear();
                self.attach_again();
                assert!(self.world.detached(before).is_some());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_consumer_on_a_line_that_is_cut_processes_each_message_once(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut consumer = Consumer::new();
        for step in steps {
            consumer.step(step);
        }
        for _ in 0..2 * MESSAGES {
            consumer.step(Step::Credit(2));
            consumer.step(Step::Accept);
            consumer.world.drive();
        }
        consumer.read();
        prop_assert_eq!(consumer.processed.len(), MESSAGES as usize);
        prop_assert!(consumer.processed.values().all(|count| *count == 1));
        prop_assert!(consumer.map.is_empty(), "all is settled: {:?}", consumer.map);
        prop_assert_eq!(consumer.world.ready(), 0);
    }
}
