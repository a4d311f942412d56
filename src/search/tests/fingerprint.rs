//! Claims about groups.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{death, died, evidence, info, message, properties};
use crate::deaths::{Evidence, Reason};
use crate::search::Fingerprint;
use crate::search::stack_trace::{first_line, top_frame};
use crate::search::variable_parts::stripped_chars;
use crate::wire::Value;

/// Texts of exceptions as five frameworks write them.
const EXCEPTIONS: &str = include_str!("exceptions.txt");

/// The groups of the table: the number of its block, what was written, the fingerprint.
fn table() -> Vec<(usize, &'static str, Fingerprint)> {
    let given = |text: &str| {
        let text = text.replace("\\n", "\n").replace("\\t", "\t");
        (!text.is_empty()).then_some(text)
    };
    let mut rows = Vec::new();
    let mut block = 0;
    for line in EXCEPTIONS.lines().filter(|line| !line.starts_with('#')) {
        if line.is_empty() {
            block += 1;
            continue;
        }
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, condition, kind, text] = columns.try_into().expect(line);
        let [condition, kind, text] = [condition, kind, text].map(given);
        let group =
            Fingerprint::of_error(condition.as_deref(), kind.as_deref(), text.as_deref(), None);
        rows.push((block, line, group));
    }
    rows
}

#[test]
fn one_cause_is_one_group_in_the_texts_of_five_frameworks() {
    let rows = table();
    assert!(rows.len() > 500, "the table was not found");
    let mut wrong = Vec::new();
    let mut first: BTreeMap<usize, &(usize, &str, Fingerprint)> = BTreeMap::new();
    for row in &rows {
        let known = first.entry(row.0).or_insert(row);
        if known.2.key != row.2.key {
            wrong.push(format!("{}\n  {}\n  {}", row.1, row.2.label, known.2.label));
        }
    }
    assert!(wrong.is_empty(), "differ:\n{}", wrong.join("\n"));
}

#[test]
fn other_causes_are_other_groups() {
    let mut of_key: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (block, line, group) in table() {
        let (known, like) = of_key.entry(group.key).or_insert((block, line));
        if *known != block {
            wrong.push(format!("{like}\n{line}\n  {}", group.label));
        }
    }
    assert!(wrong.is_empty(), "are one group:\n{}", wrong.join("\n\n"));
}

/// A key that somebody saved means the same in every later version.
#[test]
fn fingerprints_stay_what_they_are() {
    let of = |condition, description| {
        let evidence = evidence(condition, description);
        let death = death("orders", Reason::Rejected, 1, Some(evidence));
        Fingerprint::of(&died(&message(&[]), &[death]))
    };
    let group = of(
        Some("app:timeout"),
        Some("upstream http://10.0.0.1/x did not answer in 200 ms"),
    );
    assert_eq!(group.key, "1:1e10c0a8");
    assert_eq!(
        group.label,
        "app:timeout \"upstream <url> did not answer in <n> ms\""
    );
    let group = of(
        Some("app:schema"),
        Some("field 'price' is missing (order 4711)"),
    );
    assert_eq!(group.key, "1:0be73b87");
    assert_eq!(
        group.label,
        "app:schema \"field <q> is missing (order <n>)\""
    );
}

#[test]
fn where_nothing_is_known_of_the_error_reason_and_queue_are_the_group() {
    let of = |queue, reason, evidence: Option<Evidence>| {
        Fingerprint::of(&died(&message(&[]), &[death(queue, reason, 1, evidence)]))
    };
    let expired = of("orders", Reason::Expired, None);
    assert_eq!(expired.label, "expired in orders");
    // Who rejected makes no group.
    let rejected = of("orders", Reason::Rejected, Some(evidence(None, None)));
    assert_eq!(rejected.label, "rejected in orders");
    assert_eq!(rejected, of("orders", Reason::Rejected, None));
    assert_ne!(rejected.key, expired.key);
    assert_ne!(rejected.key, of("carts", Reason::Rejected, None).key);
    let alive = Fingerprint::of(&message(&[]));
    assert_eq!(alive.key, "none");
}

#[test]
fn the_latest_death_makes_the_group() {
    let first = death(
        "orders",
        Reason::Rejected,
        1,
        Some(evidence(Some("a:b"), None)),
    );
    let second = death("parked", Reason::Expired, 2, None);
    let group = Fingerprint::of(&died(&message(&[]), &[first, second]));
    assert_eq!(group.label, "expired in parked");
}

#[test]
fn info_gives_type_message_and_top_frame() {
    let of = |pairs: &[(&str, &str)]| {
        let evidence = Evidence {
            info: Some(info(pairs)),
            ..evidence(Some("app:error"), None)
        };
        let death = death("orders", Reason::Rejected, 1, Some(evidence));
        Fingerprint::of(&died(&message(&[]), &[death]))
    };
    let known = [
        ("exception-type", "Shop.NotFound, Shop, Version=1.2.3.4"),
        ("exception-message", "order 7 not found"),
        (
            "stack-trace",
            "Shop.NotFound: order 7\n   at Shop.Find(Order o) in Find.cs:line 5\n   at X()",
        ),
    ];
    assert_eq!(
        of(&known).label,
        "app:error Shop.NotFound \"order <n> not found\" at Shop.Find(Order o) in Find.cs:line <n>"
    );
    let mut elsewhere = known;
    elsewhere[2].1 =
        "Shop.NotFound: order 7\n   at Shop.Load(Order o) in Load.cs:line 5\n   at X()";
    assert_ne!(of(&known).key, of(&elsewhere).key);
    let mut other_version = known;
    other_version[0].1 = "Shop.NotFound, Shop, Version=2.0.0.0";
    other_version[2].1 = "at Shop.Find(Order o) in Find.cs:line 9\n   at Y()";
    assert_eq!(of(&known).key, of(&other_version).key);
}

#[test]
fn the_properties_of_frameworks_count_where_the_consumer_said_nothing() {
    let of = |evidence: Evidence, pairs: &[(&str, &str)]| {
        let pairs: Vec<(&str, Value)> = pairs
            .iter()
            .map(|(key, value)| (*key, Value::string(*value)))
            .collect();
        let death = death("orders", Reason::Rejected, 1, Some(evidence));
        Fingerprint::of(&died(&message(&[properties(&pairs)]), &[death])).label
    };
    let check = |pairs: &[(&str, &str)], expected: &str| {
        assert_eq!(of(evidence(None, None), pairs), expected);
    };
    check(
        &[
            ("MT-Fault-ExceptionType", "A.B"),
            ("MT-Fault-Message", "no 5"),
        ],
        "A.B \"no <n>\"",
    );
    check(&[("NServiceBus.ExceptionInfo.ExceptionType", "C.D")], "C.D");
    check(&[("x-exception-message", "bad 'x'")], "\"bad <q>\"");
    check(
        &[
            ("kafka_dlt-exception-fqcn", "e.F"),
            ("kafka_dlt-exception-stacktrace", "e.F\n\tat a.b(C.java:5)"),
        ],
        "e.F at a.b(C.java:<n>)",
    );
    // What an earlier life of the message wrote there is not the error of its latest death.
    let label = of(
        evidence(Some("app:new"), None),
        &[("MT-Fault-Message", "old")],
    );
    assert_eq!(label, "app:new");
}

#[test]
fn stack_traces_are_read_with_their_lines_joined_too() {
    let check = |text: &str, line: &str, frame: &str| {
        assert_eq!(
            (first_line(text).as_str(), top_frame(text).as_str()),
            (line, frame),
            "{text}"
        );
    };
    check("E: a\n   at B()\n   at C()", "E: a", "at B()");
    check("E: a   at B()   at C()", "E: a", "at B()");
    check("E: a\\r\\n   at B()\\r\\n   at C()", "E: a", "at B()");
    check("E: a\\n\\tat B()\\n\\tat C()", "E: a", "at B()");
    check("\n\nE: look at it", "E: look at it", "");
    check(
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n  File \"a.py\", \
         line 2, in g\n    h['x']\nKeyError: 'x'",
        "KeyError: 'x'",
        "File \"a.py\", line 2, in g",
    );
    check("cannot open C:\\new\\file", "cannot open C:\\new\\file", "");
}

/// Each step over a text is linear: one that looks back or ahead for nothing at each place would take
/// minutes for these.
#[test]
#[allow(clippy::disallowed_methods, reason = "this measures the time")]
fn a_text_made_to_be_slow_is_not() {
    let pieces = [
        "'", "\"", "'a", "a'", "a@", "@", "a://", "://.", "1:", ":", "::1", "0x", "f", "9f", "-",
        "1-", "1.", "Jan ", "Mon, ", "at ", "   at ", "\\n", "\u{e000}", "\u{661}", "\\", " ",
        "a1",
    ];
    let started = Instant::now();
    for piece in pieces {
        let text = piece.repeat(200_000 / piece.len());
        let chars: Vec<char> = text.chars().collect();
        let _ = stripped_chars(chars);
        let _ = Fingerprint::of_error(None, None, Some(&text), Some(&text));
    }
    assert!(started.elapsed() < Duration::from_mins(1));
}
