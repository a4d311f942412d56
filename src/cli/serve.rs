//! The command `serve`: loads settings from file, environment and flags; then runs the server.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ExitCode};

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config::{self, ConfigError, Given, HEADINGS, Key, SettingSyntax, Settings, TABLE};

use super::{EXIT_USAGE, complain};

/// The environment variable for how long the allocator keeps freed memory before it is returned to
/// the system, in milliseconds; the default is a second. The allocator reads it once, before
/// `main`.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";
/// Memory budget, in bytes, below which the memory freed within a second is more than the budget.
/// No budget, 0, is not small.
const SMALL_BUDGET_BYTES: u64 = 32 * 1024 * 1024;
/// The delay with such a budget.
const SMALL_BUDGET_PURGE_DELAY: &str = "10";

/// The `serve` command with one flag for each setting.
pub(super) fn command() -> Command {
    let defaults = config::default_texts();
    let mut command = Command::new("serve")
        .about("Runs a broker until SIGTERM or Ctrl-C")
        .long_about(
            "Runs a broker until SIGTERM or Ctrl-C.\n\n\
             Every setting can also stand in the configuration file under the name of its flag \
             (max-frame-size = \"64KiB\") and in the environment (CORONER_MAX_FRAME_SIZE=64KiB). \
             A flag wins over the environment, the environment over the file.\n\n\
             In the environment commas separate the items of a list; an item with a comma in it \
             goes into a numbered variable (CORONER_USER_1) or a JSON array. A variable that ends in \
             _FILE (CORONER_USER_FILE) names a file with the value, a list with one item a line. \
             Sizes are bytes, or as 512MB (1,000s), 1GiB (1,024s) or, of memory, 40%; times as 500ms, \
             1m30s, 12h or 60d.",
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .env("CORONER_CONFIG")
                .hide_env_values(true)
                .help("Reads settings from this TOML file"),
        );
    for key in TABLE {
        if let Some((heading, _)) = HEADINGS.iter().find(|(_, first)| *first == key.name) {
            command = command.next_help_heading(*heading);
        }
        command = command.arg(flag(key, &defaults));
    }
    command
}

fn flag(key: &'static Key, defaults: &[(String, String)]) -> Arg {
    let default = defaults
        .iter()
        .find(|(name, _)| name == key.name)
        .map(|(_, text)| text);
    let shown = default
        .filter(|text| !text.is_empty())
        .map_or("none", String::as_str);
    let help = format!("{} [default: {shown}] [env: {}]", key.help, key.variable());
    let arg = Arg::new(key.name)
        .long(key.name)
        .value_name(key.value_name)
        .help(StyledStr::from(help));
    match key.shape {
        SettingSyntax::List => arg.action(ArgAction::Append),
        SettingSyntax::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        SettingSyntax::Text | SettingSyntax::Integer => arg.allow_hyphen_values(true),
    }
}

/// The settings, and warnings about the environment.
fn settings(matches: &ArgMatches) -> Result<(Settings, Vec<String>), ConfigError> {
    let mut layers = Vec::new();
    if let Some(path) = matches.get_one::<String>("config") {
        layers.extend(config::from_file(path)?);
    }
    let environment = config::from_environment(std::env::vars_os())?;
    layers.extend(environment.given);
    layers.extend(TABLE.iter().filter_map(|key| flag_given(key, matches)));
    let settings = config::load(layers.iter().cloned())?;
    if settings.in_memory || settings.data.is_some() {
        return Ok((settings, environment.warnings));
    }
    layers.push(config::from_state_directory(std::env::vars_os())?);
    Ok((config::load(layers)?, environment.warnings))
}

fn flag_given(key: &'static Key, matches: &ArgMatches) -> Option<Given> {
    let texts: Vec<String> = matches.get_many::<String>(key.name)?.cloned().collect();
    Some(config::from_flag(key, texts))
}

/// Executes the program again, as the same process, with an allocator that keeps little freed
/// memory, if a small memory budget asks for it. Returns if it does not, or if that fails.
fn save_memory(settings: &Settings) {
    if !is_small(settings) || std::env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let (Ok(program), mut arguments) = (std::env::current_exe(), std::env::args_os()) else {
        return;
    };
    let mut command = process::Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command
        .args(arguments)
        .env(PURGE_DELAY, SMALL_BUDGET_PURGE_DELAY);
    let error = command.exec();
    tracing::debug!(%error, "the allocator keeps what is freed for a second");
}

fn is_small(settings: &Settings) -> bool {
    (1..SMALL_BUDGET_BYTES).contains(&settings.memory_budget.0)
}

/// Runs the command `serve`.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let (settings, warnings) = match settings(matches) {
        Ok(found) => found,
        Err(error) => {
            complain(&error);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let config = matches.get_one::<String>("config");
    // Input from a pipe cannot be read twice.
    if config.is_none_or(|path| Path::new(path).is_file()) {
        save_memory(&settings);
    }
    let load = || self::settings(matches).map(|(settings, _)| settings);
    crate::server::run(settings, &warnings, load).unwrap_or_else(|error| {
        complain(&error);
        error.exit_code()
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::config::ByteSize;

    #[rstest]
    #[case::all_stays_in_memory(0, false)]
    #[case::one_byte(1, true)]
    #[case::just_below(SMALL_BUDGET_BYTES - 1, true)]
    #[case::enough(SMALL_BUDGET_BYTES, false)]
    fn only_a_small_memory_budget_begins_the_program_anew(#[case] bytes: u64, #[case] anew: bool) {
        let settings = Settings {
            memory_budget: ByteSize(bytes),
            ..Settings::default()
        };
        assert_eq!(is_small(&settings), anew);
    }
}
