//! What the single steps of a message cost: `cargo bench --bench micro`, about two minutes.
//!
//! Frame decode, walk over sections, route, enqueue and dequeue, death record, journal append. The
//! whole road is in `message_path` and `core`.
#![allow(
    clippy::expect_used,
    reason = "a benchmark may fail loudly; it measures nothing then"
)]
#![allow(missing_docs, reason = "a benchmark")]

#[path = "message_path/memory_disk.rs"]
mod memory_disk;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coroner::base::{
    ConnectionId, ConsumerId, ExchangeId, Millis, Name, Now, PublisherId, Seed, SessionId,
    Timestamp,
};
use coroner::broker::exchange::{ExchangeKind, ExchangeSpec};
use coroner::broker::router::Router;
use coroner::broker::{
    Body, Command, Consume, Core, CoreOptions, Destination, Effect, Effects, Entry, Fact, Outcome,
    Publish, QueueCommand, Record, Settle, Target,
};
use coroner::deaths::{Death, History, Reason};
use coroner::message::{KeyRule, Message, Route};
use coroner::record::Stored;
use coroner::store::{self, Journal};
use coroner::wire::frame::FrameHeader;
use coroner::wire::performative::{FirstTransfer, TRANSFER_BYTES_MAX, decode, write_transfer};
use coroner::wire::{Value, encode_value, walk, write_descriptor};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use memory_disk::MemoryDisk;

const BODY_BYTES: usize = 100;
const DURABLE_BYTES: usize = 1024;
/// Bindings of an exchange.
const BINDINGS: [usize; 3] = [10, 1_000, 100_000];
/// Messages that enter and leave a queue in one iteration.
const BATCH: u64 = 256;
/// Records of one commit.
const COMMIT: u64 = 32;
const CONNECTION: ConnectionId = ConnectionId(1);
const SESSION: SessionId = SessionId(1);
const CONSUMER: ConsumerId = ConsumerId(1);
const NOW: Now = Now::new(Millis(1), Timestamp(1));

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .without_plots()
        .configure_from_args();
    frames(&mut criterion);
    sections(&mut criterion);
    routes(&mut criterion);
    queue(&mut criterion);
    deaths(&mut criterion);
    journal(&mut criterion);
    criterion.final_summary();
}

/// A message of one data section.
fn small_message(body_bytes: usize) -> Bytes {
    let mut bytes = Vec::new();
    section(
        &mut bytes,
        0x75,
        &Value::Binary(vec![b'.'; body_bytes].into()),
    );
    Bytes::from(bytes)
}

/// A message as clients send it: header, annotations, properties, application properties, body.
fn full_message() -> Bytes {
    let mut bytes = Vec::new();
    let text = |text: &str| Value::String(text.to_owned());
    section(&mut bytes, 0x70, &Value::List(vec![Value::Bool(true)]));
    let annotation = (Value::Symbol("x-opt-origin".into()), text("bench"));
    section(&mut bytes, 0x72, &Value::Map(vec![annotation]));
    let properties = vec![
        text("id-1"),
        Value::Null,
        text("/queues/work"),
        text("a.b.c"),
    ];
    section(&mut bytes, 0x73, &Value::List(properties));
    section(
        &mut bytes,
        0x74,
        &Value::Map(vec![(text("region"), text("7"))]),
    );
    section(
        &mut bytes,
        0x75,
        &Value::Binary(vec![b'.'; BODY_BYTES].into()),
    );
    Bytes::from(bytes)
}

fn section(out: &mut Vec<u8>, descriptor: u64, value: &Value) {
    write_descriptor(out, descriptor);
    encode_value(value, out);
}

fn parsed(bytes: Bytes) -> Arc<Message> {
    let message = Message::from_transfer(bytes, KeyRule::default());
    Arc::new(message.expect("a good message"))
}

/// The header and the performative of a transfer.
fn frames(criterion: &mut Criterion) {
    let payload = small_message(BODY_BYTES);
    let first = FirstTransfer {
        handle: 1,
        delivery_id: coroner::base::Serial(70_000),
        message_format: 0,
        settled: false,
    };
    let mut frame = Vec::with_capacity(TRANSFER_BYTES_MAX + payload.len());
    write_transfer(&mut frame, 0, 1, Some(&first), false, payload.len());
    frame.extend_from_slice(&payload);
    criterion.bench_function("frame decode/transfer of 100 B", |bencher| {
        bencher.iter(|| {
            let header = FrameHeader::parse(black_box(&frame), 1 << 17);
            let header = header.expect("a frame").expect("a whole header");
            let body = frame.get(header.body..header.size).expect("a whole frame");
            decode(black_box(body)).expect("a transfer")
        });
    });
}

fn sections(criterion: &mut Criterion) {
    for (name, message) in [
        ("body of 100 B alone", small_message(BODY_BYTES)),
        ("five sections", full_message()),
    ] {
        criterion.bench_function(&format!("section walk/{name}"), |bencher| {
            bencher.iter(|| walk(black_box(&message)).expect("a good message"));
        });
    }
}

/// A message that one binding of many wants; with fanout all do.
fn routes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("route");
    for kind in [
        ExchangeKind::Direct,
        ExchangeKind::Topic,
        ExchangeKind::Headers,
        ExchangeKind::Fanout,
    ] {
        for bindings in BINDINGS {
            let (router, exchange) = router(kind, bindings);
            let route = Route {
                exchange: Name::from("source"),
                keys: Arc::from([Name::from("a.7.c")]),
            };
            let message = parsed(full_message());
            let mut queues = Vec::new();
            let id = BenchmarkId::new(format!("{kind:?}").to_lowercase(), bindings);
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    queues.clear();
                    router.route(exchange, black_box(&route), &message, 0, &mut queues);
                });
            });
            let reached = if kind == ExchangeKind::Fanout {
                bindings
            } else {
                1
            };
            assert_eq!(queues.len(), reached, "{kind:?}");
        }
    }
    group.finish();
}

/// An exchange with so many bindings, each to a queue of its own.
fn router(kind: ExchangeKind, bindings: usize) -> (Router, ExchangeId) {
    let mut router = Router::new(Seed(1));
    let source = Name::from("source");
    let declared = router.declare(ExchangeSpec::plain(&source, kind));
    let exchange = declared.expect("a new exchange").id;
    for number in 0..bindings {
        let queue = Name::from(&*format!("queue-{number}"));
        router.queue_added(queue.clone(), coroner::base::QueueId(number as u64));
        let key = match kind {
            ExchangeKind::Topic => format!("*.{number}.#"),
            _ => format!("a.{number}.c"),
        };
        let arguments = match kind {
            ExchangeKind::Headers => {
                vec![(Name::from("region"), Value::String(number.to_string()))]
            }
            _ => Vec::new(),
        };
        let bound = router.bind(
            &source,
            &Destination::Queue(queue),
            &Name::from(&*key),
            &arguments,
        );
        bound.expect("a new binding");
    }
    (router, exchange)
}

/// The core alone: messages enter a queue, are delivered and accepted.
fn queue(criterion: &mut Criterion) {
    let (mut core, mut effects) = (core(), Effects::new());
    let route = Arc::new(Route {
        exchange: Name::default(),
        keys: Arc::from([Name::from("work")]),
    });
    let message = parsed(small_message(BODY_BYTES));
    let mut group = criterion.benchmark_group("enqueue and dequeue");
    group.throughput(Throughput::Elements(BATCH));
    group.bench_function("256 messages", |bencher| {
        bencher.iter(|| {
            for token in 0..BATCH {
                let publish = Publish {
                    connection: CONNECTION,
                    publisher: PublisherId(1),
                    token,
                    target: Target::Attached(ExchangeId(0)),
                    route: Arc::clone(&route),
                    message: Arc::clone(&message),
                    settled: false,
                    forbidden: None,
                    delivery_time: None,
                };
                core.apply(NOW, Command::Publish(publish), &mut effects);
            }
            let mut accepted = 0;
            for (_, effect) in std::mem::take(&mut effects.outgoing) {
                let Effect::Deliver(delivery) = effect else {
                    continue;
                };
                let settle = Settle {
                    consumer: delivery.consumer,
                    position: delivery.position,
                    outcome: Outcome::Accepted,
                    confirm: None,
                };
                core.apply(NOW, Command::Settle(settle), &mut effects);
                accepted += 1;
            }
            assert_eq!(accepted, BATCH);
            effects.clear();
        });
    });
    group.finish();
}

/// A core with a queue and a consumer that has credit for ever.
fn core() -> Core {
    let mut core = Core::new(CoreOptions::new(Name::from("/"), Seed(1)));
    let mut effects = Effects::new();
    let queue = Name::from("work");
    for command in [
        Command::ConnectionOpen {
            connection: CONNECTION,
            user: Name::from("guest"),
            client: Name::default(),
            limit_bytes: u64::MAX,
        },
        Command::SessionOpen {
            connection: CONNECTION,
            session: SESSION,
            limit: u64::MAX,
        },
        Command::Queue(QueueCommand::Declare {
            connection: None,
            name: queue.clone(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Vec::new(),
        }),
        Command::Consume(Consume {
            connection: CONNECTION,
            session: SESSION,
            consumer: CONSUMER,
            queue,
            settled: false,
            priority: 0,
            exclusive: false,
            passing: false,
            selector: None,
            timeout_ms: None,
            evidence: None,
            recovery: None,
        }),
        Command::ConsumerFlow {
            consumer: CONSUMER,
            limit: u64::MAX,
            drain: false,
        },
    ] {
        core.apply(NOW, command, &mut effects);
    }
    core
}

fn death(queue: &str, reason: Reason) -> Death {
    Death {
        queue: Name::from(queue),
        reason,
        time: Timestamp(1_700_000_000_000),
        exchange: Name::default(),
        routing_keys: Arc::from([Name::from(queue)]),
        ttl: None,
        evidence: None,
    }
}

fn deaths(criterion: &mut Criterion) {
    let oldest = death("work", Reason::Rejected);
    criterion.bench_function("death record/first", |bencher| {
        bencher.iter(|| History::record(None, black_box(&oldest)));
    });
    let record = |previous: Option<&History>, death: &Death| {
        let Ok(history) = History::record(previous, death) else {
            unreachable!("it has room for three");
        };
        history
    };
    let three = [("retry", Reason::Expired), ("other", Reason::Maxlen)]
        .iter()
        .fold(record(None, &oldest), |history, (queue, reason)| {
            record(Some(&history), &death(queue, *reason))
        });
    assert_eq!(three.entries().len(), 3);
    criterion.bench_function("death record/merging into 3 entries", |bencher| {
        bencher.iter(|| History::record(Some(black_box(&three)), black_box(&oldest)));
    });
}

/// Records of 1 KiB: appended, encoded, written and synced, on a disk of memory.
fn journal(criterion: &mut Criterion) {
    let message = parsed(small_message(DURABLE_BYTES));
    let route = Arc::new(Route {
        exchange: Name::default(),
        keys: Arc::from([Name::from("work")]),
    });
    let mut group = criterion.benchmark_group("journal append");
    group.throughput(Throughput::Elements(COMMIT));
    group.bench_function("32 records of 1 KiB and a commit", |bencher| {
        let opened = store::open(
            MemoryDisk::default(),
            store::StoreOptions::default(),
            1,
            |_| {},
        );
        let (journal, mut writer) = opened.expect("an empty disk opens").start();
        let mut position = 0;
        bencher.iter_batched(
            || {
                let records = (0..COMMIT).map(|_| {
                    position += 1;
                    inserted(&message, &route, position)
                });
                records.collect::<Vec<_>>()
            },
            |facts| {
                let reservation = journal.reserve();
                let first = reservation.first();
                let records = (first.0..).zip(facts).map(|(lsn, facts)| {
                    let lsn = coroner::base::Lsn(lsn);
                    let record = Record {
                        lsn,
                        wall: Timestamp(1),
                        facts: facts.into(),
                        named: false,
                    };
                    (lsn, Stored::new(Name::from("/"), record))
                });
                let records: Vec<_> = records.collect();
                let lsns: Vec<_> = records.iter().map(|(lsn, _)| *lsn).collect();
                journal.fill(reservation, records);
                writer.write(Timestamp(1)).expect("memory takes all");
                let durable = writer.sync().expect("memory takes all");
                // Let go, so that segments go and memory does not fill.
                for lsn in lsns {
                    journal.release(lsn, durable);
                }
                writer.maintain(1 << 20).expect("memory takes all");
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn inserted(message: &Arc<Message>, route: &Arc<Route>, position: u64) -> Vec<Fact> {
    vec![Fact::Inserted {
        message: Arc::clone(message),
        route: Arc::clone(route),
        body: Body::Named,
        entries: vec![Entry {
            queue: coroner::base::QueueId(1),
            position: coroner::base::Position(position),
            arrived: Timestamp(1),
            ttl_ms: None,
        }]
        .into(),
    }]
}
