//! Imports that can be sent again: each line once, whatever is sent or replayed twice. [evidence
//! part 11]

use std::sync::Arc;

use super::scenario::{Draft, Scenario, draft, number, text};
use crate::base::limits::{IMPORT_IDLE_MS, IMPORT_KEPT_MS, IMPORTS_KEPT_MAX};
use crate::base::{Lsn, Name, Seed};
use crate::broker::memo::ImportLine;
use crate::broker::*;
use crate::message::Route;

/// Puts a line into a queue, of a durable message; false if it is there already.
fn import(s: &mut Scenario, queue: &str, id: &str, line: u64) -> Result<bool, Error> {
    import_as(s, (queue, true), id, line)
}

/// The same for a message that is durable or not.
fn import_as(
    s: &mut Scenario,
    (queue, durable): (&str, bool),
    id: &str,
    line: u64,
) -> Result<bool, Error> {
    let route = Route {
        exchange: Name::from(""),
        keys: Arc::from([Name::from(queue)]),
    };
    let message = Draft {
        durable,
        ..draft(&line.to_string())
    };
    let reply = s.apply(Command::Queue(QueueCommand::Import {
        name: Name::from(queue),
        message: Arc::new(message.build()),
        route: Arc::new(route),
        line: Some(ImportLine {
            id: Name::from(id),
            line,
        }),
    }));
    match reply {
        Reply::Imported { .. } => Ok(true),
        Reply::ImportKnown { .. } => Ok(false),
        Reply::Refused(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// The number of the last line that is in the queue.
fn begin(s: &mut Scenario, queue: &str, id: &str) -> Result<u64, Error> {
    let (name, id) = (Name::from(queue), Name::from(id));
    match s.apply(Command::Queue(QueueCommand::ImportBegin { name, id })) {
        Reply::ImportBegun { behind, .. } => Ok(behind),
        Reply::Refused(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn ids(core: &Core) -> Vec<String> {
    core.imports().map(|mark| mark.id.to_string()).collect()
}

#[test]
fn a_line_that_is_sent_twice_is_imported_once_and_so_it_is_replayed() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    assert_eq!(begin(&mut s, "dead", "move"), Ok(0));
    for (line, is_new) in [(1, true), (1, false), (2, true), (4, true), (3, false)] {
        assert_eq!(import(&mut s, "dead", "move", line), Ok(is_new), "{line}");
    }
    assert_eq!(begin(&mut s, "dead", "move"), Ok(4));
    assert_eq!(import(&mut s, "dead", "other", 1), Ok(true));
    for times in [1, 2] {
        let options = CoreOptions::new(Name::from("/"), Seed(7));
        let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
        for record in &s.records {
            for fact in &record.facts {
                let mut single = record.clone();
                single.facts = vec![fact.clone(); times].into();
                restoring.record(&single);
            }
        }
        let core = restoring.finish();
        let lines: Vec<u64> = core.imports().map(|mark| mark.line).collect();
        assert_eq!(lines, [4, 1]);
        assert_eq!(core.queue("dead").unwrap().messages.ready(), 4);
    }
    let with_mark = |record: &&Record| {
        let is = |kind| record.facts.iter().any(|fact| fact.kind() == kind);
        is("inserted") && is("imported")
    };
    assert_eq!(s.records.iter().filter(with_mark).count(), 4);
}

/// A line whose message dies before its record is written is told in the record of its death.
#[test]
fn a_line_that_the_journal_tells_behind_a_later_one_does_not_set_its_import_back() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    for line in [1, 2] {
        assert_eq!(import(&mut s, "dead", "move", line), Ok(true));
    }
    let options = CoreOptions::new(Name::from("/"), Seed(3));
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    let last_two = s.records.len() - 2;
    let lines = |record: &Record| record.facts.iter().any(|fact| fact.kind() == "imported");
    assert!(s.records[last_two..].iter().all(lines));
    s.records.swap(last_two, last_two + 1);
    for record in &s.records {
        restoring.record(record);
    }
    let mut next = Scenario::new();
    (next.core, next.now) = (restoring.finish(), s.now);
    assert_eq!(begin(&mut next, "dead", "move"), Ok(2));
}

#[test]
fn a_line_that_a_full_queue_refuses_is_not_remembered() {
    let mut s = Scenario::new();
    let limit = [
        ("x-max-length", number(1)),
        ("x-overflow", text("reject-publish")),
    ];
    s.queue("dead", &limit);
    assert_eq!(import(&mut s, "dead", "move", 1), Ok(true));
    let full = Error::QueueFull {
        name: Name::from("dead"),
    };
    assert_eq!(import(&mut s, "dead", "move", 2), Err(full));
    assert_eq!(begin(&mut s, "dead", "move"), Ok(1));
}

#[test]
fn an_id_is_of_one_queue_and_a_queue_that_is_made_anew_begins_anew() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    s.queue("other", &[]);
    import(&mut s, "dead", "move", 7).unwrap();
    let refused = begin(&mut s, "other", "move").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "import 'move' fills queue 'dead': each import has an id of its own"
    );
    s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("dead"),
        if_unused: false,
        if_empty: false,
    }));
    s.queue("dead", &[]);
    assert_eq!(begin(&mut s, "dead", "move"), Ok(0));
    assert_eq!(import(&mut s, "dead", "move", 1), Ok(true));
}

#[test]
fn ids_are_bounded_in_number_and_age() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    for number in 0..IMPORTS_KEPT_MAX {
        import(&mut s, "dead", &format!("i{number:03}"), 1).unwrap();
        s.pass(1);
    }
    assert_eq!(import(&mut s, "dead", "new", 1), Err(Error::TooManyImports));
    assert_eq!(begin(&mut s, "dead", "i000"), Ok(1), "known ones go on");
    s.pass(IMPORT_IDLE_MS);
    assert_eq!(import(&mut s, "dead", "new", 1), Ok(true));
    let known = ids(&s.core);
    assert_eq!((known.len(), &*known[0]), (IMPORTS_KEPT_MAX, "i001"));
    s.pass(IMPORT_KEPT_MS);
    assert_eq!(begin(&mut s, "dead", "i001"), Ok(0));
    assert_eq!(ids(&s.core), ["new"]);
    s.pass(1);
    begin(&mut s, "dead", "i001").unwrap();
    assert_eq!(ids(&s.core), [""; 0]);
}

/// The core that a start makes of the records.
fn restarted(s: &Scenario, records: &[Record]) -> Scenario {
    let options = CoreOptions::new(Name::from("/"), Seed(5));
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    for record in records {
        restoring.record(record);
    }
    let mut next = Scenario::new();
    (next.core, next.now) = (restoring.finish(), s.now);
    next
}

/// The records of a checkpoint.
fn checkpoint(s: &Scenario) -> Vec<Record> {
    let mut snapshot = s.core.begin_snapshot(Lsn(0));
    let mut records = Vec::new();
    while let Some(slice) = s.core.snapshot_slice(s.now, &mut snapshot) {
        records.push(Record {
            lsn: Lsn(records.len() as u64 + 1),
            wall: s.now.wall,
            facts: slice.facts.into(),
            named: true,
        });
    }
    records
}

/// The journal, and checkpoints, said of lines that a restart loses that they are there: imported
/// again they were skipped.
#[test]
fn a_restart_knows_an_import_up_to_the_last_line_that_it_keeps() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    s.apply(Command::Queue(QueueCommand::Declare {
        connection: None,
        name: Name::from("passing"),
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    }));
    for line in 1..=2 {
        assert_eq!(import(&mut s, "passing", "passing", line), Ok(true));
    }
    for (line, durable) in [(1, false), (2, true), (3, false)] {
        let queue = ("dead", durable);
        assert_eq!(import_as(&mut s, queue, "mixed", line), Ok(true));
    }
    assert_eq!(import_as(&mut s, ("dead", false), "light", 1), Ok(true));
    assert_eq!(begin(&mut s, "passing", "passing"), Ok(2));
    assert_eq!(begin(&mut s, "dead", "mixed"), Ok(3), "while it runs");
    assert_eq!(import_as(&mut s, ("dead", false), "mixed", 3), Ok(false));
    for records in [s.records.clone(), checkpoint(&s)] {
        let mut next = restarted(&s, &records);
        assert_eq!(ids(&next.core), ["mixed"]);
        assert_eq!(begin(&mut next, "dead", "mixed"), Ok(2));
        assert_eq!(begin(&mut next, "dead", "light"), Ok(0));
        assert_eq!(import_as(&mut next, ("dead", false), "mixed", 3), Ok(true));
        assert_eq!(import_as(&mut next, ("dead", false), "light", 1), Ok(true));
        assert_eq!(next.core.queue("dead").unwrap().messages.ready(), 3);
    }
}
