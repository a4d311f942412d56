//! Links of consumers that outlive their connection. [AMQP 2.6.13, 3.5.6]

mod drains;

use std::sync::Arc;

use super::scenario::{CONNECTION, Scenario, body_of, draft, number, text};
use crate::base::limits::RESUMABLE_LINKS_USER_MAX;
use crate::base::{ConnectionId, ConsumerId, Lsn, Name, Position, Seed, SessionId};
use crate::broker::recovery::{Acquisition, ExpiryPolicy, Kept, LinkKey, Recovered, Recovery};
use crate::broker::*;
use crate::deaths::{Evidence, How};

const TIMEOUT_MS: u64 = 60_000;

/// A client that connects again and again, and attaches the same link.
struct Client {
    s: Scenario,
    /// Number of the connection, the session and the consumer.
    at: u64,
    /// The record that it waits for.
    lsn: Lsn,
}

type Known = Vec<(Position, Option<Outcome>)>;

fn key(link: &str) -> LinkKey {
    LinkKey {
        user: Name::from("ada"),
        by_token: false,
        container: Name::from("gateway-7"),
        link: Name::from(link),
    }
}

fn wanted(expiry: ExpiryPolicy, known: Known) -> Recovery {
    Recovery {
        key: key("link"),
        expiry,
        timeout_ms: TIMEOUT_MS,
        known: known
            .into_iter()
            .map(|(position, outcome)| (first(position), outcome))
            .collect(),
        is_incomplete: false,
        is_durable: false,
    }
}

/// The first delivery of a message.
const fn first(position: Position) -> Acquisition {
    Acquisition {
        position,
        acquired: 0,
    }
}

fn positions(all: &[Acquisition]) -> Vec<Position> {
    all.iter().map(|it| it.position).collect()
}

impl Client {
    /// The bodies are in queue `q`.
    fn new(arguments: &[(&str, crate::wire::Value)], bodies: &[&str]) -> Self {
        let mut s = Scenario::new();
        s.queue("q", arguments);
        s.publish_all("q", bodies);
        Self {
            s,
            at: 10,
            lsn: Lsn(0),
        }
    }

    /// Connects anew and attaches the link; what it is told of what it held.
    fn attach(&mut self, known: Known) -> Option<Recovered> {
        self.attach_as(wanted(ExpiryPolicy::ConnectionClose, known), |_| {})
    }

    fn attach_as(
        &mut self,
        recovery: Recovery,
        adjust: impl FnOnce(&mut Consume),
    ) -> Option<Recovered> {
        self.at += 1;
        let (connection, session) = (ConnectionId(self.at), SessionId(self.at));
        self.s.connect(connection, session);
        let evidence = Evidence::of_consumer(&Name::from("gateway-7"), "link", None, None);
        let reply = self.s.consume(self.at, "q", |consume| {
            consume.connection = connection;
            consume.session = session;
            consume.evidence = Some(Arc::new(evidence));
            consume.recovery = Some(Box::new(recovery));
            adjust(consume);
        });
        let Reply::Consuming { kept, .. } = reply else {
            panic!("{reply:?}");
        };
        let told = self.told(self.consumer());
        let is_recovering = matches!(kept, Kept::Recovering { .. });
        assert_eq!(told.is_some(), is_recovering, "{kept:?}");
        assert_ne!(kept, Kept::No);
        told
    }

    fn told(&mut self, of: ConsumerId) -> Option<Recovered> {
        let mut told = None;
        self.s.others.retain(|effect| match effect {
            Effect::Recovered {
                consumer,
                recovered,
                lsn,
            } if *consumer == of => {
                told = Some(((**recovered).clone(), *lsn));
                false
            }
            _ => true,
        });
        self.lsn = told.as_ref().map_or(self.lsn, |(_, lsn)| *lsn);
        told.map(|(told, _)| told)
    }

    fn consumer(&self) -> ConsumerId {
        ConsumerId(self.at)
    }

    /// Gives credit up to so many since the attach; what is delivered for it: bodies, and whether they
    /// are sent again.
    fn take(&mut self, limit: u64) -> Vec<(String, Position, bool)> {
        let consumer = self.consumer();
        self.s.credit(consumer, limit);
        let taken = self.s.taken(consumer);
        let taken = taken.iter();
        taken
            .map(|it| (body_of(it), it.position, it.resumed))
            .collect()
    }

    fn positions(&mut self, limit: u64) -> Vec<Position> {
        let taken = self.take(limit).into_iter();
        taken.map(|(_, position, _)| position).collect()
    }

    fn settle(&mut self, position: Position, outcome: Outcome) {
        self.s.apply(Command::Settle(Settle {
            consumer: self.consumer(),
            position,
            outcome,
            confirm: None,
        }));
    }

    fn lose(&mut self) {
        let connection = ConnectionId(self.at);
        self.s.apply(Command::ConnectionClose { connection });
    }

    /// What another consumer gets.
    fn others(&mut self) -> Vec<String> {
        let taken = self.s.take(1_000 + self.at, "q", 100);
        let bodies = taken.iter().map(body_of).collect();
        self.s.apply(Command::ConsumerDetach {
            consumer: ConsumerId(1_000 + self.at),
        });
        bodies
    }
}

#[test]
fn what_a_lost_consumer_holds_is_nobody_elses_and_is_sent_again_as_far_as_it_knows_of_it() {
    let mut c = Client::new(&[], &["a", "b", "c", "d"]);
    assert_eq!(c.attach(vec![]), None);
    let held = c.positions(3);
    c.lose();
    assert_eq!(c.others(), ["d"], "the others are held");
    assert_eq!(c.s.counts("q"), (1, 3, 0));
    // It has `a` and `c`, without an outcome; `b` it never got.
    let told = c.attach(vec![(held[0], None), (held[2], None)]).unwrap();
    assert_eq!(positions(&told.held), [held[0], held[2]]);
    assert!(told.late.is_empty());
    assert_eq!(c.s.counts("q"), (2, 2, 0));
    let first = c.take(1);
    assert_eq!(first, [("a".to_owned(), held[0], true)], "as credit allows");
    let rest = c.take(4);
    let rest: Vec<_> = rest
        .iter()
        .map(|(body, _, again)| (&**body, *again))
        .collect();
    assert_eq!(rest, [("c", true), ("b", false), ("d", false)]);
    for position in held {
        c.settle(position, Outcome::Accepted);
    }
    assert_eq!(c.s.counts("q"), (0, 1, 0));
}

/// The simulation of whole brokers had another consumer get it: it was given back as one that never left.
#[test]
fn what_is_sent_again_and_does_not_leave_stays_with_its_consumer() {
    let mut c = Client::new(&[], &["a", "b", "c"]);
    c.attach(vec![]);
    let held = c.positions(2);
    c.lose();
    let known = || vec![(held[0], None), (held[1], None)];
    c.attach(known());
    assert_eq!(c.take(3).len(), 3, "both again, and one that is new");
    let consumer = c.consumer();
    for position in [held[0], held[1], Position(held[1].0 + 1)] {
        c.s.apply(Command::ReturnUnsent { consumer, position });
    }
    let again: Vec<_> = c.s.taken(consumer).iter().map(body_of).collect();
    assert_eq!(again, ["a", "b", "c"], "its credit came back with them");
    for position in [held[0], held[1], Position(held[1].0 + 1)] {
        c.s.apply(Command::ReturnUnsent { consumer, position });
        c.s.credit(consumer, 0);
    }
    c.lose();
    assert_eq!(c.others(), ["c"]);
    let told = c.attach(known()).unwrap();
    assert_eq!(positions(&told.held), held);
}

#[test]
fn outcomes_that_were_lost_with_the_connection_take_effect_when_it_comes_back() {
    let mut c = Client::new(
        &[
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dead")),
        ],
        &["a", "b", "c", "d"],
    );
    c.s.queue("dead", &[]);
    c.attach(vec![]);
    let held = c.positions(4);
    c.lose();
    let evidence = Evidence::of_consumer(&Name::from("gateway-7"), "link", None, None);
    let evidence = Some(Arc::new(evidence));
    let told = c.attach(vec![
        (held[0], Some(Outcome::Accepted)),
        (held[1], Some(Outcome::Rejected { evidence })),
        (held[2], Some(Outcome::Released)),
        (held[3], None),
    ]);
    assert_eq!(
        positions(&told.unwrap().held),
        [held[3]],
        "what is settled is not told"
    );
    assert_eq!(c.s.counts("q"), (1, 1, 0));
    assert_eq!(c.s.counts("dead"), (1, 0, 0));
    let settled = &c.s.core.counters().settled;
    assert_eq!(
        (settled.accepted, settled.rejected, settled.released),
        (1, 1, 1)
    );
    let got = c.take(10);
    let got: Vec<_> = got
        .iter()
        .map(|(body, _, again)| (&**body, *again))
        .collect();
    assert_eq!(got, [("d", true), ("c", false)]);
}

/// Its consumer is told that they are settled once the record is durable.
#[test]
fn a_consumer_that_comes_back_waits_for_the_record_of_its_outcomes() {
    let mut c = Client::new(&[], &["a", "b"]);
    c.attach(vec![]);
    let held = c.positions(2);
    c.lose();
    let records = c.s.records.len();
    c.attach(vec![(held[0], Some(Outcome::Accepted)), (held[1], None)]);
    assert_eq!(c.s.records.len(), records + 1);
    assert_eq!(c.lsn, c.s.records[records].lsn);
    c.lose();
    c.attach(vec![(held[1], None)]);
    assert_eq!(c.lsn, Lsn(0), "nothing was settled");
}

/// A message that comes back keeps its position: what a consumer says of one delivery is not said of the next.
#[test]
fn an_outcome_of_an_earlier_delivery_of_a_message_has_no_effect_on_the_next_one() {
    let mut c = Client::new(&[("x-queue-type", text("quorum"))], &["a"]);
    c.attach(vec![]);
    let position = c.positions(1)[0];
    let failed = || Outcome::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: None,
    };
    c.settle(position, failed());
    assert_eq!(c.positions(2), [position], "it comes again");
    c.lose();
    // Neither that it was settled has arrived, nor the second delivery.
    let told = c.attach(vec![(position, Some(failed()))]);
    assert_eq!(told, Some(Recovered::default()));
    let consumer = c.consumer();
    c.s.credit(consumer, 1);
    let again = c.s.taken(consumer).remove(0);
    // The second one failed with its connection.
    assert_eq!((again.failures, again.resumed), (2, false));
}

#[test]
fn what_it_knows_nothing_of_comes_back_as_it_does_without_recovery() {
    let mut c = Client::new(&[("x-queue-type", text("quorum"))], &["a", "b"]);
    c.attach(vec![]);
    c.positions(2);
    c.lose();
    assert_eq!(c.attach(vec![]), Some(Recovered::default()));
    let consumer = c.consumer();
    c.s.credit(consumer, 2);
    let again = c.s.taken(consumer);
    for delivery in &again {
        assert_eq!((delivery.failures, delivery.acquired), (1, 1));
        let failure = delivery.message.last_failure().unwrap();
        assert_eq!(failure.evidence.how, Some(How::ConnectionLost));
    }
    assert_eq!(again.len(), 2);
}

#[test]
fn its_time_over_the_queue_has_what_it_held() {
    let mut c = Client::new(&[], &["a", "b"]);
    c.attach(vec![]);
    c.positions(2);
    c.lose();
    assert_eq!(c.s.core.recoverable_links(), (1, 1));
    c.s.pass(TIMEOUT_MS - 1);
    assert_eq!(c.s.counts("q"), (0, 2, 0));
    c.s.pass(1);
    assert_eq!(c.s.counts("q"), (2, 0, 0));
    assert_eq!(c.s.core.recoverable_links(), (0, 0));
    assert_eq!(
        c.attach(vec![(Position(0), None)]),
        None,
        "it is a new link"
    );
    assert_eq!(c.others(), ["a", "b"]);
}

#[test]
fn its_time_begins_as_its_policy_says() {
    use ExpiryPolicy::{ConnectionClose, LinkDetach, SessionEnd};
    // What happens in order, and whether its time has begun then.
    for (expiry, begun) in [
        (LinkDetach, [true, true, true]),
        (SessionEnd, [false, true, true]),
        (ConnectionClose, [false, false, true]),
    ] {
        for (steps, begins) in begun.into_iter().enumerate() {
            let mut c = Client::new(&[], &["a"]);
            c.attach_as(wanted(expiry, vec![]), |_| {});
            c.positions(1);
            let consumer = c.consumer();
            let (session, connection) = (SessionId(c.at), ConnectionId(c.at));
            c.s.apply(Command::ConsumerSuspend { consumer });
            if steps > 0 {
                c.s.apply(Command::SessionEnd { session });
            }
            if steps > 1 {
                c.s.apply(Command::ConnectionClose { connection });
            }
            c.s.pass(TIMEOUT_MS);
            let held = u64::from(!begins);
            assert_eq!(c.s.counts("q").1, held, "{expiry:?} after {steps} steps");
        }
    }
}

#[test]
fn a_link_that_is_closed_or_holds_nothing_is_not_kept() {
    let mut c = Client::new(&[], &["a"]);
    c.attach(vec![]);
    c.lose();
    assert_eq!(c.s.core.recoverable_links(), (0, 0));
    c.attach(vec![]);
    c.positions(1);
    let consumer = c.consumer();
    c.s.apply(Command::ConsumerDetach { consumer });
    assert_eq!(c.s.core.recoverable_links(), (0, 0));
    assert_eq!(c.s.counts("q"), (1, 0, 0));
}

#[test]
fn the_older_end_of_a_link_attached_twice_loses_it_and_what_it_says_later_has_no_effect() {
    let mut c = Client::new(&[], &["a", "b"]);
    c.attach(vec![]);
    let held = c.positions(1);
    let older = c.consumer();
    let told = c.attach(vec![(held[0], None)]).unwrap();
    assert_eq!(positions(&told.held), held);
    let stolen = c.s.others.iter().any(|effect| {
        matches!(effect, Effect::ConsumerEnded { consumer, cause: ConsumerEnd::Stolen }
            if *consumer == older)
    });
    assert!(stolen);
    c.s.apply(Command::Settle(Settle {
        consumer: older,
        position: held[0],
        outcome: Outcome::Accepted,
        confirm: None,
    }));
    c.s.apply(Command::ConsumerSuspend { consumer: older });
    assert_eq!(c.s.counts("q"), (1, 1, 0), "it is the newer end's");
    assert_eq!(c.take(2).len(), 2);
    c.settle(held[0], Outcome::Accepted);
    assert_eq!(c.s.counts("q"), (0, 1, 0));
}

/// The simulation of whole brokers saw an invariant broken: who was to get more of it was gone.
#[test]
fn a_link_that_is_lost_while_it_is_sent_again_what_it_held_has_lost_nothing() {
    let bodies: Vec<String> = (0..500).map(|number| format!("m{number}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let mut c = Client::new(&[], &bodies);
    c.attach(vec![]);
    let held = c.positions(400);
    c.lose();
    let known = || held.iter().map(|it| (*it, None)).collect();
    c.attach(known());
    let (consumer, connection) = (c.consumer(), ConnectionId(c.at));
    let flow = Command::ConsumerFlow {
        consumer,
        limit: 400,
        drain: false,
    };
    let now = c.s.now;
    c.s.core.apply(now, flow, &mut c.s.effects);
    assert!(c.s.core.has_work(), "not all is sent again at once");
    let close = Command::ConnectionClose { connection };
    c.s.core.apply(now, close, &mut c.s.effects);
    assert_eq!(c.others().len(), 100);
    let told = c.attach(known()).unwrap();
    assert_eq!(positions(&told.held), held);
}

#[test]
fn a_link_that_is_lost_while_it_recovers_has_lost_nothing() {
    let bodies: Vec<String> = (0..500).map(|number| format!("m{number}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let mut c = Client::new(&[], &bodies);
    c.attach(vec![]);
    let held = c.positions(400);
    c.lose();
    let known: Known = held.iter().step_by(2).map(|it| (*it, None)).collect();
    for _ in 0..3 {
        // Attached and lost again before the comparison is over.
        c.at += 1;
        let (connection, session) = (ConnectionId(c.at), SessionId(c.at));
        c.s.connect(connection, session);
        let consume = Consume {
            connection,
            session,
            consumer: c.consumer(),
            queue: Name::from("q"),
            settled: false,
            priority: 0,
            exclusive: false,
            passing: false,
            selector: None,
            timeout_ms: None,
            evidence: None,
            recovery: Some(Box::new(wanted(
                ExpiryPolicy::ConnectionClose,
                known.clone(),
            ))),
        };
        let now = c.s.now;
        let effects = &mut c.s.effects;
        c.s.core
            .handle_without_running(now, Command::Consume(consume), effects);
        c.s.core.tick(now, 1, effects);
        c.lose();
    }
    let told = c.attach(known).unwrap();
    let (ready, held_count, _) = c.s.counts("q");
    assert_eq!(held_count, told.held.len() as u64);
    assert_eq!(ready + held_count, 500);
    assert_eq!(told.held.len(), 200, "what it knows of stayed its own");
    assert_eq!(c.take(1_000).len(), 500);
}

#[test]
fn a_delivery_held_for_too_long_is_released_whatever_its_consumer_says_when_it_comes_back() {
    let mut c = Client::new(
        &[
            ("x-queue-type", text("quorum")),
            ("x-consumer-timeout", number(1_000)),
        ],
        &["a", "b", "c"],
    );
    c.attach(vec![]);
    let held = c.positions(3);
    c.lose();
    c.s.pass(1_000);
    assert_eq!(c.s.counts("q"), (3, 0, 0), "they are others' now");
    let told = c.attach(vec![
        (held[0], Some(Outcome::Accepted)),
        (held[1], None),
        (held[2], Some(Outcome::Released)),
    ]);
    let told = told.unwrap();
    assert_eq!(told.held, []);
    assert_eq!(
        positions(&told.late),
        [held[0]],
        "the others it gives up by itself"
    );
    assert_eq!(c.s.counts("q"), (3, 0, 0), "nothing was accepted");
    let consumer = c.consumer();
    c.s.credit(consumer, 2);
    let restated = c.s.others.iter().filter(
        |effect| matches!(effect, Effect::Restate { acquisition, .. } if *acquisition == first(held[0])),
    );
    assert_eq!(restated.count(), 1);
    let got: Vec<_> = c.s.taken(consumer).iter().map(body_of).collect();
    assert_eq!(got, ["a"], "the first credit was for the state");
}

/// Else its consumer took it that its outcome had been applied.
#[test]
fn what_is_told_of_a_late_delivery_and_does_not_arrive_is_told_again() {
    let mut c = Client::new(
        &[
            ("x-queue-type", text("quorum")),
            ("x-consumer-timeout", number(1_000)),
        ],
        &["a"],
    );
    c.attach(vec![]);
    let held = c.positions(1);
    c.lose();
    c.s.pass(1_000);
    let accepted = || vec![(held[0], Some(Outcome::Accepted))];
    for credit in [0, 1, 1] {
        let told = c.attach(accepted()).unwrap();
        assert_eq!(
            positions(&told.late),
            held,
            "nothing of it is lost with its line"
        );
        let consumer = c.consumer();
        c.s.credit(consumer, credit);
        c.lose();
    }
    // It had the state, and does not name the delivery any more.
    let told = c.attach(vec![]).unwrap();
    assert_eq!((told.held, told.late), (vec![], vec![]));
    assert_eq!(c.s.core.recoverable_links(), (1, 0));
}

/// Otherwise it got nothing for ever: it cannot settle what it was not sent.
#[test]
fn a_delivery_that_times_out_before_it_is_sent_again_does_not_stop_its_consumer() {
    let mut c = Client::new(
        &[
            ("x-queue-type", text("quorum")),
            ("x-consumer-timeout", number(1_000)),
        ],
        &["a", "b"],
    );
    c.attach(vec![]);
    let held = c.positions(2);
    c.lose();
    c.attach(held.iter().map(|it| (*it, None)).collect());
    c.s.pass(1_000);
    let consumer = c.consumer();
    c.s.credit(consumer, 4);
    let got: Vec<_> =
        c.s.taken(consumer)
            .iter()
            .map(|it| (body_of(it), it.resumed))
            .collect();
    assert_eq!(got, [("a".to_owned(), false), ("b".to_owned(), false)]);
}

#[test]
fn a_consumer_that_timed_out_detaches_and_comes_back_is_served_again() {
    let mut c = Client::new(
        &[
            ("x-queue-type", text("quorum")),
            ("x-consumer-timeout", number(1_000)),
        ],
        &["a", "b"],
    );
    c.attach(vec![]);
    let held = c.positions(1);
    c.s.pass(1_000);
    let consumer = c.consumer();
    c.s.apply(Command::ConsumerSuspend { consumer });
    let told = c.attach(vec![(held[0], Some(Outcome::Accepted))]).unwrap();
    assert_eq!((told.held.len(), positions(&told.late)), (0, held));
    let got: Vec<_> = c.take(3).into_iter().map(|(body, ..)| body).collect();
    assert_eq!(got, ["a", "b"]);
}

#[test]
fn an_incomplete_map_lets_go_of_nothing_and_gets_nothing_new() {
    let mut c = Client::new(&[], &["a", "b", "c"]);
    c.attach(vec![]);
    let held = c.positions(2);
    c.lose();
    let mut asked = wanted(ExpiryPolicy::ConnectionClose, vec![(held[1], None)]);
    asked.is_incomplete = true;
    let told = c.attach_as(asked, |_| {}).unwrap();
    assert_eq!(positions(&told.held), held, "both are unsettled still");
    let got = c.take(10);
    assert_eq!(got, [("b".to_owned(), held[1], true)]);
    assert_eq!(c.s.counts("q"), (1, 2, 0));
    c.lose();
    let told = c.attach(vec![(held[0], Some(Outcome::Accepted))]).unwrap();
    assert_eq!(told.held, []);
    assert_eq!(c.s.counts("q"), (2, 0, 0));
}

#[test]
fn another_source_makes_another_link_of_it() {
    let mut c = Client::new(&[], &["a"]);
    c.s.queue("other", &[]);
    c.attach(vec![]);
    c.positions(1);
    c.lose();
    let recovery = wanted(ExpiryPolicy::ConnectionClose, vec![]);
    let told = c.attach_as(recovery, |consume| consume.queue = Name::from("other"));
    assert_eq!(told, None);
    assert_eq!(c.s.counts("q"), (1, 0, 0));
    assert_eq!(c.s.core.recoverable_links(), (1, 0));
}

#[test]
fn a_suspended_link_is_no_consumer_and_goes_with_its_queue_or_user() {
    let mut c = Client::new(&[], &["a", "b"]);
    c.attach_as(wanted(ExpiryPolicy::ConnectionClose, vec![]), |consume| {
        consume.exclusive = true;
    });
    c.positions(1);
    c.lose();
    assert_eq!(c.s.core.queue("q").unwrap().consumers.len(), 0);
    assert_eq!(c.others(), ["b"], "it excludes nobody");
    c.s.apply(Command::Upkeep(UpkeepCommand::UserDeleted {
        user: Name::from("ada"),
    }));
    assert_eq!(c.s.counts("q"), (2, 0, 0));
    c.attach(vec![]);
    c.positions(1);
    c.lose();
    c.s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    }));
    c.s.queue("q", &[]);
    c.s.publish_all("q", &["new"]);
    assert_eq!(c.attach(vec![]), None);
    c.s.pass(TIMEOUT_MS);
    assert_eq!(c.take(5).len(), 1);
}

#[test]
fn a_queue_that_goes_with_its_consumers_keeps_nothing_for_one_of_them() {
    let mut s = Scenario::new();
    s.apply(Command::Queue(QueueCommand::Declare {
        connection: Some(CONNECTION),
        name: Name::from("q"),
        durable: false,
        exclusive: false,
        auto_delete: true,
        arguments: Vec::new(),
    }));
    let reply = s.consume(1, "q", |consume| {
        let recovery = wanted(ExpiryPolicy::ConnectionClose, vec![]);
        consume.recovery = Some(Box::new(recovery));
    });
    assert!(
        matches!(reply, Reply::Consuming { kept: Kept::No, .. }),
        "{reply:?}"
    );
}

#[test]
fn a_user_has_a_bounded_number_of_such_links() {
    let mut s = Scenario::with(CoreOptions::new(Name::from("/"), Seed(3)));
    s.queue("q", &[]);
    let mut attach = |number: u64, (user, by_token): (&str, bool)| {
        let reply = s.consume(number, "q", |consume| {
            let mut recovery = wanted(ExpiryPolicy::ConnectionClose, vec![]);
            recovery.key = LinkKey {
                user: Name::from(user),
                by_token,
                ..key(&format!("link-{number}"))
            };
            consume.recovery = Some(Box::new(recovery));
        });
        match reply {
            Reply::Consuming { kept, .. } => kept,
            other => panic!("{other:?}"),
        }
    };
    let max = RESUMABLE_LINKS_USER_MAX as u64;
    let yes = Kept::Yes { is_durable: false };
    for number in 0..max {
        assert_eq!(attach(100 + number, ("ada", false)), yes);
    }
    assert_eq!(attach(100 + max, ("ada", false)), Kept::No);
    assert_eq!(attach(101 + max, ("bob", false)), yes);
    assert_eq!(
        attach(102 + max, ("ada", true)),
        yes,
        "the bearer of a token"
    );
}

#[test]
fn a_message_group_stays_with_its_link() {
    let mut c = Client::new(&[], &[]);
    for body in ["a1", "a2"] {
        c.s.publish("q", &draft(body).group("g"));
    }
    c.attach(vec![]);
    let held = c.positions(1);
    c.lose();
    assert_eq!(c.others(), [""; 0], "its group is not free");
    c.attach(vec![(held[0], None)]);
    let got: Vec<_> = c.take(2).into_iter().map(|(body, ..)| body).collect();
    assert_eq!(got, ["a1", "a2"]);
    c.lose();
    c.s.pass(TIMEOUT_MS);
    assert_eq!(c.others(), ["a1", "a2"], "it is free with the link's end");
}
