//! What may be much for one command: it is done in pieces, or charged for, so that nobody else waits long.

use super::redrive::{rights, spec};
use super::scenario::{CONNECTION, Scenario, draft, number, text};
use crate::base::limits::{BATCH_NS_MAX, BROWSED_BLOCKS_MAX, ROUTED_QUEUES_MAX, SETTLE_RUN_MAX};
use crate::base::{
    ConnectionId, ConsumerId, Meter, Name, Position, PublisherId, Seed, SessionId, Step,
};
use crate::broker::policy::{Policy, PolicySpec};
use crate::broker::redrive::{NewRedrive, RedriveCommand, RedriveTarget};
use crate::broker::*;

/// What one piece may touch.
const SLICE: usize = 64;

/// Policies that take long over a name, each better than the one before, so that all are matched.
fn slow_policies(s: &mut Scenario, count: u32, apply_to: &str) {
    for index in 0..count {
        let spec = PolicySpec {
            name: Name::from(format!("{apply_to}{index:03}").as_str()),
            pattern: "(?!y)([qx]+)+$",
            priority: index.into(),
            apply_to,
            definition: vec![
                (Name::from("message-ttl"), number(1 + u64::from(index))),
                (Name::from("alternate-exchange"), text("amq.fanout")),
            ],
        };
        let (operator, policy) = (false, Box::new(Policy::new(false, spec).unwrap()));
        s.apply(Command::Topology(TopologyCommand::PolicySet {
            operator,
            policy,
        }));
    }
}

/// Looks for the policies of what is declared next; how many pieces that takes.
fn match_policies(s: &mut Scenario, kind: ObjectKind, name: &Name) -> usize {
    let (mut begun, mut pieces) = (None, 1);
    loop {
        let mut meter = Meter::default();
        let is_known = s.core.match_policies((kind, name), &mut begun, &mut meter);
        assert!(meter.spent_ns() < 2 * BATCH_NS_MAX, "{}", meter.spent_ns());
        if is_known {
            return pieces;
        }
        pieces += 1;
    }
}

/// Does what commands left to ticks.
fn finish(s: &mut Scenario) {
    while s.core.has_work() {
        s.core.tick(s.now, 256, &mut s.effects);
    }
}

/// What a command takes, beside what it leaves to ticks.
fn spent_ns(s: &mut Scenario, command: Command) -> u64 {
    s.effects.meter = Meter::default();
    s.core.apply(s.now, command, &mut s.effects);
    s.effects.meter.spent_ns()
}

/// Matching all policies with the name of a queue took 25 to 90 ms, all of it under one hold of the lock.
#[test]
fn what_is_declared_takes_its_policies_at_once_though_they_were_matched_in_pieces() {
    for (apply_to, kind) in [("classic_queues", "classic"), ("quorum_queues", "quorum")] {
        let mut s = Scenario::new();
        slow_policies(&mut s, 100, "exchanges");
        slow_policies(&mut s, 100, apply_to);
        let name = Name::from("q".repeat(200));
        let pieces = match_policies(&mut s, ObjectKind::Queue, &name);
        assert!(pieces >= 50, "{pieces}");
        let declare = Command::Queue(QueueCommand::Declare {
            connection: Some(CONNECTION),
            name: name.clone(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: vec![(Name::from("x-queue-type"), text(kind))],
        });
        assert!(spent_ns(&mut s, declare) < 10_000);
        let queue = s.core.queue(&name).unwrap();
        assert_eq!(queue.settings.message_ttl_ms, Some(100), "{kind}");
        let pieces = match_policies(&mut s, ObjectKind::Queue, &name);
        assert_eq!(pieces, 1, "it is there");

        let name = Name::from("x".repeat(200));
        assert!(match_policies(&mut s, ObjectKind::Exchange, &name) >= 50);
        let declare = Command::Topology(TopologyCommand::ExchangeDeclare {
            name: name.clone(),
            kind: Name::from("fanout"),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Vec::new(),
        });
        assert!(spent_ns(&mut s, declare) < 10_000);
        let exchange = s.core.router().exchange_named(&name).unwrap();
        assert_eq!(exchange.alternate().unwrap(), "amq.fanout");
    }
}

#[test]
fn policies_that_change_while_they_are_matched_apply_as_they_are_in_the_end() {
    let mut s = Scenario::new();
    slow_policies(&mut s, 100, "queues");
    let name = Name::from("q".repeat(200));
    let (mut begun, mut pieces, mut changes) = (None, 0, 0);
    let kind = ObjectKind::Queue;
    while !s
        .core
        .match_policies((kind, &name), &mut begun, &mut Meter::default())
    {
        pieces += 1;
        if pieces % 20 == 0 && changes < 2 {
            changes += 1;
            s.no_policy(["queues099", "queues098"][changes - 1]);
        }
    }
    assert_eq!(changes, 2);
    // One more goes between the last look and the declaration.
    s.no_policy("queues097");
    s.queue(&name, &[]);
    let queue = s.core.queue(&name).unwrap();
    assert_eq!(queue.settings.message_ttl_ms, Some(97));
    // What was found for one name is nothing to another one.
    match_policies(&mut s, kind, &Name::from("q".repeat(201)));
    s.queue("other", &[]);
    let queue = s.core.queue("other").unwrap();
    assert_eq!(queue.settings.message_ttl_ms, None);
}

/// A command that touched up to 64 messages was not charged for them: 256 of them made one hold.
#[test]
fn a_command_is_charged_for_the_messages_that_it_touches_beyond_its_share() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for _ in 0..64 {
        s.publish("q", &draft("m"));
    }
    let consumer = s.consumer(1, "q");
    let flow = Command::ConsumerFlow {
        consumer,
        limit: 64,
        drain: false,
    };
    let spent = spent_ns(&mut s, flow);
    assert_eq!(s.counts("q"), (0, 64, 0));
    assert!(spent >= 50 * Step::Message.ns(), "{spent}");
    assert!(spent <= 64 * Step::Message.ns(), "{spent}");
    // An ordinary one is not: its share of a batch is as much.
    s.effects.meter = Meter::default();
    s.publish("q", &draft("m"));
    let more = Command::ConsumerFlow {
        consumer,
        limit: 65,
        drain: false,
    };
    assert_eq!(spent_ns(&mut s, more), 0);
}

/// Each message of a run was given all that one command may touch.
#[test]
fn a_run_of_settlements_is_charged_for_what_each_of_them_brings_about() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let dead = [
        ("x-dead-letter-exchange", text("fan")),
        ("x-message-ttl", number(1_000_000)),
    ];
    s.queue("d", &dead);
    s.exchange("fan", "fanout");
    for index in 0..500 {
        s.queue(&format!("t{index}"), &[]);
        s.bind("fan", &format!("t{index}"), "");
    }
    for _ in 0..4 {
        s.publish("d", &draft("m"));
    }
    let taken = s.take(1, "d", 4);
    let run = Command::SettleRun(SettleRun {
        consumer: ConsumerId(1),
        positions: taken.iter().map(|delivery| delivery.position).collect(),
        outcome: Outcome::Rejected { evidence: None },
    });
    let spent = spent_ns(&mut s, run);
    assert!(spent >= 4 * 499 * Step::Entry.ns(), "{spent}");
}

/// Each of them had a budget of its own for what was to be done anyway: 64 times what a command may do.
#[test]
fn a_run_of_accepted_deliveries_does_no_more_beside_it_than_one_command() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.queue("due", &[("x-message-ttl", number(1_000))]);
    for _ in 0..10_000 {
        s.publish("due", &draft("m"));
    }
    for _ in 0..SETTLE_RUN_MAX {
        s.publish("q", &draft("m"));
    }
    let taken = s.take(1, "q", SETTLE_RUN_MAX as u64);
    s.now.mono = s.now.mono.plus(2_000);
    let run = Command::SettleRun(SettleRun {
        consumer: ConsumerId(1),
        positions: taken.iter().map(|delivery| delivery.position).collect(),
        outcome: Outcome::Accepted,
    });
    let spent = spent_ns(&mut s, run);
    assert!(spent < BATCH_NS_MAX, "{spent}");
    assert!(s.core.has_work(), "what is due is left to ticks");
    assert_eq!(s.counts("q").1, 0, "all are settled");
    finish(&mut s);
    assert_eq!(s.counts("due"), (0, 0, 0));
}

/// Messages that die together, each into many queues, were one step: it had no end in practice.
#[test]
fn messages_that_die_into_many_queues_do_so_one_at_a_time() {
    const QUEUES: usize = 2_000;
    let mut s = Scenario::new();
    let dead = [("x-dead-letter-exchange", text("fan"))];
    s.queue("d", &dead);
    s.exchange("fan", "fanout");
    for index in 0..QUEUES {
        s.queue(&format!("t{index}"), &[]);
        s.bind("fan", &format!("t{index}"), "");
    }
    for _ in 0..20 {
        s.publish("d", &draft("m").ttl(10));
    }
    s.now.mono = s.now.mono.plus(20);
    let mut holds = 0;
    loop {
        s.effects.meter = Meter::default();
        let more = s.core.tick(s.now, 256, &mut s.effects);
        let spent = s.effects.meter.spent_ns();
        assert!(spent < 2 * QUEUES as u64 * Step::Entry.ns(), "{spent}");
        holds += 1;
        if more == More::No {
            break;
        }
    }
    assert!(holds > 20, "{holds}");
    assert_eq!(s.counts("t1999"), (20, 0, 0));
    const { assert!(QUEUES < ROUTED_QUEUES_MAX as usize) };
}

/// Of what a redrive moved only the search for queues was charged: 64 messages entered thousands of queues each in
/// one step.
#[test]
fn messages_that_are_moved_into_many_queues_are_so_one_at_a_time() {
    const QUEUES: usize = 2_000;
    let mut s = Scenario::new();
    s.queue("d", &[]);
    s.exchange("fan", "fanout");
    for index in 0..QUEUES {
        s.queue(&format!("t{index}"), &[]);
        s.bind("fan", &format!("t{index}"), "");
    }
    for _ in 0..20 {
        s.publish("d", &draft("m"));
    }
    let new = NewRedrive {
        id: Name::from("j"),
        by: Name::from("alice"),
        spec: spec(
            "d",
            RedriveTarget::Exchange {
                exchange: Name::from("fan"),
                routing_key: Name::from("k"),
            },
        ),
        matched: None,
        rights: rights(),
    };
    let one_ns = QUEUES as u64 * Step::Entry.ns();
    let start = Command::Redrive(RedriveCommand::Start(Box::new(new)));
    let spent = spent_ns(&mut s, start);
    assert!(spent < 2 * one_ns, "{spent}");
    let mut holds = 0;
    while s.core.has_work() {
        s.effects.meter = Meter::default();
        s.core.tick(s.now, 256, &mut s.effects);
        let spent = s.effects.meter.spent_ns();
        assert!(spent < 2 * one_ns, "{spent}");
        holds += 1;
    }
    assert!(holds >= 20, "{holds}");
    assert_eq!(s.core.redrive("j").unwrap().counts.moved, 20);
    assert_eq!(s.counts("t1999"), (20, 0, 0));
}

/// A message that is refused by full queues, each of which dead-letters it, did so in one step, too.
#[test]
fn a_message_that_many_queues_refuse_dies_in_them_in_pieces() {
    let mut s = Scenario::new();
    let full = [
        ("x-max-length", number(0)),
        ("x-overflow", text("reject-publish-dlx")),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    s.exchange("fan", "fanout");
    s.queue("dlq", &[]);
    for index in 0..1_000 {
        s.queue(&format!("f{index}"), &full);
        s.bind("fan", &format!("f{index}"), "");
    }
    let publish = Command::Publish(Publish {
        connection: CONNECTION,
        publisher: PublisherId(1),
        token: 1,
        target: Target::Named,
        route: std::sync::Arc::new(crate::message::Route {
            exchange: Name::from("fan"),
            keys: [Name::from("k")].into(),
        }),
        message: std::sync::Arc::new(draft("m").build()),
        settled: true,
        forbidden: None,
        delivery_time: None,
    });
    spent_ns(&mut s, publish);
    assert!(s.core.has_work());
    let at_once = s.core.queue("dlq").unwrap().messages.live();
    assert!(at_once < 300, "{at_once}");
    finish(&mut s);
    assert_eq!(s.counts("dlq"), (1_000, 0, 0));
}

fn connect_many(s: &mut Scenario, consumers: u64, queues: u64) -> ConnectionId {
    let connection = ConnectionId(2);
    s.connect(connection, SessionId(2));
    for id in 0..consumers {
        let reply = s.consume(1_000 + id, "q", |consume| {
            consume.of(connection, SessionId(2));
        });
        assert!(matches!(reply, Reply::Consuming { .. }), "{reply:?}");
    }
    for index in 0..queues {
        s.apply(Command::Queue(QueueCommand::Declare {
            connection: Some(connection),
            name: Name::from(format!("own{index:04}")),
            durable: false,
            exclusive: true,
            auto_delete: false,
            arguments: Vec::new(),
        }));
    }
    connection
}

/// A connection with all its links and exclusive queues, of which there may be any number, went in one step.
#[test]
fn a_connection_with_many_links_and_queues_goes_in_pieces_and_gets_nothing_meanwhile() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let connection = connect_many(&mut s, 500, 500);
    for id in 0..500 {
        s.credit(ConsumerId(1_000 + id), 2);
    }
    s.publish_all("q", &["a", "b", "c"]);
    let before = s.deliveries.len();
    assert_eq!(before, 3);
    let close = Command::ConnectionClose { connection };
    assert!(spent_ns(&mut s, close) > 0);
    let (left, queues) = (
        s.core.queue("q").unwrap().consumers.len(),
        s.core.queues().count(),
    );
    assert!(left >= 500 - 3 * SLICE, "{left}");
    assert_eq!(queues, 501);
    s.publish_all("q", &["d"]);
    s.effects.meter = Meter::default();
    assert_eq!(s.deliveries.len(), before, "it is assigned nothing more");
    assert_eq!(s.core.queue("q").unwrap().consumers.len(), 0);
    assert_eq!(s.core.queues().count(), 1);
    assert_eq!(s.counts("q"), (4, 0, 0));
    assert_eq!(s.bodies("q"), ["a", "b", "c", "d"]);
}

/// All consumers and publishers of a queue were told in one step that it is gone.
#[test]
fn those_at_a_queue_that_is_deleted_are_told_in_pieces_each_once() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    connect_many(&mut s, 300, 0);
    for id in 1..=300 {
        s.apply(Command::Publisher(PublisherCommand::Follow {
            connection: CONNECTION,
            publisher: PublisherId(id),
            queue: Name::from("q"),
        }));
    }
    let delete = Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    });
    s.core.apply(s.now, delete, &mut s.effects);
    let told = s.effects.outgoing.len();
    assert!((1..=4 * SLICE).contains(&told), "{told}");
    // One that leaves by itself meanwhile is not told any more.
    s.detach(ConsumerId(1_299));
    let ended = |effect: &Effect| match effect {
        Effect::ConsumerEnded { consumer, .. } => Some(consumer.0),
        Effect::PublisherEnded { publisher, .. } => Some(publisher.0),
        _ => None,
    };
    let mut told: Vec<u64> = s.others.iter().filter_map(ended).collect();
    told.sort_unstable();
    let all: Vec<u64> = (1..=300).chain(1_000..1_299).collect();
    assert_eq!(told, all);
}

/// Each consumer that found no room was looked for among all others, and all were woken in one step each
/// time that the connection had some.
#[test]
fn consumers_that_wait_for_room_of_their_connection_are_woken_in_pieces() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let connection = connect_many(&mut s, 1_000, 0);
    let room = |limit_bytes| Command::ConnectionRoom {
        connection,
        limit_bytes,
    };
    s.apply(room(0));
    for id in 0..1_000 {
        s.credit(ConsumerId(1_000 + id), 1);
    }
    for _ in 0..1_000 {
        s.publish("q", &draft("m"));
    }
    assert_eq!(s.counts("q"), (1_000, 0, 0));
    let spent = spent_ns(&mut s, room(u64::MAX));
    assert!(spent < 2 * BATCH_NS_MAX, "{spent}");
    let assigned = s.effects.outgoing.len();
    assert!((1..=4 * SLICE).contains(&assigned), "{assigned}");
    finish(&mut s);
    assert_eq!(s.counts("q"), (0, 1_000, 0), "the others follow");
}

/// The set of all queues with dead letters that wait was copied with each change of the topology.
#[test]
fn queues_with_dead_letters_that_wait_are_tried_again_in_pieces_all_of_them() {
    let mut s = Scenario::new();
    let waiting = [
        ("x-dead-letter-exchange", text("fan")),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-overflow", text("reject-publish")),
        ("x-queue-type", text("quorum")),
    ];
    s.exchange("fan", "fanout");
    for index in 0..500 {
        let name = format!("w{index}");
        s.queue(&name, &waiting);
        s.publish(&name, &draft("m"));
        let taken = s.take(1, &name, 1);
        s.reject(&taken[0]);
        s.detach(ConsumerId(1));
    }
    s.queue("dlq", &[]);
    s.queue("other", &[]);
    let bind = |queue: &str| {
        Command::Topology(TopologyCommand::Bind {
            connection: Some(CONNECTION),
            source: Name::from("fan"),
            destination: Destination::Queue(Name::from(queue)),
            key: Name::from(""),
            arguments: Vec::new(),
        })
    };
    s.core.apply(s.now, bind("dlq"), &mut s.effects);
    let moved = s.core.queue("dlq").unwrap().messages.live();
    assert!(moved <= 2 * SLICE as u64, "{moved} in one step");
    s.core.apply(s.now, bind("other"), &mut s.effects);
    finish(&mut s);
    assert_eq!(s.counts("dlq"), (500, 0, 0));
    assert_eq!(s.counts("w499"), (0, 0, 0));
    assert!(s.core.queue("other").unwrap().messages.live() > 300);
}

/// A dry run asked a queue of ten million for those that a consumer holds: all of its blocks were
/// passed under one hold.
#[test]
fn a_listing_passes_a_bounded_number_of_blocks_without_what_is_looked_for() {
    let mut s = Scenario::with(CoreOptions {
        block_shift: 1,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[]);
    let messages = 3 * BROWSED_BLOCKS_MAX as u64 * 2;
    for _ in 0..messages {
        s.publish("q", &draft("m"));
    }
    let held = s.take(1, "q", messages - 1);
    assert_eq!(held.len() as u64, messages - 1);
    let (mut found, mut pieces, mut next) = (Vec::new(), 0, Some(Position(0)));
    while let Some(from) = next {
        let browsed = s
            .core
            .browse("q", queue::MessageState::Ready, from, 5)
            .unwrap();
        found.extend(browsed.messages.iter().map(|one| one.position));
        (pieces, next) = (pieces + 1, browsed.next);
    }
    assert_eq!(found.len(), 1);
    assert!((3..=4).contains(&pieces), "{pieces}");
}

/// Whoever left held the last of a million messages: all before it were passed under one hold of the lock, a second long.
#[test]
fn what_others_hold_is_passed_in_pieces_when_a_consumer_goes() {
    const OTHERS: u64 = 2_000;
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for number in 0..=OTHERS {
        s.publish("q", &draft(&number.to_string()));
    }
    s.take(1, "q", OTHERS);
    let last = s.consumer(2, "q");
    s.credit(last, 1);
    assert_eq!(s.counts("q"), (0, OTHERS + 1, 0));
    let detach = Command::ConsumerDetach { consumer: last };
    let (now, effects) = (s.now, &mut s.effects);
    s.core.apply_alone(now, detach, effects);
    let mut pieces = 0;
    while s.core.has_work() {
        s.core.work_one(s.now, &mut s.effects);
        pieces += 1;
    }
    assert_eq!(s.counts("q"), (1, OTHERS, 0));
    assert!(pieces > OTHERS / SLICE as u64, "{pieces}");
}
