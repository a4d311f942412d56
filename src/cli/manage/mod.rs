//! The commands that manage a broker through its HTTP API, with the names of rabbitmqctl and
//! rabbitmqadmin.
//!
//! Promises: one table of commands makes the parser, the help, the man page and the completions;
//! each command is a handful of requests, and says what it did. They work on a RabbitMQ too.
//!
//! Read [`Task`] first, then any of the files, which hold one kind of object each.

mod columns;
mod connections;
mod declare;
mod definitions;
mod hash;
mod kinds;
mod limits;
mod listings;
mod messages;
mod parameters;
mod permissions;
mod policies;
mod process;
mod queues;
mod redrive;
mod secret;
mod status;
mod users;
mod vhosts;

use clap::{ArgMatches, Args, Command};
use serde_json::Value;

pub(super) use self::definitions::read as read_file;
use super::api::{Api, Flags, HTTP};
use super::exit::Failure;
use super::output::Output;

/// A command with arguments of its own. Its documentation comment is its help.
pub(super) trait Task: Args {
    /// The command's name, with underscores; dashes are accepted too.
    const NAME: &'static str;
    /// Examples for the help, without `coroner`.
    const EXAMPLES: &'static [&'static str];

    /// Runs the command.
    fn run(self, api: &Api, out: Output) -> Result<(), Failure>;
}

/// A command of the table.
pub(super) struct CommandEntry {
    /// The command's name.
    pub(super) name: &'static str,
    /// Makes its part of the command line.
    pub(super) command: fn() -> Command,
    run: fn(&ArgMatches, &Api, Output) -> Result<(), Failure>,
}

const fn entry<T: Task>() -> CommandEntry {
    CommandEntry {
        name: T::NAME,
        command: || described(T::augment_args(Command::new(T::NAME)), T::EXAMPLES),
        run: |matches, api, out| {
            let task =
                T::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
            task.run(api, out)
        },
    }
}

/// All commands except those of [`listings`], which have a table of their own.
const ENTRIES: &[CommandEntry] = &[
    entry::<policies::SetPolicy>(),
    entry::<policies::ClearPolicy>(),
    entry::<policies::SetOperatorPolicy>(),
    entry::<policies::ClearOperatorPolicy>(),
    entry::<users::AddUser>(),
    entry::<users::DeleteUser>(),
    entry::<users::ChangePassword>(),
    entry::<users::ClearPassword>(),
    entry::<users::AuthenticateUser>(),
    entry::<users::SetUserTags>(),
    entry::<hash::HashPassword>(),
    entry::<permissions::SetPermissions>(),
    entry::<permissions::ClearPermissions>(),
    entry::<permissions::SetTopicPermissions>(),
    entry::<permissions::ClearTopicPermissions>(),
    entry::<vhosts::AddVhost>(),
    entry::<vhosts::DeleteVhost>(),
    entry::<limits::SetVhostLimits>(),
    entry::<limits::ClearVhostLimits>(),
    entry::<limits::SetUserLimits>(),
    entry::<limits::ClearUserLimits>(),
    entry::<parameters::SetParameter>(),
    entry::<parameters::ClearParameter>(),
    entry::<parameters::SetGlobalParameter>(),
    entry::<parameters::ClearGlobalParameter>(),
    entry::<queues::PurgeQueue>(),
    entry::<queues::DeleteQueue>(),
    entry::<queues::RetryDelayed>(),
    entry::<messages::GetMessages>(),
    entry::<super::deaths::Deaths>(),
    entry::<super::dead_letters::DeadLetterGroups>(),
    entry::<super::dead_letters::SetGroupNote>(),
    entry::<super::dead_letters::ClearGroupNote>(),
    entry::<super::dead_letters::DiscardMessage>(),
    entry::<super::explain::Explain>(),
    entry::<super::lint::Lint>(),
    entry::<super::graph::Graph>(),
    entry::<redrive::Redrive>(),
    entry::<redrive::RedriveStatus>(),
    entry::<redrive::PauseRedrive>(),
    entry::<redrive::ResumeRedrive>(),
    entry::<redrive::CancelRedrive>(),
    entry::<super::dead_letters::ExportMessages>(),
    entry::<super::dead_letters::ImportMessages>(),
    entry::<super::events::Events>(),
    entry::<connections::CloseConnection>(),
    entry::<connections::CloseAllConnections>(),
    entry::<connections::CloseAllUserConnections>(),
    entry::<definitions::ExportDefinitions>(),
    entry::<definitions::ImportDefinitions>(),
    entry::<status::Status>(),
    entry::<status::Overview>(),
    entry::<status::WhoAmI>(),
    entry::<process::Version>(),
    entry::<process::Environment>(),
    entry::<process::SetLogLevel>(),
    entry::<process::Report>(),
    entry::<status::Health>(),
    entry::<status::CheckRunning>(),
    entry::<status::CheckAlarms>(),
    entry::<status::CheckLocalAlarms>(),
    entry::<status::CheckPortListener>(),
    entry::<status::CheckProtocolListener>(),
    entry::<status::CheckCertificateExpiration>(),
    entry::<status::CheckVirtualHosts>(),
];

/// All commands of this module.
pub(super) fn commands() -> Vec<Command> {
    let plain = ENTRIES.iter().map(|entry| (entry.command)());
    let lists = listings::LISTINGS.iter().map(listings::command);
    let groups = [
        listings::group(),
        declare::declare_command(),
        declare::delete_command(),
        queues::purge_group(),
        definitions::group(),
    ];
    let all = plain.chain(lists).chain(groups);
    all.map(with_flags).map(with_other_spelling).collect()
}

/// Runs a command of this module; none if it is of another one.
pub(super) fn run(
    name: &str,
    before: &ArgMatches,
    behind: &ArgMatches,
) -> Option<Result<(), Failure>> {
    let doing: Doing = match name {
        "declare" => declare::declare,
        "delete" => declare::delete,
        "list" => listings::run_group,
        "purge" => queues::run_purge_group,
        "definitions" => definitions::run_group,
        _ => {
            if let Some(listing) = listings::find(name) {
                return Some(connected(before, behind, |api, out| {
                    listings::run(listing, behind, api, out)
                }));
            }
            ENTRIES.iter().find(|entry| entry.name == name)?.run
        }
    };
    Some(connected(before, behind, |api, out| {
        doing(behind, api, out)
    }))
}

/// The function of a command, with parsed arguments and the API.
type Doing = fn(&ArgMatches, &Api, Output) -> Result<(), Failure>;

fn connected(
    before: &ArgMatches,
    behind: &ArgMatches,
    doing: impl FnOnce(&Api, Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let flags = Flags::read(before, behind);
    let out = flags.output();
    doing(&Api::new(flags.settle(HTTP)?)?, out)
}

/// Adds the flags of the connection, to each command of a group.
fn with_flags(command: Command) -> Command {
    if command.has_subcommands() {
        Flags::of_group(command)
    } else {
        Flags::of(command)
    }
}

/// Accepts `set-policy` for `set_policy` as well.
pub(super) fn with_other_spelling(command: Command) -> Command {
    let other = command.get_name().replace('_', "-");
    if other == command.get_name() {
        command
    } else {
        command.alias(other)
    }
}

/// Adds examples behind the help of a command.
pub(super) fn described(command: Command, examples: &[&str]) -> Command {
    if examples.is_empty() {
        return command;
    }
    let lines: Vec<String> = examples
        .iter()
        .map(|line| format!("  coroner {line}"))
        .collect();
    command.after_help(format!("Examples:\n{}", lines.join("\n")))
}

/// Parses JSON from the command line.
fn parse_json(what: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(
            super::exit::FailureKind::Data,
            format!("{what} is not JSON: {error}"),
        )
        .advise("in a shell it stands in single quotes: '{\"max-length\": 10}'")
    })
}

/// Parses a JSON object from the command line.
pub(super) fn parse_object(what: &str, text: &str) -> Result<Value, Failure> {
    let value = parse_json(what, text)?;
    if value.is_object() {
        return Ok(value);
    }
    let what = format!("{what} is no JSON object: {value}");
    Err(Failure::new(super::exit::FailureKind::Data, what)
        .advise("it looks like '{\"max-length\": 10}'"))
}

/// Confirms what was done, with the warnings of the answer.
fn confirm(out: Output, answer: &Value, text: impl std::fmt::Display) -> Result<(), Failure> {
    out.done(text)?;
    for warning in answer
        .get("warnings")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let text = warning
            .as_str()
            .map_or_else(|| warning.to_string(), str::to_owned);
        super::complain(&format_args!(
            "warning: {}",
            super::output::printable(&text)
        ));
    }
    Ok(())
}
