//! Notes on groups of dead letters: bounded, kept until the group is empty for a week, gone with their
//! queue, the same after a restart. [evidence part 8]

use super::scenario::Scenario;
use crate::base::limits::{GROUP_NOTE_KEPT_MS, GROUP_NOTES_MAX, GROUP_NOTES_OF_QUEUE_MAX};
use crate::base::{Name, Seed};
use crate::broker::*;

const KEY: &str = "1:9c2e41aa";

fn note(s: &mut Scenario, queue: &str, key: &str, note: Option<&str>) -> Reply {
    s.apply(Command::Queue(QueueCommand::NoteGroup {
        name: Name::from(queue),
        key: Name::from(key),
        note: note.map(|text| (Name::from(text), Name::from("alice"))),
    }))
}

/// Tells the core what a look through the queue found of the group.
fn seen(s: &mut Scenario, queue: &str, is_empty: bool) {
    let queue = s.core.queue(queue).unwrap().id;
    let keys = vec![Name::from(KEY)];
    let (present, absent) = if is_empty {
        (Vec::new(), keys)
    } else {
        (keys, Vec::new())
    };
    s.apply(Command::Upkeep(UpkeepCommand::NotesSeen {
        queue,
        present,
        absent,
    }));
}

fn texts(core: &Core) -> Vec<String> {
    core.notes().map(|note| note.text.to_string()).collect()
}

/// The cores that a start makes of the records, each fact applied once and twice.
fn restarted(s: &Scenario) -> [Core; 2] {
    [1, 2].map(|times| {
        let options = CoreOptions::new(Name::from("/"), Seed(7));
        let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
        for record in &s.records {
            for fact in &record.facts {
                let mut single = record.clone();
                single.facts = vec![fact.clone(); times].into();
                restoring.record(&single);
            }
        }
        restoring.finish()
    })
}

#[test]
fn a_note_says_who_wrote_it_when_and_is_replaced_and_removed() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    let first = note(&mut s, "dead", KEY, Some("ask Bob"));
    assert!(matches!(first, Reply::NoteSet { created: true, .. }));
    s.pass(5);
    let second = note(&mut s, "dead", KEY, Some("fixed in 2.14.1"));
    assert!(matches!(second, Reply::NoteSet { created: false, .. }));
    let written = s.core.notes().next().unwrap().clone();
    assert_eq!((&*written.text, &*written.by), ("fixed in 2.14.1", "alice"));
    assert_eq!((written.at, written.empty_since), (s.now.wall, None));
    for core in restarted(&s) {
        assert_eq!(core.notes().collect::<Vec<_>>(), [&written]);
    }
    assert!(matches!(
        note(&mut s, "dead", KEY, None),
        Reply::Done { .. }
    ));
    for core in restarted(&s) {
        assert_eq!(texts(&core), [""; 0]);
    }
    let missing = |queue: &str| Error::NoNote {
        queue: Name::from(queue),
        key: Name::from(KEY),
    };
    let again = note(&mut s, "dead", KEY, None);
    assert_eq!(again, Reply::Refused(missing("dead")));
    let nowhere = note(&mut s, "no", KEY, Some("x"));
    assert!(matches!(nowhere, Reply::Refused(Error::NotFound { .. })));
}

#[test]
fn a_note_stays_until_its_group_is_empty_for_a_week() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    note(&mut s, "dead", KEY, Some("ask Bob"));
    seen(&mut s, "dead", true);
    s.pass(GROUP_NOTE_KEPT_MS - 1);
    seen(&mut s, "dead", true);
    assert_eq!(texts(&s.core), ["ask Bob"], "not a week yet");
    seen(&mut s, "dead", false);
    s.pass(1);
    seen(&mut s, "dead", true);
    assert_eq!(texts(&s.core), ["ask Bob"], "there was a message");
    let since = s.core.notes().next().unwrap().empty_since;
    assert_eq!(since, Some(s.now.wall));
    let records = s.records.len();
    s.pass(GROUP_NOTE_KEPT_MS - 1);
    seen(&mut s, "dead", true);
    assert_eq!(s.records.len(), records, "it says nothing new");
    for core in restarted(&s) {
        let [note] = core.notes().collect::<Vec<_>>()[..] else {
            panic!("{:?}", texts(&core));
        };
        assert_eq!(note.empty_since, since);
    }
    s.pass(1);
    seen(&mut s, "dead", true);
    assert_eq!(texts(&s.core), [""; 0]);
    for core in restarted(&s) {
        assert_eq!(texts(&core), [""; 0]);
    }
}

#[test]
fn notes_go_with_their_queue_and_its_successor_has_none() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    s.queue("other", &[]);
    note(&mut s, "dead", KEY, Some("of dead"));
    note(&mut s, "other", KEY, Some("of other"));
    s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("dead"),
        if_unused: false,
        if_empty: false,
    }));
    s.queue("dead", &[]);
    assert_eq!(texts(&s.core), ["of other"]);
    for core in restarted(&s) {
        assert_eq!(texts(&core), ["of other"]);
    }
}

#[test]
fn notes_on_a_queue_that_a_restart_does_not_keep_are_in_memory_only() {
    let mut s = Scenario::new();
    s.apply(Command::Queue(QueueCommand::Declare {
        connection: None,
        name: Name::from("passing"),
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    }));
    let records = s.records.len();
    note(&mut s, "passing", KEY, Some("for now"));
    seen(&mut s, "passing", true);
    assert_eq!(texts(&s.core), ["for now"]);
    note(&mut s, "passing", KEY, None);
    assert_eq!(s.records.len(), records);
}

#[test]
fn notes_are_bounded_in_each_queue_and_in_the_vhost() {
    let mut s = Scenario::new();
    let queues = GROUP_NOTES_MAX / GROUP_NOTES_OF_QUEUE_MAX;
    for number in 0..=queues {
        s.queue(&format!("q{number}"), &[]);
    }
    for number in 0..GROUP_NOTES_MAX {
        let (queue, group) = (
            number / GROUP_NOTES_OF_QUEUE_MAX,
            number % GROUP_NOTES_OF_QUEUE_MAX,
        );
        let (queue, key) = (format!("q{queue}"), format!("1:{group:08x}"));
        let reply = note(&mut s, &queue, &key, Some("x"));
        assert!(
            matches!(reply, Reply::NoteSet { .. }),
            "{number}: {reply:?}"
        );
    }
    let refused = |place, max| Reply::Refused(Error::TooManyNotes { place, max });
    assert_eq!(
        note(&mut s, "q0", KEY, Some("x")),
        refused("queue", GROUP_NOTES_OF_QUEUE_MAX)
    );
    assert_eq!(
        note(&mut s, &format!("q{queues}"), KEY, Some("x")),
        refused("vhost", GROUP_NOTES_MAX)
    );
    let known = note(&mut s, "q0", "1:00000000", Some("y"));
    assert!(matches!(known, Reply::NoteSet { created: false, .. }));
}
