//! Stories of messages, as `docs/EXPLAIN.md` shows them: each is built with a core and a clock of
//! its own, explained, put into JSON, and told. `CORONER_WRITE_DOCS=1` writes the page anew.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;

use super::story;
use crate::base::{
    ConnectionId, ConsumerId, Meter, Millis, Name, Now, Position, PublisherId, Seed, SessionId,
    Timestamp,
};
use crate::broker::arguments::OnUndeliverable;
use crate::broker::policy::{Policy, PolicySpec};
use crate::broker::redrive::{NewRedrive, RedriveCommand, RedriveRights, RedriveSpec};
use crate::broker::{
    Asked, Command, Consume, Core, CoreOptions, Delivery, Destination, Effect, Effects, Outcome,
    Publish, QueueCommand, Reply, Settle, Target, TopologyCommand, Undeliverable,
};
use crate::deaths::{Evidence, How, Viewer};
use crate::management::Explanation;
use crate::management::http::json::explain::explanation;
use crate::message::{KeyRule, Message, Route};
use crate::wire::Value;

const CONNECTION: ConnectionId = ConnectionId(1);
const SESSION: SessionId = SessionId(1);

/// A vhost with a clock that stands still, and hands to play with it.
struct Stage {
    core: Core,
    now: Now,
    effects: Effects,
    consumers: u64,
}

type Pairs<'a> = &'a [(&'a str, Value)];

fn owned(pairs: Pairs<'_>) -> Vec<(Name, Value)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (Name::from(*name), value.clone()))
        .collect()
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

/// A delivery, and the hands that hold it.
struct Held(Delivery);

impl Stage {
    fn new() -> Self {
        let options = CoreOptions {
            undeliverable: Undeliverable {
                choice: OnUndeliverable::Quarantine,
                ..Undeliverable::default()
            },
            ..CoreOptions::new(Name::from("/"), Seed(7))
        };
        let mut stage = Self {
            core: Core::new(options),
            now: Now::new(Millis(5_000_000_000), Timestamp(1_763_740_800_000)),
            effects: Effects::new(),
            consumers: 0,
        };
        stage.apply(Command::ConnectionOpen {
            connection: CONNECTION,
            user: Name::from("billing"),
            client: Name::default(),
            limit_bytes: u64::MAX,
        });
        stage.apply(Command::SessionOpen {
            connection: CONNECTION,
            session: SESSION,
            limit: u64::MAX,
        });
        stage
    }

    fn apply(&mut self, command: Command) -> Reply {
        let reply = self.core.apply(self.now, command, &mut self.effects);
        assert!(!matches!(reply, Reply::Refused(_)), "{reply:?}");
        self.rest();
        reply
    }

    fn rest(&mut self) {
        while self.core.has_work() {
            self.core.tick(self.now, 1_000, &mut self.effects);
        }
    }

    /// Lets time pass; what is due happens on time.
    fn pass(&mut self, ms: u64) -> &mut Self {
        let end = self.now.mono.plus(ms);
        loop {
            let due = self.core.next_deadline().filter(|due| *due <= end);
            let passed = due.unwrap_or(end).since(self.now.mono);
            let wall = self.now.wall.0 + i64::try_from(passed).unwrap();
            self.now = Now::new(self.now.mono.plus(passed), Timestamp(wall));
            self.core.tick(self.now, 1_000, &mut self.effects);
            self.rest();
            if due.is_none() {
                return self;
            }
        }
    }

    fn queue(&mut self, name: &str, arguments: Pairs<'_>) -> &mut Self {
        self.apply(Command::Queue(QueueCommand::Declare {
            connection: Some(CONNECTION),
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: owned(arguments),
        }));
        self
    }

    fn exchange(&mut self, name: &str, kind: &str, arguments: Pairs<'_>) -> &mut Self {
        self.apply(Command::Topology(TopologyCommand::ExchangeDeclare {
            name: Name::from(name),
            kind: Name::from(kind),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: owned(arguments),
        }));
        self
    }

    fn bind(&mut self, source: &str, queue: &str, key: &str, arguments: Pairs<'_>) -> &mut Self {
        self.apply(Command::Topology(TopologyCommand::Bind {
            connection: Some(CONNECTION),
            source: Name::from(source),
            destination: Destination::Queue(Name::from(queue)),
            key: Name::from(key),
            arguments: owned(arguments),
        }));
        self
    }

    fn policy(&mut self, operator: bool, name: &str, pattern: &str, keys: Pairs<'_>) -> &mut Self {
        let spec = PolicySpec {
            name: Name::from(name),
            pattern,
            priority: 0,
            apply_to: "queues",
            definition: owned(keys),
        };
        let policy = Box::new(Policy::new(operator, spec).unwrap());
        self.apply(Command::Topology(TopologyCommand::PolicySet {
            operator,
            policy,
        }));
        self
    }

    fn publish(&mut self, exchange: &str, key: &str) -> &mut Self {
        self.publish_with(exchange, key, None)
    }

    /// Publishes a durable message of a few bytes, with a header ttl in milliseconds or without.
    fn publish_with(&mut self, exchange: &str, key: &str, ttl_ms: Option<u8>) -> &mut Self {
        let mut payload = vec![0x00, 0x53, 0x70, 0xc0, 3, 2, 0x41, 0x40];
        if let Some(ttl_ms) = ttl_ms {
            payload = vec![0x00, 0x53, 0x70, 0xc0, 5, 3, 0x41, 0x40, 0x52, ttl_ms];
        }
        payload.extend([0x00, 0x53, 0x75, 0xa0, 5]);
        payload.extend(b"order");
        let message = Message::from_transfer(Bytes::from(payload), KeyRule::default()).unwrap();
        self.apply(Command::Publish(Publish {
            connection: CONNECTION,
            publisher: PublisherId(1),
            token: 1,
            target: Target::Named,
            route: Arc::new(Route {
                exchange: Name::from(exchange),
                keys: Arc::from([Name::from(key)]),
            }),
            message: Arc::new(message),
            settled: false,
            forbidden: None,
            delivery_time: None,
        }));
        self
    }

    /// Attaches a consumer that takes one message.
    fn take(&mut self, queue: &str) -> Held {
        self.consumers += 1;
        let consumer = ConsumerId(self.consumers);
        let (container, user) = (Name::from("billing-7f9c"), Name::from("billing"));
        let address = Some("10.0.3.7:51234");
        let evidence = Evidence::of_consumer(&container, "billing-in", Some(&user), address);
        self.apply(Command::Consume(Consume {
            connection: CONNECTION,
            session: SESSION,
            consumer,
            queue: Name::from(queue),
            settled: false,
            priority: 0,
            exclusive: false,
            passing: false,
            selector: None,
            timeout_ms: None,
            evidence: Some(Arc::new(evidence)),
            recovery: None,
        }));
        self.effects.outgoing.clear();
        self.apply(Command::ConsumerFlow {
            consumer,
            limit: 1,
            drain: false,
        });
        let taken = self
            .effects
            .outgoing
            .drain(..)
            .find_map(|(_, effect)| match effect {
                Effect::Deliver(delivery) => Some(delivery),
                _ => None,
            });
        Held(taken.expect("a message is there"))
    }

    fn settle(&mut self, Held(delivery): Held, outcome: Outcome) -> &mut Self {
        self.apply(Command::Settle(Settle {
            consumer: delivery.consumer,
            position: delivery.position,
            outcome,
            confirm: None,
        }));
        self.apply(Command::ConsumerDetach {
            consumer: delivery.consumer,
        });
        self
    }

    /// Takes the first message of a queue and rejects it with an error.
    fn reject(&mut self, queue: &str, condition: &str, description: &str) -> &mut Self {
        let held = self.take(queue);
        let (container, user) = (Name::from("billing-7f9c"), Name::from("billing"));
        let address = Some("10.0.3.7:51234");
        let by = Evidence {
            how: Some(How::Rejected),
            ..Evidence::of_consumer(&container, "billing-in", Some(&user), address)
        };
        let evidence = Some(Arc::new(by.with_error(condition, Some(description), None)));
        self.settle(held, Outcome::Rejected { evidence })
    }

    fn delete(&mut self, queue: &str) -> &mut Self {
        self.apply(Command::Queue(QueueCommand::Delete {
            connection: Some(CONNECTION),
            name: Name::from(queue),
            if_unused: false,
            if_empty: false,
        }));
        self
    }

    /// Alice redrives the messages of a queue, each to the queue in which it failed.
    fn redrive(&mut self, queue: &str, id: &str) -> &mut Self {
        let new = NewRedrive {
            id: Name::from(id),
            by: Name::from("alice"),
            spec: RedriveSpec::to_origin(Name::from(queue)),
            matched: None,
            rights: RedriveRights::all().unwrap(),
        };
        self.apply(Command::Redrive(RedriveCommand::Start(Box::new(new))));
        self
    }

    /// Takes the first message of a queue and fails with it.
    fn fail(&mut self, queue: &str) -> &mut Self {
        let held = self.take(queue);
        let outcome = Outcome::Modified {
            delivery_failed: true,
            undeliverable_here: false,
            annotations: None,
        };
        self.settle(held, outcome)
    }

    /// Explains a message and tells it.
    fn explain(&self, queue: &str, position: u64) -> String {
        self.explain_with(queue, position, None)
    }

    fn explain_with(&self, queue: &str, position: u64, condition: Option<&str>) -> String {
        let error = condition.map(|condition| {
            let by = Evidence {
                how: Some(How::Rejected),
                ..Evidence::default()
            };
            Arc::new(by.with_error(condition, None, None))
        });
        let place = (queue, Position(position));
        let meter = &mut Meter::default();
        let rights = RedriveRights::all();
        let asked = Asked {
            error: error.as_ref(),
            redriver: rights.as_ref(),
        };
        let explained = self.core.explain(self.now, place, asked, None, meter);
        let explained = explained.expect("the message is there");
        let told = Explanation::of(&explained, Viewer::Monitor).expect("it is in memory");
        let option = condition.map(|condition| format!(" --condition {condition}"));
        let option = option.unwrap_or_default();
        let told = story::tell(&explanation(&told));
        format!("$ coroner explain {queue} {position}{option}\n{told}")
    }
}

/// Dead letters go to this exchange.
fn to(exchange: &str) -> (&'static str, Value) {
    ("x-dead-letter-exchange", text(exchange))
}

fn key(key: &str) -> (&'static str, Value) {
    ("x-dead-letter-routing-key", text(key))
}

fn number(key: &'static str, value: u64) -> (&'static str, Value) {
    (key, Value::Ulong(value))
}

const REFUSES: &str = "reject-publish";

const MINUTE: u64 = 60_000;

/// Title, what was built, and how it is explained.
type Told = (&'static str, &'static str, fn() -> String);

const STORIES: &[Told] = &[
    (
        "A dead letter that a consumer rejected",
        "`orders` dead-letters to `orders.dlq` by one policy, by another one that keeps dead letters for a week. Two \
         others lie there already.",
        || {
            let mut s = Stage::new();
            let dlx = [
                ("dead-letter-exchange", text("")),
                ("dead-letter-routing-key", text("orders.dlq")),
            ];
            s.exchange("shop", "topic", &[])
                .queue("orders", &[])
                .queue("orders.dlq", &[]);
            s.bind("shop", "orders", "order.*", &[])
                .policy(false, "DLX", "^orders$", &dlx);
            s.policy(
                false,
                "keep-dead",
                "dlq$",
                &[number("message-ttl", 7 * 24 * 60 * MINUTE)],
            );
            for _ in 0..2 {
                s.publish("shop", "order.old")
                    .reject("orders", "app:old", "too old");
            }
            s.publish("shop", "order.new");
            s.reject("orders", "app:schema", "field 'price' is missing")
                .pass(4 * MINUTE);
            s.explain("orders.dlq", 2)
        },
    ),
    (
        "A message that waits, and where it would go",
        "No routing key is set for dead letters, so they keep that of the message.",
        || {
            let mut s = Stage::new();
            s.exchange("shop", "topic", &[])
                .exchange("dead", "topic", &[]);
            s.queue("orders", &[to("dead")])
                .queue("late", &[])
                .queue("all", &[]);
            s.bind("shop", "orders", "order.*", &[]);
            s.bind("dead", "late", "order.new", &[])
                .bind("dead", "all", "#", &[]);
            s.publish("shop", "order.old")
                .publish("shop", "order.new")
                .pass(1_500);
            s.explain("orders", 1)
        },
    ),
    (
        "A routing key of the queue's own",
        "The argument `x-dead-letter-routing-key` replaces the keys of the message; an operator policy decides \
         the exchange, against the argument.",
        || {
            let mut s = Stage::new();
            s.exchange("theirs", "direct", &[])
                .exchange("ours", "direct", &[]);
            s.queue("orders", &[to("theirs"), key("o")])
                .queue("archive", &[]);
            s.bind("ours", "archive", "o", &[]);
            let ours = [("dead-letter-exchange", text("ours"))];
            s.policy(true, "all-to-ours", ".*", &ours)
                .publish("", "orders");
            s.explain("orders", 0)
        },
    ),
    (
        "The dead-letter exchange is not there",
        "What would otherwise be dropped is kept in the quarantine.",
        || {
            let mut s = Stage::new();
            s.queue("orders", &[to("dead")]).publish("", "orders");
            s.explain("orders", 0)
        },
    ),
    (
        "Nobody is to keep it",
        "The same, but a policy says that such messages are dropped.",
        || {
            let mut s = Stage::new();
            let drop = [("on-undeliverable", text("drop"))];
            s.queue("orders", &[to("dead")])
                .policy(false, "no-junk", "^orders$", &drop);
            s.publish("", "orders");
            s.explain("orders", 0)
        },
    ),
    (
        "An alternate exchange takes what has no route",
        "No binding of `dead` matches; its alternate exchange leads to `rest`.",
        || {
            let mut s = Stage::new();
            let rest = [("alternate-exchange", text("other"))];
            s.exchange("other", "fanout", &[])
                .exchange("dead", "direct", &rest);
            s.queue("rest", &[])
                .queue("known", &[])
                .bind("other", "rest", "", &[]);
            s.bind("dead", "known", "invoices", &[]);
            s.queue("orders", &[to("dead")]).publish("", "orders");
            s.explain("orders", 0)
        },
    ),
    (
        "A headers exchange that looks at this very death",
        "Only messages whose consumer gave `app:timeout` go to `timeouts`: asked with that condition ...",
        || headers().explain_with("orders", 0, Some("app:timeout")),
    ),
    (
        "... and without",
        "A consumer that gives no error, or another one.",
        || headers().explain("orders", 0),
    ),
    (
        "Two queues that dead-letter into each other",
        "The message expired in `work` and waits in `hold`. If it expires there too, it would go round without \
         anybody having looked at it; a rejection goes through.",
        || {
            let mut s = Stage::new();
            let ttl = number("x-message-ttl", 1_000);
            s.queue("work", &[to(""), key("hold"), ttl.clone()]);
            s.queue("hold", &[to(""), key("work"), ttl]);
            s.publish("", "work").pass(1_400);
            s.explain("hold", 0)
        },
    ),
    (
        "The target is full",
        "`dlq` refuses what is beyond its limit.",
        || {
            let mut s = Stage::new();
            full(&mut s, REFUSES)
                .queue("orders", &[to(""), key("dlq")])
                .publish("", "orders");
            s.explain("orders", 0)
        },
    ),
    (
        "The target is full, and the queue waits for room",
        "The same with the strategy at-least-once.",
        || waiting(false).explain("orders", 0),
    ),
    (
        "Dead, and waiting",
        "What became of that message when it was rejected.",
        || waiting(true).explain("orders", 0),
    ),
    (
        "Three targets, one of them full",
        "At most once: the copy for the full queue would be lost, and counted.",
        || {
            let mut s = Stage::new();
            full(&mut s, REFUSES)
                .exchange("dead", "fanout", &[])
                .queue("a", &[])
                .queue("b", &[]);
            for queue in ["a", "b", "dlq"] {
                s.bind("dead", queue, "", &[]);
            }
            s.queue("orders", &[to("dead")]).publish("", "orders");
            s.explain("orders", 0)
        },
    ),
    (
        "A full target that dead-letters what it refuses",
        "Under `reject-publish-dlx` the dead letter enters only to die again.",
        || {
            let mut s = Stage::new();
            full(&mut s, "reject-publish-dlx");
            s.queue("orders", &[to(""), key("dlq")])
                .publish("", "orders");
            s.explain("orders", 0)
        },
    ),
    (
        "One failure too many",
        "A consumer holds a message that failed twice; the limit is 2.",
        || {
            let mut s = Stage::new();
            let limit = ("delivery-limit", Value::Ulong(2));
            s.queue("dlq", &[]).queue("orders", &[to(""), key("dlq")]);
            s.policy(false, "patience", "^orders$", &[limit])
                .publish("", "orders");
            s.fail("orders").pass(30_000).fail("orders").pass(90_000);
            s.take("orders");
            s.explain("orders", 0)
        },
    ),
    (
        "A quorum queue counts by default",
        "Nothing says so, but a quorum queue lets a message fail 20 times.",
        || {
            let mut s = Stage::new();
            s.queue("orders", &[("x-queue-type", text("quorum"))])
                .publish("", "orders");
            s.fail("orders").pass(10_000);
            s.explain("orders", 0)
        },
    ),
    (
        "Two reasons at once",
        "The message expired while a consumer holds it, and it has no failure left: the limit comes first.",
        || {
            let mut s = Stage::new();
            let limits = [
                number("x-delivery-limit", 0),
                number("x-message-ttl", 5_000),
            ];
            s.queue("dlq", &[])
                .queue("orders", &[&[to(""), key("dlq")][..], &limits].concat());
            s.publish("", "orders").take("orders");
            s.pass(8_000);
            s.explain("orders", 0)
        },
    ),
    (
        "Its own time to live",
        "The message brought a shorter ttl than its queue has.",
        || {
            let mut s = Stage::new();
            s.queue("orders", &[number("x-message-ttl", MINUTE)]);
            s.publish_with("", "orders", Some(200)).pass(50);
            s.explain("orders", 0)
        },
    ),
    (
        "A queue that pushes out its oldest message",
        "`orders` holds three messages and takes no more than three; this is the last of them.",
        || {
            let mut s = Stage::new();
            s.queue("dlq", &[])
                .queue("orders", &[to(""), key("dlq"), number("x-max-length", 3)]);
            s.publish("", "orders")
                .publish("", "orders")
                .publish("", "orders")
                .pass(2_000);
            s.explain("orders", 2)
        },
    ),
    (
        "In the quarantine",
        "The exchange was missing when the message died. There is no way on from here but by hand.",
        || {
            let mut s = Stage::new();
            s.queue("orders", &[to("dead")]).publish("", "orders");
            s.reject("orders", "app:bad", "no such customer")
                .pass(2 * 60 * MINUTE);
            s.explain("amq.quarantine", 0)
        },
    ),
    (
        "Redriven once, and dead again",
        "Alice redrove the dead letter to `orders`, which takes 100,000 messages; it was rejected once more, for another \
         reason. The two deaths are one pair of queue and reason, so they are told as one.",
        || {
            let mut s = Stage::new();
            let limit = number("x-max-length", 100_000);
            s.queue("orders", &[to(""), key("orders.dlq"), limit])
                .queue("orders.dlq", &[]);
            s.publish("", "orders")
                .reject("orders", "app:price", "no price");
            s.pass(6 * MINUTE).redrive("orders.dlq", "fix-price");
            s.pass(2 * MINUTE)
                .reject("orders", "app:schema", "field 'price' is missing");
            s.publish("", "orders").pass(4 * MINUTE);
            s.explain("orders.dlq", 1)
        },
    ),
    (
        "The queue in which it failed is gone",
        "A redrive to the origin passes such messages; one to a queue of your choice (`--to-queue`) does not.",
        || {
            let mut s = Stage::new();
            s.queue("orders", &[to(""), key("orders.dlq")])
                .queue("orders.dlq", &[]);
            s.publish("", "orders")
                .reject("orders", "app:bad", "no such customer");
            s.delete("orders").pass(MINUTE);
            s.explain("orders.dlq", 0)
        },
    ),
    (
        "The queue in which it failed is full",
        "A redrive pushes nothing out, so it waits for room.",
        || {
            let mut s = Stage::new();
            s.queue(
                "orders",
                &[to(""), key("orders.dlq"), number("x-max-length", 1)],
            )
            .queue("orders.dlq", &[]);
            s.publish("", "orders")
                .reject("orders", "app:bad", "no such customer");
            s.publish("", "orders").pass(MINUTE);
            s.explain("orders.dlq", 0)
        },
    ),
    (
        "A long life",
        "The message expired in 70 queues, one after the other; a history tells 64 apart.",
        || {
            let mut s = Stage::new();
            for number in 0..70 {
                let next = format!("hop{}", number + 1);
                let ttl = ("x-message-ttl", Value::Ulong(1_000));
                s.queue(&format!("hop{number}"), &[to(""), key(&next), ttl]);
            }
            s.queue("hop70", &[]).publish("", "hop0").pass(75_000);
            let told = s.explain("hop70", 0);
            let lines: Vec<_> = told.lines().collect();
            let (first, rest) = lines.split_at(7);
            let (middle, last) = rest.split_at(rest.len() - 6);
            let more = format!("        ... {} more lines ...", middle.len());
            [first, &[&more], last].concat().join("\n") + "\n"
        },
    ),
];

/// A headers exchange for dead letters, by the condition that the consumer gave.
fn headers() -> Stage {
    let mut s = Stage::new();
    s.exchange("dead", "headers", &[]).queue("timeouts", &[]);
    let wanted = [
        ("x-match", text("any-with-x")),
        ("x-opt-last-death-condition", text("app:timeout")),
    ];
    s.bind("dead", "timeouts", "", &wanted)
        .queue("orders", &[to("dead")])
        .publish("", "orders");
    s
}

/// A queue `dlq` that holds two messages and takes no more.
fn full<'a>(s: &'a mut Stage, overflow: &str) -> &'a mut Stage {
    let limit = [number("x-max-length", 2), ("x-overflow", text(overflow))];
    s.queue("dlq", &limit).publish("", "dlq").publish("", "dlq")
}

fn waiting(is_dead: bool) -> Stage {
    let mut s = Stage::new();
    let strategy = ("x-dead-letter-strategy", text("at-least-once"));
    full(&mut s, REFUSES)
        .queue("orders", &[to(""), key("dlq"), strategy])
        .publish("", "orders");
    if is_dead {
        s.reject("orders", "app:bad", "no such customer")
            .pass(20_000);
    }
    s
}

/// The line in front of the stories in the page.
const MARK: &str = "<!-- The stories below are written by src/cli/explain/stories_tests.rs -->\n";

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads the page")]
fn twenty_stories_are_told_as_the_page_shows_them() {
    assert!(STORIES.len() >= 20);
    let mut told = String::new();
    for (number, (title, built, story)) in (1..).zip(STORIES) {
        let _ = write!(
            told,
            "\n### {number}. {title}\n\n{built}\n\n```text\n{}```\n",
            story()
        );
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/EXPLAIN.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (intro, shown) = page.split_once(MARK).expect("the page has the mark");
    if std::env::var_os("CORONER_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{intro}{MARK}{told}")).expect("the page is written");
        return;
    }
    assert_eq!(shown, told, "CORONER_WRITE_DOCS=1 writes the page anew");
}
