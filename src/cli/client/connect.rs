//! Opening a connection: TCP, TLS, SASL, open.

use std::fmt::Debug;
use std::io;

use clap::{Args, ValueEnum};
use fe2o3_amqp::connection::{ConnectionHandle, OpenError};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::sasl::SaslCode;
use fe2o3_amqp::{Connection, transport};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::external::{self, Ended};
use super::{condition, refused, within};
use crate::cli::api::{Settings, tls};
use crate::cli::exit::{Failure, FailureKind};

/// How to log in.
#[derive(Args, Clone, Copy, Default, Debug)]
pub(super) struct Login {
    /// How to log in [default: external with a certificate and no user, else plain]
    #[arg(long, value_enum, ignore_case = true, value_name = "MECHANISM")]
    sasl_mechanism: Option<Mechanism>,
}

/// What a client can log in with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Mechanism {
    /// User name and password
    Plain,
    /// The certificate of --tls-cert-file names the user
    External,
    /// As nobody in particular
    Anonymous,
}

impl Login {
    fn mechanism(self, settings: &Settings) -> Mechanism {
        let shows_who = settings.endpoint.is_secure && settings.tls.has_certificate();
        self.sasl_mechanism.unwrap_or_else(|| {
            if shows_who && !settings.names_user() {
                Mechanism::External
            } else {
                Mechanism::Plain
            }
        })
    }
}

/// Connects, logs in and opens the connection.
pub(super) async fn connect(
    settings: &Settings,
    login: Login,
) -> Result<ConnectionHandle<()>, Failure> {
    let endpoint = &settings.endpoint;
    let timeout = settings.timeout;
    let connector = if endpoint.is_secure {
        Some(settings.tls.connector()?)
    } else {
        None
    };
    let address = format!("{}:{}", endpoint.host, endpoint.port);
    #[allow(clippy::disallowed_methods, reason = "the command line is a client")]
    let stream = within(timeout, "connecting", TcpStream::connect(&address)).await?;
    let stream = stream.map_err(|error| unreachable(settings, &error))?;
    stream.set_nodelay(true).ok();
    let Some(connector) = connector else {
        return Box::pin(open(settings, login, stream)).await;
    };
    let bare = endpoint.host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(bare.to_owned()).map_err(|_| {
        let what = format!("'{bare}' is no name that a certificate can be for");
        Failure::usage(what).advise("--host takes a DNS name or an address")
    })?;
    let secured = within(timeout, "TLS", connector.connect(name, stream)).await?;
    let secured = secured.map_err(|error| unreachable(settings, &error))?;
    Box::pin(open(settings, login, secured)).await
}

/// Logs in over a stream and opens the connection.
async fn open<S>(
    settings: &Settings,
    login: Login,
    mut stream: S,
) -> Result<ConnectionHandle<()>, Failure>
where
    S: AsyncRead + AsyncWrite + Debug + Send + Unpin + 'static,
{
    let (endpoint, timeout) = (&settings.endpoint, settings.timeout);
    let hostname = match settings.vhost_given() {
        Some(vhost) => format!("vhost:{vhost}"),
        None => endpoint.host.clone(),
    };
    let builder = Connection::builder()
        .container_id(format!("coroner-{}", std::process::id()))
        .hostname(hostname.as_str())
        .scheme("amqp");
    let builder = match login.mechanism(settings) {
        Mechanism::Plain => builder.sasl_profile(SaslProfile::Plain {
            username: settings.username().to_owned(),
            password: settings.password().to_owned(),
        }),
        Mechanism::Anonymous => builder.sasl_profile(SaslProfile::Anonymous),
        Mechanism::External => {
            let logging_in = external::log_in(&mut stream, &hostname);
            let ended = within(timeout, "logging in", logging_in).await?;
            by_certificate(settings, ended)?;
            builder
        }
    };
    let opened = within(timeout, "opening", builder.open_with_stream(stream)).await?;
    opened.map_err(|error| not_opened(settings, &error))
}

/// The result of a login by certificate.
fn by_certificate(settings: &Settings, ended: io::Result<Ended>) -> Result<(), Failure> {
    let endpoint = &settings.endpoint;
    match ended {
        Ok(Ended::LoggedIn) => Ok(()),
        Ok(Ended::Refused(code)) => {
            let what = format!("{endpoint} does not let in whom the certificate names ({code:?})");
            Err(Failure::new(FailureKind::NoPermission, what)
                .advise("is there such a user? --username logs in with a password instead"))
        }
        Ok(Ended::NotOffered(names)) => {
            let offered = names.join(", ");
            let what = format!("{endpoint} does not offer EXTERNAL, but {offered}");
            Err(Failure::new(FailureKind::NoPermission, what).advise(
                "it does to whom shows a certificate that it trusts: --tls-cert-file with amqps://",
            ))
        }
        Err(error) => Err(unreachable(settings, &error)),
    }
}

/// The failure for an error of the stream.
fn unreachable(settings: &Settings, error: &io::Error) -> Failure {
    let endpoint = &settings.endpoint;
    tls::failure(endpoint, error).unwrap_or_else(|| {
        let what = format!("cannot reach a broker at {endpoint}: {error}");
        Failure::new(FailureKind::Unavailable, what)
            .advise("is it running? --url or --host and --port say where")
    })
}

fn not_opened(settings: &Settings, error: &OpenError) -> Failure {
    let endpoint = &settings.endpoint;
    match error {
        OpenError::SaslError {
            code: SaslCode::Auth,
            ..
        } => {
            let user = settings.username();
            let what = format!("the broker does not let user '{user}' in");
            Failure::new(FailureKind::NoPermission, what).advise(
                "--username and --password, or CORONERCTL_USERNAME and CORONERCTL_PASSWORD, say \
                 who you are",
            )
        }
        OpenError::RemoteClosedWithError(error) => {
            refused(&format!("opening {endpoint}"), &condition(error))
        }
        OpenError::ProtocolHeaderMismatch(_) => Failure::new(
            FailureKind::Protocol,
            format!("what listens at {endpoint} does not speak AMQP 1.0"),
        ),
        OpenError::Io(error) | OpenError::TransportError(transport::Error::Io(error))
            if tls::failure(endpoint, error).is_some() =>
        {
            unreachable(settings, error)
        }
        error => Failure::new(FailureKind::Unavailable, format!("{endpoint}: {error}"))
            .advise("a RabbitMQ drops the connection like this when it does not know the vhost"),
    }
}
