//! What topology takes in memory, and how much of it one step may touch.

use super::redrive::{begin, job, spec};
use super::scenario::{Scenario, draft, number, text};
use crate::base::limits::{POLICIES_MAX, ROUTED_QUEUES_MAX, ROUTING_STEPS_MAX};
use crate::base::{Gauge, Meter, Name, Seed, Step};
use crate::broker::policy::PolicySpec;
use crate::broker::redrive::RedriveTarget;
use crate::broker::*;
use crate::wire::Value;

fn options(kept: &Gauge) -> CoreOptions {
    CoreOptions {
        kept: kept.clone(),
        ..CoreOptions::new(Name::from("/"), Seed(3))
    }
}

fn bind(s: &mut Scenario, source: &str, key: &str, arguments: &[(&str, Value)]) -> TopologyCommand {
    let own = |(name, value): &(&str, Value)| (Name::from(*name), value.clone());
    let arguments: Vec<(Name, Value)> = arguments.iter().map(own).collect();
    let (source, key) = (Name::from(source), Name::from(key));
    let destination = Destination::Queue(Name::from("q"));
    s.apply(Command::Topology(TopologyCommand::Bind {
        connection: None,
        source: source.clone(),
        destination: destination.clone(),
        key: key.clone(),
        arguments: arguments.clone(),
    }));
    TopologyCommand::Unbind {
        connection: None,
        source,
        destination,
        key,
        arguments,
    }
}

fn delete_queue(s: &mut Scenario, name: &str) {
    s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from(name),
        if_unused: false,
        if_empty: false,
    }));
}

/// 100,000 bindings took 40 MB that were counted nowhere, nor were queues, exchanges and policies.
#[test]
fn topology_counts_until_it_is_gone_and_the_same_after_a_restart() {
    let kept = Gauge::default();
    let mut s = Scenario::with(options(&kept));
    let (empty, mut last) = (kept.bytes(), kept.bytes());
    let mut grows = |what: &str| {
        assert!(kept.bytes() > last, "{what} counts");
        last = kept.bytes();
    };
    s.queue("q", &[("x-message-ttl", number(60_000))]);
    grows("a queue");
    for kind in ["direct", "fanout", "topic", "headers"] {
        s.exchange(kind, kind);
        grows(kind);
    }
    let mut unbind = Vec::new();
    for source in ["direct", "fanout", "topic", "headers", "amq.topic"] {
        let arguments = [("n", number(1)), ("m", text("x")), ("x-match", text("any"))];
        for key in ["a.b.c", "a.b", "a.#", "*.b"] {
            unbind.push(bind(&mut s, source, key, &arguments));
            grows(source);
        }
    }
    s.policy("p", "^q", &[("max-length", number(10))]);
    grows("a policy");
    s.policy("p", "^q", &[("max-length", number(10))]);
    bind(
        &mut s,
        "direct",
        "a.b",
        &[("n", number(1)), ("m", text("x")), ("x-match", text("any"))],
    );
    assert_eq!(kept.bytes(), last, "what was there counts once");
    let again = Gauge::default();
    let mut restoring = Restoring::new(options(&again), s.now, s.now.wall, u64::MAX);
    s.records.iter().for_each(|record| restoring.record(record));
    let rebuilt = restoring.finish();
    assert_eq!(again.bytes(), last, "rebuilt");
    drop(rebuilt);
    assert_eq!(again.bytes(), 0);
    s.no_policy("p");
    for command in unbind {
        s.apply(Command::Topology(command));
    }
    // What records say of bindings and policies is kept by them.
    s.records.clear();
    delete_queue(&mut s, "q");
    for kind in ["direct", "fanout", "topic", "headers"] {
        s.apply(Command::Topology(TopologyCommand::ExchangeDelete {
            connection: None,
            name: Name::from(kind),
            if_unused: false,
        }));
    }
    s.records.clear();
    assert_eq!(kept.bytes(), empty);
}

#[test]
fn bindings_that_go_with_their_queue_are_counted_until_they_are_forgotten() {
    let kept = Gauge::default();
    let mut s = Scenario::with(options(&kept));
    let empty = kept.bytes();
    s.queue("q", &[]);
    for key in 0..1_000 {
        bind(&mut s, "amq.topic", &format!("k.{key}"), &[]);
    }
    delete_queue(&mut s, "q");
    s.pass(1);
    s.records.clear();
    assert_eq!(kept.bytes(), empty);
}

#[test]
fn one_more_policy_than_a_vhost_may_have_is_refused_whichever_way_it_comes() {
    let mut s = Scenario::new();
    let policy = |name: &str| {
        let spec = PolicySpec {
            name: Name::from(name),
            pattern: ".*",
            priority: 0,
            apply_to: "queues",
            definition: vec![(Name::from("max-length"), number(10))],
        };
        Command::Topology(TopologyCommand::PolicySet {
            operator: false,
            policy: Box::new(Policy::new(false, spec).unwrap()),
        })
    };
    for number in 0..POLICIES_MAX {
        let reply = s.apply(policy(&format!("p{number}")));
        assert!(
            matches!(reply, Reply::PolicySet { created: true, .. }),
            "{reply:?}"
        );
    }
    assert!(matches!(
        s.apply(policy("p7")),
        Reply::PolicySet { created: false, .. }
    ));
    let Reply::Refused(refused) = s.apply(policy("one more")) else {
        panic!("it was taken")
    };
    assert!(
        refused
            .to_string()
            .contains(&format!("at most {POLICIES_MAX} ")),
        "{refused}"
    );
}

#[test]
fn a_message_for_more_queues_than_one_step_may_touch_goes_to_none() {
    let mut s = Scenario::new();
    for number in 0..=ROUTED_QUEUES_MAX {
        let queue = format!("q{number}");
        s.declare(&queue, &[]);
        s.bind("amq.fanout", &queue, "");
    }
    let outcome = s.publish_to("amq.fanout", "", &draft("a"));
    assert_eq!(outcome, too_many(ROUTED_QUEUES_MAX));
    assert_eq!(s.counts("q0").0, 0);
    delete_queue(&mut s, "q1");
    let outcome = s.publish_to("amq.fanout", "", &draft("a"));
    assert_eq!(outcome, PublishOutcome::Accepted);
    assert_eq!(
        (
            s.counts("q0").0,
            s.counts(&format!("q{ROUTED_QUEUES_MAX}")).0
        ),
        (1, 1)
    );
}

const fn too_many(queues_max: u32) -> PublishOutcome {
    PublishOutcome::TooManyQueues(TooManyQueues { queues_max })
}

/// What the setting says holds for whatever is routed: a publish, a dead letter, a redrive.
#[test]
fn fewer_queues_may_be_allowed_for_each_message() {
    let mut s = Scenario::with(CoreOptions {
        queues_per_message_max: 2,
        ..CoreOptions::new(Name::from("/"), Seed(1))
    });
    let dead = [("x-dead-letter-exchange", text("amq.fanout"))];
    s.queue("source", &dead);
    for queue in ["a", "b"] {
        s.queue(queue, &[]);
        s.bind("amq.fanout", queue, "");
    }
    let outcome = s.publish_to("amq.fanout", "", &draft("m"));
    assert_eq!(outcome, PublishOutcome::Accepted);
    s.publish("source", &draft("dies").ttl(0));
    assert_eq!((s.counts("a").0, s.counts("b").0), (2, 2));
    s.queue("c", &[]);
    s.bind("amq.fanout", "c", "");
    let PublishOutcome::TooManyQueues(why) = s.publish_to("amq.fanout", "", &draft("m")) else {
        panic!("it was taken")
    };
    assert!(why.to_string().contains("more than 2 queues"), "{why}");
    s.publish("source", &draft("dies").ttl(0));
    assert_eq!(s.dropped("source", DropCause::Unroutable), 1);
    s.queue("kept", &[]);
    s.publish("kept", &draft("stays"));
    let target = RedriveTarget::Exchange {
        exchange: Name::from("amq.fanout"),
        routing_key: Name::default(),
    };
    begin(&mut s, "j", spec("kept", target));
    assert_eq!(job(&s, "j").counts.skipped_no_target, 1);
    assert_eq!(s.counts("kept").0, 1);
    assert_eq!((s.counts("a").0, s.counts("c").0), (2, 0));
}

/// Queues were counted and what is walked to find them was not: a few patterns of many `#` made a key of 257
/// words reach a hundred thousand nodes, 256 keys the same queue 256 times.
#[test]
fn a_message_whose_queues_take_too_many_steps_to_find_goes_to_none() {
    let mut s = Scenario::new();
    s.declare("q", &[]);
    s.exchange("t", "topic");
    let key = ["a"; 257].join(".");
    let bind = |s: &mut Scenario, stars: usize| {
        let pattern = [&["*"; 1].repeat(stars)[..], &["#", "a"].repeat(64)].concat();
        s.bind("t", "q", &pattern.join("."));
    };
    bind(&mut s, 0);
    assert_eq!(
        s.publish_to("t", &key, &draft("a")),
        PublishOutcome::Accepted
    );
    (1..8).for_each(|stars| bind(&mut s, stars));
    s.effects.meter = Meter::default();
    for _ in 0..2 {
        let outcome = s.publish_to("t", &key, &draft("b"));
        assert_eq!(outcome, too_many(ROUTED_QUEUES_MAX));
    }
    let spent_ns = s.effects.meter.spent_ns();
    let most_ns = 2 * (ROUTING_STEPS_MAX + 1_000) as u64 * Step::Node.ns();
    assert!((most_ns / 2..most_ns).contains(&spent_ns), "{spent_ns}");
    assert_eq!(
        s.publish_to("t", "a", &draft("c")),
        PublishOutcome::Unroutable
    );
    assert_eq!(s.counts("q").0, 1);
}
