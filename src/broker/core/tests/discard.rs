//! One message is discarded because somebody asked for it. [evidence part 8]

use super::scenario::{Draft, Scenario, draft, text};
use crate::base::{ConsumerId, Name, Position, Seed};
use crate::broker::*;

fn discard(s: &mut Scenario, queue: &str, position: u64) -> Reply {
    s.apply(Command::Queue(QueueCommand::Discard {
        connection: None,
        name: Name::from(queue),
        position: Position(position),
    }))
}

fn refusal(reply: Reply) -> String {
    match reply {
        Reply::Refused(error) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

/// What a start after all records gives.
fn rebuilt(s: &Scenario) -> Core {
    let options = CoreOptions::new(Name::from("/"), Seed(7));
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    for record in &s.records {
        restoring.record(record);
    }
    restoring.finish()
}

#[test]
fn one_ready_message_is_discarded_counted_and_dies_nowhere() {
    let mut s = Scenario::new();
    // A dead-letter exchange gets nothing: it did not die.
    s.queue("dlq", &[]);
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    s.queue("q", &arguments);
    s.publish_all("q", &["a", "b", "c"]);
    let reply = discard(&mut s, "q", 1);
    assert!(
        matches!(reply, Reply::Purged { messages: 1, .. }),
        "{reply:?}"
    );
    assert_eq!(s.dropped("q", DropCause::Discarded), 1);
    assert_eq!(s.counts("dlq"), (0, 0, 0));
    assert_eq!(rebuilt(&s).queue("q").unwrap().messages.ready(), 2);
    let again = refusal(discard(&mut s, "q", 1));
    assert_eq!(
        again,
        "no message at position 1 of queue 'q': it is gone, or never was there"
    );
    assert_eq!(s.bodies("q"), ["a", "c"]);
}

#[test]
fn a_message_that_is_not_ready_stays() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a"]);
    let taken = s.take(1, "q", 1);
    let held = refusal(discard(&mut s, "q", 0));
    assert_eq!(
        held,
        "the message at position 0 of queue 'q' is held by a consumer"
    );
    s.settle(&taken[0], Outcome::Released);
    s.detach(ConsumerId(1));
    assert_eq!(s.counts("q"), (1, 0, 0));
    assert!(refusal(discard(&mut s, "q", 7)).contains("position 7"));
    assert!(refusal(discard(&mut s, "missing", 0)).contains("no queue 'missing'"));
}

#[test]
fn a_message_on_disk_is_discarded_too_and_so_is_a_transient_one() {
    let mut s = Scenario::with(CoreOptions {
        block_shift: 2,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[]);
    let bodies: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    s.publish_all("q", &bodies);
    let written = s.core.last_lsn();
    s.apply(Command::Upkeep(UpkeepCommand::PageOut {
        bytes: 1,
        written,
        spill: false,
    }));
    let messages = &s.core.queue("q").unwrap().messages;
    let evicted = (0..40).find(|at| messages.is_evicted(Position(*at)));
    discard(&mut s, "q", evicted.expect("a block on disk"));
    assert_eq!(s.dropped("q", DropCause::Discarded), 1);
    assert_eq!(s.counts("q"), (39, 0, 0));
    assert_eq!(rebuilt(&s).queue("q").unwrap().messages.ready(), 39);
    let transient = Draft {
        durable: false,
        ..draft("t")
    };
    s.publish("q", &transient);
    discard(&mut s, "q", 40);
    assert_eq!(s.counts("q"), (39, 0, 0));
    assert_eq!(s.dropped("q", DropCause::Discarded), 2);
}
