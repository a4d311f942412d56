//! Commands for connections of clients.

use clap::Args;
use serde_json::Value;

use super::{Task, confirm};
use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::output::Output;

/// Reason that a client is told, by default.
const REASON: &str = "closed by an operator";

/// Closes a connection
#[derive(Args)]
pub(super) struct CloseConnection {
    /// Name of the connection: the column name of list-connections
    name: String,
    /// Reason that its client is told
    #[arg(default_value = REASON)]
    reason: String,
}

/// Closes all connections of a vhost, or of the whole broker
#[derive(Args)]
pub(super) struct CloseAllConnections {
    /// Reason that the clients are told
    #[arg(default_value = REASON)]
    reason: String,
    /// Those of every vhost
    #[arg(long)]
    global: bool,
    /// At most so many
    #[arg(long)]
    limit: Option<usize>,
}

/// Closes all connections of a user, in every vhost
#[derive(Args)]
pub(super) struct CloseAllUserConnections {
    /// Name of the user
    username: String,
    /// Reason that the clients are told
    #[arg(default_value = REASON)]
    reason: String,
}

/// Closes the matching connections; returns their number.
fn close(
    api: &Api,
    path: &Path,
    limit: usize,
    reason: &str,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<usize, Failure> {
    let mut names = Vec::new();
    api.each(path, |connection| {
        if is_wanted(&connection) {
            let name = connection.get("name").and_then(Value::as_str);
            names.extend(name.map(str::to_owned));
        }
    })?;
    names.truncate(limit);
    for name in &names {
        let path = Path::of(&["connections", name]);
        // A connection that was closed meanwhile is not a failure.
        if api.find(&path)?.is_some() {
            api.delete_because(&path, reason)?;
        }
    }
    Ok(names.len())
}

impl Task for CloseConnection {
    const NAME: &'static str = "close_connection";
    const EXAMPLES: &'static [&'static str] =
        &[r#"close_connection "127.0.0.1:51234 -> 127.0.0.1:5672" "maintenance""#];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let name = self.name.strip_prefix("name=").unwrap_or(&self.name);
        let answer = api.delete_because(&Path::of(&["connections", name]), &self.reason)?;
        confirm(out, &answer, format_args!("connection '{name}' closed"))
    }
}

impl Task for CloseAllConnections {
    const NAME: &'static str = "close_all_connections";
    const EXAMPLES: &'static [&'static str] = &[
        "close_all_connections -p orders maintenance",
        "close_all_connections --global",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let limit = self.limit.unwrap_or(usize::MAX);
        let in_vhost = |connection: &Value| {
            connection.get("vhost").and_then(Value::as_str) == Some(api.vhost())
        };
        let path = Path::of(&["connections"]);
        let closed = close(api, &path, limit, &self.reason, |connection| {
            self.global || in_vhost(connection)
        })?;
        out.done(format_args!("{closed} connections closed"))
    }
}

impl Task for CloseAllUserConnections {
    const NAME: &'static str = "close_all_user_connections";
    const EXAMPLES: &'static [&'static str] = &["close_all_user_connections alice maintenance"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let path = Path::of(&["connections"]);
        let closed = close(api, &path, usize::MAX, &self.reason, |connection| {
            connection.get("user").and_then(Value::as_str) == Some(self.username.as_str())
        })?;
        out.done(format_args!("{closed} connections closed"))
    }
}
