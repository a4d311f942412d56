//! The tokens that deliveries are known by between gateway and engine: none is live twice.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::support::{Scene, message, receiver};
use crate::base::{Lsn, Serial};
use crate::gateway::Written;
use crate::link::{Event, LinkHandle, SessionHandle};
use crate::wire::performative::DeliveryState;

/// How the first link goes away.
#[derive(Clone, Copy, Debug)]
enum Way {
    Detach,
    End,
    Steal,
}

fn fill(scene: &mut Scene, client: usize, bodies: std::ops::Range<u8>) {
    let link = scene.publisher(client, Some("/queues/q"));
    for body in bodies {
        assert!(scene.publish(client, link, &message(&[body])).is_some());
    }
    scene.clients[client].engine.detach(link, true, None);
    scene.drive();
}

/// Attaches a consumer in a session of its own, or in this one.
fn consume(
    scene: &mut Scene,
    client: usize,
    (name, session): (&str, Option<SessionHandle>),
    credit: u32,
) -> (SessionHandle, LinkHandle) {
    let session = session.unwrap_or_else(|| {
        let session = scene.clients[client].engine.begin().unwrap();
        scene.drive();
        session
    });
    let engine = &mut scene.clients[client].engine;
    let link = engine.attach(session, receiver(name, "/queues/q")).unwrap();
    engine.set_credit(link, credit);
    (session, link)
}

/// The last byte of each message that is still there.
fn drain(scene: &mut Scene) -> Vec<u8> {
    let client = scene.client();
    scene.consumer(client, "q", 1_000);
    let got = scene.deliveries(client);
    got.iter()
        .filter_map(|(_, _, payload)| payload.last().copied())
        .collect()
}

// Fuzzing from outside found this: a client accepted without settling and detached in the same breath.
// The outcome freed the delivery's token, then the detach named it among the unsettled ones and freed
// it again. The next two deliveries of the connection got the same token: accepting the first settled
// the second, which nobody had accepted, and the first came back.
fn after_an_outcome_and(way: Way) {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    fill(&mut scene, client, 0..3);
    let (session, link) = consume(&mut scene, client, ("l", None), 1);
    scene.drive();
    let (_, id, _) = scene.deliveries(client).remove(0);
    let engine = &mut scene.clients[client].engine;
    engine.decide_received(link, id, &DeliveryState::Accepted);
    let mut next = None;
    match way {
        Way::Detach => engine.detach(link, true, None),
        Way::End => engine.end(session, None),
        Way::Steal => {
            next = Some(session);
            // An attach leaves before the dispositions of its turn.
            scene.move_out(client);
        }
    }
    let (_, second) = consume(&mut scene, client, ("l", next), 2);
    scene.drive();
    let got = scene.deliveries(client);
    assert_eq!(got.len(), 2, "{way:?}");
    let (_, id, _) = got[0];
    let engine = &mut scene.clients[client].engine;
    engine.settle_received(second, id, &DeliveryState::Accepted);
    engine.detach(second, true, None);
    scene.drive();
    assert_eq!(drain(&mut scene), [2], "{way:?}");
}

#[test]
fn delivery_decided_before_its_link_went_shares_no_token_with_later_ones() {
    // [AMQP 2.6.12] [AMQP 2.6.4]
    for way in [Way::Detach, Way::End, Way::Steal] {
        after_an_outcome_and(way);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Tells an outcome, unsettled.
    Decide(usize, bool),
    /// Settles with an outcome.
    Settle(usize, bool),
    Consume(u32),
    Detach(usize),
    End(usize),
    Steal(usize, u32),
    /// Nothing is durable, or all is.
    Durable(bool),
    /// Bytes move.
    Drive,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<usize>(), any::<bool>()).prop_map(|(at, accept)| Step::Decide(at, accept)),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(at, accept)| Step::Settle(at, accept)),
        3 => (1..8_u32).prop_map(Step::Consume),
        2 => any::<usize>().prop_map(Step::Detach),
        1 => any::<usize>().prop_map(Step::End),
        2 => (any::<usize>(), 1..8_u32).prop_map(|(at, credit)| Step::Steal(at, credit)),
        1 => any::<bool>().prop_map(Step::Durable),
        6 => Just(Step::Drive),
    ]
}

/// A delivery that a client has and did not settle.
#[derive(Clone, Copy, Debug)]
struct Got {
    link: LinkHandle,
    id: Serial,
    body: u8,
    decided: bool,
}

/// What one client has, and what it said.
struct World {
    scene: Scene,
    client: usize,
    links: Vec<(String, SessionHandle, LinkHandle)>,
    got: Vec<Got>,
    accepted: BTreeSet<u8>,
    names: usize,
}

impl World {
    const MESSAGES: u8 = 40;

    fn new() -> Self {
        let mut scene = Scene::new();
        let client = scene.client();
        scene.queue("q", &[]);
        fill(&mut scene, client, 0..Self::MESSAGES);
        Self {
            scene,
            client,
            links: Vec::new(),
            got: Vec::new(),
            accepted: BTreeSet::new(),
            names: 0,
        }
    }

    fn drive(&mut self) {
        self.scene.drive();
        for (link, id, payload) in self.scene.deliveries(self.client) {
            let body = *payload.last().unwrap();
            let decided = false;
            self.got.push(Got {
                link,
                id,
                body,
                decided,
            });
        }
        let settled = |event: &Event| matches!(event, Event::SenderSettled { .. });
        while let Some(Event::SenderSettled { link, delivery_id }) =
            self.scene.take(self.client, settled)
        {
            self.got
                .retain(|got| (got.link, got.id) != (link, delivery_id));
        }
    }

    fn tell(&mut self, at: usize, accept: bool, settle: bool) {
        if self.got.is_empty() {
            return;
        }
        let at = at % self.got.len();
        let Got {
            link, id, decided, ..
        } = self.got[at];
        if decided {
            // Its outcome was told; the broker settles it.
            return;
        }
        let state = if accept {
            DeliveryState::Accepted
        } else {
            DeliveryState::Released
        };
        let engine = &mut self.scene.clients[self.client].engine;
        if accept {
            self.accepted.insert(self.got[at].body);
        }
        if settle {
            engine.settle_received(link, id, &state);
            self.got.remove(at);
        } else {
            engine.decide_received(link, id, &state);
            self.got[at].decided = true;
        }
    }

    fn consume(&mut self, name: String, session: Option<SessionHandle>, credit: u32) {
        let (session, link) = consume(&mut self.scene, self.client, (&name, session), credit);
        self.links.push((name, session, link));
    }

    /// What came through links that go is no more ours.
    fn forget(&mut self, gone: impl Fn(&(String, SessionHandle, LinkHandle)) -> bool) {
        let links: Vec<_> = self.links.iter().filter(|one| gone(one)).cloned().collect();
        self.links.retain(|one| !gone(one));
        self.got
            .retain(|got| !links.iter().any(|(_, _, link)| *link == got.link));
    }

    fn do_step(&mut self, step: Step) {
        let count = self.links.len();
        match step {
            Step::Decide(at, accept) => self.tell(at, accept, false),
            Step::Settle(at, accept) => self.tell(at, accept, true),
            Step::Consume(credit) if count < 4 => {
                self.names += 1;
                let name = format!("l{}", self.names);
                self.consume(name, None, credit);
            }
            Step::Detach(at) if count > 0 => {
                let (_, _, link) = self.links[at % count].clone();
                let engine = &mut self.scene.clients[self.client].engine;
                engine.detach(link, true, None);
                self.forget(|one| one.2 == link);
            }
            Step::End(at) if count > 0 => {
                let (_, session, _) = self.links[at % count].clone();
                self.scene.clients[self.client].engine.end(session, None);
                self.forget(|one| one.1 == session);
            }
            Step::Steal(at, credit) if count > 0 => {
                let (name, session, link) = self.links[at % count].clone();
                self.scene.move_out(self.client);
                self.consume(name, Some(session), credit);
                self.forget(|one| one.2 == link);
            }
            Step::Durable(all) => self.scene.durable = Lsn(if all { u64::MAX } else { 0 }),
            Step::Drive => self.drive(),
            _ => {}
        }
        // What was on its way through a link that went was taken out of our hands.
        let links = &self.links;
        self.got
            .retain(|got| links.iter().any(|(_, _, link)| *link == got.link));
        self.scene.clients[self.client].gateway.sent.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a client says in whatever order: no token is live twice, what it accepted is gone, and
    /// all else is still there, once.
    #[test]
    fn no_token_is_live_twice(
        steps in proptest::collection::vec(step(), 1..60),
        close in any::<bool>(),
    ) {
        let mut world = World::new();
        for step in steps {
            world.do_step(step);
        }
        world.scene.durable = Lsn(u64::MAX);
        let client = world.client;
        if close {
            let now = world.scene.now;
            world.scene.clients[client].engine.close(now, None);
            world.drive();
        } else {
            world.drive();
            world.scene.clients[client].gateway.handle_disconnect(world.scene.now, Written::All);
            world.drive();
        }
        world.scene.clients[client].gateway.sent.check();
        let mut left = drain(&mut world.scene);
        left.sort_unstable();
        let all = 0..World::MESSAGES;
        let wanted: Vec<u8> = all.filter(|body| !world.accepted.contains(body)).collect();
        prop_assert_eq!(left, wanted);
    }
}
