//! `coroner serve`: settings from file, environment and flags; then the server.

use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config::{self, ConfigError, Given, Key, Settings, Shape, TABLE};

use super::{EXIT_USAGE, complain};

/// The `serve` command with one flag for each setting.
pub(super) fn command() -> Command {
    let defaults = config::default_texts();
    let mut command = Command::new("serve")
        .about("Runs a broker until SIGTERM or Ctrl-C")
        .long_about(
            "Runs a broker until SIGTERM or Ctrl-C.\n\n\
             Every setting can also stand in the configuration file under the name of its flag \
             (max-frame-size = \"64KiB\") and in the environment (CORONER_MAX_FRAME_SIZE=64KiB; \
             commas separate the items of a list). A flag wins over the environment, the \
             environment over the file.",
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
        Shape::List => arg.action(ArgAction::Append),
        Shape::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        Shape::Text | Shape::Integer => arg.allow_hyphen_values(true),
    }
}

fn settings(matches: &ArgMatches) -> Result<Settings, ConfigError> {
    let mut layers = Vec::new();
    if let Some(path) = matches.get_one::<String>("config") {
        layers.extend(config::from_file(path)?);
    }
    layers.extend(config::from_environment(std::env::vars())?);
    layers.extend(TABLE.iter().filter_map(|key| flag_given(key, matches)));
    let settings = config::load(layers.iter().cloned())?;
    if settings.in_memory || settings.data.is_some() {
        return Ok(settings);
    }
    layers.push(config::from_state_directory(std::env::vars())?);
    config::load(layers)
}

fn flag_given(key: &'static Key, matches: &ArgMatches) -> Option<Given> {
    let texts: Vec<String> = matches.get_many::<String>(key.name)?.cloned().collect();
    Some(config::from_flag(key, texts))
}

/// Runs the command.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let settings = match settings(matches) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&error);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let load = || self::settings(matches);
    crate::server::run(settings, load).unwrap_or_else(|error| {
        complain(&error);
        error.exit_code()
    })
}
