//! Redrives that choose by the text of bodies which are not in memory: these are looked into beside the
//! core, which is told. [evidence part 6]

use std::sync::Arc;

use super::redrive::{COMPLETED, begin, job, spec, state, steer};
use super::scenario::{Scenario, draft};
use crate::base::{Lsn, Name, Position};
use crate::broker::redrive::*;
use crate::broker::*;
use crate::message::Route;
use crate::search::DeathFilter;
use crate::wire::Value;

/// A queue `dlq` with this many messages whose bodies are in the journal only.
fn with_bodies_on_disk(count: u64) -> Scenario {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue("work", &[]);
    for number in 0..count {
        let message = draft(&format!("m{number}")).build();
        let message = message.with_blob(Arc::new(Lsn(70 + number))).unwrap();
        let route = Route {
            exchange: Name::from(""),
            keys: Arc::from([Name::from("dlq")]),
        };
        let reply = s.apply(Command::Queue(QueueCommand::Import {
            name: Name::from("dlq"),
            message: Arc::new(message),
            route: Arc::new(route),
            line: None,
        }));
        assert!(matches!(reply, Reply::Imported { .. }), "{reply:?}");
    }
    s
}

fn with_text() -> RedriveSpec {
    let parts = Value::Map(vec![(Value::symbol("body_contains"), Value::string("m"))]);
    RedriveSpec {
        filter: Some(Arc::new(DeathFilter::of_value(&parts).unwrap())),
        ..spec("dlq", RedriveTarget::Queue(Name::from("work")))
    }
}

/// Answers what the core asks for until it asks no more: what `has_text` says of each position.
fn answer(s: &mut Scenario, has_text: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut asked = Vec::new();
    while let Some(look) = s.effects.looks.pop() {
        assert!(s.effects.looks.is_empty(), "one body at a time");
        assert!(look.message.blob().is_some());
        asked.push(look.position.0);
        s.apply(Command::Upkeep(UpkeepCommand::BodyLooked {
            job: look.job,
            position: look.position,
            has_text: has_text(look.position.0),
        }));
    }
    asked
}

#[test]
fn what_has_the_text_in_its_body_on_disk_is_moved_and_nothing_else() {
    let mut s = with_bodies_on_disk(5);
    let held = s.take(1, "dlq", 1);
    begin(&mut s, "j", with_text());
    let first = held[0].position.0;
    let asked = answer(&mut s, |position| (position - first).is_multiple_of(2));
    assert_eq!(asked, (first..first + 5).collect::<Vec<_>>());
    assert_eq!(state(&s, "j"), COMPLETED);
    let counts = &job(&s, "j").counts;
    assert_eq!(
        (counts.moved, counts.skipped_held, counts.left()),
        (2, 1, Some(0))
    );
    assert_eq!((s.counts("dlq").0, s.counts("work").0), (2, 2));
}

#[test]
fn an_answer_is_kept_while_the_job_waits_and_one_that_comes_late_means_nothing() {
    let mut s = with_bodies_on_disk(2);
    begin(&mut s, "j", with_text());
    let look = s.effects.looks.pop().unwrap();
    let tell = |s: &mut Scenario, position, has_text| {
        let job = look.job;
        s.apply(Command::Upkeep(UpkeepCommand::BodyLooked {
            job,
            position,
            has_text,
        }));
    };
    // Nobody asked for these.
    tell(&mut s, Position(look.position.0 + 1), true);
    assert_eq!(job(&s, "j").counts.moved, 0);
    steer(&mut s, "j", Steering::Pause);
    tell(&mut s, look.position, true);
    tell(&mut s, look.position, false);
    assert_eq!(job(&s, "j").counts.moved, 0, "it is paused");
    steer(&mut s, "j", Steering::Resume);
    assert_eq!(job(&s, "j").counts.moved, 1, "the first answer is known");
    assert_eq!(answer(&mut s, |_| false).len(), 1);
    assert_eq!(state(&s, "j"), COMPLETED);
    s.apply(Command::Upkeep(UpkeepCommand::BodyLooked {
        job: 99,
        position: look.position,
        has_text: true,
    }));
    assert_eq!((s.counts("dlq").0, s.counts("work").0), (1, 1));
}
