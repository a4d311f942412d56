//! Commands that follow one another in a batch: a queue is served once for several of them, and nobody
//! can tell.

use proptest::prelude::*;

use super::scenario::{Scenario, body_of, draft, number, text};
use crate::base::ConsumerId;
use crate::broker::*;

/// The queues of a world: each but the last has one consumer; the last has two, which take turns.
const QUEUES: [&str; 7] = [
    "plain", "quorum", "ranked", "limited", "refusing", "brief", "shared",
];
const DEAD: &str = "dead";
/// The second consumer of the last queue, and that of the dead letters.
const SECOND: u64 = 100;
const UNDERTAKER: u64 = 101;

#[derive(Clone, Debug)]
enum Step {
    Publish {
        queue: usize,
        priority: Option<u8>,
        ttl_ms: Option<u32>,
    },
    /// Settles one of the deliveries that are known since the batch before.
    Settle { which: usize, outcome: Outcome },
    /// More credit for a consumer.
    Credit { consumer: u64, more: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let failed = Outcome::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: None,
    };
    let rejected = Outcome::Rejected { evidence: None };
    let outcome = prop_oneof![
        4 => Just(rejected),
        1 => Just(Outcome::Accepted),
        1 => Just(Outcome::Released),
        1 => Just(failed),
    ];
    let priority = prop_oneof![4 => Just(None), 1 => (0_u8..8).prop_map(Some)];
    let ttl_ms = prop_oneof![6 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(5))];
    // Most messages go to the first queues, so that several in a row go to one.
    let last = QUEUES.len() - 1;
    let queue = prop_oneof![3 => Just(0), 2 => Just(last), 2 => 0..2_usize, 2 => 0..QUEUES.len()];
    let consumer = prop_oneof![
        (0..QUEUES.len() as u64).prop_map(|n| n + 1),
        Just(SECOND),
        Just(UNDERTAKER)
    ];
    prop_oneof![
        8 => (queue, priority, ttl_ms)
            .prop_map(|(queue, priority, ttl_ms)| Step::Publish { queue, priority, ttl_ms }),
        4 => (0..64_usize, outcome).prop_map(|(which, outcome)| Step::Settle { which, outcome }),
        1 => (consumer, 0..40_u64).prop_map(|(consumer, more)| Step::Credit { consumer, more }),
    ]
}

/// A world of which the commands of a batch are applied one by one, or together.
struct World {
    s: Scenario,
    together: bool,
    published: u64,
    limits: Vec<(u64, u64)>,
}

impl World {
    fn new(together: bool) -> Self {
        let mut s = Scenario::new();
        s.queue(DEAD, &[]);
        for queue in QUEUES {
            let mut arguments = vec![
                ("x-dead-letter-exchange", text("")),
                ("x-dead-letter-routing-key", text(DEAD)),
            ];
            match queue {
                "quorum" => arguments.push(("x-queue-type", text("quorum"))),
                "ranked" => arguments.push(("x-max-priority", number(3))),
                "limited" => arguments.push(("x-max-length", number(3))),
                "refusing" => {
                    arguments.push(("x-max-length", number(3)));
                    arguments.push(("x-overflow", text("reject-publish-dlx")));
                }
                "brief" => arguments.push(("x-message-ttl", number(0))),
                _ => {}
            }
            s.queue(queue, &arguments);
        }
        let ids: Vec<u64> = (1..=QUEUES.len() as u64).collect();
        for (&id, queue) in ids.iter().zip(QUEUES) {
            s.consumer(id, queue);
        }
        s.consumer(SECOND, QUEUES[QUEUES.len() - 1]);
        s.consumer(UNDERTAKER, DEAD);
        let limits = ids.into_iter().chain([SECOND, UNDERTAKER]);
        let limits: Vec<(u64, u64)> = limits.map(|id| (id, 10)).collect();
        for &(id, limit) in &limits {
            s.credit(ConsumerId(id), limit);
        }
        Self {
            s,
            together,
            published: 0,
            limits,
        }
    }

    fn command(&mut self, step: &Step, held: &mut Vec<Delivery>) -> Option<Command> {
        Some(match step {
            Step::Publish {
                queue,
                priority,
                ttl_ms,
            } => {
                self.published += 1;
                let mut message = draft(&format!("m{}", self.published));
                (message.priority, message.ttl_ms) = (*priority, *ttl_ms);
                Command::Publish(message.post("", QUEUES[*queue], self.published))
            }
            Step::Settle { which, outcome } => {
                if held.is_empty() {
                    return None;
                }
                let delivery = held.remove(which % held.len());
                Command::Settle(Settle {
                    consumer: delivery.consumer,
                    position: delivery.position,
                    outcome: outcome.clone(),
                    confirm: Some(self.published),
                })
            }
            Step::Credit { consumer, more } => {
                let limit = self.limits.iter_mut().find(|(id, _)| id == consumer)?;
                limit.1 += more;
                Command::ConsumerFlow {
                    consumer: ConsumerId(*consumer),
                    limit: limit.1,
                    drain: false,
                }
            }
        })
    }

    fn batch(&mut self, steps: &[Step]) {
        let mut held = std::mem::take(&mut self.s.deliveries);
        held.sort_by_key(|delivery| (delivery.consumer, delivery.position));
        for step in steps {
            let Some(command) = self.command(step, &mut held) else {
                continue;
            };
            if self.together {
                self.s.apply_in_batch(command);
            } else {
                self.s.apply(command);
            }
        }
        self.s.end_batch();
        held.append(&mut self.s.deliveries);
        self.s.deliveries = held;
        self.s.pass(2);
    }

    /// What somebody can see of it: what each consumer got, in order, what publishers were told, and
    /// what is in the queues.
    fn seen(&mut self) -> String {
        let mut seen = Vec::new();
        for &(id, _) in &self.limits {
            let of_it = self.s.deliveries.iter();
            let of_it = of_it.filter(|delivery| delivery.consumer.0 == id);
            let told = of_it.map(|it| {
                let history = it.message.history().map(|history| history.entries().len());
                let body = body_of(it);
                (it.position, body, it.delivery_count, it.acquired, history)
            });
            seen.push(format!("{id}: {:?}", told.collect::<Vec<_>>()));
        }
        let outcomes = self.s.others.iter().filter_map(|effect| match effect {
            Effect::Published { token, outcome, .. } => Some(format!("{token} {outcome:?}")),
            Effect::Settled { token, took, .. } => Some(format!("{token} took {took}")),
            _ => None,
        });
        seen.extend(outcomes);
        for queue in QUEUES.into_iter().chain([DEAD]) {
            let counters = format!("{:?}", self.s.core.queue(queue).unwrap().counters);
            seen.push(format!("{queue}: {:?} {counters}", self.s.counts(queue)));
        }
        seen.join("\n")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nobody_can_tell_whether_the_commands_of_a_batch_were_applied_one_by_one(
        batches in prop::collection::vec(prop::collection::vec(step(), 1..50), 1..8)
    ) {
        let (mut one_by_one, mut together) = (World::new(false), World::new(true));
        for batch in &batches {
            one_by_one.batch(batch);
            together.batch(batch);
            prop_assert_eq!(one_by_one.seen(), together.seen());
        }
    }
}

fn publish(s: &mut Scenario, queue: &str, bodies: std::ops::Range<usize>) {
    for n in bodies {
        let message = draft(&format!("m{n}"));
        s.apply_in_batch(Command::Publish(message.post("", queue, n as u64)));
    }
}

#[test]
fn a_queue_is_served_once_for_messages_that_follow_one_another() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let consumer = s.consumer(1, "q");
    s.credit(consumer, 1_000);
    publish(&mut s, "q", 0..20);
    assert_eq!(s.taken(consumer).len(), 0, "not yet");
    s.end_batch();
    let bodies: Vec<String> = s.taken(consumer).iter().map(body_of).collect();
    let expected: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    assert_eq!(bodies, expected);
    // However many they are, they wait for few.
    publish(&mut s, "q", 0..1_000);
    assert!(s.taken(consumer).len() > 1_000 - 64);
}

#[test]
fn any_other_command_serves_first_what_was_left() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-message-ttl", number(60_000))]);
    let consumer = s.consumer(1, "q");
    s.credit(consumer, 1_000);
    publish(&mut s, "q", 0..3);
    assert_eq!(s.counts("q"), (0, 3, 0));
    publish(&mut s, "q", 0..3);
    s.core.tick(s.now, 1, &mut s.effects);
    assert_eq!(s.counts("q"), (0, 6, 0));
}
