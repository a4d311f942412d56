//! The commands `publish`, `consume` and `ping`, for any AMQP 1.0 broker, through the fe2o3-amqp
//! client.
//!
//! Promises: the client shares no code with the broker, so what works here works for others; a
//! message is settled only once it was printed; nothing is left open at the end.
//!
//! Read [`options`] first, then `publish` and `consume`.

mod connect;
mod consume;
mod external;
mod options;
mod ping;
mod publish;
mod wires;

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use fe2o3_amqp::Session;
use fe2o3_amqp::connection::{ConnectionHandle, ConnectionStopReason};
use fe2o3_amqp::link::SessionStopReason as Stopped;
use fe2o3_amqp::link::{LinkStateError, ReceiverAttachError, SenderAttachError};
use fe2o3_amqp::session::{BeginError, SessionHandle};
use fe2o3_amqp::types::definitions;

use super::api::{AMQP, Flags, Settings};
use super::exit::{Failure, FailureKind};
use super::manage::described;
use connect::Login;

/// The commands of this module.
pub(super) fn commands() -> Vec<Command> {
    let publish = publish::Publish::augment_args(Command::new("publish"));
    let consume = consume::Consume::augment_args(Command::new("consume"));
    let ping = ping::Ping::augment_args(Command::new("ping"));
    let all = [
        described(publish, publish::EXAMPLES),
        described(consume, consume::EXAMPLES),
        described(
            ping,
            &[
                "ping",
                "ping --url amqp://broker.example --count 5",
                "ping --url amqps://broker.example --tls-cert-file me.pem --tls-key-file me.key",
            ],
        ),
    ];
    all.map(Flags::of).to_vec()
}

/// Runs a command of this module; none if it is of another one.
pub(super) fn run(
    name: &str,
    before: &ArgMatches,
    behind: &ArgMatches,
) -> Option<Result<(), Failure>> {
    let begin = || {
        let flags = Flags::read(before, behind);
        let out = flags.output();
        Ok::<_, Failure>((flags.settle(AMQP)?, out))
    };
    Some(match name {
        "publish" => {
            begin().and_then(|(settings, out)| finish(publish::run(parsed(behind)?, settings, out)))
        }
        "consume" => {
            begin().and_then(|(settings, out)| finish(consume::run(parsed(behind)?, settings, out)))
        }
        "ping" => {
            begin().and_then(|(settings, out)| finish(ping::run(parsed(behind)?, settings, out)))
        }
        _ => return None,
    })
}

fn parsed<T: FromArgMatches>(matches: &ArgMatches) -> Result<T, Failure> {
    T::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))
}

/// Runs a command to its end. One thread is enough for one connection.
fn finish(doing: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build();
    runtime
        .map_err(|error| Failure::new(FailureKind::Software, format!("no runtime: {error}")))?
        .block_on(doing)
}

/// A connection with one session.
struct ClientConnection {
    connection: ConnectionHandle<()>,
    session: SessionHandle<()>,
    timeout: Duration,
}

impl ClientConnection {
    /// Connects, logs in, opens, and begins a session.
    async fn connect(settings: &Settings, login: Login) -> Result<Self, Failure> {
        let mut connection = connect::connect(settings, login).await?;
        let timeout = settings.timeout;
        let begun = within(timeout, "a session", Session::begin(&mut connection)).await?;
        let session = begun.map_err(|error| refused("a session", &begin(&error)))?;
        Ok(Self {
            connection,
            session,
            timeout,
        })
    }

    /// Begins another session and ends it: both are answered.
    async fn there_and_back(&mut self) -> Result<(), Failure> {
        let begun = within(
            self.timeout,
            "a session",
            Session::begin(&mut self.connection),
        )
        .await?;
        let mut session = begun.map_err(|error| refused("a session", &begin(&error)))?;
        let ended = within(self.timeout, "ending", session.end()).await?;
        ended.map_err(|error| refused("ending the session", &error))
    }

    /// Ends session and connection.
    async fn close(mut self) -> Result<(), Failure> {
        let ended = within(self.timeout, "ending", self.session.end()).await?;
        ended.map_err(|error| refused("ending the session", &error))?;
        let closed = within(self.timeout, "closing", self.connection.close()).await?;
        closed.map_err(|error| refused("closing", &error))
    }
}

/// Waits for something, with a timeout.
async fn within<T>(
    timeout: Duration,
    what: &str,
    doing: impl Future<Output = T>,
) -> Result<T, Failure> {
    let waited = tokio::time::timeout(timeout, doing).await;
    waited.map_err(|_| late(timeout, what))
}

/// The failure when there was no answer in time.
fn late(timeout: Duration, what: &str) -> Failure {
    let seconds = timeout.as_secs();
    Failure::new(
        FailureKind::Timeout,
        format!("{what}: no answer within {seconds} s"),
    )
    .advise("--timeout SECONDS waits longer")
}

/// An error as text: `amqp:not-found: no queue 'q'`.
fn condition(error: &definitions::Error) -> String {
    // The client has no other way from a condition to its symbol.
    let condition = serde_json::to_value(&error.condition).ok();
    let condition = condition.as_ref().and_then(serde_json::Value::as_str);
    let condition = condition.unwrap_or("an unknown condition");
    match &error.description {
        Some(description) => format!("{condition}: {description}"),
        None => condition.to_owned(),
    }
}

/// The broker's text in the client's errors, if there is one: it may refuse a link, or end the
/// whole session, as RabbitMQ does.
fn sender_attach(error: &SenderAttachError) -> String {
    match error {
        SenderAttachError::RemoteClosedWithError(error)
        | SenderAttachError::SessionStopped(Stopped::RemoteEndedWithError(error)) => {
            condition(error)
        }
        error => error.to_string(),
    }
}

fn receiver_attach(error: &ReceiverAttachError) -> String {
    match error {
        ReceiverAttachError::RemoteClosedWithError(error)
        | ReceiverAttachError::SessionStopped(Stopped::RemoteEndedWithError(error)) => {
            condition(error)
        }
        error => error.to_string(),
    }
}

fn begin(error: &BeginError) -> String {
    match error {
        BeginError::RemoteEndedWithError(error)
        | BeginError::ConnectionStopped(ConnectionStopReason::RemoteClosedWithError(error)) => {
            condition(error)
        }
        error => error.to_string(),
    }
}

fn link_state(error: &LinkStateError) -> String {
    match error {
        LinkStateError::RemoteDetachedWithError(error)
        | LinkStateError::RemoteClosedWithError(error)
        | LinkStateError::SessionStopped(Stopped::RemoteEndedWithError(error)) => condition(error),
        error => error.to_string(),
    }
}

/// The failure for a refusal: the condition decides the exit code.
fn refused(what: &str, error: &dyn Display) -> Failure {
    let text = super::output::printable(&error.to_string());
    let kind = if text.contains("amqp:not-found") {
        FailureKind::NotFound
    } else if text.contains("amqp:unauthorized-access") {
        FailureKind::NoPermission
    } else {
        FailureKind::Data
    };
    Failure::new(kind, format!("{what}: {text}"))
}
