//! Commands for limits of vhosts and users.

use clap::Args;
use serde_json::{Value, json};

use super::{Task, confirm, parse_object};
use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::Output;

/// Sets limits of a vhost: max-connections, max-queues
#[derive(Args)]
pub(super) struct SetVhostLimits {
    /// Limits and their values, as a JSON object; -1 lifts one
    definition: String,
}

/// Lifts all limits of a vhost
#[derive(Args)]
pub(super) struct ClearVhostLimits {}

/// Sets limits of a user: max-connections, max-channels
#[derive(Args)]
pub(super) struct SetUserLimits {
    /// Name of the user
    username: String,
    /// Limits and their values, as a JSON object; -1 lifts one
    definition: String,
}

/// Lifts a limit of a user, or all of them
#[derive(Args)]
pub(super) struct ClearUserLimits {
    /// Name of the user
    username: String,
    /// Name of the limit, or 'all'
    limit: String,
}

/// Sends one request for each limit, as the API requires.
fn set(api: &Api, kind: &str, whose: &str, definition: &str) -> Result<(), Failure> {
    let limits = parse_object("the definition", definition)?;
    if limits.as_object().is_some_and(serde_json::Map::is_empty) {
        let what = "the definition names no limit: nothing was set";
        return Err(Failure::new(FailureKind::Data, what)
            .advise("it looks like '{\"max-connections\": 64}'"));
    }
    for (name, value) in limits.as_object().into_iter().flatten() {
        api.put(&Path::of(&[kind, whose, name]), &json!({"value": value}))?;
    }
    Ok(())
}

fn clear_all(api: &Api, kind: &str, whose: &str) -> Result<(), Failure> {
    for limits in api.list(&Path::of(&[kind, whose]))? {
        for name in limits
            .get("value")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|it| it.keys())
        {
            api.delete(&Path::of(&[kind, whose, name]))?;
        }
    }
    Ok(())
}

impl Task for SetVhostLimits {
    const NAME: &'static str = "set_vhost_limits";
    const EXAMPLES: &'static [&'static str] =
        &[r#"set_vhost_limits -p orders '{"max-connections": 64, "max-queues": 1000}'"#];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        set(api, "vhost-limits", api.vhost(), &self.definition)?;
        confirm(
            out,
            &Value::Null,
            format_args!("limits of vhost '{}' set", api.vhost()),
        )
    }
}

impl Task for ClearVhostLimits {
    const NAME: &'static str = "clear_vhost_limits";
    const EXAMPLES: &'static [&'static str] = &["clear_vhost_limits -p orders"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        clear_all(api, "vhost-limits", api.vhost())?;
        confirm(
            out,
            &Value::Null,
            format_args!("limits of vhost '{}' lifted", api.vhost()),
        )
    }
}

impl Task for SetUserLimits {
    const NAME: &'static str = "set_user_limits";
    const EXAMPLES: &'static [&'static str] =
        &[r#"set_user_limits alice '{"max-connections": 10}'"#];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        set(api, "user-limits", &self.username, &self.definition)?;
        confirm(
            out,
            &Value::Null,
            format_args!("limits of user '{}' set", self.username),
        )
    }
}

impl Task for ClearUserLimits {
    const NAME: &'static str = "clear_user_limits";
    const EXAMPLES: &'static [&'static str] = &[
        "clear_user_limits alice max-connections",
        "clear_user_limits alice all",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        if self.limit == "all" {
            clear_all(api, "user-limits", &self.username)?;
        } else {
            api.delete(&Path::of(&["user-limits", &self.username, &self.limit]))?;
        }
        confirm(
            out,
            &Value::Null,
            format_args!("limits of user '{}' lifted", self.username),
        )
    }
}
