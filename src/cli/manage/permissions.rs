//! Commands for permissions of users in vhosts.

use clap::Args;
use serde_json::json;

use super::{Task, confirm};
use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::output::Output;

/// Lets a user into a vhost, with three regular expressions over names
///
/// An expression matches where it is found in a name; '^$' matches none that exists, '.*' all.
#[derive(Args)]
pub(super) struct SetPermissions {
    /// Name of the user
    username: String,
    /// Queues and exchanges that the user may declare and delete
    configure: String,
    /// Exchanges and queues that the user may publish to or bind
    write: String,
    /// Queues that the user may consume from, exchanges that the user may bind from
    read: String,
}

/// Shuts a user out of a vhost
#[derive(Args)]
pub(super) struct ClearPermissions {
    /// Name of the user
    username: String,
}

/// Limits the routing keys that a user may use with a topic exchange
#[derive(Args)]
pub(super) struct SetTopicPermissions {
    /// Name of the user
    username: String,
    /// Name of the topic exchange
    exchange: String,
    /// Routing keys that the user may publish with, as a regular expression
    write: String,
    /// Binding keys that the user may bind with, as a regular expression
    read: String,
}

/// Removes a user's topic permissions in a vhost, of all exchanges
#[derive(Args)]
pub(super) struct ClearTopicPermissions {
    /// Name of the user
    username: String,
}

impl Task for SetPermissions {
    const NAME: &'static str = "set_permissions";
    const EXAMPLES: &'static [&'static str] = &[
        r#"set_permissions -p / alice ".*" ".*" ".*""#,
        r#"set_permissions -p orders billing "^$" "^invoices" "^orders""#,
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (user, vhost) = (&self.username, api.vhost());
        let body = json!({"configure": self.configure, "write": self.write, "read": self.read});
        let answer = api.put(&Path::of(&["permissions", vhost, user]), &body)?;
        confirm(
            out,
            &answer,
            format_args!("permissions of user '{user}' set in vhost '{vhost}'"),
        )
    }
}

impl Task for ClearPermissions {
    const NAME: &'static str = "clear_permissions";
    const EXAMPLES: &'static [&'static str] = &["clear_permissions -p orders billing"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (user, vhost) = (&self.username, api.vhost());
        let answer = api.delete(&Path::of(&["permissions", vhost, user]))?;
        confirm(
            out,
            &answer,
            format_args!("user '{user}' has no permissions in vhost '{vhost}'"),
        )
    }
}

impl Task for SetTopicPermissions {
    const NAME: &'static str = "set_topic_permissions";
    const EXAMPLES: &'static [&'static str] =
        &[r#"set_topic_permissions -p orders billing events "^billing\." ".*""#];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (user, vhost) = (&self.username, api.vhost());
        let body = json!({"exchange": self.exchange, "write": self.write, "read": self.read});
        let answer = api.put(&Path::of(&["topic-permissions", vhost, user]), &body)?;
        let exchange = &self.exchange;
        let text = format!(
            "topic permissions of user '{user}' for exchange '{exchange}' set in vhost '{vhost}'"
        );
        confirm(out, &answer, text)
    }
}

impl Task for ClearTopicPermissions {
    const NAME: &'static str = "clear_topic_permissions";
    const EXAMPLES: &'static [&'static str] = &["clear_topic_permissions -p orders billing"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (user, vhost) = (&self.username, api.vhost());
        let answer = api.delete(&Path::of(&["topic-permissions", vhost, user]))?;
        let text = format!("user '{user}' has no topic permissions in vhost '{vhost}'");
        confirm(out, &answer, text)
    }
}
