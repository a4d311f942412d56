//! The options of `coroner bench`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::BenchError;
use super::connection::ConnectTarget;
use super::consumer::{RejectWith, SettleWith};
use super::load::End;
use super::template::STAMP_BYTES;

/// Length of a run without a number of messages and a duration.
const DURATION_DEFAULT: Duration = Duration::from_secs(10);
/// The placeholder for the name in the template of a queue's address.
const NAME: &str = "{name}";

/// What to send where.
#[derive(Args, Clone, Debug)]
pub(super) struct BenchOptions {
    /// Broker to load
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5672")]
    pub(super) url: String,
    /// User for SASL PLAIN
    #[arg(long, default_value = "guest")]
    pub(super) user: String,
    /// Password for SASL PLAIN
    #[arg(long, default_value = "guest")]
    pub(super) password: String,
    /// Virtual host [default: the broker's own]
    #[arg(long)]
    pub(super) vhost: Option<String>,
    /// Messages a second over all producers [default: as fast as they go]
    #[arg(long)]
    pub(super) rate: Option<f64>,
    /// Bytes of each message's body, at least 16
    #[arg(long, default_value_t = 100)]
    pub(super) size: usize,
    /// Durable messages
    #[arg(long)]
    pub(super) durable: bool,
    /// Who sends settled
    #[arg(long, value_enum, num_args = 0..=1, default_value = "none", default_missing_value = "both")]
    pub(super) presettled: Presettled,
    /// Publishing connections
    #[arg(long, default_value_t = 1)]
    pub(super) producers: usize,
    /// Consuming connections, for each queue in turn
    #[arg(long, default_value_t = 1)]
    pub(super) consumers: usize,
    /// Queues
    #[arg(long, default_value_t = 1)]
    pub(super) queues: usize,
    /// Queue type, `classic` or `quorum`
    #[arg(long, default_value = "classic")]
    pub(super) queue_type: String,
    /// Prefix of the queues' names; a number follows
    #[arg(long, default_value = "bench-")]
    pub(super) queue_prefix: String,
    /// Address of a queue; `{name}` stands for its name
    #[arg(long, value_name = "TEMPLATE", default_value = "/queues/{name}")]
    pub(super) queue_address: String,
    /// Publish to this address instead of to the queues, such as `/exchanges/events/key`
    #[arg(long)]
    pub(super) address: Option<String>,
    /// Consume from queues with this prefix instead, that are there already
    #[arg(long, value_name = "PREFIX")]
    pub(super) consume_prefix: Option<String>,
    /// Connections that are open during the run and do nothing
    #[arg(long, default_value_t = 0)]
    pub(super) idle_connections: usize,
    /// Link credit of each consumer, topped up when half is used
    #[arg(long, default_value_t = 1_000)]
    pub(super) credit: u32,
    /// Outcomes of consecutive deliveries, over and over, such as `accept,accept,release`
    #[arg(long, value_enum, value_delimiter = ',', default_value = "accept")]
    pub(super) outcome: Vec<SettleWith>,
    /// The error that rejections carry
    #[arg(long, value_enum, default_value = "none")]
    pub(super) reject_with: RejectWith,
    /// Reject every message and count it when it arrives from the dead-letter queue
    #[arg(long)]
    pub(super) dead_letter: bool,
    /// Dead-letter with the strategy at-least-once (in RabbitMQ for quorum queues only)
    #[arg(long, requires = "dead_letter")]
    pub(super) at_least_once: bool,
    /// Messages that live so long are dead-lettered by their time to live, not rejected; latency
    /// counts from the moment they are due
    #[arg(long, value_name = "MILLISECONDS", requires = "dead_letter")]
    pub(super) ttl: Option<u32>,
    /// All messages are due at once: `--ttl` counts from the start of the run
    #[arg(long, requires = "ttl")]
    pub(super) due_together: bool,
    /// Messages wait in their queues for so long after their arrival; latency counts from the moment they
    /// are due
    #[arg(long, value_name = "MILLISECONDS", conflicts_with_all = ["ttl", "dead_letter"])]
    pub(super) delay: Option<u32>,
    /// Consume only what so many confirmed messages came after, until the last is published
    #[arg(long, value_name = "MESSAGES", default_value_t = 0)]
    pub(super) behind: u64,
    /// Seconds to publish for
    #[arg(long, value_name = "SECONDS", conflicts_with = "messages")]
    pub(super) duration: Option<f64>,
    /// Messages to publish, or to take when there are no producers
    #[arg(long)]
    pub(super) messages: Option<u64>,
    /// Take the queues as they are and leave them; nothing is asked of /management, which not every
    /// broker has
    #[arg(long, visible_alias = "no-declare")]
    pub(super) use_existing: bool,
    /// Leave the queues afterwards
    #[arg(long)]
    pub(super) keep: bool,
    /// Only delete the queues
    #[arg(long, conflicts_with_all = ["keep", "use_existing"])]
    pub(super) delete_only: bool,
    /// Process of the broker, to measure
    #[arg(long)]
    pub(super) pid: Option<u32>,
    /// Print one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Which side settles before the other answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Presettled {
    /// Nobody.
    None,
    /// Producers send settled.
    Producers,
    /// Consumers take settled.
    Consumers,
    /// Both.
    Both,
}

impl BenchOptions {
    /// Refuses options that would never end or have no effect.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let refusals = [
            (self.size < STAMP_BYTES, "--size must be at least 16"),
            (self.queues == 0, "--queues must be at least 1"),
            (self.credit == 0, "--credit must be at least 1"),
            (
                self.consumers > 0 && self.consumers < self.queues,
                "--consumers must be 0 or at least --queues: some queues would never empty",
            ),
            (
                self.producers == 0 && self.messages.is_none(),
                "--producers 0 needs --messages",
            ),
            (
                self.dead_letter && self.consumers == 0 && self.ttl.is_none(),
                "--dead-letter needs consumers, or --ttl",
            ),
            (
                self.behind > 0 && (self.consumers != 1 || self.dead_letter),
                "--behind is for one consumer, without --dead-letter",
            ),
            (
                !self.outcome.iter().any(|outcome| outcome.is_final()),
                "--outcome needs accept, reject or hold: the run would never end",
            ),
            (
                !self.queue_address.contains(NAME),
                "--queue-address needs {name}, where the queue's name goes",
            ),
            (
                self.rate
                    .is_some_and(|rate| !rate.is_finite() || rate <= 0.0),
                "--rate must be above 0",
            ),
        ];
        let refused = refusals.into_iter().find(|(refused, _)| *refused);
        refused.map_or(Ok(()), |(_, why)| Err(BenchError::BenchOptions(why)))
    }

    pub(super) fn peer(&self) -> ConnectTarget {
        ConnectTarget {
            address: self.url.trim_start_matches("amqp://").to_owned(),
            user: self.user.clone(),
            password: self.password.clone(),
            vhost: self.vhost.clone(),
        }
    }

    pub(super) fn queue(&self, index: usize) -> String {
        format!("{}{}", self.queue_prefix, index % self.queues)
    }

    /// The address that a producer publishes to.
    pub(super) fn target(&self, index: usize) -> String {
        let queue = || self.queue_address(&self.queue(index));
        self.address.clone().unwrap_or_else(queue)
    }

    /// The address of the queue with this name.
    pub(super) fn queue_address(&self, name: &str) -> String {
        self.queue_address.replace(NAME, name)
    }

    /// The queue that a consumer consumes from.
    pub(super) fn source(&self, index: usize) -> String {
        let Some(prefix) = &self.consume_prefix else {
            return self.queue(index);
        };
        format!("{prefix}{}", index % self.queues)
    }

    pub(super) fn dead_letter_queue(&self, index: usize) -> Option<String> {
        self.dead_letter
            .then(|| format!("{}-dead", self.queue(index)))
    }

    pub(super) fn end(&self) -> End {
        match (self.messages, self.producers) {
            (Some(count), 0) => End::WhenArrived(count),
            (Some(_), _) => End::WhenAllArrived,
            (None, _) => {
                let duration = self.duration.map(Duration::try_from_secs_f64);
                End::After(duration.and_then(Result::ok).unwrap_or(DURATION_DEFAULT))
            }
        }
    }
}
