//! Queues, their owners and their ends.

use super::scenario::{CONNECTION, Scenario, draft, text};
use crate::base::{ConnectionId, ConsumerId, Name, SessionId};
use crate::broker::*;

fn declare(s: &mut Scenario, name: &str, exclusive: bool, auto_delete: bool) -> Reply {
    s.apply(Command::Queue(QueueCommand::Declare {
        connection: Some(CONNECTION),
        name: Name::from(name),
        durable: true,
        exclusive,
        auto_delete,
        arguments: Vec::new(),
    }))
}

#[test]
fn a_redeclaration_finds_the_queue_or_names_what_differs() {
    let mut s = Scenario::new();
    let Reply::QueueDeclared {
        created: true, lsn, ..
    } = declare(&mut s, "q", false, false)
    else {
        panic!()
    };
    assert_eq!(s.records.last().map(|record| record.lsn), Some(lsn));
    let again = declare(&mut s, "q", false, false);
    assert!(matches!(again, Reply::QueueDeclared { created: false, .. }));
    let other = declare(&mut s, "q", false, true);
    assert!(
        matches!(other, Reply::Refused(Error::Inequivalent { .. })),
        "{other:?}"
    );
    let reserved = declare(&mut s, "amq.q", false, false);
    assert!(
        matches!(reserved, Reply::Refused(Error::Reserved { .. })),
        "{reserved:?}"
    );
}

#[test]
fn queues_are_counted_as_they_are_declared_created_and_deleted() {
    let mut s = Scenario::new();
    declare(&mut s, "q", false, false);
    declare(&mut s, "q", false, false);
    declare(&mut s, "q", false, true);
    declare(&mut s, "r", false, false);
    let delete = Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    });
    s.apply(delete);
    let churn = QueueChurn {
        declared: 3,
        created: 2,
        deleted: 1,
    };
    assert_eq!(
        s.core.counters().queues,
        churn,
        "what is refused counts not"
    );
    let at_end = QueueChurn {
        deleted: 2,
        ..churn
    };
    assert_eq!(s.core.counters_at_end().queues, at_end);
}

#[test]
fn an_exclusive_queue_is_locked_for_others_and_goes_with_its_connection() {
    let mut s = Scenario::new();
    s.connect(ConnectionId(2), SessionId(2));
    declare(&mut s, "q", true, false);
    let locked = Reply::Refused(Error::Locked {
        name: Name::from("q"),
        vhost: s.core.vhost().clone(),
    });
    let other = s.consume(1, "q", |c| c.of(ConnectionId(2), SessionId(2)));
    assert_eq!(other, locked);
    let delete = |connection| {
        Command::Queue(QueueCommand::Delete {
            connection,
            name: Name::from("q"),
            if_unused: false,
            if_empty: false,
        })
    };
    assert_eq!(s.apply(delete(Some(ConnectionId(2)))), locked);
    assert_eq!(
        s.publish("q", &draft("a")),
        PublishOutcome::Accepted,
        "publishing works"
    );
    s.apply(Command::ConnectionClose {
        connection: CONNECTION,
    });
    assert!(s.core.queue("q").is_none());
    assert!(
        s.has_told_event_numbers_only(),
        "the journal never heard of it"
    );
}

#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer() {
    let mut s = Scenario::new();
    declare(&mut s, "q", false, true);
    let (a, b) = (s.consumer(1, "q"), s.consumer(2, "q"));
    s.detach(a);
    assert!(s.core.queue("q").is_some());
    s.detach(b);
    assert!(s.core.queue("q").is_none());
}

#[test]
fn deleting_a_queue_ends_its_consumers_and_frees_their_session() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b"]);
    let taken = s.take(1, "q", 1).remove(0);
    let delete = Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    });
    assert!(matches!(
        s.apply(delete),
        Reply::QueueDeleted { messages: 1, .. }
    ));
    let ended = Effect::ConsumerEnded {
        consumer: ConsumerId(1),
        cause: ConsumerEnd::QueueDeleted,
    };
    assert_eq!(format!("{:?}", s.others), format!("[{ended:?}]"));
    s.settle(&taken, Outcome::Accepted);
    assert_eq!(s.publish("q", &draft("c")), PublishOutcome::Unroutable);
    s.queue("q", &[]);
    assert_eq!(s.counts("q"), (0, 0, 0));
}

#[test]
fn conditions_of_a_deletion_hold() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a"]);
    let c = s.consumer(1, "q");
    let delete = |if_unused, if_empty| {
        Command::Queue(QueueCommand::Delete {
            connection: None,
            name: Name::from("q"),
            if_unused,
            if_empty,
        })
    };
    for (if_unused, if_empty) in [(true, false), (false, true)] {
        let reply = s.apply(delete(if_unused, if_empty));
        assert!(
            matches!(reply, Reply::Refused(Error::NotIdle { .. })),
            "{reply:?}"
        );
    }
    s.bodies("q");
    s.detach(c);
    assert!(matches!(
        s.apply(delete(true, true)),
        Reply::QueueDeleted { messages: 0, .. }
    ));
    assert!(matches!(
        s.apply(delete(true, true)),
        Reply::QueueDeleted { messages: 0, .. }
    ));
}

#[test]
fn a_purge_takes_what_is_ready_and_leaves_what_is_held() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for n in 0..1_300 {
        s.publish("q", &draft(&n.to_string()));
    }
    let c = s.consumer(1, "q");
    s.credit(c, 700);
    let (connection, name) = (None, Name::from("q"));
    let purge = Command::Queue(QueueCommand::Purge {
        connection,
        name,
        with_dead_pending: false,
    });
    assert!(matches!(
        s.apply(purge),
        Reply::Purged { messages: 600, .. }
    ));
    assert_eq!(s.counts("q"), (0, 700, 0));
    s.detach(c);
    s.publish_all("q", &["new"]);
    let bodies = s.bodies("q");
    assert_eq!(
        (bodies.len(), bodies.last().map(String::as_str)),
        (701, Some("new"))
    );
    assert_eq!(s.dropped("q", DropCause::Purged), 600);
}

#[test]
fn publishing_says_what_is_wrong_with_the_exchange() {
    let mut s = Scenario::new();
    assert_eq!(
        s.publish_to("missing", "", &draft("a")),
        PublishOutcome::NoExchange {
            exchange: Name::from("missing")
        }
    );
    assert_eq!(
        s.publish("missing", &draft("a")),
        PublishOutcome::Unroutable
    );
    s.apply(Command::Topology(TopologyCommand::ExchangeDeclare {
        name: Name::from("inner"),
        kind: Name::from("fanout"),
        durable: false,
        auto_delete: false,
        internal: true,
        arguments: Vec::new(),
    }));
    assert_eq!(
        s.publish_to("inner", "", &draft("a")),
        PublishOutcome::Internal {
            exchange: Name::from("inner")
        }
    );
    let name = Name::from("inner");
    let resolved = s.apply(Command::Topology(TopologyCommand::ExchangeResolve { name }));
    assert!(matches!(resolved, Reply::Refused(Error::Internal { .. })));
}

#[test]
fn deleting_a_long_queue_is_one_step_and_then_slices() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-queue-type", text("classic"))]);
    let mut message = draft("a");
    message.durable = false;
    for _ in 0..10_000 {
        s.publish("q", &message);
    }
    let mut effects = Effects::new();
    let (connection, name) = (None, Name::from("q"));
    let delete = Command::Queue(QueueCommand::Delete {
        connection,
        name,
        if_unused: false,
        if_empty: false,
    });
    s.core.apply(s.now, delete, &mut effects);
    assert!(s.core.has_work());
    let mut ticks = 0;
    while s.core.tick(s.now, 64, &mut effects) == More::Yes {
        ticks += 1;
    }
    assert!(ticks >= 15, "{ticks}");
}

#[test]
fn a_random_exchange_takes_classic_queues_without_a_key_and_gives_each_its_share() {
    let mut s = Scenario::new();
    s.exchange("r", "x-local-random");
    for name in ["q1", "q2"] {
        s.declare(name, &[("x-queue-type", text("classic"))]);
        s.bind("r", name, "");
    }
    s.declare("quorum", &[("x-queue-type", text("quorum"))]);
    let mut refused = |destination: Destination, key: &str| {
        let reply = s.apply(Command::Topology(TopologyCommand::Bind {
            connection: Some(CONNECTION),
            source: Name::from("r"),
            destination,
            key: Name::from(key),
            arguments: Vec::new(),
        }));
        match reply {
            Reply::Refused(error) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let queue = |name: &str| Destination::Queue(Name::from(name));
    assert!(refused(queue("q1"), "k").contains("an empty binding key only, not 'k'"));
    assert!(refused(queue("quorum"), "").contains("not one of type quorum"));
    let exchange = Destination::Exchange(Name::from("amq.fanout"));
    assert!(refused(exchange, "").contains("queues only"));
    assert!(refused(queue("missing"), "k").contains("no queue 'missing'"));

    for _ in 0..200 {
        let outcome = s.publish_to("r", "whatever", &draft("a"));
        assert_eq!(outcome, PublishOutcome::Accepted);
    }
    let ready = |name: &str| s.core.queue(name).unwrap().messages.ready();
    assert_eq!(ready("q1") + ready("q2"), 200);
    assert!((60..=140).contains(&ready("q1")), "{}", ready("q1"));
}

#[test]
fn what_the_journal_keeps_is_counted_through_every_way_out() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-queue-type", text("classic"))]);
    let (durable, mut transient) = (draft("four"), draft("12345678"));
    transient.durable = false;
    for _ in 0..3 {
        s.publish("q", &durable);
        s.publish("q", &transient);
    }
    let counted = |s: &Scenario| {
        let durable = s.core.queue("q").unwrap().details().durable;
        (durable.messages, durable.bytes)
    };
    let (messages, bytes) = counted(&s);
    assert_eq!(messages, 3);
    let each = bytes / 3;
    let taken = s.take(1, "q", 3);
    assert_eq!(counted(&s), (3, 3 * each), "held messages count");
    s.settle(&taken[0], Outcome::Accepted);
    assert_eq!(counted(&s), (2, 2 * each));
    s.apply(Command::Queue(QueueCommand::Purge {
        connection: None,
        name: Name::from("q"),
        with_dead_pending: false,
    }));
    assert_eq!(counted(&s), (1, each), "one is held, the third delivery");
}
