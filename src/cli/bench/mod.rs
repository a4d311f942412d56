//! `coroner bench`: an AMQP 1.0 load generator on raw sockets.
//!
//! Promises: frames encoded once and only stamped per message, one thread, a rate that counts until
//! the last message arrived and the last publish was confirmed. It drives any broker that speaks
//! the version 2 addresses and `/management`, so that brokers can be compared.
//! Never: code shared with the broker's own codec or link engine.
//!
//! Read [`BenchOptions`] first, then `load`.

mod codec;
mod connection;
mod consumer;
mod load;
mod management;
mod options;
mod process;
mod producer;
mod report;
mod tally;
mod template;

use std::io;
use std::net::TcpStream;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{EXIT_FAILURE, EXIT_USAGE, complain};
use connection::Connection;
use consumer::{Consumer, Manner, SettleWith};
use load::Load;
use management::{Management, QueueSpec};
use options::{BenchOptions, Presettled};
use process::Process;
use producer::{Producer, SendRate};
use report::Report;
use tally::Tally;
use template::{Life, MessageShape};

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum BenchError {
    /// The options are invalid.
    #[error("{0}")]
    BenchOptions(&'static str),
    /// A socket failed.
    #[error("{doing}: {kind}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The kind of failure.
        kind: io::ErrorKind,
    },
    /// The broker ended a link, a session or the connection.
    #[error("the broker ended it: {why}")]
    Ended {
        /// The broker's error.
        why: String,
    },
    /// The broker refused a request.
    #[error("the broker refused {what}: {why}")]
    Refused {
        /// The request that was refused.
        what: &'static str,
        /// The broker's reason.
        why: String,
    },
    /// The broker sent an unexpected performative.
    #[error("the broker sent performative {code:#04x} out of turn")]
    Unexpected {
        /// The performative's descriptor.
        code: u8,
    },
    /// The broker sent bytes that are not AMQP.
    #[error("the broker sent {0} that cannot be read")]
    Malformed(&'static str),
    /// Messages were missing at the end.
    #[error("messages are missing")]
    Incomplete,
}

impl BenchError {
    fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io {
            doing,
            kind: error.kind(),
        }
    }
}

/// The `bench` command with its options.
pub(super) fn command() -> Command {
    // The options bring a description of their own along.
    BenchOptions::augment_args(Command::new("bench"))
        .about("Loads a broker over AMQP 1.0 and measures it")
        .long_about(
            "Loads a broker over AMQP 1.0 and measures it.\n\n\
             It declares its own queues through /management and deletes them afterwards; a broker \
             without that node can be loaded with --no-declare and --queue-address. The rate \
             counts until the last message has arrived and the last publish is confirmed.",
        )
}

/// Makes one run and prints its report.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let made = match BenchOptions::from_arg_matches(matches) {
        Ok(options) => measure(&options),
        Err(error) => {
            complain(&error);
            return EXIT_USAGE.into();
        }
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ BenchError::BenchOptions(_)) => {
            complain(&error);
            EXIT_USAGE.into()
        }
        Err(error) => {
            complain(&error);
            EXIT_FAILURE.into()
        }
    }
}

fn measure(options: &BenchOptions) -> Result<(), BenchError> {
    options.check()?;
    allow_open_files();
    let declares = !options.use_existing;
    let mut management = declares
        .then(|| Management::open(&options.peer()))
        .transpose()?;
    if let Some(management) = &mut management {
        if options.delete_only {
            return options.delete_queues(management);
        }
        options.declare_queues(management)?;
    }
    let _idle = options.open_idle_connections()?;
    let report = options.run_load()?;
    let mut out = io::stdout().lock();
    let written = if options.json {
        report.write_json(&mut out)
    } else {
        report.write_table(&mut out)
    };
    written.map_err(BenchError::io("writing the report"))?;
    if let Some(management) = &mut management
        && !options.keep
    {
        options.delete_queues(management)?;
    }
    if report.is_complete() {
        Ok(())
    } else {
        Err(BenchError::Incomplete)
    }
}

/// Raises the limit of open files to the most that the system allows: each connection is one. If
/// that is too low the run fails soon.
fn allow_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

impl BenchOptions {
    fn declare_queues(&self, management: &mut Management) -> Result<(), BenchError> {
        for index in 0..self.queues {
            let queue_type = &self.queue_type;
            let dead_letter_queue = self.dead_letter_queue(index);
            if let Some(name) = dead_letter_queue.clone() {
                let dead_letter_queue = None;
                let spec = QueueSpec {
                    name,
                    queue_type,
                    durable: true,
                    dead_letter_queue,
                    at_least_once: false,
                };
                management.declare(&spec)?;
            }
            let name = self.queue(index);
            management.declare(&QueueSpec {
                name,
                queue_type,
                durable: true,
                dead_letter_queue,
                at_least_once: self.at_least_once,
            })?;
        }
        Ok(())
    }

    fn delete_queues(&self, management: &mut Management) -> Result<(), BenchError> {
        for index in 0..self.queues {
            management.delete(&self.queue(index))?;
            if let Some(name) = self.dead_letter_queue(index) {
                management.delete(&name)?;
            }
        }
        Ok(())
    }

    /// Opens connections that do nothing; the run should end before the broker misses their
    /// heartbeats.
    fn open_idle_connections(&self) -> Result<Vec<TcpStream>, BenchError> {
        let open = |_| {
            let connection = Connection::open(&self.peer(), "coroner-bench-idle")?;
            Ok(connection.into_stream())
        };
        (0..self.idle_connections).map(open).collect()
    }

    fn run_load(&self) -> Result<Report, BenchError> {
        let run = u64::from(std::process::id());
        let mut load = Load {
            producers: self.attach_producers(run)?,
            consumers: self.attach_consumers()?,
            end: self.end(),
        };
        let broker_before = self.pid.and_then(|pid| Process::read(Some(pid)));
        if self.pid.is_some() && broker_before.is_none() {
            return Err(BenchError::BenchOptions("--pid: no such process in /proc"));
        }
        let own_before = Process::read(None).unwrap_or_default();
        let mut tally = Tally::start(run);
        let complete = load.run(&mut tally)?;
        let own = (own_before, Process::read(None).unwrap_or_default());
        load.close()?;
        let broker_after = self.pid.and_then(|pid| Process::read(Some(pid)));
        Ok(Report::new(
            &tally,
            complete,
            own,
            broker_before.zip(broker_after),
        ))
    }

    fn life(&self) -> Option<Life> {
        let life = if self.due_together {
            Life::Until
        } else {
            Life::Each
        };
        let life = self.ttl.map(life);
        self.delay
            .map_or(life, |millis| Some(Life::Delayed(millis)))
    }

    #[allow(clippy::cast_precision_loss, reason = "a number of connections")]
    fn attach_producers(&self, run: u64) -> Result<Vec<Producer>, BenchError> {
        let settled = matches!(self.presettled, Presettled::Producers | Presettled::Both);
        let shape = MessageShape {
            size_bytes: self.size,
            durable: self.durable,
            settled,
            run,
            life: self.life(),
        };
        let count = self.producers;
        let attach = |index: usize| {
            let share = |messages: u64| {
                let (each, rest) = (messages / count as u64, messages % count as u64);
                each + u64::from((index as u64) < rest)
            };
            let quota = self.messages.map_or(u64::MAX, share);
            let offset = index as f64 / count as f64;
            let send_rate = self
                .rate
                .map(|rate| SendRate::new(rate / count as f64, offset));
            Producer::attach(&self.peer(), &self.target(index), &shape, quota, send_rate)
        };
        (0..count).map(attach).collect()
    }

    fn attach_consumers(&self) -> Result<Vec<Consumer>, BenchError> {
        let manner = Manner {
            credit: self.credit,
            settled: matches!(self.presettled, Presettled::Consumers | Presettled::Both),
            outcomes: self.outcome.clone(),
            reject_with: self.reject_with,
            counts: true,
            life: self.life(),
            behind: self.behind,
        };
        let mut consumers = Vec::new();
        for index in 0..self.consumers {
            let attach = |queue: &str, manner| {
                Consumer::attach(&self.peer(), &self.queue_address(queue), manner)
            };
            let queue = self.source(index);
            let Some(dead_letter_queue) = self.dead_letter_queue(index) else {
                consumers.push(attach(&queue, manner.clone())?);
                continue;
            };
            let outcomes = vec![SettleWith::Reject];
            let rejecting = Manner {
                settled: false,
                outcomes,
                counts: false,
                ..manner.clone()
            };
            if self.ttl.is_none() {
                consumers.push(attach(&queue, rejecting)?);
            }
            consumers.push(attach(&dead_letter_queue, manner.clone())?);
        }
        Ok(consumers)
    }
}
