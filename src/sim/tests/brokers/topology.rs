//! What is declared in a simulated world: queues of all kinds, each with at most one way out for what
//! dies in it, so that a copy of a message is in one place at a time; and an exchange that copies to some.

use super::machine::Machine;
use super::trial::{Fault, Trial};
use crate::base::{Name, Random};
use crate::broker::policy::PolicySpec;
use crate::broker::{Command, Destination, Policy, QueueCommand, Reply, TopologyCommand};
use crate::wire::Value;

/// The direct exchange of dead letters; each queue is bound to it by its own name.
pub(super) const EXCHANGE: &str = "dead";

/// The exchange that gives each of the first queues a copy.
pub(super) const FANOUT: &str = "copies";

/// A topic exchange and a headers exchange that lead to [`EXCHANGE`].
pub(super) const TOPICS: &str = "topics";
const HEADERS: &str = "headers";

/// What [`EXCHANGE`] gives to an exchange that leads to the last queue, if it knows no queue for it.
const ELSEWHERE: &str = "elsewhere";

/// Queues of one world.
#[derive(Clone, Debug)]
pub(super) struct Topology {
    pub(super) queues: Vec<Declared>,
    /// How many of them [`FANOUT`] copies to.
    pub(super) copies: usize,
    /// Whether there are exchanges of other types, and an alternate one.
    is_routed: bool,
    /// Whether deliveries may be held for some time only.
    times_out: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) name: String,
    arguments: Vec<(Name, Value)>,
}

fn text(value: &str) -> Value {
    Value::string(value)
}

impl Topology {
    pub(super) fn random(random: &mut Random, trial: Trial) -> Self {
        let is_routed = trial.has(Fault::Routes);
        let count = 3 + random.below(4);
        let names: Vec<String> = (0..count).map(|number| format!("q{number}")).collect();
        let queues = names.iter().enumerate().map(|(number, name)| Declared {
            name: name.clone(),
            arguments: {
                let mut arguments = arguments(random, &names, number);
                if trial.has(Fault::Arguments) {
                    widen(random, &mut arguments);
                }
                if is_routed {
                    reroute(random, &mut arguments);
                }
                if trial.has(Fault::Expires) && random.one_in(3) {
                    let expires_ms = 20 + i64::try_from(random.below(300)).unwrap();
                    arguments.push((Name::from("x-expires"), Value::Long(expires_ms)));
                }
                if trial.times_out() && random.one_in(2) {
                    let timeout_ms = 5 + i64::try_from(random.below(60)).unwrap();
                    arguments.push((Name::from("x-consumer-timeout"), Value::Long(timeout_ms)));
                }
                arguments
            },
        });
        let queues = queues.collect();
        let copies = 2 + usize::try_from(random.below(2)).unwrap();
        Self {
            queues,
            copies,
            is_routed,
            times_out: trial.times_out(),
        }
    }

    /// Declares what is missing of it.
    pub(super) fn declare(&self, machine: &Machine) -> Result<(), String> {
        if self.is_routed {
            let alternate = (Name::from("alternate-exchange"), text(ELSEWHERE));
            declare_exchange(machine, (EXCHANGE, "direct"), vec![alternate])?;
            let others = [
                (TOPICS, "topic"),
                (HEADERS, "headers"),
                (ELSEWHERE, "fanout"),
            ];
            for other in others {
                declare_exchange(machine, other, Vec::new())?;
            }
            for other in [TOPICS, HEADERS] {
                bind(machine, other, Destination::Exchange(EXCHANGE.into()), "#")?;
            }
        } else {
            declare_exchange(machine, (EXCHANGE, "direct"), Vec::new())?;
        }
        declare_exchange(machine, (FANOUT, "fanout"), Vec::new())?;
        for (number, queue) in self.queues.iter().enumerate() {
            let reply = machine.ask(Command::Queue(QueueCommand::Declare {
                connection: None,
                name: Name::from(&*queue.name),
                durable: true,
                exclusive: false,
                auto_delete: false,
                arguments: queue.arguments.clone(),
            }))?;
            expect(&reply, matches!(reply, Reply::QueueDeclared { .. }))?;
            let sources: &[&str] = if number < self.copies {
                &[EXCHANGE, FANOUT]
            } else {
                &[EXCHANGE]
            };
            for source in sources {
                let destination = Destination::Queue(Name::from(&*queue.name));
                bind(machine, source, destination, &queue.name)?;
            }
        }
        match self.queues.last() {
            Some(last) if self.is_routed => {
                let last = Destination::Queue(Name::from(&*last.name));
                bind(machine, ELSEWHERE, last, "")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.queues.iter().map(|queue| &*queue.name).collect()
    }
}

fn declare_exchange(
    machine: &Machine,
    (name, kind): (&str, &str),
    arguments: Vec<(Name, Value)>,
) -> Result<(), String> {
    let reply = machine.ask(Command::Topology(TopologyCommand::ExchangeDeclare {
        name: Name::from(name),
        kind: Name::from(kind),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments,
    }))?;
    expect(&reply, matches!(reply, Reply::ExchangeDeclared { .. }))
}

fn bind(
    machine: &Machine,
    source: &str,
    destination: Destination,
    key: &str,
) -> Result<(), String> {
    let reply = machine.ask(Command::Topology(TopologyCommand::Bind {
        connection: None,
        source: Name::from(source),
        destination,
        key: Name::from(key),
        arguments: Vec::new(),
    }))?;
    expect(&reply, matches!(reply, Reply::Done { .. }))
}

fn expect(reply: &Reply, is_so: bool) -> Result<(), String> {
    if is_so {
        return Ok(());
    }
    Err(format!("declaring: {reply:?}"))
}

/// Queues that keep a dead letter until its target takes it lead on to later ones only: a circle of them,
/// or one that leads to itself, stands still for good once what waits fills it, as it must.
fn arguments(random: &mut Random, names: &[String], number: usize) -> Vec<(Name, Value)> {
    let mut arguments = Vec::new();
    let mut put = |key: &str, value: Value| arguments.push((Name::from(key), value));
    let is_quorum = random.one_in(2);
    put(
        "x-queue-type",
        text(if is_quorum { "quorum" } else { "classic" }),
    );
    let dies = !random.one_in(4);
    let later = &names[number + 1..];
    let at_least_once = dies && is_quorum && !later.is_empty() && random.one_in(2);
    if dies {
        let exchange = if random.one_in(2) { EXCHANGE } else { "" };
        put("x-dead-letter-exchange", text(exchange));
        let targets = if at_least_once { later } else { names };
        let target = random.pick(targets).unwrap();
        put("x-dead-letter-routing-key", text(target));
    }
    if at_least_once {
        put("x-dead-letter-strategy", text("at-least-once"));
        put("x-overflow", text("reject-publish"));
    } else if random.one_in(2) {
        let words: &[&str] = if is_quorum {
            &["drop-head", "reject-publish"]
        } else {
            &["drop-head", "reject-publish", "reject-publish-dlx"]
        };
        put("x-overflow", text(random.pick(words).unwrap()));
    }
    if random.one_in(2) {
        put(
            "x-max-length",
            Value::Long(2 + i64::try_from(random.below(20)).unwrap()),
        );
    }
    if random.one_in(3) {
        put(
            "x-message-ttl",
            Value::Long(1 + i64::try_from(random.below(60)).unwrap()),
        );
    }
    if random.one_in(4) {
        let types: &[&str] = &["all", "failed", "returned"];
        put("x-delayed-retry-type", text(random.pick(types).unwrap()));
        put(
            "x-delayed-retry-min",
            Value::Long(1 + i64::try_from(random.below(20)).unwrap()),
        );
        put("x-delayed-retry-jitter", Value::Long(50));
    }
    if is_quorum && random.one_in(2) {
        put(
            "x-delivery-limit",
            Value::Long(i64::try_from(random.below(3)).unwrap()),
        );
    }
    arguments
}

/// Adds arguments that change who gets what when.
fn widen(random: &mut Random, arguments: &mut Vec<(Name, Value)>) {
    let mut put = |key: &str, value: Value| arguments.push((Name::from(key), value));
    if random.one_in(3) {
        put("x-single-active-consumer", Value::Bool(true));
    }
    if random.one_in(4) {
        // What is larger would wait for good where its dead letter waits until its target takes it.
        let bytes = 3_000 + i64::try_from(random.below(3_000)).unwrap();
        put("x-max-length-bytes", Value::Long(bytes));
    }
    let is_classic = arguments
        .iter()
        .any(|(key, value)| key == "x-queue-type" && value.as_str() == Some("classic"));
    if is_classic && random.one_in(3) {
        let priorities = 1 + i64::try_from(random.below(9)).unwrap();
        arguments.push((Name::from("x-max-priority"), Value::Long(priorities)));
    }
}

/// Lets what dies in a queue go through an exchange of another type: it comes to the same queue.
fn reroute(random: &mut Random, arguments: &mut [(Name, Value)]) {
    let exchange = [EXCHANGE, TOPICS, HEADERS, ""][usize::try_from(random.below(4)).unwrap()];
    for (key, value) in arguments {
        if key == "x-dead-letter-exchange" {
            *value = text(exchange);
        }
    }
}

/// A policy over some queues, for as long as it stands.
pub(super) fn policy(random: &mut Random, queues: &Topology) -> Policy {
    let names = queues.names();
    let target = random.pick(&names).unwrap();
    let definition = match random.below(if queues.times_out { 4 } else { 3 }) {
        0 => vec![
            (Name::from("max-length"), Value::Long(3)),
            (Name::from("poison-isolation"), Value::Bool(true)),
        ],
        1 => vec![
            (Name::from("message-ttl"), Value::Long(20)),
            (Name::from("poison-isolation"), Value::Bool(true)),
        ],
        2 => vec![
            (Name::from("dead-letter-exchange"), text("")),
            (Name::from("dead-letter-routing-key"), text(target)),
        ],
        _ => vec![(Name::from("consumer-timeout"), Value::Long(10))],
    };
    let spec = PolicySpec {
        name: Name::from("p"),
        pattern: ["q", "q[0-2]", "q1"][usize::try_from(random.below(3)).unwrap()],
        priority: 0,
        apply_to: "queues",
        definition,
    };
    Policy::new(false, spec).unwrap()
}
