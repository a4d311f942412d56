//! Transactions: all that was published and settled in one, in one step, or none of it. [AMQP 4]

use super::scenario::{CONNECTION, Scenario, body_of, draft, number, text};
use crate::base::limits::TRANSACTION_ENTRIES_MAX;
use crate::base::{Lsn, Name, Now};
use crate::broker::*;
use crate::deaths::Reason;

/// Commits posts (exchange, key, body) and outcomes: why it was refused, and its record.
fn commit(
    s: &mut Scenario,
    posts: &[(&str, &str, &str)],
    outcomes: Vec<(&Delivery, Outcome)>,
) -> (Option<NotCommitted>, Lsn) {
    let posts = posts
        .iter()
        .map(|(exchange, key, body)| draft(body).post(exchange, key, 1));
    let settle = |(delivery, outcome): (&Delivery, Outcome)| Settle {
        consumer: delivery.consumer,
        position: delivery.position,
        outcome,
        confirm: None,
    };
    s.apply(Command::Commit(Commit {
        connection: CONNECTION,
        token: 7,
        posts: posts.collect(),
        outcomes: outcomes.into_iter().map(settle).collect(),
    }));
    match s.others.pop() {
        Some(Effect::Committed {
            token: 7,
            refused,
            lsn,
        }) => (refused, lsn),
        other => panic!("{other:?}"),
    }
}

fn with_dlq(arguments: &[(&str, crate::wire::Value)]) -> Scenario {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    let mut all = vec![
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    all.extend_from_slice(arguments);
    s.queue("work", &all);
    s.queue("out", &[]);
    s
}

#[test]
fn posts_and_outcomes_of_a_transaction_are_one_record_and_its_answer_waits_for_it() {
    let mut s = with_dlq(&[]);
    s.publish_all("work", &["a", "b", "c"]);
    let held = s.take(1, "work", 3);
    s.credit(held[0].consumer, 3);
    let records = s.records.len();
    let failed = Outcome::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: None,
    };
    let (refused, lsn) = commit(
        &mut s,
        &[("", "out", "x"), ("", "out", "y")],
        vec![
            (&held[0], Outcome::Accepted),
            (&held[1], Outcome::Rejected { evidence: None }),
            (&held[2], failed),
        ],
    );
    assert_eq!(refused, None);
    let made: Vec<_> = s.records[records..].iter().map(|it| it.lsn).collect();
    assert_eq!(made, [lsn]);
    assert_eq!(s.bodies("out"), ["x", "y"]);
    assert_eq!(s.counts("work"), (1, 0, 0));
    let dead = s.take(3, "dlq", 9);
    assert_eq!(dead.iter().map(body_of).collect::<Vec<_>>(), ["b"]);
    let history = dead[0].message.history().unwrap();
    assert_eq!(history.last().reason, Reason::Rejected);
    assert_eq!(history.entries().len(), 1, "it died once");
    let counters = s.core.counters();
    assert_eq!((counters.published, counters.accepted), (5, 5));
    assert_eq!(counters.settled.accepted, 3, "two of them out of 'out'");
}

#[test]
fn a_long_transaction_is_one_record_too() {
    let mut s = with_dlq(&[]);
    let body = "x".repeat(600_000);
    let posts = vec![("", "out", &*body); 5];
    let records = s.records.len();
    let (refused, lsn) = commit(&mut s, &posts, vec![]);
    assert_eq!(refused, None);
    assert_eq!(s.records.len(), records + 1);
    assert_eq!(s.records[records].lsn, lsn);
    assert_eq!(s.counts("out"), (5, 0, 0));
}

#[test]
fn a_transaction_without_durable_messages_waits_for_no_record() {
    let mut s = with_dlq(&[]);
    let records = s.records.len();
    let mut post = draft("x");
    post.durable = false;
    s.apply(Command::Commit(Commit {
        connection: CONNECTION,
        token: 1,
        posts: vec![post.post("", "out", 1)],
        outcomes: vec![],
    }));
    let Some(Effect::Committed { lsn, .. }) = s.others.pop() else {
        panic!("{:?}", s.others);
    };
    assert_eq!((lsn, s.records.len()), (Lsn(0), records));
    assert_eq!(s.bodies("out"), ["x"]);
}

/// Posts as exchange, key and body, and what refuses them.
type Case<'a> = (&'a [(&'a str, &'a str, &'a str)], PublishOutcome);

/// Of each cause: the transaction is refused, and nothing of it has happened.
#[test]
fn one_message_without_a_place_refuses_the_whole_transaction_and_changes_nothing() {
    let full = [
        ("x-max-length", number(2)),
        ("x-overflow", text("reject-publish")),
    ];
    let name = Name::from;
    let cases: [Case<'_>; 5] = [
        (&[("", "nowhere", "y")], PublishOutcome::Unroutable),
        (
            &[("gone", "k", "y")],
            PublishOutcome::NoExchange {
                exchange: name("gone"),
            },
        ),
        (
            &[("inside", "k", "y")],
            PublishOutcome::Internal {
                exchange: name("inside"),
            },
        ),
        // Each of them alone would have a place.
        (
            &[("", "full", "y"), ("", "full", "z")],
            PublishOutcome::QueueFull {
                queue: name("full"),
            },
        ),
        (
            &[("amq.fanout", "", "y"), ("", "full", "z")],
            PublishOutcome::QueueFull {
                queue: name("full"),
            },
        ),
    ];
    for (posts, expected) in cases {
        let mut s = with_dlq(&[]);
        s.queue("full", &full);
        s.publish_all("full", &["first"]);
        s.apply(Command::Topology(TopologyCommand::Bind {
            connection: None,
            source: name("amq.fanout"),
            destination: Destination::Queue(name("full")),
            key: name(""),
            arguments: vec![],
        }));
        s.apply(Command::Topology(TopologyCommand::ExchangeDeclare {
            name: name("inside"),
            kind: name("fanout"),
            durable: true,
            auto_delete: false,
            internal: true,
            arguments: vec![],
        }));
        s.publish_all("work", &["a"]);
        let held = s.take(1, "work", 1);
        let records = s.records.len();
        let posts = [&[("", "out", "x")], posts].concat();
        let (refused, _) = commit(&mut s, &posts, vec![(&held[0], Outcome::Accepted)]);
        assert_eq!(refused, Some(NotCommitted::Post(expected)));
        assert_eq!(s.records.len(), records);
        assert_eq!(s.counts("out"), (0, 0, 0));
        assert_eq!(s.counts("full"), (1, 0, 0));
        assert_eq!(s.counts("work"), (0, 1, 0), "it is still held");
        s.settle(&held[0], Outcome::Accepted);
        assert_eq!(s.counts("work"), (0, 0, 0));
    }
}

#[test]
fn a_full_queue_with_a_waiting_consumer_takes_one_message_of_a_transaction() {
    let mut s = Scenario::new();
    let full = [
        ("x-max-length", number(0)),
        ("x-overflow", text("reject-publish")),
    ];
    s.queue("full", &full);
    let waiting = s.consumer(1, "full");
    s.credit(waiting, 5);
    let (refused, _) = commit(&mut s, &[("", "full", "x"), ("", "full", "y")], vec![]);
    let queue = Name::from("full");
    let full = PublishOutcome::QueueFull { queue };
    assert_eq!(refused, Some(NotCommitted::Post(full)));
    let (refused, _) = commit(&mut s, &[("", "full", "x")], vec![]);
    assert_eq!(refused, None);
    assert_eq!(s.taken(waiting).len(), 1);
}

#[test]
fn messages_of_a_transaction_push_out_others_under_drop_head() {
    let mut s = with_dlq(&[("x-max-length", number(2))]);
    s.publish_all("work", &["a", "b"]);
    let (refused, _) = commit(&mut s, &[("", "work", "c"), ("", "work", "d")], vec![]);
    assert_eq!(refused, None);
    assert_eq!(s.bodies("work"), ["c", "d"]);
    assert_eq!(s.bodies("dlq"), ["a", "b"]);
}

#[test]
fn a_transaction_with_a_delivery_that_timed_out_is_refused_as_others_may_have_it() {
    let mut s = with_dlq(&[("x-consumer-timeout", number(100))]);
    s.publish_all("work", &["a", "b"]);
    let held = s.take(1, "work", 2);
    s.pass(100);
    s.others.clear();
    let accepted = |index: usize| (&held[index], Outcome::Accepted);
    let (refused, _) = commit(&mut s, &[("", "out", "x")], vec![accepted(0), accepted(1)]);
    assert_eq!(refused, Some(NotCommitted::NotHeld));
    assert_eq!((s.counts("work"), s.counts("out")), ((2, 0, 0), (0, 0, 0)));
}

#[test]
fn an_outcome_of_what_is_gone_with_its_queue_changes_nothing() {
    let mut s = with_dlq(&[]);
    s.publish_all("work", &["a"]);
    let held = s.take(1, "work", 1);
    s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("work"),
        if_unused: false,
        if_empty: false,
    }));
    s.others.clear();
    let accepted = vec![(&held[0], Outcome::Accepted)];
    let (refused, _) = commit(&mut s, &[("", "out", "x")], accepted);
    assert_eq!((refused, s.counts("out")), (None, (1, 0, 0)));
}

#[test]
fn a_transaction_that_would_enter_too_many_queues_is_refused() {
    let mut s = Scenario::new();
    for index in 0..70 {
        let queue = format!("q{index}");
        s.queue(&queue, &[]);
        s.apply(Command::Topology(TopologyCommand::Bind {
            connection: None,
            source: Name::from("amq.fanout"),
            destination: Destination::Queue(Name::from(&*queue)),
            key: Name::from(""),
            arguments: vec![],
        }));
    }
    let posts = vec![("amq.fanout", "", "x"); TRANSACTION_ENTRIES_MAX / 70];
    assert_eq!(commit(&mut s, &posts, vec![]).0, None);
    let posts = vec![("amq.fanout", "", "x"); TRANSACTION_ENTRIES_MAX / 70 + 1];
    let (refused, _) = commit(&mut s, &posts, vec![]);
    assert!(
        matches!(
            refused,
            Some(NotCommitted::Post(PublishOutcome::TooManyQueues(_)))
        ),
        "{refused:?}"
    );
    let entered = TRANSACTION_ENTRIES_MAX / 70;
    assert_eq!(s.counts("q0"), (entered as u64, 0, 0));
}

/// The queue has room for the first message, is served because of the second, and expires at that.
#[test]
fn a_queue_that_expires_while_a_transaction_is_checked_takes_none_of_its_messages() {
    let mut s = Scenario::new();
    let arguments = [
        ("x-expires", number(100)),
        ("x-max-length", number(1)),
        ("x-overflow", text("reject-publish")),
    ];
    s.exchange("x", "fanout");
    s.queue("short", &arguments);
    s.queue("other", &[]);
    s.bind("x", "short", "");
    s.bind("x", "other", "");
    s.now = Now::new(s.now.mono.plus(100), s.now.wall);
    let (refused, _) = commit(&mut s, &[("", "short", "a"), ("x", "", "b")], vec![]);
    assert_eq!(
        refused,
        Some(NotCommitted::Post(PublishOutcome::Unroutable))
    );
    assert!(s.core.queue("short").is_none(), "expired");
    assert_eq!(s.counts("other"), (0, 0, 0));
}

#[test]
fn dead_letters_of_a_transaction_count_for_the_queues_that_it_may_enter() {
    let mut s = Scenario::new();
    s.queue("work", &[("x-dead-letter-exchange", text("amq.fanout"))]);
    for index in 0..70 {
        let queue = format!("q{index}");
        s.queue(&queue, &[]);
        s.apply(Command::Topology(TopologyCommand::Bind {
            connection: None,
            source: Name::from("amq.fanout"),
            destination: Destination::Queue(Name::from(&*queue)),
            key: Name::from(""),
            arguments: vec![],
        }));
    }
    let most = TRANSACTION_ENTRIES_MAX / 70;
    s.publish_all("work", &vec!["x"; most + 2]);
    let held = s.take(1, "work", most as u64 + 2);
    let reject = |some: &[Delivery], s: &mut Scenario| {
        let rejected = some
            .iter()
            .map(|it| (it, Outcome::Rejected { evidence: None }));
        commit(s, &[], rejected.collect()).0
    };
    let refused = reject(&held[..=most], &mut s);
    assert!(
        matches!(
            refused,
            Some(NotCommitted::Post(PublishOutcome::TooManyQueues(_)))
        ),
        "{refused:?}"
    );
    assert_eq!(s.counts("work"), (0, most as u64 + 2, 0), "all are held");
    assert_eq!(s.counts("q0"), (0, 0, 0));
    // What does not die enters nothing.
    let released = held[..=most].iter().map(|it| (it, Outcome::Released));
    assert_eq!(commit(&mut s, &[], released.collect()).0, None);
    let again = s.take(2, "work", most as u64);
    assert_eq!(reject(&again, &mut s), None);
    assert_eq!(s.counts("q0"), (most as u64, 0, 0));
}

#[test]
fn a_post_to_a_topic_that_nobody_subscribed_to_is_committed_and_counted() {
    let mut s = with_dlq(&[]);
    let to_topic = |key| Publish {
        target: Target::NamedTopic,
        ..draft("unheard").post("amq.topic", key, 1)
    };
    s.bind("amq.topic", "out", "heard");
    let posts = vec![to_topic("nobody"), to_topic("heard")];
    s.apply(Command::Commit(Commit {
        connection: CONNECTION,
        token: 7,
        posts,
        outcomes: Vec::new(),
    }));
    let committed = s.others.pop();
    let refused = match &committed {
        Some(Effect::Committed { refused, .. }) => refused,
        other => panic!("{other:?}"),
    };
    assert_eq!(*refused, None);
    assert_eq!(s.bodies("out"), ["unheard"]);
    assert_eq!(s.core.counters().unheard, 1);
}
