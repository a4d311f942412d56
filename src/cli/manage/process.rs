//! Commands about the broker's process: its version, its settings, its log, and a report of
//! everything.

use clap::Args;
use serde_json::{Map, Value, json};

use super::listings::{self, LISTINGS};
use super::status::Status;
use super::{Task, confirm};
use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::{self, Output, printable};

/// Shows the version of this program; 'status' has the broker's
#[derive(Args)]
pub(super) struct Version {}

/// Shows the settings that the broker runs with, without passwords
#[derive(Args)]
pub(super) struct Environment {}

/// Shows or sets what the broker logs, until it ends or its settings change that
#[derive(Args)]
pub(super) struct SetLogLevel {
    /// One of off, error, warn, info, debug and trace, or levels by module with commas between; the words of
    /// RabbitMQ (warning, critical, none) are understood
    ///
    /// Without it the level is shown.
    level: Option<String>,
}

/// Shows all that whoever is asked for help wants to know: state, settings, and every list
///
/// No message and no password is in it, but names of queues, users and peers are.
#[derive(Args)]
pub(super) struct Report {}

/// The lists of a report, in its order.
const REPORTED: [&str; 14] = [
    "list_vhosts",
    "list_vhost_limits",
    "list_users",
    "list_user_limits",
    "list_permissions",
    "list_topic_permissions",
    "list_policies",
    "list_operator_policies",
    "list_global_parameters",
    "list_connections",
    "list_queues",
    "list_exchanges",
    "list_bindings",
    "list_consumers",
];

impl Task for Version {
    const NAME: &'static str = "version";
    const EXAMPLES: &'static [&'static str] = &["version"];

    fn run(self, _: &Api, out: Output) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        if out.is_json() {
            return output::print_json(&json!({ "version": version }));
        }
        output::print(&format!("{version}\n"))
    }
}

/// Fetches the settings of the broker.
fn environment(api: &Api) -> Result<Value, Failure> {
    let mut answer = api.get(&Path::of(&["environment"]))?;
    Ok(answer
        .get_mut("settings")
        .map(Value::take)
        .unwrap_or_default())
}

impl Task for Environment {
    const NAME: &'static str = "environment";
    const EXAMPLES: &'static [&'static str] = &["environment", "environment --format json"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        out.fields(&environment(api)?)
    }
}

impl Task for SetLogLevel {
    const NAME: &'static str = "set_log_level";
    const EXAMPLES: &'static [&'static str] = &[
        "set_log_level",
        "set_log_level debug",
        "set_log_level info,coroner::server=debug",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let path = Path::of(&["log-level"]);
        let Some(level) = &self.level else {
            let answer = api.get(&path)?;
            if out.is_json() {
                return output::print_json(&answer);
            }
            let level = answer.get("level").and_then(Value::as_str);
            return output::print(&format!("{}\n", printable(level.unwrap_or_default())));
        };
        let answer = api.put(&path, &json!({ "level": level }))?;
        confirm(out, &answer, format_args!("the log level is '{level}' now"))
    }
}

impl Task for Report {
    const NAME: &'static str = "report";
    const EXAMPLES: &'static [&'static str] = &["report > report.txt", "report --format json"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let lists = REPORTED
            .iter()
            .filter_map(|name| LISTINGS.iter().find(|listing| listing.name == *name));
        if out.is_json() {
            let mut report = Map::new();
            let mut put = |name: &str, found: Option<Value>| {
                report.extend(found.map(|found| (name.to_owned(), found)));
            };
            put("overview", allowed(api.get(&Path::of(&["overview"])))?);
            put("nodes", allowed(api.get(&Path::of(&["nodes"])))?);
            put("environment", known(api, environment(api))?);
            for listing in lists {
                let found = listings::everywhere(listing, api);
                let name = listing.name.trim_start_matches("list_");
                put(name, allowed(found)?.map(Value::Array));
            }
            return output::print_json(&Value::Object(report));
        }
        let version = env!("CARGO_PKG_VERSION");
        let endpoint = &api.settings().endpoint;
        output::print(&format!("Report of {endpoint}, by coroner {version}\n"))?;
        heading("status")?;
        Status {}.run(api, out)?;
        heading("environment")?;
        told(known(api, environment(api))?, |found| out.fields(&found))?;
        for listing in lists {
            heading(listing.name.trim_start_matches("list_"))?;
            let found = allowed(listings::everywhere(listing, api))?;
            told(found, |found| listings::print(listing, found, out))?;
        }
        Ok(())
    }
}

fn heading(name: &str) -> Result<(), Failure> {
    output::print(&format!("\n== {name}\n"))
}

/// Prints a part of the report, or that it is not available to this user or at this broker.
fn told<T>(found: Option<T>, print: impl FnOnce(T) -> Result<(), Failure>) -> Result<(), Failure> {
    match found {
        Some(found) => print(found),
        None => output::print("(not shown to this user, or not there)\n"),
    }
}

/// The result; none if this user may not see it, or it is not there.
fn allowed<T>(found: Result<T, Failure>) -> Result<Option<T>, Failure> {
    let left_out = [FailureKind::NoPermission, FailureKind::NotFound];
    match found {
        Ok(found) => Ok(Some(found)),
        Err(failure) if left_out.contains(&failure.kind) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The same of what a RabbitMQ does not have, whatever it answers.
fn known<T>(api: &Api, found: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match found {
        Err(failure) if api.is_not_known(&failure) => Ok(None),
        found => allowed(found),
    }
}
