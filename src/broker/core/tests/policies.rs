//! Policies on queues and exchanges that are there: live, in pieces, with warnings at once.

use super::scenario::{Scenario, draft, number, text};
use crate::base::limits::BATCH_NS_MAX;
use crate::base::{ConsumerId, Meter, Name, Now, Seed};
use crate::broker::policy::PolicySpec;
use crate::broker::*;
use crate::wire::Value;

#[test]
fn the_dead_letter_target_of_a_full_queue_moves_without_redeclaring() {
    let mut s = Scenario::new();
    for queue in ["q", "first", "second"] {
        s.queue(queue, &[]);
    }
    s.publish_all("q", &["1", "2"]);
    let to = |key: &str| {
        [
            ("dead-letter-exchange", text("")),
            ("dead-letter-routing-key", text(key)),
        ]
    };
    s.policy("p", "^q$", &to("first"));
    let taken = s.take(1, "q", 2);
    s.reject(&taken[0]);
    s.policy("p", "^q$", &to("second"));
    s.reject(&taken[1]);
    assert_eq!(s.bodies("first"), ["1"]);
    assert_eq!(s.bodies("second"), ["2"]);
}

#[test]
fn an_operator_policy_imposes_the_target_over_an_argument_and_gives_it_back() {
    let mut s = Scenario::new();
    for queue in ["own", "imposed"] {
        s.queue(queue, &[]);
    }
    let own = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("own")),
    ];
    s.queue("q", &own);
    s.publish_all("q", &["1", "2"]);
    let taken = s.take(1, "q", 2);
    let imposed = [("dead-letter-routing-key", text("imposed"))];
    s.set_policy(true, "o", ("^q$", "queues"), &imposed);
    s.reject(&taken[0]);
    s.apply(Command::Topology(TopologyCommand::PolicyDelete {
        operator: true,
        name: Name::from("o"),
    }));
    s.reject(&taken[1]);
    assert_eq!(s.bodies("imposed"), ["1"]);
    assert_eq!(s.bodies("own"), ["2"]);
}

/// A queue that nobody used for long would otherwise go at the moment a policy names a time.
#[test]
fn a_policy_that_sets_expires_counts_from_when_it_is_set() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.pass(10_000);
    s.policy("p", "^q$", &[("expires", number(1_000))]);
    s.pass(999);
    assert!(s.core.queue("q").is_some());
    s.pass(1);
    assert!(s.core.queue("q").is_none());
}

#[test]
fn all_queues_and_exchanges_follow_however_many_there_are() {
    let mut s = Scenario::new();
    for index in 0..300 {
        s.queue(&format!("q{index:03}"), &[]);
        s.exchange(&format!("x{index:03}"), "fanout");
    }
    s.policy("ttl", "^q", &[("message-ttl", number(5))]);
    s.policy("ae", "^x", &[("alternate-exchange", text("amq.fanout"))]);
    for index in 0..300 {
        let queue = s.core.queue(&format!("q{index:03}")).unwrap();
        assert_eq!(queue.settings.message_ttl_ms, Some(5));
        let exchange = s.core.router().exchange_named(&format!("x{index:03}"));
        assert_eq!(exchange.unwrap().alternate().unwrap(), "amq.fanout");
    }
}

/// No command does more than its budget, whatever policies and queues there are: the rest is done
/// by ticks, between which others get at the vhost.
#[test]
fn policies_are_matched_in_pieces_and_a_change_begins_the_pass_anew() {
    let mut s = Scenario::new();
    for index in 0..1_000 {
        s.queue(&format!("q{index:04}"), &[]);
    }
    let set = |s: &mut Scenario, ttl: u64| {
        let spec = PolicySpec {
            name: Name::from("p"),
            pattern: "^q",
            priority: 0,
            apply_to: "all",
            definition: vec![(Name::from("message-ttl"), number(ttl))],
        };
        let policy = Box::new(Policy::new(false, spec).unwrap());
        let operator = false;
        let command = Command::Topology(TopologyCommand::PolicySet { operator, policy });
        s.core.apply(s.now, command, &mut s.effects);
    };
    let with = |s: &Scenario, ttl: u64| {
        let queues = s.core.queues();
        queues
            .filter(|queue| queue.settings.message_ttl_ms == Some(ttl))
            .count()
    };
    set(&mut s, 1);
    assert!(s.core.has_work());
    assert!((1..=200).contains(&with(&s, 1)), "{}", with(&s, 1));
    set(&mut s, 2);
    let now: Now = s.now;
    let mut ticks = 0;
    while s.core.has_work() {
        s.core.tick(now, 100, &mut s.effects);
        ticks += 1;
    }
    assert!(ticks > 5, "{ticks}");
    assert_eq!(with(&s, 2), 1_000);
}

#[test]
fn what_will_probably_not_do_as_meant_is_warned_of_at_once() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    s.exchange("unbound", "fanout");
    s.exchange("direct", "direct");
    s.bind("direct", "dead", "k");
    let exchange = |name: &str| ("dead-letter-exchange", text(name));
    let key = |key: &str| ("dead-letter-routing-key", text(key));
    let cases: [(&str, &[_], &[&str]); 12] = [
        ("all", &[exchange("direct")], &[]),
        ("all", &[exchange("direct"), key("k")], &[]),
        ("all", &[exchange("")], &[]),
        ("all", &[exchange(""), key("dead")], &[]),
        (
            "all",
            &[exchange("missing")],
            &["DL001: dead-letter-exchange: there is no exchange 'missing'"],
        ),
        (
            "queues",
            &[exchange("unbound")],
            &["DL002: dead-letter-exchange: nothing is bound to exchange 'unbound'"],
        ),
        (
            "queues",
            &[exchange("direct"), key("z")],
            &["DL002: dead-letter-exchange: exchange 'direct' leads to no queue with the key 'z'"],
        ),
        (
            "queues",
            &[exchange(""), key("z")],
            &["DL002: dead-letter-exchange: there is no queue 'z'"],
        ),
        (
            "quorum_queues",
            &[key("k")],
            &[
                "DL014: dead-letter-routing-key: a routing key without an exchange only counts for queues \
               that have one",
            ],
        ),
        (
            "exchanges",
            &[("alternate-exchange", text("missing"))],
            &["alternate-exchange: there is no exchange 'missing'"],
        ),
        (
            "streams",
            &[("max-length", number(1))],
            &["DL013: apply-to: no effect, there are no streams here"],
        ),
        (
            "exchanges",
            &[("queue-mode", text("lazy")), exchange("missing")],
            &[
                "DL013: queue-mode: no effect, there is nothing here that it could change",
                "DL013: dead-letter-exchange: no effect, it is about queues, and the policy applies to \
                 exchanges",
            ],
        ),
    ];
    for (apply_to, definition, expect) in cases {
        check_warnings(&mut s, apply_to, definition, expect);
    }
}

fn check_warnings(s: &mut Scenario, apply_to: &str, definition: &[(&str, Value)], expect: &[&str]) {
    s.log.clear();
    let warnings = s.set_policy(false, "p", ("^q$", apply_to), definition);
    let told: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(told, expect, "{definition:?}");
    let logged = s.log.iter().map(|event| match event {
        LogEvent::Warned { warning, .. } => warning.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(logged.collect::<Vec<_>>(), warnings);
}

// `x-dead-leter-exchange` was kept without a word, and every dead letter dropped.
#[test]
fn an_argument_with_a_likely_typing_error_is_warned_of_with_the_name_that_was_meant() {
    let check = |name: &str, expect: Option<&str>| {
        let mut s = Scenario::new();
        s.log.clear();
        s.queue("q", &[(name, text("1"))]);
        let told = s.log.iter().map(|event| match event {
            LogEvent::Warned { warning, .. } => warning.to_string(),
            other => panic!("{other:?}"),
        });
        let expect = expect.map(|meant| {
            format!("{name}: no effect, there is no such argument; did you mean '{meant}'?")
        });
        assert_eq!(told.collect::<Vec<_>>(), Vec::from_iter(expect), "{name}");
    };
    check("x-dead-leter-exchange", Some("x-dead-letter-exchange"));
    check("dead-letter-exchange", Some("x-dead-letter-exchange"));
    check("x-max-lenght", Some("x-max-length"));
    check("message-ttl", Some("x-message-ttl"));
    check("x-queue-mode", None);
    check("x-team", None);
    check("owner", None);
}

#[test]
fn typing_errors_are_looked_for_in_some_arguments_only() {
    let mut s = Scenario::new();
    let names: Vec<String> = (0..20).map(|n| format!("x-max-length{n}")).collect();
    let given: Vec<(&str, Value)> = names.iter().map(|name| (&**name, text("1"))).collect();
    s.log.clear();
    s.queue("q", &given);
    assert_eq!(s.log.len(), crate::base::limits::MISSPELLED_LOOKED_AT_MAX);
}

#[test]
fn a_declaration_is_warned_of_in_each_reply_and_logged_once() {
    let mut s = Scenario::new();
    let missing = [("x-dead-letter-exchange", text("missing"))];
    for _ in 0..2 {
        let Reply::QueueDeclared { warnings, .. } = s.declare("q", &missing) else {
            panic!("refused");
        };
        assert_eq!(
            warnings,
            [Warning::ExchangeMissing {
                setting: Name::from("x-dead-letter-exchange"),
                exchange: Name::from("missing"),
            }]
        );
    }
    assert_eq!(s.log.len(), 1);
    s.publish("q", &draft("m"));
    assert_eq!(s.log.len(), 1, "nothing died");
}

/// All consumers of a queue were copied under one hold of the lock, as many as there are.
#[test]
fn consumers_are_listed_in_pieces_each_once_also_while_others_leave() {
    let mut s = Scenario::new();
    for queue in ["a", "b", "c", "d"] {
        s.queue(queue, &[]);
    }
    let many: Vec<ConsumerId> = (1..=300).map(|id| s.consumer(id, "b")).collect();
    s.consumer(400, "d");
    let (mut seen, mut after, mut pieces) = (Vec::new(), None, 0);
    loop {
        let (some, next) = s.core.consumers_after(after.as_ref(), 50);
        assert!(some.len() <= 50, "{}", some.len());
        seen.extend(some.iter().map(|info| info.consumer));
        if pieces == 2 {
            // One that is listed and one that is not yet.
            s.detach(many[10]);
            s.detach(many[200]);
        }
        pieces += 1;
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert!(pieces >= 6, "{pieces}");
    assert_eq!((seen.len(), seen.contains(&many[200])), (300, false));
    let queue = s.core.queue("b").unwrap();
    let (first, next) = s.core.consumers_of(queue, 0, 200);
    let (rest, end) = s.core.consumers_of(queue, next.unwrap(), 200);
    assert_eq!((first.len(), rest.len(), end), (200, 98, None));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 300, "each once");
}

/// A name was matched with all policies under one hold of the lock, however long each took.
#[test]
fn policies_that_take_long_over_a_name_are_matched_with_it_in_pieces() {
    let mut s = Scenario::new();
    let name = |letter: &str| letter.repeat(200);
    s.queue(&name("q"), &[]);
    s.exchange(&name("x"), "fanout");
    for index in 0..100_u32 {
        // Each is better than the one before, so that all are matched.
        let spec = PolicySpec {
            name: Name::from(format!("p{index:03}").as_str()),
            pattern: "(?!y)([qx]+)+$",
            priority: index.into(),
            apply_to: "all",
            definition: vec![
                (Name::from("message-ttl"), number(1 + u64::from(index))),
                (Name::from("alternate-exchange"), text("amq.fanout")),
            ],
        };
        let (operator, policy) = (false, Box::new(Policy::new(false, spec).unwrap()));
        let command = Command::Topology(TopologyCommand::PolicySet { operator, policy });
        s.core.apply(s.now, command, &mut s.effects);
    }
    let mut ticks = 0;
    while s.core.has_work() {
        s.effects.meter = Meter::default();
        s.core.tick(s.now, 1, &mut s.effects);
        let spent_ns = s.effects.meter.spent_ns();
        assert!(spent_ns <= BATCH_NS_MAX, "{spent_ns} ns in one tick");
        ticks += 1;
    }
    assert!(ticks > 50, "{ticks}");
    let queue = s.core.queue(&name("q")).unwrap();
    assert_eq!(queue.settings.message_ttl_ms, Some(100));
    let exchange = s.core.router().exchange_named(&name("x")).unwrap();
    assert_eq!(exchange.alternate().unwrap(), "amq.fanout");
}

/// Alternate exchanges were set in slices after the start: what was published right then to one of
/// many exchanges was unroutable.
#[test]
fn policies_of_all_exchanges_and_queues_are_in_force_when_a_start_is_over() {
    let mut s = Scenario::new();
    for index in 0..300 {
        s.queue(&format!("q{index:03}"), &[]);
        s.exchange(&format!("x{index:03}"), "direct");
    }
    s.bind("amq.fanout", "q000", "");
    s.policy("ttl", "^q", &[("message-ttl", number(5))]);
    s.policy("ae", "^x", &[("alternate-exchange", text("amq.fanout"))]);
    let options = CoreOptions::new(Name::from("/"), Seed(7));
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    for record in &s.records {
        restoring.record(record);
    }
    let mut core = restoring.finish();
    for index in 0..300 {
        let queue = core.queue(&format!("q{index:03}")).unwrap();
        assert_eq!(queue.settings.message_ttl_ms, Some(5));
        let exchange = core.router().exchange_named(&format!("x{index:03}"));
        assert_eq!(exchange.unwrap().alternate().unwrap(), "amq.fanout");
    }
    let publish = Command::Publish(draft("first").post("x299", "nowhere", 1));
    core.apply(s.now, publish, &mut Effects::new());
    assert_eq!(core.queue("q000").unwrap().messages.live(), 1);
}
