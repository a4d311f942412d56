//! Whoever drains is told, and soon: its receiver waits for that. [AMQP 2.6.7]

use std::sync::Arc;

use proptest::prelude::*;

use super::scenario::{CONNECTION, SESSION, Scenario, draft, number};
use crate::base::{ConnectionId, ConsumerId, Name, Seed, SessionId};
use crate::broker::*;
use crate::filter::Selector;

/// Whether a consumer was told that everything was sent.
fn is_told(s: &Scenario, of: ConsumerId) -> bool {
    let drained =
        |effect: &Effect| matches!(effect, Effect::Drained { consumer, .. } if *consumer == of);
    s.others.iter().any(drained)
}

/// Nobody was told anything while there was always more to assign.
#[test]
fn who_drains_is_told_before_others_have_taken_thousands_of_messages() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for _ in 0..5_000 {
        s.publish("q", &draft("m"));
    }
    let consumers = [1, 2].map(|id| s.consumer(id, "q"));
    for (consumer, limit, drain) in [(consumers[0], 1, true), (consumers[1], 10_000, false)] {
        let flow = Command::ConsumerFlow {
            consumer,
            limit,
            drain,
        };
        s.core.apply_alone(s.now, flow, &mut s.effects);
    }
    while s.core.has_work() {
        s.core.tick(s.now, 100, &mut s.effects);
    }
    let effects = &s.effects.outgoing;
    let told = effects
        .iter()
        .position(|(_, effect)| matches!(effect, Effect::Drained { .. }))
        .expect("it is told");
    let all = effects.len();
    assert!(all > 5_000 && told < 200, "behind {told} of {all}");
}

/// It waited until it had settled something, which it may do only when it is told.
#[test]
fn who_drains_is_told_when_it_may_hold_no_more() {
    let mut s = Scenario::with(CoreOptions {
        unsettled_max: 2,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let c = s.consumer(1, "q");
    s.drain(c, 5);
    let held = s.taken(c);
    assert_eq!((held.len(), is_told(&s, c)), (2, true));
    s.settle(&held[0], Outcome::Accepted);
    assert_eq!(s.taken(c).len(), 0, "its credit is used up");
    s.credit(c, 6);
    assert_eq!(s.taken(c).len(), 1);
}

#[test]
fn who_asks_is_told_how_many_messages_wait_for_its_credit() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let c = s.consumer(1, "q");
    s.credit(c, 1);
    let echo = |consumer| Command::ConsumerEcho(CONNECTION, consumer);
    s.apply(echo(c));
    let told = s.others.pop();
    assert!(
        matches!(told, Some(Effect::Available { consumer, available: 2 }) if consumer == c),
        "{told:?}"
    );
    s.apply(echo(ConsumerId(99)));
    let told = s.others.pop();
    assert!(
        matches!(told, Some(Effect::Available { available: 0, .. })),
        "one that is gone is answered, too: {told:?}"
    );
}

/// One step of a schedule.
#[derive(Clone, Debug)]
enum Step {
    Publish(u8, Option<u8>),
    Credit(usize, u64),
    Drain(usize, u64),
    /// Settles the oldest delivery of a consumer.
    Settle(usize, bool),
    Window(usize, u64),
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_u8, proptest::option::of(0..3_u8)).prop_map(|(p, g)| Step::Publish(p, g)),
        3 => (0..6_usize, 0..4_u64).prop_map(|(c, credit)| Step::Credit(c, credit)),
        3 => (0..6_usize, 0..4_u64).prop_map(|(c, credit)| Step::Drain(c, credit)),
        3 => (0..6_usize, any::<bool>()).prop_map(|(c, back)| Step::Settle(c, back)),
        1 => (0..2_usize, 0..4_u64).prop_map(|(session, more)| Step::Window(session, more)),
        1 => (0..6_usize).prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 1..60)
}

/// Consumers of one queue in two sessions: priorities, selectors, message priorities and groups, perhaps one
/// active consumer only.
struct Draining {
    s: Scenario,
    /// Cumulative limits, and whether it drains and was not told; none: it left.
    consumers: Vec<Option<(ConsumerId, u64, bool)>>,
    /// Cumulative windows.
    windows: [u64; 2],
    sent: [u64; 2],
}

const SESSIONS: [(ConnectionId, SessionId); 2] =
    [(CONNECTION, SESSION), (ConnectionId(2), SessionId(2))];

impl Draining {
    fn new(is_single_active: bool) -> Self {
        let mut s = Scenario::with(CoreOptions {
            unsettled_max: 5,
            ..CoreOptions::new(Name::from("/"), Seed(7))
        });
        s.connect(SESSIONS[1].0, SESSIONS[1].1);
        let active = (
            "x-single-active-consumer",
            crate::wire::Value::Bool(is_single_active),
        );
        s.queue("q", &[("x-max-priority", number(3)), active]);
        let consumers = (0..6).map(|index: usize| {
            s.consume(index as u64 + 1, "q", |consume| {
                let (connection, session) = SESSIONS[index % 2];
                consume.of(connection, session);
                consume.priority = i32::try_from(index / 3).unwrap();
                let selector = (index == 5).then(|| Selector::parse("JMSPriority = 1").unwrap());
                consume.selector = selector.map(Arc::new);
            });
            Some((ConsumerId(index as u64 + 1), 0, false))
        });
        let consumers = consumers.collect();
        for (_, session) in SESSIONS {
            s.apply(Command::SessionFlow { session, limit: 5 });
        }
        Self {
            s,
            consumers,
            windows: [5; 2],
            sent: [0; 2],
        }
    }

    fn flow(&mut self, index: usize, credit: u64, drain: bool) {
        let Some((consumer, limit, drains)) = &mut self.consumers[index] else {
            return;
        };
        *limit += credit;
        *drains = drain;
        let (consumer, limit) = (*consumer, *limit);
        if drain {
            self.s.drain(consumer, limit);
        } else {
            self.s.credit(consumer, limit);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Publish(priority, group) => {
                let message = draft("m").priority(priority);
                let message = match group {
                    Some(group) => message.group(&group.to_string()),
                    None => message,
                };
                self.s.publish("q", &message);
            }
            Step::Credit(index, credit) => self.flow(index, credit, false),
            Step::Drain(index, credit) => self.flow(index, credit, true),
            Step::Settle(index, back) => {
                let of = self.consumers[index].map(|(id, _, _)| id);
                let held = self
                    .s
                    .deliveries
                    .iter()
                    .position(|it| Some(it.consumer) == of);
                if let Some(held) = held {
                    let delivery = self.s.deliveries.remove(held);
                    let outcome = if back {
                        Outcome::Released
                    } else {
                        Outcome::Accepted
                    };
                    self.s.settle(&delivery, outcome);
                }
            }
            Step::Window(index, more) => {
                self.windows[index] += more;
                let (session, limit) = (SESSIONS[index].1, self.windows[index]);
                self.s.apply(Command::SessionFlow { session, limit });
            }
            Step::Leave(index) => {
                if let Some((consumer, _, _)) = self.consumers[index].take() {
                    self.s.deliveries.retain(|it| it.consumer != consumer);
                    self.s.detach(consumer);
                }
            }
        }
        self.count();
    }

    /// Counts what was sent, and who was told.
    fn count(&mut self) {
        for effect in std::mem::take(&mut self.s.others) {
            if let Effect::Drained { consumer, .. } = effect {
                let index = usize::try_from(consumer.0 - 1).unwrap();
                if let Some((_, _, drains)) = &mut self.consumers[index] {
                    *drains = false;
                }
            }
        }
        self.sent = SESSIONS.map(|(_, session)| self.s.core.clients.assigned(session));
    }
}

proptest! {
    /// Once nothing is left to do, whoever drains was told, unless its receiver's own window is closed.
    #[test]
    fn who_drains_waits_for_nothing_but_the_window_of_its_session(
        steps in steps(),
        is_single_active in any::<bool>(),
    ) {
        let mut draining = Draining::new(is_single_active);
        for step in &steps {
            draining.step(step);
            for (index, consumer) in draining.consumers.iter().enumerate() {
                let is_open = draining.sent[index % 2] < draining.windows[index % 2];
                let waits = consumer.is_some_and(|(_, _, drains)| drains);
                prop_assert!(!(waits && is_open), "{consumer:?} after {step:?}");
            }
        }
    }
}
