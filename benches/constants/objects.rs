//! What is declared, and messages that wait.

use std::sync::Arc;

use bytes::Bytes;
use coroner::access::{Pattern, Permissions, User, UserLimits};
use coroner::base::limits::{
    BINDING_OVERHEAD_BYTES, EXCHANGE_OVERHEAD_BYTES, MESSAGE_OVERHEAD_BYTES, POLICY_OVERHEAD_BYTES,
    QUEUE_OVERHEAD_BYTES, REGISTRY_OVERHEAD_BYTES, VHOST_OVERHEAD_BYTES,
};
use coroner::base::{
    ConnectionId, ExchangeId, Gauge, Millis, Name, Now, PublisherId, Seed, Timestamp,
};
use coroner::broker::policy::{Policy, PolicySpec};
use coroner::broker::registry::{Registry, RegistryFact, VhostSpec};
use coroner::broker::{
    Command, Core, CoreOptions, Destination, Effects, Publish, QueueCommand, Target,
    TopologyCommand,
};
use coroner::message::{KeyRule, Message, Route};
use coroner::wire::Value;

use super::compare;

/// Bytes of a message's body.
const BODY_BYTES: u8 = 100;
/// Policies of a vhost: fewer than there may be.
const POLICIES: u64 = 1_000;

pub fn measure() {
    compare(
        ("MESSAGE_OVERHEAD_BYTES", MESSAGE_OVERHEAD_BYTES),
        "messages of 100 bytes in a queue",
        200_000,
        |count| {
            let mut vhost = Vhost::new();
            vhost.queue("work");
            (0..count).for_each(|_| vhost.publish(ExchangeId(0), &["work"], "work"));
            let counted = vhost.core.memory().bytes();
            (vhost, counted)
        },
    );
    compare(
        ("BINDING_OVERHEAD_BYTES", BINDING_OVERHEAD_BYTES),
        "bindings of one queue to a direct exchange",
        100_000,
        |count| {
            let mut vhost = Vhost::new();
            vhost.queue("work");
            let before = vhost.kept.bytes();
            for number in 0..count {
                vhost.bind("amq.direct", "work", &format!("key-{number}"));
            }
            let counted = vhost.kept.bytes() - before;
            (vhost, counted)
        },
    );
    compare(
        ("EXCHANGE_OVERHEAD_BYTES", EXCHANGE_OVERHEAD_BYTES),
        "exchanges",
        50_000,
        |count| {
            let mut vhost = Vhost::new();
            let before = vhost.kept.bytes();
            (0..count).for_each(|number| vhost.exchange(&format!("exchange-{number}"), "direct"));
            let counted = vhost.kept.bytes() - before;
            (vhost, counted)
        },
    );
    compare(
        ("QUEUE_OVERHEAD_BYTES", QUEUE_OVERHEAD_BYTES),
        "empty queues",
        50_000,
        |count| {
            let mut vhost = Vhost::new();
            let before = vhost.kept.bytes();
            (0..count).for_each(|number| vhost.queue(&format!("queue-{number}")));
            let counted = vhost.kept.bytes() - before;
            (vhost, counted)
        },
    );
    policies_and_vhosts();
    patterns();
    registry();
}

/// Compiled patterns, which are counted by their length; each is matched once, since that is when what it is
/// matched with is made.
fn patterns() {
    for pattern in [
        "^orders$",
        "^orders\\..*",
        "[0-9]+",
        "^[a-z]{3,20}-[0-9]+$",
        "^(orders|invoices|returns)\\.[a-z]+$",
        "^(?!amq\\.).*",
        "^(?!amq\\.|tmp\\.)[a-z.]+(?<!\\.dead)$",
        &["^(", &["a-long-name-of-a-queue"; 10].join("|"), ")$"].concat(),
    ] {
        let made = || Pattern::of_names(pattern).expect("a pattern");
        let counted_each = made().kept_bytes();
        compare(("a pattern", counted_each), pattern, 5_000, |count| {
            let patterns: Vec<Pattern> = (0..count).map(|_| made()).collect();
            for pattern in &patterns {
                std::hint::black_box(pattern.matches("shipments.of.monday"));
            }
            (patterns, counted_each * count)
        });
    }
}

fn policies_and_vhosts() {
    compare(
        ("POLICY_OVERHEAD_BYTES", POLICY_OVERHEAD_BYTES),
        "policies with one key",
        20 * POLICIES,
        |count| {
            let mut vhosts: Vec<Vhost> = (0..count / POLICIES).map(|_| Vhost::new()).collect();
            let mut counted = 0;
            for vhost in &mut vhosts {
                let before = vhost.kept.bytes();
                (0..POLICIES).for_each(|number| vhost.policy(number));
                counted += vhost.kept.bytes() - before;
            }
            (vhosts, counted)
        },
    );
    compare(
        ("VHOST_OVERHEAD_BYTES", VHOST_OVERHEAD_BYTES),
        "cores of empty vhosts",
        4_000,
        |count| {
            let vhosts: Vec<Vhost> = (0..count).map(|_| Vhost::new()).collect();
            let counted = vhosts.iter().map(|vhost| vhost.kept.bytes()).sum();
            (vhosts, counted)
        },
    );
}

/// Users, permissions and parameters share a constant.
fn registry() {
    let constant = ("REGISTRY_OVERHEAD_BYTES", REGISTRY_OVERHEAD_BYTES);
    let user = |number: u64| Name::from(format!("user-{number}"));
    let users = |count: u64| {
        let mut registry = Registry::new(Name::from("/"), []);
        registry.apply(RegistryFact::VhostSet {
            name: Name::from("/"),
            spec: VhostSpec::default(),
        });
        for number in 0..count {
            registry.apply(RegistryFact::UserSet(Box::new(User {
                name: user(number),
                password: None,
                tags: Vec::new(),
                loopback_only: false,
                limits: UserLimits::default(),
            })));
        }
        registry
    };
    compare(constant, "users", 50_000, |count| {
        let registry = users(count);
        let counted = registry.kept_bytes();
        (registry, counted)
    });
    let mut registry = users(50_000);
    compare(constant, "permissions to do anything", 50_000, |count| {
        let before = registry.kept_bytes();
        for number in 0..count {
            registry.apply(RegistryFact::PermissionsSet {
                vhost: Name::from("/"),
                user: user(number),
                permissions: Permissions::all().expect("patterns"),
            });
        }
        let counted = registry.kept_bytes() - before;
        (registry, counted)
    });
    compare(constant, "global parameters", 50_000, |count| {
        let mut registry = Registry::new(Name::from("/"), []);
        for number in 0..count {
            registry.apply(RegistryFact::GlobalParameterSet {
                name: Name::from(format!("parameter-{number}")),
                value: "\"a value\"".to_owned(),
            });
        }
        let counted = registry.kept_bytes();
        (registry, counted)
    });
}

/// The core of a vhost without a journal.
pub struct Vhost {
    pub core: Core,
    pub effects: Effects,
    pub kept: Gauge,
    pub now: Now,
    /// The route of the last message, which the messages of a link share.
    last: Option<Arc<Route>>,
}

impl Vhost {
    pub fn new() -> Self {
        let kept = Gauge::default();
        let options = CoreOptions {
            journal: false,
            kept: kept.clone(),
            ..CoreOptions::new(Name::from("/"), Seed(1))
        };
        Self {
            core: Core::new(options),
            effects: Effects::new(),
            kept,
            now: Now::new(Millis(1), Timestamp(1)),
            last: None,
        }
    }

    /// Applies a command, and does what it leaves to ticks.
    fn apply(&mut self, command: Command) {
        self.core.apply(self.now, command, &mut self.effects);
        self.finish();
    }

    pub fn finish(&mut self) {
        while self.core.has_work() {
            self.core.tick(self.now, 256, &mut self.effects);
        }
        self.effects.clear();
    }

    pub fn queue(&mut self, name: &str) {
        self.apply(Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Vec::new(),
        }));
    }

    pub fn exchange(&mut self, name: &str, kind: &str) {
        self.apply(Command::Topology(TopologyCommand::ExchangeDeclare {
            name: Name::from(name),
            kind: Name::from(kind),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Vec::new(),
        }));
    }

    pub fn bind(&mut self, exchange: &str, queue: &str, key: &str) {
        self.apply(Command::Topology(TopologyCommand::Bind {
            connection: None,
            source: Name::from(exchange),
            destination: Destination::Queue(Name::from(queue)),
            key: Name::from(key),
            arguments: Vec::new(),
        }));
    }

    fn policy(&mut self, number: u64) {
        let spec = PolicySpec {
            name: Name::from(format!("policy-{number}")),
            pattern: "^orders\\..*",
            priority: 0,
            apply_to: "queues",
            definition: vec![(Name::from("max-length"), Value::Ulong(1_000))],
        };
        self.apply(Command::Topology(TopologyCommand::PolicySet {
            operator: false,
            policy: Box::new(Policy::new(false, spec).expect("a policy")),
        }));
    }

    /// Publishes a message of [`BODY_BYTES`]; what it leaves to ticks is left.
    pub fn publish(&mut self, exchange: ExchangeId, keys: &[&str], name: &str) {
        let shared = self.last.get_or_insert_with(|| route(name, keys));
        let route = Arc::clone(shared);
        let command = Command::Publish(Publish {
            connection: ConnectionId(1),
            publisher: PublisherId(1),
            token: 0,
            target: Target::Attached(exchange),
            route,
            message: Arc::new(message()),
            settled: true,
            forbidden: None,
            delivery_time: None,
        });
        self.core.apply(self.now, command, &mut self.effects);
        self.effects.clear();
    }
}

pub fn route(exchange: &str, keys: &[&str]) -> Arc<Route> {
    Arc::new(Route {
        exchange: Name::from(exchange),
        keys: keys.iter().map(|key| Name::from(*key)).collect(),
    })
}

/// A message in an allocation of its own, as gateways make it.
pub fn message() -> Message {
    let body = vec![b'.'; usize::from(BODY_BYTES)];
    let bytes = [&[0x00, 0x53, 0x75, 0xa0, BODY_BYTES][..], &body].concat();
    Message::from_transfer(Bytes::from(bytes), KeyRule::default()).expect("a message")
}
