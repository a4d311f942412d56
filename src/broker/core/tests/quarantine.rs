//! Dead letters that get nowhere: quarantined, or dropped and counted. [evidence part 4]

use std::sync::Arc;

use super::scenario::{Draft, Scenario, body_of, draft, number, text};
use crate::base::limits::{HISTORY_ENTRIES_MAX, HISTORY_FOLDED_QUEUES_MAX};
use crate::base::{ConsumerId, Name, Seed};
use crate::broker::arguments::{OnUndeliverable, Overflow};
use crate::broker::names::QUARANTINE;
use crate::broker::*;
use crate::deaths::{Evidence, How, QuarantineCause, Reason};
use crate::wire::Value;

type Arguments = Vec<(&'static str, Value)>;

fn options(undeliverable: Undeliverable) -> CoreOptions {
    CoreOptions {
        undeliverable,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    }
}

/// A vhost whose setting is to quarantine.
fn quarantining() -> Scenario {
    Scenario::with(options(Undeliverable {
        choice: OnUndeliverable::Quarantine,
        ..Undeliverable::default()
    }))
}

fn dead_lettering(exchange: &str, key: Option<&str>) -> Arguments {
    let mut arguments = vec![("x-dead-letter-exchange", text(exchange))];
    arguments.extend(key.map(|key| ("x-dead-letter-routing-key", text(key))));
    arguments
}

fn reject_all(s: &mut Scenario, id: u64, queue: &str) {
    for delivery in s.take(id, queue, 10_000) {
        s.reject(&delivery);
    }
    s.detach(ConsumerId(id));
}

fn quarantined(s: &Scenario, queue: &str, cause: DropCause) -> u64 {
    let queue = s.core.queue(queue);
    queue.map_or(0, |queue| queue.counters.quarantined.of(cause))
}

fn ready(core: &Core, queue: &str) -> u64 {
    core.queue(queue)
        .map_or(0, |queue| queue.messages.ready() + queue.messages.held())
}

/// What a start after `records` gives.
fn rebuilt(s: &Scenario, records: &[Record]) -> Core {
    let options = options(Undeliverable::default());
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    for record in records {
        restoring.record(record);
    }
    restoring.finish()
}

/// An annotation as a receiver gets it.
fn annotation(delivery: &Delivery, name: &str) -> Option<Value> {
    delivery.message.history()?.annotation(name)
}

#[test]
fn dead_letter_that_gets_nowhere_is_in_the_quarantine_with_its_cause_and_the_way_that_failed() {
    type Arrange = fn(&mut Scenario);
    let cases: [(Arguments, Arrange, DropCause, (&str, &str)); 4] = [
        (
            dead_lettering("missing", None),
            |_| {},
            DropCause::ExchangeMissing,
            ("missing", "q"),
        ),
        (
            dead_lettering("dlx", Some("k")),
            |s| s.exchange("dlx", "fanout"),
            DropCause::Unroutable,
            ("dlx", "k"),
        ),
        (
            dead_lettering("", Some("full")),
            |s| {
                let reject = ("x-overflow", text("reject-publish"));
                s.queue("full", &[("x-max-length", number(0)), reject]);
            },
            DropCause::TargetFull,
            ("", "full"),
        ),
        (
            vec![("x-on-undeliverable", text("quarantine"))],
            |_| {},
            DropCause::NoDeadLetterExchange,
            ("", "q"),
        ),
    ];
    for (arguments, arrange, cause, (exchange, key)) in cases {
        let mut s = quarantining();
        s.queue("q", &arguments);
        arrange(&mut s);
        s.log.clear(); // what the declaration was warned of
        s.publish_all("q", &["a", "b"]);
        reject_all(&mut s, 1, "q");
        assert_eq!(s.counts("q"), (0, 0, 0), "{cause:?}");
        assert_eq!(s.core.counters().drops.total(), 0, "{cause:?}");
        assert_eq!(quarantined(&s, "q", cause), 2);
        assert_eq!(s.core.counters().quarantined.of(cause), 2);
        let kept = s.take(2, QUARANTINE, 10);
        let bodies: Vec<_> = kept.iter().map(body_of).collect();
        assert_eq!(bodies, ["a", "b"], "{cause:?}");
        for one in &kept {
            let word = annotation(one, "x-opt-quarantine-cause");
            assert_eq!(word, Some(Value::symbol(cause.as_str())));
            assert_eq!(annotation(one, "x-opt-quarantine-path"), None);
            let way = (one.route.exchange.as_str(), one.route.first_key());
            assert_eq!(way, (exchange, key), "{cause:?}");
            let history = one.message.history().unwrap();
            assert_eq!(history.last().queue, "q");
            assert_eq!(history.last().reason, Reason::Rejected);
            assert_eq!(one.delivery_count, 1);
        }
        let log = LogEvent::Quarantined {
            queue: Name::from("q"),
            reason: Some(Reason::Rejected),
            cause,
            count: 1,
        };
        // The rest of a second comes together.
        assert_eq!(s.log, std::slice::from_ref(&log));
        s.pass(1_000);
        assert_eq!(s.log, [log.clone(), log]);
    }
}

#[test]
fn five_rejected_without_their_exchange_are_five_in_the_quarantine_or_five_counted_drops() {
    for (choice, kept, dropped) in [
        (OnUndeliverable::Quarantine, 5, 0),
        (OnUndeliverable::Drop, 0, 5),
    ] {
        let mut s = Scenario::with(options(Undeliverable {
            choice,
            ..Undeliverable::default()
        }));
        s.exchange("dlx", "fanout");
        s.queue("q", &dead_lettering("dlx", None));
        s.publish_all("q", &["a", "b", "c", "d", "e"]);
        s.apply(Command::Topology(TopologyCommand::ExchangeDelete {
            connection: None,
            name: Name::from("dlx"),
            if_unused: false,
        }));
        reject_all(&mut s, 1, "q");
        assert_eq!(ready(&s.core, QUARANTINE), kept, "{choice:?}");
        assert_eq!(s.dropped("q", DropCause::ExchangeMissing), dropped);
        assert_eq!(quarantined(&s, "q", DropCause::ExchangeMissing), kept);
        assert_eq!(s.core.queue(QUARANTINE).is_some(), kept > 0);
    }
}

#[test]
fn operator_policy_beats_argument_beats_policy_beats_setting() {
    let words = [None, Some("drop"), Some("quarantine")];
    let settings = [OnUndeliverable::Drop, OnUndeliverable::Quarantine];
    // Every combination: the digits of a number of base 3 choose the words.
    for case in 0..settings.len() * 27 {
        let word = |place: u32| words[case / 3_usize.pow(place) % 3];
        let (operator, argument, policy) = (word(0), word(1), word(2));
        let setting = settings[case / 27];
        let mut s = Scenario::with(options(Undeliverable {
            choice: setting,
            ..Undeliverable::default()
        }));
        let key = "on-undeliverable";
        for (is_operator, word) in [(true, operator), (false, policy)] {
            if let Some(word) = word {
                s.set_policy(is_operator, "p", ("^q$", "queues"), &[(key, text(word))]);
            }
        }
        let mut arguments = dead_lettering("missing", None);
        arguments.extend(argument.map(|word| ("x-on-undeliverable", text(word))));
        s.queue("q", &arguments);
        s.publish_all("q", &["a"]);
        reject_all(&mut s, 1, "q");
        let said = operator.or(argument).or(policy);
        let keeps = said.map_or(setting == OnUndeliverable::Quarantine, |word| {
            word == "quarantine"
        });
        let case = (setting, operator, argument, policy);
        assert_eq!(ready(&s.core, QUARANTINE), u64::from(keeps), "{case:?}");
        let dropped = s.dropped("q", DropCause::ExchangeMissing);
        assert_eq!(dropped, u64::from(!keeps), "{case:?}");
    }
}

#[test]
fn wrong_choice_is_refused_by_name_and_another_one_makes_another_queue() {
    let mut s = quarantining();
    let refused = s.declare("q", &[("x-on-undeliverable", text("keep"))]);
    let Reply::Refused(error) = refused else {
        panic!("{refused:?}");
    };
    let told = error.to_string();
    assert!(told.contains("x-on-undeliverable"), "{told}");
    assert!(told.contains("must be one of drop, quarantine"), "{told}");
    s.queue("q", &[("x-on-undeliverable", text("drop"))]);
    let other = s.declare("q", &[("x-on-undeliverable", text("quarantine"))]);
    assert!(
        matches!(&other, Reply::Refused(Error::Inequivalent { field, .. }) if *field == "x-on-undeliverable"),
        "{other:?}"
    );
}

#[test]
fn queue_without_dead_letter_exchange_drops_unless_argument_or_policy_say_quarantine() {
    let mut s = quarantining();
    s.queue("q", &[]);
    s.publish_all("q", &["a"]);
    reject_all(&mut s, 1, "q");
    assert_eq!(s.dropped("q", DropCause::NoDeadLetterExchange), 1);
    assert!(s.core.queue(QUARANTINE).is_none(), "nothing needed it");
    s.set_policy(
        true,
        "net",
        (".*", "queues"),
        &[("on-undeliverable", text("quarantine"))],
    );
    s.publish_all("q", &["b"]);
    let taken = s.take(2, "q", 1).remove(0);
    let evidence = Arc::new(Evidence {
        how: Some(How::Rejected),
        condition: Some(Name::from("app:schema")),
        ..Evidence::default()
    });
    let rejected = Outcome::Rejected {
        evidence: Some(evidence),
    };
    s.settle(&taken, rejected);
    let kept = s.take(3, QUARANTINE, 1).remove(0);
    assert_eq!(
        annotation(&kept, "x-opt-quarantine-cause"),
        Some(Value::symbol("no_dead_letter_exchange"))
    );
    let condition = annotation(&kept, "x-opt-last-death-condition");
    assert_eq!(condition, Some(Value::symbol("app:schema")));
}

#[test]
fn at_least_once_keeps_in_the_source_and_quarantines_what_it_gives_up() {
    let mut s = quarantining();
    let definition = [
        ("dead-letter-exchange", text("missing")),
        ("dead-letter-strategy", text("at-least-once")),
    ];
    s.policy("p", "^q$", &definition);
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b"]);
    reject_all(&mut s, 1, "q");
    assert_eq!(s.counts("q"), (0, 0, 2), "they wait for the exchange");
    assert!(s.core.queue(QUARANTINE).is_none());
    s.no_policy("p");
    assert_eq!(s.counts("q"), (0, 0, 0));
    assert_eq!(quarantined(&s, "q", DropCause::PendingAbandoned), 2);
    assert_eq!(s.dropped("q", DropCause::PendingAbandoned), 0);
    let kept = s.take(2, QUARANTINE, 10);
    assert_eq!(kept.len(), 2);
    let word = annotation(&kept[0], "x-opt-quarantine-cause");
    assert_eq!(word, Some(Value::symbol("pending_abandoned")));
}

#[test]
fn message_of_a_loop_is_in_the_quarantine_with_the_queues_in_order() {
    let mut s = quarantining();
    for (queue, next) in [("a", "b"), ("b", "c"), ("c", "b")] {
        let mut arguments = dead_lettering("", Some(next));
        arguments.push(("x-message-ttl", number(1)));
        s.queue(queue, &arguments);
    }
    s.publish_all("a", &["m"]);
    s.pass(100);
    assert_eq!(quarantined(&s, "c", DropCause::Cycle), 1);
    let kept = s.take(1, QUARANTINE, 1).remove(0);
    let path = ["b", "c", "b"].map(Value::string);
    assert_eq!(
        annotation(&kept, "x-opt-quarantine-path"),
        Some(Value::List(path.to_vec()))
    );
    let why = kept.message.history().unwrap().quarantined().unwrap();
    assert_eq!(why.cause, QuarantineCause::Cycle);
}

/// Declares so many queues, each dead-lettering to the next one by ttl but for the last.
fn chain(s: &mut Scenario, count: usize) -> String {
    let name = |at: usize| format!("queue-{at:03}");
    for at in 0..count {
        let mut arguments = dead_lettering("", Some(&name(at + 1)));
        if at + 1 < count {
            arguments.push(("x-message-ttl", number(1)));
        }
        s.queue(&name(at), &arguments);
    }
    s.queue(&name(count), &[]);
    name(count - 1)
}

#[test]
fn message_whose_history_is_full_is_quarantined_whatever_is_said() {
    let known = HISTORY_ENTRIES_MAX + HISTORY_FOLDED_QUEUES_MAX;
    let mut s = Scenario::new();
    s.set_policy(
        true,
        "never",
        (".*", "queues"),
        &[("on-undeliverable", text("drop"))],
    );
    let last = chain(&mut s, known + 1);
    s.publish("queue-000", &draft("m"));
    s.pass(1_000);
    let taken = s.take(1, &last, 1).remove(0);
    let before = taken.message.history().cloned().unwrap();
    s.reject(&taken);
    assert_eq!(quarantined(&s, &last, DropCause::HistoryFull), 1);
    assert_eq!(s.core.counters().drops.total(), 0);
    let kept = s.take(2, QUARANTINE, 1).remove(0);
    let after = kept.message.history().unwrap();
    assert_eq!(after.entries(), before.entries(), "as it was");
    let why = after.quarantined().unwrap();
    assert_eq!(why.cause, QuarantineCause::HistoryFull);
}

#[test]
fn after_a_crash_at_any_record_each_message_is_in_its_source_or_in_the_quarantine() {
    let mut s = quarantining();
    s.queue("q", &dead_lettering("missing", None));
    s.publish_all("q", &["a", "b", "c"]);
    let published = s.records.len();
    reject_all(&mut s, 1, "q");
    assert!(s.records.len() > published);
    for end in published..=s.records.len() {
        let core = rebuilt(&s, &s.records[..end]);
        let places = [ready(&core, "q"), ready(&core, QUARANTINE)];
        assert_eq!(places.iter().sum::<u64>(), 3, "{end} records: {places:?}");
    }
    let core = rebuilt(&s, &s.records);
    assert_eq!(ready(&core, QUARANTINE), 3);
    let queue = core.queue(QUARANTINE).unwrap();
    assert!(queue.durable && !queue.auto_delete);
    let made = |fact: &Fact| matches!(fact, Fact::Topology(TopologyFact::QueueDeclared { name, .. }) if *name == QUARANTINE);
    let entered = |fact: &Fact| matches!(fact, Fact::Inserted { entries, .. } if entries[0].queue == queue.id);
    let left = |fact: &Fact| matches!(fact, Fact::Removed { .. });
    let first = s
        .records
        .iter()
        .find(|record| record.facts.iter().any(made));
    let facts = &first.unwrap().facts;
    assert!(
        facts.iter().any(entered) && facts.iter().any(left),
        "{facts:?}"
    );
}

#[test]
fn what_is_quarantined_is_as_safe_as_it_was() {
    for (kind, durable, kept) in [
        ("classic", true, 1),
        ("classic", false, 0),
        ("quorum", true, 1),
        ("quorum", false, 1),
    ] {
        let mut s = quarantining();
        let mut arguments = dead_lettering("missing", None);
        arguments.push(("x-queue-type", text(kind)));
        s.queue("q", &arguments);
        let message = Draft {
            durable,
            ..draft("m")
        };
        s.publish("q", &message);
        reject_all(&mut s, 1, "q");
        assert_eq!(ready(&s.core, QUARANTINE), 1);
        let after = rebuilt(&s, &s.records);
        assert_eq!(ready(&after, QUARANTINE), kept, "{kind}, {durable}");
        assert_eq!(ready(&after, "q"), 0, "{kind}, {durable}");
    }
}

#[test]
fn quarantine_is_made_by_the_broker_only_and_does_not_count_for_the_limit_of_queues() {
    let mut s = quarantining();
    s.apply(Command::Upkeep(UpkeepCommand::VhostSettings {
        queues_max: Some(2),
        default_queue_type: None,
    }));
    let refused = s.declare(QUARANTINE, &[]);
    let reserved = matches!(refused, Reply::Refused(Error::Reserved { .. }));
    assert!(reserved, "{refused:?}");
    s.queue("q", &dead_lettering("missing", None));
    s.queue("other", &[]);
    s.publish_all("q", &["a"]);
    reject_all(&mut s, 1, "q");
    assert_eq!(ready(&s.core, QUARANTINE), 1, "at the limit");
    let third = s.declare("third", &[]);
    let full = matches!(third, Reply::Refused(Error::QueueLimit { .. }));
    assert!(full, "{third:?}");
    delete(&mut s, "other");
    s.queue("third", &[]);
    // As it is, it may be declared again, as any queue; otherwise not.
    let same = s.declare(QUARANTINE, &[]);
    assert!(
        matches!(same, Reply::QueueDeclared { created: false, .. }),
        "{same:?}"
    );
    let other = s.declare(QUARANTINE, &[("x-max-length", number(7))]);
    let differs = matches!(other, Reply::Refused(Error::Inequivalent { .. }));
    assert!(differs, "{other:?}");
}

fn delete(s: &mut Scenario, queue: &str) {
    s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from(queue),
        if_unused: false,
        if_empty: false,
    }));
}

#[test]
fn deleted_quarantine_is_made_anew_when_it_is_needed() {
    let mut s = quarantining();
    s.queue("q", &dead_lettering("missing", None));
    let mut ids = Vec::new();
    for body in ["a", "b"] {
        s.publish_all("q", &[body]);
        reject_all(&mut s, 1, "q");
        ids.push(s.core.queue(QUARANTINE).unwrap().id);
        delete(&mut s, QUARANTINE);
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(s.core.counters().drops.of(DropCause::QueueDeleted), 2);
    assert_eq!(s.core.counters().quarantined.total(), 2);
}

#[test]
fn policy_for_all_queues_gives_the_quarantine_no_dead_letter_exchange() {
    let mut s = quarantining();
    s.exchange("dlx", "fanout");
    s.queue("dlq", &[]);
    s.bind("dlx", "dlq", "");
    let everywhere = [
        ("dead-letter-exchange", text("dlx")),
        ("dead-letter-routing-key", text("k")),
        ("on-undeliverable", text("quarantine")),
        ("overflow", text("reject-publish-dlx")),
        ("max-length", number(3)),
    ];
    s.policy("all", ".*", &everywhere);
    s.queue("q", &dead_lettering("missing", None));
    s.publish_all("q", &["a", "b"]);
    reject_all(&mut s, 1, "q");
    let settings = &s.core.queue(QUARANTINE).unwrap().settings;
    assert_eq!(settings.dead_letter_exchange, None);
    assert_eq!(settings.dead_letter_routing_key, None);
    assert_eq!(settings.on_undeliverable, Some(OnUndeliverable::Drop));
    assert_eq!(settings.overflow, Overflow::DropHead);
    assert_eq!(settings.max_length, Some(3), "others reach it");
    reject_all(&mut s, 2, QUARANTINE);
    assert_eq!(s.dropped(QUARANTINE, DropCause::NoDeadLetterExchange), 2);
    assert_eq!((ready(&s.core, QUARANTINE), ready(&s.core, "dlq")), (0, 0));
    // The same after a start, where policies stand in front of the queue.
    let after = rebuilt(&s, &s.records);
    let settings = &after.queue(QUARANTINE).unwrap().settings;
    assert_eq!(settings.dead_letter_exchange, None);
    assert_eq!(settings.max_length, Some(3));
}

#[test]
fn storm_of_deaths_into_a_full_quarantine_drops_the_oldest_counted_and_in_pieces() {
    const DEATHS: u64 = 5_000;
    const KEPT: u64 = 10;
    /// What a tick of a hundred messages may touch beyond those: the last piece of work.
    const SLACK: u64 = 64;
    let mut s = Scenario::with(options(Undeliverable {
        choice: OnUndeliverable::Quarantine,
        length_max: KEPT,
        ..Undeliverable::default()
    }));
    let mut arguments = dead_lettering("missing", None);
    arguments.push(("x-message-ttl", number(50)));
    s.queue("q", &arguments);
    for body in 0..DEATHS {
        s.publish("q", &draft(&body.to_string()));
    }
    s.now.mono = s.now.mono.plus(50);
    let mut most = 0;
    loop {
        let before = s.core.counters().dead.total();
        s.core.tick(s.now, 100, &mut s.effects);
        most = most.max(s.core.counters().dead.total() - before);
        s.effects.clear();
        if !s.core.has_work() {
            break;
        }
    }
    assert!(most <= 100 + SLACK, "{most} deaths in one tick");
    assert_eq!(quarantined(&s, "q", DropCause::ExchangeMissing), DEATHS);
    let full = s.dropped(QUARANTINE, DropCause::QuarantineFull);
    assert_eq!(full, DEATHS - KEPT);
    assert_eq!(s.core.counters().drops.total(), full);
    let newest: Vec<_> = (DEATHS - KEPT..DEATHS).map(|at| at.to_string()).collect();
    assert_eq!(s.bodies(QUARANTINE), newest);
}

#[test]
fn message_larger_than_the_quarantine_drives_nothing_out_of_it() {
    let mut s = Scenario::with(options(Undeliverable {
        choice: OnUndeliverable::Quarantine,
        bytes_max: 100,
        ..Undeliverable::default()
    }));
    s.queue("q", &dead_lettering("missing", None));
    s.publish_all("q", &["a", "b"]);
    reject_all(&mut s, 1, "q");
    s.publish_all("q", &[&"x".repeat(200)]);
    reject_all(&mut s, 2, "q");
    assert_eq!(s.bodies(QUARANTINE), ["a", "b"]);
    assert_eq!(s.dropped("q", DropCause::QuarantineFull), 1);
    assert_eq!(s.core.counters().quarantined.total(), 2);
}

#[test]
fn purge_among_deaths_takes_what_was_moved_by_then_and_the_rest_still_comes() {
    const DEATHS: u64 = 500;
    let mut s = quarantining();
    let mut arguments = dead_lettering("missing", None);
    arguments.push(("x-message-ttl", number(50)));
    s.queue("q", &arguments);
    for body in 0..DEATHS {
        s.publish("q", &draft(&body.to_string()));
    }
    s.now.mono = s.now.mono.plus(50);
    s.core.tick(s.now, 150, &mut s.effects);
    let moved = ready(&s.core, QUARANTINE);
    assert!(moved > 0 && moved < DEATHS, "{moved}");
    let purge = Command::Queue(QueueCommand::Purge {
        connection: None,
        name: Name::from(QUARANTINE),
        with_dead_pending: true,
    });
    let Reply::Purged { messages, .. } = s.apply(purge) else {
        panic!("not purged");
    };
    assert!(messages >= moved && messages < DEATHS, "{messages}");
    assert_eq!(ready(&s.core, QUARANTINE), DEATHS - messages);
    assert_eq!(s.dropped(QUARANTINE, DropCause::Purged), messages);
    assert_eq!(s.core.counters().quarantined.total(), DEATHS);
    let after = rebuilt(&s, &s.records);
    assert_eq!(ready(&after, QUARANTINE), DEATHS - messages);
    assert_eq!(ready(&after, "q"), 0);
}

#[test]
fn settings_for_the_undeliverable_hold_from_the_moment_they_change() {
    let mut s = Scenario::new();
    s.queue("q", &dead_lettering("missing", None));
    let change = |choice, length_max| {
        Command::Upkeep(UpkeepCommand::Undeliverable(Undeliverable {
            choice,
            length_max,
            ..Undeliverable::default()
        }))
    };
    s.apply(change(OnUndeliverable::Quarantine, 100));
    s.publish_all("q", &["a", "b", "c"]);
    reject_all(&mut s, 1, "q");
    assert_eq!(ready(&s.core, QUARANTINE), 3);
    s.apply(change(OnUndeliverable::Drop, 1));
    assert_eq!(s.bodies(QUARANTINE), ["c"], "held to the new limit at once");
    s.publish_all("q", &["d"]);
    reject_all(&mut s, 2, "q");
    assert_eq!(s.dropped("q", DropCause::ExchangeMissing), 1);
}
