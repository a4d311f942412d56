//! Claims about which dead letters a filter means.

use std::sync::Arc;

use rstest::rstest;

use super::{data, death, died, evidence, filter, info, message, properties, texts, verdict};
use crate::base::{Lsn, Timestamp};
use crate::deaths::{Evidence, QuarantineCause, Quarantined, Reason, Redrive, Redrives};
use crate::message::Message;
use crate::search::{Candidate, DeathFilter, Fingerprint, Verdict};
use crate::wire::Value;

/// Expired in `parked` at 500, then rejected in `orders` at 1,000.
fn dead() -> Message {
    let sections = [
        (0x73, Value::List(vec![Value::Uuid([0x11; 16])])),
        properties(&[("kind", Value::string("late"))]),
        data(b"order 4711"),
    ];
    let first = death("parked", Reason::Expired, 500, None);
    let last = death(
        "orders",
        Reason::Rejected,
        1_000,
        Some(evidence(Some("app:timeout"), Some("no answer in 5 ms"))),
    );
    died(&message(&sections), &[first, last])
}

#[rstest]
#[case::reason("reason", texts(&["expired", "rejected"]), true)]
#[case::earlier_reason("reason", texts(&["expired"]), false)]
#[case::queue("queue", texts(&["orders"]), true)]
#[case::earlier_queue("queue", texts(&["parked"]), false)]
#[case::condition("condition", texts(&["app:timeout", "x"]), true)]
#[case::other_condition("condition", texts(&["app:time"]), false)]
#[case::container("container", Value::string("billing-1"), true)]
#[case::other_container("container", Value::string("billing"), false)]
#[case::user("user", Value::string("ada"), true)]
#[case::other_user("user", Value::string("bob"), false)]
#[case::no_cause("cause", Value::string("none"), true)]
#[case::cause("cause", Value::string("cycle"), false)]
#[case::exchange("exchange", Value::string("shop"), true)]
#[case::its_dead_letter_exchange("exchange", Value::string("dlx"), false)]
#[case::key("routing_key", Value::string("order.new"), true)]
#[case::second_key("routing_key", Value::string("copy"), true)]
#[case::other_key("routing_key", Value::string("orders.dlq"), false)]
#[case::id(
    "message_id",
    Value::string("11111111-1111-1111-1111-111111111111"),
    true
)]
#[case::other_id("message_id", Value::string("1"), false)]
#[case::position("position", Value::List(vec![Value::Ulong(9), Value::string("7")]), true)]
#[case::other_position("position", Value::Long(8), false)]
#[case::after("died_after", Value::Long(1_000), true)]
#[case::later("died_after", Value::Long(1_001), false)]
#[case::before("died_before", Value::Timestamp(1_001), true)]
#[case::earlier("died_before", Value::string("1000"), false)]
#[case::not_redriven("redriven", Value::Bool(false), true)]
#[case::redriven("redriven", Value::string("true"), false)]
#[case::selector("selector", Value::string("kind = 'late' AND JMSPriority > 3"), true)]
#[case::other_selector("selector", Value::string("kind = 'early'"), false)]
#[case::body("body_contains", Value::string("4711"), true)]
#[case::other_body("body_contains", Value::string("4712"), false)]
fn one_part_holds_or_does_not(#[case] part: &str, #[case] value: Value, #[case] holds: bool) {
    let expected = if holds {
        Verdict::Matches
    } else {
        Verdict::Differs
    };
    assert_eq!(verdict(&filter(&[(part, value)]), &dead()), expected);
}

#[test]
fn all_parts_must_hold() {
    let both = |condition: &str, queue: &str| {
        let parts = [
            ("condition", texts(&[condition])),
            ("queue", texts(&[queue])),
        ];
        verdict(&filter(&parts), &dead())
    };
    assert_eq!(both("app:timeout", "orders"), Verdict::Matches);
    assert_eq!(both("app:timeout", "carts"), Verdict::Differs);
    assert_eq!(both("app:schema", "orders"), Verdict::Differs);
}

#[test]
fn a_group_is_found_by_its_key() {
    let key = Fingerprint::of(&dead()).key;
    assert_eq!(
        verdict(&filter(&[("group", texts(&[&key]))]), &dead()),
        Verdict::Matches
    );
    let other = filter(&[("group", texts(&["1:00000000"]))]);
    assert_eq!(verdict(&other, &dead()), Verdict::Differs);
    let alive = filter(&[("group", texts(&["none"]))]);
    assert_eq!(verdict(&alive, &message(&[])), Verdict::Matches);
}

#[test]
fn a_message_that_never_died_has_no_death_to_match() {
    let alive = message(&[data(b"x")]);
    for (part, value) in [
        ("reason", "rejected"),
        ("queue", "orders.dlq"),
        ("condition", "x"),
        ("died_after", "0"),
        ("died_before", "9999999999999"),
    ] {
        let filter = filter(&[(part, Value::string(value))]);
        assert_eq!(verdict(&filter, &alive), Verdict::Differs, "{part}");
    }
    // Where it was published is known all the same.
    for (part, value) in [
        ("exchange", "dlx"),
        ("routing_key", "orders.dlq"),
        ("cause", "none"),
    ] {
        let filter = filter(&[(part, Value::string(value))]);
        assert_eq!(verdict(&filter, &alive), Verdict::Matches, "{part}");
    }
}

#[test]
fn the_reason_of_azures_clients_counts_as_condition() {
    let evidence = Evidence {
        info: Some(info(&[("DeadLetterReason", "TooOld")])),
        ..evidence(Some("com.microsoft:dead-letter"), None)
    };
    let dead = died(
        &message(&[]),
        &[death("orders", Reason::Rejected, 1, Some(evidence))],
    );
    for condition in ["TooOld", "com.microsoft:dead-letter"] {
        let filter = filter(&[("condition", Value::string(condition))]);
        assert_eq!(verdict(&filter, &dead), Verdict::Matches, "{condition}");
    }
}

/// Who asks for its own name got what died of the other one of that name, too.
#[test]
fn users_of_a_filter_are_bearers_of_tokens_or_users_of_the_registry() {
    let ada = filter(&[("user", Value::string("ada"))]);
    for by_token in [false, true] {
        let evidence = Evidence {
            by_token,
            ..evidence(None, None)
        };
        let dead = died(
            &message(&[]),
            &[death("orders", Reason::Rejected, 1, Some(evidence))],
        );
        let of = |by_token| ada.clone().with_users_by_token(by_token);
        assert_eq!(verdict(&ada, &dead), Verdict::Matches);
        assert_eq!(verdict(&of(by_token), &dead), Verdict::Matches);
        assert_eq!(verdict(&of(!by_token), &dead), Verdict::Differs);
    }
    assert!(DeathFilter::default().with_users_by_token(true).is_empty());
}

#[test]
fn cause_and_redrive_are_known_from_the_history() {
    let dead = dead();
    let history = dead.history().unwrap();
    let why = Quarantined {
        cause: QuarantineCause::Cycle,
        closes_at: None,
    };
    let quarantined = dead.died(Arc::new(history.quarantined_for(why)), 1);
    let cycle = filter(&[("cause", Value::string("cycle"))]);
    assert_eq!(verdict(&cycle, &quarantined), Verdict::Matches);
    let none = filter(&[("cause", Value::string("none"))]);
    assert_eq!(verdict(&none, &quarantined), Verdict::Differs);
    let redriven = dead.died(Arc::new(history.redriven()), 1);
    let filter = filter(&[("redriven", Value::Bool(true))]);
    assert_eq!(verdict(&filter, &redriven), Verdict::Matches);
    // One that never died has no history that tells it.
    let moved = message(&[data(b"x")]);
    assert_eq!(verdict(&filter, &moved), Verdict::Differs);
    let redrive = Redrive {
        number: 0,
        job_number: 1,
        job: "redrive-1".into(),
        by: "alice".into(),
        from: "q".into(),
        to: "dead".into(),
        time: Timestamp(1),
        deaths: 0,
    };
    let moved = moved.redriven(None, Arc::new(Redrives::after(None, redrive)));
    assert_eq!(verdict(&filter, &moved), Verdict::Matches);
}

#[test]
fn the_body_of_a_streamed_message_is_asked_for_only_if_all_else_holds() {
    let body = b"order 4711";
    let whole = message(&[properties(&[("kind", Value::string("late"))]), data(body)]);
    let streamed = whole.with_blob(Arc::new(Lsn(5))).unwrap();
    let ask = |kind: &str, text: &str| {
        let selector = format!("kind = '{kind}'");
        let filter = filter(&[
            ("selector", Value::string(selector)),
            ("body_contains", Value::string(text)),
        ]);
        let route = crate::message::Route {
            exchange: "".into(),
            keys: ["q".into()].into(),
        };
        let candidate = Candidate {
            position: crate::base::Position(1),
            message: &streamed,
            route: &route,
            failures: 0,
        };
        (
            filter.verdict(&candidate),
            filter.is_in(&streamed, whole.bare()),
        )
    };
    assert_eq!(ask("early", "4711").0, Verdict::Differs);
    assert_eq!(ask("late", "4711"), (Verdict::NeedsBody, true));
    assert_eq!(ask("late", "4712"), (Verdict::NeedsBody, false));
    // The sections in front of the body are not searched.
    assert_eq!(ask("late", "kind"), (Verdict::NeedsBody, false));
}
