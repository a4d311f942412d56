//! Messages that die in more queues than a history has entries for. [dead-lettering parts 3, 4]

use super::scenario::{Scenario, draft, number, text};
use crate::base::limits::{HISTORY_ENTRIES_MAX, HISTORY_FOLDED_QUEUES_MAX};
use crate::base::{ConsumerId, Name};
use crate::broker::*;
use crate::deaths::Reason;

/// Queues of a chain, each dead-lettering to the next one.
fn name(number: usize) -> String {
    format!("queue-{number:03}")
}

/// Declares so many queues, the last one dead-lettering to `end`; what waits in them expires where the
/// number says so.
fn chain(s: &mut Scenario, count: usize, end: &str, expires: impl Fn(usize) -> bool) {
    for at in 0..count {
        let next = if at + 1 == count {
            end.to_owned()
        } else {
            name(at + 1)
        };
        let mut arguments = vec![
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(&next)),
        ];
        if expires(at) {
            arguments.push(("x-message-ttl", number(1)));
        }
        s.queue(&name(at), &arguments);
    }
}

#[test]
fn message_that_dies_in_one_queue_more_than_a_history_tells_apart_is_quarantined_and_in_the_log() {
    let known = HISTORY_ENTRIES_MAX + HISTORY_FOLDED_QUEUES_MAX;
    let mut s = Scenario::new();
    s.queue("end", &[]);
    chain(&mut s, known + 1, "end", |at| at < known);
    s.publish("queue-000", &draft("m"));
    s.pass(1_000);
    let last = name(known);
    assert_eq!(s.counts(&last), (1, 0, 0), "it came through 320 queues");
    s.log.clear();
    let taken = s.take(1, &last, 1).remove(0);
    s.reject(&taken);
    assert_eq!((s.counts(&last), s.counts("end")), ((0, 0, 0), (0, 0, 0)));
    assert_eq!(s.core.counters().drops.total(), 0);
    assert_eq!(s.core.counters().quarantined.of(DropCause::HistoryFull), 1);
    assert_eq!(s.bodies("amq.quarantine"), ["m"]);
    let log = LogEvent::Quarantined {
        queue: Name::from(last.as_str()),
        reason: Some(Reason::Rejected),
        cause: DropCause::HistoryFull,
        count: 1,
    };
    assert_eq!(s.log, [log]);
}

#[test]
fn loop_of_seventy_queues_that_turns_by_itself_is_dropped_and_told_with_all_of_them() {
    let mut s = Scenario::new();
    chain(&mut s, 70, "queue-003", |_| true);
    s.publish("queue-000", &draft("m"));
    s.pass(1_000);
    assert_eq!(s.dropped("queue-069", DropCause::Cycle), 1);
    let path: Vec<_> = (3..70).chain([3]).map(|at| Name::from(name(at))).collect();
    assert!(s.log.contains(&LogEvent::Cycle { path }), "{:?}", s.log);
}

#[test]
fn rejection_that_was_folded_lets_a_loop_of_seventy_queues_turn() {
    let mut s = Scenario::new();
    chain(&mut s, 72, "queue-001", |at| at != 2);
    s.publish("queue-000", &draft("m"));
    for turn in 1..=3 {
        s.pass(1_000);
        let taken = s.take(turn, "queue-002", 1);
        let history = taken[0].message.history().cloned();
        if let Some(history) = history.filter(|_| turn > 1) {
            let folded = history.folded().unwrap();
            let names: Vec<_> = folded.queues().map(Name::as_str).collect();
            assert!(names.contains(&"queue-003"), "{names:?}");
        }
        s.reject(&taken[0]);
        s.detach(ConsumerId(turn));
    }
    s.pass(1_000);
    assert_eq!(s.counts("queue-002"), (1, 0, 0), "it came round again");
    assert_eq!(s.core.counters().drops.total(), 0);
}
