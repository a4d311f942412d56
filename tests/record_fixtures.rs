//! Records of every released version mean what they meant: part 6 of `docs/STORE_FORMAT.md`.
//!
//! Each folder under `tests/fixtures/records-vN` is a data directory with records of every kind of
//! fact, and `EXPECTED` beside its files: every fact in words, and the broker that is restored from
//! them. They are written once per version, by the ignored test below, and never again; a new kind of
//! fact gets a folder of its own.

#![allow(clippy::disallowed_methods, reason = "tests read and write files")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "support/fixtures.rs"]
mod fixtures;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use coroner::base::{Lsn, Millis, Name, Now, Position, QueueId, Seed, Timestamp};
use coroner::broker::exchange::{ExchangeKind, ExchangeSpec};
use coroner::broker::policy::PolicySpec;
use coroner::broker::{
    Body, Destination, Entry, Fact, Options, Policy, Record, Restoring, Shelved,
};
use coroner::deaths::{Death, Evidence, History, Reason};
use coroner::message::{KeyRule, Merging, Message, Route};
use coroner::record::{Stored, body_of, decode};
use coroner::store::sim_disk::SimDisk;
use coroner::store::{self, DiskJournal, Journal, Restored, Writer};
use coroner::wire::Value;
use fixtures::{fixtures_of, load, save};

const WALL: Timestamp = Timestamp(1_700_000_000_000);

/// The words of every kind of fact: each must be in some fixture.
const KINDS: [&str; 16] = [
    "inserted",
    "removed",
    "returned",
    "changed",
    "dead-pending",
    "shelved",
    "purged",
    "queue declared",
    "queue deleted",
    "exchange declared",
    "exchange deleted",
    "bound",
    "unbound",
    "policy set",
    "policy deleted",
    "queue ids",
];

#[test]
fn records_of_every_released_version_mean_what_they_meant() {
    let mut kinds = BTreeSet::new();
    let mut bodies = BTreeSet::new();
    for folder in fixtures_of("records") {
        let (disk, expected) = load(&folder);
        let found = describe(&disk);
        assert_eq!(found, expected, "{}", folder.display());
        for line in found.lines() {
            let line = line.trim_start();
            kinds.extend(KINDS.iter().filter(|kind| line.starts_with(**kind)));
            let inserted = line.strip_prefix("inserted by ");
            let body = inserted.and_then(|rest| rest.split("body ").nth(1));
            bodies.extend(body.and_then(|body| body.split(['(', ' ']).next().map(str::to_owned)));
        }
    }
    assert_eq!(kinds, KINDS.iter().collect(), "every kind is in a fixture");
    let every_body = ["At", "Carried", "Named"].map(str::to_owned);
    assert_eq!(bodies, BTreeSet::from(every_body));
}

#[test]
fn the_check_of_the_command_line_finds_no_damage_in_them() {
    for folder in fixtures_of("records") {
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("records-checked");
        fs::remove_dir_all(&copy).ok();
        fs::create_dir_all(&copy).unwrap();
        for (name, content) in load(&folder).0.files() {
            fs::write(copy.join(name), content).unwrap();
        }
        let mut program = Command::new(env!("CARGO_BIN_EXE_coroner"));
        let output = program.args(["store", "check"]).arg(copy).output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", folder.display());
    }
}

/// All records in the order in which they are restored, and what they come to.
fn describe(disk: &SimDisk) -> String {
    let mut text = String::new();
    let now = Now::new(Millis(1_000_000_000), WALL);
    let mut core = Restoring::new(Options::new(Name::from("v"), Seed(1)), now, WALL, 0);
    let mut opened = store::open::<Stored, _>(disk.clone(), options(), 1, |restored| {
        let (what, lsn, payload) = match restored {
            Restored::Stamp(_) => return,
            Restored::Block { lsn, payload } => ("block", lsn, payload),
            Restored::Facts { lsn, payload } => ("facts", lsn, payload),
        };
        let (vhost, record) = decode(lsn, payload).unwrap();
        writeln!(text, "{what} of {vhost} at {}", record.wall.0).unwrap();
        for fact in &record.facts {
            writeln!(text, "  {} {}", fact.kind(), in_words(fact)).unwrap();
        }
        if what == "block" {
            core.checkpoint(&record);
        } else {
            core.record(&record);
        }
    })
    .unwrap();
    assert_eq!(opened.recovery().damage, []);
    let bodies = core.names();
    for body in &bodies {
        assert!(opened.retain(*body), "body {body} is there");
    }
    let (journal, _writer) = opened.start();
    for (lsn, read) in bodies.iter().zip(journal.read_batch(&bodies)) {
        let Some(bare) = body_of(&read.unwrap()) else {
            continue; // only envelopes are in it
        };
        writeln!(text, "body {lsn}: {} bytes, {}", bare.len(), hex(&bare)).unwrap();
    }
    let core = core.finish();
    for queue in core.queues_after(None, 100) {
        let (name, kind, arguments) = (queue.name, queue.kind, queue.arguments);
        let (ready, pending) = (queue.messages_ready, queue.messages_dead_pending);
        writeln!(
            text,
            "queue {name} {kind} {arguments:?}: {ready} ready, {pending} wait"
        )
        .unwrap();
    }
    for binding in core.router().bindings(None, None, None) {
        writeln!(text, "{binding:?}").unwrap();
    }
    for policy in [false, true].map(|operator| core.policies().list(operator).collect::<Vec<_>>()) {
        writeln!(text, "{} policies", policy.len()).unwrap();
    }
    text
}

fn in_words(fact: &Fact) -> String {
    match fact {
        Fact::Inserted {
            message,
            route,
            body,
            entries,
        } => {
            let (exchange, keys) = (&route.exchange, &route.keys);
            let message = message_in_words(message);
            format!("by '{exchange}' {keys:?} body {body:?} in {entries:?}: {message}")
        }
        Fact::Removed {
            queue, position, ..
        } => format!("{queue} {position}"),
        Fact::Returned {
            queue,
            position,
            failures,
            acquired,
            message,
        } => {
            let message = message.as_deref().map(message_in_words);
            format!("{queue} {position} {failures} {acquired}: {message:?}")
        }
        Fact::DeadPending {
            queue,
            position,
            reason,
            message,
            targets,
        } => {
            let message = message.as_deref().map(message_in_words);
            let (reason, message) = (reason.as_str(), message.unwrap_or_default());
            format!("{queue} {position} {reason} for {targets:?}: {message}")
        }
        Fact::Changed {
            queue,
            position,
            message,
            route,
            body,
        } => {
            let (exchange, keys) = (&route.exchange, &route.keys);
            let message = message_in_words(message);
            format!("{queue} {position} by '{exchange}' {keys:?} body {body:?}: {message}")
        }
        Fact::Shelved { queue, messages } => format!("{queue} {messages:?}"),
        Fact::Purged { queue, below, kept } => format!("{queue} {below:?} {kept:?}"),
        _ => topology_in_words(fact),
    }
}

fn topology_in_words(fact: &Fact) -> String {
    match fact {
        Fact::QueueDeclared {
            queue,
            name,
            auto_delete,
            arguments,
        } => format!("{queue} {name} {auto_delete} {arguments:?}"),
        Fact::QueueDeleted { queue } => format!("{queue}"),
        Fact::ExchangeDeclared(exchange) => {
            let (name, kind) = (&exchange.name, exchange.kind.as_str());
            let flags = (exchange.durable, exchange.auto_delete, exchange.internal);
            let arguments = &exchange.arguments;
            format!("{name} {kind} {flags:?} {arguments:?}")
        }
        Fact::ExchangeDeleted { name } => format!("{name}"),
        Fact::Bound {
            source,
            destination,
            key,
            arguments,
        }
        | Fact::Unbound {
            source,
            destination,
            key,
            arguments,
        } => format!("{source} {destination:?} '{key}' {arguments:?}"),
        Fact::PolicySet { operator, policy } => {
            let (name, pattern) = (&policy.name, policy.pattern.as_str());
            let (priority, apply_to) = (policy.priority, policy.apply_to.as_str());
            let given = &policy.given;
            format!("{operator} {name} {pattern} {priority} {apply_to} {given:?}")
        }
        Fact::PolicyDeleted { operator, name } => format!("{operator} {name}"),
        Fact::QueueIds { next } => format!("{next}"),
        other => panic!("give this fact words: {other:?}"),
    }
}

fn message_in_words(message: &Message) -> String {
    let header = (message.durable(), message.priority(), message.ttl_ms());
    let (count, length) = (message.carried_delivery_count(), message.bare_len());
    let mut mine = None;
    message.visit_annotations(|name| name == "x-mine", |_, value| mine = Some(value));
    let mut text = format!("{header:?} count {count} bare {length} annotation {mine:?}");
    for entry in message
        .history()
        .iter()
        .flat_map(|history| history.entries())
    {
        write!(
            text,
            " died {}x in {} {} at {} and {} by '{}' {:?} ttl {:?} evidence {:?}",
            entry.count,
            entry.queue,
            entry.reason.as_str(),
            entry.first_time.0,
            entry.last_time.0,
            entry.exchange,
            entry.routing_keys,
            entry.ttl,
            entry.evidence
        )
        .unwrap();
    }
    if let Some(folded) = message.history().and_then(|history| history.folded()) {
        let history = message.history().unwrap();
        let by_reason = Reason::ALL.map(|reason| folded.deaths_for(reason));
        let queues: Vec<_> = folded.queues().collect();
        let cycles = queues.iter().filter(|queue| history.is_cycle(queue));
        write!(
            text,
            " folded {} entries, deaths {by_reason:?} until {}, of {queues:?}, cycles {:?}",
            folded.entries(),
            folded.until().0,
            cycles.collect::<Vec<_>>()
        )
        .unwrap();
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

fn options() -> store::Options {
    store::Options {
        segment_bytes: 4096,
        ..store::Options::default()
    }
}

/// A journal that fixtures are written with.
struct Writing {
    disk: SimDisk,
    journal: DiskJournal<Stored, SimDisk>,
    writer: Writer<Stored, SimDisk>,
}

impl Writing {
    fn begin() -> Self {
        Self::with(options())
    }

    fn with(options: store::Options) -> Self {
        let disk = SimDisk::default();
        let opened = store::open(disk.clone(), options, 1, |_| {}).unwrap();
        let (journal, writer) = opened.start();
        Self {
            disk,
            journal,
            writer,
        }
    }

    fn stored(facts: Vec<Fact>) -> Stored {
        let (lsn, wall) = (Lsn(0), WALL);
        let record = Record {
            lsn,
            wall,
            facts: facts.into(),
            named: true,
        };
        Stored::new(Name::from("v"), record)
    }

    /// Appends and syncs a record; its LSN names the body in it.
    fn record(&mut self, facts: Vec<Fact>) -> Lsn {
        let (lsn, _) = self.journal.append(Self::stored(facts));
        self.commit();
        lsn
    }

    fn commit(&mut self) {
        self.writer.write(WALL).unwrap();
        self.writer.sync().unwrap();
    }

    fn checkpoint(&mut self, blocks: Vec<Vec<Fact>>) {
        assert!(self.journal.begin_checkpoint());
        for facts in blocks {
            self.journal.append_block(Self::stored(facts));
        }
        self.journal.end_checkpoint();
        while self.journal.checkpoint_runs() {
            self.commit();
            self.writer.maintain(usize::MAX).unwrap();
        }
    }

    fn save(mut self, name: &str) {
        self.writer.close(WALL).unwrap();
        save(&format!("records-v1/{name}"), &self.disk, |disk| {
            describe(&disk)
        });
    }
}

fn message(durable: bool, ttl_ms: Option<u8>) -> Message {
    // Header: durable, no priority, ttl; properties with the message-id "A"; the body "abc".
    let ttl = ttl_ms.map_or_else(|| vec![0x40], |ttl| vec![0x52, ttl]);
    let flag = if durable { 0x41 } else { 0x42 };
    let length = u8::try_from(3 + ttl.len()).unwrap();
    let mut bytes = vec![0x00, 0x53, 0x70, 0xc0, length, 3, flag, 0x40];
    bytes.extend(ttl);
    bytes.extend_from_slice(b"\x00\x53\x73\xc0\x04\x01\xa1\x01A\x00\x53\x77\xa1\x03abc");
    let message = Message::from_transfer(bytes.into(), KeyRule::Specification).unwrap();
    let modified = Bytes::from_static(b"\xc1\x0b\x02\xa3\x06x-mine\x52\x07");
    let annotated = message.with_annotations(&modified, &mut Merging::default());
    annotated.unwrap()
}

fn dead(message: &Message, deaths: &[(&str, Reason)]) -> Arc<Message> {
    let mut history = None;
    for (number, (queue, reason)) in (0..).zip(deaths) {
        let evidence = Evidence {
            condition: Some(Name::from("app:bad")),
            description: Some(Name::from("cannot be read")),
            info: Some(Bytes::from_static(b"\xc1\x01\x00")),
            container: Some(Name::from("container")),
            link: Some(Name::from("link")),
            user: Some(Name::from("guest")),
            ..Evidence::default()
        };
        let death = Death {
            queue: Name::from(*queue),
            reason: *reason,
            time: Timestamp(WALL.0 + number),
            exchange: Name::from("x"),
            routing_keys: Arc::from([Name::from("k"), Name::from("cc")]),
            ttl: message.ttl_ms(),
            evidence: (*reason == Reason::Rejected).then(|| Arc::new(evidence)),
        };
        history = Some(History::record(history.as_ref(), &death).unwrap());
    }
    Arc::new(message.died(Arc::new(history.unwrap()), 2))
}

fn inserted(message: &Arc<Message>, body: Body, places: &[(u64, u64)]) -> Fact {
    let entries = places.iter().map(|(queue, position)| Entry {
        queue: QueueId(*queue),
        position: Position(*position),
        arrived: WALL,
        ttl_ms: message.ttl_ms().map(u64::from),
    });
    Fact::Inserted {
        message: message.clone(),
        route: Arc::new(Route {
            exchange: Name::from("x"),
            keys: Arc::from([Name::from("k"), Name::from("cc")]),
        }),
        body,
        entries: entries.collect(),
    }
}

fn queue(id: u64, name: &str, arguments: Vec<(&str, Value)>) -> Fact {
    let typed = arguments.into_iter();
    Fact::QueueDeclared {
        queue: QueueId(id),
        name: Name::from(name),
        auto_delete: name == "passing",
        arguments: typed.map(|(key, value)| (Name::from(key), value)).collect(),
    }
}

fn exchange(name: &str, kind: ExchangeKind) -> Fact {
    Fact::ExchangeDeclared(ExchangeSpec {
        internal: kind == ExchangeKind::Fanout,
        auto_delete: kind == ExchangeKind::Topic,
        arguments: vec![(
            Name::from("alternate-exchange"),
            Value::String("other".to_owned()),
        )],
        ..ExchangeSpec::plain(name, kind)
    })
}

fn policy(operator: bool, name: &str) -> Fact {
    let spec = PolicySpec {
        name: Name::from(name),
        pattern: "^work",
        priority: -3,
        apply_to: "quorum_queues",
        definition: vec![(Name::from("max-length"), Value::Ulong(5))],
    };
    Fact::PolicySet {
        operator,
        policy: Box::new(Policy::new(operator, spec).unwrap()),
    }
}

/// Bindings as facts: what is bound, and what is bound and unbound again.
fn binding(bound: bool, destination: Destination, key: &str) -> Fact {
    let (source, key) = (Name::from("headers"), Name::from(key));
    let arguments = vec![
        (Name::from("n"), Value::Long(-1)),
        (Name::from("x-match"), Value::String("any".to_owned())),
    ];
    if bound {
        Fact::Bound {
            source,
            destination,
            key,
            arguments,
        }
    } else {
        Fact::Unbound {
            source,
            destination,
            key,
            arguments,
        }
    }
}

fn topology() -> Vec<Fact> {
    let to_queue = || Destination::Queue(Name::from("work"));
    let to_exchange = Destination::Exchange(Name::from("fanout"));
    vec![
        exchange("headers", ExchangeKind::Headers),
        exchange("fanout", ExchangeKind::Fanout),
        exchange("direct", ExchangeKind::Direct),
        exchange("topic", ExchangeKind::Topic),
        queue(
            1,
            "work",
            vec![
                ("x-queue-type", Value::String("quorum".to_owned())),
                ("x-delivery-limit", Value::Long(3)),
                ("x-dead-letter-exchange", Value::Symbol("x".to_owned())),
                (
                    "x-dead-letter-strategy",
                    Value::String("at-least-once".to_owned()),
                ),
            ],
        ),
        queue(2, "dead", vec![("x-max-length", Value::Ulong(9))]),
        queue(3, "passing", Vec::new()),
        binding(true, to_queue(), "k"),
        binding(true, to_exchange, ""),
        binding(true, to_queue(), "gone"),
        binding(false, to_queue(), "gone"),
        policy(false, "limits"),
        policy(true, "limits"),
        policy(false, "gone"),
        Fact::PolicyDeleted {
            operator: false,
            name: Name::from("gone"),
        },
        Fact::ExchangeDeleted {
            name: Name::from("topic"),
        },
    ]
}

fn removed(queue: u64, position: u64) -> Fact {
    Fact::Removed {
        queue: QueueId(queue),
        position: Position(position),
        body: Lsn(0),
    }
}

fn dead_pending(position: u64, message: &Arc<Message>, targets: Option<Vec<QueueId>>) -> Fact {
    Fact::DeadPending {
        queue: QueueId(1),
        position: Position(position),
        reason: Reason::DeliveryLimit,
        message: Some(message.clone()),
        targets,
    }
}

#[test]
#[ignore = "writes the fixtures of the current version; run once per version, before its release"]
fn write_the_fixtures() {
    let durable = Arc::new(message(true, None));
    let passing = Arc::new(message(false, Some(70)));
    let letter = dead(
        &passing,
        &[("work", Reason::Rejected), ("work", Reason::Expired)],
    );

    let mut log = Writing::begin();
    log.record(topology());
    for position in 1..=4 {
        log.record(vec![inserted(&durable, Body::Named, &[(1, position)])]);
    }
    // To two queues, one entry moved on as a dead letter that shares the body.
    let body = log.record(vec![
        inserted(&passing, Body::Named, &[(1, 5), (2, 1)]),
        inserted(&durable, Body::Carried, &[(2, 2)]),
    ]);
    log.record(vec![
        removed(1, 5),
        inserted(&letter, Body::At(body), &[(2, 3)]),
    ]);
    let annotated = [None, Some(durable.clone())];
    log.record(
        annotated
            .map(|message| Fact::Returned {
                queue: QueueId(1),
                position: Position(if message.is_some() { 2 } else { 1 }),
                failures: 1,
                acquired: 2,
                message,
            })
            .into(),
    );
    log.record(vec![
        dead_pending(3, &letter, None),
        dead_pending(4, &letter, Some(vec![QueueId(2), QueueId(7)])),
    ]);
    log.record(vec![
        inserted(&durable, Body::Named, &[(3, 1), (2, 4), (2, 5)]),
        Fact::QueueDeleted { queue: QueueId(3) },
    ]);
    log.record(vec![Fact::Purged {
        queue: QueueId(2),
        below: vec![Position(4)],
        kept: vec![Position(3)],
    }]);
    log.save("log");

    let mut checkpoint = Writing::begin();
    let body = checkpoint.record(vec![inserted(&durable, Body::Named, &[(1, 1)])]);
    let ids = Fact::QueueIds { next: QueueId(40) };
    let messages = vec![
        inserted(&durable, Body::At(body), &[(1, 1)]),
        inserted(&letter, Body::At(body), &[(2, 1)]),
        dead_pending(1, &letter, None),
    ];
    checkpoint.checkpoint(vec![topology(), messages, vec![ids]]);
    checkpoint.record(vec![removed(2, 1)]);
    checkpoint.record(vec![inserted(&durable, Body::Named, &[(2, 2)])]);
    checkpoint.save("checkpoint");
}

#[test]
#[ignore = "writes the fixture of histories in version 2; run once, before their release"]
fn write_the_fixture_of_long_histories() {
    let durable = Arc::new(message(true, None));
    let queues: Vec<_> = (0..70).map(|number| format!("q{number:02}")).collect();
    let died = |expired: usize| {
        let deaths = queues.iter().take(expired).enumerate();
        let reason = |number| match number {
            3 => Reason::Rejected,
            5 => Reason::Maxlen,
            _ => Reason::Expired,
        };
        let deaths = deaths.map(|(number, queue)| (queue.as_str(), reason(number)));
        dead(&durable, &deaths.collect::<Vec<_>>())
    };
    let mut log = Writing::with(store::Options {
        segment_bytes: 32 * 1024,
        ..options()
    });
    log.record(topology());
    // Keys are shared between entries, nothing is folded.
    let body = log.record(vec![inserted(&died(2), Body::Named, &[(1, 1)])]);
    // Two deaths that fold, each in one record with the removal.
    for (number, expired) in [(1, 66), (2, 70)] {
        log.record(vec![
            removed(1, number),
            inserted(&died(expired), Body::At(body), &[(1, number + 1)]),
        ]);
    }
    log.save("long-histories");
}

#[test]
#[ignore = "writes the fixture of the facts that came with paging; run once, before their release"]
fn write_the_fixture_of_paging() {
    let durable = Arc::new(message(true, None));
    let letter = dead(&durable, &[("work", Reason::Rejected)]);
    let changed = |position, body| Fact::Changed {
        queue: QueueId(1),
        position: Position(position),
        message: letter.clone(),
        route: Arc::new(Route {
            exchange: Name::from("x"),
            keys: Arc::from([Name::from("k")]),
        }),
        body,
    };
    let waiting = |position| Fact::DeadPending {
        queue: QueueId(1),
        position: Position(position),
        reason: Reason::Rejected,
        message: None,
        targets: None,
    };
    let mut log = Writing::begin();
    let first = log.record(vec![inserted(&durable, Body::Named, &[(1, 1)])]);
    let second = log.record(vec![inserted(&durable, Body::Carried, &[(1, 2)])]);
    let shelved = |position, envelope, body, ttl_ms| Shelved {
        position: Position(position),
        arrived: WALL,
        ttl_ms,
        size_bytes: u32::try_from(durable.bare_len()).unwrap(),
        envelope,
        body,
    };
    let messages = vec![
        shelved(1, first, first, None),
        shelved(2, second, Lsn(0), Some(3_000_000_000_000)),
    ];
    let queue = QueueId(1);
    log.checkpoint(vec![
        topology(),
        vec![Fact::Shelved { queue, messages }],
        vec![Fact::QueueIds { next: QueueId(40) }],
    ]);
    log.record(vec![changed(1, Body::At(first)), waiting(1)]);
    log.record(vec![changed(2, Body::Carried)]);
    log.save("paging");
}
