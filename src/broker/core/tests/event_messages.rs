//! Events as messages to the exchange of events. [evidence part 10]

use super::redrive::{begin, journal, spec};
use super::redrive_outcome::purge;
use super::scenario::{CONNECTION, SESSION, Scenario, body_of, draft, number, text};
use crate::base::{Name, Seed};
use crate::broker::event::VhostEvent;
use crate::broker::names::EVENT_EXCHANGE;
use crate::broker::redrive::RedriveTarget;
use crate::broker::*;
use crate::message::Message;

/// Four messages a block.
const BLOCK_SHIFT: u32 = 2;

/// Number, type and queue of an event.
#[allow(clippy::unnecessary_wraps, reason = "a writer of events may fail")]
fn write(_vhost: &Name, _origin: u64, event: &VhostEvent) -> Option<Message> {
    Some(draft(&told(event)).build())
}

fn told(event: &VhostEvent) -> String {
    let kind = event.first_type().as_str();
    format!("{} {kind} {}", event.number, event.queue)
}

fn options() -> CoreOptions {
    CoreOptions {
        event_writer: Some(write),
        block_shift: BLOCK_SHIFT,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    }
}

/// A queue `q` whose dead letters go to `dlq`.
fn with_dead_letters(mut s: Scenario) -> Scenario {
    s.queue("dlq", &[]);
    s.queue("q", &to("dlq"));
    s
}

fn to(queue: &str) -> [(&'static str, crate::wire::Value); 2] {
    [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(queue)),
    ]
}

fn reject_all(s: &mut Scenario, queue: &str, bodies: &[&str]) {
    s.publish_all(queue, bodies);
    let taken = s.take(1, queue, bodies.len() as u64);
    assert_eq!(taken.len(), bodies.len());
    for delivery in &taken {
        s.reject(delivery);
    }
    s.detach(taken[0].consumer);
}

fn all_told(s: &Scenario) -> Vec<String> {
    s.events.iter().map(told).collect()
}

/// A core that starts on the records of another one: no message is in memory.
fn restarted(s: &Scenario, records: &[Record], options: CoreOptions) -> Scenario {
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    for record in records {
        restoring.record(record);
    }
    let mut next = Scenario::new();
    next.core = restoring.finish();
    next.now = s.now;
    next.connect(CONNECTION, SESSION);
    next
}

/// Reads blocks back until no queue waits for one.
fn read_back(s: &mut Scenario, records: &[Record]) {
    let journal = journal(records);
    for _ in 0..100 {
        let loads = std::mem::take(&mut s.effects.loads);
        if loads.is_empty() {
            return;
        }
        for load in loads {
            let (queue, block) = (load.queue, load.block);
            let messages = load.wanted.into_iter().map(|wanted| {
                let (message, route) = journal[&(queue, wanted.position)].clone();
                (wanted.position, message, route)
            });
            s.apply(Command::Upkeep(UpkeepCommand::PagedIn(PagedIn {
                queue,
                block,
                messages: messages.collect(),
            })));
        }
    }
    panic!("there is always another block to read");
}

#[test]
fn an_event_is_in_the_record_of_its_death_and_in_each_queue_that_is_bound_for_it() {
    let mut s = with_dead_letters(Scenario::with(options()));
    for queue in ["all", "deaths", "others"] {
        s.queue(queue, &[]);
    }
    s.bind(EVENT_EXCHANGE, "all", "#");
    s.bind(EVENT_EXCHANGE, "deaths", "death.rejected.q");
    s.bind(EVENT_EXCHANGE, "others", "death.expired.#");
    s.publish_all("q", &["a"]);
    let delivery = s.take(1, "q", 1).remove(0);
    s.records.clear();
    s.reject(&delivery);
    let [record] = &s.records[..] else {
        panic!("{:?}", s.records);
    };
    let inserted = record.facts.iter().filter_map(|fact| match fact {
        Fact::Inserted { route, entries, .. } => Some((&*route.exchange, entries.len())),
        _ => None,
    });
    assert_eq!(
        inserted.collect::<Vec<_>>(),
        [("", 1), (EVENT_EXCHANGE, 2)],
        "the dead letter, and the event in two queues"
    );
    assert!(
        (record.facts.iter()).any(|fact| matches!(fact, Fact::Removed { .. })),
        "{record:?}"
    );
    assert_eq!(all_told(&s), ["1 death q"]);
    for (queue, bodies) in [
        ("all", vec!["1 death q"]),
        ("deaths", vec!["1 death q"]),
        ("others", vec![]),
    ] {
        assert_eq!(s.bodies(queue), bodies, "{queue}");
    }
    assert_eq!(s.bodies("dlq"), ["a"]);
}

#[test]
fn a_death_that_ends_in_a_drop_has_the_key_of_the_drop_too_and_comes_once() {
    let mut s = Scenario::with(options());
    s.queue("q.eu", &[]);
    for (queue, key) in [
        ("deaths", "death.#"),
        ("drops", "dropped.no_dead_letter_exchange.q.eu"),
    ] {
        s.queue(queue, &[]);
        s.bind(EVENT_EXCHANGE, queue, key);
    }
    s.bind(EVENT_EXCHANGE, "drops", "death.rejected.q.eu");
    reject_all(&mut s, "q.eu", &["a"]);
    let delivery = s.take(2, "drops", 9).remove(0);
    let keys: Vec<&str> = delivery.route.keys.iter().map(|key| &**key).collect();
    assert_eq!(
        keys,
        [
            "death.rejected.q.eu",
            "dropped.no_dead_letter_exchange.q.eu"
        ]
    );
    assert_eq!(body_of(&delivery), "1 death q.eu");
    assert_eq!(s.bodies("deaths"), ["1 death q.eu"]);
    assert_eq!(s.counts("drops"), (0, 1, 0), "once by both bindings");
    s.publish_all("q.eu", &["b", "c"]);
    purge(&mut s, "q.eu");
    assert_eq!(all_told(&s), ["1 death q.eu", "2 dropped q.eu"]);
}

/// Off, or with nothing bound, a death is recorded as ever.
#[test]
fn without_a_binding_nothing_is_written() {
    let records = |options: CoreOptions| {
        let mut s = with_dead_letters(Scenario::with(options));
        reject_all(&mut s, "q", &["a", "b"]);
        format!("{:?}", s.records)
    };
    let off = CoreOptions {
        event_writer: None,
        ..options()
    };
    assert_eq!(records(options()), records(off));
}

/// Whatever the queues of events do with what is in them.
#[test]
fn what_happens_to_an_event_is_no_event() {
    let mut s = with_dead_letters(Scenario::with(options()));
    s.queue("last", &[("x-max-length", number(1))]);
    let short = [("x-max-length", number(1)), ("x-message-ttl", number(50))];
    s.queue("short", &[&short[..], &to("last")[..]].concat());
    s.queue("dropping", &short);
    for queue in ["short", "dropping", "last"] {
        s.bind(EVENT_EXCHANGE, queue, "#");
    }
    reject_all(&mut s, "q", &["a", "b", "c"]);
    s.pass(1_000);
    let rejected = s.take(2, "last", 1).remove(0);
    s.reject(&rejected);
    assert_eq!(all_told(&s), ["1 death q", "2 death q", "3 death q"]);
    let queues = ["short", "dropping", "last"];
    assert_eq!(queues.map(|queue| s.counts(queue)), [(0, 0, 0); 3]);
    let died = |queue: &str| s.core.queue(queue).unwrap().counters.dead_entered;
    assert_eq!(died("last"), 3, "they died in 'short'");
}

/// A message on disk is read before it is told of: else an event that died could make another one, which
/// pushes out the next.
#[test]
fn what_is_on_disk_is_read_and_an_event_among_it_is_no_event() {
    let mut s = with_dead_letters(Scenario::with(options()));
    s.queue("all", &[]);
    s.bind(EVENT_EXCHANGE, "all", "#");
    reject_all(&mut s, "q", &["a", "b", "c", "d", "e", "f"]);
    s.queue("plain", &[]);
    s.publish_all("plain", &["g", "h"]);
    let records = s.records.clone();
    let mut s = restarted(&s, &records, options());
    s.policy("limit", "^(all|plain)$", &[("max-length", number(1))]);
    read_back(&mut s, &records);
    let told = all_told(&s);
    assert_eq!(
        told.len(),
        1,
        "of 'plain' one, of the events none: {told:?}"
    );
    assert!(told[0].ends_with("death plain"), "{told:?}");
    assert_eq!(s.counts("plain"), (1, 0, 0));
    assert_eq!(s.bodies("all"), told, "it pushed out the others");
}

#[test]
fn what_is_told_of_a_queue_as_a_whole_does_not_go_to_that() {
    let mut s = with_dead_letters(Scenario::with(options()));
    for queue in ["one", "two"] {
        s.queue(queue, &[]);
        s.bind(EVENT_EXCHANGE, queue, "#");
    }
    reject_all(&mut s, "q", &["a"]);
    purge(&mut s, "one");
    assert_eq!(s.counts("one"), (0, 0, 0));
    assert_eq!(s.bodies("two"), ["1 death q", "2 dropped one"]);
}

#[test]
fn a_full_queue_refuses_events_and_keeps_no_message_from_dying() {
    let mut s = with_dead_letters(Scenario::with(options()));
    let full = [
        ("x-max-length", number(1)),
        ("x-overflow", text("reject-publish")),
    ];
    s.queue("full", &full);
    s.bind(EVENT_EXCHANGE, "full", "death.#");
    reject_all(&mut s, "q", &["a", "b", "c"]);
    assert_eq!(s.bodies("dlq"), ["a", "b", "c"]);
    assert_eq!(s.bodies("full"), ["1 death q"]);
    assert_eq!(s.core.queue("full").unwrap().counters.refused, 2);
    reject_all(&mut s, "q", &["d"]);
    assert_eq!(s.bodies("full"), ["4 death q"], "there is room again");
}

#[test]
fn a_binding_stays_while_events_do_not_come_as_messages() {
    let mut s = with_dead_letters(Scenario::with(options()));
    s.queue("all", &[]);
    s.bind(EVENT_EXCHANGE, "all", "#");
    let off = CoreOptions {
        event_writer: None,
        ..options()
    };
    let records = s.records.clone();
    let mut s = restarted(&s, &records, off);
    reject_all(&mut s, "q", &["a"]);
    assert_eq!(s.counts("all"), (0, 0, 0));
    let mut s = restarted(&s, &records, options());
    reject_all(&mut s, "q", &["b"]);
    assert_eq!(s.bodies("all").len(), 1);
}

#[test]
fn nobody_else_publishes_to_the_exchange_of_events_or_deletes_it() {
    let mut s = Scenario::with(options());
    s.queue("all", &[]);
    s.bind(EVENT_EXCHANGE, "all", "#");
    let key = "death.rejected.q";
    let outcome = s.publish_to(EVENT_EXCHANGE, key, &draft("forged"));
    assert!(
        matches!(outcome, PublishOutcome::Internal { .. }),
        "{outcome:?}"
    );
    let delete = TopologyCommand::ExchangeDelete {
        connection: None,
        name: Name::from(EVENT_EXCHANGE),
        if_unused: false,
    };
    let reply = s.apply(Command::Topology(delete));
    assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
}

/// What says that a message is an event is where it came from: its history, or its exchange. A redrive to another
/// exchange changes the latter, of one that never died nothing else is left. That makes no chain: each needs a redrive.
#[test]
fn an_event_that_a_redrive_moved_to_another_exchange_is_told_once_it_dies_unless_it_had_died_before()
 {
    let mut s = with_dead_letters(Scenario::with(options()));
    for queue in ["dead-events", "elsewhere"] {
        s.queue(queue, &[]);
    }
    s.queue("events", &to("dead-events"));
    s.bind(EVENT_EXCHANGE, "events", "death.#");
    let away = || RedriveTarget::Exchange {
        exchange: Name::from(""),
        routing_key: Name::from("elsewhere"),
    };
    reject_all(&mut s, "q", &["a"]);
    reject_in(&mut s, 2, "events");
    begin(&mut s, "back", spec("dead-events", RedriveTarget::Origin));
    reject_in(&mut s, 3, "events");
    begin(&mut s, "away", spec("dead-events", away()));
    reject_in(&mut s, 4, "elsewhere");
    assert_eq!(deaths_told(&s), ["1 death q"], "it died three times more");

    reject_all(&mut s, "q", &["b"]);
    let told = deaths_told(&s);
    begin(&mut s, "live", spec("events", away()));
    assert_eq!(s.counts("elsewhere"), (1, 0, 0));
    assert_eq!(deaths_told(&s), told);
    reject_in(&mut s, 5, "elsewhere");
    let [_, _, third] = &deaths_told(&s)[..] else {
        panic!("{:?}", deaths_told(&s));
    };
    assert!(third.ends_with(" death elsewhere"), "{third}");
    assert_eq!(s.bodies("events"), [third.as_str()], "and nothing more");
}

fn reject_in(s: &mut Scenario, consumer: u64, queue: &str) {
    let deliveries = s.take(consumer, queue, 10);
    assert!(!deliveries.is_empty(), "{queue}");
    for delivery in &deliveries {
        s.reject(delivery);
    }
    s.detach(deliveries[0].consumer);
}

fn deaths_told(s: &Scenario) -> Vec<String> {
    let told = all_told(s).into_iter();
    told.filter(|told| told.contains(" death ")).collect()
}
