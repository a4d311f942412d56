//! The command `store`: inspects the data directory of a stopped broker.

mod findings;
mod look;

use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};

use self::look::LookError;
use super::{EXIT_FAILURE, EXIT_USAGE, complain, output};
use crate::store::{Depth, FileDisk, Missing, StoreError, has_store};

/// Exit code of a check that found damage: `EX_DATAERR` of sysexits.
const EXIT_DAMAGE: u8 = 65;

const EXIT_CODES: &str = "Exit codes: 0 nothing is damaged, 65 something is, 1 the directory cannot be \
looked at (in use, not there, without a store, written by a newer version), 64 bad usage.";

/// The command `store` with its options.
pub(super) fn command() -> Command {
    let directory = || {
        Arg::new("directory")
            .value_name("DIR")
            .required(true)
            .help("The data directory; no broker may be using it")
    };
    let format = || {
        Arg::new("format")
            .long("format")
            .value_name("FORMAT")
            .value_parser(["text", "json"])
            .default_value("text")
            .help("What to print: lines for people, or one JSON object")
    };
    Command::new("store")
        .about("Looks at the data directory of a stopped broker; changes nothing in it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("info")
                .about("Lists vhosts and queues, and segments with what is live in them")
                .arg(directory())
                .arg(format()),
        )
        .subcommand(
            Command::new("check")
                .about(
                    "Reads every byte and every message; says what is damaged and what a start \
                     would do",
                )
                .after_help(EXIT_CODES)
                .arg(directory())
                .arg(format()),
        )
}

/// Runs the command `store`.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let Some((name, matches)) = matches.subcommand() else {
        return EXIT_USAGE.into();
    };
    let Some(directory) = matches.get_one::<String>("directory") else {
        return EXIT_USAGE.into();
    };
    let is_check = name == "check";
    let depth = if is_check {
        Depth::Everything
    } else {
        Depth::Start
    };
    // A check that finds nothing damaged is trusted: a wrong path must not pass for one.
    if matches!(has_store(Path::new(directory)), Ok(false)) {
        complain(&format_args!(
            "data directory {directory}: there is no store in it; is it the one that 'coroner serve \
             --data' was given?"
        ));
        return EXIT_FAILURE.into();
    }
    let disk = FileDisk::enter(Path::new(directory), Missing::Refuse).map_err(StoreError::from);
    let findings = match disk
        .map_err(LookError::from)
        .and_then(|disk| look::look(&disk, depth))
    {
        Ok(findings) => findings,
        Err(error) => {
            match error {
                LookError::Newer { .. }
                | LookError::Store(
                    StoreError::NewerVersion { .. } | StoreError::OfCluster { .. },
                ) => {
                    complain(&format_args!("data directory {directory}: {error}"));
                }
                LookError::Store(error) => complain(&error),
            }
            return EXIT_FAILURE.into();
        }
    };
    let format = matches.get_one::<String>("format");
    let text = match format.map(String::as_str) {
        Some("json") => output::printable_json(&findings.json()),
        _ if is_check => findings.check(),
        _ => findings.info(),
    };
    if let Err(failure) = output::print(&text) {
        complain(&failure);
        return failure.exit_code();
    }
    if is_check && findings.is_damaged() {
        return EXIT_DAMAGE.into();
    }
    ExitCode::SUCCESS
}
