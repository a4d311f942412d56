//! What messages take in memory, all of it, and how large records become.

use std::sync::Arc;

use bytes::Bytes;

use super::scenario::{CONNECTION, SESSION, Scenario, draft, number, text};
use crate::base::limits::MODIFIED_ANNOTATIONS_BYTES_MAX;
use crate::base::{ConsumerId, Gauge, Name, PublisherId, Seed};
use crate::broker::*;
use crate::deaths::Evidence;
use crate::filter::Selector;
use crate::message::{KeyRule, Message, Route};
use crate::wire::{begin_map, end, write_string, write_symbol};

/// An encoded map of one annotation.
fn annotations(key: &str, length: usize) -> Bytes {
    let mut out = Vec::new();
    let map = begin_map(&mut out);
    write_symbol(&mut out, key);
    write_string(&mut out, &"x".repeat(length));
    end(&mut out, map, 2);
    out.into()
}

/// A durable message of one byte with one annotation.
fn annotated(key: &str, length: usize) -> Arc<Message> {
    let header = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x72";
    let bytes = [header, &*annotations(key, length), b"\x00\x53\x75\xa0\x01a"].concat();
    let message = Message::from_transfer(bytes.into(), KeyRule::Specification);
    Arc::new(message.unwrap())
}

fn publish(s: &mut Scenario, keys: &[Name], message: Arc<Message>) {
    s.apply(Command::Publish(Publish {
        connection: CONNECTION,
        publisher: PublisherId(1),
        token: 1,
        target: Target::Named,
        route: Arc::new(Route {
            exchange: Name::from("amq.direct"),
            keys: keys.into(),
        }),
        message,
        settled: true,
        forbidden: None,
        delivery_time: None,
    }));
}

fn modified(annotations: &Bytes) -> Outcome {
    Outcome::Modified {
        delivery_failed: false,
        undeliverable_here: false,
        annotations: Some(annotations.clone()),
    }
}

/// Frees what the core left to be freed.
fn free(s: &mut Scenario) {
    s.effects.garbage.clear();
    s.records.clear();
}

/// A hundred messages with 8 MB of annotations took 788 MB; counted were none.
#[test]
fn annotations_and_further_keys_count_as_memory_until_the_message_is_gone() {
    const LONG: usize = 8_000_000;
    let keys: Vec<Name> = (0..200).map(|n| Name::from(format!("{n:0>250}"))).collect();
    for settle in [Outcome::Accepted, Outcome::Rejected { evidence: None }] {
        let mut s = Scenario::new();
        for queue in ["q", "dead"] {
            s.queue(queue, &[]);
        }
        s.policy(
            "dlx",
            "^q$",
            &[
                ("dead-letter-exchange", text("")),
                ("dead-letter-routing-key", text("dead")),
            ],
        );
        s.bind("amq.direct", "q", &keys[0]);
        publish(&mut s, &keys, annotated("x-opt-long", LONG));
        publish(&mut s, &keys[..1], annotated("x-exchange", LONG));
        publish(&mut s, &keys[..1], annotated("x-opt-long", 10));
        let used = s.core.memory().bytes();
        assert!((8_000_000..11_000_000).contains(&used), "{used} bytes");
        for delivery in s.take(1, "q", 3) {
            s.settle(&delivery, settle.clone());
        }
        assert_eq!(s.counts("q"), (0, 0, 0));
        if s.counts("dead") == (3, 0, 0) {
            let used = s.core.memory().bytes();
            assert!(
                (8_000_000..11_000_000).contains(&used),
                "{used} bytes of the dead"
            );
            let name = Name::from("dead");
            s.apply(Command::Queue(QueueCommand::Purge {
                connection: Some(CONNECTION),
                name,
                with_dead_pending: true,
            }));
        }
        free(&mut s);
        let memory = s.core.memory();
        assert_eq!(
            (memory.resident.messages, memory.resident.bytes),
            (0, 0),
            "{settle:?}"
        );
        assert!(memory.shared_bytes < 1_000, "{memory:?}");
    }
}

/// One `modified` of 120 kB about 12,000 messages: 1.5 GB of memory and of the journal.
#[test]
fn what_one_modified_says_of_many_messages_is_bounded_in_memory_and_in_records() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for _ in 0..1_000 {
        s.publish_all("q", &["a"]);
    }
    let deliveries = s.take(1, "q", 1_000);
    s.records.clear();
    let said = annotations("x-opt-long", 120_000);
    let before = s.core.memory().bytes();
    for delivery in &deliveries {
        s.settle(delivery, modified(&said));
    }
    let used = s.core.memory().bytes() - before;
    assert!((120_000..130_000).contains(&used), "shared: {used} bytes");
    let mut written = 0;
    for record in &s.records {
        for fact in &record.facts {
            if let Fact::Changed { message, .. } = fact {
                written += message.annotation_bytes() as u64;
            }
        }
    }
    let most = MODIFIED_ANNOTATIONS_BYTES_MAX + 130_000;
    assert!(
        (MODIFIED_ANNOTATIONS_BYTES_MAX..most).contains(&written),
        "{written}"
    );
    let ignored = s.core.counters().annotations_ignored;
    assert!(
        (850..870).contains(&ignored),
        "the others come back without: {ignored}"
    );
    assert_eq!(s.counts("q").0 + s.counts("q").1, 1_000, "none is lost");
    let name = Name::from("q");
    s.detach(deliveries[0].consumer);
    s.apply(Command::Queue(QueueCommand::Purge {
        connection: Some(CONNECTION),
        name,
        with_dead_pending: true,
    }));
    free(&mut s);
    let left = s.core.memory().bytes();
    assert!(left < 130_000, "what the last one said: {left}");
}

#[test]
fn evidence_that_many_dead_letters_share_counts_once() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    s.queue(
        "q",
        &[
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dead")),
        ],
    );
    let consumer = Evidence::of_consumer(&Name::from("c"), "l", None, None);
    let said = "x".repeat(100_000);
    let evidence = Arc::new(consumer.with_error("app:bad", Some(&said), None));
    for _ in 0..500 {
        s.publish_all("q", &["a"]);
    }
    let before = s.core.memory().bytes();
    for delivery in s.take(1, "q", 500) {
        let evidence = Some(Arc::clone(&evidence));
        s.settle(&delivery, Outcome::Rejected { evidence });
        s.now.wall.0 += 1;
    }
    drop(evidence);
    let used = s.core.memory().bytes() - before;
    assert!(
        (500 * 150..500 * 300).contains(&used),
        "{used} bytes of histories"
    );
    let name = Name::from("dead");
    s.apply(Command::Queue(QueueCommand::Purge {
        connection: Some(CONNECTION),
        name,
        with_dead_pending: true,
    }));
    free(&mut s);
    s.events.clear();
    assert!(s.core.memory().bytes() < 10_000);
}

/// A record ends when it carries much, whatever that is made of.
#[test]
fn records_are_cut_behind_annotations_as_behind_bodies() {
    let mut s = Scenario::new();
    s.queue("dead", &[]);
    s.queue(
        "q",
        &[
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dead")),
            ("x-message-ttl", number(100)),
        ],
    );
    let key = [Name::from("q")];
    s.bind("amq.direct", "q", "q");
    for _ in 0..20 {
        publish(&mut s, &key, annotated("x-opt-long", 600_000));
    }
    s.publish("q", &draft("last"));
    s.records.clear();
    s.pass(200);
    assert_eq!(s.counts("dead").0, 21);
    assert!(s.records.len() >= 10, "{} records", s.records.len());
}

/// They were in no budget: 24 KB of each queue with 255 priorities, up to a megabyte once each had messages, and
/// 2 KB of each consumer that looks through it by a place of its own.
#[test]
fn subqueues_of_priorities_and_places_in_them_count() {
    let kept = Gauge::default();
    let mut s = Scenario::with(CoreOptions {
        kept: kept.clone(),
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    let added = |s: &mut Scenario, change: &mut dyn FnMut(&mut Scenario)| {
        let before = kept.bytes();
        change(s);
        kept.bytes().wrapping_sub(before)
    };
    let plain = added(&mut s, &mut |s| {
        s.queue("plain", &[("x-max-priority", number(1))]);
    });
    let many = added(&mut s, &mut |s| {
        s.queue("many0", &[("x-max-priority", number(255))]);
    });
    // A subqueue has a deque, four numbers of its places and messages, and three of its bytes; its block four
    // bitsets and room for four messages.
    let each = (many - plain) / 254;
    assert!((600..=1_200).contains(&each), "{each}");
    // A position in each of 256 subqueues.
    let places = 256 * 8;
    let selector = || Some(Arc::new(Selector::parse("kind = 'late'").unwrap()));
    for id in 1..=3 {
        let selecting = added(&mut s, &mut |s| {
            s.consume(id, "many0", |consume| consume.selector = selector());
        });
        assert_eq!(selecting, places);
    }
    let all = added(&mut s, &mut |s| {
        s.consumer(4, "many0");
    });
    assert_eq!(all, 0, "it takes what is first");
    let browsing = added(&mut s, &mut |s| {
        s.apply(Command::Browse(Browse {
            connection: CONNECTION,
            session: SESSION,
            consumer: ConsumerId(5),
            queue: Name::from("many0"),
            settled: true,
            selector: selector(),
        }));
    });
    assert_eq!(browsing, places);
    let gone = added(&mut s, &mut |s| {
        s.detach(ConsumerId(1));
        s.detach(ConsumerId(5));
    });
    assert_eq!(gone, (2 * places).wrapping_neg());
}

/// It was in no budget: up to 5 kB of each queue that had messages once.
#[test]
fn the_room_that_an_empty_queue_keeps_for_messages_counts() {
    for kind in ["classic", "quorum"] {
        let kept = Gauge::default();
        let mut s = Scenario::with(CoreOptions {
            kept: kept.clone(),
            ..CoreOptions::new(Name::from("/"), Seed(7))
        });
        s.queue("q", &[("x-queue-type", text(kind))]);
        let consumer = s.consumer(1, "q");
        s.credit(consumer, 1_000);
        let before = kept.bytes();
        let pass = |s: &mut Scenario, count: usize| {
            for _ in 0..count {
                s.publish("q", &draft("a"));
            }
            for delivery in s.taken(consumer) {
                s.settle(&delivery, Outcome::Accepted);
            }
            assert_eq!(s.counts("q"), (0, 0, 0));
            kept.bytes() - before
        };
        let one = pass(&mut s, 1);
        assert!((400..=1_000).contains(&one), "{kind}: {one}");
        assert_eq!(pass(&mut s, 1), one, "the same room again");
        let many = pass(&mut s, 60);
        assert!((4_000..=6_000).contains(&many), "{kind}: {many}");
        let more = pass(&mut s, 200);
        assert!(more < 600, "{kind}: {more} of a block that was given back");
        s.apply(Command::Queue(QueueCommand::Delete {
            connection: None,
            name: Name::from("q"),
            if_unused: false,
            if_empty: false,
        }));
        s.pass(0);
        assert!(kept.bytes() < before);
    }
}
